"""The base of all dialects: the script around the function, and single expressions.

A dialect has a row for each op that is an expression. Its methods write statements: gradients, loops, choices, state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from xbackend.bring.missing import Missing
from xbackend.bring.source.expressions import ATOM, SIGNED, Expr, call, collected, ending, infix, listed, tupled
from xbackend.bring.source.functions import group, several_results
from xbackend.bring.source.layout import Block, Bracket, Statement
from xbackend.bring.source.names import NameScope, escaped, identifier, numbered
from xbackend.bring.source.rows import SourceRow, dtype_in
from xbackend.bring.source.writer import CONTROL, Scope, Use
from xbackend.devices import Device
from xbackend.errors import UnsupportedOperation
from xbackend.program import analyses
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate
from xbackend.program.structure import unflatten

LARGE = 64  # elements of the largest constant in the text


class Dialect:
    """The code of one framework. One object writes one script.

    A framework's methods ``gradient``, ``scan``, ``while_loop`` and ``cond`` write the nodes of these ops."""

    spoken: ClassVar[str]  # the framework's name in prose
    module: ClassVar[str]  # the module of its functions
    imports: ClassVar[Mapping[str, str]]  # from a word in the code to the import that it needs
    counting: ClassVar[str] = "arange"  # its function for ranges
    making: ClassVar[str] = "array"  # its function from lists to an array
    head: ClassVar[str]  # the import that every script has
    reserved: ClassVar[tuple[str, ...]] = ()  # further names in its scripts
    rows: ClassVar[Mapping[str, SourceRow]]
    repeated: ClassVar[frozenset[str]] = frozenset()  # ops of floats whose rows write an operand more than once
    gradients: ClassVar[bool] = True
    gradients_of_functions: ClassVar[bool] = False
    has_devices: ClassVar[bool] = True

    def __init__(self, program: Program, devices: Mapping[str, str]) -> None:
        self.program = program
        self.constants: dict[str, np.ndarray] = {}  # in the file beside the script
        self.top: list[Statement | Block] = []  # statements before the function
        self.above: dict[int, str] = {}  # names of shared variables that are made before the function
        modules = (self.head.rpartition(" ")[2], "np", *self.imports)
        of_differing = "platform", "version"  # which `differing.py` imports into a script
        self.taken = NameScope((*modules, "Path", "CONSTANTS", "CPUS", "rng", *of_differing, *self.reserved))
        self.devices = {device: self.taken.new(name) for device, name in devices.items()}  # names in the script
        self.function = self.taken.new(identifier(program.name))

    # Refusals.

    @classmethod
    def refusal(cls, op: str) -> str:
        """Why this framework's code lacks an op; empty if it has it."""
        if op == "grad" and not cls.gradients:
            return f"{cls.spoken} has no gradients"
        if op == "all_reduce":  # between devices, binding makes sums of it
            return "sums, between devices; none between processes"
        known = op in cls.rows or op in (*GENERATORS, *CONTROL, "input", "shared", "grad", "transfer")
        return "" if known else "no code has it yet"

    def check(self) -> None:
        """Raises `UnsupportedOperation` for gradients that the framework lacks, for devices of a job, else for all ops
        without a row."""
        if not self.gradients and analyses.has_gradients(self.program):
            raise UnsupportedOperation(
                f"{self.program.name} takes a gradient, and {self.spoken} has no gradients; write it in jax, "
                "pytensor or tensorflow, or give the value alone"
            )
        jobs = [name for name in self.devices if Device.parse(name).job is not None]
        if jobs and self.has_devices:
            raise UnsupportedOperation(
                f"{self.program.name} names {', '.join(jobs)}, and a script is one process, in no job: name devices "
                "without a job in it, as gpu:0, or write it in numpy or pytensor, whose code has no devices"
            )
        missing = Missing(self.spoken)
        for node in analyses.everywhere(self.program):
            if self.refusal(node.op):
                missing.add(node.op)
        if missing.found:
            said = f"{self.program.name} has ops that no code of {self.spoken} has yet"
            raise UnsupportedOperation(f"{said}:{missing.lines()}")

    # Single expressions.

    def row(self, use: Use) -> Expr:
        return self.rows[use.node.op](use)

    def dtype(self, dtype: DType) -> str:
        return dtype_in(self.module, dtype)

    def number(self, value: Any, dtype: DType) -> Expr:
        """A Python number, which takes the dtype of the other operand."""
        text = plain(value, dtype)
        return Expr(text, SIGNED if text.startswith("-") else ATOM, number=True, typed=self.typed(text, dtype))

    def typed(self, text: str, dtype: DType) -> str:
        return f"{self.dtype(dtype)}({text})"

    def generated(self, scope: Scope, node: Node) -> Expr:
        if not node.shape:
            return self.number(generate(node)[()], node.dtype)
        if node.op == "full":
            return self.filled(node)
        cut = node.dtype.is_integer and any(isinstance(node.params.get(key), float) for key in ("start", "step"))
        if node.op == "arange" and not cut:  # fractions that are cut off are a constant
            return self.arange(node)
        if node.op == "eye":
            (rows, columns), k = node.shape, node.params["k"] or None
            square = columns == rows and k is None
            return call(f"{self.module}.eye", rows, None if square else columns, k=k, dtype=self.dtype(node.dtype))
        return self.constant(scope, node)

    def filled(self, node: Node) -> Expr:
        value, shape = node.params["fill_value"], tupled(node.shape)
        names = {0: "zeros", 1: "ones"} if not (value == 0 and np.signbit(value)) else {}
        dtype = self.dtype(node.dtype)
        if value in names:
            return call(f"{self.module}.{names[value]}", shape, dtype=dtype)
        return call(f"{self.module}.full", shape, plain(value, node.dtype), dtype=dtype)

    def arange(self, node: Node) -> Expr:
        start, step, n = node.params["start"], node.params["step"], node.shape[0]
        of, dtype = f"{self.module}.{self.counting}", self.dtype(node.dtype)
        whole = isinstance(start, int) and isinstance(step, int)
        if whole and (start, step) == (0, 1):
            return call(of, n, dtype=dtype)
        if whole and n and step:
            return call(of, start, start + n * step, step, dtype=dtype)
        first, each = (self.number(one, node.dtype) for one in (start, step))
        return infix("+", first, infix("*", each, call(of, n, dtype=dtype)))

    def constant(self, scope: Scope, node: Node) -> Expr:
        """A constant in the text; in the file beside the script if it is empty or large."""
        value = generate(node)
        if value.size > LARGE or not value.size:
            return self.from_file(self.stored(scope.hint(node.outputs[0]), value))
        return self.array(literal(value), node.aval)

    def stored(self, name: str, value: np.ndarray) -> str:
        """Put an array into the file beside the script, once. Returns the code that reads it."""
        known = next((key for key, other in self.constants.items() if same(other, value)), None)
        if known is None:
            known = numbered(identifier(name), (*self.constants, "file", "allow_pickle"))  # arguments of `np.savez`
            self.constants[known] = value
        return f'CONSTANTS["{known}"]'

    def from_file(self, text: str) -> Expr:
        return call(f"{self.module}.asarray", text)

    def array(self, text: Bracket | str, aval: Aval) -> Expr:
        """An array from numbers in the text."""
        return call(f"{self.module}.{self.making}", text, dtype=self.dtype(aval.dtype))

    def same(self, scope: Scope, node: Node) -> int | None:
        """The operand that is also the node's result; `None` if the node computes something."""
        op, params, x = node.op, node.params, node.inputs[0]
        before = scope.program.values[x]
        reduced = op in ("sum", "prod", "max", "min", "mean", "any", "all") and not params["axis"]
        moved = op == "permute_dims" and list(params["axes"]) == sorted(params["axes"])
        whole = (op == "slice" and not params["starts"]) or (op == "reshape" and before.shape == node.shape)
        cast = (op == "astype" and before.dtype is node.dtype) or (op == "transfer" and not self.has_devices)
        return x if reduced or moved or whole or cast else None

    # Statements.

    def begin(self, scope: Scope) -> None:
        """Called before the first node of the function."""
        if self.devices and not self.has_devices:
            scope.say(f"# {self.spoken} has no devices: all of this is computed on one.")

    def before(self, scope: Scope, node: Node) -> None:
        """Called before each node of a scope."""

    def after(self, scope: Scope, node: Node) -> None:
        """Called after each node of a scope."""

    def stated(self, scope: Scope, node: Node) -> bool:
        """Write a node as statements; returns whether that was done."""
        return False

    def place(self, device: str | None) -> str:
        """The device scope of a statement; empty if the framework has none."""
        return ""

    def script(self) -> list[Statement | Block]:
        """The statements after the imports. State is arguments and results of the function."""
        scope = self.begun()
        scope.returns([*self.program.outputs, *self.program.updates.values()], self.with_state)
        return self.defined(scope)

    def variable(self, i: int) -> Expr:
        """The expression that makes a shared variable, in a framework that has variables."""
        raise NotImplementedError

    def preamble(self) -> list[Statement | Block]:
        """The statements between the imports and the function."""
        return []

    # The function.

    def write_variables(self) -> None:
        """Make the shared variables before the function."""
        self.above = {i: self.taken.new(variable.name) for i, variable in self.program.shared.items()}
        for i, name in self.above.items():
            self.top.append(Statement(f"{name} = ", self.variable(i).end, self.place(self.program.values[i].device)))

    @property
    def arguments(self) -> list[int]:
        """The function's arguments: inputs, and shared variables that the framework has no variables for."""
        return [i for i in (*self.program.inputs, *self.program.shared) if i not in self.above]

    def scope(self) -> Scope:
        """The scope of the function, with the names of its inputs."""
        program = self.program
        scope = Scope(self, program, self.taken.inner(), 0, devices=bool(self.devices))
        scope.exprs.update({i: Expr(name) for i, name in self.above.items()})
        for i in self.arguments:
            name = program.shared[i].name if i in program.shared else program.values[i].params["name"]
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

    def begun(self) -> Scope:
        """The function without its return statement."""
        program, scope = self.program, self.scope()
        scope.statements += self.docstring(scope)
        self.begin(scope)
        scope.run(program.nodes, [*program.outputs, *program.updates.values()])
        return scope

    def docstring(self, scope: Scope) -> list[Statement]:
        """The docstring: shapes and dtypes of arguments and results."""
        program = self.program
        arguments = [f"    {scope.exprs[i].text}: {program.values[i].aval}" for i in self.arguments]
        lines = [f'"""The results of {escaped(program.name)}.', *(["", "Args:"] if arguments else []), *arguments]
        lines += ["", "Returns:"]
        lines += [f"    {program.values[i].aval}" for i in program.outputs] or ["    nothing"]
        return [Statement(line) for line in [*lines, '"""']]

    def examples(self, scope: Scope) -> list[Statement]:
        """Statements that make random inputs, and the first values of state."""
        lines = [Statement("rng = np.random.default_rng(0)")] if self.program.inputs else []
        for i in self.arguments:
            value, name = self.program.values[i], scope.exprs[i].text
            if i in self.program.shared:
                first = self.initial(i)
                lines.append(Statement(f"{name} = ", first.end) if first.end else Statement(f"{name} = {first.text}"))
                continue
            size = f"size={tupled(value.shape)}"
            if value.dtype.is_floating:
                made = f"rng.normal({size})"
            else:
                made = f"rng.integers(0, {most(self.program, i)}, {size})"
            text = made if value.shape else f"np.asarray({made})"
            lines.append(Statement(f"{name} = {text}.astype({dtype_in('np', value.dtype)})"))
        return lines

    def initial(self, i: int) -> Expr:
        """The first value of a shared variable, as an array of NumPy."""
        variable = self.program.shared[i]
        value, dtype = variable.value, dtype_in("np", variable.dtype)
        if value.size > LARGE or not value.size:
            return Expr(self.stored(variable.name, value))
        if not value.shape:
            return Expr(f"{dtype}({literal(value)})")
        return call("np.array", literal(value), dtype=dtype)

    def with_state(self, exprs: Sequence[Expr]) -> Expr:
        """The results, then the new values of the state."""
        count = len(self.program.outputs)
        results, state = exprs[:count], exprs[count:]
        if not state:
            return self.structured(results)
        if not results:
            return several_results(state)
        made = self.structured(results)
        return several_results([ending(replace(made.end, bare=False)) if made.end else made, Expr(group(state))])

    def defined(self, scope: Scope, called: str = "") -> list[Statement | Block]:
        """The function, and its call if the script is run."""
        texts = tuple(scope.exprs[i].text for i in self.arguments)
        head = Statement("", Bracket(f"def {self.function}(", texts, "):"))
        main = Block(Statement('if __name__ == "__main__":'), list(self.examples(scope)))
        made = called or Bracket(f"{self.function}(", texts, ")")
        main.body.append(Statement("print(", Bracket("", (made,), ")")))
        return [Block(head, scope.statements), main]

    def structured(self, exprs: Sequence[Expr]) -> Expr:
        return _structured(unflatten(self.program.structure, exprs), outermost=True)


