"""The checks of every op with each of its dtypes, in a few batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from batches import Batch, Check, in_turns
from core import is_core
from linear_algebra import batches as of_linear_algebra
from strategies import ELEMENTWISE, FLOATING, SIGNED, TAKES
from tolerances import Rule
from unsigned import batches as of_unsigned

import xbackend as xb
from xbackend.program.dtypes import DType, promote
from xbackend.program.ops import OPS

nan, inf = np.nan, np.inf

# The standard leaves these open, so they are not tested: division of integers by zero, negative exponents of integers,
# NaN or infinities to integers.
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, -3.75, 1e-8, 100.0, -80.0, inf, -inf, nan)
BASES = (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -2.5, inf, -inf, nan)
EXPONENTS = (0.0, -0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, -0.5, inf, -inf)
GAMMAS = (0.1, 0.5, 1.5, 2.5, 30.0, -0.5, -2.5, -3.75, inf, nan)
DIVIDENDS = (0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, 1e-3, nan)
DIVISORS = (1.0, -1.0, 2.0, -2.0, 0.75, -0.75, nan)
DIVIDENDS_WITH_ALL = (*DIVIDENDS, -0.0, inf, -inf)
DIVISORS_WITH_ALL = (*DIVISORS, 0.0, -0.0, inf, -inf)
INTEGERS = (0, 1, -1, 2, -2, 7, -7, 100, -12345)
WIDE = {DType.int32: (2**30, -(2**30)), DType.int64: (2**53 + 1, 2**53, -(2**40))}
SMALL = {DType.int32: (), DType.int64: (2**31 + 1, -(2**31) - 1)}


def operands(op: str, dtype: DType) -> tuple[np.ndarray, ...]:
    """Edge values: one array for ops of one array; for ops of two, two that broadcast to all pairs."""
    first: tuple[Any, ...] = FLOATS
    second: tuple[Any, ...] = FLOATS
    if dtype is DType.bool:
        first = second = (False, True)
    elif dtype.is_integer:
        first = second = INTEGERS + (SMALL[dtype] if op in ("multiply", "square") else WIDE[dtype])
        if op in ("floor_divide", "remainder"):
            second = tuple(n for n in second if n)
        elif op == "pow":
            first, second = INTEGERS[:-1], (0, 1, 2, 3)
    elif op in ("floor_divide", "remainder"):
        first, second = DIVIDENDS, DIVISORS
    elif op == "pow":
        first, second = BASES, EXPONENTS
    elif op == "digamma":
        first = GAMMAS
    elif op == "gammaln":
        first = (0.0, *GAMMAS)
    if OPS[op].arity == 1:
        return (array(first, dtype),)
    return array(first, dtype)[:, None], array(second, dtype)


_made: dict[tuple[Any, ...], np.ndarray] = {}


# If a result is near 0, the frameworks are right only to the last digits of 1.
RULES: dict[str, Rule] = dict.fromkeys(("erf", "erfc", "erfinv", "gammaln", "digamma", "expit"), "array")
# XLA's CPU code adds four million float32 one by one, and loses half of the digits near a branch point.
LOOSE = {"float32": 5e-3, "float64": 1e-7}


def array(numbers: tuple[Any, ...], dtype: DType) -> np.ndarray:
    """The numbers as an array, the same object each time: checks share their arguments."""
    key = (repr(numbers), dtype)
    return _made.setdefault(key, np.array(numbers, dtype.value))


def elementwise() -> list[Batch]:
    def checks(dtype: DType) -> list[Check]:
        ops = [op for op in ELEMENTWISE if dtype in TAKES[op]]
        found = [Check(f"{op}-{dtype}", getattr(xb, op), operands(op, dtype), RULES.get(op, "element")) for op in ops]
        if dtype.is_integer:
            found.append(overflow(dtype))
            # The smallest integer has no negative, by which some divide.
            least, most = np.iinfo(dtype.value).min, np.iinfo(dtype.value).max
            pair = array((least, least + 1, 0, most), dtype)[:, None], array((1, 2, -2, 7, -7, most, least), dtype)
            divisions = ("floor_divide", "remainder")
            found += [Check(f"{op}_of_the_smallest-{dtype}", getattr(xb, op), pair) for op in divisions]
            found.append(Check(f"min_and_1-{dtype}", lambda x: xb.min(x) + 1, (pair[1],)))
        if dtype is DType.bool or dtype.is_integer:
            # A constant with more elements than the other argument: all of the result is kept.
            one = array((True,) if dtype is DType.bool else (5,), dtype)
            found.append(Check(f"constants_with_more_elements-{dtype}", beside_constants, (one,)))
        if dtype.is_floating:
            # Quotients that round to integers.
            pair = array((1.0, -1.0, 0.3, -0.7, 7.0), dtype)[:, None], array((0.1, 0.2, -0.1, 2.0), dtype)
            found.append(Check(f"floor_divide_inexact-{dtype}", xb.floor_divide, pair))
            x = array((-2.0, -0.5, 0.0, 1.0), dtype)
            found.append(Check(f"acosh_of_cosh-{dtype}", lambda x: xb.acosh(xb.cosh(x)), (x,), limits=LOOSE))
            found.append(Check(f"log_near_log1p-{dtype}", lambda x: xb.log(x + 1.000005), (x[2:],), limits=LOOSE))
            found.append(Check(f"summed-{dtype}", summed, (array((0.4, 1.5, 2.3), dtype),)))
        if dtype is DType.int64:
            x, n = array((1, 3, -7), dtype), array((39, 22, 5), dtype)
            found.append(Check(f"pow_beyond_53_bits-{dtype}", xb.pow, (array((3, -7, 5), dtype), n)))
            found.append(Check(f"multiply_by_a_large_number-{dtype}", lambda x: x * (2**53 + 1), (x,)))
            found.append(Check(f"multiply_by_two_numbers-{dtype}", lambda x: x * (2**27 + 1) * (2**27 + 3), (x,)))
        return found

    return [Batch(f"elementwise-{dtype}", tuple(shared_columns(checks(dtype)))) for dtype in SIGNED]


def summed(x: Any) -> Any:
    """Sums of functions that Numba computes in double precision for every dtype, and of their gradients."""
    functions = (xb.round, xb.reciprocal, xb.expit, xb.digamma)
    sums = [xb.sum(function(x)) for function in functions]
    return xb.stack([*sums, *(xb.sum(xb.grad(each, x)) for each in sums[1:])])


def beside_constants(x: Any) -> Any:
    """A number beside constant arrays of three, for which compilers know the result."""
    and_, or_ = (xb.logical_and, xb.logical_or) if x.dtype is xb.bool else (xb.bitwise_and, xb.bitwise_or)
    constants = xb.zeros(3, dtype=x.dtype), xb.ones(3, dtype=x.dtype)
    return xb.stack([function(*pair) for c in constants for pair in ((c, x), (x, c)) for function in (and_, or_)])


def overflow(dtype: DType) -> Check:
    """Integers wrap. No compiler may infer anything from their sign."""
    most = int(np.iinfo(dtype.value).max)

    def results(x: Any) -> Any:
        squares = x * x
        found = [xb.abs(squares), xb.abs(x) * xb.abs(x - 1), x * 2 // 2, xb.maximum(x, x + 1), xb.abs(x) % 7]
        running = [f(x, dtype=dtype) for f in (xb.cumulative_sum, xb.cumulative_prod)]
        truths = [squares < 0, x + 1 > x, xb.abs(x) >= 0, *(each >= 0 for each in running)]
        return xb.stack([*found, *running, *(xb.astype(truth, dtype) for truth in truths)])

    return Check(f"overflow-{dtype}", results, (array((int(most**0.5) + 1, most, -most - 1, -3), dtype),))


def shared_columns(checks: list[Check]) -> list[Check]:
    """The checks with one array object for all equal arguments."""
    seen: dict[Any, np.ndarray] = {}

    def same(a: np.ndarray) -> np.ndarray:
        return seen.setdefault((a.shape, a.dtype, a.tobytes()), a)

    return [Check(c.label, c.function, tuple(map(same, c.arguments)), c.rule, c.limits) for c in checks]


# Every op meets every dtype. Its variants meet only these, as each is compiled anew.
THOROUGH = (DType.float64,)


def sample(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Different numbers of both signs; integers repeat, and half of the booleans are true."""
    rng = np.random.default_rng(seed)
    if dtype is DType.bool:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return rng.integers(-4, 5, shape).astype(dtype.value)
    return rng.uniform(-2.0, 2.0, shape).astype(dtype.value)


