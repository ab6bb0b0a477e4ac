"""Source distribution and wheel of the project, and fresh virtual environments with them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).parent.parent


def call(*command: object, cwd: Path | None = None, limit: float = 900) -> str:
    """Standard output of a command, which must succeed."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=limit, cwd=cwd, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def tracked() -> list[str]:
    """The files of the project, those of the package that are not yet committed too."""
    listed = call("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files by their ending, ``.whl`` (made of the source distribution) and ``.gz``, built from a clean copy."""
    source = tmp_path_factory.mktemp("source") / "xbackend"
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    call(find_uv_bin(), "build", "--quiet", "--no-config", "--out-dir", source / "dist", source)
    found = {path.suffix: path for path in (source / "dist").glob("xbackend-*")}
    assert {*found} == {".whl", ".gz"}
    return found


@pytest.fixture(scope="session")
def wheel(built: dict[str, Path]) -> Path:
    return built[".whl"]


def fresh(folder: Path, wheel: Path, extra: str = "", *more: str, python: str = sys.executable) -> Path:
    """The Python of a fresh virtual environment with xbackend, and ``more`` packages."""
    uv = find_uv_bin()
    call(uv, "venv", "--quiet", "--python", python, folder)
    made = folder / "bin" / "python"
    call(uv, "pip", "install", "--quiet", "--python", made, f"{wheel}{extra}", *more)
    return made
