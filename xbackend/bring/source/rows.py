"""Rows that the dialects share: each makes an op's expression from its operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from xbackend.bring.source.expressions import ATOM, Expr, call, ending, indexed, infix, listed, method, signed, tupled
from xbackend.bring.source.layout import Bracket
from xbackend.bring.source.names import NameScope
from xbackend.bring.source.writer import Use
from xbackend.program.dtypes import DType

SourceRow = Callable[[Use], Expr]


def floor_divide(rounded: Callable[[Expr], Expr]) -> SourceRow:
    """``//`` for frameworks that round the quotient of floats before they take its floor, so 1 // 0.1 would be 10."""

    def row(use: Use) -> Expr:
        if use.node.dtype.is_integer:
            return infix("//", *use.mixed)
        x, y = use.mixed
        return rounded(infix("/", infix("-", x, infix("%", x, y)), y))

    return row


def function(name: str) -> SourceRow:
    return lambda use: call(name, *use.mixed)


def of_arrays(name: str) -> SourceRow:
    """A call. Operands that are numbers have a dtype."""
    return lambda use: call(name, *use.arrays)


def operator(sign: str) -> SourceRow:
    return lambda use: infix(sign, *use.mixed)


def sign(text: str) -> SourceRow:
    return lambda use: signed(text, use.arrays[0])


OPERATORS: dict[str, SourceRow] = {
    **{"add": operator("+"), "subtract": operator("-"), "multiply": operator("*"), "divide": operator("/")},
    **{"floor_divide": operator("//"), "remainder": operator("%"), "negative": sign("-")},
    **{"less": operator("<"), "less_equal": operator("<="), "greater": operator(">"), "greater_equal": operator(">=")},
    **{"equal": operator("=="), "not_equal": operator("!="), "logical_not": sign("~"), "bitwise_invert": sign("~")},
    **dict.fromkeys(("logical_and", "bitwise_and"), operator("&")),
    **dict.fromkeys(("logical_or", "bitwise_or"), operator("|")),
    **dict.fromkeys(("logical_xor", "bitwise_xor"), operator("^")),
}
UNARY = (
    *("sign", "square", "floor", "ceil", "trunc", "round", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "abs", "isnan", "isinf", "isfinite"),
)
WRITING = ("slice_set", "slice_add", "take_set", "take_add")
ARCS = ("asin", "acos", "atan", "asinh", "acosh", "atanh")


def dtype_in(module: str, dtype: DType) -> str:
    """A dtype of a module with NumPy's names."""
    return f"{module}.bool_" if dtype is DType.bool else f"{module}.{dtype.value}"


def one_or_all(items: Sequence[int | str]) -> str:
    """The only item, or a tuple of all."""
    return str(items[0]) if len(items) == 1 else tupled(items)


def reduction(name: str, dtype: Callable[[Use], str | None] = lambda use: None) -> SourceRow:
    """A reduction. In the shape that keeps its axes with length 1 it is written with ``keepdims``."""

    def row(use: Use) -> Expr:
        before, over = use.avals[0].shape, use.params["axis"]
        options = {"axis": None if len(over) == len(before) else one_or_all(over), "dtype": dtype(use)}
        wide = tuple(1 if axis in over else n for axis, n in enumerate(before))
        kept_dims = call(name, use.arrays[0], **options, keepdims="True")
        made = call(name, use.arrays[0], **options)
        return replace(made, forms={wide: kept_dims}) if wide != use.shape else made

    return row


def along(name: str, dtype: Callable[[Use], str | None] = lambda use: None, **options: str) -> SourceRow:
    return lambda use: call(name, use.arrays[0], axis=use.params["axis"], dtype=dtype(use), **options)


def slices(use: Use, drop: Sequence[int] | None = None) -> list[str]:
    """The index of a slice op, without whole axes at the end."""
    params = use.params
    dropped = params.get("drop", ()) if drop is None else drop
    each = zip(use.avals[0].shape, params["starts"], params["stops"], params["steps"], strict=True)
    return _cut(str(one[1]) if axis in dropped else _part(*one) for axis, one in enumerate(each))


