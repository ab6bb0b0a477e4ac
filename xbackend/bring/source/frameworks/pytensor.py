"""PyTensor as its users write it: symbolic inputs, shared variables with updates, `pt.grad`, `pytensor.scan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from xbackend.bring.source import functions
from xbackend.bring.source.dialect import Dialect
from xbackend.bring.source.expressions import ATOM, Expr, call, indexed, infix, listed, method, signed, tupled
from xbackend.bring.source.layout import Block, Statement
from xbackend.bring.source.names import escaped
from xbackend.bring.source.rows import (
    WRITING,
    SourceRow,
    along,
    as_numpy,
    floor_divide,
    function,
    product,
    reduction,
    transposed,
    written_place,
)
from xbackend.bring.source.traits import connected, dtypes, padded
from xbackend.bring.source.writer import Scope, Use, nested
from xbackend.program import analyses
from xbackend.program.dtypes import DType
from xbackend.program.program import Node, Program

MOST_STEPS = "1_000_000"  # of a while loop: without its rewrites PyTensor allocates memory for all of them


def _written(use: Use) -> Expr:
    index, adds = written_place(use), use.node.op.endswith("add")
    if not index:
        return call("pt.add", *use.arrays) if adds else use.arrays[1]
    return call(f"pt.{'inc' if adds else 'set'}_subtensor", indexed(use.arrays[0], *index), use.arrays[-1])


def _astype(use: Use) -> Expr:
    if use.node.dtype is DType.bool:
        return call("pt.neq", use.arrays[0], 0)
    return method(use.arrays[0], "astype", f'"{use.node.dtype.value}"')


def _cumulative(name: str) -> SourceRow:
    """PyTensor declares a running sum of int32 as int32, but computes int64."""
    plain = along(name)

    def row(use: Use) -> Expr:
        if use.node.dtype is not DType.int32:
            return plain(use)
        wide = replace(use, operands=[method(use.arrays[0], "astype", '"int64"')])
        return method(plain(wide), "astype", '"int32"')

    return row


def _complement(use: Use) -> Use:
    """For the least of integers. PyTensor negates them, and the smallest one has no negative, but a complement."""
    return replace(use, operands=[signed("~", use.arrays[0])])


def _min(use: Use) -> Expr:
    return signed("~", _LARGEST(_complement(use))) if use.node.dtype.is_integer else _SMALLEST(use)


def _argmin(use: Use) -> Expr:
    whole = use.avals[0].dtype.is_integer
    return along("pt.argmax")(_complement(use)) if whole else along("pt.argmin")(use)


def _matmul(use: Use) -> Expr:
    """Integers are multiplied by a sum: Numba, PyTensor's default, computes their ``@`` in floating point."""
    if not use.node.dtype.is_integer:
        return _PRODUCT(use)
    a, b = use.arrays
    each = infix("*", indexed(a, "...", "None"), indexed(b, "...", "None", ":", ":"))
    return call("pt.sum", each, axis=-2, dtype=f'"{use.node.dtype.value}"')


_LARGEST, _SMALLEST, _PRODUCT = reduction("pt.max"), reduction("pt.min"), product()
_TABLE: dict[str, SourceRow] = {
    **as_numpy("pt", '"int32"', "pt", "pt.linalg.solve_triangular"),
    "digamma": function("pt.psi"),
    "expit": function("pt.sigmoid"),
    "floor_divide": floor_divide(lambda quotient: call("pt.round", quotient, mode='"half_to_even"')),
    "min": _min,
    "argmin": _argmin,
    "argsort": along("pt.argsort", kind='"mergesort"'),  # the stable one that Numba knows, PyTensor's default
    "matmul": _matmul,
    "square": function("pt.sqr"),
    "round": lambda use: call("pt.round", use.arrays[0], mode='"half_to_even"'),
    "isfinite": lambda use: signed("~", Expr(f"(pt.isnan({use.arrays[0].text}) | pt.isinf({use.arrays[0].text}))")),
    "equal": function("pt.eq"),
    "not_equal": function("pt.neq"),
    **{f"cumulative_{name}": _cumulative(f"pt.cum{name}") for name in ("sum", "prod")},
    "permute_dims": transposed(lambda x, axes: method(x, "dimshuffle", *axes)),
    **dict.fromkeys(WRITING, _written),
    "astype": _astype,
    "qr": lambda use: call("pt.linalg.qr", use.arrays[0], mode='"full"' if use.params["full"] else '"economic"'),
    "eigvalsh": lambda use: indexed(call("pt.linalg.eigh", use.arrays[0]), 0),
    "svdvals": lambda use: indexed(call("pt.linalg.svd", use.arrays[0], full_matrices="False"), 1),
    "transfer": lambda use: method(use.arrays[0], "copy"),
}