def reduction(op: str, where: str, x: np.ndarray, rule: Rule = "array", **keywords: Any) -> Check:
    function: Callable[..., Any] = getattr(xb, op)
    return Check(f"{op}-{where}-{x.dtype}", lambda x: function(x, **keywords), (x,), rule)


def reductions_of(op: str, dtype: DType) -> list[Check]:
    x, empty, scalar = sample(dtype, (2, 3, 4)), sample(dtype, (0, 3)), sample(dtype, (), 1)
    special = np.array([[1, nan, 3], [inf, 2, -inf], [-inf, 1, 0]], dtype.value) if dtype.is_floating else x[0]
    rule: Rule = "array" if op in ("sum", "prod", "mean") else "bits"
    of_nothing = op not in ("max", "min")
    checks = [
        reduction(op, "axes_0_and_-1_kept", x, rule, axis=(-1, 0), keepdims=True),
        reduction(op, "special", special, rule, axis=0),
    ]
    if of_nothing:
        checks.append(reduction(op, "nothing", empty, rule))
    if dtype in THOROUGH or (op in ("any", "all") and dtype is DType.bool):
        checks += [
            reduction(op, "all_axes", x, rule),
            reduction(op, "axis_1", x, rule, axis=1),
            reduction(op, "no_axes", x, rule, axis=()),
            reduction(op, "scalar", scalar, rule),
            reduction(op, "empty_along_the_other_axis", empty, rule, axis=1),
        ]
        if of_nothing:
            checks.append(reduction(op, "nothing_axis_0", empty, rule, axis=0))
    return checks


