"""The user's interpreter in place of a locked environment: ``--env jax=/opt/jax``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xbackend import environments
from xbackend.cli import INCOMPLETE
from xbackend.environments import recipes
from xbackend.errors import EnvironmentFailed
from xbackend.measure import matrix, session
from xbackend.measure.candidates import case


def interpreter(folder: Path, told: str) -> Path:
    """A virtual environment whose Python reports these packages, and is otherwise the tests' own."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"""#!/bin/sh
case "$*" in *importlib.metadata*) echo '{told}';; *) exec {sys.executable} "$@";; esac
""")
    python.chmod(0o755)
    return python


HOPPER = (
    '[[3, 12], true, {"jax": "0.0.2", "jaxlib": "0.0.2", "jax_cuda13.plugin": "0.0.2", "nvidia-cublas": "13.1.0.3", '
    '"torch": "2.11.0", "opt-einsum": "%s"}]'
)


def test_it_is_a_folder_or_an_interpreter_and_its_versions_are_compared_with_the_lock(tmp_path: Path) -> None:
    jax = recipes.recipe("jax")
    locked = jax.locked_version(sys.version_info[:2])
    python = interpreter(tmp_path / "cuda", HOPPER % "3.4.0")
    for place in (python, python.parent.parent):
        found = environments.get(f"jax={place}")
        assert (found.state, found.python, found.name, found.framework) == ("ready", python, f"jax={place}", "jax")
        assert found.versions() == {
            "jax": "0.0.2", "jax-cuda13-plugin": "0.0.2", "jaxlib": "0.0.2", "nvidia-cublas": "13.1.0.3",
            "opt-einsum": "3.4.0",
        }  # fmt: skip
        (warning,) = matrix.unlocked("jax", found.name)
        assert warning.endswith(f"locked: jax 0.0.2 (locked: {locked}), and 1 more of its packages"), warning
        assert environments.sync(found.name) == found and environments.problems(found.name) == []
    assert matrix.unlocked("jax", "") == matrix.unlocked("jax", "jax") == []


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ('[[3, 12], false, {"numpy": "2.5.2"}]', "has no package jax: give an interpreter that has jax"),
        ('[[3, 10], true, {"jax": "0.4.0"}]', "is older than Python 3.11: give"),
        ("Segmentation fault", "cannot be asked what it has .*: give"),
    ],
)
def test_one_that_cannot_be_used_is_a_reason_and_nothing_is_made(told: str, why: str, tmp_path: Path) -> None:
    name = f"jax={interpreter(tmp_path, told)}"
    assert environments.get(name).state == "broken"
    with pytest.raises(EnvironmentFailed, match=why):
        environments.sync(name)
    assert "bin/python" in (failure := matrix.ready([("jax", name)], print)["jax", name]) and "jax" in failure


def test_it_is_not_removed(tmp_path: Path) -> None:
    python = interpreter(tmp_path, HOPPER % "3.4.0")
    with pytest.raises(EnvironmentFailed, match="what is there is yours"):
        environments.remove(f"jax={python}")
    assert python.exists()


def test_what_it_has_is_measured_and_its_devices_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from xbackend.cli import main

    own = f"numpy={sys.prefix}"
    (row,) = session.compare([case("matpow", size=8)], environments=[own], processes=1, wait=0).measurements
    assert (row.status, row.reason, row.environment) == ("ok", "", own) and row.versions["numpy"]
    assert main(["devices", "--backends", "numpy", "--env", own]) == 0
    assert "cpu:0" in capsys.readouterr().out
    none = interpreter(tmp_path, '[[3, 12], false, {"numpy": "2.5.2"}]')
    assert main(["devices", "--backends", "jax", "--env", f"jax={none}"]) == INCOMPLETE
