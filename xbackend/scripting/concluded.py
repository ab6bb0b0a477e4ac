"""The outcomes of trainings, or of jobs on clusters, for scripts and notebooks."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from xbackend import report
from xbackend.analysis import outcomes
from xbackend.errors import UsageError
from xbackend.report import kinds
from xbackend.report.said import blocks as b
from xbackend.report.said.outcomes import Said
from xbackend.results.schema import Outcomes
from xbackend.scripting.tabled import Picture, Tabled, alike


class Concluded(Tabled):
    """The outcomes of `xbackend train`, or of `xbackend cluster run`, as `xbackend.load_results` reads them.

    ``results`` are the data as they are stored: the losses and seconds of each step, epochs, lost tasks.

    >>> import tempfile
    >>> found = xb.load_results("reports/digits")
    >>> found.answer.partition(",")[0]
    'all 39 trainings of network end with the weights of numpy'
    >>> first, *_ = found.rows()
    >>> first["backend"], first["strategy"], first["status"], first["difference"]
    ('numpy', 'one', 'ok', None)
    >>> found.plot()
    <picture: Loss of network over the epochs, of 39 trainings, and how far they are apart>
    >>> len(found.lines(80)) > 5
    True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(found.write(folder).name)
    training.md
    """

    def __init__(self, results: Outcomes) -> None:
        self.results = results

    @cached_property
    def _said(self) -> Said[Any]:
        return kinds.of(self.results).outcomes(self.results)

    @property
    def answer(self) -> str:
        """The first sentence: whether all end with the same numbers, and who does not."""
        return self._said.answer

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each training or job, all with the same keys. Times are seconds; the means of the last epoch
        are columns such as ``test.accuracy``, `None` where there are none."""
        return alike([msgspec.to_builtins(outcomes.row(run)) for run in self.results.runs])

    def plot(self) -> Picture:
        """The report's first picture: the losses of trainings, the steps of jobs. Raises `UsageError` where none
        ended."""
        blocks, pictures = kinds.of(self.results).build(self.results, None)
        images = [block for block in blocks if isinstance(block, b.Image)]
        if not images:
            raise UsageError(f"nothing can be drawn of {self!r}: no run ended with steps that were timed")
        return Picture(pictures[images[0].file], images[0].alt)

    def lines(self, width: int | None = None) -> list[str]:
        """The lines that the command prints, of at most ``width`` each: the answer, the table, the failures."""
        from xbackend.report.written.terminal import outcomes as lines

        return lines(self._said, width)

    def write(self, folder: str | Path) -> Path:
        """Write the report and its data into a folder; returns the path of the document. Raises `StoreError`."""
        return report.write(self.results, Path(folder))

    def __repr__(self) -> str:
        return f"<{kinds.of(self.results).document}: {self.answer}>"

    def _blocks(self) -> list[b.AnyBlock]:
        said = self._said
        notes = [[note] for note in (*said.ended.failures, *said.notes)]
        return [b.paragraph(b.Bold(self.answer)), *b.records(said.rows, said.right), *b.points(notes)]
