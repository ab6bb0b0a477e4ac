"""Rows of calls, loops, choices, reductions, windows, sorts and factorisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xbackend.bring.jax.arrays import ints
from xbackend.bring.stablehlo.arrays import given, joined_by
from xbackend.bring.stablehlo.known import argument_of, is_cumlogsumexp, keys_of, of_jax
from xbackend.bring.stablehlo.modules import dtype_of, is_made_by, shape_of, symbol
from xbackend.bring.stablehlo.walk import Frame, called, row
from xbackend.errors import GraphError


@row("call", attributes=("callee",))
def call(frame: Frame, operation: Any, values: list[Any]) -> Any:
    name = symbol(operation, "callee")
    function = of_jax(frame.module, name)
    return function(*values) if function else called(frame.module, name, values)


# Functions of `jax.lax` that JAX exports by name, with a decomposition to other ops.
_NAMED = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "digamma", "erf", "erf_inv", "erfc", "lgamma"),
    *("sinh", "tan"),
)
_COMPOSITE = ("name", "decomposition", "composite_attributes", "version")


@row("composite", attributes=_COMPOSITE)
def composite(frame: Frame, operation: Any, values: list[Any]) -> Any:
    dialect, _, name = symbol(operation, "name").rpartition(".")
    if dialect == "chlo" and name == "top_k":
        return frame.lax.top_k(values[0], shape_of(operation.results[0].type)[-1])
    if dialect == "chlo" and name in _NAMED:
        return getattr(frame.lax, name)(*values)
    return called(frame.module, symbol(operation, "decomposition"), values)


# --- loops and choices ------------------------------------------------------------------------------------------------


@row("while")
def loop(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """A loop that counts between known numbers is `lax.scan`, which has a gradient."""
    condition, body = (frame.region(operation, number) for number in (0, 1))
    steps = _steps(frame, operation)
    if steps is None:
        return frame.lax.while_loop(lambda state: condition(*state)[0], lambda state: body(*state), tuple(values))
    return frame.lax.scan(lambda state, _: (body(*state), None), tuple(values), None, length=steps)[0]


def _steps(frame: Frame, operation: Any) -> int | None:
    """The number of steps of a loop whose counter has a known initial value, grows by 1 in each step, and is less than
    a known number while the loop goes on; `None` for other loops."""
    (condition,), (body,) = (region.blocks for region in operation.regions)
    *_, end = condition.operations
    (going,) = end.operation.operands
    if not is_made_by(going, "compare") or "LT" not in str(going.owner.attributes["comparison_direction"]):
        return None
    counter, stop = going.owner.operands
    places = [place for place, one in enumerate(condition.arguments) if one == counter]
    if not places or "int" not in dtype_of(counter.type):
        return None
    *_, end = body.operations
    after, own = end.operation.operands[places[0]], body.arguments[places[0]]
    if not is_made_by(after, "add") or own not in list(after.owner.operands):
        return None
    first, second = after.owner.operands
    by, start = frame.known(second if first == own else first), frame.known(operation.operands[places[0]])
    last = frame.known(stop)
    if by is None or by != 1 or start is None or last is None:
        return None
    return max(int(last) - int(start), 0)


@row("case")
def case(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """An index without a branch chooses the last one."""
    (index,), last = values, len(operation.regions) - 1
    if isinstance(index, np.ndarray):
        return frame.region(operation, int(index) if 0 <= index <= last else last)()
    branches = [frame.region(operation, number) for number in range(last + 1)]
    if last <= 1:
        return frame.lax.cond(frame.lax.eq(index, np.int32(0)), branches[0], branches[last])
    outside = frame.lax.bitwise_or(frame.lax.lt(index, np.int32(0)), frame.lax.gt(index, np.int32(last)))
    return frame.lax.switch(frame.lax.select_n(outside, index, np.int32(last)), branches)


row("if")(lambda frame, operation, values: frame.lax.cond(*values, *(frame.region(operation, n) for n in (0, 1))))


# --- reductions -------------------------------------------------------------------------------------------------------

# By op: the function of `jax.lax` that joins two arrays, the reduction by it, and its neutral element.
_JOINS = {
    **{"add": ("add", "reduce_sum", 0), "multiply": ("mul", "reduce_prod", 1)},
    **{"maximum": ("max", "reduce_max", -np.inf), "minimum": ("min", "reduce_min", np.inf)},
    **{"and": ("bitwise_and", "reduce_and", True), "or": ("bitwise_or", "reduce_or", False)},
}


def _changes_nothing(value: Any, neutral: Any) -> bool:
    """Whether the initial value of a reduction is known to be the neutral element. True is none of ``and`` of
    integers."""
    if not isinstance(value, np.ndarray) or (isinstance(neutral, bool) and value.dtype.kind != "b"):
        return False
    if value.dtype.kind in "iu":
        neutral = min(max(neutral, np.iinfo(value.dtype).min), np.iinfo(value.dtype).max)
    elif value.dtype.kind == "b":
        neutral = neutral > 0
    return bool(value.item() == neutral)


def _with_beginning(frame: Frame, join: Callable[..., Any], begins: Any, made: Any) -> Any:
    """What was reduced, joined with the initial value."""
    return join(frame.lax.broadcast_in_dim(begins, made.shape, ()), made)


@row("reduce", attributes=("dimensions",))
def reduce(frame: Frame, operation: Any, values: list[Any]) -> Any:
    axes, joined = ints(operation.attributes["dimensions"]), joined_by(operation.regions[0])
    if len(values) == 2 and joined in _JOINS:
        join, reduction, neutral = _JOINS[joined]
        made = getattr(frame.lax, reduction)(values[0], axes)
        if _changes_nothing(values[1], neutral):
            return made
        return _with_beginning(frame, getattr(frame.lax, join), values[1], made)
    name = argument_of(frame.module, operation)
    if name:
        array, dtype = values[0], dtype_of(operation.results[1].type)
        reduction = "reduce_max" if name == "argmax" else "reduce_min"
        return [getattr(frame.lax, reduction)(array, axes), getattr(frame.lax, name)(array, axes[0], dtype)]
    count = len(values) // 2
    if len(axes) != 1 or not values[0].shape[axes[0]]:
        return frame.lacks(operation, "reduce by an own function", "write a sum, product, largest or smallest")
    function = _elementwise(frame, operation)
    running = frame.lax.associative_scan(function, values[:count], axis=axes[0])
    made = [frame.lax.index_in_dim(one, -1, axes[0], keepdims=False) for one in running]
    return function([frame.lax.broadcast_in_dim(one, made[0].shape, ()) for one in values[count:]], made)


def _elementwise(frame: Frame, operation: Any) -> Callable[[Any, Any], list[Any]]:
    """The region of a reduction as an elementwise function of arrays. StableHLO allows any order, and the initial
    value any number of times (https://openxla.org/stablehlo/spec#reduce): here it is joined once."""
    import jax

    def joined(first: Any, second: Any) -> list[Any]:
        function = frame.region(operation, 0)
        for _ in first[0].shape:
            function = jax.vmap(function)
        return list(function(*first, *second))

    return joined


_WINDOW = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
_RUNNING = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
_IDEMPOTENT = ("maximum", "minimum", "and", "or")
_OWN_WINDOW = ("reduce_window by an own function", "write a sum, largest or smallest")


@row("reduce_window", attributes=(*_WINDOW, "padding"))
def windows(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """As `jax.lax.cumsum` and its like, whose windows are as long as the axis, or as `jax.lax.reduce_window`."""
    joined, shape = joined_by(operation.regions[0]), shape_of(operation.operands[0].type)
    lengths, *others = (np.broadcast_to(given(operation, name, 1), len(shape)).tolist() for name in _WINDOW)
    around = np.broadcast_to(given(operation, "padding", 0), (len(shape), 2)).tolist()
    strides, spread, inside = others
    long = [axis for axis, n in enumerate(lengths) if n != 1]
    if (
        len(values) == 2
        and len(long) == 1
        and lengths[long[0]] == shape[long[0]]
        and all(one == [1] * len(shape) for one in others)
    ):
        (axis,), rest = long, shape[long[0]] - 1
        sides = {(rest, 0): False, (0, rest): True}
        pair, elsewhere = tuple(around[axis]), any(any(one) for a, one in enumerate(around) if a != axis)
        if pair in sides and not elsewhere:
            return _cumulative(frame, operation, values, axis, sides[pair])
    if joined not in _RUNNING or len(values) != 2:
        return frame.lacks(operation, *_OWN_WINDOW)
    pairs, join = [tuple(one) for one in around], getattr(frame.lax, _JOINS[joined][0])
    return frame.lax.reduce_window(values[0], values[1], join, lengths, strides, pairs, spread, inside)


def _cumulative(frame: Frame, operation: Any, values: list[Any], axis: int, reverse: bool) -> Any:
    """Windows that end at each element of an axis or, with ``reverse``, begin there: running results. XLA joins an
    initial value several times, so it has to be one that changes nothing, or nothing more the second time."""
    joined, (array, begins) = joined_by(operation.regions[0]), values
    if is_cumlogsumexp(frame.module, operation):
        return frame.lax.cumlogsumexp(array, axis=axis, reverse=reverse)
    if joined not in _JOINS:
        return frame.lacks(operation, *_OWN_WINDOW)
    name, _, neutral = _JOINS[joined]
    is_neutral, join = _changes_nothing(begins, neutral), getattr(frame.lax, name)
    if not is_neutral and joined not in _IDEMPOTENT:
        said = "begin a sum with 0 and a product with 1, and join the value after that"
        return frame.lacks(operation, f"reduce_window by {joined} from an initial value", said)
    if joined in _RUNNING and array.dtype != bool:
        made = getattr(frame.lax, _RUNNING[joined])(array, axis=axis, reverse=reverse)
    else:
        made = frame.lax.associative_scan(join, array, axis=axis, reverse=reverse)
    return made if is_neutral else _with_beginning(frame, join, begins, made)


@row("sort", attributes=("dimension", "is_stable"))
def sort(frame: Frame, operation: Any, values: list[Any]) -> Any:
    keys = keys_of(frame.module, operation)
    if not keys:
        return frame.lacks(operation, "sort by an own function", "sort by jnp.sort, jnp.argsort or lax.sort")
    axis = int(given(operation, "dimension", -1))
    return list(frame.lax.sort(tuple(values), dimension=axis, num_keys=keys))


# --- matrices ---------------------------------------------------------------------------------------------------------


@row("cholesky", attributes=("lower",))
def cholesky(frame: Frame, operation: Any, values: list[Any]) -> Any:
    if not given(operation, "lower", False):
        raise GraphError("the upper factor has no row: export the lower one, transposed")
    return frame.lax.linalg.cholesky(values[0], symmetrize_input=False)


@row("triangular_solve", attributes=("left_side", "lower", "unit_diagonal", "transpose_a"))
def triangular_solve(frame: Frame, operation: Any, values: list[Any]) -> Any:
    flags = {n: "true" in str(operation.attributes[n]) for n in ("left_side", "lower", "unit_diagonal")}
    transposed = "NO_TRANSPOSE" not in str(operation.attributes["transpose_a"])
    return frame.lax.linalg.triangular_solve(*values, transpose_a=transposed, **flags)


_CUSTOM = (
    *("call_target_name", "backend_config", "mhlo.backend_config", "api_version", "has_side_effect"),
    *("called_computations", "operand_layouts", "result_layouts", "output_operand_aliases"),
)


@row("custom_call", attributes=_CUSTOM)
def custom_call(frame: Frame, operation: Any, values: list[Any]) -> Any:
    """Functions of LAPACK as JAX calls them, and functions of `jax.lax` by name."""
    target = symbol(operation, "call_target_name")
    if target in ("Sharding", "annotate_device_placement"):
        return values
    dialect, _, name = target.rpartition(".")
    if dialect in ("mhlo", "chlo") and name in _NAMED:
        return getattr(frame.lax, name)(*values)
    linalg, routine = frame.lax.linalg, target.removeprefix("lapack_")[1:]
    if target.startswith("lapack_") and routine in _LAPACK and "mhlo.backend_config" in operation.attributes:
        config = operation.attributes["mhlo.backend_config"]
        flags = {one.name: chr(int(one.attr)) for one in config}
        return _LAPACK[routine](frame, linalg, values, flags)
    own = "write jnp.linalg.solve, inv, det, slogdet, or qr or svd of which every result is used"
    advice = own if target.startswith("lapack_") else ""
    return frame.lacks(operation, f"custom_call {target}", advice or "it is code outside of JAX: bring the function")


def _potrf(frame: Frame, linalg: Any, values: list[Any], flags: dict[str, str]) -> list[Any]:
    if flags["uplo"] != "L":
        raise GraphError("the upper factor has no row: export the lower one, transposed")
    factor = linalg.cholesky(values[0], symmetrize_input=False)
    return [factor, _fine(frame, factor)]


def _trsm(frame: Frame, linalg: Any, values: list[Any], flags: dict[str, str]) -> Any:
    return linalg.triangular_solve(
        *values,
        left_side=flags["side"] == "L",
        lower=flags["uplo"] == "L",
        transpose_a=flags["trans_x"] != "N",
        unit_diagonal=flags["diag"] == "U",
    )


def _syevd(frame: Frame, linalg: Any, values: list[Any], flags: dict[str, str]) -> list[Any]:
    vectors, numbers = linalg.eigh(values[0], lower=flags["uplo"] == "L", symmetrize_input=False)
    return [vectors, numbers, _fine(frame, vectors)]


def _fine(frame: Frame, matrix: Any) -> Any:
    """LAPACK's status of success: a program's ops give NaN where a factorisation fails."""
    return frame.lax.full(matrix.shape[:-2], 0, "int32")


_LAPACK = {"potrf_ffi": _potrf, "trsm_ffi": _trsm, "syevd_ffi": _syevd}
