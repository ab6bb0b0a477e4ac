"""A program with its arguments, and its size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from xbackend.program.analyses import everywhere
from xbackend.program.ops import GENERATORS, SOURCES
from xbackend.program.program import Program, generate

LOOP = 3  # ops that a loop or a choice counts as, in addition
LEGIBLE = 4096  # the most elements of an array whose digits are counted

Compute = Callable[[Program, Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(frozen=True, eq=False)
class Example:
    """A program and its arguments."""

    program: Program
    arrays: tuple[np.ndarray, ...]

    @cached_property
    def key(self) -> str:
        """SHA-256 (hexadecimal) of the program and its numbers."""
        digest = hashlib.sha256(self.program.fingerprint.encode())
        for array in (*self.arrays, *(one.value for one in self.program.shared.values())):
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        return digest.hexdigest()

    @cached_property
    def cost(self) -> tuple[float, ...]:
        """The size, in this order: ops, state and devices, outputs, elements, axes, digits of numbers."""
        numbers = [*self.arrays, *self.constants.values()]
        placed = sum(node.device is not None for node in self.program.nodes)
        return (
            self.ops + LOOP * sum(bool(node.bodies) for node in everywhere(self.program)),
            len(self.program.updates) + len(self.program.shared) + placed,
            len(self.program.outputs),
            sum(array.size for array in numbers) + sum(value.aval.size for value in self.program.values),
            len(self.arrays) + sum(len(value.shape) for value in self.program.values),
            sum(map(digits, numbers)),
        )

    @cached_property
    def ops(self) -> int:
        """The number of ops, those of bodies included."""
        return sum(node.op not in SOURCES for node in everywhere(self.program))

    @property
    def elements(self) -> int:
        """The number of elements of its arguments."""
        return sum(array.size for array in self.arrays)

    @cached_property
    def constants(self) -> dict[int, np.ndarray]:
        """The constants of the program, by value: an array, or the number that fills one."""
        return {
            node.outputs[0]: node.params["value"] if node.op == "constant" else np.asarray(node.params["fill_value"])
            for node in self.program.nodes
            if node.op in ("constant", "full")
        }

    @cached_property
    def argument(self) -> dict[int, np.ndarray]:
        """The arguments, by value."""
        return dict(zip(self.program.inputs, self.arrays, strict=True))

    def computed(self, compute: Compute) -> dict[int, np.ndarray]:
        """All values of the program, by number."""
        wanted = [i for i, value in enumerate(self.program.values) if value.op not in SOURCES]
        program = replace(self.program, outputs=tuple(wanted), structure={"tuple": ["*"] * len(wanted)})
        results = compute(program, self.arrays) if wanted else []
        known = {node.outputs[0]: generate(node) for node in self.program.nodes if node.op in GENERATORS}
        known |= {i: one.value for i, one in self.program.shared.items()}
        return known | self.argument | dict(zip(wanted, map(np.asarray, results), strict=True))


def digits(array: np.ndarray) -> float:
    """How much there is to read in numbers: 0 for 0, 1 for 1, more for longer ones."""
    if array.size > LEGIBLE:
        return 20.0 * np.count_nonzero(array)
    return sum(map(_digits, array.reshape(-1)))


def _digits(number: Any) -> float:
    if number == 0:
        return 0.5 if np.signbit(number) else 0.0
    if number == 1:
        return 1.0
    if not np.isfinite(number):
        return 2.0
    mantissa, _, exponent = np.format_float_scientific(float(number), trim="-", exp_digits=1).partition("e")
    return 1.0 + len(mantissa.replace(".", "")) + abs(int(exponent)) / 1000
