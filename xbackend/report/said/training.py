"""The report of a model trained on backends: whether the weights agree, what was learnt, how long a step takes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from xbackend.drawing.graph import bytes_text
from xbackend.report.drawn import losses
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Heading, Pictures, paragraph, records, table
from xbackend.report.said.outcomes import Ended, Said, difference, document
from xbackend.results.trained import Trained, Trainings
from xbackend.wording import counted, join, plain
from xbackend.workloads.agreement import of_roundings

_RIGHT = ("weights", "step", "examples/s")
_TIMES = "A step's time is of one process, with the copies of its batch: which is faster, xbackend compare says."
_READING = {
    "loss": "the mean over the rows of the last epoch, in training",
    "test": "means over the test rows after it, or over those of the epoch where there are none",
    "step": "the median, from the end of a step to that of the next: with the copies of its batch to the devices and "
    "of its scalars back",
    "bytes at once": "of the program's arrays on a device, by its placement: not what a framework adds or saves",
}


def said(trainings: Trainings) -> Said[Trained]:
    """The answer about the weights of all, and a row for each training."""
    runs = Ended(trainings.runs, named, "training", trainings.dtypes)
    unit = text.time_unit([_step(run) for run in trainings.runs])
    empty = dict.fromkeys(("backend", "strategy", "loss", "test", *_RIGHT), text.NOTHING)
    rows = [empty | _backend(run) | {"loss": run.status} | _cells(run, unit) for run in trainings.runs]
    bound = f"Devices that the model names were bound as asked for: {plain(trainings.devices_map)}."
    notes = [_TIMES, *([bound] if trainings.devices_map else [])]
    return Said(runs, _answer(runs, plain(trainings.model)), rows, _RIGHT, _READING, notes)


def _answer(runs: Ended[Trained], model: str) -> str:
    done = runs.done
    if len(done) < 2:
        return f"{counted(len(done), 'training')} of {model} ended{runs.rest('')}"
    number = f"{len(done) - len(runs.apart)} of {len(done)}" if runs.apart else f"all {len(done)}"
    answer = f"{number} trainings of {model} end with the weights of {named(done[0])}"
    if most := runs.farthest:
        largest = text.power(most.difference)
        answer += f", but for {largest} of the largest at most ({named(most)}, {join(runs.dtypes)})"
    return answer + runs.rest("; other weights")


def _backend(run: Trained) -> dict[str, str]:
    return {"backend": plain(run.backend), "strategy": plain(run.strategy)}


def _step(run: Trained) -> float | None:
    return median(run.seconds) if run.seconds else None


def _cells(run: Trained, unit: tuple[str, float]) -> dict[str, str]:
    if run.status != "ok":
        return {}
    last = run.epochs[-1]
    scores = last.test or last.train
    own = [f"{key} {value:.4g}" for key, value in scores.items() if key != "loss" or len(scores) == 1]
    return {
        "loss": f"{last.train['loss']:.6g}" if "loss" in last.train else text.NOTHING,
        "test": join(own) or text.NOTHING,
        "weights": difference(run),
        "step": text.time(_step(run), unit),
        "examples/s": f"{sum(run.rows) / sum(run.seconds):,.0f}" if run.seconds else text.NOTHING,
    }


def build(trainings: Trainings, _: str | None = None) -> tuple[list[AnyBlock], Pictures]:
    """The report as blocks, and its pictures by file name."""
    pictures = Pictures()
    what, model = said(trainings), plain(trainings.model)
    done, before = what.ended.done, _agreement(trainings)
    if any(run.losses for run in done):
        words = f"Loss of {model} over the epochs, of {counted(len(done), 'training')}, and how far they are apart"
        picture = losses.picture(done, named, of_roundings(trainings.dtypes), words)
        before += [Heading(2, "What was learnt?"), pictures.add("losses", "", picture, words)]
    how = f"optimizer {plain(trainings.optimizer)}, batches of {trainings.batch} rows, seed {trainings.seed}"
    of = f"Training of {model}", trainings.model, how
    return document(what, trainings, of, before, [Heading(2, "Devices"), *_devices(done)]), pictures


def named(run: Trained) -> str:
    """The name of a training."""
    return f"{plain(run.backend)}, {plain(run.strategy)} on {counted(run.devices, 'device')}"


def _agreement(trainings: Trainings) -> list[AnyBlock]:
    strategies = list(dict.fromkeys(run.strategy for run in trainings.runs))
    cells = {(run.backend, run.strategy): difference(run) for run in trainings.runs}
    backends = dict.fromkeys(run.backend for run in trainings.runs)
    rows = [[plain(b), *(cells.get((b, s), text.NOTHING) for s in strategies)] for b in backends]
    resumed = [f"{named(run)} from step {run.began}" for run in trainings.runs if run.began and run.losses]
    before = [named(run) for run in trainings.runs if run.status == "ok" and not run.losses]
    said = [f"Gone on from a checkpoint: {join(resumed)}."] if resumed else []
    said += [f"Trained to the end before, with its checkpoint's weights: {join(before)}."] if before else []
    said.append(
        "The largest difference of a weight after the last step from that of the reference, over the largest "
        f"element of its array. Weights are {join(trainings.dtypes)}; every training has the same batches in the "
        "same order, and a batch that does not divide is weighted by rows."
    )
    columns = [*map(plain, strategies)]
    agreement = table(("backend", *columns), rows, right=columns)
    return [Heading(2, "Do the weights agree?"), *map(paragraph, said), agreement]


def _devices(done: Sequence[Trained]) -> list[AnyBlock]:
    rows = []
    for run in done:
        memory = ", ".join(f"{place} {bytes_text(count)}" for place, count in run.memory.items())
        moved = {"on": ", ".join(run.places), "arrays moved in a step": str(run.transfers), "bytes at once": memory}
        rows.append(_backend(run) | moved)
    return records(rows, right=("arrays moved in a step",))
