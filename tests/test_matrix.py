"""Versions of one framework as environments of one comparison: real ones, of the cheapest recipe."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import xbackend as xb
from xbackend import environments
from xbackend.backends import registry
from xbackend.environments import installer, interpreters, recipes, versions
from xbackend.errors import ArgumentError, EnvironmentFailed
from xbackend.measure import matrix

pytestmark = pytest.mark.tier("standard")

REPOSITORY = Path(__file__).parent.parent
# Two releases with wheels for every Python that xbackend runs on. Neither is the locked one.
OLD, NEW = "numpy==2.3.2", "numpy==2.3.5"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home that the tests of this file share. They do not change its content."""
    path = tmp_path_factory.mktemp("matrix") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XBACKEND_HOME", str(path))
        yield path


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "own"))
    return tmp_path / "own"


def command(*arguments: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "xbackend", *map(str, arguments)], capture_output=True, text=True, timeout=600, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"}, check=False,
    )  # fmt: skip
    assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def pins(lock: Path) -> dict[str, str]:
    """The pins of a lock: package to version."""
    lines = [line.split() for line in lock.read_text().splitlines() if "==" in line and not line.startswith((" ", "#"))]
    return dict(line[0].split("==") for line in lines)


# --- measured ----------------------------------------------------------------------------------------------------


@pytest.mark.tier("exhaustive")  # half a minute; a copy of a framework is a row beside it in test_patched.py
def test_versions_of_a_framework_are_rows_of_one_report(home: Path, tmp_path: Path) -> None:
    options = ("--quick", "--size", 32, "--processes", 1, "--threads", 1, "--baseline", OLD)
    command("compare", *options, "--env", OLD, "--env", NEW, "--env", "numpy", cwd=tmp_path)
    results = json.loads(gzip.decompress((tmp_path / "reports/matpow/results.json.gz").read_bytes()))
    rows = results["measurements"]
    assert [(m["backend"], m["environment"], m["status"]) for m in rows] == [
        ("numpy", OLD, "ok"),
        ("numpy", NEW, "ok"),
        ("numpy", "", "ok"),
    ]
    locked = environments.get("numpy").versions()["numpy"]
    wanted = [OLD.removeprefix("numpy=="), NEW.removeprefix("numpy=="), locked]
    assert [m["description"]["versions"]["numpy"] for m in rows] == wanted, "what its process itself said"
    assert [m["versions"]["numpy"] for m in rows] == wanted
    assert [len(m["processes"]) for m in rows] == [1, 1, 1]
    assert len({m["parity"]["inputs"] for m in rows}) == 1
    text = (tmp_path / "reports" / "matpow" / "report.md").read_text()
    assert f"numpy ({OLD})" in text
    assert f"numpy ({NEW})" in text


@pytest.mark.tier("exhaustive")
def test_a_version_that_cannot_be_had_is_a_row_with_its_reason_and_the_others_are_measured(
    home: Path, tmp_path: Path
) -> None:
    options = ("--quick", "--size", 32, "--processes", 1)
    command("compare", *options, "--env", OLD, "--env", "numpy==9.9.9", cwd=tmp_path, code=1)
    rows = json.loads(gzip.decompress((tmp_path / "reports/matpow/results.json.gz").read_bytes()))["measurements"]
    assert [(m["environment"], m["status"]) for m in rows] == [(OLD, "ok"), ("numpy==9.9.9", "missing")]
    assert "does not exist" in rows[1]["reason"]
    assert "there is no version of numpy==9.9.9" in rows[1]["reason"]
    assert rows[1]["versions"] == {}


@pytest.mark.tier("exhaustive")
def test_a_backend_opens_in_the_environment_of_a_version(home: Path) -> None:
    assert environments.sync(OLD).state == "ready"
    with xb.open("numpy", environment="NumPy == 2.3.2") as backend:
        assert backend.describe().versions["numpy"] == "2.3.2"
        assert backend.compile(lambda x: x + x, 2.0)(2.0) == 4.0
    with xb.open("numpy", environment="numpy", isolated=True) as backend:
        assert backend.describe().versions["numpy"] == environments.get("numpy").versions()["numpy"]
    with pytest.raises(EnvironmentFailed, match=r"'pytensor' runs in environment 'pytensor' .*not in 'numpy=="):
        xb.open("pytensor", environment=OLD)


# --- made, listed, removed ---------------------------------------------------------------------------------------


