"""The instructions of each process of a program, its share of the rows, its clock, and the file of its answer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RATE, MOMENTUM = 0.1, 0.9


@dataclass(frozen=True)
class Told:
    """``jobs`` are the addresses of all tasks, ``data`` a file with ``x`` and ``labels``, ``answer`` the file to write,
    ``limit`` the seconds that a step may take. ``slopes``: how MPI's processes get gradients, a name of `slopes.BY`."""

    program: str
    job: str
    index: int
    jobs: Mapping[str, list[str]]
    steps: int
    batch: int
    data: str
    answer: str
    limit: float
    slopes: str = "written out"

    @property
    def workers(self) -> int:
        return len(self.jobs["worker"])

    def rows(self, number: int, index: int | None = None) -> tuple[np.ndarray, np.ndarray, int]:
        """A worker's rows and labels at a step, and how many rows all have; the first workers have one more."""
        x, labels = self._all()
        begin = number % -(-len(x) // self.batch) * self.batch
        count = min(self.batch, len(x) - begin)
        least, more = divmod(count, self.workers)
        index = self.index if index is None else index
        begin += index * least + min(index, more)
        end = begin + least + (index < more)
        return x[begin:end], labels[begin:end], count

    def _all(self) -> tuple[np.ndarray, np.ndarray]:
        held = self.__dict__.get("_held")
        if held is None:
            with np.load(self.data) as file:
                held = file["x"], file["labels"]
            object.__setattr__(self, "_held", held)
        return held

    def zeros(self) -> dict[str, np.ndarray]:
        """The weights before the first step."""
        x, labels = self._all()
        classes = int(labels.max()) + 1
        return {"w": np.zeros((x.shape[1], classes), x.dtype), "b": np.zeros(classes, x.dtype)}

    def measure(self, step: Callable[..., Any], weights: Callable[[], Mapping[str, Any]]) -> None:
        """Take all steps, and write the seconds of each, the start of the first one, the result of the last one, and
        the weights. ``step`` takes rows, labels and how many rows all have, and gives a number."""
        batches = [self.rows(number) if self.data else () for number in range(self.steps)]
        seconds, result, first = [], None, time.time()
        for batch in batches:
            begin = time.perf_counter()
            result = step(*batch)
            seconds.append(time.perf_counter() - begin)
        self.write(seconds, weights, result, first)

    def await_others(self) -> None:
        """Wait until every worker has written its answer: one that leaves before ends the last collective of another.
        Raises `TimeoutError` after ``limit`` seconds."""
        end = time.monotonic() + self.limit
        answers = [Path(self.answer).with_name(f"worker{k}.npz") for k in range(self.workers)]
        while not all(path.exists() for path in answers):
            if time.monotonic() > end:
                raise TimeoutError(f"there are not all of {', '.join(map(str, answers))} after {self.limit:g} s")
            time.sleep(0.01)

    def write(
        self, seconds: Any, weights: Callable[[], Mapping[str, Any]], result: Any = 0.0, first: float = 0.0
    ) -> None:
        """Write the answer, whole or not at all."""
        found: dict[str, Any] = {f"weight_{name}": np.asarray(value) for name, value in weights().items()}
        own = Path(f"{self.answer}.part.npz")
        np.savez(own, seconds=np.array(seconds), first=first, result=np.asarray(result), **found)
        own.replace(self.answer)


def told() -> Told:
    return Told(**json.loads(sys.argv[1]))


def gradients(
    weights: Mapping[str, np.ndarray], x: np.ndarray, labels: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """The mean cross-entropy of a linear classifier, and its gradients, in NumPy."""
    scores = x @ weights["w"] + weights["b"]
    scores -= scores.max(axis=1, keepdims=True)
    powers = np.exp(scores)
    sums = powers.sum(axis=1, keepdims=True)
    rows = np.arange(len(x))
    loss = np.mean(np.log(sums[:, 0]) - scores[rows, labels])
    slopes = powers / sums
    slopes[rows, labels] -= 1
    slopes /= len(x)
    return loss, {"w": x.T @ slopes, "b": slopes.sum(axis=0)}
