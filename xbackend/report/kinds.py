"""The kinds of reports: of comparisons, of trainings, of jobs on clusters, each from data of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbackend.results.clustered import Jobs
from xbackend.results.packing import SUFFIX
from xbackend.results.schema import Results, Stored, read
from xbackend.results.trained import Trainings


@dataclass(frozen=True)
class Kind:
    """A kind of report: its data lie in ``file``; ``<document>.md`` and ``.html`` are written."""

    told: type[Stored]
    file: str
    document: str

    def load(self, path: Path) -> Any:
        """Its data. Raises as `read`."""
        return read(path, self.told)


COMPARISON = Kind(Results, f"results{SUFFIX}", "report")
TRAINING, CLUSTER = Kind(Trainings, f"training{SUFFIX}", "training"), Kind(Jobs, f"cluster{SUFFIX}", "cluster")
KINDS = (COMPARISON, TRAINING, CLUSTER)


def there(reports: Path) -> dict[str, list[Kind]]:
    """The reports in the folders of ``reports``, by name: the kinds of which data lie there."""
    found: dict[str, list[Kind]] = {}
    for kind in KINDS:
        for path in reports.glob(f"[!.]*/{kind.file}"):
            found.setdefault(path.parent.name, []).append(kind)
    return dict(sorted(found.items()))
