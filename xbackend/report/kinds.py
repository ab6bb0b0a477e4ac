"""The kinds of reports: of comparisons, of trainings, of jobs on clusters, each from data of its own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from xbackend.report.said.blocks import AnyBlock, Pictures
from xbackend.report.said.outcomes import Said
from xbackend.results.clustered import Jobs
from xbackend.results.packing import SUFFIX
from xbackend.results.schema import Outcomes, Results, StoredFile
from xbackend.results.trained import Trainings
from xbackend.wording import grouped


class ReportKind(Struct, frozen=True):
    """A kind of report: data in ``file``, documents ``<document>.md`` and ``.html``, and the module ``said``."""

    told: type[StoredFile]
    file: str
    document: str
    said: str

    def build(self, told: StoredFile, baseline: str | None) -> tuple[list[AnyBlock], Pictures]:
        """The blocks of a report, and its pictures by file name."""
        built: tuple[list[AnyBlock], Pictures] = import_module(f"xbackend.report.said.{self.said}").build(
            told, baseline
        )
        return built

    def outcomes(self, told: Outcomes) -> Said[Any]:
        """The words about trainings, or about jobs."""
        said: Said[Any] = import_module(f"xbackend.report.said.{self.said}").said(told)
        return said


COMPARISON = ReportKind(Results, f"results{SUFFIX}", "report", "comparison")
TRAINING = ReportKind(Trainings, f"training{SUFFIX}", "training", "training")
CLUSTER = ReportKind(Jobs, f"cluster{SUFFIX}", "cluster", "cluster")
KINDS = (COMPARISON, TRAINING, CLUSTER)


def of(told: StoredFile) -> ReportKind:
    """The kind of a report of this data."""
    return next(kind for kind in KINDS if isinstance(told, kind.told))


def there(reports: Path) -> dict[str, list[ReportKind]]:
    """The reports in the folders of ``reports``: by name, the kinds whose data lie there."""
    found = ((path.parent.name, kind) for kind in KINDS for path in reports.glob(f"[!.]*/{kind.file}"))
    return dict(sorted(grouped(found).items()))
