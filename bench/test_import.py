"""What ``import xbackend`` adds to Python's own start."""

from __future__ import annotations

from typing import Any

from overhead import targets


def test_import(note: Any, benchmark: Any, replay: Any) -> None:
    benchmark.group = "import"
    ours, bare = targets.import_seconds()
    note(targets.import_figure(ours, bare))
    assert min(ours) > 0 and min(bare) > 0
    replay(ours)
