"""What every framework's code has: the script around the function, and how single things are written.

A dialect has a table of rows by op, and methods for what is no expression: gradients, loops, choices, state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from xbackend.bring.source.expressions import Expr, call
from xbackend.bring.source.functions import group, several_results
from xbackend.bring.source.layout import Block, Bracket, Line
from xbackend.bring.source.names import Namespace, identifier
from xbackend.bring.source.rows import Row, shape_text
from xbackend.bring.source.writer import CONTROL, Scope, Use
from xbackend.errors import UnsupportedOperation
from xbackend.program import analyses
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate
from xbackend.program.structure import LEAF

LARGE = 64  # elements of the largest constant in the text


class Dialect:
    """How one framework's code is written. One object writes one script."""

    spoken: ClassVar[str]  # the framework's name in prose
    module: ClassVar[str]  # the name of its functions' module
    imports: ClassVar[Mapping[str, str]]  # from a word in the code to the import that it needs
    counting: ClassVar[str] = "arange"  # its function that counts
    head: ClassVar[str] = ""  # a word that every script has
    rows: ClassVar[Mapping[str, Row]]
    gradients: ClassVar[bool] = True
    gradients_of_functions: ClassVar[bool] = False
    whole_functions: ClassVar[frozenset[str]] = frozenset({"scan", "while_loop", "cond"})

    def __init__(self, program: Program, devices: Mapping[str, str]) -> None:
        self.program = program
        self.devices = devices  # from a device to the name that it has in the script
        self.constants: dict[str, np.ndarray] = {}  # in the file beside the script
        self.top: list[Line | Block] = []  # statements before the function
        self.taken = Namespace(("np", "jnp", "pt", "tf", "jax", "special", "lax", "CONSTANTS", "rng", "pytensor"))
        self.function = self.taken.new(identifier(program.name))

    # What may be missing.

    @classmethod
    def refusal(cls, op: str) -> str:
        """Why no code of this framework has an op; empty where it has."""
        if op == "grad" and not cls.gradients:
            return f"{cls.spoken} has no gradients"
        known = op in cls.rows or op in (*GENERATORS, *CONTROL, "input", "shared", "grad", "transfer")
        return "" if known else "no code has it yet"

    def missing(self) -> Counter[str]:
        """The ops that no row of this dialect has, bodies included, with their counts."""
        found, todo = Counter[str](), [self.program]
        while todo:
            program = todo.pop()
            for node in program.nodes:
                todo += node.bodies.values()
                if node.op != "grad" and self.refusal(node.op):
                    found[node.op] += 1
        return found

    def check(self) -> None:
        """Raises `UnsupportedOperation`, which names all ops without a row."""
        if not self.gradients and analyses.has_gradients(self.program):
            raise UnsupportedOperation(
                f"{self.program.name} takes a gradient, and {self.spoken} has no gradients; write it in jax, "
                "pytensor or tensorflow, or give the value alone"
            )
        missing = self.missing()
        if missing:
            each = "".join(
                f"\n  {op}, {'once' if count == 1 else f'{count} times'}" for op, count in sorted(missing.items())
            )
            raise UnsupportedOperation(f"{self.program.name} has ops that no code of {self.spoken} has yet:{each}")

    # Single expressions.

    def row(self, use: Use) -> Expr:
        return self.rows[use.node.op](use)

    def dtype(self, dtype: DType) -> str:
        """A dtype in this code."""
        return f"{self.module}.{dtype.value}"

    def number(self, value: Any, dtype: DType) -> Expr:
        """A number, which takes the dtype of what it meets."""
        text = plain(value, dtype, self.module)
        return Expr(text, 7 if text.startswith("-") else 9, number=True, typed=self.typed(text, dtype))

    def typed(self, text: str, dtype: DType) -> str:
        return f"{self.dtype(dtype)}({text})"

    def generated(self, scope: Scope, node: Node) -> Expr:
        """The expression of a generator."""
        if not node.shape:
            return self.number(generate(node)[()], node.dtype)
        if node.op == "full":
            return self.filled(node)
        if node.op == "arange":
            return self.arange(node)
        if node.op == "eye":
            rows, columns = node.shape
            square = columns == rows and not node.params["k"]
            more = [] if square else [columns]
            return call(f"{self.module}.eye", rows, *more, k=node.params["k"] or None, dtype=self.dtype(node.dtype))
        return self.constant(scope, node)

    def filled(self, node: Node) -> Expr:
        value, shape = node.params["fill_value"], shape_text(node.shape)
        names = {0: "zeros", 1: "ones"} if not (value == 0 and np.signbit(value)) else {}
        dtype = self.dtype(node.dtype)
        if value in names:
            return call(f"{self.module}.{names[value]}", shape, dtype=dtype)
        return call(f"{self.module}.full", shape, plain(value, node.dtype, self.module), dtype=dtype)

    def arange(self, node: Node) -> Expr:
        start, step, n = node.params["start"], node.params["step"], node.shape[0]
        of, dtype = f"{self.module}.{self.counting}", self.dtype(node.dtype)
        whole = isinstance(start, int) and isinstance(step, int)
        if whole and (start, step) == (0, 1):
            return call(of, n, dtype=dtype)
        if whole and n and step:
            return call(of, start, start + n * step, step, dtype=dtype)
        return Expr(f"{start!r} + {step!r} * {call(of, n, dtype=dtype).text}", 5)

    def constant(self, scope: Scope, node: Node) -> Expr:
        """A constant in the text, or in the file beside the script."""
        value = generate(node)
        if value.size > LARGE or not value.size:
            return self.stored(scope.hint(node.outputs[0]), value)
        return self.array(literal(value, self.module), node.aval)

    def stored(self, name: str, value: np.ndarray) -> Expr:
        """A constant in the file beside the script."""
        known = next((key for key, other in self.constants.items() if same(other, value)), None)
        if known is None:
            known, number = identifier(name), 2
            while known in self.constants:
                known, number = f"{identifier(name)}_{number}", number + 1
            self.constants[known] = value
        return self.from_file(f'CONSTANTS["{known}"]')

    def from_file(self, text: str) -> Expr:
        return call(f"{self.module}.asarray", text)

    def array(self, text: Bracket | str, aval: Aval) -> Expr:
        """An array of numbers in the text."""
        return call(f"{self.module}.array", text, dtype=self.dtype(aval.dtype))

    def same(self, scope: Scope, node: Node) -> int | None:
        """The value that a node only hands on."""
        values = scope.program.values
        if node.op == "reshape" and values[node.inputs[0]].shape == node.shape:
            return node.inputs[0]
        reduced = node.op in ("sum", "prod", "max", "min", "mean", "any", "all")
        nothing = (reduced and not node.params["axis"]) or (node.op == "slice" and not node.params["starts"])
        rounded = node.op in ("floor", "ceil", "round", "trunc") and node.dtype.is_integer
        alike = node.op == "permute_dims" and list(node.params["axes"]) == list(range(len(node.shape)))
        cast = node.op == "astype" and values[node.inputs[0]].dtype is node.dtype
        return node.inputs[0] if nothing or rounded or alike or cast else None

    # What is no expression.

    def begin(self, scope: Scope) -> None:
        """Called before the first node of a scope."""

    def before(self, scope: Scope, node: Node) -> None:
        """Called before each node of a scope."""

    def after(self, scope: Scope, node: Node) -> None:
        """Called after each node of a scope."""

    def stated(self, scope: Scope, node: Node) -> bool:
        """Whether a node was written as statements, and not as an expression."""
        return False

    def place(self, device: str | None) -> str:
        """The scope that a statement on a device is to be in; empty where the framework has none."""
        return ""

    def gradient(self, scope: Scope, node: Node) -> None:
        raise NotImplementedError

    def scan(self, scope: Scope, node: Node) -> None:
        raise NotImplementedError

    def while_loop(self, scope: Scope, node: Node) -> None:
        raise NotImplementedError

    def cond(self, scope: Scope, node: Node) -> None:
        raise NotImplementedError

    def script(self) -> list[Line | Block]:
        """The statements of the script behind its imports."""
        raise NotImplementedError

    def preamble(self) -> list[Line | Block]:
        """The statements between the imports and the function."""
        return []

    # The function.

    def scope(self, depth: int = 0) -> Scope:
        """The scope of the function, with the names of its inputs."""
        program = self.program
        scope = Scope(self, program, self.taken.inner(), depth, devices=bool(self.devices))
        for i in (*program.inputs, *program.shared):
            value = program.values[i]
            variable = program.shared.get(i)
            name = variable.name if variable is not None else value.params["name"]
            if i in self.names_above:
                scope.exprs[i] = Expr(self.names_above[i])
                scope.names.taken.add(self.names_above[i])
            else:
                scope.exprs[i] = Expr(scope.names.new(name))
        scope.hints.update(named_by(program.structure, program.outputs))
        for target, new in program.updates.items():
            scope.hints.setdefault(new, f"new_{program.shared[target].name}")
        for node in program.nodes:
            if node.op == "grad":
                scope.hints.setdefault(node.inputs[0], "loss")
        if len(program.outputs) == 1:
            scope.hints.setdefault(program.outputs[0], "result")
        for i in (*program.inputs, *program.shared):
            scope.hints.pop(i, None)
        return scope

    names_above: Mapping[int, str] = {}  # of values that are variables outside of the function

    def stateful(self, comment: str = "") -> list[Line | Block]:
        """The function of a framework whose state is arguments and results, and what calls it."""
        program, scope = self.program, self.scope()
        arguments = [*program.inputs, *program.shared]
        scope.statements += self.docstring(arguments, scope)
        scope.statements += [Line(comment)] if comment else []
        scope.run(program.nodes, [*program.outputs, *program.updates.values()])
        scope.returns([*program.outputs, *program.updates.values()], self.with_state)
        return self.defined(arguments, scope)

    def docstring(self, arguments: Sequence[int], scope: Scope, returned: str = "") -> list[Line]:
        """What the function takes and returns."""
        program = self.program
        lines = [f'"""{returned or "The results"} of {program.name}.']
        if arguments:
            lines += ["", "Args:"]
            lines += [f"    {scope.exprs[i].text}: {program.values[i].aval}" for i in arguments]
        lines += ["", "Returns:"]
        lines += [f"    {program.values[i].aval}" for i in program.outputs] or ["    nothing"]
        return [Line(line) for line in [*lines, '"""']]

    def examples(self, arguments: Sequence[int], scope: Scope) -> list[Line]:
        """Statements that make inputs to run the function with."""
        drawn = [i for i in arguments if i not in self.program.shared]
        lines = [Line("rng = np.random.default_rng(0)")] if drawn else []
        for i in arguments:
            value, name = self.program.values[i], scope.exprs[i].text
            if i in self.program.shared:
                first = self.initial(i)
                lines.append(Line(f"{name} = ", first.end) if first.end else Line(f"{name} = {first.text}"))
                continue
            size = f"size={shape_text(value.shape)}"
            if value.dtype.is_floating:
                made = f"rng.normal({size})"
            else:
                made = f"rng.integers(0, {most(self.program, i)}, {size})"
            text = made if value.shape else f"np.asarray({made})"
            lines.append(Line(f"{name} = {text}.astype(np.{_numpy(value.dtype)})"))
        return lines

    def initial(self, i: int) -> Expr:
        """The first value of a shared variable, as an array of NumPy."""
        variable = self.program.shared[i]
        value = variable.value
        if value.size > LARGE or not value.size:
            text = self.stored(variable.name, value).text
            return Expr(text[text.index("CONSTANTS") : text.index("]") + 1])
        if not value.shape:
            return Expr(f"np.{_numpy(variable.dtype)}({plain(value[()], variable.dtype, 'np')})")
        return call("np.array", literal(value, "np"), dtype=f"np.{_numpy(variable.dtype)}")

    def with_state(self, exprs: Sequence[Expr]) -> Expr:
        """The results, and the new values of the state behind them."""
        count = len(self.program.outputs)
        results, state = exprs[:count], exprs[count:]
        if not state:
            return self.structured(results)
        if not results:
            return several_results(state)
        return several_results([unbared(self.structured(results)), Expr(group(state))])

    def defined(self, arguments: Sequence[int], scope: Scope, called: str = "") -> list[Line | Block]:
        """The function, and what calls it where the script is run."""
        texts = tuple(scope.exprs_of(arguments))
        head = Line("", Bracket(f"def {self.function}(", texts, "):"))
        main = Block(Line('if __name__ == "__main__":'), list(self.examples(arguments, scope)))
        made = called or Bracket(f"{self.function}(", texts, ")")
        main.body.append(Line("print(", Bracket("", (made,), ")")))
        return [Block(head, scope.statements), main]

    def structured(self, exprs: Sequence[Expr]) -> Expr:
        """The results in the structure that the program returns."""
        return _structured(self.program.structure, iter(exprs), True)


