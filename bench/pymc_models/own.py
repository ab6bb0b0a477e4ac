"""In PyMC's interpreter: the program of a model, points, and PyTensor's own numbers there."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pymc
import pytensor

import xbackend as xb
from xbackend.bring.lineage.pymc import log_density

MOVED = (0.0, 0.1, 0.3)  # standard deviations of the numbers added to the initial point
STEP = 2.0**-52  # a relative change of the free numbers by as little as float64 has


def write(file: Path, folder: Path) -> None:
    """Write the program of a model as ``program.json``. ``own.npz`` has for each point k: ``point{k}``, the log-density
    ``own{k}``, its gradient ``slopes{k}``, and ``near{k}``, by how much changes of the last digit move the gradient.
    ``slopes{k}`` and ``near{k}`` are left out for models with whole numbers."""
    made = runpy.run_path(str(file))["build_model"]()
    model, point = made if isinstance(made, tuple) else (made, None)
    program, logp, theta, start = log_density(model, point, "stabilize", file.stem)
    (folder / "program.json").write_text(program.to_json())
    whole = not all("float" in one.type.dtype for one in model.value_vars)
    logp = pymc.pytensorf.rewrite_pregrad(logp)
    outputs = [logp, *([] if whole else [pytensor.tensor.grad(logp, theta)])]
    try:
        own = pymc.pytensorf.compile([theta], outputs, mode="FAST_COMPILE")
        own(start)
    except NotImplementedError:  # an elementwise op of more than 32 operands, in Python
        own = pymc.pytensorf.compile([theta], outputs)
    generator = np.random.default_rng(0)
    held: dict[str, Any] = {}
    for k, scale in enumerate(MOVED):
        moved = 0.0 if whole else scale * generator.normal(size=start.shape)
        held[f"point{k}"] = at = np.asarray(start + moved, start.dtype)
        held[f"own{k}"], *slopes = own(at)
        if slopes:
            held[f"slopes{k}"] = slopes[0]
            near = own(at * (1 + STEP * generator.choice([-1.0, 1.0], at.shape)))[1]
            held[f"near{k}"] = xb.workloads.relative_error(near, slopes[0])
    np.savez(folder / "own.npz", **held)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
