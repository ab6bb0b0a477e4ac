"""``gate``: whether a run is slower than another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from xbackend.analysis import gate as gates
from xbackend.analysis.disturbed import quiet
from xbackend.analysis.gate import GateOutcome, Judged, Judgement, Limit, words
from xbackend.cli import graphs, neighbours, options, output, users
from xbackend.cli.compare import Measuring
from xbackend.cli.console import progress, say, say_lines, width
from xbackend.cli.output import Output
from xbackend.errors import GraphError, UsageError
from xbackend.measure import matrix, revisions
from xbackend.measure.candidates import Case
from xbackend.report.said import review, text
from xbackend.report.written import columns
from xbackend.report.written.columns import WIDTH
from xbackend.results import FOLDER, naming
from xbackend.results.runs import Store
from xbackend.wording import plain

DEFAULT = "slower:5%"
_FAIL = (
    f"{DEFAULT} (the default): passes where the interval of the ratio to BASE lies below 1.05, fails where it lies "
    "above; faster:5%: above 1/1.05, and below; may be given several times"
)
_REV = (
    "twice, in place of the runs: two commits of the git repository that you are in, the first is BASE; the "
    "FILE.py:FUNCTION of each (with --from its graph) is measured, interleaved in one session"
)
_MARKDOWN = "print a comment for a pull request, in place of text: what decides, one table, the notes folded"
_SET = options.sweep("a parameter of the workload, or a keyword argument that the function is traced with")
_USUALLY = Measuring()


def gate(
    base: options.Run | None = None,
    head: options.Run | None = None,
    /,
    *,
    fail: Annotated[list[str] | None, options.repeated("--fail", "LIMIT", _FAIL)] = None,
    rev: Annotated[list[str] | None, options.repeated("--rev", "REVISION", _REV)] = None,
    inputs: options.Inputs = None,
    graph: graphs.GraphChoice = graphs.NONE,
    settings: Annotated[options.Lists, _SET] = None,
    measuring: Measuring = _USUALLY,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    store: options.Store = FOLDER,
    wide: options.Wide = False,
    markdown: Annotated[bool, options.flag(_MARKDOWN)] = False,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Judge a run by another one, or a commit by another one; the exit code is a `GateOutcome`."""
    limits = [Limit.parse(one) for one in fail or [DEFAULT]]
    said = partial(_comment, limits=limits) if markdown else partial(_say, limits=limits, wide=wide)
    kept = Store(store)
    if rev is None:
        if inputs or settings or graph != graphs.NONE or measuring != _USUALLY:
            raise UsageError("how to measure is asked of --rev: the runs BASE and HEAD are measured already")
        if base is None or head is None:
            raise UsageError("give two runs, BASE and HEAD, or two revisions with --rev and FILE.py:FUNCTION")
        return _told(said, *_of_runs(base, head, limits, kept))
    if len(rev) != 2 or base is None or head is not None:
        raise UsageError("write --rev BASE --rev HEAD FILE.py:FUNCTION")
    cases = partial(
        users.cases, inputs=inputs, asked=dict(settings or ()), quick=measuring.quick, seed=measuring.seed, graph=graph
    )
    found = _of_revisions(base, cases, rev, limits=limits, measuring=measuring, kept=kept)
    return _told(said, *found)


def _of_runs(base: str, head: str, limits: Sequence[Limit], kept: Store) -> tuple[Judgement, list[str]]:
    # Before the runs are read: one that ends meanwhile is complete.
    running = [side for side, name in (("BASE", base), ("HEAD", head)) if kept.running(name)]
    before, after = kept.load(base), kept.load(head)
    if before.run and before.run == after.run:
        raise UsageError(f"BASE and HEAD are both the run {before.run}: a run is not judged by itself")
    runs, damaged = kept.readable()
    judged = gates.judge(before, after, limits, running, runs)
    return judged, [
        f"left out of what is known of sessions: run {name} is damaged: {reason}" for name, reason in damaged
    ]


