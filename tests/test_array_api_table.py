"""docs/array_api.md agrees with the checks. Each function of the standard exists or has a reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import array_api_table as table
import pytest

import xbackend as xb


@pytest.fixture(autouse=True)
def contract(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "contract"))
    yield


@pytest.mark.tier("standard")
def test_the_table_is_not_stale() -> None:
    assert table.FILE.read_text(encoding="utf-8") == table.written(), f"docs/array_api.md is stale: {table.COMMAND}"


def test_every_function_is_there_or_has_a_reason() -> None:
    every = table.functions()
    assert len(every) == 174
    there = {name for section, name in every if table.has(section, name)}
    assert {name for _, name in every} - there == set(table.MISSING)
    assert len([pair for pair in every if table.has(*pair)]) >= 0.86 * len(every)


@pytest.mark.tier("exhaustive")
def test_a_changed_expectation_would_change_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    import expected_failures

    planted = expected_failures.ExpectedFailure("test_result_of_op", "sort*", "planted", "https://example.org")
    monkeypatch.setattr(expected_failures, "of", lambda backend: (planted,) if backend == "numpy" else ())
    rows = [line for line in table.written().splitlines() if line.startswith("| `sort`")]
    assert rows and rows[0].startswith("| `sort` | [1] | yes")
    assert "1. some of it fails: planted" in table.written()


def test_functions_beside_the_standard_are_there() -> None:
    for name in table.BESIDE.split():
        home, _, own = name.rpartition(".")
        assert hasattr(getattr(xb, home) if home else xb, own)
    assert "gradients" in sys.modules
