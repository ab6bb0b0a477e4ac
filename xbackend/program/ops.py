"""The op set: one table with the name, the shape and dtype rule and the operation count of every op.

Names and meaning are the Array API standard's. The table holds primitives only: what can be composed of them is
composed while tracing (`xbackend.api.functions`), so that an adapter has little to lower and a program is explicit.
In particular, by the time an op is in a program

* all arrays of an elementwise op have the same dtype (`astype` ops were inserted), their shapes broadcast;
* reductions have a sorted tuple of non-negative axes, drop them, and keep the dtype (sums of int32 are cast before);
* the ops of `WIDENED` have no unsigned integers: tracing makes them wider, and the result what it is to be;
* `argmax` and `argmin` have one non-negative axis, drop it, and give int64;
* `matmul` has two arrays of the same rank (at least 2) with equal leading axes;
* `slice` has explicit starts, stops and steps for every axis (a stop is None where a negative step runs off the front);
* `take` has one array of integers (of any rank) for one non-negative axis; negative ones count from the end;
* `slice_set`, `slice_add`, `take_set` and `take_add` give their first array with what `slice` or `take` reads replaced
  by, or added to, the last one, which has that shape; where `take_add` names a place twice, both are added;
* `solve` and `solve_triangular` have two arrays of the same rank (at least 2) with equal leading axes; matrices of
  `eigh` and `eigvalsh` are symmetric, `cholesky` reads the lower triangle and gives one, and its gradient is symmetric;
* `all_reduce` is the sum of its arrays, of each times its share if it has ``shares``: result ``part`` is for the device
  of array ``part``, and binding writes it as what it is on devices;
* what an op with several results gives are several nodes of it, one for each result that is used: they have the same
  inputs and parameters but for ``part``, the number of the result (`Node.call`), and are computed once;
* the bodies of `scan`, `while_loop` and `cond` are programs of their own, whose inputs are all that they use: they have
  no shared variables, no transfers and no devices but the one of their node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from xbackend.errors import DTypeError, ShapeError
from xbackend.program import linear_algebra as rules
from xbackend.program.dtypes import DType


class Aval(NamedTuple):
    """What is known of a value before it exists: its static shape and its dtype."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the elements."""
        return self.size * self.dtype.itemsize


Params = Mapping[str, Any]
Infer = Callable[[Sequence[Aval], Params], Aval]
Count = Callable[[Sequence[Aval], Aval, Params], int]


@dataclass(frozen=True, slots=True)
class Op:
    """One row of the table.

    ``arity`` is the number of inputs (-1: one or more), ``infer`` the shape and dtype rule, ``count`` the number of
    arithmetic operations (`None`: not counted, and said so), ``params`` the names of its parameters.
    """

    name: str
    arity: int
    infer: Infer
    count: Count | None
    params: tuple[str, ...] = ()


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


_ALLOWED: dict[str, Callable[[DType], bool]] = {
    "numeric": lambda d: d.is_numeric,
    "signed": lambda d: d.is_numeric and not d.is_unsigned,
    "floating-point": lambda d: d.is_floating,
    "integer": lambda d: d.is_integer,
    "bool": lambda d: d is DType.bool,
    "any": lambda d: True,
}


def _require(name: str, avals: Sequence[Aval], kinds: str) -> None:
    for aval in avals:
        if not _ALLOWED[kinds](aval.dtype):
            kinds = "numeric" if kinds == "signed" else kinds  # users may have the others: `WIDENED`
            raise DTypeError(f"{name} takes {kinds} arrays, not {aval.dtype}; convert with xb.astype")
    if len({a.dtype for a in avals}) > 1:
        raise DTypeError(f"{name} has inputs of different dtypes {', '.join(a.dtype for a in avals)}")


def _elementwise(name: str, kinds: str, out: DType | None = None) -> Infer:
    def infer(avals: Sequence[Aval], params: Params) -> Aval:
        _require(name, avals, kinds)
        return Aval(broadcast_shapes(*(a.shape for a in avals)), out or avals[0].dtype)

    return infer


