"""The user's own framework: ``--env pytensor=PATH`` beside ``--env pytensor==VERSION``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from xbackend import environments
from xbackend.errors import EnvironmentFailed
from xbackend.measure import matrix, session
from xbackend.measure.candidates import case


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


def archive(kind: str, folder: Path, name: str = "pytensor") -> Path:
    """A wheel or a source distribution of a tiny framework, in pip's form."""
    inside = package(folder / f"made-{name}" / (f"{name}-1.0/src" if kind == "tar.gz" else "."), name)
    if kind == "whl":
        (inside / f"{name}-1.0.dist-info").mkdir()
    made = shutil.make_archive(str(folder / "archive"), "gztar" if kind == "tar.gz" else "zip", folder / f"made-{name}")
    return Path(made).rename(folder / f"{name}-1.0.{kind}")


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_a_wheel_and_a_source_distribution_are_unpacked(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "home"))
    file, before = archive(kind, tmp_path), os.umask(0)
    try:
        found = environments.get(f"pytensor={file}")
    finally:
        os.umask(before)
    (folder,) = found.modules.values()
    assert found.name == f"pytensor={file}" and folder.endswith("/src/pytensor" if kind == "tar.gz" else "/pytensor")
    assert (Path(folder) / "__init__.py").stat().st_mode & 0o022 == 0
    assert environments.get(f"pytensor={file}").modules == found.modules


@pytest.mark.parametrize("name", ["cut.whl", "cut.tar.gz", "pytensor.txt"])
def test_a_file_that_cannot_be_unpacked_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "home"))
    content = archive(name.partition(".")[2], tmp_path).read_bytes()[:90] if name.startswith("cut") else b"text"
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EnvironmentFailed, match=rf"{name} cannot be unpacked: .*give a wheel"):
        environments.get(f"pytensor={tmp_path / name}")
    assert not [*(tmp_path / "home").rglob("*.py")]


def test_it_is_not_removed(tmp_path: Path) -> None:
    """Else the locked environment would be removed."""
    with pytest.raises(EnvironmentFailed, match=r"no environment of its own.*xbackend env remove pytensor"):
        environments.remove(f"pytensor={package(tmp_path)}")


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_a_framework_is_removed_with_what_was_unpacked_of_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "home"))
    found = [environments.get(f"{name}={archive(kind, tmp_path, name)}") for name in ("pytensor", "jax")]
    mine, others = (Path(environment.modules[environment.framework]) for environment in found)
    compiled = [tmp_path / "home" / "compiled-programs" / name for name in ("pytensor", "jax")]
    for folder in compiled:
        folder.mkdir(parents=True)
    (removed, emptied) = environments.remove("pytensor")
    assert mine.is_relative_to(removed) and not removed.exists() and others.is_dir()
    assert emptied == compiled[0] and not emptied.exists() and compiled[1].is_dir()
    assert environments.remove("pytensor") == []


@pytest.mark.tier("exhaustive", "True")
@pytest.mark.tier("standard")
@pytest.mark.parametrize("packed", [False, True])
def test_a_patched_copy_is_measured_beside_the_locked_one(packed: bool, tmp_path: Path) -> None:
    own = environments.get("pytensor")
    (installed,) = own.path.glob("lib/python*/site-packages/pytensor")
    shutil.copytree(installed, tmp_path / "pytensor", ignore=shutil.ignore_patterns("__pycache__", "tests"))
    with (tmp_path / "pytensor" / "__init__.py").open("a") as file:
        file.write('\n__version__ = "0.0.1+mine"\n')
    place = tmp_path
    if packed:
        made = shutil.make_archive(str(tmp_path / "mine"), "zip", tmp_path, "pytensor")
        place = Path(made).rename(tmp_path / "pytensor-0.0.1-py3-none-any.whl")
        shutil.rmtree(tmp_path / "pytensor")
    names = [f"pytensor={place}", "pytensor"]
    one = case("matpow", size=8)
    found = session.compare([one], backends=["pytensor-jax"], environments=names, processes=1, wait=0).measurements
    assert [(m.status, m.reason) for m in found] == [("ok", "")] * 2
    mine, locked = (m.versions["pytensor"] for m in found)
    assert mine == "0.0.1+mine" and locked == own.versions()["pytensor"]
    if packed:
        shutil.rmtree(Path(environments.get(names[0]).modules["pytensor"]).parent)