def most(program: Program, i: int) -> int:
    """The bound of integers for an input: the shortest axis that they index, else 2."""
    lengths = [
        program.values[node.inputs[0]].shape[node.params["axis"]]
        for node in program.nodes
        if node.op in ("take", "take_set", "take_add", "take_along_axis") and node.inputs[1] == i
    ]
    return max(min(lengths), 1) if lengths else 2


def same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def _numpy(dtype: DType) -> str:
    return "bool_" if dtype is DType.bool else dtype.value


def plain(value: Any, dtype: DType, module: str) -> str:
    """A number in the fewest digits that are that number in its dtype."""
    if dtype is DType.bool:
        return str(bool(value))
    if not dtype.is_floating:
        return str(int(value))
    if np.isnan(value):
        return 'float("nan")'
    if np.isinf(value):
        return 'float("inf")' if value > 0 else '-float("inf")'
    scalar = np.dtype(dtype.value).type
    short = repr(float(str(scalar(value))))
    return short if scalar(float(short)) == scalar(value) else repr(float(value))


def literal(array: np.ndarray, module: str) -> Bracket | str:
    """An array as nested lists."""
    if not array.shape:
        return plain(array[()], DType(array.dtype.name), module)
    return Bracket("[", tuple(literal(np.asarray(row), module) for row in array), "]", collection=True)


