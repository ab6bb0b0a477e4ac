"""Only the user's own code imports the modules beside his file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from xbackend.cli import neighbours, users
from xbackend.errors import UsageError

pytestmark = pytest.mark.tier("standard")

MINE = """
import numpy as np
import xbackend as xb
import helper

def inputs():
    return [np.ones(4)]

def twice(x):
    import lazy
    return lazy.plus(helper.double(x))

@xb.workload(gradient="x")
def squares(x):
    import lazy
    return xb.sum(lazy.plus(helper.double(x)) ** 2)

@squares.inputs
def _(rng, n=4):
    return rng.normal(size=n)

@xb.model(batch=4, epochs=1)
def line(weights, x, y):
    import lazy
    return xb.mean((lazy.plus(x * weights["a"]) - y) ** 2)

@line.weights
def _(rng):
    return {"a": np.zeros(())}

@line.data
def _(rng):
    x = rng.normal(size=8)
    return x, helper.double(x)

@xb.job(steps=2)
def count(task):
    import lazy
    total = xb.shared(np.float64(0.0), "total")
    xb.update(total, lazy.plus(total))
    return total
"""
# Names used by Python, xbackend and frameworks, some imported at the end of a job; colorsys by matplotlib.
HOSTILE = ("html", "matplotlib", "autograd", "random", "json", "numpy", "jax", "jinja2", "colorsys", "torch")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helper.py").write_text("def double(x):\n    return x * 2.0\n")
    (tmp_path / "lazy.py").write_text("def plus(x):\n    return x + 1.0\n")
    for name in HOSTILE:
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name}.py of the user')\n")
    return tmp_path


exhaustive = pytest.mark.tier("exhaustive")


@pytest.mark.parametrize(
    "arguments",
    [
        "draw mine.py:twice",
        "compare mine.py:squares --backends numpy --quick --processes 1 --wait 0",
        "train mine.py:line --backends numpy",
        pytest.param("run mine.py:twice --backends numpy,jax", marks=exhaustive),
        pytest.param("cluster run mine.py:count --workers 1", marks=exhaustive),
    ],
    ids=lambda words: words.split()[0],
)
def test_nothing_of_ours_is_looked_up_beside_the_users_file(folder: Path, arguments: str) -> None:
    command = [sys.executable, "-m", "xbackend", *arguments.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "of the user" not in done.stdout + done.stderr


@pytest.fixture
def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Modules imported by a file in this process are removed at the end."""
    monkeypatch.setattr(neighbours._neighbours, "folders", [])
    modules = set(sys.modules)
    yield folder
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def found(folder: Path, text: str) -> dict[str, Any]:
    """The globals of an imported user's file."""
    (folder / "file.py").write_text(text)
    return vars(users._module(folder / "file.py"))


def test_code_beside_the_file_is_imported_by_the_users_code_alone(loaded: Path) -> None:
    """At once and later, even by Python's own functions, in a folder that the file names, in a package of his."""
    path = list(sys.path)
    (loaded / "more").mkdir()
    (loaded / "more" / "far.py").write_text("def near():\n    import lazy\n    return lazy.plus(2)\n")
    (loaded / "parts").mkdir()
    (loaded / "parts" / "__init__.py").write_text("from helper import double\n")
    file = found(
        loaded,
        "import importlib, os, parts, sys\n"
        "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'more'))\n"
        "def later():\n    import far\n    return far.near(), importlib.import_module('lazy').plus(1), "
        "parts.double(2)\n",
    )
    assert sys.path == path and file["later"]() == (3, 2, 4)
    for name in ("late", "far"):
        (loaded / f"{name}.py").write_text("")
        sys.modules.pop(name, None)
        assert find_spec(name) is None


def test_what_is_installed_in_a_folder_of_the_users_is_not_his_code(
    loaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment often lies beside the file."""
    site = loaded / ".venv" / "site-packages"
    site.mkdir(parents=True)
    (site / "installed.py").write_text("try:\n    import torch\nexcept ImportError:\n    torch = None\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    assert found(loaded, "import installed")["installed"].torch is None


def test_a_name_of_ours_is_ours_in_the_users_code_too(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one of two modules with one name can be loaded, and the job would end without its own."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert found(loaded, "import colorsys, html, matplotlib")["colorsys"].rgb_to_hls
    with pytest.raises(UsageError, match=r"torch\.py of the user"):  # torch is his
        found(loaded, "import torch")


def test_a_file_of_the_users_is_never_in_the_place_of_a_module(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (loaded / "colorsys.py").write_text("from dataclasses import dataclass\n@dataclass\nclass Pair:\n    first: int\n")
    assert users._module(loaded / "colorsys.py").Pair(1).first == 1
    import colorsys

    assert colorsys.rgb_to_hls


def test_what_the_user_works_on_comes_before_an_installed_copy(
    loaded: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("installed")
    (elsewhere / "lazy.py").write_text("raise ImportError('the installed one')\n")
    (loaded / "data").mkdir()  # not a package
    (elsewhere / "data.py").write_text("text = 'installed'\n")
    monkeypatch.setattr(sys, "path", [str(elsewhere), *sys.path])
    file = found(loaded, "import lazy\nfrom data import text")
    assert file["lazy"].plus(1) == 2 and file["text"] == "installed"
