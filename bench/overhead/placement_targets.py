"""The figures of placement with their limits: several devices against one, and what xbackend's stages cost.

Made as those of `overhead.targets`: ratios of two things measured in turn in the same process.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

from overhead.asking import Part
from overhead.figure import Figure, made
from overhead.targets import ratio

HAND_LIMIT = 1.03  # our A^10 + B^10 on two devices over the one by hand
STAGE_LIMIT = 5.0  # microseconds of a stage and its transfer over the bare calls
GROWTH_LIMIT = 1.5  # a stage on 64 devices over one on 8: 1 is linear, the rest is noise
# One device over two, 128x128, for each package whose devices compute at the same time.
TWO_LIMITS = {"jax": 1.9, "numba": 1.8}
COPIES_LIMIT = 0.0

MANY, FEW = 64, 8


def _part(function: str, devices: int, threads: int | None = None, **job: Any) -> Part:
    return Part(f"overhead.placements:{function}", devices, threads, job)


def parts(quick: bool) -> dict[str, Part]:
    """By name. One-threaded BLAS where two devices are to be as fast as two cores: the devices share the cores, and one
    device whose BLAS has all of them leaves nothing to the other."""
    rounds = 15 if quick else 60
    sizes: dict[str, Any] = {"size": 128, "n": 100, "rounds": rounds, "round_seconds": 0.1}
    return {
        "two devices": _part("two_against_one", 2, 1, **sizes),
        "by hand": _part("against_hand", 2, None, size=1024, n=10, rounds=rounds, round_seconds=0.0),
        "stage": _part("stages", FEW, None, stages=FEW, rounds=4 * rounds, round_seconds=0.02),
        "many stages": _part("stages", MANY, None, stages=MANY, rounds=2 * rounds, round_seconds=0.02),
        "host copies": _part("host_copies_of_training", 2, None, steps=20),
    }


_figure = partial(made, group="placement")


def _ratio(found: dict[str, Any], over: str, under: str) -> tuple[float, dict[str, Any]]:
    value, interval = ratio([(found[over], found[under])])
    seconds = {f"{name.replace(' ', '_')}_seconds": median(found[name]) for name in (over, under)}
    best = {f"fastest_{name.replace(' ', '_')}": min(found[name]) for name in (over, under)}
    return value, {"interval": interval, "rounds": len(found[over]), **seconds, **best}


def speedup(backend: str, found: dict[str, Any] | str, limit: float) -> Figure:
    """One device over two, A^100 + B^100 at 128x128."""
    name = "128x128, n=100: seconds on one device over those on two"
    return _figure(
        found,
        lambda f: _ratio(f, "one", "two"),
        subject=backend,
        name=name,
        unit="ratio",
        limit=limit,
        relation="at least",
    )


def hand(backend: str, found: dict[str, Any] | str) -> Figure:
    """Ours over the version by hand, on two devices."""
    name = "A^10 + B^10 at 1024x1024 on two devices over the same by hand in JAX"
    return _figure(
        found,
        lambda f: _ratio(f, "ours", "by_hand"),
        subject=backend,
        name=name,
        unit="ratio",
        limit=HAND_LIMIT,
        relation="at most",
    )


def per_stage(found: dict[str, Any]) -> float:
    """Microseconds of a stage over its compiled function and a bare transfer: the median of pairs of rounds."""
    pairs = zip(found["ours"], found["by_hand"], strict=True)
    return float(median([ours - hand for ours, hand in pairs])) / int(found["stages"]) * 1e6


def stage(backend: str, found: dict[str, Any] | str) -> Figure:
    """What a stage costs over its compiled function and one bare transfer."""

    def value(f: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        best = (min(f["ours"]) - min(f["by_hand"])) / f["stages"] * 1e6
        each = {name: median(f[name]) / f["stages"] * 1e6 for name in ("ours", "by_hand")}
        return per_stage(f), {"stages": f["stages"], "transfers": f["transfers"], "of_fastest": best, **each}

    count = found["stages"] if isinstance(found, dict) else FEW
    name = f"a stage over its compiled function and a bare device_put, chain over {count} devices"
    return _figure(found, value, subject=backend, name=name, unit="us", limit=STAGE_LIMIT, relation="at most")


def growth(backend: str, few: dict[str, Any] | str, many: dict[str, Any] | str) -> Figure:
    """Seconds of a stage on many devices over those of a stage on few."""

    def value(_: Any) -> tuple[float, dict[str, Any]]:
        assert isinstance(few, dict) and isinstance(many, dict)
        each = [median(f["ours"]) / f["stages"] for f in (few, many)]
        return each[1] / each[0], {f"us_on_{FEW}": each[0] * 1e6, f"us_on_{MANY}": each[1] * 1e6}

    name = f"a stage on {MANY} virtual devices over a stage on {FEW} (1 is linear)"
    found = few if isinstance(few, str) else many
    return _figure(found, value, subject=backend, name=name, unit="ratio", limit=GROWTH_LIMIT, relation="at most")


def copies(backend: str, found: dict[str, Any] | str) -> Figure:
    """Copies between host and devices in 20 training steps whose state lives on two devices."""

    def value(f: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        return float(sum(f["copies"].values()) + f["beyond"]), {"transfers_of_a_step": f["transfers"], **f["copies"]}

    name = "copies over the host in 20 training steps on two devices"
    return _figure(found, value, subject=backend, name=name, unit="copies", limit=COPIES_LIMIT, relation="at most")
