"""The report of a model trained on backends: whether the weights agree, what was learnt, how long a step takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from xbackend.drawing.graph import GREY, bytes_text
from xbackend.report.drawn.canvas import canvas, style
from xbackend.report.drawn.times import log_ticks, note
from xbackend.report.said import text
from xbackend.report.said.blocks import Block, Heading, Pictures, paragraph, points, section, table, tabled, terms
from xbackend.report.said.outcomes import Ended, circumstances, opening
from xbackend.results.trained import Trained, Trainings
from xbackend.wording import counted, join, plain
from xbackend.workloads.agreement import of_roundings

HEADERS = ("backend", "strategy", "loss", "test", "weights", "step", "examples/s")
RIGHT = HEADERS[4:]
TIMES = "A step's time is of one process, with the copies of its batch: which is faster, xbackend compare says."
READING = (
    ("loss", "the mean over the rows of the last epoch, in training"),
    ("test", "means over the test rows after it, or over those of the epoch where there are none"),
    (
        "weights",
        "the largest difference of a weight after the last step from that of the first training in the table, over the "
        "largest element of its array",
    ),
    (
        "step",
        "from the end of a step to the end of the next, with the copies of its batch to the devices and of its scalars "
        "back; the median of one process",
    ),
    (
        "bytes at once",
        "of the arrays of the program on a device, by its placed program: not what a framework adds or saves",
    ),
)
_STYLES = ("-", "--", ":", "-.")


def ended(trainings: Trainings) -> Ended[Trained]:
    """Which trainings ended, and which of them alike."""
    return Ended(trainings.runs, _named, "training", trainings.dtypes)


def answer(trainings: Trainings) -> str:
    """What the weights of all say, in a sentence."""
    runs = ended(trainings)
    done, model = runs.done, plain(trainings.model)
    if len(done) < 2:
        return f"{counted(len(done), 'training')} of {model} ended{runs.rest('')}"
    number = f"{len(done) - len(runs.apart)} of {len(done)}" if runs.apart else f"all {len(done)}"
    said = f"{number} trainings of {model} end with the weights of {_named(done[0])}"
    if most := runs.farthest:
        largest = text.power(most.difference)
        said += f", but for {largest} of the largest at most ({_named(most)}, {join(trainings.dtypes)})"
    return said + runs.rest("; other weights")


def rows(trainings: Trainings) -> list[list[str]]:
    """A row of `HEADERS` for each training, in plain text."""
    found, unit = [], text.time_unit([median(run.seconds) for run in trainings.runs if run.seconds])
    for run in trainings.runs:
        if run.status != "ok":
            found.append([plain(run.backend), plain(run.strategy), run.status, *[text.NOTHING] * (len(HEADERS) - 3)])
            continue
        last = run.epochs[-1]
        scores = last.test or last.train
        own = [f"{key} {value:.4g}" for key, value in scores.items() if key != "loss" or len(scores) == 1]
        found.append(
            [
                plain(run.backend),
                plain(run.strategy),
                f"{last.train['loss']:.6g}" if "loss" in last.train else text.NOTHING,
                join(own) or text.NOTHING,
                _difference(run),
                text.time(median(run.seconds), unit) if run.seconds else text.NOTHING,
                f"{sum(run.rows) / sum(run.seconds):,.0f}" if run.seconds else text.NOTHING,
            ]
        )
    return found


def notes(trainings: Trainings) -> list[str]:
    """What the table's numbers are of."""
    said = f"Devices that the model names were bound as asked for: {plain(trainings.devices_map)}."
    return [TIMES, *([said] if trainings.devices_map else [])]


def build(trainings: Trainings) -> tuple[list[Block], Pictures]:
    """The report as blocks, and its pictures by file name."""
    pictures = Pictures()
    runs, model = ended(trainings), plain(trainings.model)
    done, drawn = runs.done, list[Block]()
    if any(run.losses for run in done):
        words = f"Loss of {model} over the epochs, of {counted(len(done), 'training')}, and how far they are apart"
        losses = _losses(done, of_roundings(trainings.dtypes), words)
        drawn = [Heading(2, "What was learnt?"), pictures.add("losses", "", losses, words)]
    words = f"optimizer {plain(trainings.optimizer)}, batches of {trainings.batch} rows, seed {trainings.seed}"
    return [
        *opening(f"Training of {model}", answer(trainings)),
        Heading(2, "Do the weights agree?"),
        *_agreement(trainings),
        *drawn,
        table(HEADERS, rows(trainings), right=RIGHT),
        *map(paragraph, notes(trainings)),
        terms(READING),
        *section("What failed", points([line] for line in runs.failures)),
        Heading(2, "Devices"),
        *_devices(done),
        *circumstances(trainings, trainings.model, words, [(plain(run.backend), run) for run in trainings.runs]),
    ], pictures


def _named(run: Trained) -> str:
    return f"{plain(run.backend)}, {plain(run.strategy)} on {counted(run.devices, 'device')}"


