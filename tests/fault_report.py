"""The outcomes of many faults as a document: a table, a picture and the data, in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

import msgspec

from xbackend.measure.machine import machine
from xbackend.report.drawn.canvas import COLOURS, GREY, canvas
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Heading, Image, paragraph, table
from xbackend.report.written import markdown
from xbackend.wording import counted, plain

SEEN, GOING_ON = 2.0, 15.0  # limits in seconds: until a death is seen, until steps go on
PICTURE = "seconds.svg"
SIGNALS = {"SIGKILL": "killed", "SIGSTOP": "stopped"}
HEADERS = (
    "engine",
    "task",
    "faults",
    "wrong",
    "hung",
    "left running",
    "seen after",
    "90 %",
    "most",
    "going on",
    "90 %",
    "most",
)


@dataclass(frozen=True)
class Outcome:
    """A fault and its outcome. ``wrong`` is the error of the job, or empty. ``seen`` and ``went_on`` are seconds from
    the signal; `None` if the job had ended before, or had nothing left to do."""

    fault: str
    engine: str
    backend: str
    signal: str
    wrong: str
    hung: bool
    left: int
    seen: float | None
    went_on: float | None


def said(outcomes: Sequence[Outcome]) -> str:
    """The outcomes in a sentence."""
    bad, hung = sum(bool(one.wrong) for one in outcomes), sum(one.hung for one in outcomes)
    left, seen, on = sum(one.left for one in outcomes), _all(outcomes, "seen"), _all(outcomes, "went_on")
    return (
        f"{counted(len(outcomes), 'fault')}: {bad} wrong, {hung} hung, {left} left running; {len(seen)} were seen "
        f"after {_spread(seen)}, {sum(s <= SEEN for s in seen)} within {SEEN:g} s; {len(on)} went on "
        f"after {_spread(on)}, {sum(s <= GOING_ON for s in on)} within {GOING_ON:g} s"
    )


def write(folder: Path, outcomes: Sequence[Outcome], seed: int, created: str) -> None:
    """Write ``report.md``, its picture, and ``faults.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    here = machine()
    what = (
        "Each is a job of two workers in processes of their own, with up to two parameter servers; a task of it, drawn "
        "at random, is killed or stopped at a random moment. In step the weights have to be those of an undisturbed "
        "run to the bit; asynchronous ones have every update once, and the same when they are repeated in one process."
    )
    blocks: list[AnyBlock] = [
        Heading(1, "Faults of clusters"),
        paragraph(said(outcomes) + "."),
        paragraph(plain(f"Made {created} on {here.processor}, {here.cores} cores, {here.system}; seed {seed}. {what}")),
        table(HEADERS, _rows(outcomes), right=HEADERS[2:]),
        Image(PICTURE, "What share of the faults was seen, and went on, after how many seconds"),
    ]
    if bad := [one for one in outcomes if one.wrong]:
        blocks += [
            Heading(2, "What was wrong"),
            table(("fault", "why"), [[plain(one.fault), plain(one.wrong)] for one in bad]),
        ]
    (folder / "report.md").write_text(markdown.write(blocks), encoding="utf-8")
    (folder / PICTURE).write_bytes(picture(outcomes))
    data = {
        "created": created,
        "seed": seed,
        "machine": msgspec.to_builtins(here),
        "faults": [asdict(o) for o in outcomes],
    }
    (folder / "faults.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def picture(outcomes: Sequence[Outcome]) -> bytes:
    """For each engine, the share of faults seen, and going on, after so many seconds."""
    with canvas(4.6) as (figure, finish):
        panels = figure.subplots(2, 1)
        for axes, field, limit, what in zip(
            panels, ("seen", "went_on"), (SEEN, GOING_ON), ("seen", "going on"), strict=True
        ):
            for engine, colour in zip(sorted({one.engine for one in outcomes}), COLOURS, strict=False):
                seconds = sorted(_all([one for one in outcomes if one.engine == engine], field))
                shares = [(k + 1) / len(seconds) for k in range(len(seconds))]
                axes.step([0.0, *seconds], [0.0, *shares], where="post", color=colour, label=engine)
            axes.axvline(limit, color=GREY, linestyle="--", linewidth=0.8)
            axes.set_ylim(0, 1.05)
            axes.set_xlim(left=0)
            axes.set_ylabel(f"share {what}", fontsize=9)
            axes.grid(True)
        panels[-1].set_xlabel("seconds after the signal (dashed: what is wanted)", fontsize=9)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", fontsize=8.5, ncols=3)
        return finish("Faults: seen and going on")


def _rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    found = []
    for engine, signal in sorted({(one.engine, one.signal) for one in outcomes}):
        own = [one for one in outcomes if (one.engine, one.signal) == (engine, signal)]
        count: Callable[[Callable[[Outcome], int]], str] = lambda of: str(sum(map(of, own)))  # noqa: B023, E731
        found.append(
            [
                plain(engine),
                SIGNALS[signal],
                str(len(own)),
                count(lambda one: bool(one.wrong)),
                count(lambda one: one.hung),
                count(lambda one: one.left),
                *_three(_all(own, "seen")),
                *_three(_all(own, "went_on")),
            ]
        )
    return found


def _all(outcomes: Sequence[Outcome], field: str) -> list[float]:
    return [seconds for one in outcomes if (seconds := getattr(one, field)) is not None]


def _three(seconds: list[float]) -> list[str]:
    """Median, ninth decile and maximum."""
    if not seconds:
        return [text.NOTHING] * 3
    nine = quantiles(seconds, n=10, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
    return [f"{s:.2f} s" for s in (median(seconds), nine, max(seconds))]


def _spread(seconds: list[float]) -> str:
    return f"{median(seconds):.1f} s (median; at most {max(seconds):.1f} s)" if seconds else "no time"