def _out_size(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    return out.size


def _in_size(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    return avals[0].size


def _free(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    return 0


def _reduction(name: str, kinds: str, nonempty: bool = False) -> Infer:
    def infer(avals: Sequence[Aval], params: Params) -> Aval:
        _require(name, avals, kinds)
        shape, axes = avals[0].shape, params["axis"]
        if nonempty and any(shape[a] == 0 for a in axes):
            raise ShapeError(f"{name} of no elements: shape {shape} has length 0 along axis {axes}")
        return Aval(tuple(n for a, n in enumerate(shape) if a not in axes), avals[0].dtype)

    return infer


def _arg_reduction(name: str) -> Infer:
    def infer(avals: Sequence[Aval], params: Params) -> Aval:
        _require(name, avals, "signed")
        shape, axis = avals[0].shape, params["axis"]
        if shape[axis] == 0:
            raise ShapeError(f"{name} of no elements: shape {shape} has length 0 along axis {axis}")
        return Aval(shape[:axis] + shape[axis + 1 :], DType.int64)

    return infer


def _where(avals: Sequence[Aval], params: Params) -> Aval:
    condition, x, y = avals
    _require("where", avals[:1], "bool")
    _require("where", avals[1:], "any")
    return Aval(broadcast_shapes(condition.shape, x.shape, y.shape), x.dtype)


def _matmul(avals: Sequence[Aval], params: Params) -> Aval:
    a, b = avals
    _require("matmul", avals, "signed")
    if len(a.shape) < 2 or len(a.shape) != len(b.shape) or a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: ranks and leading axes must be equal")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"matmul of shapes {a.shape} and {b.shape}: {a.shape[-1]} columns on the left, {b.shape[-2]} rows on the "
            "right"
        )
    return Aval((*a.shape[:-1], b.shape[-1]), a.dtype)


def _matmul_count(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    # One multiplication and one addition per term of each inner product.
    return 2 * out.size * avals[0].shape[-1]


def _reshape(avals: Sequence[Aval], params: Params) -> Aval:
    shape = tuple(params["shape"])
    if prod(shape) != avals[0].size:
        raise ShapeError(f"cannot reshape {avals[0].shape} ({avals[0].size} elements) to {shape} ({prod(shape)})")
    return Aval(shape, avals[0].dtype)


def _permute(avals: Sequence[Aval], params: Params) -> Aval:
    shape, axes = avals[0].shape, tuple(params["axes"])
    if sorted(axes) != list(range(len(shape))):
        raise ShapeError(f"axes {axes} are no permutation of the {len(shape)} axes of shape {shape}")
    return Aval(tuple(shape[a] for a in axes), avals[0].dtype)


def _broadcast_to(avals: Sequence[Aval], params: Params) -> Aval:
    shape = tuple(params["shape"])
    try:
        fits = broadcast_shapes(avals[0].shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"shape {avals[0].shape} does not broadcast to {shape}")
    return Aval(shape, avals[0].dtype)


def _concat(avals: Sequence[Aval], params: Params) -> Aval:
    axis, first = params["axis"], avals[0]
    _require("concat", avals, "any")
    for other in avals[1:]:
        if len(other.shape) != len(first.shape) or any(
            n != m for a, (n, m) in enumerate(zip(first.shape, other.shape, strict=True)) if a != axis
        ):
            raise ShapeError(f"concat of shapes {first.shape} and {other.shape}: they differ beside axis {axis}")
    length = sum(a.shape[axis] for a in avals)
    return Aval((*first.shape[:axis], length, *first.shape[axis + 1 :]), first.dtype)


def _stack(avals: Sequence[Aval], params: Params) -> Aval:
    axis, first = params["axis"], avals[0]
    _require("stack", avals, "any")
    if any(other.shape != first.shape for other in avals):
        raise ShapeError(f"stack of arrays of different shapes {', '.join(str(a.shape) for a in avals)}")
    return Aval((*first.shape[:axis], len(avals), *first.shape[axis:]), first.dtype)


def slice_lengths(params: Params) -> tuple[int, ...]:
    """Length of every axis after a `slice` op."""
    return tuple(
        len(range(start, stop if stop is not None else -1, step))
        for start, stop, step in zip(params["starts"], params["stops"], params["steps"], strict=True)
    )


def _slice(avals: Sequence[Aval], params: Params) -> Aval:
    """That of a slice, or of what an array is written to; a slice drops axes where it takes one index."""
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


def _check_indices(name: str, indices: Aval) -> None:
    if not indices.dtype.is_integer or indices.dtype.is_unsigned:
        raise DTypeError(f"{name} has indices of {indices.dtype}; they are int32 or int64")


def _taken(avals: Sequence[Aval], params: Params) -> Aval:
    x, indices = avals[:2]
    _check_indices("take", indices)
    if not 0 <= params["axis"] < len(x.shape):
        raise ShapeError(f"take along axis {params['axis']} of shape {x.shape}")
    axis = params["axis"]
    if indices.size and not x.shape[axis]:
        raise ShapeError(f"take from no elements: shape {x.shape} has length 0 along axis {axis}")
    return Aval((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)


def _along(avals: Sequence[Aval], params: Params) -> Aval:
    x, indices = avals
    axis = params["axis"]
    _check_indices("take_along_axis", indices)
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"take_along_axis along axis {axis} of shape {x.shape}")
    beside = [(*a.shape[:axis], *a.shape[axis + 1 :]) for a in avals]
    if len(x.shape) != len(indices.shape) or beside[0] != beside[1]:
        raise ShapeError(f"take_along_axis of shapes {x.shape} and {indices.shape}: they differ beside axis {axis}")
    if indices.size and not x.shape[axis]:
        raise ShapeError(f"take_along_axis from no elements: shape {x.shape} has length 0 along axis {axis}")
    return Aval(indices.shape, x.dtype)


def _written(read: Infer) -> Infer:
    """The rule of an op that writes where ``read`` reads."""

    def infer(avals: Sequence[Aval], params: Params) -> Aval:
        there, value = read(avals[:-1], params), avals[-1]
        if value != there:
            raise ShapeError(f"{value} cannot be written in the place of {there}")
        return avals[0]

    return infer


def _added(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    return avals[-1].size


def _astype(avals: Sequence[Aval], params: Params) -> Aval:
    return Aval(avals[0].shape, DType(params["dtype"]))


def _cumulative(avals: Sequence[Aval], params: Params) -> Aval:
    _require("cumulative_sum", avals, "signed")
    if not 0 <= params["axis"] < len(avals[0].shape):
        raise ShapeError(f"cumulative_sum along axis {params['axis']} of shape {avals[0].shape}")
    return avals[0]


def _same(avals: Sequence[Aval], params: Params) -> Aval:
    return avals[0]


def _declared(avals: Sequence[Aval], params: Params) -> Aval:
    return Aval(tuple(params["shape"]), DType(params["dtype"]))


def _constant(avals: Sequence[Aval], params: Params) -> Aval:
    return Aval(tuple(params["value"].shape), DType(params["value"].dtype.name))


def _gradient(avals: Sequence[Aval], params: Params) -> Aval:
    loss, wrt = avals
    if loss.shape != () or not loss.dtype.is_floating:
        raise ShapeError(f"the gradient is taken of a floating-point scalar, not of {loss}")
    if not wrt.dtype.is_floating:
        raise DTypeError(f"no gradient with respect to {wrt}: only floating-point arrays have one")
    return wrt


def _takes(name: str, body: Any, avals: Sequence[Aval]) -> list[Aval]:
    """What a body gives. Raises `ShapeError` unless its inputs are of these shapes and dtypes."""
    inputs = [body.nodes[i].aval for i in body.inputs]
    if inputs != list(avals):
        raise ShapeError(f"{name} gives its body {', '.join(map(str, avals))}; it takes {', '.join(map(str, inputs))}")
    return [body.nodes[i].aval for i in body.outputs]


def _part(name: str, results: Sequence[Aval], params: Params) -> Aval:
    if not 0 <= params["part"] < len(results):
        raise ShapeError(f"{name} has {len(results)} results, and none of number {params['part']}")
    return results[params["part"]]


def _keeps(name: str, before: Sequence[Aval], after: Sequence[Aval]) -> None:
    if list(before) != list(after):
        raise ShapeError(
            f"{name} begins with {', '.join(map(str, before))} and goes on with {', '.join(map(str, after))}"
        )


def _scan(avals: Sequence[Aval], params: Params) -> Aval:
    carries, length = params["carries"], params["length"]
    init, xs, closed = avals[:carries], avals[carries:][: params["sequences"]], avals[carries + params["sequences"] :]
    if length < 1 or any(x.shape[:1] != (length,) for x in xs):
        raise ShapeError(f"scan of {length} steps over {', '.join(map(str, xs))}")
    made = _takes("scan", params["body"], [*init, *(Aval(x.shape[1:], x.dtype) for x in xs), *closed])
    _keeps("scan", init, made[:carries])
    return _part("scan", [*init, *(Aval((length, *y.shape), y.dtype) for y in made[carries:])], params)


def _while(avals: Sequence[Aval], params: Params) -> Aval:
    state = avals[: params["carries"]]
    if _takes("while_loop", params["condition"], avals) != [Aval((), DType.bool)]:
        raise ShapeError("the condition of while_loop is one bool")
    _keeps("while_loop", state, _takes("while_loop", params["body"], avals))
    return _part("while_loop", state, params)


def _cond(avals: Sequence[Aval], params: Params) -> Aval:
    if avals[0] != Aval((), DType.bool):
        raise ShapeError(f"cond chooses by {avals[0]}; it is one bool")
    then, otherwise = (_takes("cond", params[branch], avals[1:]) for branch in ("then", "otherwise"))
    _keeps("cond", then, otherwise)
    return _part("cond", then, params)


def _reduced(avals: Sequence[Aval], params: Params) -> Aval:
    shares, first = params["shares"], avals[0]
    _require("all_reduce", avals, "floating-point" if shares else "signed")
    if params["tasks"] < 1:
        raise ShapeError(f"all_reduce over {params['tasks']} tasks: there is one at least")
    if any(aval.shape != first.shape for aval in avals) or len(shares) not in (0, len(avals)):
        raise ShapeError(f"all_reduce of {', '.join(map(str, avals))}: they are alike, with a share for each or none")
    return _part("all_reduce", avals, params)


def _reduced_count(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    return out.size * (len(avals) - 1 + (len(avals) if params["shares"] else 0))


def _each_step(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    return int(params["length"] * params["body"].operations.total)


def _dearer(avals: Sequence[Aval], out: Aval, params: Params) -> int:
    return max(int(params[branch].operations.total) for branch in ("then", "otherwise"))


def _controlling(add: Callable[..., None]) -> None:
    """The rows of loops and choices. How often a `while_loop` goes round is not known; of a `cond` the branch counts
    that takes more operations."""
    add("scan", -1, _plain(_scan), _each_step, "body", "carries", "sequences", "length", "reverse", "part")
    add("while_loop", -1, _plain(_while), None, "condition", "body", "carries", "part")
    add("cond", -1, _plain(_cond), _dearer, "then", "otherwise", "part")


def _plain(infer: Infer) -> Callable[[str], Infer]:
    return lambda name: infer


def _of(kinds: str, rule: Callable[[str], Infer]) -> Callable[[str], Infer]:
    """A rule for arrays of one dtype, which is one of these kinds."""

    def make(name: str) -> Infer:
        infer = rule(name)

        def checked(avals: Sequence[Aval], params: Params) -> Aval:
            _require(name, avals, kinds)
            return infer(avals, params)

        return checked

    return make


def _linear_algebra(add: Callable[..., None]) -> None:
    """The rows of matrices, of what is sorted, and of convolution. Eigenvalues and singular values are found by
    iteration: how many operations that takes depends on the numbers."""
    floats = "floating-point"
    add("cholesky", 1, _of(floats, rules.same_matrices), rules.cubic(1, 3))
    add("inv", 1, _of(floats, rules.same_matrices), rules.cubic(2))
    add("det", 1, _of(floats, rules.determinant), rules.cubic(2, 3))
    add("slogdet", 1, _of(floats, rules.determinant), rules.cubic(2, 3), "part")
    add("solve", 2, _of(floats, rules.equations), rules.elimination)
    add("solve_triangular", 2, _of(floats, rules.equations), rules.substitution, "lower")
    add("eigh", 1, _of(floats, _plain(rules.eigh)), None, "part")
    add("eigvalsh", 1, _of(floats, _plain(rules.eigvalsh)), None)
    add("svdvals", 1, _of(floats, _plain(rules.svdvals)), None)
    add("qr", 1, _of(floats, _plain(rules.qr)), None, "full", "part")
    add("svd", 1, _of(floats, _plain(rules.svd)), None, "full", "part")
    add("diagonal", 1, _of("any", _plain(rules.diagonal)), _free, "offset")
    add("sort", 1, _of("signed", rules.along_axis), rules.comparisons, "axis")
    add("argsort", 1, _of("signed", lambda n: rules.along_axis(n, DType.int64)), rules.comparisons, "axis")
    add("searchsorted", 2, _of("signed", _plain(rules.searchsorted)), rules.halvings, "right")
    add("cumulative_prod", 1, _of("signed", rules.along_axis), _in_size, "axis")
    add("conv2d", 2, _of(floats, _plain(rules.conv2d)), rules.products, "strides", "padding")


def _moving(add: Callable[..., None]) -> None:
    """The rows of products, and of what only moves elements."""
    add("matmul", 2, _plain(_matmul), _matmul_count)
    add("reshape", 1, _plain(_reshape), _free, "shape")
    add("permute_dims", 1, _plain(_permute), _free, "axes")
    add("broadcast_to", 1, _plain(_broadcast_to), _free, "shape")
    add("all_reduce", -1, _plain(_reduced), _reduced_count, "shares", "part", "tasks")
    add("concat", -1, _plain(_concat), _free, "axis")
    add("stack", -1, _plain(_stack), _free, "axis")
    add("slice", 1, _plain(_slice), _free, "starts", "stops", "steps", "drop")
    add("take", 2, _plain(_taken), _free, "axis")
    add("take_along_axis", 2, _plain(_along), _free, "axis")
    add("slice_set", 2, _plain(_written(_slice)), _free, "starts", "stops", "steps")
    add("slice_add", 2, _plain(_written(_slice)), _added, "starts", "stops", "steps")
    add("take_set", 3, _plain(_written(_taken)), _free, "axis")
    add("take_add", 3, _plain(_written(_taken)), _added, "axis")
    add("astype", 1, _plain(_astype), _free, "dtype")


def _table() -> dict[str, Op]:
    rows: list[Op] = []

    def add(names: str, arity: int, make: Callable[[str], Infer], count: Count | None, *params: str) -> None:
        rows.extend(Op(name, arity, make(name), count, params) for name in names.split())

    add("abs negative sign square", 1, lambda n: _elementwise(n, "signed"), _out_size)
    # Rounding leaves integers as they are, and so needs no op for them.
    add(
        "floor ceil trunc round exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh "
        "acosh atanh",
        1,
        lambda n: _elementwise(n, "floating-point"),
        _out_size,
    )
    add("erf erfc gammaln digamma expit", 1, lambda n: _elementwise(n, "floating-point"), _out_size)
    add("isnan isinf isfinite", 1, lambda n: _elementwise(n, "floating-point", DType.bool), _out_size)
    add("logical_not", 1, lambda n: _elementwise(n, "bool"), _out_size)
    add("add multiply maximum minimum", 2, lambda n: _elementwise(n, "numeric"), _out_size)
    add("subtract floor_divide remainder pow", 2, lambda n: _elementwise(n, "signed"), _out_size)
    add("divide atan2", 2, lambda n: _elementwise(n, "floating-point"), _out_size)
    add("equal not_equal", 2, lambda n: _elementwise(n, "any", DType.bool), _out_size)
    add("less less_equal greater greater_equal", 2, lambda n: _elementwise(n, "numeric", DType.bool), _out_size)
    add("logical_and logical_or logical_xor", 2, lambda n: _elementwise(n, "bool"), _out_size)
    add("bitwise_invert", 1, lambda n: _elementwise(n, "integer"), _out_size)
    add("bitwise_and bitwise_or bitwise_xor", 2, lambda n: _elementwise(n, "integer"), _out_size)
    add("where", 3, _plain(_where), _out_size)
    add("sum prod", 1, lambda n: _reduction(n, "signed"), _in_size, "axis")
    add("max min", 1, lambda n: _reduction(n, "signed", nonempty=True), _in_size, "axis")
    add("mean", 1, lambda n: _reduction(n, "floating-point"), _in_size, "axis")
    add("any all", 1, lambda n: _reduction(n, "bool"), _in_size, "axis")
    add("argmax argmin", 1, _arg_reduction, _in_size, "axis")
    add("cumulative_sum", 1, _plain(_cumulative), _in_size, "axis")
    _moving(add)
    _linear_algebra(add)
    _controlling(add)
    # Sources: no inputs. `input` and `shared` get their values from outside, the others from their parameters.
    add("input", 0, _plain(_declared), _free, "name", "shape", "dtype")
    add("shared", 0, _plain(_declared), _free, "name", "shape", "dtype")
    add("constant", 0, _plain(_constant), _free, "value")
    add("full", 0, _plain(_declared), _free, "shape", "dtype", "fill_value")
    add("arange", 0, _plain(_declared), _free, "start", "step", "shape", "dtype")
    add("eye", 0, _plain(_declared), _free, "k", "shape", "dtype")
    # Moves its input to the device of its own node.
    add("transfer", 1, _plain(_same), _free)
    # The gradient of its first input (a scalar) with respect to its second. How many operations a framework's own
    # gradient takes is its own affair, so it is not counted, and the count says so.
    add("grad", 2, _plain(_gradient), None)
    return {row.name: row for row in rows}


OPS = _table()
SOURCES = frozenset(name for name, op in OPS.items() if op.arity == 0)
# Those that count one operation for each element of the result, which their inputs broadcast to.
ELEMENTWISE = frozenset(name for name, op in OPS.items() if op.count is _out_size)
# What not every framework computes with unsigned integers (of 0 - x TensorFlow's optimiser and PyTensor's rewrites make
# a negative, which they do not have). In a wider dtype the result has the same last bits.
WIDENED = frozenset(
    {
        "abs",
        "negative",
        "sign",
        "square",
        "subtract",
        "floor_divide",
        "remainder",
        "pow",
        "matmul",
        "sum",
        "prod",
        "max",
        "min",
    }
    | {"cumulative_sum", "cumulative_prod", "argmax", "argmin", "sort", "argsort", "searchsorted"}
)
# What some framework raises an error for, by the numbers: matrices without a result, places that are not there, loops
# that go on for longer than they may.
REFUSING = frozenset(
    {"cholesky", "inv", "det", "slogdet", "solve", "solve_triangular", "eigh", "eigvalsh", "svdvals", "qr", "svd"}
    | {"take", "take_along_axis", "take_set", "take_add", "while_loop"}
)
# The parameters that are programs: the bodies of loops and choices.
BODIES = ("body", "condition", "then", "otherwise")
GENERATORS = SOURCES - {"input", "shared"}