def _of_revisions(
    target: str,
    cases_of: Callable[..., list[Case]],
    rev: Sequence[str],
    *,
    limits: Sequence[Limit],
    measuring: Measuring,
    kept: Store,
) -> tuple[Judgement, list[str]]:
    """The second commit judged by the first, and notes; ``cases_of`` gives the cases of the target in a folder."""
    runs = matrix.runs(measuring.backends, measuring.environments)
    cases, commits = dict[str, Sequence[Case]](), list(map(revisions.commit, rev))
    if commits[0] == commits[1]:
        raise UsageError(f"{rev[0]} and {rev[1]} are both the commit {commits[0]}: a commit is not judged by itself")
    for one, commit in zip(rev, commits, strict=True):
        with revisions.checked_out(one) as (root, folder), neighbours.alone(folder, root) as imported:
            if not (folder / target).resolve().is_relative_to(root):
                raise UsageError(f"{target} is the same for both revisions: name a file of theirs, from here")
            elsewhere: dict[str, str] = {}
            try:
                made = cases_of(str(folder / target), folder=folder, on_modules=elsewhere.update)
            except (UsageError, GraphError) as error:
                raise UsageError(f"{target} of {one}: {error}") from None
            mixed = revisions.tracked({**imported(), **elsewhere})
        if mixed:
            raise UsageError(
                f"{target} of {one} imports {', '.join(mixed)} from the folder that you work in, the "
                "same for both revisions: keep it beside the file, in the folder that you are in, or in its src"
            )
        cases[commit] = made
    with progress() as shown:
        unready = matrix.ready(runs, shown)
        results = revisions.compare(
            cases, unready=unready, name=made[0].workload, store=kept, on_progress=shown, **vars(measuring)
        )
    before, after = (revisions.of_commit(results, one) for one in commits)
    notes = [f"BASE is {rev[0]}, HEAD is {rev[1]}, measured in one session, run {results.run}", *quiet(results)]
    notes += [f"warning: {warning}" for warning in results.settings.warnings or ()]
    return gates.judge(before, after, limits), notes


def _told(said: Callable[[Judgement, Sequence[str]], None], judged: Judgement, more: Sequence[str]) -> Output:
    """Print the judgement and ``more`` notes, as ``said`` does."""
    said(judged, more)
    return output.Gate(
        exit_code=int(judged.outcome),
        answer=judged.sentence,
        outcome=words(judged.outcome),
        rows=[*map(output.judged, judged.rows)],
        notes=[*judged.notes, *more],
    )


def _comment(judged: Judgement, more: Sequence[str], limits: Sequence[Limit]) -> None:
    from xbackend.report.written import markdown  # with Jinja2, for who asks for it

    say(markdown.write(review.build(judged, limits, more)).rstrip("\n"))


def _say(judged: Judgement, more: Sequence[str], limits: Sequence[Limit], wide: bool) -> None:
    fits = width()
    said = gates.power(judged.rows, limits)
    say_lines(columns.wrapped(f"{plain(judged.sentence)} {said[0].upper()}{said[1:]}.", fits))
    if judged.rows:
        say_lines(["", *(_wide if wide else _table)(judged.rows, fits), ""])
    for note in [*(f"{row.label}: {row.reason}" for row in judged.rows if row.reason), *judged.notes, *more]:
        say_lines(columns.wrapped(plain(note), fits, "  "))


def _table(rows: Sequence[Judged], fits: int | None) -> list[str]:
    """The rows by workload and parameters, the deciding ones first."""
    groups: dict[str, list[list[str]]] = {}
    order = {outcome: i for i, outcome in enumerate(GateOutcome)}
    telling = len({row.measurement.devices for row in rows}) > 1
    for row in sorted(rows, key=lambda row: order[row.outcome]):
        m = row.measurement
        name = naming.label(m.backend, m.environment) + (f" on {m.devices}" if telling else "")
        cells = [name, *_compared(row)[:2], words(row.outcome)]
        groups.setdefault(naming.described(m.workload, m.parameters), []).append(list(map(plain, cells)))
    headers = ["backend on devices" if telling else "backend", f"ratio ({text.INTERVAL})", "verdict", "gate"]
    return columns.lines(headers, [*groups.items()], fits or WIDTH, headers[1:2])


def _wide(rows: Sequence[Judged], fits: int | None) -> list[str]:
    headers = ["measurement", "BASE", "HEAD", f"ratio ({text.INTERVAL})", "verdict", "told apart from", "gate"]
    cells = [
        [plain(row.label), text.time(row.base), text.time(row.head), *_compared(row), words(row.outcome)]
        for row in rows
    ]
    return columns.lines(headers, [("", cells)], fits, headers[1:4])


def _compared(row: Judged) -> list[str]:
    """The ratio, its verdict, and the smallest change that would be shown."""
    if row.ratio is None:
        return [text.NOTHING] * 3
    return [text.ratio(row.ratio), row.ratio.words, text.percent(row.ratio.smallest)]