def unbared(expr: Expr) -> Expr:
    """An expression with the parentheses of its tuple."""
    if expr.end is None or not expr.end.bare:
        return expr
    end = replace(expr.end, bare=False)
    return Expr(str(end), 9, end)


def named_by(structure: Any, outputs: Sequence[int]) -> dict[int, str]:
    """Names of outputs by the keys of dictionaries around them."""
    found: dict[int, str] = {}
    numbers = iter(outputs)

    def walk(part: Any, key: str) -> None:
        if part == LEAF:
            i = next(numbers)
            if key:
                found.setdefault(i, key)
            return
        kind, parts = next(iter(part.items()))
        for one in parts:
            walk(one[1] if kind == "dict" else one, one[0] if kind == "dict" else "")

    walk(structure, "")
    return found


def _structured(structure: Any, leaves: Any, outermost: bool = False) -> Expr:
    if structure == LEAF:
        return next(leaves).array  # type: ignore[no-any-return]
    kind, parts = next(iter(structure.items()))
    if kind == "dict":
        entries = []
        for key, part in parts:
            value = _structured(part, leaves)
            text = '"' + str(key).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '": '
            end = value.end
            entries.append(
                Bracket(text + end.opening, end.items, end.closing, end.collection) if end else text + value.text
            )
        end = Bracket("{", tuple(entries), "}", collection=True)
        return Expr(str(end), 9, end)
    exprs = [_structured(part, leaves) for part in parts]
    items: tuple[str | Bracket, ...] = tuple(one.end or one.text for one in exprs)
    if kind == "list":
        end = Bracket("[", items, "]", collection=True)
    elif len(items) == 1:
        return Expr(f"({items[0]},)")
    else:
        end = Bracket("(", items, ")", collection=True, bare=outermost and len(items) > 1)
    return Expr(str(end), 0 if end.bare else 9, end)
