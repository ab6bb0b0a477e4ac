"""A judgement of the gate as a comment where a change is reviewed: what decides, one table, and the notes, folded."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.gate import GateOutcome, Judged, Judgement, Limit, power, words
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Bold, Folded, Paragraph, paragraph, points, table
from xbackend.results import naming
from xbackend.wording import counted

# Rows and notes that are shown: a comment on a forge has at most 65 536 characters.
_ROWS, _NOTES = 50, 20
_SENTENCE, _NOTE, _CELL = 2000, 300, 150  # their characters
_RATIO = f"ratio ({text.INTERVAL})"
_WORST = list(GateOutcome)


def build(judged: Judgement, limits: Sequence[Limit], notes: Sequence[str]) -> list[AnyBlock]:
    """The blocks of a comment; ``notes`` are those beside the judgement's own."""
    rows = sorted(judged.rows, key=lambda row: _WORST.index(row.outcome))
    said = power(rows, limits)
    blocks: list[AnyBlock] = [
        paragraph(Bold(text.shorten(judged.sentence, _SENTENCE)), f" {said[0].upper()}{said[1:]}.")
    ]
    if rows:
        telling = len({row.measurement.devices for row in rows}) > 1
        headers = ["workload", "backend", *["devices"] * telling, "BASE", "HEAD", _RATIO, "verdict", "gate"]
        right = {"devices", "BASE", "HEAD", _RATIO}
        blocks.append(table(headers, [_cells(row, telling) for row in rows[:_ROWS]], right))
    if more := len(rows) - _ROWS:
        blocks += _left_out(counted(more, "row")) if more > 0 else []
    every = [*(f"{row.label}: {row.reason}" for row in rows if row.reason), *judged.notes, *notes]
    shown = points([text.shorten(note, _NOTE)] for note in every[:_NOTES])
    if len(every) > _NOTES:
        shown += _left_out(counted(len(every) - _NOTES, "note"))
    return [*blocks, *([Folded(counted(len(every), "note"), shown)] if every else [])]


def _left_out(what: str) -> list[Paragraph]:
    return [paragraph(f"{what} more: xbackend gate prints all without --markdown.")]


def _cells(row: Judged, telling: bool) -> list[str]:
    m = row.measurement
    where = [naming.described(m.workload, m.parameters), naming.label(m.backend, m.environment)]
    told = [text.NOTHING] * 2 if row.ratio is None else [text.ratio(row.ratio), row.ratio.words]
    times = [text.time(row.base), text.time(row.head)]
    where = [text.shorten(name, _CELL) for name in where]
    return [*where, *[str(m.devices)] * telling, *times, *told, words(row.outcome)]