def positions_of(op: str, dtype: DType) -> list[Check]:
    x = sample(dtype, (2, 3, 4))
    checks = [
        reduction(op, "flat", x, "bits"),
        reduction(op, "ties", np.zeros((2, 3), dtype.value), "bits", axis=1),
    ]
    if dtype in THOROUGH:
        checks += [
            reduction(op, "axis_0", x, "bits", axis=0),
            reduction(op, "axis_-1_kept", x, "bits", axis=-1, keepdims=True),
            reduction(op, "empty_along_the_other_axis", sample(dtype, (0, 3)), "bits", axis=1),
        ]
    return checks


def reductions() -> list[Batch]:
    batches = []
    for dtype in SIGNED:
        x, empty, large = sample(dtype, (2, 3, 4)), sample(dtype, (0, 3)), np.full((5,), 2**30, dtype.value)
        checks: list[Check] = []
        for op in ("sum", "prod", "mean", "max", "min", "any", "all"):
            if dtype in TAKES[op] or op in ("any", "all"):
                checks += reductions_of(op, dtype)
        if dtype.is_numeric:
            checks += [*positions_of("argmax", dtype), *positions_of("argmin", dtype)]
            checks.append(reduction("cumulative_sum", "axis_0", x, axis=0))
            checks.append(reduction("cumulative_sum", "axis_-1_from_0", x, axis=-1, include_initial=True))
            checks.append(reduction("cumulative_sum", "empty", empty, axis=0))
        if dtype.is_integer:
            for op in ("sum", "cumulative_sum", "prod"):
                checks.append(reduction(op, "beyond_32_bits", large[:2] if op == "prod" else large, axis=0))
                checks.append(reduction(op, "in_its_own_dtype", x, axis=1, dtype=dtype))
        if dtype.is_floating:
            half = sample(dtype, (2, 3))
            checks.append(Check(f"prod-of_a_multiple-{dtype}", lambda x: xb.prod(x * 0.5, axis=0), (half,)))
            many = np.full((2**22,), 0.1, dtype.value)
            checks.append(Check(f"mean-of_many-{dtype}", xb.mean, (many,), limits=LOOSE))
            checks += [reduction("var", "axis_1", x, axis=1, correction=1), reduction("std", "all_axes", x)]
        batches.append(Batch(f"reductions-{dtype}", tuple(shared_columns(checks))))
    return batches


SLICES: dict[str, Any] = {
    "integer": np.s_[1],
    "last": np.s_[..., -1],
    "all_integers": np.s_[1, 2, 3],
    "range": np.s_[:, 1:3],
    "step_2": np.s_[:, ::2, 1::2],
    "reversed": np.s_[::-1],
    "step_-2": np.s_[:, :, ::-2],
    "step_-1_part": np.s_[:, 2:0:-1, 3:1:-1],
    "step_-1_to_the_front": np.s_[:, 1::-1],
    "beyond_the_end": np.s_[0:9, -9:2],
    "nothing": np.s_[:, 2:1],
    "new_axes": np.s_[None, :, 0, None, ::3],
    "everything": np.s_[...],
}


