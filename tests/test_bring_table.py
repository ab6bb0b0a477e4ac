"""docs/bring_ops.md agrees with the tables, which are read without the frameworks."""

from __future__ import annotations

import subprocess
import sys

import bring_table as table
import pytest

from xbackend.bring.jax.walk import REFUSED, ROWS


def test_the_table_is_not_stale() -> None:
    assert table.FILE.read_text(encoding="utf-8") == table.written(), f"docs/bring_ops.md is stale: {table.COMMAND}"


def test_a_changed_row_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = table.written()
    monkeypatch.delitem(ROWS, "sin")
    assert table.written() != before


def test_what_is_refused_has_no_row() -> None:
    assert not set(REFUSED) & set(ROWS)


def test_no_framework_is_imported() -> None:
    said = "import sys, bring_table; bring_table.written(); print({'jax', 'tensorflow', 'pytensor'} & set(sys.modules))"
    paths = f"import sys; sys.path[:0] = {[str(table.FILE.parents[1]), str(table.FILE.parents[1] / 'tests')]}; "
    done = subprocess.run([sys.executable, "-c", paths + said], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