def _cut(items: Iterable[str]) -> list[str]:
    """An index without whole axes at the end."""
    found = list(items)
    while len(found) > 1 and found[-1] == ":":
        found.pop()
    return found


def _part(n: int, start: int, stop: int | None, step: int) -> str:
    """A slice of an axis of ``n`` elements."""
    first = start == 0 if step > 0 else start == n - 1
    last = stop == n if step > 0 else stop is None
    text = f"{'' if first else start}:{'' if last else stop}"
    return text if step == 1 else f"{text}:{step}"


def sliced(use: Use) -> Expr:
    items = slices(use)
    return indexed(use.operands[0], *items) if items else use.arrays[0]


def place(use: Use) -> list[str]:
    """The index of a take op."""
    return [":"] * use.params["axis"] + [use.operands[1].text]


def written_place(use: Use) -> list[str]:
    """The index of an op that writes; empty for an array without axes."""
    return place(use) if use.node.op.startswith("take") else slices(use, ())


def taken(use: Use) -> Expr:
    return indexed(use.operands[0], *place(use))


def new_axes(before: tuple[int, ...], after: tuple[int, ...]) -> list[str] | None:
    """The index that adds axes of length 1; `None` if a reshape does more."""
    items, rest = list[str](), list(before)
    for n in after:
        if rest and rest[0] == n:
            items.append(":")
            rest.pop(0)
        elif n == 1:
            items.append("None")
        else:
            return None
    return None if rest or len(after) <= len(before) else _cut(items)


def reshaped(squeeze: str, reshape: Callable[[Expr, tuple[int, ...]], Expr]) -> SourceRow:
    """A reshape: the operand's form in that shape, an index with new axes, a squeeze, or else a call of ``reshape``."""

    def row(use: Use) -> Expr:
        (x,), before = use.operands, use.avals[0].shape
        if use.shape in x.forms:
            return x.forms[use.shape]
        added = new_axes(before, use.shape)
        if added is not None:
            expr = indexed(x, *added)
            is_vector = len(before) == 1 and len(use.shape) == 2
            return replace(expr, vector=x, forms={before: x}) if is_vector else expr
        dropped = new_axes(use.shape, before)
        if dropped is not None:
            return call(squeeze, x.array, axis=one_or_all([a for a, item in enumerate(dropped) if item == "None"]))
        return reshape(x.array, use.shape)

    return row


Product = Callable[[Expr, Expr], Expr]


def times(a: Expr, b: Expr) -> Expr:
    return infix("@", a, b)


def product(of_vector: Product = times, vector_of: Product = times, of_vectors: Product = times) -> SourceRow:
    """A product of matrices. If an operand is a vector reshaped to a row or a column, the product has a form with the
    vector itself: a matrix by a vector, a vector by a matrix, or two vectors."""

    def row(use: Use) -> Expr:
        (a, b), plain = use.arrays, times(*use.arrays)
        if len(use.shape) != 2:
            return plain
        (rows, inner), (_, columns) = use.avals[0].shape, use.avals[1].shape
        left = use.operands[0].vector if rows == 1 and inner != 1 else None
        right = use.operands[1].vector if columns == 1 and inner != 1 else None
        if left is not None and right is not None:
            return replace(plain, forms={(): of_vectors(left, right)})
        if right is not None:
            return replace(plain, forms={(rows,): of_vector(a, right)})
        return plain if left is None else replace(plain, forms={(columns,): vector_of(left, b)})

    return row


def joined(name: str) -> SourceRow:
    return lambda use: call(name, listed(use.arrays), axis=use.params["axis"])


def sided(name: str) -> SourceRow:
    """`searchsorted`."""
    return lambda use: call(name, *use.arrays, side='"right"' if use.params["right"] else None)


def where(name: str) -> SourceRow:
    """`where`. Of two numbers the first has a dtype."""

    def row(use: Use) -> Expr:
        first, second = use.operands[1:]
        return call(name, use.arrays[0], first.array if second.number else first, second)

    return row