class PyTensorDialect(Dialect):
    spoken = "PyTensor"
    module = "pt"
    making = "constant"
    head = "import pytensor"
    imports: ClassVar[Mapping[str, str]] = {
        "pt": "import pytensor.tensor as pt",
        "np": "import numpy as np",
        "ifelse": "from pytensor.ifelse import ifelse",
        "Assert": "from pytensor.raise_op import Assert",
        "until": "from pytensor.scan.utils import until",
        "zero_grad": "from pytensor.gradient import zero_grad",
    }
    reserved = ("compiled", "outputs", "updates")
    rows: ClassVar[Mapping[str, SourceRow]] = _TABLE
    repeated = frozenset({"floor_divide", "isfinite"})
    has_devices = False

    def __init__(self, program: Program, devices: Mapping[str, str]) -> None:
        super().__init__(program, devices)
        found = dtypes(program)
        self.mixed = {DType.float32, DType.float64} <= found
        self.single = DType.float32 in found and DType.float64 not in found

    def preamble(self) -> list[Statement | Block]:
        """With float64, the default of ``floatX``, the gradient of `pt.where` would be float64."""
        return [Statement('pytensor.config.floatX = "float32"')] if self.single else []

    def dtype(self, dtype: DType) -> str:
        return f'"{dtype.value}"'

    def number(self, value: Any, dtype: DType) -> Expr:
        """PyTensor gives a Python number the smallest dtype that holds it: 0.1 is float64, and its sum with float32."""
        made = super().number(value, dtype)
        if dtype is DType.bool:
            return replace(made, text=f"np.array({made.text})")
        kept = dtype in (DType.float64, DType.int64, DType.int32) or (dtype is DType.float32 and self.single)
        return made if kept else replace(made, text=f"np.{dtype.value}({made.text})", level=ATOM)

    def typed(self, text: str, dtype: DType) -> str:
        return f'pt.constant({text}, dtype="{dtype.value}")'

    def from_file(self, text: str) -> Expr:
        return call("pt.as_tensor", text)

    def stated(self, scope: Scope, node: Node) -> bool:
        """Padding is a statement of its own."""
        padded(scope, node, "pt.pad")
        return False

    def gradient(self, scope: Scope, node: Node) -> None:
        loss, *wrt = node.inputs
        names = [scope.name(i) for i in wrt]
        targets = scope.claim_gradients(node, names)
        ignored = None if connected(scope.program, loss, wrt) else '"ignore"'
        over = listed(names) if len(names) > 1 else names[0]
        scope.bind(nested(targets), call("pt.grad", scope.name(loss), over, disconnected_inputs=ignored))
        for i, target in zip(wrt, targets, strict=True):
            if self.mixed:  # the gradient of a cast has the dtype of the cast's result
                scope.say(f'{target} = {target}.astype("{scope.program.values[i].dtype.value}")')

    def scan(self, scope: Scope, node: Node) -> None:
        body, (init, xs, closed) = node.params["body"], functions.parts(node)
        name, inner, carried, rows = functions.step(scope, node)
        others = _captured(scope, closed)
        inner.run(body.nodes, body.outputs)
        inner.returns(body.outputs, functions.listed_results)
        scope.define(name, [*rows, *carried, *others], inner)
        packed = [scope.names.new(f"{one}_steps") for one in carried]
        ys = [scope.claim(i, "each") for i in node.outputs[len(init) :]]
        backwards = node.params["reverse"]

        def loop(exprs: list[Expr]) -> Expr:
            begin = [e.array for e in exprs[: len(init)]]
            return call(
                "pytensor.scan",
                name,
                sequences=listed(exprs[len(init) :]) if xs else None,
                outputs_info=listed([*begin, *["None"] * len(ys)]),
                non_sequences=listed(others) if others else None,
                n_steps=None if xs else node.params["length"],
                go_backwards="True" if backwards else None,
                return_list="True" if len(packed) + len(ys) == 1 else None,
                return_updates="False",
            )

        left = [*packed, *ys]
        scope.bind(left if len(left) > 1 else f"({left[0]},)", scope.fitting([*init, *xs], loop))
        for y in ys if backwards else ():
            if y != "_":
                scope.say(f"{y} = {y}[::-1]")
        for i, one, carry in zip(node.outputs, packed, carried, strict=False):
            if scope.uses[i] or i in scope.targets:
                scope.say(f"{scope.claim(i, f'last_{carry}')} = {one}[-1]")

    def while_loop(self, scope: Scope, node: Node) -> None:
        """A scan with `until`, which asks after each step. A loop without steps takes one and drops its results."""
        init, _, closed = functions.parts(node)
        captured = [scope.known(i) for i in closed]
        (first,) = scope.enter_here(node.params["condition"], [*(scope.known(i) for i in init), *captured])
        begins, others, name = scope.names.new("begins"), _captured(scope, closed), scope.names.new("step")
        scope.say(f"{begins} = ", first.array)
        inner = scope.child(node.params["body"])
        carried = functions.carried_names(scope, inner, init, closed)
        inner.through([*map(Expr, carried), *captured])
        after = [inner.known(i) for i in inner.program.outputs]
        (goes_on,) = inner.enter_here(node.params["condition"], [*after, *captured])
        ends = signed("~", infix("&", Expr(begins), goes_on.array))
        inner.say(f"return {functions.listed_results(after).text}, until({ends.text})")
        scope.define(name, [*carried, *others, begins], inner)
        packed = [scope.names.new(f"{one}_steps") for one in carried]

        def loop(exprs: list[Expr]) -> Expr:
            return call(
                "pytensor.scan",
                name,
                outputs_info=listed([e.array for e in exprs]),
                non_sequences=listed([*others, begins]),
                n_steps=MOST_STEPS,
                return_list="True",
                return_updates="False",
            )

        scope.bind(packed if len(packed) > 1 else f"({packed[0]},)", scope.fitting(init, loop))
        last = [scope.names.new(f"last_{one}") for one in carried]
        chosen = [listed([f"{one}[-1]" for one in packed]), listed([scope.exprs[i].array for i in init])]
        scope.bind(last if len(last) > 1 else f"({last[0]},)", call("ifelse", begins, *chosen))
        (more,) = scope.enter_here(node.params["condition"], [*map(Expr, last), *captured])
        ended = scope.names.new("ended")
        scope.say(f"{ended} = ", signed("~", more.array))
        stopped = analyses.has_gradients(self.program)
        for i, one in zip(node.outputs, last, strict=True):
            if scope.uses[i] or i in scope.targets:
                made = call(f'Assert("more than {MOST_STEPS} steps")', one, ended)
                scope.say(f"{scope.claim(i, one)} = ", call("zero_grad", made) if stopped else made)

    def cond(self, scope: Scope, node: Node) -> None:
        predicate, *values = node.inputs
        captured = [scope.known(i) for i in values]
        test = scope.known(predicate).array.text
        then, otherwise = (scope.enter_here(node.params[key], captured) for key in ("then", "otherwise"))
        for i, first, second in zip(node.outputs, then, otherwise, strict=True):
            if scope.uses[i] or i in scope.targets:
                choice = call("ifelse", test, first.array, second.array)
                scope.say(f"{scope.claim(i)} = ", choice)

    def script(self) -> list[Statement | Block]:
        program, updates = self.program, self.program.updates
        self.write_variables()
        scope = self.begun()
        count = len(program.outputs)

        def build(exprs: list[Expr]) -> Expr:
            outputs = exprs[0].array if count == 1 else functions.listed_results(exprs[:count])
            pairs = zip(updates, exprs[count:], strict=True)
            changed = listed(f"({self.above[target]}, {new.array.text})" for target, new in pairs)
            return functions.several_results([outputs, changed] if updates else [outputs])

        scope.returns([*program.outputs, *updates.values()], build)
        arguments = [scope.exprs[i].text for i in program.inputs]
        function, main = self.defined(scope, f"compiled()({', '.join(arguments)})")
        return [function, self._compiled(arguments, bool(updates)), main]

    def variable(self, i: int) -> Expr:
        variable = self.program.shared[i]
        shape = tupled(variable.shape) if 1 in variable.shape else None
        single = variable.dtype is DType.bool and not variable.shape  # PyTensor makes no tensor of np.bool_
        first = call("np.array", str(bool(variable.value))) if single else self.initial(i)
        return call("pytensor.shared", first, name=f'"{escaped(variable.name)}"', shape=shape)

    def _compiled(self, arguments: Sequence[str], updates: bool) -> Block:
        lines: list[Statement | Block] = [Statement('"""The compiled function."""')]
        for i, name in zip(self.program.inputs, arguments, strict=True):
            aval = self.program.values[i].aval
            made = call("pt.tensor", f'"{name}"', dtype=f'"{aval.dtype.value}"', shape=tupled(aval.shape))
            lines.append(Statement(f"{name} = ", made.end))
        lines.append(Statement(f"outputs{', updates' if updates else ''} = ", call(self.function, *arguments).end))
        used = analyses.predecessors(self.program, [*self.program.outputs, *self.program.updates.values()])
        unused = None if used.issuperset(self.program.inputs) else '"ignore"'
        changed = "updates" if updates else None
        made = call("pytensor.function", listed(arguments), "outputs", updates=changed, on_unused_input=unused)
        lines.append(Statement("return ", made.end))
        return Block(Statement("def compiled():"), lines)


def _captured(scope: Scope, closed: Sequence[int]) -> list[str]:
    """The names of the values that a loop's body reads, each once: two values may be one array."""
    return list(dict.fromkeys(scope.exprs[i].text for i in closed if not scope.exprs[i].number))


DIALECT = PyTensorDialect
