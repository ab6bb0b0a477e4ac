"""The tests' compiler does as the real one, with the headers compiled once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import precompiled
import pytest

pytestmark = pytest.mark.tier("standard")

MODULE = '#include <Python.h>\n#include <numpy/arrayobject.h>\nextern "C" int answer() { return ANSWER; }\n'
OPTIONS = ["-shared", "-fPIC", "-O1", "-DANSWER=42", "-I" + sysconfig.get_paths()["include"], "-I" + np.get_include()]


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(precompiled.KEPT, str(tmp_path / "kept"))
    folder = tmp_path / "compiler"
    folder.mkdir()
    precompiled.install(folder)
    (tmp_path / "mod.cpp").write_text(MODULE)
    return folder / "g++"


def built(compiler: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compile the module. With ``-H`` the compiler lists its headers, a precompiled one with a ``!``."""
    command = [str(compiler), *options, "-H", "-o", "module.so", "mod.cpp"]
    return subprocess.run(command, cwd=compiler.parents[1], capture_output=True, text=True, check=False)


@pytest.mark.tier("exhaustive")
def test_the_headers_are_compiled_at_the_second_use_of_the_same_options(compiler: Path) -> None:
    first, second, third = (built(compiler, *OPTIONS, f"-Wl,--defsym=number={n}") for n in range(3))
    assert not any(done.returncode for done in (first, second, third)), second.stderr
    assert "module.h.gch" not in first.stderr
    for done in second, third:
        assert any(line.startswith("! ") and line.endswith("module.h.gch") for line in done.stderr.splitlines())
    assert "module.h.gch" not in built(compiler, *OPTIONS, "-O2").stderr  # other options, another header


@pytest.mark.tier("exhaustive")
def test_errors_and_what_is_no_module_are_the_real_compilers(compiler: Path) -> None:
    real = shutil.which("g++")
    assert real is not None
    version = ["-dumpfullversion"]
    ours, theirs = (subprocess.run([c, *version], capture_output=True, check=True).stdout for c in (compiler, real))
    assert ours == theirs
    for _ in range(3):
        failed = built(compiler, *OPTIONS, "-DPyObject=;")
        assert failed.returncode == 1 and "error" in failed.stderr  # the header fails with it too, and is not used
    assert not list(compiler.parent.rglob("*.gch"))


def test_a_module_is_compiled_once_wherever_the_environment_lies(compiler: Path, tmp_path: Path) -> None:
    def run(home: str, *more: str) -> tuple[bool, bytes]:
        done = built(compiler, *OPTIONS, f"-I{tmp_path}/{home}/environments/theano-3.11-0123/include", *more)
        assert done.returncode == 0, done.stderr
        return not done.stderr, (tmp_path / "module.so").read_bytes()  # -H lists the headers on standard error

    copied, first = run("home")
    assert not copied
    (tmp_path / "module.so").unlink()
    assert run("home") == (True, first)
    assert run("elsewhere") == (True, first)
    assert not run("home", "-DMORE")[0], "other options"
    assert not run("home", f"-L{tmp_path}/home/environments/theano-3.11-0123/lib")[0]
    assert not run("elsewhere", f"-L{tmp_path}/elsewhere/environments/theano-3.11-0123/lib")[0], "a path of this home"
    (tmp_path / "mod.cpp").write_text(MODULE.replace("answer", "question"))
    assert not run("home")[0], "another source"


def test_what_others_can_write_to_is_not_used(compiler: Path, tmp_path: Path) -> None:
    built(compiler, *OPTIONS)
    assert built(compiler, *OPTIONS).stderr == ""
    (tmp_path / "kept").chmod(0o777)
    assert built(compiler, *OPTIONS).stderr != ""


def test_what_was_not_used_for_longest_goes_first(compiler: Path, tmp_path: Path) -> None:
    for n, seconds in enumerate((30, 10, 20)):
        file = tmp_path / "kept" / f"{n}.so"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x" * 100)
        file.parent.chmod(0o700)
        os.utime(file, (1e9 - seconds, 1e9 - seconds))
    precompiled.make_room(most=200)
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == ["1.so", "2.so"]
