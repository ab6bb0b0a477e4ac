"""Linear algebra as a user of JAX writes it: rows as those of `ops`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xbackend.backends.rows import Row
from xbackend.program.program import Node


def _matrices(name: str) -> Row:
    return lambda jnp, node, inputs: getattr(jnp.linalg, name)(*inputs)


def _solve_triangular(jnp: Any, node: Node, inputs: Sequence[Any]) -> Any:
    from jax.scipy.linalg import solve_triangular

    return solve_triangular(*inputs, lower=bool(node.params["lower"]))


ROWS: Mapping[str, Row] = {
    **{name: _matrices(name) for name in ("cholesky", "inv", "det", "slogdet", "solve", "eigh", "eigvalsh")},
    "solve_triangular": _solve_triangular,
    "svdvals": lambda jnp, node, inputs: jnp.linalg.svd(inputs[0], full_matrices=False, compute_uv=False),
    "qr": lambda jnp, node, inputs: jnp.linalg.qr(inputs[0], mode="complete" if node.params["full"] else "reduced"),
    "svd": lambda jnp, node, inputs: jnp.linalg.svd(inputs[0], full_matrices=bool(node.params["full"])),
    "diagonal": lambda jnp, node, inputs: jnp.diagonal(jnp.asarray(inputs[0]), node.params["offset"], -2, -1),
}
