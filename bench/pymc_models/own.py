"""In PyMC's interpreter: the program of a model, points, and what PyTensor computes there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pymc
import pytensor
from pymc.blocking import DictToArrayBijection
from pymc.model.transform.optimization import freeze_dims_and_data
from pymc.pytensorf import join_nonshared_inputs

import xbackend as xb
from pymc_models.differences import off

MOVED = (0.0, 0.1, 0.3)  # the standard deviation of what is added to the initial point
STEP = 2.0**-52  # a relative change of the free numbers by as little as float64 has


def brought(file: Path, folder: Path) -> None:
    """Write the program of a model, points, and what PyTensor computes there."""
    module: dict[str, Any] = {"__name__": file.stem, "__file__": str(file)}
    exec(compile(file.read_text(), file, "exec"), module)
    made = module["build_model"]()
    model, point = made if isinstance(made, tuple) else (made, None)
    point = model.initial_point() if point is None else point
    (folder / "program.json").write_text(xb.from_pymc(model, point).to_json())
    frozen = freeze_dims_and_data(model)
    variables = frozen.value_vars
    (logp,), theta = join_nonshared_inputs(point=point, outputs=[frozen.logp()], inputs=variables)
    start = DictToArrayBijection.map({one.name: point[one.name] for one in variables}).data
    whole = not all("float" in one.type.dtype for one in variables)
    logp = pymc.pytensorf.rewrite_pregrad(logp)
    outputs = [logp, *([] if whole else [pytensor.tensor.grad(logp, theta)])]
    try:
        own = pymc.pytensorf.compile([theta], outputs, mode="FAST_COMPILE")
        own(np.asarray(start, theta.type.dtype))
    except NotImplementedError:  # an elementwise op of more than 32 operands, in Python
        own = pymc.pytensorf.compile([theta], outputs)
    generator = np.random.default_rng(0)
    held: dict[str, Any] = {}
    for k, scale in enumerate(MOVED):
        moved = 0.0 if whole else scale * generator.normal(size=start.shape)
        held[f"point{k}"] = at = np.asarray(start + moved, theta.type.dtype)
        held[f"own{k}"], *slopes = own(at)
        if slopes:
            held[f"slopes{k}"] = slopes[0]
            # What the last digit of the free numbers moves the gradient by: it is determined no better than that.
            near = own(at * (1 + STEP * generator.choice([-1.0, 1.0], at.shape)))[1]
            held[f"near{k}"] = off(near, slopes[0])
    np.savez(folder / "own.npz", **held)


if __name__ == "__main__":
    brought(Path(sys.argv[1]), Path(sys.argv[2]))
