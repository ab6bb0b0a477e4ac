"""Rules of the op table: the shape and dtype of results, and the number of operations.

A rule gets the op's name, the inputs' avals and the parameters. It returns the aval of the result, or a tuple of avals
for several results. `Op.takes` is checked before. Rules raise `ShapeError`, and `DTypeError` where `Op.takes` does not
suffice. Rules of linear algebra, sorting and convolution are in files of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from xbackend.errors import DTypeError, ShapeError
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType, as_dtype

Avals = Sequence[Aval]
Params = Mapping[str, Any]
Rule = Callable[[str, Avals, Params], Any]  # an Aval, or a tuple of them
Count = Callable[[Avals, Aval, Params], int]

_ALLOWED: dict[str, Callable[[DType], bool]] = {
    "numeric": lambda d: d.is_numeric,
    "signed": lambda d: d.is_numeric and not d.is_unsigned,
    "floating-point": lambda d: d.is_floating,
    "integer": lambda d: d.is_integer,
    "bool": lambda d: d is DType.bool,
    "any": lambda d: True,
}


def require(name: str, avals: Avals, kind: str) -> None:
    """Raises `DTypeError` unless all have the same dtype, of this kind."""
    for aval in avals:
        if not _ALLOWED[kind](aval.dtype):
            kind = "numeric" if kind == "signed" else kind  # users may have unsigned integers: `Op.widened`
            raise DTypeError(f"{name} takes {kind} arrays, not {aval.dtype}; convert with xb.astype")
    if len({a.dtype for a in avals}) > 1:
        raise DTypeError(f"{name} has inputs of different dtypes {', '.join(a.dtype for a in avals)}")


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which the shapes broadcast. Raises `ShapeError`.

    https://data-apis.org/array-api/2025.12/API_specification/broadcasting.html
    """
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for axis, length in enumerate(shape, offset):
            if length != 1:
                if result[axis] not in (1, length):
                    raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
                result[axis] = length
    return tuple(result)


def broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another one."""
    try:
        return broadcast_shapes(shape, target) == target
    except ShapeError:
        return False


# --- numbers of operations --------------------------------------------------------------------------------------------


def each_result(avals: Avals, out: Aval, params: Params) -> int:
    """One for each element of the result."""
    return out.size


def each_input(avals: Avals, out: Aval, params: Params) -> int:
    """One for each element of the first input."""
    return avals[0].size


def each_added(avals: Avals, out: Aval, params: Params) -> int:
    """One for each element of the last input."""
    return avals[-1].size


def free(avals: Avals, out: Aval, params: Params) -> int:
    """None."""
    return 0


def matmul_count(avals: Avals, out: Aval, params: Params) -> int:
    """One multiplication and one addition for each term of each inner product."""
    return 2 * out.size * avals[0].shape[-1]


def all_reduce_count(avals: Avals, out: Aval, params: Params) -> int:
    """The additions, and the multiplications by the shares."""
    return out.size * (len(avals) - 1 + (len(avals) if params["shares"] else 0))


def each_step(avals: Avals, out: Aval, params: Params) -> int:
    """The operations of the body, for each step."""
    return int(params["length"] * params["body"].operations.total)


def dearer(avals: Avals, out: Aval, params: Params) -> int:
    """The operations of the more expensive branch."""
    return max(int(params[branch].operations.total) for branch in ("then", "otherwise"))


# --- elementwise ops, reductions, products ----------------------------------------------------------------------------


def elementwise(name: str, avals: Avals, params: Params) -> Aval:
    return Aval(broadcast_shapes(*(a.shape for a in avals)), avals[0].dtype)


def predicate(name: str, avals: Avals, params: Params) -> Aval:
    return Aval(broadcast_shapes(*(a.shape for a in avals)), DType.bool)


def where(name: str, avals: Avals, params: Params) -> Aval:
    require(name, avals[:1], "bool")
    require(name, avals[1:], "any")
    return Aval(broadcast_shapes(*(a.shape for a in avals)), avals[1].dtype)


def reduction(name: str, avals: Avals, params: Params) -> Aval:
    return Aval(tuple(n for a, n in enumerate(avals[0].shape) if a not in params["axis"]), avals[0].dtype)


def extremum(name: str, avals: Avals, params: Params) -> Aval:
    _not_empty(name, avals[0].shape, params["axis"])
    return reduction(name, avals, params)


def position(name: str, avals: Avals, params: Params) -> Aval:
    shape, axis = avals[0].shape, params["axis"]
    _not_empty(name, shape, (axis,), axis)
    return Aval(shape[:axis] + shape[axis + 1 :], DType.int64)


def _not_empty(name: str, shape: tuple[int, ...], axes: Sequence[int], said: Any = None) -> None:
    if any(shape[a] == 0 for a in axes):
        along = axes if said is None else said
        raise ShapeError(f"{name} of no elements: shape {shape} has length 0 along axis {along}")


def matmul(name: str, avals: Avals, params: Params) -> Aval:
    a, b = avals
    if len(a.shape) < 2 or len(a.shape) != len(b.shape) or a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: ranks and leading axes must be equal")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"matmul of shapes {a.shape} and {b.shape}: {a.shape[-1]} columns on the left, {b.shape[-2]} rows on the "
            "right"
        )
    return Aval((*a.shape[:-1], b.shape[-1]), a.dtype)


# --- moving elements --------------------------------------------------------------------------------------------------


def reshape(name: str, avals: Avals, params: Params) -> Aval:
    shape = tuple(params["shape"])
    if prod(shape) != avals[0].size:
        raise ShapeError(f"cannot reshape {avals[0].shape} ({avals[0].size} elements) to {shape} ({prod(shape)})")
    return Aval(shape, avals[0].dtype)


def permute_dims(name: str, avals: Avals, params: Params) -> Aval:
    shape, axes = avals[0].shape, tuple(params["axes"])
    if sorted(axes) != list(range(len(shape))):
        raise ShapeError(f"axes {axes} are no permutation of the {len(shape)} axes of shape {shape}")
    return Aval(tuple(shape[a] for a in axes), avals[0].dtype)


def broadcast_to(name: str, avals: Avals, params: Params) -> Aval:
    shape = tuple(params["shape"])
    if not broadcasts(avals[0].shape, shape):
        raise ShapeError(f"shape {avals[0].shape} does not broadcast to {shape}")
    return Aval(shape, avals[0].dtype)


def concat(name: str, avals: Avals, params: Params) -> Aval:
    axis, first = params["axis"], avals[0]
    for other in avals[1:]:
        if len(other.shape) != len(first.shape) or any(
            n != m for a, (n, m) in enumerate(zip(first.shape, other.shape, strict=True)) if a != axis
        ):
            raise ShapeError(f"concat of shapes {first.shape} and {other.shape}: they differ beside axis {axis}")
    length = sum(a.shape[axis] for a in avals)
    return Aval((*first.shape[:axis], length, *first.shape[axis + 1 :]), first.dtype)


def stack(name: str, avals: Avals, params: Params) -> Aval:
    axis, first = params["axis"], avals[0]
    if any(other.shape != first.shape for other in avals):
        raise ShapeError(f"stack of arrays of different shapes {', '.join(str(a.shape) for a in avals)}")
    return Aval((*first.shape[:axis], len(avals), *first.shape[axis:]), first.dtype)


def slice_lengths(params: Params) -> tuple[int, ...]:
    """Length of every axis after a `slice` op."""
    return tuple(
        len(range(start, stop if stop is not None else -1, step))
        for start, stop, step in zip(params["starts"], params["stops"], params["steps"], strict=True)
    )


def slice_(name: str, avals: Avals, params: Params) -> Aval:
    """`slice`, or the part that `slice_set` and `slice_add` write to; a slice drops axes that have an integer index."""
    shape = avals[0].shape
    if not len(params["starts"]) == len(params["stops"]) == len(params["steps"]) == len(shape):
        raise ShapeError(f"slice of shape {shape} needs {len(shape)} starts, stops and steps")
    lengths = slice_lengths(params)
    for n, start, step, length in zip(shape, params["starts"], params["steps"], lengths, strict=True):
        if length and not (0 <= start < n and 0 <= start + (length - 1) * step < n):
            raise ShapeError(f"slice reaches outside of shape {shape}")
    drop = params.get("drop", ())
    if any(not 0 <= axis < len(shape) or lengths[axis] != 1 for axis in drop):
        raise ShapeError(f"slice of shape {shape} to {lengths} drops the axes {drop}; each has to have length 1")
    return Aval(tuple(n for axis, n in enumerate(lengths) if axis not in drop), avals[0].dtype)


def _check_taken(name: str, shape: tuple[int, ...], indices: Aval, axis: int) -> None:
    if not indices.dtype.is_integer or indices.dtype.is_unsigned:
        raise DTypeError(f"{name} has indices of {indices.dtype}; they are int32 or int64")
    if indices.size and not shape[axis]:
        raise ShapeError(f"{name} from no elements: shape {shape} has length 0 along axis {axis}")


def take(name: str, avals: Avals, params: Params) -> Aval:
    (shape, dtype), indices, axis = *avals[:2], params["axis"]
    _check_taken("take", shape, indices, axis)
    return Aval((*shape[:axis], *indices.shape, *shape[axis + 1 :]), dtype)


def take_along_axis(name: str, avals: Avals, params: Params) -> Aval:
    x, indices = avals
    axis = params["axis"]
    _check_taken(name, x.shape, indices, axis)
    beside = [(*a.shape[:axis], *a.shape[axis + 1 :]) for a in avals]
    if len(x.shape) != len(indices.shape) or beside[0] != beside[1]:
        raise ShapeError(f"take_along_axis of shapes {x.shape} and {indices.shape}: they differ beside axis {axis}")
    return Aval(indices.shape, x.dtype)


def written(read: Rule) -> Rule:
    """The rule of an op that writes where ``read`` reads."""

    def rule(name: str, avals: Avals, params: Params) -> Aval:
        there, value = read(name, avals[:-1], params), avals[-1]
        if value != there:
            raise ShapeError(f"{value} cannot be written in the place of {there}")
        return avals[0]

    return rule


def astype(name: str, avals: Avals, params: Params) -> Aval:
    return Aval(avals[0].shape, DType(params["dtype"]))


def same(name: str, avals: Avals, params: Params) -> Aval:
    return avals[0]


def all_reduce(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    shares, first = params["shares"], avals[0]
    require(name, avals, "floating-point" if shares else "signed")
    if params["tasks"] < 1:
        raise ShapeError(f"all_reduce over {params['tasks']} tasks: there is one at least")
    if any(aval.shape != first.shape for aval in avals) or len(shares) not in (0, len(avals)):
        raise ShapeError(f"all_reduce of {', '.join(map(str, avals))}: they are alike, with a share for each or none")
    return tuple(avals)


# --- sources and gradients --------------------------------------------------------------------------------------------


def declared(name: str, avals: Avals, params: Params) -> Aval:
    return Aval(tuple(params["shape"]), DType(params["dtype"]))


def constant(name: str, avals: Avals, params: Params) -> Aval:
    return Aval(tuple(params["value"].shape), as_dtype(params["value"].dtype))


def gradients(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    loss, *wrt = avals
    if loss.shape != () or not loss.dtype.is_floating:
        raise ShapeError(f"the gradient is taken of a floating-point scalar, not of {loss}")
    for one in wrt:
        if not one.dtype.is_floating:
            raise DTypeError(f"no gradient with respect to {one}: only floating-point arrays have one")
    return tuple(wrt)


# --- loops and choices ------------------------------------------------------------------------------------------------


def _takes(name: str, body: Any, avals: Avals) -> list[Aval]:
    """The results of a body. Raises `ShapeError` unless its inputs have these shapes and dtypes."""
    inputs = [body.values[i].aval for i in body.inputs]
    if inputs != list(avals):
        raise ShapeError(f"{name} gives its body {', '.join(map(str, avals))}; it takes {', '.join(map(str, inputs))}")
    return [body.values[i].aval for i in body.outputs]


def _keeps(name: str, before: Avals, after: Avals) -> None:
    if list(before) != list(after):
        raise ShapeError(
            f"{name} begins with {', '.join(map(str, before))} and goes on with {', '.join(map(str, after))}"
        )


def scan(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    carries, length = params["carries"], params["length"]
    init, xs, closed = avals[:carries], avals[carries:][: params["sequences"]], avals[carries + params["sequences"] :]
    if length < 1 or any(x.shape[:1] != (length,) for x in xs):
        raise ShapeError(f"scan of {length} steps over {', '.join(map(str, xs))}")
    made = _takes(name, params["body"], [*init, *(Aval(x.shape[1:], x.dtype) for x in xs), *closed])
    _keeps(name, init, made[:carries])
    return (*init, *(Aval((length, *y.shape), y.dtype) for y in made[carries:]))


def while_loop(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    state = avals[: params["carries"]]
    if _takes(name, params["condition"], avals) != [Aval((), DType.bool)]:
        raise ShapeError("the condition of while_loop is one bool")
    _keeps(name, state, _takes(name, params["body"], avals))
    return tuple(state)


def cond(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    if avals[0] != Aval((), DType.bool):
        raise ShapeError(f"cond chooses by {avals[0]}; it is one bool")
    then, otherwise = (_takes(name, params[branch], avals[1:]) for branch in ("then", "otherwise"))
    _keeps(name, then, otherwise)
    return tuple(then)
