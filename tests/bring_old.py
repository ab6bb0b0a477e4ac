"""`python bring_old.py FOLDER KIND` imports the graphs of `old_theano.py` or `old_tensorflow.py` in one process. KIND
``contexts`` is Theano with contexts of PoCL's devices."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
from bring_helpers import Brought, write

from xbackend.bring.kinds import KINDS

A, B = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[1, 2], [3, 4], [5, 6]])
ROWS = np.arange(1, 13).reshape(4, 3)
SQUARE = np.random.default_rng(0).uniform(0, 0.5, (4, 4)).astype(np.float32)
IMAGES, LABELS = np.random.default_rng(2).normal(size=(2, 5, 3)).astype(np.float32), np.arange(10).reshape(2, 5) % 3
TARGET = np.sin(ROWS[:, :2])
FED = {
    **{name: [SQUARE, SQUARE.T] for name in ("powers", "single", "multi")},
    "model_parallel": [ROWS / 12, TARGET],
    **{name: [IMAGES[0], LABELS[0], IMAGES[1], LABELS[1]] for name in ("towers", "epochs")},
    "accuracy": [IMAGES[0], LABELS[0]],
}
OF_THEANO = {"two_products": [A, B], "replicated": [ROWS]}  # TensorFlow's graphs have constants instead
NAMES = ("product", "default_product", "two_products", "powers", "single", "multi", "doubled", "model_parallel")
NAMES += ("replicated", "towers")
TRAINED = ("epochs", "accuracy")  # TensorFlow only


def register_contexts() -> None:
    """Open contexts on devices, as Theano does by the script's flags on a machine with GPUs."""
    os.environ["THEANO_FLAGS"] = "blas.ldflags=,floatX=float32"
    sys.modules["theano.scan_module.scan_perform_ext"] = None  # type: ignore[assignment]
    contexts = import_module("xbackend.backends.gpuarray.contexts")
    contexts.prepare("theano-gpuarray", 2, None)
    theano, gpuarray = import_module("theano"), import_module("theano.gpuarray")
    for name, device in zip(("dev0", "dev1"), contexts._pocl("theano-gpuarray", 2).values(), strict=True):
        gpuarray.init_dev(device, name, preallocate=0)
    theano.compile.shared_constructor(gpuarray.gpuarray_shared_constructor)
    theano.config.cxx = ""  # functions are called once


def main(folder: Path, name: str) -> None:
    if name == "contexts":
        register_contexts()
        name = "theano"
    else:
        import_module(f"xbackend.bring.{KINDS[name].prepared}").prepare()
    kind = KINDS[name]
    bring = import_module(f"xbackend.bring.{kind.module}").brought
    script = import_module(f"old_{name}")
    fed = {**FED, **(OF_THEANO if name == "theano" else {})}
    for one in (*NAMES, *TRAINED) if name == "tensorflow" else NAMES:
        origin = bring(getattr(script, one), fed.get(one, []), one, np.random.default_rng(0), **kind.options)
        results, inputs = list(origin.results), list(origin.inputs)
        write(folder, one, Brought(origin.program.to_json(), inputs, results, [None] * len(results), [], []))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
