"""Programs as files of ONNX, checked and evaluated by the reference evaluator of the package `onnx`, in one process of
its environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.program.serialization import to_json
from xbackend.workers import once

ROOT = Path(__file__).parent.parent
# `model_of` checks the files. The evaluator has two operators that are no reference:
# - Erf computes in float32: https://github.com/onnx/onnx/blob/main/onnx/reference/ops/op_erf.py
# - GatherElements calls `np.choose`, which chooses among 64 at most:
#   https://github.com/onnx/onnx/blob/main/onnx/reference/ops/op_gather_elements.py
RUNNER = """
import math, sys, traceback
from pathlib import Path
import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.onnx.file import model_of

class Erf(OpRun):
    op_domain = ""
    def _run(self, x):
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)

class GatherElements(OpRun):
    op_domain = ""
    def _run(self, x, indices, axis=None):
        return (np.take_along_axis(x, indices, axis),)

np.seterr(all="ignore")
for folder in map(Path, sys.argv[1:]):
    try:
        model = model_of(TracedProgram.from_json((folder / "program.json").read_text()))
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        with np.load(folder / "inputs.npz") as arrays:
            given = {name: arrays[name] for name in arrays.files}
        found = ReferenceEvaluator(model, new_ops=[Erf, GatherElements]).run(None, given)
        np.savez(folder / "results.npz", **{f"r{i}": np.asarray(one) for i, one in enumerate(found)})
    except Exception:
        (folder / "error").write_text(traceback.format_exc())
"""


def evaluated(programs: Mapping[str, tuple[Any, Sequence[np.ndarray]]], folder: Path) -> dict[str, Any]:
    """For each program with its inputs: the results, then the new values of its state; or the text of an error."""
    for name, (program, inputs) in programs.items():
        (folder / name).mkdir()
        (folder / name / "program.json").write_text(to_json(program))
        names = [program.values[i].params["name"] for i in program.inputs]
        np.savez(folder / name / "inputs.npz", **dict(zip(names, inputs, strict=True)))
    folders = [str(folder / name) for name in programs]
    subprocess.run(
        [str(once.made("onnx", lambda _: None)), "-c", RUNNER, *folders],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=600,
    )
    return {name: _read(folder / name) for name in programs}


def _read(folder: Path) -> Any:
    if (folder / "error").exists():
        return (folder / "error").read_text()
    with np.load(folder / "results.npz") as arrays:
        return [arrays[f"r{i}"] for i in range(len(arrays.files))]
