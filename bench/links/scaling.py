"""The growth of a step with n workers, the cost of faults, and so the speed-up of n workers over one.

Everything is a formula of a few measured numbers: a link's latency and bandwidth, a worker's compute and its spread,
how often something dies and the cost of that. Nothing is fitted to the predicted steps. The workers do equal shares, as
much as one alone does (give `Compute` of the smaller share where a fixed batch is divided among them); a step computes
first and then exchanges, as the engines do.

Sources:

- a message takes latency + bytes / bandwidth: Hockney, The Communication Challenge for MPP, Parallel Computing 20
  (1994) 389
- all-reduce by doubling and by halving, and when which: Thakur, Rabenseifner and Gropp, Optimization of Collective
  Communication Operations in MPICH, Int. J. High Performance Computing Applications 19 (2005) 49
- the ring: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, J. Parallel and
  Distributed Computing 69 (2009) 117
- closed queues: Reiser and Lavenberg, Mean-Value Analysis of Closed Multichain Queuing Networks,
  J. ACM 27 (1980) 313
- checkpoints: Young, A First Order Approximation to the Optimum Checkpoint Interval, Communications of the ACM 17
  (1974) 530; Daly, A Higher Order Estimate of the Optimum Checkpoint Interval for Restart Dumps, Future Generation
  Computer Systems 22 (2006) 303
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

SHORT = 2048  # bytes up to which MPICH doubles (MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE)
HOUR = 3600.0
_NORMAL = NormalDist()
_REACH, _STEPS = 9.0, 720  # of the quadrature: standard deviations to both sides, intervals


@dataclass(frozen=True)
class Link:
    """The link of every worker and server to a network that does not block.

    ``latency``: seconds of an empty message from one process to another, software included. ``bandwidth``: bytes a
    second in each direction, both at once.
    """

    latency: float
    bandwidth: float

    def message(self, nbytes: float) -> float:
        """Seconds from one process to another (Hockney 1994)."""
        return self.latency + nbytes / self.bandwidth


@dataclass(frozen=True)
class Compute:
    """A worker's seconds of a step without the exchange: ``mean`` and standard ``deviation`` of a log-normal
    distribution over steps and workers, all independent."""

    mean: float
    deviation: float = 0.0

    def slowest(self, workers: int) -> float:
        """The expected seconds of the slowest of so many."""
        if not self.deviation or workers == 1:
            return self.mean
        shape = math.sqrt(math.log1p((self.deviation / self.mean) ** 2))
        return self.mean * _largest(workers, shape)


@lru_cache(maxsize=4096)
def _largest(count: int, shape: float) -> float:
    """The expected largest of so many log-normal numbers of mean 1: the integral of 1 - F(x)^count over x > 0, with
    x = exp(shape z - shape^2 / 2), by the trapezoidal rule (David and Nagaraja, Order Statistics, 2003, 3.1)."""
    width = 2 * _REACH / _STEPS
    at = [-_REACH + width * i for i in range(_STEPS + 1)]
    below = math.exp(shape * at[0] - shape**2 / 2)  # where F is 0
    density = [
        (1 - _NORMAL.cdf(z) ** count if z < 5 else count * _NORMAL.cdf(-z)) * shape * math.exp(shape * z - shape**2 / 2)
        for z in at
    ]
    return below + width * (math.fsum(density) - (density[0] + density[-1]) / 2)


@dataclass(frozen=True)
class Servers:
    """Parameter servers that hold the state in equal parts, each with a link of its own.

    ``update``: seconds in which a server applies one worker's update to its part. ``held``: latencies for which a pull
    and a push together block all other workers: 0 where a server answers from a queue; those of the messages under the
    lock where workers read and write by themselves.
    """

    count: int = 1
    update: float = 0.0
    held: float = 0.0


@dataclass(frozen=True)
class Faults:
    """The rate and the cost of faults. ``rate``: deaths of one process (a worker or a server) in an hour, independent
    of each other and of time. All else in seconds: ``detection`` of a death, ``restart`` from the last checkpoint,
    ``checkpoint``, for which the job waits while it is saved."""

    rate: float
    detection: float
    restart: float
    checkpoint: float

    @property
    def outage(self) -> float:
        """Seconds from a death until work goes on."""
        return self.detection + self.restart

    def between(self, processes: float) -> float:
        """Mean seconds between deaths among so many processes; infinite where nothing dies."""
        each = processes * self.rate
        return HOUR / each if each else math.inf


NEVER = Faults(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Job:
    """``nbytes`` are those of the gradients, and of the variables that parameter servers hold."""

    nbytes: float
    compute: Compute
    link: Link
    servers: Servers = Servers()
    faults: Faults = NEVER


# --- exchanging -------------------------------------------------------------------------------------------------------


def ring(workers: int, nbytes: float, link: Link) -> float:
    """Seconds of an all-reduce around a ring: 2 (n - 1) messages in turn, each a part in n (Patarasuk and Yuan
    2009)."""
    rounds = 2 * (workers - 1)
    return rounds * link.message(nbytes / workers)


def halving(workers: int, nbytes: float, link: Link) -> float:
    """Seconds of an all-reduce by recursive halving and doubling (Rabenseifner's; Thakur, Rabenseifner and Gropp 2005):
    the bytes of the ring, which it equals at n = 2, in 2 log2 n messages; where n is no power of two everything goes
    there and back once more."""
    rounds = workers.bit_length() - 1
    power = 1 << rounds
    extra = 0.0 if workers == power else 2 * link.message(nbytes)
    return extra + 2 * (rounds * link.latency + (1 - 1 / power) * nbytes / link.bandwidth)


def doubling(workers: int, nbytes: float, link: Link) -> float:
    """Seconds of an all-reduce by recursive doubling: log2 n exchanges of everything, and two more messages where n is
    no power of two (Thakur, Rabenseifner and Gropp 2005)."""
    rounds = workers.bit_length() - 1
    extra = 0 if workers == 1 << rounds else 2
    return (rounds + extra) * link.message(nbytes)


def all_reduce(workers: int, nbytes: float, link: Link) -> float:
    """Seconds of an all-reduce: by doubling up to `SHORT` bytes, as MPICH switches, else around a ring."""
    return (doubling if nbytes <= SHORT else ring)(workers, nbytes, link)


def ring_step(job: Job, workers: int) -> float:
    """Seconds of a synchronous step whose gradients are summed by `all_reduce`."""
    return job.compute.slowest(workers) + all_reduce(workers, job.nbytes, job.link)


def _transfer(job: Job, workers: int) -> float:
    """Seconds in which so many workers pull (or push) the variables at once: all workers share the links of the
    servers, all servers that of a worker."""
    return job.nbytes / job.link.bandwidth * max(workers / job.servers.count, 1.0)


def _hold(job: Job) -> float:
    """Seconds of a step in which one worker blocks a server for the others, without its bytes."""
    return job.servers.update + job.servers.held * job.link.latency


def served_step(job: Job, workers: int) -> float:
    """Seconds of a synchronous step with parameter servers: all pull, compute, and push in turn, one update after the
    other at each server; the next pull begins when the last has been applied."""
    exchange = 2 * (job.link.latency + _transfer(job, workers))
    return job.compute.slowest(workers) + exchange + workers * _hold(job)


def asynchronous_rate(job: Job, workers: float) -> float:
    """Steps a second that so many workers together bring to the parameter servers, none waiting for another.

    Each worker computes, pulls and pushes in a loop, and queues at three stations: a server's link out, its link in,
    and the server itself. By mean value analysis (Reiser and Lavenberg 1980), never above the rate of the busiest
    station. A number of workers between two whole ones is interpolated.
    """
    whole = math.floor(workers)
    rates = _rates(job, whole + 1)
    return rates[whole] + (workers - whole) * (rates[whole + 1] - rates[whole])


@lru_cache(maxsize=256)
def _mean_values(thinking: float, demands: tuple[float, ...], workers: int) -> tuple[float, ...]:
    """The rates of 0 to so many workers that think (compute) and queue at each station."""
    waiting = [0.0] * len(demands)
    rates = [0.0]
    for n in range(1, workers + 1):
        spent = [demand * (1 + queue) for demand, queue in zip(demands, waiting, strict=True)]
        rates.append(n / (thinking + math.fsum(spent)))
        waiting = [rates[-1] * one for one in spent]
    return tuple(rates)


def _rates(job: Job, workers: int) -> tuple[float, ...]:
    own = job.nbytes / job.link.bandwidth
    part = own / job.servers.count
    thinking = job.compute.mean + 2 * job.link.latency + 2 * (own - part)
    # A power of two, so that the points of a curve share the cache.
    return _mean_values(thinking, (part, part, _hold(job)), 1 << workers.bit_length())


# --- dying ------------------------------------------------------------------------------------------------------------


_NEVER = 1e100  # seconds between deaths that count as never: their squares are finite


def young(checkpoint: float, between: float) -> float:
    """Seconds of work between checkpoints, to first order (Young 1974); both arguments in seconds."""
    return math.sqrt(2 * checkpoint * between)


def daly(checkpoint: float, between: float) -> float:
    """Seconds of work between checkpoints, to higher order (Daly 2006); both arguments in seconds."""
    if checkpoint >= 2 * between:
        return between
    ratio = checkpoint / (2 * between)
    if math.isinf(between):
        return math.inf
    return young(checkpoint, between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - checkpoint


def expected(work: float, every: float, checkpoint: float, outage: float, between: float) -> float:
    """Expected seconds of ``work`` seconds of work, saved after ``every`` so many of them (Daly 2006): a death costs
    the work since the last checkpoint and an outage, in which all may die again. Infinite where that overflows."""
    if math.isinf(between):
        return work * (1 + (checkpoint / every if checkpoint else 0.0))
    try:
        segment = between * math.exp(outage / between) * math.expm1((every + checkpoint) / between)
    except OverflowError:
        return math.inf
    return work / every * segment


def efficiency(faults: Faults, processes: float, shortest: float = 0.0) -> float:
    """The share of the time that is useful work where any death of so many processes sends all back to the last
    checkpoint: at Daly's interval, but at least ``shortest`` seconds (a step) apart."""
    between = faults.between(processes)
    if between > _NEVER:
        return 1.0
    every = max(daly(faults.checkpoint, between), shortest, 1e-6 * between)
    return 1.0 / expected(1.0, every, faults.checkpoint, faults.outage, between)


def alive(faults: Faults) -> float:
    """The share of its time in which a worker works, if it dies and is started again while all others go on."""
    between = faults.between(1)
    return 1.0 if math.isinf(between) else between / (between + faults.outage)


def finished(faults: Faults, step: float) -> float:
    """The share of a worker's steps (each of so many seconds) in which it does not die: x / (e^x - 1) with x expected
    deaths in a step, as the number of steps up to a death is geometric."""
    between = step / faults.between(1)
    return between / math.expm1(between) if 0 < between < 500 else float(not between)


# --- what n workers bring ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """So many workers, each way: speed-ups are steps a second of all workers over those of one worker without exchange
    and faults; ``steps`` are the seconds of a step, for the asynchronous way those between two steps of one worker."""

    workers: int
    steps: dict[str, float]
    speedups: dict[str, float]
    with_faults: dict[str, float]


RING, SERVED, ASYNCHRONOUS = "all-reduce", "servers, in turn", "servers, asynchronous"
WAYS = (RING, SERVED, ASYNCHRONOUS)


def point(job: Job, workers: int) -> Point:
    """The speed-ups of so many workers.

    All-reduce and synchronous servers: the death of any process sends all back to the checkpoint. Asynchronous: a dead
    worker's share is missing until it rejoins, with the step it was in; only a server's death sends all back.
    """
    servers, faults, alone = job.servers.count, job.faults, job.compute.mean
    steps = {
        RING: ring_step(job, workers),
        SERVED: served_step(job, workers),
        ASYNCHRONOUS: workers / asynchronous_rate(job, workers),
    }
    speedups = {way: workers * alone / steps[way] for way in (RING, SERVED)}
    speedups[ASYNCHRONOUS] = asynchronous_rate(job, workers) * alone
    working = workers * alive(faults)
    kept = finished(faults, steps[ASYNCHRONOUS])
    with_faults = {
        RING: speedups[RING] * efficiency(faults, workers, steps[RING]),
        SERVED: speedups[SERVED] * efficiency(faults, workers + servers, steps[SERVED]),
        ASYNCHRONOUS: asynchronous_rate(job, working) * alone * kept * efficiency(faults, servers, alone),
    }
    return Point(workers, steps, speedups, with_faults)


def curve(job: Job, workers: Iterable[int]) -> list[Point]:
    return [point(job, n) for n in workers]


def most(points: Iterable[Point], way: str) -> tuple[int, float]:
    """The number of workers with the largest speed-up under faults, and that speed-up."""
    best = max(points, key=lambda one: one.with_faults[way])
    return best.workers, best.with_faults[way]


def half(points: Iterable[Point], way: str) -> int | None:
    """The first number of workers that loses more than half of the ideal under faults; `None` without one."""
    return next((p.workers for p in points if p.with_faults[way] < p.workers / 2), None)
