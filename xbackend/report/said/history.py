"""One workload over time: the runs of a store, each machine by itself, with changes of versions.

A verdict compares a run with its predecessor on the same machine with as many threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.history import Line, Point, Series, changes, name_of
from xbackend.analysis.statistics import FEWEST_SESSIONS, Verdict
from xbackend.report.drawn import history as drawn
from xbackend.report.said import text
from xbackend.report.said.blocks import (
    AnyBlock,
    Contents,
    Heading,
    Pictures,
    notice,
    paragraph,
    records,
    section,
    terms,
)
from xbackend.report.said.tables import reason
from xbackend.results.schema import Results
from xbackend.wording import counted, join, plain

_SHORT = 160  # characters of a reason
_NUMBERS = ("devices", "time", f"against the run before ({text.INTERVAL})")
READING = {
    "Against the run before": "the time over that of the complete run before it: below 1 is faster.",
    "Verdict": f"as in a report, of two. The interval is at least as wide as earlier sessions differ, where "
    f"{FEWEST_SESSIONS} or more with the same versions are known; where not, it is said. Between two runs lie hours or "
    "months, in which more changes than versions: measure both versions in one run (--env) before blaming one.",
    "Plots": "a panel for each backend, a point the time in a run, a bar its 95 % interval, which takes at least 3 "
    "processes, with an arrow where it leaves the panel. A flat stroke is of an incomplete run, a cross of one without "
    "a time; a dashed line is where versions changed. The distance of runs is not that of their dates; axes of time do "
    "not begin at 0.",
}


def build(
    runs: Sequence[Results],
    shown: Sequence[Series],
    workload: str | None = None,
    damaged: Sequence[tuple[str, str]] = (),
) -> tuple[list[AnyBlock], Pictures]:
    """The history as blocks and its pictures by file name.

    ``runs`` are the oldest first, ``shown`` their `series`; ``damaged`` names those that cannot be read, with the
    reason.
    """
    pictures = Pictures()
    title = "History" if workload is None else f"History of {plain(workload)}"
    blocks: list[AnyBlock] = [
        Heading(1, title),
        *_notices(runs, damaged),
        Heading(2, "Summary"),
        *_summary(runs, shown),
    ]
    blocks += [Heading(2, "Contents"), Contents(), Heading(2, "How to read it"), terms(READING)]
    last = ""
    for each in shown:
        blocks += [Heading(2, each.title)] if each.title != last else []
        last = each.title
        blocks.append(Heading(3, f"On {each.place}"))
        words = f"{each.title} over {counted(len(each.runs), 'run')}, on {each.place}"
        if picture := drawn.picture(each, words):
            blocks.append(pictures.add("history", each.workload, picture, words))
        blocks += records([_row(line, point) for line in each.lines for point in line.points], right=_NUMBERS)
    return [*blocks, *section("Runs", _runs(runs, damaged))], pictures


def _notices(runs: Sequence[Results], damaged: Sequence[tuple[str, str]]) -> list[AnyBlock]:
    said = list[AnyBlock]()
    if damaged:
        words = f"{counted(len(damaged), 'run')} cannot be read and will not be found below"
        names = join(plain(name) for name, _ in damaged)
        said.append(notice("Damaged.", f"{words}: {names}. The reasons stand with the list of runs."))
    if cut_off := [name_of(run) for run in runs if not run.complete]:
        said.append(notice("Incomplete.", f"{counted(len(cut_off), 'run')} did not finish: {join(cut_off)}."))
    return said


def change_rows(of: Sequence[Series]) -> list[dict[str, str]]:
    """The rows of `changes`, as plain text."""
    return [{"comparison": each.title, "machine": each.place, **_row(line, point)} for each, line, point in changes(of)]


def _summary(runs: Sequence[Results], of: Sequence[Series]) -> list[AnyBlock]:
    if not of:
        return [paragraph("No run holds a measurement.")]
    dates = [text.moment(run.created) for run in runs]
    words = f"{counted(len(runs), 'run')}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}."
    newest = [change.verdict for each in of for line in each.lines if (change := line.points[-1].change) is not None]
    faster, slower = newest.count(Verdict.FASTER), newest.count(Verdict.SLOWER)
    outcome = " Nothing can be compared with a run before on the same machine."
    if newest:
        outcome = f" Of {counted(len(newest), 'candidate')} that can be compared with a run before, {slower} "
        outcome += f"{'is' if slower == 1 else 'are'} shown to be slower in the newest run and {faster} to be faster."
    return [paragraph(words, outcome), *records(change_rows(of), right=_NUMBERS)]


def _row(line: Line, point: Point) -> dict[str, str]:
    change, m = point.change, point.measured.measurement
    notes = [point.news] if point.news else []
    notes += [] if point.run.complete else ["incomplete run"]
    notes += [] if change is None or change.sessions else ["how sessions differ is not known"]
    notes += [] if m.status == "ok" else [f"{m.status}: {text.shorten(reason(m), _SHORT)}"]
    return {
        "backend": line.label,
        "devices": str(line.devices),
        "run": name_of(point.run),
        "time": text.time(point.measured.time),
        _NUMBERS[-1]: text.NOTHING if change is None else text.ratio(change),
        "verdict": text.NOTHING if change is None else text.verdict(change),
        "notes": "; ".join(notes) or text.NOTHING,
    }


def _runs(runs: Sequence[Results], damaged: Sequence[tuple[str, str]]) -> list[AnyBlock]:
    rows = list[tuple[str, ...]]()
    for run in runs:
        state, machine = "complete" if run.complete else "incomplete", run.machine
        last = machine.processor, machine.fingerprint, run.xbackend
        rows.append((name_of(run), text.moment(run.created), state, *last))
    rows += [(name, text.NOTHING, f"damaged: {reason}", *[text.NOTHING] * 3) for name, reason in damaged]
    columns = ("run", "measured", "state", "machine", "fingerprint", "xbackend")
    return records([dict(zip(columns, row, strict=True)) for row in rows])
