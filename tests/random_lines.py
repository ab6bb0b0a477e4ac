"""The lines of random programs: for each family of ops its code, and when its result is tame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from strategies import DTYPES, ELEMENTWISE, FLOATING, REDUCTIONS, SIGNED, TAKES, keys

from xbackend.program.dtypes import DType
from xbackend.program.ops import OPS

if TYPE_CHECKING:
    from random_programs import Builder, Value

Make = Callable[["Builder"], object]
MARGIN = 0.01  # how far numbers stay from a jump or a kink
NUMBERS = (0.37, -0.61, 1.3)

# The domain in which a function of one number is defined and moderate, and code that brings others into it.
_POSITIVE, _INSIDE = "(xb.square({}) + 0.5)", "(xb.tanh({}) * 0.8)"
DOMAINS: dict[str, tuple[float, float, str]] = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "gammaln", "digamma"), (0.2, 20.0, _POSITIVE)),
    "log1p": (-0.8, 20.0, _POSITIVE),
    "acosh": (1.2, 20.0, "(xb.square({}) + 1.5)"),
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.9, 0.9, _INSIDE)),
    **dict.fromkeys(("tan", "exp", "expm1", "sinh", "cosh", "erfc"), (-1.3, 1.3, _INSIDE)),
}
# Distances of numbers from a jump or a kink.
_integers = lambda x: np.abs(x - np.round(x))  # noqa: E731
_difference = lambda x, y: np.abs(x - y)  # noqa: E731
DISTANCES: dict[str, Callable[..., np.ndarray]] = {
    **dict.fromkeys(("abs", "sign"), np.abs),
    **dict.fromkeys(("floor", "ceil", "trunc"), _integers),
    "round": lambda x: np.abs(x - np.floor(x) - 0.5),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _difference),
    **dict.fromkeys(("maximum", "minimum"), _difference),
    "atan2": lambda y, x: np.abs(y),
    "divide": lambda x, y: np.abs(y) - 0.1,
    **dict.fromkeys(("floor_divide", "remainder"), lambda x, y: np.minimum(np.abs(y) - 0.1, _integers(x / y))),
    "pow": lambda x, y: np.minimum(x - 0.1, 5.0 - np.abs(y)),
}


def far(b: Builder, distances: Any) -> None:
    """Raises `RejectedError` if a number is near a jump or a kink."""
    b.require(not b.tame or bool((np.asarray(distances) > MARGIN).all()))


def spread(*arrays: np.ndarray) -> bool:
    """Whether no two numbers are near each other. The order of integers is known anyway."""
    if arrays[0].dtype.kind != "f":
        return True
    numbers = np.sort(np.concatenate([a.ravel().astype("f8") for a in arrays]))
    return bool((np.diff(numbers) > MARGIN).all())


def kind(dtype: DType) -> int:
    return 2 if dtype.is_floating else int(dtype.is_integer)


def dtype_of(x: Value) -> str:
    return f"xb.{x.dtype}"


def broadcasts(*shapes: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(*shapes)) <= 3
    except ValueError:
        return False


def partner(b: Builder, x: Value, takes: tuple[DType, ...]) -> tuple[str, np.ndarray]:
    """The other operand of an op of two arrays, as text and as numbers."""
    if b.number(0, 3):
        y = b.pick(lambda y: kind(y.dtype) == kind(x.dtype) and y.dtype in takes and broadcasts(x.shape, y.shape))
        return str(y), y.array
    number: Any = b.one(True, False)
    if x.dtype.is_numeric:
        number = b.number(1, 3) if x.dtype.is_integer else b.one(*NUMBERS)
    return str(number), np.asarray(number)


def elementwise(b: Builder, op: str | None = None) -> None:
    op = op or b.one(*ELEMENTWISE)
    x = b.of(TAKES[op])
    if OPS[op].arity == 2:
        other, array = partner(b, x, TAKES[op])
        if x.dtype.is_integer and b.tame and op in ("floor_divide", "remainder", "pow"):
            other, array = b.one(("2", np.asarray(2)), ("3", np.asarray(3)))
        if x.dtype.is_floating and op in DISTANCES:
            with np.errstate(all="ignore"):
                far(b, DISTANCES[op](x.array.astype("f8"), array.astype("f8")))
        b.let(f"xb.{op}({x}, {other})")
        return
    text = str(x)
    if b.tame and op in DOMAINS:
        low, high, inside = DOMAINS[op]
        text = text if ((x.array > low) & (x.array < high)).all() else inside.format(x)
    elif x.dtype.is_floating and op in DISTANCES:
        far(b, DISTANCES[op](x.array.astype("f8")))
    b.let(f"xb.{op}({text})")


COMPOSED = (
    *("logaddexp", "hypot", "copysign", "clip", "logsumexp"),
    *("var", "std", "signbit", "reciprocal", "log1mexp"),
)


def composed(b: Builder) -> None:
    """Functions composed of several ops."""
    x = b.of(FLOATING)
    other, array = partner(b, x, FLOATING)
    name = b.one(*COMPOSED)
    if name in ("logaddexp", "hypot", "copysign"):
        far(b, np.minimum(np.abs(x.array), np.abs(array)) if name != "logaddexp" else 1.0)
        b.let(f"xb.{name}({x}, {other})")
    elif name == "clip":
        far(b, [np.abs(np.abs(x.array) - 0.5).min(initial=1.0)])
        b.let(f"xb.clip({x}, -0.5, 0.5)")
    elif name == "log1mexp":
        b.let(f"xb.log1mexp(-xb.square({x}) - 0.3)")
    elif name in ("signbit", "reciprocal"):
        far(b, np.abs(x.array) - 0.1)
        b.let(f"xb.{name}({x})")
    else:
        b.require(x.size > 1)
        far(b, np.ptp(x.array) if name == "std" else 1.0)
        axis = axis_of(b, x) if x.ndim and name == "logsumexp" and 0 not in x.shape else None
        b.let(f"xb.{name}({x}, axis={axis}, keepdims={b.one(True, False)})")


def axis_of(b: Builder, x: Value) -> int:
    b.require(x.ndim)
    return b.number(-x.ndim, x.ndim - 1)


def reduction(b: Builder, op: str | None = None) -> None:
    op = op or b.one(*REDUCTIONS)
    ordered = op in ("max", "min")
    x = b.of(TAKES[op], lambda x: x.size if ordered or (b.tame and op == "mean") else True)
    b.require(not b.tame or op != "prod" or x.dtype.is_floating or np.abs(x.array).astype("f8").prod() < 1e6)
    axes = [a for a in range(x.ndim) if b.one(True, False)]
    axis = b.one(None, tuple(axes), axes[0] if axes else None)
    extra = f", dtype=xb.{x.dtype}" if op in ("sum", "prod") and b.one(True, False) else ""
    b.let(f"xb.{op}({x}, axis={axis}, keepdims={b.one(True, False)}{extra})", smooth=not ordered or spread(x.array))


def position(b: Builder, op: str | None = None) -> None:
    op = op or b.one("argmax", "argmin", "argsort", "sort", "searchsorted")
    x = b.of(SIGNED[1:], lambda x: x.ndim and x.size)
    apart = spread(x.array)
    b.require(apart or not b.tame or op == "sort")
    if op in ("argmax", "argmin"):
        b.let(f"xb.{op}({x}, axis={b.one(None, axis_of(b, x))}, keepdims={b.one(True, False)})")
    elif op == "searchsorted":
        y = b.pick(lambda y: y.dtype is x.dtype)
        b.require(not b.tame or spread(x.array, y.array))
        b.let(f"xb.searchsorted(xb.sort(xb.reshape({x}, (-1,))), {y}, side={b.one('left', 'right')!r})")
    else:
        b.let(f"xb.{op}({x}, axis={axis_of(b, x)}, descending={b.one(True, False)})", smooth=apart)


def cumulative(b: Builder, op: str | None = None) -> None:
    op = op or b.one("cumulative_sum", "cumulative_prod")
    x = b.of(TAKES[op], lambda x: x.ndim)
    b.require(not b.tame or op == "cumulative_sum" or x.dtype.is_floating or np.abs(x.array).astype("f8").prod() < 1e6)
    b.let(f"xb.{op}({x}, axis={axis_of(b, x)}, include_initial={b.one(True, False)})")


def product(b: Builder, op: str | None = None) -> None:
    x = b.of(TAKES["matmul"], lambda x: x.ndim)
    if x.ndim > 1 and b.one(True, False):
        b.let(f"xb.matmul({x}, xb.matrix_transpose({x}))")
        return
    y = b.pick(lambda y: kind(y.dtype) == kind(x.dtype) and y.dtype in TAKES["matmul"] and _multiplies(x, y))
    b.let(f"xb.matmul({x}, {y})")


def _multiplies(x: Value, y: Value) -> bool:
    try:
        np.matmul(x.array, y.array)
    except ValueError:
        return False
    return True


MOVING = ("reshape", "permute_dims", "broadcast_to", "concat", "stack", "flip", "roll", "repeat", "tile", "tril")


def moving(b: Builder, op: str | None = None) -> None:
    """Ops that only move elements."""
    op = op or b.one(*MOVING)
    x = b.pick(lambda x: x.ndim > 1 if op == "tril" else x.ndim or op in ("reshape", "broadcast_to", "stack"))
    axis = axis_of(b, x) if x.ndim else 0
    if op == "reshape":
        b.let(f"xb.reshape({x}, {b.one((x.size,), (1, x.size), (x.size, 1, 1), x.shape[::-1])})")
    elif op == "permute_dims":
        b.let(f"xb.permute_dims({x}, {b.one(tuple(range(x.ndim))[::-1], tuple(np.roll(range(x.ndim), 1).tolist()))})")
    elif op == "broadcast_to":
        b.require(x.ndim < 3)
        b.let(f"xb.broadcast_to({x}, {(b.number(0, 2), *x.shape)})")
    elif op in ("concat", "stack"):
        y = b.pick(lambda y: (y.shape, y.dtype) == (x.shape, x.dtype))
        b.let(f"xb.{op}([{x}, {y}], axis={axis})")
    elif op in ("repeat", "roll"):
        b.let(f"xb.{op}({x}, {b.number(1, 2)}, axis={axis})")
    elif op == "tile":
        b.let(f"xb.tile({x}, {(2,) * x.ndim})")
    else:
        b.let(f"xb.flip({x}, axis={axis})" if op == "flip" else f"xb.{b.one('tril', 'triu')}({x}, k={b.number(-1, 1)})")


def indices(b: Builder, length: int, count: int, unique: bool = False) -> str:
    """Integers for an axis, constant or computed."""
    b.require(length >= (count if unique else 1))
    if unique:
        first = b.number(0, length - 1)
        numbers = [(first + i) % length - b.one(0, length) for i in range(count)]
    else:
        numbers = [b.number(-length, length - 1) for _ in range(count)]
    computed = [x for x in b.values if x.dtype in (DType.int32, DType.int64) and x.shape == (count,)]
    if computed and not unique and b.one(True, False):
        return f"xb.remainder({b.one(*computed)}, {length})"
    known = f"np.array({numbers})" if numbers else "np.zeros(0, 'int64')"
    return b.one(known, f"(xb.asarray({known}) + 0)")


def index(b: Builder, x: Value, unique: bool = False, new: bool = True) -> str:
    """An index: slices and numbers; or also an array of integers, or a computed number."""
    if not (x.ndim and x.size) or b.one(True, False):
        key = b.draw(keys(x.shape).filter(lambda key: new or None not in key))
        return ", ".join(_text(part) for part in key) + "," if key else "()"
    axis = b.number(0, x.ndim - 1)
    beside = ["0" if x.shape[a] and b.number(0, 3) == 0 else ":" for a in range(axis)]
    number = f"xb.remainder({i}, {x.shape[axis]})" if (i := _counter(b)) else "-1"
    chosen = b.one(indices(b, x.shape[axis], b.number(1, min(2, x.shape[axis])), unique), number)
    return ", ".join([*beside, chosen])


def _counter(b: Builder) -> Value | None:
    found = [x for x in b.values if x.dtype in (DType.int32, DType.int64) and x.shape == ()]
    return b.one(*found) if found else None


def _text(part: Any) -> str:
    if not isinstance(part, slice):
        return "..." if part is Ellipsis else str(part)
    start, stop, step = ("" if n is None else str(n) for n in (part.start, part.stop, part.step))
    return f"{start}:{stop}" + (f":{step}" if step else "")


def reading(b: Builder, op: str | None = None) -> None:
    op = op or b.one("slice", "slice", "take", "take_along_axis", "diagonal")
    x = b.pick(lambda x: x.ndim > 1 if op == "diagonal" else x.ndim)
    axis = axis_of(b, x)
    if op == "slice":
        b.let(f"{x}[{index(b, x)}]")
    elif op == "diagonal":
        b.let(f"xb.linalg.diagonal({x}, offset={b.number(-2, 2)})")
    elif op == "take":
        b.let(f"xb.take({x}, {indices(b, x.shape[axis], b.number(0, 2))}, axis={axis})")
    else:
        b.require(x.size)
        shape = tuple(1 if a == axis % x.ndim else n for a, n in enumerate(x.shape))
        count = int(np.prod(shape))
        b.let(f"xb.take_along_axis({x}, xb.reshape({indices(b, x.shape[axis], count)}, {shape}), axis={axis})")


def writing(b: Builder, how: str | None = None) -> None:
    how = how or b.one("set", "add")
    x = b.pick(lambda x: x.dtype.is_numeric or how == "set")
    key = index(b, x, unique=how == "set", new=False)
    number = b.one(*NUMBERS) if x.dtype.is_floating else b.number(0, 3) if x.dtype.is_integer else True
    value = b.one(f"{x}[{key}]", f"xb.flip({x})[{key}]", str(number))
    b.let(f"xb.at({x})[{key}].{how}({value})")


def where(b: Builder) -> None:
    x = b.pick()
    other, array = partner(b, x, DTYPES)
    condition = b.of((DType.bool,), lambda y: broadcasts(x.shape, array.shape, y.shape))
    b.let(f"xb.where({condition}, {x}, {other})")


def cast(b: Builder) -> None:
    x = b.pick()
    dtype = b.one(*b.dtypes)
    if b.tame and x.dtype.is_floating and not dtype.is_floating:
        far(b, np.abs(x.array) if dtype is DType.bool else _integers(x.array))
        b.require(not dtype.is_unsigned or (x.array > 0).all())
    b.let(f"xb.astype({x}, xb.{dtype})")


def source(b: Builder, op: str | None = None) -> None:
    op = op or b.one("constant", "full", "arange", "eye")
    x = b.pick()
    if op == "constant":
        special = "[0.0, -0.0, 1.5]" if b.tame else "[np.nan, np.inf, -np.inf, -0.0, 5e-324]"
        b.let(f"xb.asarray(np.array({special if x.dtype.is_floating else '[[1, 2], [3, 4]]'}), dtype={dtype_of(x)})")
    elif op == "full":
        number = b.one("0", "1") if x.dtype.is_numeric else "True"
        b.let(f"xb.full_like({x}, {number if b.tame or not x.dtype.is_floating else 'np.inf'})")
    elif op == "arange":
        b.require(x.dtype.is_numeric)
        step = b.one(1, 2) if x.dtype.is_unsigned else b.one(1, 2, -1)
        b.let(f"xb.arange(0, {3 * step}, {step}, dtype={dtype_of(x)})")
    else:
        b.let(f"xb.eye(2, 3, k={b.number(-2, 3)}, dtype={dtype_of(x)})")


def device(b: Builder) -> None:
    x = b.pick()
    b.let(f"xb.to_device({x}, {b.one(*b.names)!r})")


def collective(b: Builder) -> None:
    x = b.of(tuple(d for d in SIGNED if d.is_numeric))
    y = b.pick(lambda y: (y.shape, y.dtype) == (x.shape, x.dtype))
    b.let(f"xb.all_reduce([{x}, {y}], {b.one('sum', 'mean') if x.dtype.is_floating else 'sum'!r})", count=2)


def matrix(b: Builder, symmetric: bool = False) -> Value:
    """A line with a square matrix. Its singular values (eigenvalues) lie well apart between 1.5 and 6."""
    x = b.of(FLOATING, lambda x: x.size)
    n = b.one(1, 2, 2, 3)
    places = [b.number(0, x.size - 1) for _ in range(n * n)]
    numbers = f"xb.tanh(xb.reshape(xb.take(xb.reshape({x}, ({x.size},)), np.array({places})), ({n}, {n}))) * 0.1"
    made = b.let(numbers if b.tame else f"xb.zeros(({n}, {n}), dtype={dtype_of(x)})")
    whole = f"({made} + {made}.T)" if symmetric else str(made)
    return b.let(f"{whole} + xb.asarray(np.diag({[2.0, 3.5, 5.5][:n]}), dtype={dtype_of(made)})")


# With a matrix for {m}. Frameworks differ in the signs of vectors; squares have none.
FACTORS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "cholesky": (True, ("xb.linalg.cholesky({m})", "xb.linalg.cholesky({m}, upper=True)")),
    "inv": (False, ("xb.linalg.inv({m})",)),
    "det": (False, ("xb.linalg.det({m})", "xb.linalg.det(xb.stack([{m}, -{m}]))")),
    "slogdet": (False, ("xb.linalg.slogdet(-{m})",)),
    "solve": (False, ("xb.linalg.solve({m}, {m}.T)", "xb.linalg.solve({m}, {m}[:, 0])")),
    "solve_triangular": (
        False,
        ("xb.linalg.solve_triangular({m}, {m}.T, lower=True)", "xb.linalg.solve_triangular({m}, {m}[0])"),
    ),
    "eigh": (True, ("(lambda e: e[0] * xb.square(e[1]))(xb.linalg.eigh({m}))",)),
    "eigvalsh": (True, ("xb.linalg.eigvalsh({m})", "xb.linalg.eigvalsh(xb.stack([{m}, {m} * 0.5]))")),
    "svdvals": (False, ("xb.linalg.svdvals({m})", "xb.linalg.svdvals({m}[:, :1])")),
    "qr": (
        False,
        (
            "(lambda q: xb.square(q[0]) @ xb.square(q[1]))(xb.linalg.qr({m}))",
            "xb.square(xb.linalg.qr({m}[:, :1], mode='complete')[1])",
            "xb.square(xb.linalg.qr({m}[:1])[1])",
        ),
    ),
    "svd": (
        False,
        (
            "(lambda s: (xb.square(s[0]) * s[1]) @ xb.square(s[2]))(xb.linalg.svd({m}, full_matrices=False))",
            "xb.square(xb.linalg.svd({m})[0])",
        ),
    ),
    "pinv": (False, ("xb.linalg.pinv({m})",)),
    "matrix_norm": (False, ("xb.linalg.matrix_norm({m})",)),
}
WITHOUT_GRADIENT = ("mode='complete'", "[:1])[1])", "svd({m})")  # a wide or complete qr, and the whole svd


def factors(b: Builder, op: str | None = None) -> None:
    symmetric, texts = FACTORS[op or b.one(*FACTORS)]
    text = b.one(*texts)
    made = text.format(m=matrix(b, symmetric))
    b.let(made, 2 if "slogdet" in text else 1, smooth=not any(part in text for part in WITHOUT_GRADIENT))


def convolution(b: Builder) -> None:
    x = b.of(FLOATING, lambda x: x.ndim == 2 and x.size)
    kernel = b.one("xb.ones((1, 1, 1, 2), dtype={})", "xb.reshape(xb.linspace(-0.5, 1.0, 4, dtype={}), (2, 2, 1, 1))")
    padding, strides = b.one("SAME", 1), b.one(1, 2, (1, 2))
    b.let(f"xb.conv2d({x}[None, :, :, None], {kernel.format(dtype_of(x))}, padding={padding!r}, strides={strides})")


def expression(b: Builder, names: tuple[str, ...], floating: bool, depth: int = 2) -> str:
    """A smooth function of the names, or one on integers."""
    one = str(b.one(*names))
    if depth == 0:
        return one
    first, second = (expression(b, names, floating, depth - 1) for _ in range(2))
    if not floating:
        return b.one(f"({first} + {second})", f"(3 * {first} - {second})", f"xb.where({first} > {second}, {first}, 2)")
    low, high = b.one(*NUMBERS), b.one(*NUMBERS)
    choice = f"xb.cond(xb.sum({first}) > {low}, lambda a: xb.sin(a), lambda a: a * {high}, {second})"
    return b.one(
        f"xb.tanh({first})",
        f"({first} * {low} + {high})",
        f"({first} + {second})",
        f"({first} * {second})",
        f"xb.exp(-xb.square({first}))",
        f"xb.where({first} > {second} * 0.7 + {low}, {first}, xb.sin({second}))",
        f"xb.maximum({first}, {second} * 0.7 + {low})",
        choice,
    )


def following(b: Builder, x: Value, carry: str, *names: str) -> str:
    """The next carry of a loop: of its shape and dtype, and moderate."""
    if x.dtype is DType.bool:
        return f"xb.logical_xor({carry}, {names[-1] if names else carry})"
    if x.dtype.is_integer:
        return f"xb.remainder({carry} * 3 + {names[-1] if names else 2}, 17)"
    return f"xb.tanh({carry} * 0.6 + {expression(b, (carry, *names), True)})"


def around(b: Builder, x: Value, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Values outside of a loop that fit its carry."""
    fitting = [str(y) for y in b.values if y.dtype is x.dtype and y.shape in ((), shape) and y.dtype.is_floating]
    return tuple(fitting[-2:]) if b.one(True, False) else ()