def most(program: Program, i: int) -> int:
    """The bound of random integers for an input: the length of the shortest axis that it indexes, else 2."""
    lengths = [
        program.values[node.inputs[0]].shape[node.params["axis"]]
        for node in program.nodes
        if node.op in ("take", "take_set", "take_add", "take_along_axis") and node.inputs[1] == i
    ]
    return max(min(lengths), 1) if lengths else 2


def same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def plain(value: Any, dtype: DType) -> str:
    """A number with the fewest digits that give it back in its dtype."""
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


def literal(array: np.ndarray) -> Bracket | str:
    """An array as nested lists."""
    if not array.shape:
        return plain(array[()], DType(array.dtype.name))
    return Bracket("[", tuple(literal(np.asarray(row)) for row in array), "]", collection=True)


def named_by(structure: Any, outputs: Sequence[int]) -> dict[int, str]:
    """Names of outputs: the key of the dictionary around each."""
    found: dict[int, str] = {}

    def walk(part: Any, key: str) -> None:
        if isinstance(part, dict):
            for name, one in part.items():
                walk(one, name)
        elif isinstance(part, list | tuple):
            for one in part:
                walk(one, "")
        elif key:
            found.setdefault(part, key)

    walk(unflatten(structure, outputs), "")
    return found


def result_names(program: Program, taken: set[str]) -> list[str]:
    """The names of a file's results: the key of the dictionary around each, else ``output_0`` and so on, with a number
    if it is taken. They are taken then."""
    keys, found = named_by(program.structure, range(len(program.outputs))), list[str]()
    for k in range(len(program.outputs)):
        found.append(numbered(keys.get(k, f"output_{k}"), taken))
        taken.add(found[-1])
    return found


def _structured(value: Any, outermost: bool = False) -> Expr:
    if isinstance(value, Expr):
        return value.array
    if isinstance(value, dict):
        entries: list[str | Bracket] = []
        for key, part in value.items():
            text, made = f'"{escaped(key)}": ', _structured(part)
            entries.append(replace(made.end, opening=text + made.end.opening) if made.end else text + made.text)
        return collected("{", entries, "}")
    exprs = [_structured(one) for one in value]
    if isinstance(value, list):
        return listed(exprs)
    if len(exprs) == 1:
        return Expr(tupled(exprs))
    return collected("(", exprs, ")", bare=outermost and len(exprs) > 1)