def test_the_other_packages_are_those_of_the_lock(home: Path) -> None:
    made, recipe = environments.sync(OLD), versions.find(OLD)
    locked, resolved = pins(recipes.recipe("numpy").lock), pins(recipe.lock)
    assert resolved["numpy"] == made.versions()["numpy"] == "2.3.2" != locked["numpy"]
    assert {**resolved, "numpy": ""} == {**locked, "numpy": ""}
    text = recipe.lock.read_text()
    assert text.count("--hash=sha256:") >= len(resolved)
    assert "://" not in text


@pytest.mark.tier("exhaustive")
def test_it_is_resolved_once_and_made_again_from_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = environments.sync(NEW)
    monkeypatch.setattr(versions, "resolve", lambda *_: pytest.fail("resolved again"))
    next(made.path.glob("lib/python*/site-packages/autograd/__init__.py")).unlink()
    assert made.damage()
    again = environments.sync(NEW)
    assert (again.path, again.damage(), again.versions()) == (made.path, [], made.versions())


def test_versions_are_listed_and_removed_by_their_name(own_home: Path, tmp_path: Path) -> None:
    command("env", "sync", OLD, cwd=tmp_path)
    assert OLD in command("env", "list", cwd=tmp_path).stdout
    listed = {e.name: e.state for e in environments.list()}
    assert listed[OLD] == "ready"
    assert listed["numpy"] == "absent"
    path, lock = environments.get(OLD).path, versions.find(OLD).lock
    assert environments.remove("numpy") == []
    assert path.is_dir(), "the environment of a version is not one of the recipe's own"
    assert environments.remove("numpy==2.3") == []
    assert path.is_dir() and lock.is_file()
    command("env", "remove", "numpy==2.3.2", cwd=tmp_path)
    assert not path.exists()
    assert not lock.exists()
    assert OLD not in {e.name for e in environments.list()}
    assert list((own_home / "requirements").iterdir()) == []


@pytest.mark.tier("exhaustive")
def test_one_made_with_an_older_lock_is_stale(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = environments.sync(OLD)
    shutil.copytree(recipes.REQUIREMENTS, tmp_path / "changed")
    with (tmp_path / "changed" / "numpy.txt").open("a") as file:
        file.write("# another lock\n")
    monkeypatch.setattr(recipes, "REQUIREMENTS", tmp_path / "changed")
    assert environments.get(OLD).state == "stale"
    assert (OLD, "stale", made.path) in {(e.name, e.state, e.path) for e in environments.list()}
    assert environments.remove(OLD) == [made.path]


@pytest.mark.tier("exhaustive")
def test_a_version_that_is_not_for_the_newest_python_takes_an_older_one(own_home: Path) -> None:
    early = "numpy==1.26.4"  # it has files for Pythons up to 3.12
    older = [str(python) for python in interpreters.choices((3, 12))]
    said: list[str] = []
    made = environments.sync(early, said.append)
    assert made.state == "ready" and made == environments.get(early)
    assert versions.find(early).python_version == older[0]
    tried = [line for line in said if "looking for the versions" in line]
    assert len(tried) == 1 + len([p for p in interpreters.choices((3, 14)) if p.version > (3, 12)])
    assert [path.suffix for path in (own_home / "requirements").iterdir() if path.suffix == ".txt"] == [".txt"]
    assert environments.sync(early, pytest.fail) == made
    assert environments.remove(early) == [made.path]


def test_interrupted_while_it_is_resolved_it_leaves_nothing(own_home: Path) -> None:
    def interrupt(message: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        environments.sync(OLD, interrupt)
    files = [p.relative_to(own_home) for p in own_home.rglob("*") if p.is_file()]
    assert [f for f in files if f.suffix != ".lock"] == []


# --- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("numpy==9.9.9", "does not exist.*there is no version of numpy==9.9.9"),
        ("numpy==1.20.0", "no files for this Python.*numpy==1.20.0 has no usable wheels"),
    ],
)
def test_what_cannot_be_resolved_says_why_and_leaves_nothing(own_home: Path, text: str, words: str) -> None:
    with pytest.raises(EnvironmentFailed, match=f"(?s)environment {text}: .*{words}"):
        environments.sync(text)
    assert list((own_home / "requirements").iterdir()) == []
    assert environments.get(text).state == "absent"


