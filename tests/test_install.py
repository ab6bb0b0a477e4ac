"""Installed as a user does: from a wheel, in a fresh virtual environment, with a framework."""

from __future__ import annotations

from pathlib import Path

import pytest
import uv
from packages import built, call, fresh, wheel  # noqa: F401 (fixtures)

from xbackend.backends import registry
from xbackend.environments.recipes import RECIPES, REQUIREMENTS

pytestmark = pytest.mark.tier("standard")

SCRIPT = """
import os, sys
import numpy as np
import xbackend as xb

w = xb.shared(np.ones((2, 2), np.float32), name="w")

def step(x):
    loss = xb.sum((x @ w) ** 2)
    xb.update(w, w - 0.5 * xb.grad(loss, w))
    return loss

x = np.array([[1, 0], [0, 2]], np.float32)
with xb.open(sys.argv[1]) as backend:
    print("class", type(backend).__name__)
    run = backend.compile(step, x)
    print("losses", float(run(x)), float(run(x)))
    print("w", backend.get_value(w).tolist())
"""


FIRST = {entry.environment: entry for entry in reversed(list(registry.entries()))}


@pytest.mark.tier("standard")
@pytest.mark.parametrize(
    "environment",
    [pytest.param(name, marks=[pytest.mark.tier("exhaustive")] * (name != "numpy")) for name in FIRST],
)
def test_in_the_users_own_interpreter(environment: str, wheel: Path, tmp_path: Path) -> None:  # noqa: F811
    """``pip install 'xbackend[framework]'`` and a script: it runs in this interpreter, not in a worker."""
    entry = FIRST[environment]
    python = fresh(tmp_path / "venv", wheel, f"[{environment}]")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    output = call(python, script, entry.name, cwd=tmp_path)
    assert f"class {entry.adapter.rpartition(':')[2]}" in output
    # loss = |x w|^2 = 10; dL/dw = 2 x^T x w = [[2,2],[8,8]]; w = [[0,0],[-3,-3]]; the next loss is 2 * 36 = 72.
    assert "losses 10.0 72.0" in output
    assert "w [[0.0, 0.0], [9.0, 9.0]]" in output


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("lock", sorted(one.name for one in REQUIREMENTS.glob("*.txt")))
def test_each_locked_package_has_a_wheel_for_the_newest_python(lock: str, tmp_path: Path) -> None:
    """The index is asked, and nothing is installed."""
    recipe = RECIPES[Path(lock).stem.partition("+")[0]]
    number = ".".join(str(part) for part in recipe.newest_python)
    resolves = [uv.find_uv_bin(), "pip", "install", "--dry-run", "--require-hashes", *recipe.building]
    call(*resolves, "--python-version", number, "--target", tmp_path, "-r", REQUIREMENTS / lock)
