"""The structure of a traced function's results: an array, or nested tuples, lists and dictionaries of arrays.

It is JSON data: ``"*"`` is an array, ``{"tuple": [...]}``, ``{"list": [...]}``, ``{"dict": [[key, ...], ...]}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xbackend.errors import TraceError

LEAF = "*"


def flatten(value: Any, leaf: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """The leaves of a nested value, each passed through ``leaf``, and its structure.

    Raises `TraceError` for dictionaries whose keys are not text.
    """
    if not isinstance(value, tuple | list | dict):
        return [leaf(value)], LEAF
    for key in value if isinstance(value, dict) else ():
        if not isinstance(key, str):
            raise TraceError(f"the function returns a dictionary with the key {key!r}; keys must be text")
    flat = [flatten(item, leaf) for item in (value.values() if isinstance(value, dict) else value)]
    leaves, parts = [one for inner, _ in flat for one in inner], [part for _, part in flat]
    if isinstance(value, dict):
        return leaves, {"dict": [[key, part] for key, part in zip(value, parts, strict=True)]}
    return leaves, {"tuple" if isinstance(value, tuple) else "list": parts}


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """Put the leaves back into the structure."""
    left = iter(leaves)
    if structure == LEAF:
        return next(left)
    kind, parts = next(iter(structure.items()))
    if kind == "dict":
        return {key: unflatten(part, left) for key, part in parts}
    items = [unflatten(part, left) for part in parts]
    return tuple(items) if kind == "tuple" else items


def count_leaves(structure: Any) -> int:
    """Number of arrays in a structure. Raises `ValueError` for anything else."""
    if structure == LEAF:
        return 1
    if isinstance(structure, dict) and len(structure) == 1:
        kind, parts = next(iter(structure.items()))
        if kind in ("tuple", "list"):
            return sum(map(count_leaves, parts))
        if kind == "dict" and all(isinstance(key, str) for key, _ in parts):
            return sum(count_leaves(part) for _, part in parts)
    raise ValueError(f"not a structure: {structure!r}")
