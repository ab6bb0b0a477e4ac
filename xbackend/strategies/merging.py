"""Merging of the results of replicas: concatenation, mean or sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from xbackend.api.functions.elementwise import add, multiply
from xbackend.api.functions.manipulation import concat
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.tracer import Tracer
from xbackend.errors import ArgumentError, DTypeError, ShapeError, TraceError
from xbackend.program import structure


def check_merge(merge: Any) -> None:
    """Raises `ArgumentError` for an unknown merge, alone or in a structure."""
    kinds, _ = structure.flatten(merge, lambda kind: kind)
    for kind in kinds:
        if not isinstance(kind, str) or kind not in MERGES:
            raise ArgumentError(
                f"merge={merge!r:.80}: {kind!r:.40} is none of {', '.join(map(repr, MERGES))}, alone or in the form of "
                "the function's results"
            )


def merge_results(tracer: Tracer, results: Sequence[Any], sizes: Sequence[int], merge: Any, axis: int) -> Any:
    """One result, in the structure of each replica's. ``sizes`` are the rows of each replica.

    Raises `TraceError` if the replicas' structures differ, `ArgumentError` if ``merge`` has another structure,
    `ShapeError` and `DTypeError` if results cannot be merged.
    """
    flat = [structure.flatten(result, lambda value: _leaf(tracer, value)) for result in results]
    form = flat[0][1]
    for number, (_, other) in enumerate(flat):
        if other != form:
            raise TraceError(f"the results of replica {number} have the form {other}, those of replica 0 {form}")
    kinds = _kinds(merge, form)
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    merged = [MERGES[kind](list(parts), sizes, axis) for kind, parts in zip(kinds, columns, strict=True)]
    return structure.unflatten(form, merged)


def _leaf(tracer: Tracer, value: Any) -> Array:
    if value is None:
        raise TraceError("the replicated function returns None; return the arrays that are to be merged")
    return tracer.array(value)


def _kinds(merge: Any, form: Any) -> list[str]:
    """How each array of a structure is merged. One word stands for all arrays below it."""
    if isinstance(merge, str):
        return [merge] * structure.count_leaves(form)
    parts = next(iter(form.values())) if isinstance(form, dict) else None
    if isinstance(merge, dict) and parts is not None and "dict" in form and set(merge) == {key for key, _ in parts}:
        return [kind for key, part in parts for kind in _kinds(merge[key], part)]
    if isinstance(merge, tuple | list) and parts is not None and "dict" not in form and len(merge) == len(parts):
        return [kind for inner, part in zip(merge, parts, strict=True) for kind in _kinds(inner, part)]
    raise ArgumentError(
        f"merge={merge!r:.80} has not the form of the results, which is {form}; give one word for all, or one for each"
    )


def _concatenated(parts: list[Array], sizes: Sequence[int], axis: int) -> Array:
    first = parts[0]
    shapes = ", ".join(str(part.shape) for part in parts)
    if not -first.ndim <= axis < first.ndim:
        raise ShapeError(
            f"the replicas' results of shapes {shapes} cannot be concatenated: they have no axis {axis}; "
            "choose another axis, or merge='mean' or 'sum'"
        )
    number = axis % first.ndim
    if len({(*part.shape[:number], *part.shape[number + 1 :]) for part in parts}) > 1:
        raise ShapeError(
            f"the replicas' results of shapes {shapes} cannot be concatenated along axis {axis}: they differ beside it"
        )
    return concat(parts, axis=axis)


def _averaged(parts: list[Array], sizes: Sequence[int], axis: int) -> Array:
    _alike(parts, "averaged", "floating-point", parts[0].dtype.is_floating)
    return weighted(parts, sizes)


def weighted(parts: Sequence[Array], sizes: Sequence[int]) -> Array:
    """The mean over all rows from the means v_i over the n_i rows of each part: sum(n_i v_i) / sum(n_i)."""
    rows = sum(sizes)
    return reduce(add, [multiply(part, size / rows) for part, size in zip(parts, sizes, strict=True)])


def _summed(parts: list[Array], sizes: Sequence[int], axis: int) -> Array:
    _alike(parts, "summed", "numeric", parts[0].dtype.is_numeric)
    return reduce(add, parts)


def _alike(parts: list[Array], verb: str, kinds: str, allowed: bool) -> None:
    """Refuse different shapes: the sum of broadcast replicas would mean nothing."""
    if not allowed:
        raise DTypeError(f"the replicas' results are {parts[0].dtype} and cannot be {verb}; only {kinds} ones can")
    if len({part.shape for part in parts}) > 1:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ShapeError(f"the replicas' results of shapes {shapes} cannot be {verb}: their shapes differ")


MERGES: dict[str, Callable[[list[Array], Sequence[int], int], Array]] = {
    "concat": _concatenated,
    "mean": _averaged,
    "sum": _summed,
}
