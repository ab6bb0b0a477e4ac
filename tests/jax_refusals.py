"""Functions of JAX that no program has, and what they are answered: a line for each, its name and the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from xbackend.bring.jax.given import from_jax
from xbackend.bring.jax.programs import from_jaxpr
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


def over(function: Callable[..., Any]) -> Any:
    mesh = jax.sharding.AbstractMesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(function, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P(), check_vma=False)


def while_over_devices(x: Any) -> Any:
    return over(lambda x: lax.while_loop(lambda c: c.sum() < 9.0, lambda c: 2.0 * lax.pmax(c, "i"), x))(x)


def many_steps_over_devices(x: Any) -> Any:
    return over(lambda x: lax.fori_loop(0, 100, lambda n, c: lax.pmean(c, "i") + n, x))(x)


def many_steps_together(x: Any) -> Any:
    def outer(n: Any, c: Any) -> Any:
        return lax.fori_loop(0, 9, lambda m, c: lax.pmean(c, "i") + m, c)

    return over(lambda x: lax.fori_loop(0, 9, outer, x))(x)


def choice_over_devices(x: Any) -> Any:
    def chosen(x: Any) -> Any:
        return lax.cond(lax.psum(x, "i")[0] > 0, lambda x: lax.psum(x, "i"), lambda x: lax.pmax(x, "i"), x)

    return over(chosen)(x)


def ragged(x: Any) -> Any:
    k = jnp.ones(4, int)
    return over(lambda x: lax.ragged_all_to_all(x, x, k, k, k, k, axis_name="i"))(x)


def one_inside_of_another(x: Any) -> Any:
    mesh = jax.sharding.AbstractMesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    @jax.shard_map(mesh=mesh, in_specs=jax.P("a"), out_specs=jax.P("a"), axis_names={"a"})
    def outer(x: Any) -> Any:
        return jax.shard_map(jnp.sin, in_specs=jax.P("b"), out_specs=jax.P("b"), axis_names={"b"})(x)

    return outer(x)


def nothing(x: Any) -> None:
    return None


def one_line(x: Any) -> Any:
    return lax.lgamma(x.astype(jnp.bfloat16))


def unknown_attribute() -> Any:
    def changed() -> Any:
        closed = jax.make_jaxpr(jnp.exp)(V)
        for equation in closed.jaxpr.eqns:
            equation.params["accuracy_of_tomorrow"] = 3
        return from_jaxpr(closed, ["x"], "exp", tuple)

    return changed


def answer(call: Callable[[], Any]) -> str:
    try:
        return f"no error: {call()}"
    except XBackendError as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")


CALLS: dict[str, Callable[[], Any]] = {
    "small_argument": lambda: from_jax(jnp.sin, np.zeros(3, np.int8)),
    "no_function": lambda: from_jax(3, V),  # type: ignore[arg-type]
    "unknown_attribute": unknown_attribute(),
}
FUNCTIONS = (random, callback, printing, several, inside_of_a_loop, half, complex_numbers, applied, signed_shift)
OVER_DEVICES = (while_over_devices, many_steps_over_devices, choice_over_devices, ragged, one_inside_of_another)
OVER_DEVICES += (many_steps_together,)
CALLS |= {
    one.__name__: (lambda one=one: from_jax(one, V))
    for one in (*FUNCTIONS, *OVER_DEVICES, own_solver, own_gradient_of_a_solution, nothing, one_line)
}

if __name__ == "__main__":
    for name, call in CALLS.items():
        print(name, answer(call), sep="\t")
