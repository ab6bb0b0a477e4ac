"""The report of a job on a cluster: did it come to the same everywhere, how long is a step, what was lost."""

from __future__ import annotations

from itertools import chain
from statistics import median

from xbackend.drawing.graph import bytes_text
from xbackend.report.said import text
from xbackend.report.said.blocks import Block, Pictures, points, section, table, tabled, terms
from xbackend.report.said.outcomes import Ended, circumstances, opening
from xbackend.results.clustered import Clustered, Jobs
from xbackend.wording import counted, join, plain

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


def tasks(jobs: Jobs) -> str:
    """How many tasks there are, in words."""
    return join([counted(jobs.workers, "worker"), *([counted(jobs.servers, "server")] if jobs.servers else [])])


def order(jobs: Jobs) -> str:
    """Whether tasks wait for each other, in words."""
    return "asynchronous" if jobs.asynchronous else "in step"


def ended(jobs: Jobs) -> Ended[Clustered]:
    """Which runs ended alike, in whatever dtype. Of several on a backend the name says also what joined each."""
    backends = [run.backend for run in jobs.runs]

    def name(run: Clustered) -> str:
        return plain(f"{run.backend} ({run.by})" if backends.count(run.backend) > 1 else run.backend)

    return Ended(jobs.runs, name, "backend" if len({*backends}) == len(backends) else "run", ["float32"])


def answer(jobs: Jobs) -> str:
    """What the variables of all say, in a sentence."""
    runs = ended(jobs)
    done = runs.done
    said = f"{plain(jobs.job)}, {tasks(jobs)}, {counted(jobs.steps, 'step')}: {counted(len(done), runs.noun)} ended"
    first = runs.name(done[0]) if done else ""
    if most := runs.farthest:
        said += f", with the variables of {first} but for {text.power(most.difference)} at most ({runs.name(most)})"
    repeated = [bool(run.replayed) for run in done if run.replayed is not None]
    if repeated:
        said += f", {sum(repeated)} of {len(repeated)} repeated to the bit in one process"
    return said + runs.rest(f", other variables than {first}")


def rows(jobs: Jobs) -> list[list[str]]:
    """A row of `HEADERS` for each backend, in plain text."""
    found, unit = [], text.time_unit([_step(run) for run in jobs.runs if any(run.seconds)])
    name = ended(jobs).name
    for run in jobs.runs:
        if run.status != "ok":
            found.append([name(run), run.status, *[text.NOTHING] * (len(HEADERS) - 2)])
            continue
        steps = run.taken or jobs.steps * jobs.workers
        found.append(
            [
                name(run),
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


def build(jobs: Jobs) -> tuple[list[Block], Pictures]:
    """The report as blocks, and its pictures by file name."""
    runs = ended(jobs)
    lost = [
        [runs.name(run), one.task, str(one.step), plain(one.why), one.again, f"{one.seconds:.1f} s"]
        for run in jobs.runs
        for one in run.faults
    ]
    headers = ("backend", "task", "step", "why", "started again", "until it went on")
    joined = []
    for run in jobs.runs:
        addresses = sorted(set(chain(*run.listens.values())))
        copies = {None: text.NOTHING, True: "equal to the bit", False: "differ"}[run.copies]
        joined.append([runs.name(run), run.engine, join(addresses) if addresses else "nothing", copies])
    words = f"{order(jobs)}, on {join(map(plain, jobs.hosts))}"
    return [
        *opening(f"{plain(jobs.job)} on a cluster", answer(jobs)),
        table(HEADERS, rows(jobs), right=RIGHT),
        terms(READING),
        *section("What failed", points([line] for line in runs.failures)),
        *section("What was lost", tabled(headers, lost, right=[headers[2], headers[5]])),
        *section("What joined the tasks", tabled(("backend", "engine", "listened on", "copies of workers"), joined)),
        *circumstances(jobs, jobs.job, words, [(runs.name(run), run) for run in jobs.runs]),
    ], Pictures()
