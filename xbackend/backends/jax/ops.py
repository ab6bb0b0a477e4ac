"""The op set as a user of JAX writes it: a row for each op whose name or arguments in ``jax.numpy`` are not the
standard's. A row takes ``jax.numpy``, the node and its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from xbackend.backends.jax import gradient_rules
from xbackend.backends.numpy.ops import selected, slices
from xbackend.backends.rows import LoweringRow, Rows
from xbackend.backends.special_numbers import Elementwise
from xbackend.program.ops import OPS
from xbackend.program.program import Node


def _named(name: str) -> LoweringRow:
    return lambda jnp, node, inputs: getattr(jnp, name)(*inputs)


def _special_function(name: str, jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    from jax.scipy import special

    return getattr(special, name)(*inputs)


def _reduction(name: str, jnp: Any, node: Node, inputs: Sequence[Any], *, typed: bool = False) -> Any:
    """Without axes there is nothing to reduce. Integers keep their dtype."""
    axes, options = tuple(node.params["axis"]), {"dtype": node.dtype.value} if typed else {}
    return getattr(jnp, name)(inputs[0], axis=axes, **options) if axes else jnp.asarray(inputs[0])


def _along_axis(name: str) -> LoweringRow:
    return lambda jnp, node, inputs: getattr(jnp, name)(*inputs, axis=node.params["axis"])


def _special(jnp: Any, node: Node) -> Elementwise:
    names = {"both": "logical_and", "either": "logical_or", "is_infinite": "isinf"}
    return Elementwise.of(jnp, lambda value: jnp.asarray(value, node.dtype.value), **names)


def _floor_divide(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    whole = jnp.floor_divide(*inputs)
    if node.dtype.is_integer:
        return whole
    from jax.lax import stop_gradient

    # Where it is 0 `quotient` returns x / y, for the sign, and so the gradient of x / y.
    return stop_gradient(_special(jnp, node).quotient(inputs[0], inputs[1], whole))


def _remainder(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    rest = jnp.remainder(*inputs)
    return rest if node.dtype.is_integer else _special(jnp, node).remainder(inputs[0], inputs[1], rest)


def _abs(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return gradient_rules.absolute()(*inputs) if node.dtype.is_floating else jnp.abs(*inputs)


def _sign(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    sign = jnp.sign(*inputs)
    return _special(jnp, node).positive_zero(sign) if node.dtype.is_floating else sign


def _pow(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return gradient_rules.power()(*inputs) if node.dtype.is_floating else jnp.pow(*inputs)


def _at(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return jnp.asarray(inputs[0]).at[selected(node.params["axis"], inputs[1])]


def _searchsorted(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return jnp.searchsorted(*inputs, side="right" if node.params["right"] else "left").astype(node.dtype.value)


def _conv2d(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    from jax import lax

    above, below, left, right = node.params["padding"]
    return lax.conv_general_dilated(
        *inputs,
        window_strides=node.params["strides"],
        padding=[(above, below), (left, right)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=lax.Precision.HIGHEST,
    )


def _solve_triangular(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    from jax.scipy.linalg import solve_triangular

    return solve_triangular(*inputs, lower=bool(node.params["lower"]))


def _linear_algebra(name: str) -> LoweringRow:
    return lambda jnp, node, inputs: getattr(jnp.linalg, name)(*inputs)


_MATRICES: Mapping[str, LoweringRow] = {
    **{name: _linear_algebra(name) for name in ("cholesky", "inv", "det", "slogdet", "solve", "eigh", "eigvalsh")},
    "solve_triangular": _solve_triangular,
    "svdvals": lambda jnp, node, inputs: jnp.linalg.svd(inputs[0], full_matrices=False, compute_uv=False),
    "qr": lambda jnp, node, inputs: jnp.linalg.qr(inputs[0], mode="complete" if node.params["full"] else "reduced"),
    "svd": lambda jnp, node, inputs: jnp.linalg.svd(inputs[0], full_matrices=bool(node.params["full"])),
    "diagonal": lambda jnp, node, inputs: jnp.diagonal(jnp.asarray(inputs[0]), node.params["offset"], -2, -1),
}
TABLE = Rows(
    "JAX",
    {
        **{name: _named(name) for name in OPS},
        **{name: partial(_reduction, name) for name in ("max", "min", "any", "all")},
        **{name: partial(_reduction, name, typed=True) for name in ("sum", "prod", "mean")},
        **{name: partial(_special_function, name) for name in ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit")},
        **{name: _along_axis(name) for name in ("argmax", "argmin", "sort", "take_along_axis")},
        "abs": _abs,
        "atan2": _named("arctan2"),
        "bitwise_invert": _named("invert"),
        "floor_divide": _floor_divide,
        "remainder": _remainder,
        "sign": _sign,
        "pow": _pow,
        "cumulative_sum": lambda jnp, node, inputs: jnp.cumsum(inputs[0], node.params["axis"], node.dtype.value),
        "cumulative_prod": lambda jnp, node, inputs: jnp.cumprod(inputs[0], node.params["axis"], node.dtype.value),
        "argsort": lambda jnp, node, inputs: jnp.argsort(inputs[0], axis=node.params["axis"]).astype(node.dtype.value),
        "searchsorted": _searchsorted,
        "conv2d": _conv2d,
        "reshape": lambda jnp, node, inputs: jnp.reshape(inputs[0], node.shape),
        "permute_dims": lambda jnp, node, inputs: jnp.transpose(inputs[0], node.params["axes"]),
        "broadcast_to": lambda jnp, node, inputs: jnp.broadcast_to(inputs[0], node.shape),
        "stack": lambda jnp, node, inputs: jnp.stack(inputs, node.params["axis"]),
        "concat": lambda jnp, node, inputs: jnp.concatenate(inputs, node.params["axis"]),
        "slice": lambda jnp, node, inputs: jnp.reshape(inputs[0][slices(node.params)], node.shape),
        # As users write it: `jnp.take` would check the range of each index.
        "take": lambda jnp, node, inputs: jnp.asarray(inputs[0])[selected(node.params["axis"], inputs[1])],
        "slice_set": lambda jnp, node, inputs: jnp.asarray(inputs[0]).at[slices(node.params)].set(inputs[1]),
        "slice_add": lambda jnp, node, inputs: jnp.asarray(inputs[0]).at[slices(node.params)].add(inputs[1]),
        "take_set": lambda jnp, node, inputs: _at(jnp, node, inputs).set(inputs[2]),
        "take_add": lambda jnp, node, inputs: _at(jnp, node, inputs).add(inputs[2]),
        "astype": lambda jnp, node, inputs: jnp.astype(jnp.asarray(inputs[0]), node.dtype.value),
        "full": lambda jnp, node, inputs: jnp.full(node.shape, node.params["fill_value"], node.dtype.value),
        "eye": lambda jnp, node, inputs: jnp.eye(*node.shape, k=node.params["k"], dtype=node.dtype.value),
        **_MATRICES,
    },
)
"""`input`, `shared`, `transfer`, `grad` and the other generators belong to the graph (`jax.tracing`)."""
