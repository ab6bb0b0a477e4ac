"""The kinds of reports: of comparisons, of trainings, of jobs on clusters, each from data of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbackend.results import clustered, schema, trained
from xbackend.results.packing import SUFFIX


@dataclass(frozen=True)
class Kind:
    """A kind of report: ``load`` reads its data from ``file``; ``<document>.md`` and ``.html`` are written."""

    data: str
    document: str
    load: Callable[[Path], Any]

    @property
    def file(self) -> str:
        """The name of the file of its data."""
        return self.data + SUFFIX


COMPARISON = Kind("results", "report", schema.load)
TRAINING = Kind("training", "training", trained.load)
CLUSTER = Kind("cluster", "cluster", clustered.load)
KINDS = (COMPARISON, TRAINING, CLUSTER)


def there(reports: Path) -> dict[str, list[Kind]]:
    """The reports in the folders of ``reports``, by name: the kinds of which data lie there."""
    found: dict[str, list[Kind]] = {}
    for kind in KINDS:
        for path in reports.glob(f"[!.]*/{kind.file}"):
            found.setdefault(path.parent.name, []).append(kind)
    return dict(sorted(found.items()))
