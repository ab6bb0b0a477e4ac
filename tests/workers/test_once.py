"""A process for one call: what it imports."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from xbackend.workers import once

PROBE = """
import json, numpy, runpy

def main(asked):
    with open(json.loads(asked)["path"], "w") as file:
        file.write(numpy.__file__ + " " + runpy.__file__)
"""


def test_files_of_the_current_folder_shadow_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, here = tmp_path / "package", tmp_path / "here"
    (package / "workers").mkdir(parents=True)
    here.mkdir()
    shutil.copy(once.PACKAGE / "workers" / "bootstrap.py", package / "workers")
    (package / "__init__.py").write_text("")
    (package / "probe.py").write_text(PROBE)
    for name in ("numpy", "runpy"):
        (here / f"{name}.py").write_text("raise SystemExit('the one of the current folder')")
    monkeypatch.setattr(once, "PACKAGE", package)
    monkeypatch.chdir(here)
    once.run(Path(sys.executable), "xbackend.probe", {"path": str(tmp_path / "said")})
    assert str(here) not in (tmp_path / "said").read_text()
