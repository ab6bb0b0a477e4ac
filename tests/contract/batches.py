"""Many small checks in one compiled program, as compiling costs most on most backends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import expected_failures
import numpy as np
import tiers
from tolerances import LIMIT, Rule, check_equal

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.errors import WorkerDied, WorkerTimeout
from xbackend.workers.remote import RemoteBackend

# Seconds that a worker may take for one request. A large program on a backend that compiles C takes longest.
LIMIT_SECONDS = 1200.0
TESTS = (
    "test_result_of_op",
    "test_gradient",
    "test_gradient_at_other_shapes",
    "test_control_flow",
    "test_algebra_of_real_numbers",
)  # of one result of a program


@dataclass(frozen=True)
class Check:
    """One result of a program: the function, its arguments, and how it must equal the oracle's result.

    One that is not ``core`` is a variant: most backends run it in the exhaustive tier only.
    """

    label: str
    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]
    rule: Rule = "element"
    limits: dict[str, float] = field(default_factory=lambda: LIMIT)
    core: bool = True
    turn: int = 0  # its number, by which backends take turns
    derived: bool = False  # it asks how a gradient is derived: the backends of an environment have that in common


@dataclass(frozen=True)
class Batch:
    """Checks that are compiled together."""

    name: str
    checks: tuple[Check, ...]


def in_turns(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """Number the checks of the batches, those of the core separately, for backends that take turns."""
    numbers = {core: itertools.count() for core in (True, False)}
    return tuple(
        replace(batch, checks=tuple(replace(check, turn=next(numbers[check.core])) for check in batch.checks))
        for batch in batches
    )


class Host:
    """A backend in a worker, opened at its first use, and again after it died."""

    def __init__(self, name: str, tier: str, devices: int = 1) -> None:
        self.name, self.tier, self.devices = name, tier, devices
        self._backend: Backend | None = None
        self._results: dict[str, dict[str, np.ndarray | Exception]] = {}
        self._whole: dict[str, Exception | None] = {}

    @property
    def backend(self) -> Backend:
        if isinstance(self._backend, RemoteBackend) and not self._backend.worker.pids:
            self.close()  # its worker died in an earlier test
        if self._backend is None:
            self._backend = xb.open(self.name, virtual_devices=self.devices, isolated=True, limit=LIMIT_SECONDS)
        return self._backend

    def close(self) -> None:
        if self._backend is not None:
            backend, self._backend = self._backend, None
            backend.close()

    def check(self, batch: Batch, check: Check) -> None:
        """Compare one result of the batch with the oracle's. The first check of a batch compiles it."""
        result = self._of(batch)[check.label]
        if isinstance(result, Exception):
            raise result
        want = ORACLE.result(check)
        check_equal(result, want, check.rule, check.limits)

    def check_whole(self, batch: Batch) -> None:
        """Raise the error of the batch as one program, unless parts of it fail alone, which says more."""
        parts = [r for r in self._of(batch).values() if isinstance(r, Exception)]
        error = self._whole[batch.name]
        if error is not None and not parts:
            raise error

    def _of(self, batch: Batch) -> dict[str, np.ndarray | Exception]:
        """The results of the batch, by label."""
        if batch.name not in self._results:
            self._results[batch.name] = {}
            checks = [check for check in batch.checks if self._makes(check)]
            together = [check for check in checks if not self._fails(check)]
            self._whole[batch.name] = self._run(together, self._results[batch.name]) if together else None
            for check in checks:
                if check.label not in self._results[batch.name]:
                    self._run([check], self._results[batch.name])
        return self._results[batch.name]

    def _makes(self, check: Check) -> bool:
        made = tiers.compiled(self.tier, self.name, check.core, check.turn, label=check.label, derived=check.derived)
        return made or (self.tier == tiers.TIERS[-1] and self._fails(check))

    def _fails(self, check: Check) -> bool:
        """Whether it is expected to fail: then it runs alone, else all of its program would be compiled again."""
        expected = expected_failures.of(self.name)
        return any(one.matches(test, check.label) for one in expected for test in TESTS)

    def _run(self, checks: Sequence[Check], results: dict[str, np.ndarray | Exception]) -> Exception | None:
        """Run the checks as one program. If it fails, return why, and halve it until each failing check is alone."""
        try:
            found = run_together(self.backend, checks)
            results.update({check.label: array for check, array in zip(checks, found, strict=True)})
        except Exception as error:
            if isinstance(error, WorkerDied | WorkerTimeout):
                self.close()
            if len(checks) == 1:
                results[checks[0].label] = error
                return error
            middle = len(checks) // 2
            self._run(checks[:middle], results)
            self._run(checks[middle:], results)
            return error
        return None


class Oracle:
    """The NumPy backend in this interpreter, op by op."""

    def __init__(self) -> None:
        self.backend = registry.get("numpy").load()
        self._results: dict[int, np.ndarray] = {}

    def result(self, check: Check) -> np.ndarray:
        if id(check) not in self._results:
            (self._results[id(check)],) = run_together(self.backend, [check])
        return self._results[id(check)]


def run_together(backend: Backend, checks: Sequence[Check]) -> Sequence[np.ndarray]:
    """The results of the checks from one program. Its arguments are their distinct arrays."""
    arrays = list({id(a): a for check in checks for a in check.arguments}.values())
    position = {id(a): i for i, a in enumerate(arrays)}

    def together(*inputs: Any) -> Any:
        return [check.function(*(inputs[position[id(a)]] for a in check.arguments)) for check in checks]

    copies = [a.copy() for a in arrays]
    results: Sequence[np.ndarray] = backend.compile(together, *arrays)(*arrays)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy, "an argument was changed")
    return results


ORACLE = Oracle()