@pytest.mark.tier("exhaustive")
def test_a_version_that_other_requirements_exclude(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(recipes.REQUIREMENTS, tmp_path / "changed")
    with (tmp_path / "changed" / "numpy.in").open("a") as file:
        file.write("scipy==1.14.1  # it needs numpy<2.3\n")
    monkeypatch.setattr(recipes, "REQUIREMENTS", tmp_path / "changed")
    with pytest.raises(EnvironmentFailed, match=r"(?s)excludes other requirements.*scipy==1\.14\.1 depends on numpy"):
        environments.sync(OLD)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch==2.9.0", "no environment 'torch'; there are numpy, tensorflow"),
        ("numpy=2.3.2", "'numpy=2.3.2' names no environment: "),
        ("numpy==", "names no environment: "),
        ("", "names no environment: "),
        ("../../etc==1", "names no environment: "),
        ("numpy==../../x", "names no environment: "),
        ("numpy>=2.3", "does not name one version of numpy"),
        ("numpy==2.3.*", "does not name one version of numpy"),
        ("numpy===2.3.2", "does not name one version of numpy"),
        ("numpy==2.3.2,<3", "does not name one version of numpy"),
        ("numpy[extra]==2.3.2", "does not name one version of numpy"),
        ("numpy==2.3.2; python_version > '3'", "does not name one version of numpy"),
        ("numpy @ https://example.org/numpy.whl", "does not name one version of numpy"),
    ],
)
def test_what_names_no_version_is_an_error(own_home: Path, text: str, words: str) -> None:
    with pytest.raises(EnvironmentFailed, match=words):
        environments.get(text)
    with pytest.raises(EnvironmentFailed, match=words):
        xb.open("numpy", environment=text)
    assert not own_home.exists()


def test_a_wrong_command_line_is_told_before_anything_is_made(own_home: Path, tmp_path: Path) -> None:
    done = command("compare", "--env", "numpy=2.3.2", cwd=tmp_path, code=2)
    assert done.stderr.startswith("xbackend compare: 'numpy=2.3.2' names no environment: ")
    done = command("compare", "--env", OLD, "--baseline", NEW, cwd=tmp_path, code=2)
    assert f"there is numpy, {OLD}, numpy ({OLD})" in done.stderr
    done = command("compare", "--env", OLD, "--backends", "tensorflow", cwd=tmp_path, code=2)
    assert "none of the backends tensorflow runs in an environment of numpy" in done.stderr
    assert not own_home.exists()


# --- which backends run where ------------------------------------------------------------------------------------


def test_the_backends_of_an_environment_run_in_each_version_of_it() -> None:
    modes = [entry.name for entry in registry.entries() if entry.environment == "pytensor"]
    assert len(modes) >= 3
    old, new = "pytensor==2.38.3", "pytensor==3.0.7"
    assert matrix.runs(None, [new, old]) == [(mode, version) for mode in modes for version in (new, old)]
    assert matrix.runs(None, [old, "PyTensor == 2.38.3"]) == [(mode, old) for mode in modes]
    assert matrix.runs(modes[:1], ["pytensor", old]) == [(modes[0], ""), (modes[0], old)]
    assert matrix.runs(["numpy", modes[1]], [old]) == [("numpy", ""), (modes[1], old)]
    assert matrix.runs(None) == [(name, "") for name in registry.names()]
    with pytest.raises(ArgumentError, match="none of the backends numpy runs in an environment of pytensor"):
        matrix.runs(["numpy"], [old])


def test_every_recipe_has_its_own_lines_replaced() -> None:
    for name in recipes.RECIPES:
        recipe = versions.find(f"{name}==1.2.3")
        assert isinstance(recipe, versions.VersionRecipe)
        lines = [line.partition("#")[0].strip() for line in recipe.text().splitlines()]
        assert [line for line in lines if line.startswith(f"{name}=")] == [f"{name}==1.2.3"]
        written = [line.partition("#")[0].strip() for line in recipes.recipe(name).source.read_text().splitlines()]
        assert len(list(filter(None, lines))) == len(list(filter(None, written)))
        assert versions.of_stem(recipe.stem) == recipe


def test_uv_is_told_to_keep_the_locked_versions(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uv's arguments: the locked versions as its output file, and wheels only."""
    said: list[list[str]] = []

    def stop(arguments: list[str], what: str, say: object, folder: Path) -> None:
        said.append(arguments)
        assert (folder / arguments[-1]).read_text() == recipes.recipe("numpy").lock.read_text()
        raise EnvironmentFailed("enough")

    monkeypatch.setattr(installer, "run_uv", stop)
    with pytest.raises(EnvironmentFailed, match="enough"):
        environments.sync(OLD)
    assert "--generate-hashes" in said[0]
    assert "--only-binary" in said[0]