MOVING_OF_ALL = frozenset(
    {"identity", "reshape", "permute_dims", "broadcast_to", "broadcast_to_nothing", "squeeze", "concat", "stack"}
    | {"concat_with_nothing", "where", "slice_step_-2", "slice_step_-1_part", "slice_new_axes", "slice_empty"}
    | {"slice_nothing", "diagonal"}
)
PRODUCTS_OF_ALL = frozenset(
    {"matmul", "matmul_stacks", "matmul_of_nothing", "matmul_special", "matrix_power_5"}
    | {"matmul_beyond_24_bits", "matmul_beyond_32_bits", "matmul_beyond_53_bits"}
    | {"matmul_large_row", "matmul_large_column", "matmul_large_rows"}
)


def moving() -> list[Batch]:
    batches = []
    for dtype in SIGNED:
        x, row, empty = sample(dtype, (2, 3, 4)), sample(dtype, (4,), 2), sample(dtype, (0, 2), 1)
        scalar = sample(dtype, (), 3)
        if dtype.is_floating:
            x.flat[:4] = (nan, -0.0, inf, -inf)
        mask = sample(DType.bool, (2, 3, 1), 5)
        functions: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
            "identity": (lambda x: x, (x,)),
            "identity_scalar": (lambda x: x, (scalar,)),
            "reshape": (lambda x: xb.reshape(x, (4, -1)), (x,)),
            "reshape_scalar": (lambda x: xb.reshape(x, (1, 1)), (scalar,)),
            "reshape_to_scalar": (lambda x: xb.reshape(x[:1], ()), (row,)),
            "reshape_empty": (lambda x: xb.reshape(x, (3, 0, 5)), (empty,)),
            "permute_dims": (lambda x: xb.permute_dims(x, (2, 0, 1)), (x,)),
            "permute_dims_scalar": (lambda x: xb.permute_dims(x, ()), (scalar,)),
            "permute_dims_then_reshape": (lambda x: xb.reshape(xb.permute_dims(x, (2, 0, 1)), (-1,)), (x,)),
            "matrix_transpose": (xb.matrix_transpose, (x,)),
            "broadcast_to": (lambda x: xb.broadcast_to(x, (2, 3, 4)), (row,)),
            "broadcast_to_scalar": (lambda x: xb.broadcast_to(x, (2, 2)), (scalar,)),
            "broadcast_to_nothing": (lambda x: xb.broadcast_to(x, (0, 4)), (row,)),
            "expand_dims": (lambda x: xb.expand_dims(x, axis=-1), (row,)),
            "squeeze": (lambda x: xb.squeeze(x[:, :1, :1], axis=(1, 2)), (x,)),
            "concat": (lambda x: xb.concat([x, x[:, :1], x[:, ::-1]], axis=1), (x,)),
            "concat_one": (lambda x: xb.concat([x], axis=0), (row,)),
            "concat_flat": (lambda x, y: xb.concat([x, y], axis=None), (x, row)),
            "concat_empty": (lambda x: xb.concat([x, x], axis=0), (empty,)),
            "concat_with_nothing": (lambda x: xb.concat([x[:0], x, x[:0]], axis=0), (row,)),
            "stack": (lambda x: xb.stack([x, x[::-1]], axis=1), (row,)),
            "stack_scalars": (lambda x, y: xb.stack([x, y[0]]), (scalar, row)),
            "where": (xb.where, (mask, x, row)),
            "where_scalar": (lambda m, x: xb.where(m, x, xb.zeros_like(x)), (mask, scalar)),
            "where_empty": (lambda x: xb.where(xb.isnan(xb.astype(x, xb.float64)), x, x), (empty,)),
            **{f"slice_{k}": (lambda x, key=key: x[key], (x,)) for k, key in SLICES.items()},
            "slice_empty": (lambda x: x[::-1, :1], (empty,)),
            "slice_of_slice": (lambda x: x[:, ::-1][1:, 1:][..., ::-2], (x,)),
            "diagonal": (xb.linalg.diagonal, (x[0],)),
            "diagonal_above": (lambda x: xb.linalg.diagonal(x, offset=2), (x,)),
            "diagonal_below": (lambda x: xb.linalg.diagonal(x, offset=-1), (x,)),
            "diagonal_of_nothing": (lambda x: xb.linalg.diagonal(x, offset=9), (x,)),
            "slice_of_steps": (lambda x: x[..., 1:][..., ::2][:, 0], (x,)),
        }
        if dtype not in THOROUGH:
            functions = {label: row for label, row in functions.items() if label in MOVING_OF_ALL}
        checks = [Check(f"{label}-{dtype}", f, arrays, "bits") for label, (f, arrays) in functions.items()]
        batches.append(Batch(f"moving-{dtype}", tuple(shared_columns(checks))))
    return batches