def begin(b: Builder, x: Value, shape: tuple[int, ...]) -> str:
    found = [str(y) for y in b.values if (y.shape, y.dtype) == (shape, x.dtype)]
    return b.one(*found) if found else f"xb.zeros({shape}, dtype={dtype_of(x)})"


def scan(b: Builder) -> None:
    x = b.pick(lambda x: x.ndim)
    shape, length = x.shape[1:], x.shape[0]
    init, outer = begin(b, x, shape), around(b, x, shape)
    step = following(b, x, "c", *outer, "e")
    more = f", reverse={b.one(True, False)}"
    forms = ["one", "pair", "length", "nested", "index"]
    form = b.one(*forms, *(["gradient"] if x.dtype.is_floating else []))
    if form == "one":
        if b.one(True, False):
            b.let(f"xb.scan(lambda c, e: ({step}, {b.one('c', 'e', step)}), {init}, {x}{more})", 2)
        else:
            b.let(f"xb.scan(lambda c, e: ({step}, None), {init}, {x}{more})[0]")
    elif form == "pair":
        pair = f"lambda s, e: ((s[1], {following(b, x, 's[0]', 's[1]', 'e')}), {{'y': s[0]}})"
        b.let(f"(lambda r: [*r[0], r[1]['y']])(xb.scan({pair}, ({init}, {begin(b, x, shape)}), {x}{more}))", 3)
    elif form == "length":
        b.let(f"xb.scan(lambda c, _: ({following(b, x, 'c', *outer)}, c), {init}, length={b.number(0, 3)})", 2)
    elif form == "nested":
        inner = f"xb.scan(lambda d, _: ({following(b, x, 'd', 'e')}, None), c, length=2)[0]"
        b.let(f"xb.scan(lambda c, e: ({inner}, c), {init}, {x}{more})", 2)
    elif form == "index":
        b.require(length)
        written = f"xb.at({x})[i].set(c)"
        step = following(b, x, "c", f"{x}[i]")
        b.let(f"xb.scan(lambda c, i: ({step}, {b.one('c', written)}), {init}, xb.arange({length}){more})", 2)
    else:
        slope = "xb.grad(xb.sum(xb.square(xb.sin(c) - e)), c)"
        b.let(f"xb.scan(lambda c, e: (c - 0.1 * {slope}, xb.sum(c)), {init}, {x}{more})", 2)


