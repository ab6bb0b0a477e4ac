"""NumPy as its users write it: assignments to parts of arrays, loops of Python. It has no gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xbackend.bring.source import functions
from xbackend.bring.source.dialect import Dialect
from xbackend.bring.source.expressions import ATOM, Expr, call
from xbackend.bring.source.rows import (
    WRITING,
    SourceRow,
    as_numpy,
    of_arrays,
    one_or_all,
    taken,
    transposed,
    written_place,
)
from xbackend.bring.source.traits import padded
from xbackend.bring.source.writer import Scope, Use
from xbackend.program.program import Node


def _solve_triangular(use: Use) -> Expr:
    """Without SciPy's check, which also refuses NaN and infinities in the triangle that is not read."""
    lower = "True" if use.params["lower"] else None
    return call("linalg.solve_triangular", *use.arrays, lower=lower, check_finite="False")


_TABLE: dict[str, SourceRow] = {
    **as_numpy("np", "np.int32", "special", ""),
    "solve_triangular": _solve_triangular,
    "permute_dims": transposed(lambda x, axes: call("np.transpose", x, axes)),
    **dict.fromkeys(WRITING, taken),  # statements: `NumPyDialect.stated`
    "transfer": of_arrays("np.copy"),
}


class NumPyDialect(Dialect):
    spoken = "NumPy"
    module = "np"
    head = "import numpy as np"
    imports: ClassVar[Mapping[str, str]] = {
        "linalg": "from scipy import linalg",
        "special": "from scipy import special",
    }
    rows: ClassVar[Mapping[str, SourceRow]] = _TABLE
    repeated = frozenset({"conv2d"})
    gradients = False
    has_devices = False

    def from_file(self, text: str) -> Expr:
        return Expr(text)

    def stated(self, scope: Scope, node: Node) -> bool:
        """An op that writes is a copy and an assignment."""
        padded(scope, node, "np.pad")
        if node.op not in WRITING:
            return False
        use = Use(node, [scope.exprs[j] for j in node.inputs], [scope.program.values[j].aval for j in node.inputs])
        name = scope.state(node.outputs[0], call("np.array", use.arrays[0]))
        value = use.arrays[-1]
        if node.op == "take_add":
            key = [*["slice(None)"] * use.params["axis"], use.operands[1].text]
            scope.say("", call("np.add.at", name, one_or_all(key), value))
        else:
            index = ", ".join(written_place(use)) or "..."
            scope.say(f"{name}[{index}] {'=' if node.op.endswith('set') else '+='} ", value)
        return True

    def scan(self, scope: Scope, node: Node) -> None:
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
            results = scope.enter_here(body, [*map(Expr, carried), *map(Expr, rows), *captured])
            for name, result in zip(each, results[len(init) :], strict=True):
                scope.say("", call(f"{name}.append", result.array))
            _move(scope, carried, results[: len(init)])
        for name in each:
            scope.say(f"{name} = np.stack({name}{'[::-1]' if node.params['reverse'] else ''})")
        scope.exprs.update(zip(node.outputs, map(Expr, [*carried, *each]), strict=True))

    def while_loop(self, scope: Scope, node: Node) -> None:
        init, _, closed = functions.parts(node)
        captured = [scope.known(i) for i in closed]
        begin = [scope.known(i).array for i in init]
        carried = [scope.names.new(scope.hints.get(i, "state")) for i in node.outputs]
        for name, first in zip(carried, begin, strict=True):
            scope.say(f"{name} = {first.text}")
        with scope.block("while True:"):
            given = [*map(Expr, carried), *captured]
            (goes_on,) = scope.enter_here(node.params["condition"], given)
            with scope.block(f"if not {goes_on.array.at(ATOM)}:"):
                scope.say("break")
            _move(scope, carried, scope.enter_here(node.params["body"], given))
        scope.exprs.update(zip(node.outputs, map(Expr, carried), strict=True))

    def cond(self, scope: Scope, node: Node) -> None:
        predicate, *values = node.inputs
        captured = [scope.known(i) for i in values]
        test = scope.known(predicate).array.text
        names = [scope.names.new(scope.hint(i)) for i in node.outputs]
        for head, key in ((f"if {test}:", "then"), ("else:", "otherwise")):
            with scope.block(head):
                _move(scope, names, scope.enter_here(node.params[key], captured))
        scope.exprs.update(zip(node.outputs, map(Expr, names), strict=True))


def _move(scope: Scope, carried: Sequence[str], after: Sequence[Expr]) -> None:
    """Assign the next carries, all at once."""
    if after:
        scope.say(f"{', '.join(carried)} = ", functions.several_results(after))


DIALECT = NumPyDialect