def transposed(other: Callable[[Expr, tuple[int, ...]], Expr]) -> SourceRow:
    """A permutation of axes: ``.T`` of a matrix, else ``other``."""

    def row(use: Use) -> Expr:
        (x,), axes = use.arrays, tuple(use.params["axes"])
        return Expr(f"{x.at(ATOM)}.T") if axes == (1, 0) else other(x, axes)

    return row


def window_sum(use: Use) -> Expr:
    """`conv2d` as a sum over the kernel's positions: each has a product with the pixels under it."""
    images, kernel = (one.at(ATOM) for one in use.arrays)
    (down, across), (_, rows, columns, _) = use.params["strides"], use.shape
    height, width = use.avals[1].shape[:2]
    free = NameScope(re.findall(r"\w+", f"{images} {kernel}"))
    i, j = free.new("i"), free.new("j")
    row = f"{i} : {i} + {(rows - 1) * down + 1}{f' : {down}' if down > 1 else ''}"
    column = f"{j} : {j} + {(columns - 1) * across + 1}{f' : {across}' if across > 1 else ''}"
    term = f"{images}[:, {row}, {column}] @ {kernel}[{i}, {j}]"
    loops = f"for {i} in range({height})", f"for {j} in range({width})"
    return ending(Bracket("sum(", (term, *loops), ")", separator=" "))


FACTORS = ("cholesky", "inv", "det", "slogdet", "solve", "eigh", "eigvalsh")


def as_numpy(module: str, int32: str, special: str, triangular: str) -> dict[str, SourceRow]:
    """The rows of a module whose functions have the names and arguments of NumPy's.

    ``int32`` is that dtype, ``special`` has the special functions, and ``triangular`` solves triangular equations.
    """

    def kept(use: Use) -> str | None:
        """The dtype of sums and products of int32, which would be int64."""
        return int32 if use.node.dtype is DType.int32 else None

    return {
        **{name: function(f"{module}.{name}") for name in (*UNARY, "maximum", "minimum")},
        **{name: function(f"{module}.{name.replace('a', 'arc', 1)}") for name in (*ARCS, "atan2")},
        **{name: function(f"{special}.{name}") for name in ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit")},
        "pow": function(f"{module}.power"),
        **OPERATORS,
        "where": where(f"{module}.where"),
        **{name: reduction(f"{module}.{name}", dtype=kept) for name in ("sum", "prod")},
        **{name: reduction(f"{module}.{name}") for name in ("max", "min", "mean", "any", "all")},
        **{name: along(f"{module}.{name}") for name in ("argmax", "argmin", "sort")},
        "argsort": along(f"{module}.argsort", kind='"stable"'),
        "cumulative_sum": along(f"{module}.cumsum", kept),
        "cumulative_prod": along(f"{module}.cumprod", kept),
        "searchsorted": sided(f"{module}.searchsorted"),
        "reshape": reshaped(f"{module}.squeeze", lambda x, shape: method(x, "reshape", tupled(shape))),
        "broadcast_to": lambda use: call(f"{module}.broadcast_to", use.arrays[0], tupled(use.shape)),
        "diagonal": lambda use: call(
            f"{module}.diagonal", use.arrays[0], offset=use.params["offset"] or None, axis1=-2, axis2=-1
        ),
        "slice": sliced,
        "take": taken,
        "take_along_axis": lambda use: call(f"{module}.take_along_axis", *use.arrays, axis=use.params["axis"]),
        "concat": joined(f"{module}.concatenate"),
        "stack": joined(f"{module}.stack"),
        "astype": lambda use: method(use.arrays[0], "astype", dtype_in(module, use.node.dtype)),
        "matmul": product(),
        "conv2d": window_sum,
        **{name: of_arrays(f"{module}.linalg.{name}") for name in FACTORS},
        "solve_triangular": lambda use: call(triangular, *use.arrays, lower="True" if use.params["lower"] else None),
        "svdvals": lambda use: call(f"{module}.linalg.svd", use.arrays[0], compute_uv="False"),
        "svd": lambda use: call(f"{module}.linalg.svd", use.arrays[0], full_matrices=str(bool(use.params["full"]))),
        "qr": lambda use: call(f"{module}.linalg.qr", use.arrays[0], mode='"complete"' if use.params["full"] else None),
    }