def while_loop(b: Builder) -> None:
    x = b.pick(lambda x: x.ndim < 3)
    steps = str(b.one(_counter(b) or 2, 0, 3))
    limit = f"s[1] < {steps}" if steps.isdigit() else f"s[1] < xb.remainder({steps}, 4)"
    step = following(b, x, "s[0]", *around(b, x, x.shape))
    b.let(
        f"xb.while_loop(lambda s: {limit}, lambda s: ({step}, s[1] + 1), ({x}, xb.asarray(0)))",
        count=2,
        smooth=False,
    )


def cond(b: Builder) -> None:
    x = b.pick()
    booleans = [y for y in b.values if y.dtype is DType.bool]
    predicate = f"xb.all({b.one(*booleans)})" if booleans else "xb.asarray(True)"
    y = b.of(FLOATING)
    if b.one(True, False):
        far(b, np.abs(y.array.astype("f8").sum() - 0.37))
        predicate = f"xb.sum({y}) > 0.37"
    outer = around(b, x, x.shape)
    branches = (following(b, x, "a", *outer), following(b, x, "a"))
    b.let(f"xb.cond({predicate}, lambda a: {branches[0]}, lambda a: {branches[1]}, {x})")


def gradient(b: Builder) -> None:
    x = b.of(FLOATING)
    b.let(f"xb.grad(xb.sum(xb.sin({x}) * {expression(b, (str(x),), True)}), {x})")


# The makers of lines with their shares, the relative frequency of each.
SHARES: dict[Make, int] = {
    **{elementwise: 8, composed: 1, reduction: 2, position: 1, cumulative: 1, product: 1, moving: 2, reading: 2},
    **{writing: 2, where: 1, cast: 2, source: 1, collective: 1, factors: 4, convolution: 1, scan: 2, while_loop: 1},
    cond: 2,
}


def families(grads: bool, devices: bool) -> list[Make]:
    """The makers of lines, each as often as its share."""
    made = [make for make, share in SHARES.items() for _ in range(share)]
    return made + [gradient] * grads + [device] * devices