def indexing() -> list[Batch]:
    """Reading and writing by arrays of integers, constant or not, and writing by slices."""
    batches = []
    for dtype in SIGNED:
        x, row = sample(dtype, (4, 3, 5)), sample(dtype, (5,), 2)
        part, plane = sample(dtype, (2, 3, 2), 3), sample(dtype, (2, 3, 5), 4)
        some, grid = np.array([3, 0, -1, 3]), np.array([[0, 2, 1], [-1, 0, 0]], np.int32)
        along = np.array([[[0, -1, 2]], [[1, 1, 0]], [[2, 0, 0]], [[-3, 2, 1]]])
        functions: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
            "take": (lambda x, i: xb.take(x, i, axis=0), (x, some)),
            "take_inside": (lambda x, i: xb.take(x, i, axis=1), (x, grid)),
            "take_known": (lambda x: x[:, [2, 0, 0, -1]], (x,)),
            "take_of_vector": (xb.take, (row, some)),
            "take_one": (lambda x: xb.take(x, 2, axis=2), (x,)),
            "take_nothing": (lambda x: x[np.zeros((0, 2), int)], (x,)),
            "take_of_a_slice": (lambda x, i: x[::-1, 0, i], (x, some)),
            "take_two": (lambda x, i, j: x[i, j], (x, np.array([[3], [-1]]), np.array([0, 2, -1]))),
            "take_along_axis": (lambda x, i: xb.take_along_axis(x, i, axis=1), (x, np.swapaxes(along, 1, 2)[:, :, :1])),
            "take_along_last": (xb.take_along_axis, (x, along)),
            "slice_set": (lambda x, v: xb.at(x)[1:3, :, ::3].set(v), (x, part)),
            "slice_set_backwards": (lambda x, v: xb.at(x)[2:0:-1, :, 1::-1].set(v), (x, part)),
            "slice_set_broadcast": (lambda x, v: xb.at(x)[1].set(v), (x, row)),
            "slice_set_nothing": (lambda x: xb.at(x)[2:1].set(x[:1]), (x,)),
            "take_set": (lambda x, i, v: xb.at(x)[i].set(v), (x, np.array([3, -4]), plane)),
            "take_set_one": (lambda x, i, v: xb.at(x)[i].set(v), (row, np.array(-2), row[0])),
            "take_set_one_row": (lambda x, i, v: xb.at(x)[:, i].set(v), (x, np.array(2), x[:, 1])),
            "take_set_number": (lambda x, i: xb.at(x)[i].set(xb.full((), 3, dtype=x.dtype)), (x, some[:2])),
            "take_set_of_no_elements": (lambda x, i: xb.at(x[..., :0])[i].set(x[i, :, :0]), (x, some[:2])),
            "take_set_row": (lambda x, i: xb.at(x)[i].set(x[1]), (x, some[:2])),
            "take_set_inside": (lambda x, i, v: xb.at(x)[:, i].set(v), (x, np.array([2, 0]), x[:, 1:])),
            "take_set_of_a_slice": (lambda x, i, v: xb.at(x)[::2, 1, i].set(v), (x, np.array([4, 0]), part[:, 0])),
        }
        if dtype is not DType.bool:
            functions |= {
                "slice_add": (lambda x, v: xb.at(x)[1:3, :, ::3].add(v), (x, part)),
                "slice_add_backwards": (lambda x, v: xb.at(x)[2:0:-1, :, 1::-1].add(v), (x, part)),
                "slice_add_to_a_number": (lambda x: xb.at(x[0, 0, 0])[()].add(3), (x,)),
                "slice_add_most": (lambda x: xb.at(x)[:, 1:, :-1].add(x[:, 1:, :-1]), (x,)),
                "take_add": (lambda x, i, v: xb.at(x)[i].add(v), (x, np.array([1, 1]), plane)),
                "take_add_number": (lambda x, i: xb.at(x)[i].add(3), (x, some)),
                "take_add_inside": (lambda x, i, v: xb.at(x)[:, i].add(v), (x, np.array([2, 2]), x[:, 1:])),
                "take_add_two": (lambda x, i, j: xb.at(x)[i, j].add(1), (x, np.array([0, 0, 3]), np.array([1, 1, -1]))),
            }
        if dtype not in THOROUGH:
            functions = {label: row for label, row in functions.items() if label in INDEXING_OF_ALL}
        checks = [Check(f"{label}-{dtype}", f, arrays, "element") for label, (f, arrays) in functions.items()]
        if dtype in FLOATING:
            zeros = (np.array([-0.0, -0.0, 0.0, 1.0], dtype.value),)
            checks.append(Check(f"slice_add_zeros-{dtype}", lambda x: xb.at(x)[1:].add(x[1:]), zeros, "bits"))
        batches.append(Batch(f"indexing-{dtype}", tuple(shared_columns(checks))))
    return batches


