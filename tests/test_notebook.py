"""The example notebook: its cells run in their order, and show what it keeps of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import notebooks
import pytest

import xbackend as xb

PATH = Path(__file__).parent.parent / "examples" / "compare.ipynb"
NOTEBOOK = json.loads(PATH.read_text())


def kinds(outputs: list[dict[str, Any]]) -> list[Any]:
    """Of what kind outputs are; figures differ from time to time."""
    return [(one["output_type"], *sorted(one.get("data", {}))) for one in outputs]


@pytest.mark.tier("standard")
def test_the_cells_show_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare: Callable[..., Any] = xb.compare
    monkeypatch.setattr(xb, "compare", lambda *a, **k: compare(*a, **{**k, "processes": 1, "wait": 0.0}))
    monkeypatch.chdir(tmp_path)
    found = list(notebooks.executed(notebooks.code(PATH)))
    kept = [cell["outputs"] for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert [kinds(outputs) for outputs in found] == [kinds(outputs) for outputs in kept]
    assert found[-1][-1]["data"]["text/plain"] == ["True"] and "reports/loss/report.md" in str(found[-1])
    assert [line.split()[0] for line in found[2][0]["text"]] == ["numpy", "jax"]
    (placement,) = (str(one) for outputs in found for one in outputs if "all 4 ops as asked" in str(one))
    assert placement == str(next(one for outputs in kept for one in outputs if "all 4 ops as asked" in str(one))), (
        "the placement has changed: python tests/notebooks.py examples/compare.ipynb"
    )


def test_it_is_a_notebook_as_others_read_it() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 4)
    for number, cell in enumerate((c for c in NOTEBOOK["cells"] if c["cell_type"] == "code"), 1):
        assert cell["execution_count"] == number and {*cell} == {
            *("cell_type", "execution_count", "metadata", "outputs", "source")
        }


def test_a_cell_that_fails_and_what_one_shows_are_found() -> None:
    shown = notebooks.executed(["x = 1", "print(x)\nx + 1", "x;\nNone", "x / 0"])
    assert next(shown) == [] and kinds(next(shown)) == [("stream",), ("execute_result", "text/plain")]
    assert next(shown) == []
    with pytest.raises(ZeroDivisionError):
        next(shown)
