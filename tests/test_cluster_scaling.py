"""The model of scaling: its limits, its invariants, and its formulas against simulations."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from links import scaling as model
from links.scaling import NEVER, WAYS, Compute, Faults, Job, Link, Servers, point

links = st.builds(Link, st.floats(0, 1e-2), st.floats(1e6, 1e11))
computes = st.builds(
    lambda mean, part: Compute(mean, mean * part), mean=st.floats(1e-3, 10.0), part=st.floats(0.0, 0.5)
)
servers = st.builds(Servers, st.integers(1, 8), st.floats(0, 1e-2), st.floats(0, 8))
faults = st.builds(Faults, st.floats(0, 0.1), st.floats(0, 30), st.floats(0, 120), st.floats(0, 30))
sizes = st.floats(1, 1e9)
jobs = st.builds(Job, sizes, computes, links, servers, faults)
workers = st.integers(1, 1000)
GOOD = Job(25e6, Compute(0.2, 0.02), Link(1e-4, 1.25e9), Servers(4, 1e-3), Faults(0.01, 2, 15, 5))


# --- limits -----------------------------------------------------------------------------------------------------------


@given(sizes, links)
def test_one_worker_exchanges_nothing(nbytes: float, link: Link) -> None:
    for way in (model.ring, model.halving, model.doubling, model.all_reduce):
        assert way(1, nbytes, link) == 0.0


@given(jobs)
def test_one_worker_of_a_ring_is_one_worker(job: Job) -> None:
    assert model.ring_step(job, 1) == job.compute.mean
    assert point(job, 1).speedups[model.RING] == 1.0


@given(sizes, links)
def test_two_workers_halve_as_they_ring(nbytes: float, link: Link) -> None:
    assert model.halving(2, nbytes, link) == pytest.approx(model.ring(2, nbytes, link))
    assert model.doubling(2, nbytes, link) == link.message(nbytes)


@given(sizes, links, st.integers(2, 1000))
def test_no_all_reduce_moves_less_than_it_must(nbytes: float, link: Link, n: int) -> None:
    """Each worker sends and receives (n - 1) / n of everything, in at least log2 n messages."""
    power = 1 << (n.bit_length() - 1)
    for way in (model.ring, model.halving, model.doubling):
        assert way(n, nbytes, link) >= (1 - 1 / power) * nbytes / link.bandwidth * (1 - 1e-9)
        assert way(n, nbytes, link) >= math.floor(math.log2(n)) * link.latency


@given(jobs, workers)
def test_what_is_lost_is_a_share(job: Job, n: int) -> None:
    found = point(job, n)
    for way in WAYS:
        assert 0 < found.speedups[way] <= n * (1 + 1e-9)
        assert 0 <= found.with_faults[way] <= found.speedups[way] * (1 + 1e-9)
        assert 0 <= model.efficiency(job.faults, n, found.steps[way]) <= 1


def test_deaths_that_never_come_cost_nothing() -> None:
    assert model.efficiency(model.Faults(2.4e-305, 0.0, 0.0, 1.0), 1) == 1


@given(jobs, workers)
def test_without_faults_nothing_is_lost(job: Job, n: int) -> None:
    found = point(replace(job, faults=NEVER), n)
    assert found.with_faults == found.speedups


@given(jobs, workers, st.floats(1.0, 10.0))
def test_a_worse_link_is_never_faster(job: Job, n: int, worse: float) -> None:
    good = point(job, n)
    later = replace(job, link=Link(job.link.latency * worse, job.link.bandwidth))
    narrower = replace(job, link=Link(job.link.latency, job.link.bandwidth / worse))
    for bad in (point(later, n), point(narrower, n)):
        for way in WAYS:
            assert bad.steps[way] >= good.steps[way] * (1 - 1e-9)


@given(jobs, st.integers(1, 500), st.integers(1, 500))
def test_more_workers_make_no_step_shorter(job: Job, n: int, more: int) -> None:
    few, many = point(job, n), point(job, n + more)
    assert many.steps[model.SERVED] >= few.steps[model.SERVED]
    assert model.asynchronous_rate(job, n + more) >= model.asynchronous_rate(job, n) * (1 - 1e-9)
    if job.nbytes > model.SHORT:
        assert many.steps[model.RING] >= few.steps[model.RING] * (1 - 1e-9)


@given(jobs, workers)
def test_servers_cannot_do_more_than_their_links(job: Job, n: int) -> None:
    part = job.nbytes / job.link.bandwidth / job.servers.count
    busiest = max(part, job.servers.update + job.servers.held * job.link.latency)
    rate = model.asynchronous_rate(job, n)
    assert rate <= 1 / busiest * (1 + 1e-9)
    assert rate <= n * model.asynchronous_rate(job, 1) * (1 + 1e-9)


def test_many_workers_fill_the_links_of_the_servers() -> None:
    part = GOOD.nbytes / GOOD.link.bandwidth / GOOD.servers.count
    assert model.asynchronous_rate(GOOD, 1000) == pytest.approx(1 / part, rel=0.01)


# --- the slowest ------------------------------------------------------------------------------------------------------


@given(computes, workers, workers)
def test_the_slowest_of_more_is_slower(compute: Compute, n: int, more: int) -> None:
    alone, few, many = (compute.slowest(k) for k in (1, n, n + more))
    assert alone == compute.mean and alone * (1 - 1e-6) <= few <= many * (1 + 1e-6)
    # No distribution with this mean and deviation has a larger maximum (Gumbel 1954; Hartley and David 1954).
    assert few <= compute.mean + compute.deviation * (n - 1) / math.sqrt(2 * n - 1) + 1e-6 * compute.mean


def test_the_slowest_is_that_of_a_simulation() -> None:
    random_, compute = random.Random(1), Compute(1.0, 0.3)
    shape = math.sqrt(math.log1p(0.09))
    for n in (2, 16, 200):
        drawn = [max(random_.lognormvariate(-(shape**2) / 2, shape) for _ in range(n)) for _ in range(2000)]
        assert compute.slowest(n) == pytest.approx(fmean(drawn), abs=4 * stdev(drawn) / math.sqrt(2000))


# --- servers against a simulation of them -----------------------------------------------------------------------------


def simulated(job: Job, workers: int, steps: int, seed: int) -> float:
    """Steps in a second of workers that wait in the queues of one server: its link out, its link in, itself."""
    random_, link = random.Random(seed), job.link
    part = job.nbytes / link.bandwidth
    hold = job.servers.update + job.servers.held * link.latency
    free, done = [0.0, 0.0, 0.0], list[float]()
    waiting = [(0.0, worker, 0) for worker in range(workers)]
    heapq.heapify(waiting)
    while len(done) < steps:
        now, worker, stage = heapq.heappop(waiting)
        free[stage] = max(free[stage], now) + random_.expovariate(1 / (part, part, hold)[stage])
        now = free[stage]
        if stage == 0:
            now += 2 * link.latency + random_.expovariate(1 / job.compute.mean)
        if stage == 2:
            done.append(now)
        heapq.heappush(waiting, (now, worker, (stage + 1) % 3))
    return (steps - steps // 5) / (done[-1] - done[steps // 5 - 1])


@pytest.mark.parametrize("workers", [1, 4, 12, 40])
def test_the_rate_of_servers_is_that_of_a_simulation(workers: int) -> None:
    job = Job(1e6, Compute(0.05), Link(1e-3, 2e8), Servers(1, 2e-3, 1.0))
    rates = [simulated(job, workers, 4000, seed) for seed in range(5)]
    assert model.asynchronous_rate(job, workers) == pytest.approx(fmean(rates), rel=0.04)


# --- dying ------------------------------------------------------------------------------------------------------------


def test_dalys_own_examples() -> None:
    """Figures 3 to 5 of the paper: a checkpoint of 5 minutes, and the time between deaths."""
    for between, found in ((24 * 60, 117), (6 * 60, 57), (15, 9.1)):
        assert model.daly(5, between) == pytest.approx(found, abs=0.5 if found > 10 else 0.05)
    assert model.daly(5, 2) == 2
    assert model.young(5, 1440) == 120


def time_of(work: float, every: float, f: Faults, between: float, random_: random.Random) -> float:
    """Seconds until the work is done: a death costs the unsaved work, and an outage in which a death may occur too."""
    time, saved = 0.0, 0.0
    death = random_.expovariate(1 / between)
    while saved < work * (1 - 1e-12):
        segment = min(every, work - saved) + f.checkpoint
        while death < segment:
            time += death
            death = random_.expovariate(1 / between)
            while death < f.outage:
                time += death
                death = random_.expovariate(1 / between)
            time, death = time + f.outage, death - f.outage
        time, death, saved = time + segment, death - segment, saved + every
    return time


CASES = [(5.0, 600.0, 20.0), (30.0, 600.0, 60.0), (1.0, 60.0, 17.0), (60.0, 200.0, 30.0)]


@pytest.mark.parametrize(("checkpoint", "between", "outage"), CASES)
def test_the_expected_time_is_that_of_a_simulation_and_least_at_dalys_interval(
    checkpoint: float, between: float, outage: float
) -> None:
    f, random_ = Faults(1.0, 0.0, outage, checkpoint), random.Random(2)
    best = model.daly(checkpoint, between)
    found: dict[float, tuple[float, float]] = {}
    for factor in (0.4, 1.0, 2.5):
        every, work = best * factor, best * factor * math.ceil(4000 / (best * factor))
        drawn = [time_of(work, every, f, between, random_) / work for _ in range(200)]
        found[factor] = fmean(drawn), stdev(drawn) / math.sqrt(200)
        predicted = model.expected(work, every, checkpoint, outage, between) / work
        assert predicted == pytest.approx(found[factor][0], abs=4 * found[factor][1])
    for other in (0.4, 2.5):
        assert found[1.0][0] < found[other][0] + 2 * math.hypot(found[1.0][1], found[other][1])


@given(st.floats(0.01, 100), st.floats(1, 1e6), st.floats(0, 100))
def test_no_interval_is_much_better_than_dalys(checkpoint: float, between: float, outage: float) -> None:
    if checkpoint > between / 2:
        return  # the estimate holds for short checkpoints only
    at = model.expected(1, model.daly(checkpoint, between), checkpoint, outage, between)
    for factor in (0.25, 0.5, 0.8, 1.25, 2.0, 4.0):
        assert at <= model.expected(1, factor * model.daly(checkpoint, between), checkpoint, outage, between) * 1.001


@given(faults, workers)
def test_more_processes_lose_more(f: Faults, n: int) -> None:
    assert model.efficiency(f, n + 1) <= model.efficiency(f, n) * (1 + 1e-9)
    assert model.efficiency(replace(f, restart=f.restart + 10), n) <= model.efficiency(f, n)
    assert 0 < model.alive(f) <= 1


def test_a_dead_worker_costs_the_others_nothing() -> None:
    """With rejoin only its own share is lost; with a checkpoint all wait."""
    job = replace(GOOD, nbytes=1e6, servers=Servers(4, 1e-5), faults=Faults(0.1, 2, 15, 5))
    found = point(job, 500)
    assert found.with_faults[model.ASYNCHRONOUS] > 0.95 * found.speedups[model.ASYNCHRONOUS]
    assert found.with_faults[model.RING] < 0.6 * found.speedups[model.RING]


def test_finished_steps_are_those_of_a_simulation() -> None:
    random_, f = random.Random(3), Faults(1.0, 0, 0, 0)
    lives = [random_.expovariate(1 / f.between(1)) for _ in range(20_000)]
    for step in (60.0, 3600.0):
        used = math.fsum(step * (life // step) for life in lives) / math.fsum(lives)
        assert model.finished(f, step) == pytest.approx(used, abs=0.02)
    assert model.finished(NEVER, 1.0) == 1.0


def test_where_it_ends() -> None:
    points = model.curve(GOOD, (1, 10, 100, 1000))
    assert model.most(points, model.RING)[0] == 1000
    assert model.most(points, model.SERVED)[0] == 1000
    assert model.half(points, model.SERVED) == 100
    assert model.half(points, model.RING) == 1000
    assert model.half(points[:2], model.RING) is None
