"""Functions of JAX that no program has, and what they are answered: a line for each, its name and the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from xbackend.bring.jax.given import from_jax, from_jaxpr
from xbackend.errors import XBackendError

jax.config.update("jax_enable_x64", True)
V = np.linspace(0.1, 1.0, 4)


def random(x: Any) -> Any:
    return x + jax.random.normal(jax.random.PRNGKey(0), x.shape)


def callback(x: Any) -> Any:
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def printing(x: Any) -> Any:
    jax.debug.print("{}", x)
    return x


def several(x: Any) -> Any:
    return lax.nextafter(x, x) + lax.nextafter(x, x + 1.0) + lax.linalg.lu(x[:, None] * x)[0]


def inside_of_a_loop(x: Any) -> Any:
    return lax.scan(lambda c, row: (lax.nextafter(c, row), None), 0.5, x)[0]


def half(x: Any) -> Any:
    return x.astype(jnp.float16) + 1


def complex_numbers(x: Any) -> Any:
    return jnp.abs(x + 1j)


def applied(x: Any) -> Any:
    return x.at[0].apply(jnp.sin)


def signed_shift(x: Any) -> Any:
    return lax.shift_right_arithmetic(x.astype("uint32"), jnp.uint32(1))


def own_solver(x: Any) -> Any:
    return jax.scipy.sparse.linalg.cg(lambda y: 2.0 * y, x)[0]


def own_gradient_of_a_solution(x: Any) -> Any:
    matrix = jnp.eye(4) + x[:, None] * x
    return jax.vjp(lambda b: jnp.linalg.solve(matrix + jnp.triu(matrix), b), x)[1](x)[0]


def nothing(x: Any) -> None:
    return None


def one_line(x: Any) -> Any:
    return lax.lgamma(x.astype(jnp.bfloat16))


def unknown_attribute() -> Any:
    def changed() -> Any:
        closed = jax.make_jaxpr(jnp.exp)(V)
        for equation in closed.jaxpr.eqns:
            equation.params["accuracy_of_tomorrow"] = 3
        return from_jaxpr(closed)

    return changed


def answer(call: Callable[[], Any]) -> str:
    try:
        return f"no error: {call()}"
    except XBackendError as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")


CALLS: dict[str, Callable[[], Any]] = {
    "small_argument": lambda: from_jax(jnp.sin, np.zeros(3, np.int8)),
    "no_function": lambda: from_jax(3, V),  # type: ignore[arg-type]
    "no_jaxpr": lambda: from_jaxpr(V),
    "unknown_attribute": unknown_attribute(),
}
FUNCTIONS = (random, callback, printing, several, inside_of_a_loop, half, complex_numbers, applied, signed_shift)
CALLS |= {
    one.__name__: (lambda one=one: from_jax(one, V))
    for one in (*FUNCTIONS, own_solver, own_gradient_of_a_solution, nothing, one_line)
}

if __name__ == "__main__":
    for name, call in CALLS.items():
        print(name, answer(call), sep="\t")
