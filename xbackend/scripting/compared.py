"""The results of a session, for scripts and notebooks: its answer, its rows as numbers, tables and pictures."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from xbackend import report
from xbackend.analysis.across import matrix
from xbackend.analysis.answer import APART, answer
from xbackend.analysis.comparison import Comparison, comparisons
from xbackend.analysis.disturbed import quiet
from xbackend.analysis.rows import Figures, rows
from xbackend.errors import UsageError
from xbackend.report.said import across, comparison, doubts, tables
from xbackend.report.said import blocks as b
from xbackend.results.schema import Results
from xbackend.scripting.tabled import Picture, Tabled, alike


class Compared(Tabled):
    """The results of a session, as `xbackend.compare` and the command ``xbackend compare`` give them.

    ``results`` are the data as they are stored, ``baseline`` is the backend or environment that ratios are taken to:
    numpy if it is `None`. Raises `UsageError` for a baseline that was not measured.

    >>> import tempfile
    >>> found = xb.load_results("reports/matpow-devices")
    >>> found.answer.partition(":")[0]
    'Two devices against one (simulated by cores)'
    >>> first, *_ = found.rows()
    >>> first["backend"], first["devices"], first["status"]
    ('numpy', 1, 'ok')
    >>> found.figures[0].seconds == first["seconds"]
    True
    >>> found.plot()
    <picture: Times as fast as on one device, with 95 % intervals>
    >>> len(found.lines(80)) > 5
    True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(found.write(folder).name)
    report.md
    >>> frame = found.to_pandas()  # doctest: +SKIP
    >>> frame = found.to_polars()  # doctest: +SKIP
    """

    def __init__(self, results: Results, baseline: str | None = None) -> None:
        self.results, self.baseline = results, baseline
        self._comparisons: list[Comparison] = comparisons(results, baseline)

    @property
    def answer(self) -> str:
        """The first sentence: which is the fastest, or whether another device helps."""
        return answer(self._comparisons)

    @cached_property
    def figures(self) -> list[Figures]:
        """The rows in numbers; times are seconds."""
        return rows(self.results, self.baseline)

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each measurement, all with the same keys; the parameters of workloads are columns such as
        ``parameters.size``, `None` where a workload has none of that name."""
        names = dict.fromkeys(f"parameters.{name}" for one in self.figures for name in one.parameters)
        return alike([msgspec.to_builtins(one) for one in self.figures], ["workload", *names])

    def plot(self) -> Picture:
        """The report's first picture: the ratios or speed-ups with their intervals, of several workloads their matrix,
        and of one backend its times. Raises `UsageError` where nothing has a time."""
        pictures = b.Pictures()
        shown = comparison.first(self._comparisons, matrix(self._comparisons, self.baseline is not None), pictures)
        images = [block for block in shown if isinstance(block, b.Image)]
        images += [comparison.times_of(c, pictures) for c in self._comparisons if c.ranked and not images]
        if not images:
            raise UsageError(f"nothing can be drawn of {self!r}: no row has a time")
        return Picture(pictures[images[0].file], images[0].alt)

    def lines(self, width: int | None = None, wide: bool = False) -> list[str]:
        """The lines that the command prints, of at most ``width`` each: the answer, the table, doubts; ``wide`` with
        all columns."""
        from xbackend.report.written.terminal import lines

        return [*lines(self.results, self.baseline, width, wide), *quiet(self.results)]

    def write(self, folder: str | Path) -> Path | None:
        """Write the report and its data into a folder; returns the path of the document.

        Nothing is written where the report in the folder has times and these results have none: `None`. Raises
        `StoreError`.
        """
        return report.write_times(self.results, Path(folder), self.baseline)

    def __repr__(self) -> str:
        return f"<compared {self.results.run or self.results.name}: {self.answer}>"

    def _blocks(self) -> list[b.AnyBlock]:
        """The answer, and the tables of up to `APART` comparisons, else their matrix; then reasons and doubts."""
        asked, found = self.baseline is not None, self._comparisons
        blocks: list[b.AnyBlock] = [b.paragraph(b.Bold(self.answer))]
        if len(found) > APART and (whole := matrix(found, asked)) is not None:
            blocks.append(across.as_table(whole))
        else:
            for each in found:
                blocks += [b.paragraph(each.title), *tables.ranking(each, asked)]
        bad = [[f"{row.name}: {tables.reason(row.measurement)}"] for c in found for row in c.rows if not row.times]
        warned = [[f"warning: {warning}"] for warning in self.results.settings.warnings or ()]
        warned += [[f"warning: {doubt.cause}"] for doubt in doubts.doubts(found)]
        return [*blocks, *b.points([*bad, *warned])]
