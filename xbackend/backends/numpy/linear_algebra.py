"""Linear algebra of NumPy, with SciPy's triangular solve. Gradients that autograd lacks, or has as NaN, are here with
the source of their formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from xbackend import extras
from xbackend.program.program import Node

Function = Callable[..., Any]
Maker = Callable[[Any, Node], Function]


def _transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _each(function: Function, *stacks: np.ndarray) -> np.ndarray:
    if stacks[0].ndim == 2:
        result: np.ndarray = function(*stacks)
        return result
    result = np.empty_like(stacks[-1])
    for i in np.ndindex(stacks[0].shape[:-2]):
        result[i] = function(*(stack[i] for stack in stacks))
    return result


def _triangular(a: np.ndarray, b: np.ndarray, lower: int) -> np.ndarray:
    extras.need("a triangular solve on numpy", ["scipy"], "numpy")
    from scipy.linalg import solve_triangular

    if not b.size:
        return np.zeros_like(b)
    return _each(partial(solve_triangular, lower=bool(lower), check_finite=False), a, b)


def _qr(x: np.ndarray, full: int) -> tuple[np.ndarray, np.ndarray]:
    q, r = np.linalg.qr(x, mode="complete" if full else "reduced")
    return q, r


class _Differentiable:
    """The functions of this module with gradients, also second ones."""

    def __init__(self) -> None:
        import autograd.numpy as anp
        from autograd.extend import defvjp, primitive

        self.anp = anp
        self.triangular = primitive(_triangular)
        defvjp(
            self.triangular,
            lambda ans, a, b, lower: lambda g: self._by_matrix(ans, a, g, lower),
            lambda ans, a, b, lower: lambda g: self.triangular(_transposed(a), g, 1 - lower),
            argnums=(0, 1),
        )
        self.qr = primitive(_qr)
        defvjp(self.qr, lambda ans, x, full: lambda g: self._of_qr(ans, g), argnums=(0,))

    def _by_matrix(self, ans: Any, a: Any, g: Any, lower: int) -> Any:
        """The gradient of the matrix, in the triangle that is read: Giles, Collected matrix derivative results (2008),
        2.3.1."""
        right = self.triangular(_transposed(a), g, 1 - lower)
        return -(self.anp.tril if lower else self.anp.triu)(self.anp.matmul(right, _transposed(ans)))

    def _of_qr(self, ans: Any, g: Any) -> Any:
        """Walter, Lehmann and Lamour, On higher-order derivatives of QR (2010); no more columns than rows."""
        anp, (q, r), (by_q, by_r) = self.anp, ans, g
        inner = anp.matmul(r, _transposed(by_r)) - anp.matmul(_transposed(by_q), q)
        symmetric = anp.tril(inner) + _transposed(anp.tril(inner, -1))
        return _transposed(self.triangular(r, _transposed(by_q + anp.matmul(q, symmetric)), 0))


_differentiable = cache(_Differentiable)


def _diagonal(xp: Any, offset: int) -> Function:
    """For autograd a slice of the flat matrix: the gradient of its own is right for the main diagonal only."""

    def diagonal(x: Any) -> Any:
        rows, columns = x.shape[-2:]
        first = offset if offset >= 0 else -offset * columns
        count = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
        flat = xp.reshape(x, (*x.shape[:-2], rows * columns))
        return flat[..., first : first + count * (columns + 1) : columns + 1][..., :count]

    return (lambda x: np.diagonal(x, offset, -2, -1)) if xp is np else diagonal


def _arrays(xp: Any, call: Function) -> Function:
    """All results as arrays: for one matrix NumPy returns numbers."""
    return (lambda x: [np.asarray(result) for result in call(x)]) if xp is np else call


def _linalg(name: str) -> Maker:
    return lambda xp, node: getattr(xp.linalg, name)


ROWS: Mapping[str, Maker] = {
    **{name: _linalg(name) for name in ("cholesky", "inv", "det", "solve", "eigh")},
    "slogdet": lambda xp, node: _arrays(xp, xp.linalg.slogdet),
    "solve_triangular": lambda xp, node: partial(
        _triangular if xp is np else _differentiable().triangular, lower=node.params["lower"]
    ),
    # autograd differentiates the eigenvalues of `eigh` only.
    "eigvalsh": lambda xp, node: xp.linalg.eigvalsh if xp is np else lambda x: xp.linalg.eigh(x)[0],
    "qr": lambda xp, node: partial(_qr if xp is np else _differentiable().qr, full=node.params["full"]),
    "svd": lambda xp, node: partial(xp.linalg.svd, full_matrices=bool(node.params["full"])),
    "svdvals": lambda xp, node: partial(xp.linalg.svd, full_matrices=False, compute_uv=False),
    "diagonal": lambda xp, node: _diagonal(xp, node.params["offset"]),
}
"""What makes the function of ``xp`` (numpy or autograd.numpy) that computes a node from its inputs."""