INDEXING_OF_ALL = frozenset(
    {"take", "take_along_last", "slice_set", "slice_add", "slice_add_most", "take_set", "take_add"}
)


def conversions() -> list[Batch]:
    numbers: dict[DType, tuple[Any, ...]] = {
        DType.bool: (False, True),
        DType.int32: (0, 1, -1, 2**31 - 1, -(2**31)),
        DType.int64: (0, 1, -1, 123456789),
        DType.float32: (0.0, -0.0, 1.0, -1.5, 2.5, -0.99, 1e6),
        DType.float64: (0.0, -0.0, 1.0, -1.5, 2.5, -0.99, 1e6, 1.0 + 2**-30),
    }
    special = (nan, inf, -inf, 0.0, -0.0, 1e-300, 1e300)
    checks = [
        Check(f"astype-{a}-{b}", lambda x, b=b: xb.astype(x, b), (array(numbers[a], a),), "bits")
        for a in SIGNED
        for b in SIGNED
        if a is not b
    ]
    for a in FLOATING:
        given = array(special[: 5 if a is DType.float32 else 7], a)
        checks += [
            Check(f"astype-special-{a}-{b}", lambda x, b=b: xb.astype(x, b), (given,), "bits")
            for b in (DType.bool, *FLOATING)
            if b is not a
        ]
    return [Batch("conversions", tuple(shared_columns(checks)))]


def of_flattened(column: xb.Array) -> xb.Array:
    """The product of a column, made a vector and then a row, with itself."""
    return xb.matmul(xb.reshape(xb.reshape(column, (3,)), (1, 3)), column)


def products() -> list[Batch]:
    batches = []
    for dtype in SIGNED[1:]:
        a, b, square = sample(dtype, (2, 3)), sample(dtype, (3, 4), 1), sample(dtype, (3, 3), 2)
        stack_a, stack_b = sample(dtype, (2, 1, 2, 3), 3), sample(dtype, (3, 3, 4), 4)
        row, empty_rows, empty_inner = sample(dtype, (3,), 5), sample(dtype, (0, 3), 6), sample(dtype, (2, 0), 7)
        squares = sample(dtype, (2, 3, 3), 8)
        functions: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
            "matmul": (xb.matmul, (a, b)),
            "matmul_transposed": (lambda a, b: xb.matmul(b.T, a.T), (a, b)),
            "matmul_stacks": (xb.matmul, (stack_a, stack_b)),
            "matmul_row": (xb.matmul, (row, b)),
            "matmul_column": (xb.matmul, (a, row)),
            "matmul_rows": (xb.matmul, (row, row)),
            "matmul_row_with_stack": (xb.matmul, (row, stack_b)),
            "matmul_of_flattened": (lambda x: of_flattened(-xb.reshape(x, (3, 1))), (row,)),
            "matmul_no_rows": (xb.matmul, (empty_rows, b)),
            "matmul_of_nothing": (lambda x: xb.matmul(x, x.T), (empty_inner,)),
            "tensordot": (lambda a, b: xb.tensordot(a, b, axes=([1, 0], [2, 1])), (stack_b, squares)),
            "tensordot_1": (lambda a, b: xb.tensordot(a, b, axes=1), (a, b)),
            "vecdot": (xb.vecdot, (a, row)),
            "outer": (xb.linalg.outer, (row, row)),
            "matrix_power_0": (lambda x: xb.linalg.matrix_power(x, 0), (squares,)),
            "matrix_power_1": (lambda x: xb.linalg.matrix_power(x, 1), (square,)),
            "matrix_power_5": (lambda x: xb.linalg.matrix_power(x, 5), (square,)),
            "matrix_power_6_by_chain": (lambda x: xb.linalg.matrix_power(x, 6, method="chain"), (square,)),
            "matrix_power_3_of_stack": (lambda x: xb.linalg.matrix_power(x, 3), (squares,)),
        }
        if dtype.is_floating:
            special = np.array([[inf, 1.0, nan], [0.0, 2.0, -inf], [1.0, 1.0, 1.0]], dtype.value)
            functions["matmul_special"] = (xb.matmul, (special, special))
        if dtype is DType.int32:
            wide = np.array([[2**12 + 1, 3], [-5, 2**13 - 1]], dtype.value)
            functions["matmul_beyond_24_bits"] = (xb.matmul, (wide, wide))
        if dtype is DType.int64:
            wide = np.array([[2**31 + 1, 3], [-5, 2**30]], dtype.value)
            wider = np.array([[2**53 + 1, 3], [-5, 2**62 + 1]], dtype.value)
            functions["matmul_beyond_32_bits"] = (xb.matmul, (wide, wide))
            functions["matmul_beyond_53_bits"] = (xb.matmul, (wider, np.eye(2, dtype=dtype.value)))
        if dtype.is_integer:
            large = np.array([2 ** (24 if dtype is DType.int32 else 53) + 1, 0], dtype.value)
            functions["matmul_large_row"] = (xb.matmul, (large, np.eye(2, dtype=dtype.value)))
            functions["matmul_large_column"] = (xb.matmul, (np.eye(2, dtype=dtype.value), large))
            functions["matmul_large_rows"] = (xb.matmul, (large, np.array([1, 3], dtype.value)))
        if dtype not in THOROUGH:
            functions = {label: row for label, row in functions.items() if label in PRODUCTS_OF_ALL}
        checks = [Check(f"{label}-{dtype}", f, arrays, "array") for label, (f, arrays) in functions.items()]
        batches.append(Batch(f"products-{dtype}", tuple(shared_columns(checks))))
    return batches


