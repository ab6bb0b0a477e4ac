"""Random devices, arrays and programs, for hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis.extra import numpy as arrays

import xbackend as xb
from xbackend.api.traced_program import TracedProgram
from xbackend.errors import GradientError, XBackendError
from xbackend.program.dtypes import DType
from xbackend.program.ops import OPS, Aval
from xbackend.program.shared import SharedVariable

DTYPES = tuple(DType)
FLOATING = tuple(d for d in DTYPES if d.is_floating)
INTEGER = tuple(d for d in DTYPES if d.is_integer)
UNSIGNED = tuple(d for d in DTYPES if d.is_unsigned)
SIGNED = tuple(d for d in DTYPES if not d.is_unsigned)  # bool among them
REDUCTIONS = ("sum", "prod", "max", "min", "mean", "any", "all")
STRUCTURAL = frozenset(
    {*REDUCTIONS, "argmax", "argmin", "cumulative_sum", "matmul", "reshape", "permute_dims", "broadcast_to", "concat"}
    | {"stack", "all_reduce"}
    | {
        "take",
        "take_along_axis",
        "slice_set",
        "slice_add",
        "take_set",
        "take_add",
        "slice",
        "astype",
        "where",
        "transfer",
        "grad",
        "scan",
        "while_loop",
        "cond",
        "input",
        "shared",
        "constant",
        "full",
        "arange",
        "eye",
    }
    | {"cumulative_prod", "sort", "argsort", "searchsorted", "diagonal", "conv2d"}
    | {"cholesky", "inv", "det", "slogdet", "solve", "solve_triangular", "eigh", "eigvalsh", "qr", "svd", "svdvals"}
    | {"scan", "while_loop", "cond"}
)
CONTROL = ("scan", "while_loop", "cond")
ELEMENTWISE = tuple(op for op in OPS if op not in STRUCTURAL)
# Ops whose results differ by rounding only, and smoothly so, when their inputs do.
TAME_FLOAT = frozenset(
    {"abs", "negative", "square", "tanh", "sin", "cos", "atan", "add", "subtract", "multiply", "maximum", "minimum"}
    | {"sum", "mean", "max", "min", "cumulative_sum", "matmul"}
)
TAME_OTHER = frozenset(
    {"abs", "negative", "sign", "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less"}
    | {"less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor", "logical_not", "sum"}
    | {"max", "min", "any", "all", "argmax", "argmin", "cumulative_sum", "matmul"}
)
MOVING = (
    *(
        "reshape",
        "permute_dims",
        "broadcast_to",
        "concat",
        "stack",
        "slice",
        "where",
        "astype",
        "full",
        "arange",
        "eye",
    ),
    *("take", "take_along_axis", "slice_set", "slice_add", "take_set", "take_add", "all_reduce"),
)


# The shape of what an op takes at the least, where it is no number.
_SMALLEST: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("argmax", "argmin", "cumulative_sum", "cumulative_prod", "sort", "argsort", "searchsorted"), (1,)),
    **dict.fromkeys(("cholesky", "inv", "det", "slogdet", "solve", "solve_triangular"), (1, 1)),
    **dict.fromkeys(("eigh", "eigvalsh", "qr", "svd", "svdvals"), (1, 1)),
    **dict.fromkeys(("matmul", "diagonal"), (1, 1)),
    "conv2d": (1, 1, 1, 1),
}
_PARAMS = {"lower": 1, "offset": 0, "right": 0, "part": 0, "full": 0, "strides": (1, 1), "padding": (0, 0, 0, 0)}


def dtypes_of(op: str) -> tuple[DType, ...]:
    """The dtypes that an op takes, as its own dtype rule says."""
    arity = max(OPS[op].arity, 1)
    shapes = _SMALLEST.get(op, ())
    params = {**_PARAMS, "axis": 0 if shapes else ()}

    def takes(dtype: DType) -> bool:
        try:
            OPS[op].infer([Aval(shapes, dtype)] * arity, params)
        except XBackendError:
            return False
        return True

    return tuple(d for d in DTYPES if takes(d))


TAKES = {op: dtypes_of(op) for op in (*ELEMENTWISE, *REDUCTIONS, *_SMALLEST)}


@st.composite
def devices(draw: st.DrawFn) -> xb.Device:
    """Any device that can be made."""
    job = draw(st.none() | st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True))
    number = st.integers(0, 10**9 - 1) | st.integers(0, 9)
    task = draw(st.none() | number) if job else None
    return xb.Device(draw(st.sampled_from(["cpu", "gpu", "tpu"])), draw(number), job, task)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Numbers of moderate size, none of them equal to another in floating point."""
    if dtype is DType.bool:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return rng.integers(-9 * (not dtype.is_unsigned), 10, shape).astype(dtype.value)
    return rng.uniform(-1.0, 1.0, shape).astype(dtype.value)


