"""The report of a job on a cluster: did it come to the same everywhere, how long is a step, what was lost."""

from __future__ import annotations

from itertools import chain
from statistics import median

from xbackend.drawing.graph import bytes_text
from xbackend.report import text
from xbackend.report.blocks import Block, Heading, bullets, paragraph, table, tabled, terms
from xbackend.report.pictures import Pictures
from xbackend.results.clustered import Clustered, Jobs
from xbackend.wording import counted, join, plain
from xbackend.workloads.agreement import agree

HEADERS = ("backend", "variables", "step", "start", "updates", "moved", "lost")
RIGHT = HEADERS[2:]
READING = (
    (
        "variables",
        "the largest difference of a variable after the last step from that of the first backend, over the largest "
        "element of its array; or, of asynchronous tasks, which have an order of their own, whether their updates "
        "repeated in one process come to the same",
    ),
    ("step", "the median of all workers' steps, one process each: which is faster, xbackend compare says"),
    ("start", "until the processes were there and had met"),
    ("updates", "that parameter servers applied, each once"),
    ("moved", "between a step's task and the parameter servers, in a step"),
    ("lost", "tasks that were lost and started again"),
)


def answer(jobs: Jobs) -> str:
    """What the variables of all say, in a sentence."""
    done = [run for run in jobs.runs if run.status == "ok"]
    failed = sum(run.status == "failed" for run in jobs.runs)
    tasks = join([counted(jobs.workers, "worker"), *([counted(jobs.servers, "server")] if jobs.servers else [])])
    what = "backend" if len({run.backend for run in jobs.runs}) == len(jobs.runs) else "run"
    said = f"{plain(jobs.job)}, {tasks}, {counted(jobs.steps, 'step')}: {counted(len(done), what)} ended"
    if done and done[0] is not jobs.runs[0]:
        said += f" ({_name(done[0], jobs)} is the reference, as {_name(jobs.runs[0], jobs)} {_ended(jobs.runs[0])})"
    other = apart(jobs)
    same = [run for run in done if run.difference is not None and run not in other]
    if same:
        most = max(same, key=lambda run: run.difference or 0.0)
        said += f", with the variables of {_name(done[0], jobs)} but for {text.power(most.difference)} at most"
        said += f" ({_name(most, jobs)})"
    if other:
        far = [f"{_name(run, jobs)} ({text.power(run.difference)})" for run in other]
        said += f", other variables than {_name(done[0], jobs)}, by more than roundings make: {join(far)}"
    repeated = [run for run in done if run.replayed is not None]
    if repeated:
        equal = sum(bool(run.replayed) for run in repeated)
        said += f", {equal} of {len(repeated)} repeated to the bit in one process"
    nan = [_name(run, jobs) for run in jobs.runs if run.status == "not verified"]
    return f"{said}{f'; {failed} failed' if failed else ''}{f'; with NaN, not verified: {join(nan)}' if nan else ''}"


def _ended(run: Clustered) -> str:
    return "failed" if run.status == "failed" else "is not verified"


def _name(run: Clustered, jobs: Jobs) -> str:
    """The backend of a run; with what joined it, where another run is of that backend, too."""
    several = sum(one.backend == run.backend for one in jobs.runs) > 1
    return plain(f"{run.backend} ({run.by})" if several else run.backend)


def apart(jobs: Jobs) -> list[Clustered]:
    """The runs that ended with other variables than the first that ended, by more than roundings make."""
    return [run for run in jobs.runs if not agree(run.difference or 0.0, ["float32"])]  # of whatever dtype they are


def rows(jobs: Jobs) -> list[list[str]]:
    """A row of `HEADERS` for each backend, in plain text."""
    found, unit = [], text.time_unit([_step(run) for run in jobs.runs if any(run.seconds)])
    for run in jobs.runs:
        if run.status != "ok":
            found.append([_name(run, jobs), run.status, *[text.NOTHING] * (len(HEADERS) - 2)])
            continue
        steps = run.taken or jobs.steps * jobs.workers
        found.append(
            [
                _name(run, jobs),
                _agrees(run, jobs),
                text.time(_step(run), unit) if any(run.seconds) else text.NOTHING,
                f"{run.start:.1f} s",
                f"{run.updates:,}" if jobs.servers else text.NOTHING,
                bytes_text((run.pulled + run.pushed) // steps) if jobs.servers else text.NOTHING,
                str(len(run.faults)),
            ]
        )
    return found


def _step(run: Clustered) -> float:
    return median(chain(*run.seconds))


def _agrees(run: Clustered, jobs: Jobs) -> str:
    if run.replayed is not None:
        return "replayed to the bit" if run.replayed else "replayed: other numbers"
    if run.reason:
        return "not replayed"
    if jobs.asynchronous:
        return "an order of its own"
    return "reference" if run.difference is None else text.power(run.difference)


def failures(jobs: Jobs) -> list[str]:
    """A line for each backend that did not end, or could not be replayed."""
    return [f"{_name(run, jobs)}: {plain(run.reason)}" for run in jobs.runs if run.reason]


def build(jobs: Jobs) -> tuple[list[Block], Pictures]:
    """The report as blocks, and its pictures by file name."""
    sentence = answer(jobs)
    blocks: list[Block] = [
        Heading(1, f"{plain(jobs.job)} on a cluster"),
        paragraph(sentence[0].upper() + sentence[1:] + "."),
        table(HEADERS, rows(jobs), right=RIGHT),
        terms(READING),
    ]
    if failures(jobs):
        blocks += [Heading(2, "What failed"), bullets(*([line] for line in failures(jobs)))]
    lost = [
        [_name(run, jobs), one.task, str(one.step), plain(one.why), one.again, f"{one.seconds:.1f} s"]
        for run in jobs.runs
        for one in run.faults
    ]
    if lost:
        headers = ("backend", "task", "step", "why", "started again", "until it went on")
        blocks += [Heading(2, "What was lost"), *tabled(headers, lost, right=[headers[2], headers[5]])]
    blocks += [Heading(2, "What joined the tasks"), *_joined(jobs), Heading(2, "Circumstances"), _circumstances(jobs)]
    return blocks, Pictures()


def _joined(jobs: Jobs) -> list[Block]:
    found = []
    for run in jobs.runs:
        addresses = sorted(set(chain(*run.listens.values())))
        copies = {None: text.NOTHING, True: "equal to the bit", False: "differ"}[run.copies]
        found.append([_name(run, jobs), run.engine, join(addresses) if addresses else "nothing", copies])
    return tabled(("backend", "engine", "listened on", "copies of workers"), found)


def _circumstances(jobs: Jobs) -> Block:
    machine = jobs.machine
    order = "asynchronous" if jobs.asynchronous else "in step"
    said = [
        [f"{plain(jobs.job)}: {plain(jobs.summary)}"] if jobs.summary else [plain(jobs.job)],
        [f"{order}, on {join(map(plain, jobs.hosts))}"],
        [f"{jobs.created}, on {plain(machine.processor)}, {counted(machine.cores, 'core')}"],
    ]
    said += [
        [f"{_name(run, jobs)}: {', '.join(f'{p} {v}' for p, v in run.versions.items())}"]
        for run in jobs.runs
        if run.versions
    ]
    return bullets(*said)
