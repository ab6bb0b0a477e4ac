"""The experiment, as a command; it prints a row of the table in docs/measurement.md for each backend."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import correlation, fmean, median, stdev, variance

from noise import visits
from xbackend.measure.turns import Turns
from xbackend.measure.worker import Worker, open_worker

MODULES = {"noise": str(Path(__file__).parent)}
ROUNDS, SECONDS = 5, 0.01
Logs = list[list[float]]  # of each process the logarithms of the median rounds of its visits


class Waiting(Worker):
    """A worker that is not stopped while others are visited."""

    def signal(self, name: str) -> None:
        """No signal: it waits for requests, as its framework does."""


def measured(name: str, asked: argparse.Namespace) -> tuple[list[Logs], list[Logs]]:
    """Twice in turns, and twice one after the other."""
    program, processes, times = asked.program, asked.processes, asked.visits

    def opener(_: int) -> Worker:
        worker = open_worker(name, threads=asked.threads, modules=MODULES)
        worker.call("noise.visits:prepare", program, SECONDS)
        return Waiting(worker.backend, worker.call) if asked.waiting else worker

    with Turns(opener) as turns:

        def visited(order: Iterable[int], found: Logs) -> None:
            for i in order:
                with turns.running(i) as worker:
                    rounds = worker.call("noise.visits:visit", program, ROUNDS)
                found[i].append(math.log(median(rounds)))

        def collected(orders: Callable[[], Iterable[Iterable[int]]]) -> Logs:
            found: Logs = [[] for _ in range(processes)]
            for order in orders():
                visited(order, found)
            return found

        everyone = range(processes)
        for i in everyone:  # all are alive before the first is visited
            with turns.running(i):
                pass
        in_turns, alone = [], []
        for _ in range(2):
            in_turns.append(collected(lambda: (random.sample(everyone, processes) for _ in range(times))))
            alone.append(collected(lambda: ([i] * times for i in everyone)))
    return in_turns, alone


def row(name: str, asked: argparse.Namespace, found: tuple[list[Logs], list[Logs]]) -> str:
    """Spreads in percent: of the visits of a process, and of the processes' means."""
    parts = [name, asked.program, str(asked.threads), "wait" if asked.waiting else "stand still"]
    means = [[fmean(process) for process in logs] for kind in found for logs in kind]
    for kind in found:
        within = math.sqrt(fmean(variance(process) for logs in kind for process in logs))
        between = math.sqrt(fmean(stdev(map(fmean, logs)) ** 2 for logs in kind))
        parts += [f"{within:.1%}", f"{between:.1%}"]
    parts += [f"{correlation(means[0], means[1]):.2f}", f"{correlation(means[2], means[3]):.2f}"]
    return f"| {' | '.join(parts)} |"


def main() -> None:
    """Run it and print the rows."""
    parser = argparse.ArgumentParser(prog="python -m noise", description=__doc__)
    parser.add_argument("backends", nargs="+")
    parser.add_argument("--program", choices=visits.PROGRAMS, default="product 256")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--visits", type=int, default=15)
    parser.add_argument("--waiting", action="store_true", help="the others wait, and are not stopped")
    asked = parser.parse_args()
    for name in asked.backends:
        print(row(name, asked, measured(name, asked)), flush=True)


if __name__ == "__main__":
    main()