def creation() -> list[Batch]:
    x = sample(DType.float32, (2, 3))
    functions: dict[str, Callable[[Any], Any]] = {
        "full_inf": lambda x: xb.full((2,), -inf, dtype=xb.float32),
        "full_nan": lambda x: xb.full((), nan),
        "full_negative_zero": lambda x: xb.full((2,), -0.0),
        "full_largest_int64": lambda x: xb.full((1, 2), 2**63 - 1),
        "full_bool": lambda x: xb.full((3,), True),
        "full_nothing": lambda x: xb.full((2, 0), 1, dtype=xb.int32),
        "zeros": lambda x: xb.zeros((2, 2), dtype=xb.bool),
        "ones_like": xb.ones_like,
        "zeros_like_int64": lambda x: xb.zeros_like(x, dtype=xb.int64),
        "eye": lambda x: xb.eye(3, dtype=xb.int32),
        "eye_below": lambda x: xb.eye(2, 4, k=-1),
        "eye_outside": lambda x: xb.eye(2, 2, k=5, dtype=xb.bool),
        "arange": lambda x: xb.arange(5),
        "arange_down": lambda x: xb.arange(3, -4, -2, dtype=xb.int32),
        "arange_fraction": lambda x: xb.arange(0.0, 1.0, 0.1),
        "arange_float32": lambda x: xb.arange(1, 2, 0.25, dtype=xb.float32),
        "arange_nothing": lambda x: xb.arange(3, 0),
        "linspace": lambda x: xb.linspace(0.0, 1.0, 7, dtype=xb.float32),
        "constant_scalar": lambda x: xb.asarray(2.5),
        "constant_nothing": lambda x: xb.asarray(np.zeros((0, 2), np.int32)),
        "constant_special": lambda x: xb.asarray(np.array([nan, -0.0, inf, 5e-324])),
        "constant_fortran_order": lambda x: xb.asarray(np.asfortranarray(np.arange(6).reshape(2, 3))),
        "used": lambda x: x + xb.arange(3, dtype=xb.float32) * xb.eye(2, 3, dtype=xb.float32),
    }
    return [Batch("creation", tuple(Check(label, f, (x,), "bits") for label, f in functions.items()))]


def promotion() -> list[Batch]:
    """The standard's table of promotion, end to end, and Python numbers beside arrays."""
    arrays = {d: sample(d, (3,), 9) for d in SIGNED}
    checks = []
    for a in SIGNED:
        for b in SIGNED:
            if promote(a, b) is None:
                continue
            op = xb.logical_xor if a is DType.bool else xb.add
            given = (arrays[a], arrays[b])
            checks.append(Check(f"arithmetic-{a}-{b}", op, given))
            checks.append(Check(f"equal-{a}-{b}", xb.equal, given))
            checks.append(Check(f"where-{a}-{b}", lambda x, y: xb.where(xb.equal(x, y), x, y), given, "bits"))
            checks.append(Check(f"concat-{a}-{b}", lambda x, y: xb.concat([x, y]), given, "bits"))
    for d in SIGNED[1:]:
        operators: dict[str, Callable[[Any], Any]] = {
            "add_1": lambda x: x + 1,
            "from_3": lambda x: 3 - x,
            "power_of_2": lambda x: 2 ** (x * x),
            "remainder_-3": lambda x: x % -3,
            "times_true_number": lambda x: xb.where(x > 0, x, 0),
            "clip": lambda x: xb.clip(x, -1, 1),
        }
        if d.is_floating:
            operators |= {"half": lambda x: x / 2, "inverse": lambda x: 1.0 / x, "tenth": lambda x: x * 0.1}
        checks += [Check(f"{label}-{d}", f, (arrays[d],)) for label, f in operators.items()]
    checks.append(Check("and_true-bool", lambda x: x & True, (arrays[DType.bool],)))
    checks.append(Check("invert-bool", lambda x: ~x, (arrays[DType.bool],)))
    return [Batch("promotion", tuple(checks))]


