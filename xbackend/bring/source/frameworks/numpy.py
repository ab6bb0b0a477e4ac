"""NumPy as its users write it: arrays that are written into, loops of Python. It has no gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xbackend.bring.source import functions
from xbackend.bring.source.dialect import Dialect, shape_of, unbared
from xbackend.bring.source.expressions import Expr, call, method, named
from xbackend.bring.source.layout import Block, Bracket, Line
from xbackend.bring.source.rows import (
    ARCS,
    OPERATORS,
    UNARY,
    Row,
    along,
    as_numpy,
    by_method,
    function,
    of_arrays,
    place,
    reduction,
    reshaped,
    sided,
    sliced,
    slices,
    taken,
)
from xbackend.bring.source.traits import padded
from xbackend.bring.source.writer import Scope, Use
from xbackend.program.dtypes import DType
from xbackend.program.program import Node


def integers(use: Use) -> str | None:
    """Sums of int32 would be int64."""
    return "np.int32" if use.node.dtype is DType.int32 else None


def _dtype(dtype: DType) -> str:
    return "np.bool_" if dtype is DType.bool else f"np.{dtype.value}"


def _transposed(use: Use) -> Expr:
    axes = tuple(use.params["axes"])
    return Expr(f"{use.arrays[0].at(9)}.T") if axes == (1, 0) else call("np.transpose", use.arrays[0], axes)


def _conv2d(use: Use) -> Expr:
    """A sum of products: of each element of the kernel with the pixels that it meets."""
    images, kernel = (one.at(9) for one in use.arrays)
    (down, across), (_, rows, columns, _) = use.params["strides"], use.shape
    height, width = use.avals[1].shape[:2]
    row = f"i : i + {(rows - 1) * down + 1}{f' : {down}' if down > 1 else ''}"
    column = f"j : j + {(columns - 1) * across + 1}{f' : {across}' if across > 1 else ''}"
    term = f"{images}[:, {row}, {column}] @ {kernel}[i, j]"
    end = Bracket("sum(", (term, f"for i in range({height})", f"for j in range({width})"), ")", separator=" ")
    return Expr(str(end), 9, end)


def _where(use: Use) -> Expr:
    first, second = use.operands[1:]
    return call("np.where", use.arrays[0], first.array if second.number else first, second)


_TABLE: dict[str, Row] = {
    **{name: function(f"np.{name}") for name in UNARY},
    **{name: function(f"np.{name.replace('a', 'arc', 1)}") for name in ARCS},
    **{name: function(f"special.{name}") for name in ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit")},
    "atan2": function("np.arctan2"),
    "pow": function("np.power"),
    "maximum": function("np.maximum"),
    "minimum": function("np.minimum"),
    **OPERATORS,
    "where": _where,
    **{name: reduction(f"np.{name}", dtype=integers) for name in ("sum", "prod")},
    **{name: reduction(f"np.{name}") for name in ("max", "min", "mean", "any", "all")},
    **{name: along(f"np.{name}") for name in ("argmax", "argmin", "sort")},
    "argsort": along("np.argsort", kind='"stable"'),
    "cumulative_sum": along("np.cumsum", integers),
    "cumulative_prod": along("np.cumprod", integers),
    "searchsorted": sided("np.searchsorted"),
    "reshape": reshaped("np.squeeze", by_method),
    "permute_dims": _transposed,
    "broadcast_to": lambda use: call("np.broadcast_to", use.arrays[0], shape_of(use.shape)),
    "diagonal": lambda use: call("np.diagonal", use.arrays[0], offset=use.params["offset"] or None, axis1=-2, axis2=-1),
    "slice": sliced,
    "take": taken,
    **dict.fromkeys(("slice_set", "slice_add", "take_set", "take_add"), taken),  # statements: `NumPy.stated`
    **as_numpy("np", "linalg.solve_triangular"),
    "astype": lambda use: method(use.arrays[0], "astype", _dtype(use.node.dtype)),
    "conv2d": _conv2d,
    "svd": lambda use: call("np.linalg.svd", use.arrays[0], full_matrices=str(bool(use.params["full"]))),
    "transfer": of_arrays("np.copy"),
}


class NumPy(Dialect):
    spoken = "NumPy"
    module = "np"
    head = "import numpy as np"
    imports: ClassVar[Mapping[str, str]] = {
        "linalg": "from scipy import linalg",
        "special": "from scipy import special",
    }
    rows: ClassVar[Mapping[str, Row]] = _TABLE
    gradients = False

    def dtype(self, dtype: DType) -> str:
        return _dtype(dtype)

    def from_file(self, text: str) -> Expr:
        return Expr(text)

    def same(self, scope: Scope, node: Node) -> int | None:
        """NumPy has no devices."""
        return node.inputs[0] if node.op == "transfer" else super().same(scope, node)

    def stated(self, scope: Scope, node: Node) -> bool:
        """What writes into an array is a copy and an assignment."""
        padded(scope, node, "np.pad")
        if node.op not in ("slice_set", "slice_add", "take_set", "take_add"):
            return False
        use = Use(node, [scope.exprs[j] for j in node.inputs], [scope.program.values[j].aval for j in node.inputs])
        index = ", ".join(place(use) if node.op.startswith("take") else slices(use, ())) or "..."
        name = scope.state(node.outputs[0], call("np.array", use.arrays[0]))
        value = use.arrays[-1]
        if node.op == "take_add":
            key = index if use.params["axis"] == 0 else f"({index.replace(':', 'slice(None)')})"
            scope.say("", call("np.add.at", name, key, value))
        else:
            scope.say(f"{name}[{index}] {'=' if node.op.endswith('set') else '+='} ", value)
        return True

    def scan(self, scope: Scope, node: Node) -> None:
        """A loop of Python."""
        body, (init, xs, closed) = node.params["body"], functions.parts(node)
        captured = [scope.known(i) for i in closed]
        begin, over = [scope.known(i).array for i in init], [scope.name(i) for i in xs]
        carried = [scope.names.new(scope.hints.get(i, "carry")) for i in node.outputs[: len(init)]]
        rows = [scope.names.new(f"{text}_t") for text in over]
        each = [scope.names.new(scope.hints.get(i, "each")) for i in node.outputs[len(init) :]]
        for name, first in zip(carried, begin, strict=True):
            scope.say(f"{name} = {first.text}")
        for name in each:
            scope.say(f"{name} = []")
        if node.params["reverse"]:
            over = [f"{text}[::-1]" for text in over]
        what = over[0] if len(over) == 1 else f"zip({', '.join(over)})"
        head = f"for {', '.join(rows)} in {what}:" if over else f"for _ in range({node.params['length']}):"
        with scope.block(head):
            given = [*functions.texts(carried), *functions.texts(rows), *captured]
            results = scope.enter_here(body, given)
            for name, result in zip(each, results[len(init) :], strict=True):
                scope.say("", call(f"{name}.append", result.array))
            self._move(scope, carried, results[: len(init)])
        for name in each:
            scope.say(f"{name} = np.stack({name}{'[::-1]' if node.params['reverse'] else ''})")
        scope.exprs.update(zip(node.outputs, functions.texts([*carried, *each]), strict=True))

    def _move(self, scope: Scope, carried: Sequence[str], after: Sequence[Expr]) -> None:
        """The state of a loop becomes the next one, all of it at once."""
        for one in [functions.several_results(after)] if after else []:
            scope.say(f"{', '.join(carried)} = ", one)

    def while_loop(self, scope: Scope, node: Node) -> None:
        init, _, closed = functions.parts(node)
        captured = [scope.known(i) for i in closed]
        begin = [scope.known(i).array for i in init]
        carried = [scope.names.new(scope.hints.get(i, "state")) for i in node.outputs]
        for name, first in zip(carried, begin, strict=True):
            scope.say(f"{name} = {first.text}")
        with scope.block("while True:"):
            given = [*functions.texts(carried), *captured]
            (goes_on,) = scope.enter_here(node.params["condition"], given)
            with scope.block(f"if not {goes_on.array.at(9)}:"):
                scope.say("break")
            self._move(scope, carried, scope.enter_here(node.params["body"], given))
        scope.exprs.update(zip(node.outputs, functions.texts(carried), strict=True))

    def cond(self, scope: Scope, node: Node) -> None:
        predicate, *values = node.inputs
        captured = [scope.known(i) for i in values]
        test = scope.known(predicate).array.text
        names = [scope.names.new(scope.hint(i)) for i in node.outputs]
        for head, key in ((f"if {test}:", "then"), ("else:", "otherwise")):
            with scope.block(head):
                self._move(scope, names, scope.enter_here(node.params[key], captured))
        scope.exprs.update(zip(node.outputs, map(named, names), strict=True))

    def script(self) -> list[Line | Block]:
        program, scope = self.program, self.scope()
        arguments = [*program.inputs, *program.shared]
        scope.statements += self.docstring(arguments, scope)
        if self.devices:
            scope.statements.append(Line("# NumPy has no devices: all of this is computed on one."))
        updated = list(program.updates.values())
        scope.run(program.nodes, [*program.outputs, *updated])
        count = len(program.outputs)

        def build(exprs: list[Expr]) -> Expr:
            results, state = exprs[:count], exprs[count:]
            if not state:
                return self.structured(results)
            whole = self.structured(results)
            first = unbared(whole)
            return functions.several_results([*([first] if results else []), Expr(functions.group(state))])

        scope.returns([*program.outputs, *updated], build)
        texts = tuple(scope.exprs_of(arguments))
        head = Line("", Bracket(f"def {self.function}(", texts, "):"))
        main = Block(Line('if __name__ == "__main__":'), list(self.examples(arguments, scope)))
        main.body.append(Line("print(", Bracket("", (Bracket(f"{self.function}(", texts, ")"),), ")")))
        return [Block(head, scope.statements), main]


DIALECT = NumPy
