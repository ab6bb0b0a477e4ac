"""docs/adding.md: its steps, followed in a copy of the package, make a workload, a strategy and an engine that work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import xbackend

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "adding.md").read_text()
BLOCKS = [textwrap.dedent(text) for text in re.findall(r"^ *```python\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)]
MODEL = """
import numpy as np
import xbackend as xb

@xb.model(batch=4)
def line(weights, x, y):
    return xb.mean((weights["slope"] * x + weights["offset"] - y) ** 2)

@line.weights
def weights(rng):
    return {"slope": np.zeros(()), "offset": np.zeros(())}

@line.data
def data(rng):
    x = rng.normal(size=16)
    return x, 3.0 * x + 1.0
"""


def replaced(path: Path, pattern: str, by: str) -> None:
    """Follow a step: put lines in the place of those that a pattern finds once."""
    text = path.read_text()
    assert len(re.findall(pattern, text, re.MULTILINE)) == 1, f"{path.name} has not one {pattern}"
    path.write_text(re.sub(pattern, lambda _: by, text, count=1, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package in which all steps were made, and the page's other files."""
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(Path(xbackend.__file__).parent, folder / "xbackend", ignore=shutil.ignore_patterns("__pycache__"))
    edits = {
        "named.py: NAMES": r"^NAMES = .*$",
        "named.py: in named": r"^(?=    if name == \"model\":)",
        "engines/registry.py: ENGINES": r"(?<=^ENGINES = {\n)",
        "backends/registry.py: Entry": r"^    engines: tuple.*\n",
    }
    followed = set()
    for block in BLOCKS:
        place = re.match(r"# (\S+\.py)(: .*)?\n", block)
        if place is None:
            continue
        path, text = folder / place[1], block[place.end() :]
        if place[2] is None:
            assert not path.exists()
            path.write_text(text)
            continue
        (edit,) = (name for name in edits if f"{place[1]}{place[2]}".endswith(name))
        replaced(path, edits[edit], text)
        followed.add(edit)
    assert followed == {*edits}
    (folder / "trained.py").write_text(MODEL)
    return folder


def called(folder: Path, *arguments: str) -> str:
    """What a Python prints that has the copy of the package. Its workers have it, too."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.tier("standard")
def test_the_workload_is_found_and_agrees(followed: Path) -> None:
    printed = called(followed, "-c", "import xbackend as xb; print(xb.__file__, 'polynomial' in xb.workloads.names())")
    assert printed == f"{followed / 'xbackend' / '__init__.py'} True\n"
    arguments = ("--quick", "--backends", "numpy", "--processes", "1", "--wait", "0", "--json")
    told = json.loads(called(followed, "-m", "xbackend", "compare", "polynomial", *arguments))
    assert [(row["workload"], row["status"]) for row in told["rows"]] == [("polynomial", "ok")]


@pytest.mark.tier("exhaustive")
def test_the_strategy_trains_as_one_device_does(followed: Path) -> None:
    (script,) = (block for block in BLOCKS if block.startswith("import numpy") and "strategy.place" in block)
    printed = called(followed, "-c", script)
    assert printed == "one ['cpu:0']\nspread ['cpu:0', 'cpu:1']\nTrue\n"
    arguments = ("--strategy", "one,spread", "--devices", "2", "--backends", "numpy", "--json")
    told = json.loads(called(followed, "-m", "xbackend", "train", "trained.py:line", *arguments))
    assert [(row["strategy"], row["status"], row["difference"]) for row in told["rows"]] == [
        ("one", "ok", None),
        ("spread", "ok", 0.0),
    ]


@pytest.mark.tier("exhaustive")
def test_the_engine_joins_as_another_one_does(followed: Path) -> None:
    (line,) = re.findall(r"xbackend (cluster run .*)", PAGE)
    told = json.loads(called(followed, "-m", "xbackend", *line.split(), "--json"))
    assert [(row["engine"], row["status"]) for row in told["rows"]] == [("mpi", "ok"), ("hub", "ok")]
    assert told["rows"][1]["difference"] < 1e-14


def test_a_step_that_the_package_has_no_place_for_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("NAMES = 1\nNAMES = 2\n")
    with pytest.raises(AssertionError, match="has not one"):
        replaced(tmp_path / "a.py", "^NAMES = .*$", "NAMES = 3")