def special() -> list[Check]:
    """Results of ordinary functions for signed zeros, infinities and NaN, to the last bit."""
    x, y = array((-inf, -0.0, 0.0, inf, 4.0, nan), DType.float64), array((1.0, -1.0), DType.float64)
    dividends, divisors = array(DIVIDENDS_WITH_ALL, DType.float64)[:, None], array(DIVISORS_WITH_ALL, DType.float64)
    inner = array((-1.0, -0.0, 4.0, nan, nan), DType.float64)
    functions: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
        "zeros_with_a_sign": (lambda y: 1.0 / xb.where(y > 0, 0.0, -0.0), (y,)),
        "zeros_with_a_sign_as_arrays": (lambda y: 1.0 / xb.where(y > 0, np.zeros(2), -np.zeros(2)), (y,)),
        "atan2_of_positive_zero": (lambda y: xb.atan2(0.0, y), (y,)),
        "atan2_of_negative_zero": (lambda y: xb.atan2(-0.0, y), (y,)),
        "var_of_one": (lambda x: xb.var(x[:, None], axis=1), (x,)),
        "std_of_one": (lambda x: xb.std(x[:, None], axis=1, correction=1), (x,)),
        "power_one_half": (lambda x: xb.pow(x, 0.5), (x,)),
        "power_minus_one_half": (lambda x: xb.pow(x, np.full(6, -0.5)), (x,)),
        "gradient_of_power_one_half": (lambda x: xb.grad(xb.sum(xb.pow(x, 0.5)), x), (x[2:5],)),
        "not_greater": (lambda x: ~(x > 0.0), (x,)),
        "not_less": (lambda x: ~(x < 0.0), (x,)),
        "not_greater_equal": (lambda x: ~(x >= 0.0), (x,)),
        "not_less_equal": (lambda x: ~(x <= 0.0), (x,)),
        "integer_powers": (
            xb.pow,
            (array((0, 0, -1, -1, 2), DType.int64), array((64, 128, 2**53 + 1, 2**53, 62), DType.int64)),
        ),
        "floor_divide": (xb.floor_divide, (dividends, divisors)),
        "remainder": (xb.remainder, (dividends, divisors)),
        "remainder_in_float32": (xb.remainder, (dividends.astype("f4"), divisors.astype("f4"))),
        "power_one_half_in_float32": (lambda x: xb.pow(x, 0.5), (x.astype("f4"),)),
        "power_minus_one_half_in_float32": (lambda x: xb.pow(x, -0.5), (x.astype("f4"),)),
        "magnitude_of_a_reciprocal": (lambda x: xb.abs(1.0 / x), (x,)),
        "negative_of_a_difference": (lambda y: -(y - xb.abs(y)), (y,)),
        "sign": (xb.sign, (x,)),
        "sign_in_float32": (xb.sign, (x.astype("f4"),)),
        "erf_of_large": (xb.erf, (array((1e155, -1e300, inf), DType.float64),)),
        "logsumexp_of_impossible": (lambda x: xb.logsumexp(x, axis=0), (array((-inf, -inf), DType.float64),)),
        **{
            f"searchsorted_with_nan_{side}": (partial(xb.searchsorted, side=side), (inner, x))
            for side in ("left", "right")
        },
    }
    return [Check(f"special-{label}", f, arrays, "bits") for label, (f, arrays) in functions.items()]


def with_core(batch: Batch) -> Batch:
    """The batch with its core marked."""
    return replace(batch, checks=tuple(replace(c, core=is_core(batch.name, c.label)) for c in batch.checks))


BATCHES = in_turns(
    [
        with_core(batch)
        for batch in (
            *elementwise(), *reductions(), *moving(), *indexing(), *conversions(), *products(), *creation(),
            *promotion(), Batch("zeros", tuple(special())), *of_linear_algebra(), *of_unsigned(),
        )
    ]
)  # fmt: skip
