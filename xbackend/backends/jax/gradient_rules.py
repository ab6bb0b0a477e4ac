"""Functions of JAX whose derivatives differ from `docs/numbers.md`, with the right ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

MENDED = "gradients of abs at 0 and of 0 ** 0"  # in `Backend.added`


@cache
def absolute() -> Callable[[Any], Any]:
    """``abs`` with derivative 0 at 0; JAX's is 1."""
    import jax
    from jax import numpy as jnp

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def absolute(x: Any) -> Any:
        return jnp.abs(x)

    absolute.defjvps(lambda tangent, result, x: tangent * jnp.sign(x))
    return absolute  # type: ignore[no-any-return]


@cache
def power() -> Callable[[Any, Any], Any]:
    """``x ** y`` with derivative 0 by ``x`` where both are 0: JAX's ``y * x ** (y - 1)`` is 0 times infinity."""
    import jax
    from jax import numpy as jnp
    from jax.custom_derivatives import SymbolicZero

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def power(x: Any, y: Any) -> Any:
        return jnp.power(x, y)

    def derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x, y), (by_x, by_y) = primals, tangents
        result = power(x, y)
        total = jnp.zeros_like(result)
        if not isinstance(by_x, SymbolicZero):
            apart = jnp.where(jnp.logical_and(jnp.equal(x, 0), jnp.equal(y, 0)), 1, x)
            total = total + by_x * (y * power(apart, y - 1))
        if not isinstance(by_y, SymbolicZero):
            total = total + by_y * (result * jnp.log(jnp.where(jnp.equal(x, 0), 1, x)))
        return result, total

    power.defjvp(derivative, symbolic_zeros=True)
    return power  # type: ignore[no-any-return]
