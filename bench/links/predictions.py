"""The model's predictions of steps over links, beside the measurements, and its predictions for many workers.

The latency is that of a ping-pong of 8 bytes, the bandwidth that of a stream, the compute that of a rank without an
exchange, all over the same shaped link in the same run. The predicted steps are no input of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, stdev
from typing import Any

from links import scaling as model
from links.measured import Asked, Rounds
from links.scaling import Compute, Faults, Job, Link, Point, Servers
from links.shared import GRADIENTS
from overhead.figure import Figure

MISS_LIMIT = 0.15
LINKS = tuple((delay, rate) for delay in (0.002, 0.005, 0.010) for rate in (6.25e6, 12.5e6, 25e6))  # s, bytes/s
QUICK = ((0.002, 25e6), (0.010, 12.5e6))  # of these
SIZES = (1 << 10, 1 << 14, 1 << 16, 1 << 19, 1 << 21)
_STREAM = 1 << 18
_LONG = 1 << 17  # bytes from which a chain of two shows what one of four does
WORKERS = tuple(sorted({round(10 ** (k / 12)) for k in range(37)}))
# Not measured: the rate of faults, their cost (the limits that restarts keep), the data centre.
FAULTS = Faults(rate=0.01, detection=2.0, restart=15.0, checkpoint=1.0)
CENTRE = Job(100e6, Compute(0.2, 0.01), Link(50e-6, 1.25e9), Servers(8, 2e-3), FAULTS)


@dataclass(frozen=True)
class Row:
    """Something predicted and measured, in seconds: `all_reduce` or `step` as `rank` has them."""

    kind: str
    nbytes: int
    predicted: float
    measured: float
    low: float
    high: float

    @property
    def miss(self) -> float:
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True)
class Found:
    """The measurements over a link with this ``delay`` and ``rate``: its ``link`` and ``compute`` as measured."""

    delay: float
    rate: float
    link: Link
    compute: Compute
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        return name(self.delay, self.rate)


def name(delay: float, rate: float) -> str:
    return f"{delay * 1e3:g} ms, {rate * 8e-6:g} Mbit/s"


def asked(quick: bool) -> list[Asked]:
    rounds = 5 if quick else 9
    sizes = SIZES[:-1] if quick else SIZES
    return [
        Asked("ping_pong", 8, 2 * rounds, 4),
        Asked("stream", _STREAM, 3),
        Asked("compute", 0, 4 * rounds),
        *(Asked("all_reduce", nbytes, rounds, 4 if nbytes < _LONG else 2) for nbytes in sizes),
        Asked("step", GRADIENTS, rounds, 4),
    ]


def read(delay: float, rate: float, plan: Sequence[Asked], found: Sequence[Rounds]) -> Found:
    """The link and the compute, and all other measurements beside their predictions from these."""
    of = {one.kind: rounds for one, rounds in zip(plan[:3], found, strict=False)}
    link = Link(median(of["ping_pong"][0]) / 2, _STREAM / median(of["stream"][1]))
    computed = [seconds for rank in of["compute"] for seconds in rank]
    compute = Compute(fmean(computed), stdev(computed))
    rows = []
    for one, (first, second) in zip(plan[3:], found[3:], strict=True):
        rounds = [fmean(pair) for pair in zip(first, second, strict=True)]
        predicted = model.all_reduce(2, one.nbytes, link) + (compute.slowest(2) if one.kind == "step" else 0.0)
        rows.append(Row(one.kind, one.nbytes, predicted, median(rounds), min(rounds), max(rounds)))
    return Found(delay, rate, link, compute, tuple(rows))


KINDS = {
    "all_reduce": "an all-reduce",
    "step": "a step: compute and all-reduce",
}


def figures(found: Found) -> list[Figure]:
    """For each kind the largest miss of all sizes."""
    made = []
    for kind, words in KINDS.items():
        rows = [row for row in found.rows if row.kind == kind]
        worst = max(rows, key=lambda row: abs(row.miss))
        detail = {**asdict(worst), "latency": found.link.latency, "bandwidth": found.link.bandwidth}
        made.append(
            Figure(
                group="cluster scaling",
                name=f"{words}: the prediction's largest miss",
                subject=found.name,
                value=abs(worst.miss),
                unit="",
                limit=MISS_LIMIT,
                detail=detail,
            )
        )
    return made


def job(found: Sequence[Found]) -> Job:
    """The step that was measured over the widest and shortest of the links, with one parameter server."""
    best = min(found, key=lambda one: (one.delay, -one.rate))
    # The server of MPI: under its lock a pull is three messages there and back, a push four.
    return Job(GRADIENTS, best.compute, best.link, Servers(1, 0.0, 14.0), FAULTS)


def curves(found: Sequence[Found]) -> dict[str, tuple[Job, list[Point]]]:
    """The jobs of the pictures with their curves."""
    jobs = {"measured": job(found), "data-centre": CENTRE}
    return {key: (one, model.curve(one, WORKERS)) for key, one in jobs.items()}


def data(found: Sequence[Found], created: str, machine: dict[str, Any]) -> dict[str, Any]:
    """All of it as data for JSON, in seconds and bytes."""
    links = [{**asdict(one), "rows": [{**asdict(row), "miss": row.miss} for row in one.rows]} for one in found]
    drawn = {
        key: {"job": asdict(one), "points": [asdict(p) for p in points]} for key, (one, points) in curves(found).items()
    }
    return {"created": created, "machine": machine, "miss_limit": MISS_LIMIT, "links": links, "curves": drawn}
