"""One rank of two: measures the link by ping-pong and stream and its own compute, then steps as the engine makes them.

    python rank.py PLAN

PLAN is JSON: `parent` (the process to end with), `rank`, `limit` (seconds that anything may take) and `asked`, the
measurements in their order: `kind`, `nbytes`, `rounds`, and `chain`, how many follow each other in a round without a
barrier. Rank 0 prints a JSON list: for each measurement and each rank, the seconds in each round of one operation:

- `ping_pong`: a message there and back
- `stream`: one of many messages that follow each other, rank 0 to rank 1
- `all_reduce`: of so many bytes
- `compute`: the gradients of a model of `MODEL`, so many bytes, without an exchange; both ranks at once
- `step`: these gradients and their all-reduce

Every wait is the engine's own, which leaves the core to others.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from links.relay import ends_with
from links.shared import MODEL
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.engines.mpi import MPI

_WINDOW = 16  # messages of a stream


class Rank:
    def __init__(self, rank: int, limit: float) -> None:
        joined = {"jobs": {"worker": ["a:1", "b:1"]}, "task": ("worker", rank, 2), "layouts": []}
        self.engine = MPI({**joined, "options": {"limit": limit, "asynchronous": False}}, Settings())
        self.rank, self.world = rank, self.engine.world
        self.backend = registry.get("numpy").load()
        rows, inputs, hidden, classes = MODEL
        random = np.random.default_rng(rank)
        shapes = (rows, inputs), (inputs, hidden), (hidden, classes), (rows, classes)
        self.x, self.first, self.second, self.wanted = (random.normal(size=s).astype(np.float32) for s in shapes)

    def measure(self, kind: str, nbytes: int, rounds: int, chain: int) -> list[float]:
        data = np.zeros(max(nbytes // 4, 1), np.float32)
        return [self._round(kind, data, chain) for _ in range(1 + rounds)][1:]

    def _round(self, kind: str, data: np.ndarray, chain: int) -> float:
        self._wait(self.world.Ibarrier(), "for the other rank")
        if kind == "stream":
            return self.stream(data)
        once = getattr(self, kind)
        begin = time.perf_counter()
        for _ in range(chain):
            once(data)
        return (time.perf_counter() - begin) / chain

    def _wait(self, request: Any, what: str) -> None:
        self.engine.until(request.Test, what)

    def _send(self, data: np.ndarray) -> None:
        self._wait(self.world.Isend(data, 1 - self.rank), "for a message to leave")

    def _receive(self, data: np.ndarray) -> None:
        self._wait(self.world.Irecv(data, 1 - self.rank), "for a message")

    def ping_pong(self, data: np.ndarray) -> None:
        first, then = (self._send, self._receive) if self.rank == 0 else (self._receive, self._send)
        first(data)
        then(data)

    def stream(self, data: np.ndarray) -> float:
        """Seconds of a message; at rank 1 between arrivals, which is what the link does."""
        begin, answer, arrived = time.perf_counter(), np.zeros(1, np.float32), list[float]()
        if self.rank == 0:
            for request in [self.world.Isend(data, 1) for _ in range(_WINDOW)]:
                self._wait(request, "for a message to leave")
            self._receive(answer)
            return (time.perf_counter() - begin) / _WINDOW
        for request in [self.world.Irecv(np.empty_like(data), 0) for _ in range(_WINDOW)]:
            self._wait(request, "for a message")
            arrived.append(time.perf_counter())
        self._send(answer)
        return (arrived[-1] - arrived[0]) / (_WINDOW - 1)

    def all_reduce(self, data: np.ndarray) -> None:
        self.engine.all_reduce(self.backend, self.backend.put_all([data], [self.backend.devices[0]]))

    def compute(self, data: np.ndarray) -> np.ndarray:
        hidden = np.tanh(self.x @ self.first)
        wrong = hidden @ self.second - self.wanted
        back = (wrong @ self.second.T) * (1 - hidden * hidden)
        return np.concatenate([(self.x.T @ back).ravel(), (hidden.T @ wrong).ravel()])

    def step(self, data: np.ndarray) -> None:
        self.all_reduce(self.compute(data))


def main(plan: dict[str, Any]) -> None:
    ends_with(plan["parent"])
    rank = Rank(plan["rank"], plan["limit"])
    found = [rank.measure(**one) for one in plan["asked"]]
    both = rank.world.gather(found, 0)
    if rank.rank == 0:
        print(json.dumps([*zip(*both, strict=True)]), flush=True)
    rank.engine.mpi.Finalize()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
