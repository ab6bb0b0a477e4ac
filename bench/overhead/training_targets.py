"""The figures of training with their limits: made as those of `overhead.targets`, ratios of two things measured in turn
in the same process."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from overhead.asking import Part
from overhead.figure import Figure, made
from overhead.targets import ratio

OWN_LIMIT = 1.0  # our step over that under the framework's own strategy
FIT_LIMIT = 0.5  # a step of an epoch of ours over one of Keras's `fit`
MISS_LIMIT = 0.1  # how far a prediction may be from what is measured
DIFFERENCE = 1e-10  # largest error of float64 weights against the framework's own strategy
REPLICAS = (1, 2, 4, 8)
_SMALL: dict[str, Any] = {"batch": 32, "widths": (64, 32, 10)}
_LARGE: dict[str, Any] = {"batch": 1024, "widths": (256, 512, 10)}


def parts(quick: bool) -> dict[str, Part]:
    """By name. A device of the prediction is one core."""
    rounds = 15 if quick else 60

    def part(function: str, devices: int, cores: int | None = None, **job: Any) -> Part:
        return Part(f"overhead.trainings:{function}", devices, None, job, cores)

    return {
        "mirrored": part("spread", 2, **_SMALL, steps=100, rounds=rounds, round_seconds=0.02),
        "mirrored, fed": part("spread", 2, **_SMALL, steps=100, rounds=rounds, round_seconds=0.02, fed=True),
        "one device": part("spread", 1, **_SMALL, steps=100, rounds=rounds, round_seconds=0.02),
        "epoch": part("epoch", 1, **_SMALL, batches=64, rounds=rounds),
        "growth": part("growth", max(REPLICAS), **_SMALL, replicas=REPLICAS, rounds=rounds),
        "prediction": part("predicted", 2, 1, **_LARGE, rounds=rounds, round_seconds=0.05),
    }


_figure = partial(made, group="training")


def own(backend: str, found: dict[str, Any] | str, name: str, limit: float) -> Figure:
    """Ours over the framework's own."""

    def value(f: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        number, interval = ratio([(f["ours"], f["theirs"])])
        seconds = {f"{side}_seconds": median(f[side]) for side in ("ours", "theirs")}
        return number, {"interval": interval, **seconds, "difference_of_weights": f["difference"]}

    return _figure(found, value, subject=backend, name=name, unit="ratio", limit=limit, relation="at most")


def growth(backend: str, found: dict[str, Any] | str) -> list[Figure]:
    """For each number of replicas the time to the first step over that of one; nodes and a step beside it."""

    def at(row: dict[str, Any], first: dict[str, Any]) -> Figure:
        detail = {
            "nodes": row["nodes"],
            "nodes_over_one": row["nodes"] / first["nodes"],
            "build_seconds": row["build"],
            "step_seconds": row["step"],
            "step_over_one": row["step"] / first["step"],
        }
        name = f"{row['replicas']} replicas in one graph: seconds to the first step over those of one"
        return _figure(
            found, lambda _: (row["build"] / first["build"], detail), subject=backend, name=name, unit="ratio"
        )

    if isinstance(found, str):
        return [_figure(found, lambda _: (0.0, {}), subject=backend, name="replicas in one graph", unit="ratio")]
    return [at(row, found["rows"][0]) for row in found["rows"]]


def prediction(backend: str, found: dict[str, Any] | str) -> list[Figure]:
    """How far the prediction of a step, and of the speed-up by it, are from what was measured."""

    def step(f: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        kept = ("predicted", "measured", "compute", "launch", "exchange", "wait", "share of all-reduce")
        return abs(f["predicted"] / f["measured"] - 1.0), {
            key.replace(" ", "_").replace("-", "_"): f[key] for key in kept
        }

    def speedup(f: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        guess, real = f["predicted one"] / f["predicted"], f["one"] / f["measured"]
        detail = {"predicted": guess, "measured": real, "one_device": f["one"], "half_of_a_share": f["half"]}
        return abs(guess / real - 1.0), detail

    common: dict[str, Any] = {"subject": backend, "unit": "", "limit": MISS_LIMIT, "relation": "at most"}
    return [
        _figure(found, step, name="a mirrored step on two devices: the prediction's miss", **common),
        _figure(found, speedup, name="its speed-up over one device: the prediction's miss", **common),
    ]
