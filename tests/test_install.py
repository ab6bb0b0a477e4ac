"""Installed as a user does: from a wheel, in a fresh virtual environment, with or without a framework."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import tiers
from uv import find_uv_bin

from xbackend.backends import registry

pytestmark = pytest.mark.tier("standard")

ROOT = Path(__file__).parent.parent

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


def call(*command: object, cwd: Path | None = None, limit: float = 900) -> str:
    """Standard output of a command, which must succeed."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=limit, cwd=cwd, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a wheel, built from a copy without stray files of the working tree."""
    source = tmp_path_factory.mktemp("source") / "xbackend"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "xbackend", source / "xbackend", ignore=shutil.ignore_patterns("__pycache__"))
    call(find_uv_bin(), "build", "--wheel", "--out-dir", source / "dist", source)
    (built,) = (source / "dist").glob("*.whl")
    return built


def test_what_is_no_python_is_in_the_wheel(wheel: Path) -> None:
    files = [path for path in (ROOT / "xbackend").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    data = {path.relative_to(ROOT).as_posix() for path in files}
    assert {"xbackend/report/written/templates/page.css", "xbackend/environments/requirements/numpy.txt"} < data
    assert data <= set(ZipFile(wheel).namelist())


def fresh(folder: Path, wheel: Path, extra: str = "") -> Path:
    """The Python of a fresh virtual environment with xbackend."""
    uv = find_uv_bin()
    call(uv, "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    call(uv, "pip", "install", "--quiet", "--python", python, f"{wheel}{extra}")
    return python


FIRST = {entry.environment: entry for entry in reversed(list(registry.entries()))}


QUICK = {registry.get(name).environment for name in tiers.QUICK[::2]}  # the oracle and one framework


@pytest.mark.parametrize(
    "environment",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.tier("exhaustive")) for name in FIRST],
)
def test_in_the_users_own_interpreter(environment: str, wheel: Path, tmp_path: Path) -> None:
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


def test_without_a_framework_a_worker_is_used(wheel: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "venv", wheel)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    output = call(python, script, "numpy", cwd=tmp_path)
    assert "class RemoteBackend" in output
    assert "losses 10.0 72.0" in output
    assert "xbackend" in call(tmp_path / "venv" / "bin" / "xbackend", "--version", cwd=tmp_path)
