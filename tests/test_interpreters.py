"""The Python of an environment: this machine's newest that its lock covers, or the one asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xbackend.environments import interpreters, recipes
from xbackend.environments.interpreters import VARIABLE, Interpreter
from xbackend.errors import EnvironmentFailed

RUNNING = sys.version_info[:2]


@pytest.fixture(autouse=True)
def nothing_asked_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    forget = interpreters.find.cache_clear
    forget()
    yield
    forget()


def python(path: Path, version: tuple[int, int], status: int = 0) -> Path:
    """A script that answers as a Python of that version, or ends with a status."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho \'[[{version[0]}, {version[1]}], "{path}", "/nowhere"]\'\nexit {status}\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Python but the running one."""
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin-that-is-not-there")
    return tmp_path


def test_the_running_one_is_found_with_its_headers_folder(machine: Path) -> None:
    found = interpreters.find(RUNNING)
    assert found is not None and found.version == RUNNING
    said = subprocess.check_output([found.path, "-c", "import sys; print(sys.prefix == sys.base_prefix)"], text=True)
    assert said.strip() == "True", "that of a virtual environment may be deleted before ours is"
    assert Path(found.include).name.startswith("python3")


def test_the_path_then_pyenv_then_uv_are_searched_the_newest_patch_first(machine: Path) -> None:
    wanted = (3, 98)
    assert interpreters.find(wanted) is None
    managed = python(machine / "UV_PYTHON_INSTALL_DIR/cpython-3.98.1-linux/bin/python3.98", wanted)
    pyenv = [python(machine / f"PYENV_ROOT/versions/3.98.{n}/bin/python3.98", wanted) for n in (9, 10)]
    shim = python(machine / "shims/python3.98", wanted)
    os.environ["PATH"] = f"{shim.parent}{os.pathsep}{os.environ['PATH']}"
    on_path = python(machine / "bin/python3.98", wanted)
    for expected in (on_path, pyenv[1], pyenv[0], managed):
        interpreters.find.cache_clear()
        assert interpreters.find(wanted) == Interpreter(wanted, str(expected), "/nowhere")
        expected.unlink()
    interpreters.find.cache_clear()
    assert interpreters.find(wanted) is None, "the shims of pyenv refuse, and are not asked"


@pytest.mark.parametrize("wrong", ["fails", "other version", "says nothing", "not executable", "hangs up"])
def test_what_is_no_python_of_that_version_is_passed_over(machine: Path, wrong: str) -> None:
    wanted = (3, 97)
    first = python(machine / "bin/python3.97", (3, 96) if wrong == "other version" else wanted, int(wrong == "fails"))
    if wrong in ("says nothing", "hangs up"):
        first.write_text("#!/bin/sh\n" + ("kill -9 $$" if wrong == "hangs up" else "echo Python"))
    if wrong == "not executable":
        first.chmod(0o644)
    behind = python(machine / "PYENV_ROOT/versions/3.97.0/bin/python3.97", wanted)
    found = interpreters.find(wanted)
    assert found is not None and found.path == str(behind)


def test_folders_of_somebody_else_are_passed_over(machine: Path) -> None:
    """As where a teacher made the environments: the variables of a shell may name a folder of root's."""
    closed = machine / "PYENV_ROOT"
    (closed / "versions").mkdir(parents=True)
    closed.chmod(0)
    root = os.geteuid() == 0  # root may read everything
    if root:
        os.seteuid(65534)
    try:
        assert interpreters.find((3, 94)) is None
    finally:
        if root:
            os.seteuid(0)
        closed.chmod(0o700)


def test_the_newest_that_is_covered_is_taken_whatever_runs_xbackend(machine: Path) -> None:
    for minor in (12, 14, 98):
        python(machine / f"bin/python3.{minor}", (3, minor))
    newest = [str(p) for p in interpreters.choices((3, 97))]
    assert newest[0] == "3.14" and "3.12" in newest and "3.98" not in newest
    assert recipes.recipe("numpy").python_version == "3.14"
    assert recipes.recipe("tensorflow").python_version == "3.12" if RUNNING < (3, 12) else "3.13"
    assert recipes.recipe("tensorflow").python.path == str(machine / "bin/python3.12") or RUNNING >= (3, 12)


def test_one_that_is_asked_for_is_taken_where_the_lock_covers_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python(machine / "bin/python3.12", (3, 12))
    monkeypatch.setenv(VARIABLE, "3.12")
    assert recipes.recipe("pytensor").python_version == "3.12"
    assert recipes.recipe("aesara").python_version == "3.11", "its packages are not for 3.12"
    assert recipes.recipe("pytensor").command == "xbackend env sync pytensor --python 3.12"
    monkeypatch.setenv(VARIABLE, "3.13")
    assert recipes.recipe("pytensor").python == Interpreter((3, 13)), "not here: uv is asked to get it"


@pytest.mark.parametrize("text", ["3", "2.7", "3.10", "4.0", "newest", "3.11.7", "3.x"])
def test_what_is_no_version_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(EnvironmentFailed, match=r"XBACKEND_PYTHON: .*is no version of Python: write one such as 3.11"):
        recipes.recipe("numpy").directory_name()


def test_a_newer_python_that_would_bring_a_newer_framework_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipes.recipe("pytensor")
    old, new = recipe.locked_version((3, 11)), recipe.locked_version((3, 13))
    assert old.split(".") < new.split("."), "the lock has one for 3.11, and a newer one for what is newer"
    monkeypatch.setattr(
        interpreters, "find", lambda version: Interpreter(version, "/py") if version == (3, 11) else None
    )
    assert (
        recipe.shortfall == f"pytensor {new} needs Python 3.12 or later: install one, then xbackend env sync pytensor"
    )
    assert recipes.recipe("aesara").shortfall == ""
    monkeypatch.setattr(interpreters, "find", lambda version: Interpreter(version, "/py"))
    assert recipe.shortfall == ""
