"""NumPy as its users write it: arrays that are written into, loops of Python. It has no gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xbackend.bring.source import functions
from xbackend.bring.source.dialect import Dialect
from xbackend.bring.source.expressions import Expr, call, method, named
from xbackend.bring.source.layout import Block, Line
from xbackend.bring.source.rows import Row, as_numpy, of_arrays, place, slices, taken, transposed
from xbackend.bring.source.traits import padded
from xbackend.bring.source.writer import Scope, Use
from xbackend.program.dtypes import DType
from xbackend.program.program import Node


def _dtype(dtype: DType) -> str:
    return "np.bool_" if dtype is DType.bool else f"np.{dtype.value}"


_TABLE: dict[str, Row] = {
    **as_numpy("np", "np.int32", "special", "linalg.solve_triangular"),
    "permute_dims": transposed(lambda x, axes: call("np.transpose", x, axes)),
    **dict.fromkeys(("slice_set", "slice_add", "take_set", "take_add"), taken),  # statements: `NumPy.stated`
    "astype": lambda use: method(use.arrays[0], "astype", _dtype(use.node.dtype)),
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
        return self.stateful("# NumPy has no devices: all of this is computed on one." if self.devices else "")


DIALECT = NumPy
