"""Sorting and searching of NumPy, with a gradient for autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from xbackend.program.program import Node


@cache
def _differentiable() -> Callable[..., Any]:
    """`np.sort` with a gradient for autograd, also a second one."""
    from autograd.extend import defvjp, primitive
    from autograd.tracer import getval

    def put_back(_: Any, x: Any, axis: int) -> Callable[[Any], Any]:
        """Move each cotangent to the position of its element before sorting."""
        places: list[Any] = [*np.ogrid[tuple(slice(n) for n in x.shape)]]
        places[axis] = np.argsort(np.argsort(getval(x), axis=axis, kind="stable"), axis=axis)
        return lambda g: g[tuple(places)]

    sort = primitive(np.sort)
    defvjp(sort, put_back, argnums=(0,))
    return sort  # type: ignore[no-any-return]


ROWS: Mapping[str, Callable[[Any, Node], Callable[..., Any]]] = {
    "sort": lambda xp, node: partial(np.sort if xp is np else _differentiable(), axis=node.params["axis"]),
    "argsort": lambda xp, node: partial(np.argsort, axis=node.params["axis"], kind="stable"),
    "searchsorted": lambda xp, node: partial(np.searchsorted, side="right" if node.params["right"] else "left"),
}
"""By op: from ``xp`` (numpy or autograd.numpy) and a node to the function that computes the node from its inputs."""
