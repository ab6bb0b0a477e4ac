"""Linear algebra, sorting, special functions and convolution of NumPy and SciPy, with gradients for autograd.

NumPy has no special functions and no triangular solve: they are SciPy's, as in most users' code. Where autograd has no
gradient, or one that is NaN where there is one, it is written here with the source of its formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from xbackend.program.program import Node

Function = Callable[..., Any]

SPECIAL = ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit")
# What executes an op, for its record of placement, where it is no function of NumPy.
NAMES = {**{name: f"scipy.special.{name}" for name in SPECIAL}, "solve_triangular": "scipy.linalg.solve_triangular"}


def _transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _each(function: Function, *stacks: np.ndarray) -> np.ndarray:
    """A function of matrices, of each in stacks of them."""
    if stacks[0].ndim == 2:
        result: np.ndarray = function(*stacks)
        return result
    result = np.empty_like(stacks[-1])
    for i in np.ndindex(stacks[0].shape[:-2]):
        result[i] = function(*(stack[i] for stack in stacks))
    return result


def _triangular(a: np.ndarray, b: np.ndarray, lower: int) -> np.ndarray:
    from scipy.linalg import solve_triangular

    if not b.size:
        return np.zeros_like(b)
    return _each(partial(solve_triangular, lower=bool(lower), check_finite=False), a, b)


def _sorted(x: np.ndarray, axis: int) -> np.ndarray:
    return np.sort(x, axis=axis)


def _argsorted(x: np.ndarray, axis: int) -> np.ndarray:
    return np.argsort(x, axis=axis, kind="stable")


def _searched(x: np.ndarray, values: np.ndarray, right: int) -> np.ndarray:
    return np.asarray(np.searchsorted(x, values, side="right" if right else "left"))


def _cumulative(x: np.ndarray, axis: int) -> np.ndarray:
    return np.cumprod(x, axis=axis, dtype=x.dtype)


def _qr(x: np.ndarray, full: int) -> tuple[np.ndarray, np.ndarray]:
    q, r = np.linalg.qr(x, mode="complete" if full else "reduced")
    return q, r


def _moved(x: Any, axis: int) -> Any:
    return x.swapaxes(axis, -1)


class _Differentiable:
    """The functions of this module as autograd differentiates them, also twice."""

    def __init__(self) -> None:
        import autograd.numpy as anp
        from autograd.extend import defvjp, notrace_primitive, primitive

        self.anp = anp
        self.argsorted = notrace_primitive(_argsorted)
        self.searched = notrace_primitive(_searched)
        self.triangular = primitive(_triangular)
        defvjp(
            self.triangular,
            lambda ans, a, b, lower: lambda g: self._by_matrix(ans, a, g, lower),
            lambda ans, a, b, lower: lambda g: self.triangular(_transposed(a), g, 1 - lower),
            argnums=(0, 1),
        )
        self.sorted = primitive(_sorted)
        defvjp(self.sorted, lambda ans, x, axis: lambda g: self._put_back(g, x, axis), argnums=(0,))
        self.cumulative = primitive(_cumulative)
        defvjp(self.cumulative, lambda ans, x, axis: lambda g: self._of_factors(g, x, axis), argnums=(0,))
        self.qr = primitive(_qr)
        defvjp(self.qr, lambda ans, x, full: lambda g: self._of_qr(ans, g), argnums=(0,))

    def _by_matrix(self, ans: Any, a: Any, g: Any, lower: int) -> Any:
        """Giles, Collected matrix derivative results (2008), 2.3.1, of the triangle that was read."""
        right = self.triangular(_transposed(a), g, 1 - lower)
        return -(self.anp.tril if lower else self.anp.triu)(self.anp.matmul(right, _transposed(ans)))

    def _put_back(self, g: Any, x: Any, axis: int) -> Any:
        """Each gradient goes to the element that came to its place."""
        places: list[Any] = [*np.ogrid[tuple(slice(n) for n in g.shape)]]
        places[axis] = np.argsort(self.argsorted(x, axis), axis=axis)
        return g[tuple(places)]

    def _of_factors(self, g: Any, x: Any, axis: int) -> Any:
        """Of products by their factors, which may be 0: the gradient of each is that of the next one times the next
        factor, and its own; times the product of the factors before."""
        anp, x, g = self.anp, _moved(x, axis), _moved(g, axis)
        count = x.shape[-1]
        if not count:
            return _moved(g, axis)
        behind = [g[..., -1]]
        for k in range(count - 2, -1, -1):
            behind.append(g[..., k] + x[..., k + 1] * behind[-1])
        before = [anp.ones_like(x[..., 0])]
        for k in range(count - 1):
            before.append(before[-1] * x[..., k])
        return _moved(anp.stack(behind[::-1], -1) * anp.stack(before, -1), axis)

    def _of_qr(self, ans: Any, g: Any) -> Any:
        """Walter, Lehmann and Lamour, On higher-order derivatives of QR (2010); no more columns than rows."""
        anp, (q, r), (by_q, by_r) = self.anp, ans, g
        inner = anp.matmul(r, _transposed(by_r)) - anp.matmul(_transposed(by_q), q)
        symmetric = anp.tril(inner) + _transposed(anp.tril(inner, -1))
        return _transposed(self.triangular(r, _transposed(by_q + anp.matmul(q, symmetric)), 0))


differentiable = cache(_Differentiable)


def _special(xp: Any, name: str) -> Function:
    if xp is np:
        from scipy import special
    else:
        from autograd.scipy import special
    call: Function = getattr(special, name)
    return call


def _diagonal(xp: Any, offset: int) -> Function:
    """Every so many elements one after the other: autograd's gradient is of the main diagonal only."""

    def diagonal(x: Any) -> Any:
        rows, columns = x.shape[-2:]
        first = offset if offset >= 0 else -offset * columns
        count = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
        flat = xp.reshape(x, (*x.shape[:-2], rows * columns))
        return flat[..., first : first + count * (columns + 1) : columns + 1][..., :count]

    return (lambda x: np.diagonal(x, offset, -2, -1)) if xp is np else diagonal


