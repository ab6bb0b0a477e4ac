"""One workload over time: a comparison in the runs of a store, each machine by itself, changes of versions marked.

A pure function of the runs. A verdict is on a run and the one before it on the same machine with as many threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.history import Line, Point, Series, changes, name_of, series
from xbackend.analysis.statistics import FEWEST_SESSIONS, Verdict
from xbackend.report.drawn import history as history_plots
from xbackend.report.said import text
from xbackend.report.said.blocks import (
    Block,
    Bold,
    Contents,
    Heading,
    Paragraph,
    Pictures,
    paragraph,
    table,
    tabled,
    terms,
)
from xbackend.report.said.tables import status
from xbackend.results.schema import Results
from xbackend.wording import counted, join, plain

_HEADERS = ("backend", "devices", "run", "time", f"against the run before ({text.INTERVAL})", "verdict", "notes")
_CHANGES = ("comparison", "machine", *_HEADERS)

READING = (
    ("Against the run before", "the time divided by that of the complete run before it, so below 1 is faster."),
    (
        "Verdict",
        "as in a report, of two, and the interval at least as wide as "
        f"earlier sessions differ, where {FEWEST_SESSIONS} or more with the same versions are known; where not, it is "
        "said. Between two runs lie hours or months, in which more changes than versions: measure both versions in one "
        "run (--env) before blaming one.",
    ),
    (
        "Plots",
        "a panel for each backend, a point the time in a run, its bar the 95 % interval, which takes at least 3 "
        "processes, with an arrow where it goes on beyond the panel. A flat stroke is of an incomplete run, a cross of "
        "one that gave no time; a dashed line is where versions changed. Runs stand one beside the other, however long "
        "apart; the axes of time do not begin at 0.",
    ),
)


def build(
    runs: Sequence[Results], workload: str | None = None, damaged: Sequence[tuple[str, str]] = ()
) -> tuple[list[Block], Pictures]:
    """The history as blocks and its pictures by file name.

    ``runs`` are the oldest first; ``damaged`` names those that cannot be read, with the reason. Raises as `series`.
    """
    shown = series(runs, workload)
    pictures = Pictures()
    title = "History" if workload is None else f"History of {plain(workload)}"
    blocks: list[Block] = [Heading(1, title), *_notices(runs, damaged), Heading(2, "Summary"), *_summary(runs, shown)]
    blocks += [Heading(2, "Contents"), Contents(), Heading(2, "How to read it"), terms(READING)]
    last = ""
    for number, each in enumerate(shown, 1):
        if each.title != last:
            blocks.append(Heading(2, each.title))
            last = each.title
        blocks.append(Heading(3, f"On {each.place}"))
        if history_plots.drawn(each):
            words = f"{each.title} over {counted(len(each.runs), 'run')}, on {each.place}"
            drawn = history_plots.picture(each, words)
            blocks.append(pictures.add("history", each.workload, drawn, words, number=number))
        rows = [_row(line, point) for line in each.lines for point in line.points]
        blocks.append(table(_HEADERS, rows, right=("devices", *_HEADERS[3:5])))
    return [*blocks, Heading(2, "Runs"), _runs(runs, damaged)], pictures


def _notices(runs: Sequence[Results], damaged: Sequence[tuple[str, str]]) -> list[Block]:
    """What stands above all the rest: runs that are not in it, or not whole."""
    said = []
    if damaged:
        words = f" {counted(len(damaged), 'run')} cannot be read and will not be found below"
        names = join(plain(name) for name, _ in damaged)
        said.append(("Damaged.", f"{words}: {names}. The reasons stand with the list of runs."))
    if cut_off := [name_of(run) for run in runs if not run.complete]:
        said.append(("Incomplete.", f" {counted(len(cut_off), 'run')} did not finish: {join(cut_off)}."))
    return [Paragraph((Bold(what), words), notice=True) for what, words in said]


def change_table(of: Sequence[Series]) -> tuple[list[str], list[list[str]]]:
    """The headers and rows of `changes`, as plain text."""
    return list(_CHANGES), [[each.title, each.place, *_row(line, point)] for each, line, point in changes(of)]


def _summary(runs: Sequence[Results], of: Sequence[Series]) -> list[Block]:
    if not of:
        return [paragraph("No run holds a measurement.")]
    dates = [text.moment(run.created) for run in runs]
    words = f"{counted(len(runs), 'run')}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}."
    newest = [change.verdict for each in of for line in each.lines if (change := line.points[-1].change) is not None]
    faster, slower = newest.count(Verdict.FASTER), newest.count(Verdict.SLOWER)
    outcome = (
        f" Of {counted(len(newest), 'candidate')} that can be compared with a run before, {slower} "
        f"{'is' if slower == 1 else 'are'} shown to be slower in the newest run and {faster} to be faster."
        if newest
        else " Nothing can be compared with a run before on the same machine."
    )
    return [paragraph(words, outcome), *tabled(*change_table(of), right=("devices", *_HEADERS[3:5]))]


def _row(line: Line, point: Point) -> list[str]:
    change, m = point.change, point.measured.measurement
    notes = [point.news] if point.news else []
    notes += [] if point.run.complete else ["incomplete run"]
    notes += [] if change is None or change.sessions else ["how sessions differ is not known"]
    notes += [] if m.status == "ok" else [status(m)]
    return [
        line.label,
        str(line.devices),
        name_of(point.run),
        text.time(point.measured.time),
        text.NOTHING if change is None else text.ratio(change),
        text.NOTHING if change is None else text.verdict(change),
        "; ".join(notes) or text.NOTHING,
    ]


def _runs(runs: Sequence[Results], damaged: Sequence[tuple[str, str]]) -> Block:
    rows = []
    for run in runs:
        when, state = text.moment(run.created), "complete" if run.complete else "incomplete"
        rows.append([name_of(run), when, state, run.machine.processor, run.machine.fingerprint, run.xbackend])
    rows += [[name, text.NOTHING, f"damaged: {reason}", *[text.NOTHING] * 3] for name, reason in damaged]
    return table(("run", "measured", "state", "machine", "fingerprint", "xbackend"), rows)
