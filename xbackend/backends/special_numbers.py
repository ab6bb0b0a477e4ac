"""NumPy's zeros, infinities and NaN in quotients, remainders and square roots (docs/numbers.md), for frameworks whose
own differ. Only constants are added to a number, so gradients stay the framework's. A number that replaces another one
brings its gradient, which the caller stops."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

# In `Backend.added`, for frameworks that differ.
QUOTIENTS = "zeros, infinities and NaN of floor_divide and remainder"
ROOTS = "powers of 0.5 and -0.5 of -0 and -inf"
SIGNS = "the sign of -0, which is 0"


class Elementwise(NamedTuple):
    """A framework's elementwise functions of floats; ``number`` makes a constant of their dtype."""

    number: Callable[[float], Any]
    where: Callable[[Any, Any, Any], Any]
    equal: Callable[[Any, Any], Any]
    less: Callable[[Any, Any], Any]
    both: Callable[[Any, Any], Any]
    either: Callable[[Any, Any], Any]
    is_infinite: Callable[[Any], Any]
    add: Callable[[Any, Any], Any]
    multiply: Callable[[Any, Any], Any]
    divide: Callable[[Any, Any], Any]

    @classmethod
    def of(cls, module: Any, number: Callable[[float], Any], **names: str) -> Elementwise:
        """The functions of a framework's module; ``names`` are its names that differ."""
        return cls(number, *(attrgetter(names.get(name, name))(module) for name in cls._fields[1:]))

    def quotient(self, x: Any, y: Any, whole: Any) -> Any:
        """The quotient rounded down; ``whole`` is right for finite numbers, except for signs of zeros."""
        quotient, zero = self.divide(x, y), self.number(0.0)
        whole = self.where(self.is_infinite(y), self.where(self._opposite(x, y), self.number(-1.0), quotient), whole)
        of_finite = self.where(self.is_infinite(x), self.number(math.nan), whole)
        whole = self.where(self.equal(y, zero), quotient, of_finite)
        return self.where(self.equal(whole, zero), self.where(self.equal(quotient, zero), quotient, zero), whole)

    def remainder(self, x: Any, y: Any, rest: Any) -> Any:
        """The remainder with the sign of y, also for a zero; ``rest`` is right for finite numbers."""
        rest = self.where(self.is_infinite(y), self.where(self._opposite(x, y), y, x), rest)
        undefined = self.either(self.equal(y, self.number(0.0)), self.is_infinite(x))
        rest = self.where(undefined, self.number(math.nan), rest)
        sign = self.where(self.less(y, self.number(0.0)), self.number(-1.0), self.number(1.0))
        return self.multiply(sign, self.positive_zero(self.multiply(sign, rest)))

    def radicand(self, x: Any) -> Any:
        """The number whose ``sqrt`` is x to the power 0.5: for -0.0 and -inf these are 0.0 and inf."""
        endless = self.equal(x, self.number(-math.inf))
        return self.where(endless, self.number(math.inf), self.positive_zero(x))

    def positive_zero(self, x: Any) -> Any:
        """The same numbers, with 0.0 for -0.0."""
        zero = self.number(0.0)
        return self.add(x, self.where(self.equal(x, zero), zero, self.number(-0.0)))

    def _opposite(self, x: Any, y: Any) -> Any:
        """Whether one is positive and the other negative."""
        zero = self.number(0.0)
        return self.either(
            self.both(self.less(x, zero), self.less(zero, y)), self.both(self.less(zero, x), self.less(y, zero))
        )


def is_half(exponent: Any) -> bool:
    """Whether a static exponent (`None`: not static) is 0.5 or -0.5, for which compilers use the square root."""
    return exponent is not None and np.size(exponent) > 0 and bool((np.abs(exponent) == 0.5).all())


def by_factors(xp: Any, x: Any, products: Any, cotangent: Any, *, axis: int, length: int, join: Any) -> Any:
    """The gradient of cumulative products, without a division: factors may be zero. ``xp`` is a framework's module,
    ``join`` its concatenation. Recursive doubling (Kogge and Stone, 1973) solves the linear recurrence. Arrays are
    shortened and not filled up with zeros: 0 times an infinite factor is NaN."""

    def part(a: Any, *bounds: int | None) -> Any:
        return a[(*(slice(None),) * axis, slice(*bounds))]

    before = join([xp.ones_like(part(x, 1)), part(products, -1)], axis=axis)
    factors, behind, n = part(x, 1, None), cotangent, 1
    while n < length:
        sums = part(behind, length - n) + factors * part(behind, n, None)
        behind = join([sums, part(behind, length - n, None)], axis=axis)
        factors, n = part(factors, max(length - 2 * n, 0)) * part(factors, n, None), 2 * n
    return before * behind
