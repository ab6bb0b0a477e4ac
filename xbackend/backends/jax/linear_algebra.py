"""Linear algebra, sorting, special functions and convolution as a user of JAX writes them: rows as those of `ops`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xbackend.backends.rows import Row
from xbackend.program.program import Node


def _special(name: str) -> Row:
    def row(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
        from jax.scipy import special

        return getattr(special, name)(*inputs)

    return row


def _matrices(name: str) -> Row:
    return lambda jnp, node, inputs: getattr(jnp.linalg, name)(*inputs)


def _solve_triangular(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    from jax.scipy.linalg import solve_triangular

    return solve_triangular(*inputs, lower=bool(node.params["lower"]))


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


RESULTS: Mapping[str, Callable[[Any, Node, Sequence[Any]], Sequence[Any]]] = {
    "slogdet": _matrices("slogdet"),
    "eigh": _matrices("eigh"),
    "qr": lambda jnp, node, inputs: jnp.linalg.qr(inputs[0], mode="complete" if node.params["full"] else "reduced"),
    "svd": lambda jnp, node, inputs: jnp.linalg.svd(inputs[0], full_matrices=bool(node.params["full"])),
}
"""All results of the ops that have several."""


ROWS: Mapping[str, Row] = {
    **{name: _special(name) for name in ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit")},
    **{name: _matrices(name) for name in ("cholesky", "inv", "det", "solve", "eigvalsh")},
    "bitwise_invert": lambda jnp, node, inputs: jnp.invert(inputs[0]),
    "solve_triangular": _solve_triangular,
    "svdvals": lambda jnp, node, inputs: jnp.linalg.svd(inputs[0], full_matrices=False, compute_uv=False),
    "diagonal": lambda jnp, node, inputs: jnp.diagonal(jnp.asarray(inputs[0]), node.params["offset"], -2, -1),
    "sort": lambda jnp, node, inputs: jnp.sort(inputs[0], axis=node.params["axis"]),
    "argsort": lambda jnp, node, inputs: jnp.argsort(inputs[0], axis=node.params["axis"]).astype(node.dtype.value),
    "searchsorted": _searchsorted,
    "cumulative_prod": lambda jnp, node, inputs: jnp.cumprod(inputs[0], node.params["axis"], node.dtype.value),
    "conv2d": _conv2d,
}