def _conv2d(xp: Any, strides: Sequence[int], padding: Sequence[int], shape: Sequence[int]) -> Function:
    """For each element of the kernel a product of matrices: with the pixels that it meets."""

    def conv2d(images: Any, kernel: Any) -> Any:
        if any(padding):
            images = xp.pad(images, ((0, 0), tuple(padding[:2]), tuple(padding[2:]), (0, 0)), "constant")
        _, rows, columns, _ = shape
        result = 0.0
        for i in range(kernel.shape[0]):
            for j in range(kernel.shape[1]):
                met = images[
                    :,
                    i : i + (rows - 1) * strides[0] + 1 : strides[0],
                    j : j + (columns - 1) * strides[1] + 1 : strides[1],
                ]
                result = result + xp.matmul(met, kernel[i, j])
        return result

    return conv2d


def _arrays(xp: Any, call: Function) -> Function:
    """All results as arrays: of one matrix NumPy gives numbers."""
    return (lambda x: [np.asarray(result) for result in call(x)]) if xp is np else call


SEVERAL: dict[str, Callable[[Any, Node], Function]] = {
    "slogdet": lambda xp, node: _arrays(xp, xp.linalg.slogdet),
    "eigh": lambda xp, node: xp.linalg.eigh,
    "qr": lambda xp, node: partial(_qr if xp is np else differentiable().qr, full=node.params["full"]),
    "svd": lambda xp, node: partial(xp.linalg.svd, full_matrices=bool(node.params["full"])),
}
"""What makes the function of ``xp`` (numpy or autograd.numpy) that gives all results of an op that has several."""


def function(xp: Any, node: Node) -> Function | None:
    """The function of ``xp`` (numpy or autograd.numpy) that computes a node from its inputs, if it is one of these."""
    p, plain = node.params, xp is np
    if node.op in SPECIAL:
        return _special(xp, node.op)
    if node.op in ("cholesky", "inv", "det", "solve"):
        call: Function = getattr(xp.linalg, node.op)
        return call
    mine: dict[str, Callable[[], Function]] = {
        "solve_triangular": lambda: partial(_triangular if plain else differentiable().triangular, lower=p["lower"]),
        # autograd has a gradient of the eigenvalues beside the vectors only.
        "eigvalsh": lambda: xp.linalg.eigvalsh if plain else lambda x: xp.linalg.eigh(x)[0],
        "svdvals": lambda: partial(xp.linalg.svd, full_matrices=False, compute_uv=False),
        "diagonal": lambda: _diagonal(xp, p["offset"]),
        "sort": lambda: partial(_sorted if plain else differentiable().sorted, axis=p["axis"]),
        "argsort": lambda: partial(_argsorted if plain else differentiable().argsorted, axis=p["axis"]),
        "searchsorted": lambda: partial(_searched if plain else differentiable().searched, right=p["right"]),
        "cumulative_prod": lambda: partial(_cumulative if plain else differentiable().cumulative, axis=p["axis"]),
        "conv2d": lambda: _conv2d(xp, p["strides"], p["padding"], node.shape),
    }
    return mine[node.op]() if node.op in mine else None