def sample_of(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The same numbers for a shape each time."""
    return values(np.random.default_rng(0), shape, dtype)


@dataclass(frozen=True)
class Case:
    """A program, arguments for it, and its shared variables."""

    program: TracedProgram
    arguments: tuple[np.ndarray, ...]
    shared: tuple[SharedVariable, ...]


class _Builder:
    """Adds random ops to a program that is being traced."""

    def __init__(self, draw: st.DrawFn, pool: list[Any], tame: bool, names: tuple[str, ...]) -> None:
        self.draw, self.pool, self.tame, self.names = draw, pool, tame, names

    def pick(self, accept: Callable[[Any], bool] = lambda x: True) -> Any:
        found = [x for x in self.pool if accept(x)]
        return self.draw(st.sampled_from(found)) if found else None

    def like(self, other: Any) -> Any:
        """Something of the shape and dtype of another."""
        return self.pick(lambda x: bool(x.shape == other.shape and x.dtype == other.dtype))

    def step(self, op: str) -> Any:
        """One op more, or `None` where nothing fits."""
        x = self.pick(lambda x: 0 not in x.shape) if op in ("max", "min", "argmax", "argmin") else self.pick()
        if x is None:
            return None
        if op in TAKES:
            kinds = [d for d in TAKES[op] if not self.tame or d.is_floating == x.dtype.is_floating]
            kinds = [d for d in kinds if not self.tame or op in (TAME_FLOAT if d.is_floating else TAME_OTHER)]
            if not kinds:
                return None
            if x.dtype not in kinds:
                x = xb.astype(x, self.draw(st.sampled_from(kinds)))
        if op in ELEMENTWISE:
            others = [self.partner(x) for _ in range(OPS[op].arity - 1)]
            return getattr(xb, op)(x, *others)
        if op in REDUCTIONS:
            axes = self.draw(st.lists(st.integers(0, x.ndim - 1), unique=True).map(tuple)) if x.ndim else ()
            keepdims = self.draw(st.booleans())
            extra = {"dtype": x.dtype} if op in ("sum", "prod") and self.draw(st.booleans()) else {}
            return getattr(xb, op)(x, axis=self.draw(st.sampled_from([axes, None])), keepdims=keepdims, **extra)
        return getattr(self, f"make_{op}")(x)

    def partner(self, x: Any) -> Any:
        """Something that broadcasts with x and has its dtype."""
        choice = self.draw(st.integers(0, 3))
        if choice == 0:
            fitting = self.pick(lambda y: y.shape == x.shape and y.dtype == x.dtype)
            return x if fitting is None else fitting
        if choice == 1 and x.ndim:
            return x[(slice(0, 1),) if x.shape[0] else ()]
        if choice == 2:
            return xb.full((), self.draw(st.integers(0, 3)), dtype=x.dtype)
        return self.draw(st.integers(1, 3)) if x.dtype.is_numeric else self.draw(st.booleans())

    def axis(self, x: Any) -> int:
        return self.draw(st.integers(-x.ndim, x.ndim - 1))

    def make_argmax(self, x: Any) -> Any:
        return xb.argmax(x, axis=self.axis(x) if x.ndim and self.draw(st.booleans()) else None)

    def make_argmin(self, x: Any) -> Any:
        return xb.argmin(x, axis=self.axis(x) if x.ndim else None, keepdims=self.draw(st.booleans()))

    def make_cumulative_sum(self, x: Any) -> Any:
        initial = self.draw(st.booleans())
        return xb.cumulative_sum(x, axis=self.axis(x), include_initial=initial) if x.ndim else None

    def make_cumulative_prod(self, x: Any) -> Any:
        return xb.cumulative_prod(x, axis=self.axis(x)) if x.ndim else None

    def make_sort(self, x: Any) -> Any:
        return xb.sort(x, axis=self.axis(x), descending=self.draw(st.booleans())) if x.ndim else None

    def make_argsort(self, x: Any) -> Any:
        return xb.argsort(x, axis=self.axis(x), descending=self.draw(st.booleans())) if x.ndim else None

    def make_searchsorted(self, x: Any) -> Any:
        side = self.draw(st.sampled_from(["left", "right"]))
        return xb.searchsorted(xb.sort(xb.reshape(x, (x.size,))), x, side=side)

    def make_diagonal(self, x: Any) -> Any:
        return xb.linalg.diagonal(x, offset=self.draw(st.integers(-2, 2))) if x.ndim > 1 else None

    def make_conv2d(self, x: Any) -> Any:
        if x.ndim != 2 or not x.size:
            return None
        padding = self.draw(st.sampled_from(["SAME", "VALID", 1]))
        return xb.conv2d(x[None, :, :, None], xb.ones((1, 1, 1, 2), dtype=x.dtype), padding=padding)

    def matrix(self, x: Any) -> Any:
        """A symmetric positive definite matrix of the dtype."""
        return xb.eye(2, dtype=x.dtype) * 2 + 0.5

    def make_cholesky(self, x: Any) -> Any:
        return xb.linalg.cholesky(self.matrix(x), upper=self.draw(st.booleans()))

    def make_inv(self, x: Any) -> Any:
        return xb.linalg.inv(self.matrix(x))

    def make_det(self, x: Any) -> Any:
        return xb.linalg.det(self.matrix(x))

    def make_slogdet(self, x: Any) -> Any:
        return self.draw(st.sampled_from(xb.linalg.slogdet(self.matrix(x))))

    def make_solve(self, x: Any) -> Any:
        return xb.linalg.solve(self.matrix(x), xb.ones((2, 3), dtype=x.dtype))

    def make_solve_triangular(self, x: Any) -> Any:
        return xb.linalg.solve_triangular(self.matrix(x), xb.ones((2,), dtype=x.dtype), lower=self.draw(st.booleans()))

    def make_eigh(self, x: Any) -> Any:
        return self.draw(st.sampled_from(xb.linalg.eigh(self.matrix(x))))

    def make_eigvalsh(self, x: Any) -> Any:
        return xb.linalg.eigvalsh(self.matrix(x))

    def make_svdvals(self, x: Any) -> Any:
        return xb.linalg.svdvals(self.matrix(x)[1:])

    def make_qr(self, x: Any) -> Any:
        return self.draw(st.sampled_from(xb.linalg.qr(self.matrix(x)[:, :1], mode="complete")))

    def make_svd(self, x: Any) -> Any:
        return self.draw(st.sampled_from(xb.linalg.svd(self.matrix(x)[:1], full_matrices=False)))

    def make_matmul(self, x: Any) -> Any:
        return xb.matmul(x, xb.matrix_transpose(x) if x.ndim > 1 else x) if x.ndim else None

    def make_reshape(self, x: Any) -> Any:
        return xb.reshape(x, self.draw(st.sampled_from([(-1,), (1, x.size), (x.size, 1, 1)]))) if x.size else None

    def make_permute_dims(self, x: Any) -> Any:
        return xb.permute_dims(x, self.draw(st.permutations(range(x.ndim))))

    def make_broadcast_to(self, x: Any) -> Any:
        return xb.broadcast_to(x, (self.draw(st.integers(0, 2) if not self.tame else st.just(2)), *x.shape))

    def make_concat(self, x: Any) -> Any:
        other = self.pick(lambda y: y.shape == x.shape and y.dtype == x.dtype)
        return xb.concat([x, other, x], axis=self.axis(x)) if x.ndim else xb.stack([x, other])

    def make_all_reduce(self, x: Any) -> Any:
        if not (x.dtype.is_floating or (x.dtype.is_numeric and not x.dtype.is_unsigned)):
            return None
        made = xb.all_reduce([x, xb.negative(x), x], "mean" if x.dtype.is_floating else "sum")
        return made[self.draw(st.integers(0, 2))]

    def make_stack(self, x: Any) -> Any:
        return xb.stack([x, x], axis=self.draw(st.integers(-x.ndim - 1, x.ndim)))

    def make_slice(self, x: Any) -> Any:
        return x[self.draw(keys(x.shape, nonempty=self.tame))]

    def indices(self, x: Any, shape: tuple[int, ...], axis: int) -> Any:
        """Integers for an axis, known ones or computed."""
        length = x.shape[axis]
        numbers = self.draw(st.lists(st.integers(-length, length - 1), min_size=prod(shape), max_size=prod(shape)))
        known = np.array(numbers, np.int64).reshape(shape)
        return known if self.draw(st.booleans()) else xb.asarray(known) + 0

    def make_take(self, x: Any) -> Any:
        if not (x.size and x.ndim):
            return None
        axis = self.axis(x)
        return xb.take(x, self.indices(x, (2,), axis), axis=axis)

    def make_take_along_axis(self, x: Any) -> Any:
        if not (x.size and x.ndim):
            return None
        axis = self.axis(x)
        shape = tuple(1 if a == axis % x.ndim else n for a, n in enumerate(x.shape))
        return xb.take_along_axis(x, self.indices(x, shape, axis), axis=axis)

    def make_slice_set(self, x: Any) -> Any:
        key = self.draw(keys(x.shape).filter(lambda key: None not in key))
        return xb.at(x)[key].set(x[key])

    def make_slice_add(self, x: Any) -> Any:
        key = self.draw(keys(x.shape).filter(lambda key: None not in key))
        return xb.at(x)[key].add(x[key]) if x.dtype.is_numeric else None

    def make_take_set(self, x: Any) -> Any:
        if not (x.ndim and x.shape[0] > 1):
            return None
        return xb.at(x)[self.draw(st.sampled_from([[0, 1], [1], [-1, 0]]))].set(x[:1])

    def make_take_add(self, x: Any) -> Any:
        if not (x.size and x.ndim and x.dtype.is_numeric):
            return None
        return xb.at(x)[self.indices(x, (2,), 0)].add(x[:1])

    def make_where(self, x: Any) -> Any:
        condition = self.pick(lambda y: y.dtype is DType.bool and y.shape == x.shape)
        return xb.where(xb.full((), True, dtype=xb.bool) if condition is None else condition, x, self.partner(x))

    def make_astype(self, x: Any) -> Any:
        if self.tame and x.dtype.is_floating:
            return xb.astype(x, self.draw(st.sampled_from(FLOATING)))
        return xb.astype(x, self.draw(st.sampled_from(DTYPES)))

    def make_transfer(self, x: Any) -> Any:
        return xb.to_device(x, self.draw(st.sampled_from(self.names or ("cpu:0",))))

    def make_constant(self, x: Any) -> Any:
        special = [0.0, -0.0, 1.5] if self.tame else [np.nan, np.inf, -np.inf, -0.0, 5e-324]
        return xb.asarray(np.array(special)) if x.dtype.is_floating else xb.asarray([[1, 2], [3, 4]], dtype=x.dtype)

    def make_full(self, x: Any) -> Any:
        return xb.full_like(x, self.draw(st.sampled_from([0, 1] if self.tame or not x.dtype.is_floating else [np.inf])))

    def make_arange(self, x: Any) -> Any:
        step = self.draw(st.sampled_from([1, 2] if x.dtype.is_unsigned else [1, 2, -1]))
        return xb.arange(0, 3 * step, step, dtype=x.dtype if x.dtype.is_numeric else None)

    def make_eye(self, x: Any) -> Any:
        return xb.eye(2, 3, k=self.draw(st.integers(-2, 3)), dtype=x.dtype)

    def make_grad(self, x: Any) -> Any:
        y = self.pick(lambda y: y.dtype.is_floating)
        try:
            return None if y is None or not x.dtype.is_floating else xb.grad(xb.sum(xb.square(x)), y)
        except GradientError:
            return None

    def make_scan(self, x: Any) -> Any:
        other = self.like(x)
        both = xb.scan(lambda c, e: (xb.where(c == x, e, c), c), other, xb.stack([x, other]))
        return both[self.draw(st.integers(0, 1))]

    def make_while_loop(self, x: Any) -> Any:
        other, steps = self.like(x), self.draw(st.integers(0, 2))
        state = (other, xb.asarray(0))
        return xb.while_loop(lambda s: s[1] < steps, lambda s: (xb.where(s[0] == x, other, x), s[1] + 1), state)[0]

    def make_cond(self, x: Any) -> Any:
        other = self.like(x)
        return xb.cond(xb.all(x == other), lambda a: a, lambda a: xb.where(a == x, other, a), x)

    def settled(self, x: Any) -> Any:
        """Bounded again, so that a long program neither overflows nor magnifies rounding."""
        if not self.tame or x.dtype is DType.bool:
            return x
        return xb.tanh(x) if x.dtype.is_floating else xb.remainder(x, 10)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...], nonempty: bool = False) -> tuple[Any, ...]:
    """A basic index into an array of the shape."""
    key: list[Any] = []
    for length in shape[: draw(st.integers(0, len(shape)))]:
        if length and draw(st.booleans()):
            key.append(draw(st.integers(-length, length - 1)))
            continue
        bound = st.none() if nonempty else st.none() | st.integers(-length - 2, length + 2)
        step = draw(st.sampled_from([None, 1, 2, 3, -1, -2, -5]))
        key.append(slice(draw(bound), draw(bound), step))
        if draw(st.booleans()):
            key.append(None)
    if draw(st.booleans()):
        key.append(Ellipsis)
    return tuple(key)


@st.composite
def mixed_keys(draw: st.DrawFn, shape: tuple[int, int, int]) -> tuple[Any, ...]:
    """An index into an array of the shape, as NumPy reads it: integers, slices, new axes, ``...``, and up to two arrays
    of integers with no slice between them."""
    key: list[Any] = [draw(st.one_of(st.integers(-n, n - 1), st.slices(n))) for n in shape]
    places = draw(st.sampled_from([(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]))
    lengths = draw(st.sampled_from([(), (2,), (2, 3), (0,)]))
    for axis in places:
        n = shape[axis]
        key[axis] = draw(arrays.arrays(np.int64, lengths, elements=st.integers(-n, n - 1)))
    if places == (0, 2):
        key[1] = draw(st.integers(-shape[1], shape[1] - 1))
    if draw(st.booleans()):
        key = key[: draw(st.integers(1, 3))]
    for item in draw(st.sampled_from([[], [None], [...], [None, ...], [None, None]])):
        key.insert(draw(st.integers(0, len(key))), item)
    return tuple(key)


def shapes(least: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(least, 3), max_size=3).map(tuple)


@st.composite
def programs(
    draw: st.DrawFn, names: tuple[str, ...] = (), tame: bool = False, grads: bool = False, largest: int = 12
) -> Case:
    """A random program over the whole op set, with devices drawn from ``names``.

    ``tame``: only ops by which rounding is not magnified, on arrays that are not empty, so that backends can be
    compared; ``grads``: with gradients in it.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    specs = draw(st.lists(st.tuples(shapes(int(tame)), st.sampled_from(DTYPES)), min_size=1, max_size=3))
    arguments = tuple(values(rng, shape, dtype) for shape, dtype in specs)
    state = draw(st.lists(st.tuples(shapes(int(tame)), st.sampled_from(DTYPES)), max_size=2))
    place = st.none() | st.sampled_from(names) if names else st.none()
    shared = tuple(
        xb.shared(values(rng, shape, dtype), name=f"w{i}", device=draw(place)) for i, (shape, dtype) in enumerate(state)
    )
    left_out = {"input", "shared", *CONTROL} | (set() if grads else {"grad"}) | (set() if names else {"transfer"})
    ops = [op for op in OPS if op not in left_out]
    if tame:
        ops = [*sorted(TAME_FLOAT), *sorted(TAME_OTHER), *MOVING, *(["transfer"] if names else [])]

    def function(*inputs: Any) -> Any:
        builder = _Builder(draw, [*inputs, *(xb.asarray(w) for w in shared)], tame, names)
        for op in draw(st.lists(st.sampled_from(ops), min_size=1, max_size=largest)):
            scope = draw(place)
            if scope is None:
                made = builder.step(op)
            else:
                with xb.device(scope):
                    made = builder.step(op)
            if made is not None and made.size <= 200:
                builder.pool.append(builder.settled(made))
        for variable in shared:
            xb.update(variable, builder.like(variable))
        outputs = draw(st.lists(st.sampled_from(builder.pool), min_size=1, max_size=4))
        forms: list[Any] = [tuple, list, lambda o: {"first": o[0], "rest": o[1:]}]
        return draw(st.sampled_from(forms))(outputs)

    return Case(xb.trace(function, *arguments), arguments, shared)
