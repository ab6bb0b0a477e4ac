"""The compiler that the tests have: what it is asked for is what the real one does, with the headers compiled once."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import precompiled
import pytest

MODULE = '#include <Python.h>\n#include <numpy/arrayobject.h>\nextern "C" int answer() { return ANSWER; }\n'
OPTIONS = ["-shared", "-fPIC", "-O1", "-DANSWER=42", "-I" + sysconfig.get_paths()["include"], "-I" + np.get_include()]


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    folder = tmp_path / "compiler"
    folder.mkdir()
    precompiled.install(folder)
    (tmp_path / "mod.cpp").write_text(MODULE)
    return folder / "g++"


def built(compiler: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compile the module; with ``-H`` the compiler lists the headers that it takes, a precompiled one with a ``!``."""
    command = [str(compiler), *options, "-H", "-o", "module.so", "mod.cpp"]
    return subprocess.run(command, cwd=compiler.parents[1], capture_output=True, text=True, check=False)


def test_the_headers_are_compiled_at_the_second_use_of_the_same_options(compiler: Path) -> None:
    first, second, third = (built(compiler, *OPTIONS) for _ in range(3))
    assert not any(done.returncode for done in (first, second, third)), second.stderr
    assert "module.h.gch" not in first.stderr
    for done in second, third:
        assert any(line.startswith("! ") and line.endswith("module.h.gch") for line in done.stderr.splitlines())
    assert "module.h.gch" not in built(compiler, *OPTIONS, "-O2").stderr  # others are others


def test_errors_and_what_is_no_module_are_the_real_compilers(compiler: Path) -> None:
    real = shutil.which("g++")
    assert real is not None
    version = ["-dumpfullversion"]
    ours, theirs = (subprocess.run([c, *version], capture_output=True, check=True).stdout for c in (compiler, real))
    assert ours == theirs
    for _ in range(3):
        failed = built(compiler, *OPTIONS, "-DPyObject=;")
        assert failed.returncode == 1 and "error" in failed.stderr  # the header too fails with it, and is left out
    assert not list(compiler.parent.rglob("*.gch"))
