"""A framework of the user's own: ``--env pytensor=PATH`` beside ``--env pytensor==VERSION``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from xbackend import environments
from xbackend.errors import EnvironmentFailed
from xbackend.measure import matrix, session
from xbackend.measure.candidates import task


def package(folder: Path, name: str = "pytensor") -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    return folder


@pytest.mark.parametrize("inside", [".", "src", "pytensor"])
def test_a_checkout_holds_the_package_or_is_it(inside: str, tmp_path: Path) -> None:
    package(tmp_path / "src" if inside == "src" else tmp_path)
    place = tmp_path / "pytensor" if inside == "pytensor" else tmp_path
    found, own = environments.get(f"pytensor={place}"), environments.get("pytensor")
    held = tmp_path / "src" if inside == "src" else tmp_path
    assert found.modules == {"pytensor": str((held / "pytensor").resolve())}
    assert (found.path, found.framework, found.name) == (own.path, "pytensor", f"pytensor={place}")
    assert matrix.runs(["pytensor-c"], [f"pytensor={place}", "pytensor"]) == [
        ("pytensor-c", f"pytensor={place}"), ("pytensor-c", ""),
    ]  # fmt: skip


def test_what_is_no_such_package_is_said_with_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"holds no package pytensor .* give the folder of a checkout"):
        environments.get(f"pytensor={tmp_path}")
    with pytest.raises(EnvironmentFailed, match="there is no environment 'pytorch'"):
        environments.get(f"pytorch={tmp_path}")


def test_it_is_not_removed(tmp_path: Path) -> None:
    """It would be the locked environment."""
    with pytest.raises(EnvironmentFailed, match=r"no environment of its own.*xbackend env remove pytensor"):
        environments.remove(f"pytensor={package(tmp_path)}")


@pytest.mark.tier("standard")
def test_a_patched_copy_is_measured_beside_the_locked_one(tmp_path: Path) -> None:
    own = environments.get("pytensor")
    (installed,) = own.path.glob("lib/python*/site-packages/pytensor")
    shutil.copytree(installed, tmp_path / "pytensor", ignore=shutil.ignore_patterns("__pycache__", "tests"))
    with (tmp_path / "pytensor" / "__init__.py").open("a") as file:
        file.write('\n__version__ = "0.0.1+mine"\n')
    names = [f"pytensor={tmp_path}", "pytensor"]
    one = task("matpow", size=8)
    found = session.compare([one], backends=["pytensor-jax"], environments=names, processes=1, wait=0).measurements
    assert [(m.status, m.reason) for m in found] == [("ok", "")] * 2
    mine, locked = (m.versions["pytensor"] for m in found)
    assert mine == "0.0.1+mine" and locked == own.versions()["pytensor"]
