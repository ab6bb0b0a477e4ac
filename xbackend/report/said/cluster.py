"""The report of a job on a cluster: do its variables agree everywhere, how long is a step, which tasks were lost."""

from __future__ import annotations

from itertools import chain
from statistics import median

from xbackend.drawing.graph import bytes_text
from xbackend.report.drawn import steps
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Pictures, records, section
from xbackend.report.said.outcomes import Ended, Said, difference, document
from xbackend.results.clustered import Clustered, Jobs
from xbackend.wording import counted, join, plain

_READING = {
    "variables": "the largest difference of a variable after the last step from that of the first backend, over the "
    "largest element of its array; of asynchronous tasks, whose order is their own, whether their updates repeated in "
    "one process come to the same",
    "step": "the median of all workers' steps, one process each: which is faster, xbackend compare says",
    "start": "until the processes were there and had met",
    "updates": "that parameter servers applied, each once",
    "moved": "between a step's task and the parameter servers, in a step",
    "lost": "tasks that were lost and started again",
}


def tasks(jobs: Jobs) -> str:
    """How many tasks there are, in words."""
    return join([counted(jobs.workers, "worker"), *([counted(jobs.servers, "server")] if jobs.servers else [])])


def order(jobs: Jobs) -> str:
    """Whether tasks wait for each other, in words."""
    return "asynchronous" if jobs.asynchronous else "in step"


def said(jobs: Jobs) -> Said[Clustered]:
    """The answer about the variables of all, and a row for each run. Several on one backend have the engine in their
    names."""
    backends = [run.backend for run in jobs.runs]

    def name(run: Clustered) -> str:
        return plain(f"{run.backend} ({run.by})" if backends.count(run.backend) > 1 else run.backend)

    runs = Ended(jobs.runs, name, "backend" if len({*backends}) == len(backends) else "run", ["float32"])
    done = runs.done
    answer = f"{plain(jobs.job)}, {tasks(jobs)}, {counted(jobs.steps, 'step')}: {counted(len(done), runs.noun)} ended"
    first = runs.name(done[0]) if done else ""
    if most := runs.farthest:
        answer += f", with the variables of {first} but for {text.power(most.difference)} at most ({runs.name(most)})"
    repeated = [bool(run.replayed) for run in done if run.replayed is not None]
    if repeated:
        answer += f", {sum(repeated)} of {len(repeated)} repeated to the bit in one process"
    answer += runs.rest(f", other variables than {first}")
    unit = text.time_unit([_step(run) for run in jobs.runs])
    empty = dict.fromkeys(("backend", *_READING), text.NOTHING)
    rows = [empty | {"backend": runs.name(run), "variables": run.status} | _cells(run, jobs, unit) for run in jobs.runs]
    return Said(runs, answer, rows, [*_READING][1:], _READING)


def _cells(run: Clustered, jobs: Jobs, unit: tuple[str, float]) -> dict[str, str]:
    if run.status != "ok":
        return {}
    steps = run.taken or jobs.steps * jobs.workers
    served = {"updates": f"{run.updates:,}", "moved": bytes_text((run.pulled + run.pushed) // steps)}
    cells = {"variables": _agrees(run, jobs), "step": text.time(_step(run), unit), "start": f"{run.start:.1f} s"}
    return cells | {"lost": str(len(run.faults)), **(served if jobs.servers else {})}


def _step(run: Clustered) -> float | None:
    return median(chain(*run.seconds)) if any(run.seconds) else None


def _agrees(run: Clustered, jobs: Jobs) -> str:
    if run.replayed is not None:
        return "replayed to the bit" if run.replayed else "replayed: other numbers"
    if run.reason:
        return "not replayed"
    return "an order of its own" if jobs.asynchronous else difference(run)


def build(jobs: Jobs, _: str | None = None) -> tuple[list[AnyBlock], Pictures]:
    """The report as blocks, and its pictures by file name."""
    what, lost, joined = said(jobs), list[dict[str, str]](), list[dict[str, str]]()
    for run in jobs.runs:
        backend = {"backend": what.ended.name(run)}
        for one in run.faults:
            fault = {"task": one.task, "step": str(one.step), "why": plain(one.why), "started again": one.again}
            lost.append(backend | fault | {"until it went on": f"{one.seconds:.1f} s"})
        addresses = join(sorted(set(chain(*run.listens.values())))) or "nothing"
        copies = {None: text.NOTHING, True: "equal to the bit", False: "differ"}[run.copies]
        joined.append(backend | {"engine": run.engine, "listened on": addresses, "copies of workers": copies})
    how = f"{order(jobs)}, on {join(map(plain, jobs.hosts))}"
    after = section("What was lost", records(lost, right=("step", "until it went on")))
    after += section("What joined the tasks", records(joined))
    pictures, timed = Pictures(), [run for run in what.ended.done if any(chain(*run.seconds))]
    before = []
    if timed:
        words = (
            f"Steps of {plain(jobs.job)}: of each worker the median, and those between the fastest and slowest tenth"
        )
        picture = steps.picture(timed, [what.ended.name(run) for run in timed], words)
        before = [pictures.add("steps", "", picture, words)]
    return document(what, jobs, (f"{plain(jobs.job)} on a cluster", jobs.job, how), before, after), pictures