def _agreement(trainings: Trainings) -> list[Block]:
    """The equivalence table: strategies by backends."""
    strategies = list(dict.fromkeys(run.strategy for run in trainings.runs))
    backends = list(dict.fromkeys(run.backend for run in trainings.runs))
    cells = {(run.backend, run.strategy): _difference(run) for run in trainings.runs}
    found = [[plain(b), *(cells.get((b, s), text.NOTHING) for s in strategies)] for b in backends]
    resumed = [f"{_named(run)} from step {run.began}" for run in trainings.runs if run.began and run.losses]
    before = [_named(run) for run in trainings.runs if run.status == "ok" and not run.losses]
    said = [f"Gone on from a checkpoint: {join(resumed)}."] if resumed else []
    said += [f"Trained to the end before, with its checkpoint's weights: {join(before)}."] if before else []
    return [
        *map(paragraph, said),
        paragraph(
            "The largest difference of a weight after the last step from that of the reference, over the largest "
            f"element of its array. Weights are {join(trainings.dtypes)}; every training has the same batches in the "
            "same order, and a batch that does not divide is weighted by rows."
        ),
        table(("backend", *map(plain, strategies)), found, right=[*map(plain, strategies)]),
    ]


def _difference(run: Trained) -> str:
    if run.status != "ok":
        return run.status
    return "reference" if run.difference is None else text.power(run.difference)


def _losses(done: Sequence[Trained], limit: float, title: str) -> bytes:
    """The loss of each training over its epochs, and below how far that of each step is from the first training's.

    Trainings whose losses differ by no more than ``limit``, by that of roundings, are one line: the largest difference
    of them. The others have a colour for each backend and a kind of line for each strategy.
    """
    first = done[0]
    far = {id(run): _far(run, first) for run in done}
    others = [run for run in done if run is not first and not max(far[id(run)].values(), default=math.inf) <= limit]
    same = [run for run in done if run is not first and run not in others]
    strategies = list(dict.fromkeys(run.strategy for run in done))
    lines = {name: _STYLES[i % len(_STYLES)] for i, name in enumerate(strategies)}
    with canvas(5.2 + 0.18 * (1 + len(others))) as (figure, finish):
        from matplotlib.ticker import MaxNLocator

        above, below = figure.subplots(2, 1)
        for run in (first, *others):
            label = f"{_named(run)}" + (f", and {len(same)} that coincide with it" if run is first and same else "")
            looks = {**style(run.backend), "linestyle": lines[run.strategy], "markersize": 3.5, "linewidth": 1.2}
            curve = {epoch.number + 1: epoch.train["loss"] for epoch in run.epochs if "loss" in epoch.train}
            above.plot(*_points(curve), label=text.shorten(label, 64), **looks)
            below.plot(*_points(far[id(run)]), **{**looks, "marker": ""})
        if same:
            steps = sorted({step for run in same for step in far[id(run)]})
            apart = {step: max(far[id(run)].get(step, 0.0) for run in same) for step in steps}
            colour = style(first.backend)["color"]
            below.plot(*_points(apart), color=colour, linewidth=1, label="below: the largest difference of those")
        above.set_xlabel("epoch")
        above.set_ylabel("mean loss of its rows")
        above.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        below.set_xlabel("step")
        below.set_ylabel("loss: difference from the\nfirst training's, relative")
        _difference_axis(below, limit)
        for axes in (above, below):
            axes.grid(axis="y")
        figure.legend(loc="outside lower left", fontsize=8)
        return finish(title)


def _difference_axis(axes: Any, limit: float) -> None:
    """Logarithmic up to what roundings may make at least, which is a line: what lies far below it is none."""
    axes.set_yscale("log")
    low, high = axes.get_ylim() if any(len(line.get_ydata()) for line in axes.lines) else (limit, limit)
    if limit:
        axes.axhline(limit, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        words, left = "below the dashed line: no more than roundings make", ("axes fraction", "data")
        note(axes, words, (0, limit), (4, 3), left, va="baseline", fontsize=8)
    axes.set_ylim(min(low, limit / 100) if limit else low, max(high, 10 * limit))
    log_ticks(axes.yaxis, axes.get_ylim(), lambda value: f"{value:.0e}", most=6)


def _points(values: Mapping[int, float]) -> tuple[list[int], list[float]]:
    """Where there is something: a logarithm has no place for 0."""
    return [i for i, value in values.items() if value], [value for value in values.values() if value]


def _far(run: Trained, first: Trained) -> dict[int, float]:
    other = dict(enumerate(first.losses, first.began + 1))
    pairs = ((i, loss, other.get(i)) for i, loss in enumerate(run.losses, run.began + 1))
    return {i: abs(loss / known - 1.0) for i, loss, known in pairs if known}


def _devices(done: Sequence[Trained]) -> list[Block]:
    found = []
    for run in done:
        memory = ", ".join(f"{place} {bytes_text(count)}" for place, count in run.memory.items())
        found.append([plain(run.backend), plain(run.strategy), ", ".join(run.places), str(run.transfers), memory])
    headers = ("backend", "strategy", "on", "arrays moved in a step", "bytes at once")
    return tabled(headers, found, right=headers[3:4])
