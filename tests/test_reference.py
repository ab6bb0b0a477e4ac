"""The reference: every public name has a docstring and an example, and what an example shows is what it gives."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import xbackend as xb
from xbackend import environments

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import names  # noqa: E402
import pages  # noqa: E402

ENTRIES = list(names.entries())
# Frameworks that examples import, each in the environment of that name, and the tier of that.
FRAMEWORKS = {"jax": "standard", "pytensor": "standard", "tensorflow": "exhaustive", "pymc": "exhaustive"}


def without_example(entry: names.Entry) -> list[str]:
    """What lacks a docstring or an example: the name itself, or members that no example of their class uses."""
    text, module = entry.text, inspect.getdoc(names.module_of(entry.heading)) or ""
    if isinstance(entry.value, type) and issubclass(entry.value, BaseException):
        return [] if text and ">>>" in module else [entry.name]  # errors have one example
    found = [] if text.partition(">>>")[0].strip() and ">>>" in text else [entry.name]
    for name, item in entry.members.items():
        own = inspect.getdoc(item) or ""
        if not own or not (">>>" in own or re.search(rf"\.{name}\b", text)):
            found.append(f"{entry.name}.{name}")
    return found


def test_every_public_name_has_a_docstring_and_an_example() -> None:
    assert [missing for entry in ENTRIES for missing in without_example(entry)] == []


def test_a_name_without_one_would_be_found() -> None:
    class Planted:
        """A class.

        >>> Planted().shown()
        """

        def shown(self) -> None:
            """Shown."""

        def hidden(self) -> None:
            """Hidden."""

        def silent(self) -> None:
            pass

    def function() -> None:
        """No example."""

    heading = names.HEADINGS[0]
    assert without_example(names.Entry("Planted", Planted, heading)) == ["Planted.hidden", "Planted.silent"]
    assert without_example(names.Entry("function", function, heading)) == ["function"]


def imported(text: str) -> set[str]:
    """The frameworks that an example imports."""
    code = "".join(example.source for example in doctest.DocTestParser().get_examples(text))
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import)]
    return {alias.name.split(".")[0] for node in nodes for alias in node.names} & {*FRAMEWORKS}


def texts(entry: names.Entry) -> Iterator[tuple[str, str]]:
    """The docstrings with examples, and whose they are."""
    each = {entry.name: entry.text} | {
        f"{entry.name}.{name}": inspect.getdoc(item) or "" for name, item in entry.members.items()
    }
    return ((name, text) for name, text in each.items() if ">>>" in text)


def failures(name: str, text: str, variables: dict[str, Any]) -> list[str]:
    """What the examples of a docstring give in place of what they show."""
    test = doctest.DocTestParser().get_doctest(text, dict(variables), name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return ["".join(said)] if said else []


@pytest.fixture(scope="module")
def begun() -> Iterator[dict[str, Any]]:
    """What an example begins with."""
    variables: dict[str, Any] = {}
    exec(pages.BEGIN, variables)
    yield variables
    variables["backend"].close()


@pytest.mark.tier("standard")
@pytest.mark.parametrize("heading", names.HEADINGS)
def test_examples_give_what_they_show(heading: str, begun: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    own = [pair for entry in ENTRIES if entry.heading == heading for pair in texts(entry)]
    own += [(heading, text)] if ">>>" in (text := inspect.getdoc(names.module_of(heading)) or "") else []
    assert own
    assert [wrong for name, text in own if not imported(text) for wrong in failures(name, text, begun)] == []


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=[pytest.mark.tier(tier)]) for name, tier in FRAMEWORKS.items()]
)
def test_examples_of_a_framework_give_what_they_show(framework: str) -> None:
    own = dict(pair for entry in ENTRIES for pair in texts(entry) if framework in imported(pair[1]))
    assert own
    code = f"""
import doctest, sys
sys.path.insert(0, {str(ROOT)!r})
import numpy as np, xbackend as xb
for name, text in {own!r}.items():
    doctest.run_docstring_examples(text, dict(np=np, xb=xb), name=name)
"""
    python = environments.sync(framework).python
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_wrong_example_would_be_found(begun: dict[str, Any]) -> None:
    right = xb.sum.__doc__ or ""
    assert failures("sum", right, begun) == []
    (said,) = failures("sum", right.replace("array([1, 7]", "array([1, 8]"), begun)
    assert "array([1, 8]" in said and "array([1, 7]" in said
    assert "Error" in failures("sum", right.replace("axis=1", "axis=5"), begun)[0]
