"""The one writer: a program as statements of a framework's code, by the rows of its dialect.

A value that is used once is a part of the expression that uses it, up to a readable length. A value has a statement of
its own if it is used several times, if the user's line names it, or if an inner function or a gradient reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xbackend.bring.source import names as naming
from xbackend.bring.source.expressions import Expr, infix
from xbackend.bring.source.layout import WIDTH, Block, Bracket, Statement
from xbackend.bring.source.names import NameScope
from xbackend.program import analyses
from xbackend.program.aval import Aval
from xbackend.program.ops import GENERATORS, OPS
from xbackend.program.program import Node, Program

Targets = Any  # of an assignment: a name, or several, which may be nested
INLINE = 44  # characters of the longest expression within another one
CONTROL = ("scan", "while_loop", "cond")
NOTHING = Expr("")


@dataclass(frozen=True)
class Use:
    """An op with the expressions and the avals of its operands."""

    node: Node
    operands: Sequence[Expr]
    avals: Sequence[Aval]

    @property
    def arrays(self) -> list[Expr]:
        """The operands. Numbers have a dtype."""
        return [one.array for one in self.operands]

    @property
    def mixed(self) -> Sequence[Expr]:
        """The operands of an elementwise op. If all are numbers, the first has a dtype."""
        if all(one.number for one in self.operands):
            return [self.operands[0].array, *self.operands[1:]]
        return self.operands

    @property
    def params(self) -> Mapping[str, Any]:
        return self.node.params

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape


@dataclass
class Tape:
    """A gradient's tape: its name, the gradient's node, and the statements around its block."""

    name: str
    node: Node
    around: list[Statement | Block]


def reads(program: Program, node: Node, functions: bool) -> set[int]:
    """The values that a node's statement reads. With ``functions`` a gradient is that of an inner function, which
    computes the path from the targets to the loss."""
    if node.op != "grad" or not functions:
        return set(node.inputs)
    loss, *wrt = node.inputs
    _, dependent = analyses.between(program, loss, wrt)
    return analyses.replayed(program, loss, wrt) - dependent


def inside(program: Program, node: Node) -> set[int]:
    """The values that are computed on the path from a gradient's targets to its loss."""
    loss, *wrt = node.inputs
    between, dependent = analyses.between(program, loss, wrt)
    return {i for i in between if i not in wrt or i in dependent}


def planned(
    program: Program, nodes: Sequence[Node], wanted: Iterable[int], functions: bool
) -> tuple[list[Node], dict[int, list[int]]]:
    """The nodes that a scope writes for the wanted values, and its `Scope.beside`."""
    needed = dict.fromkeys(wanted, len(nodes))
    kept, offers = list[Node](), list[tuple[int, Node, set[int]]]()
    beside: dict[int, list[int]] = {}
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        found = [i for i in node.outputs if i in needed]
        if not found:
            continue
        if node.op == "grad" and functions:
            offers.append((place, node, inside(program, node)))
        else:
            first = min(needed[i] for i in found)
            offered = [one for at, one, values in offers if at < first and values.issuperset(node.outputs)]
            if offered and node.op not in GENERATORS:
                beside.setdefault(offered[-1].outputs[0], []).extend(found)
                continue
        kept.append(node)
        for i in reads(program, node, functions):
            needed[i] = min(needed.get(i, place), place)
    return kept[::-1], {i: sorted(values) for i, values in beside.items()}


@dataclass
class Scope:
    """A function that is being written: the expression of each value, and the statements so far."""

    dialect: Any  # of the framework
    program: Program
    names: NameScope
    depth: int
    exprs: dict[int, Expr] = field(default_factory=dict)
    statements: list[Statement | Block] = field(default_factory=list)
    hints: dict[int, str] = field(default_factory=dict)
    replaced: dict[int, Expr] = field(default_factory=dict)  # other expressions for operands of the next node
    only: int = -1  # the only wanted value, which is returned without a name
    spoken: frozenset[int] = frozenset()  # values that the user's lines name
    shifts: dict[int, str] = field(default_factory=dict)  # parameters that are added to targets of a gradient
    devices: bool = False
    pending: set[int] = field(default_factory=set)  # values that have no statement yet
    uses: Counter[int] = field(default_factory=Counter)
    nodes: list[Node] = field(default_factory=list)  # the nodes to write
    beside: dict[int, list[int]] = field(default_factory=dict)  # results of a gradient's function beside the loss
    targets: frozenset[int] = frozenset()
    tapes: list[Tape] = field(default_factory=list)  # the open ones; that of the first gradient is last

    def run(self, nodes: Sequence[Node], wanted: Sequence[int]) -> None:
        """Write the nodes that the wanted values depend on."""
        functions = self.dialect.gradients_of_functions
        self.nodes, self.beside = planned(self.program, nodes, wanted, functions)
        self.uses.update(wanted)
        self.only = wanted[0] if len(wanted) == 1 else -1
        given = naming.users(self.program)
        self.spoken = frozenset(given)
        self.hints = {**given, **self.hints}
        targets = set[int]()
        for node in self.nodes:
            several = node.op == "grad" or node.op in CONTROL
            for i in reads(self.program, node, functions) if several else node.inputs:
                self.uses[i] += 2 if several else 1
            if node.op == "grad":
                targets.update(node.inputs[1:])
        self.targets = frozenset(targets)
        for node in self.nodes:
            self.dialect.before(self, node)
            self.write(node)
            self.dialect.after(self, node)

    def write(self, node: Node) -> None:
        if all(i in self.exprs for i in node.outputs):
            return
        if node.op in GENERATORS:
            self.generator(node)
        elif node.op in ("grad", *CONTROL) or OPS[node.op].several:
            self.several(node)
        else:
            self.single(node)

    def generator(self, node: Node) -> None:
        (i,) = node.outputs
        expr = self.dialect.generated(self, node)
        if expr.number and i not in self.targets:
            self.exprs[i] = expr
        else:
            self.keep(i, expr)

    def keep(self, i: int, expr: Expr, spoken: bool = False) -> None:
        """Keep a value as an expression; as a statement if it is used several times, a target, long, or ``spoken``."""
        self.exprs[i] = expr
        if self.uses[i] > 1 or i in self.targets or len(expr.text) > INLINE or spoken:
            self.state(i, expr.array)
        else:
            self.pending.add(i)

    def several(self, node: Node) -> None:
        """Write an op with several results. To targets of a gradient the parameters of `shifts` are added."""
        if node.op == "grad":
            self.dialect.gradient(self, node)
        elif node.op in CONTROL:
            getattr(self.dialect, node.op)(self, node)
        elif not self.dialect.stated(self, node):
            expr = self.built(node)
            self.say(f"{', '.join(map(self.claim, node.outputs))} = ", expr, self.device(node.outputs[0]))
        for i in node.outputs:
            if i in self.shifts:
                self.say(f"{self.exprs[i].text} = {self.exprs[i].text} + {self.shifts[i]}")

    def single(self, node: Node) -> None:
        (i,) = node.outputs
        if self.dialect.stated(self, node):
            return
        same = self.dialect.same(self, node)
        if same is not None and i not in self.targets and i not in self.shifts:
            self.alias(i, same)
            return
        if node.op in self.dialect.repeated and self.program.values[node.inputs[0]].dtype.is_floating:
            for j in node.inputs:
                self.known(j)
        expr = self.built(node)
        if i in self.shifts:
            expr = infix("+", expr, Expr(self.shifts[i]))
        self.keep(i, expr, i in self.spoken and i != self.only and len(expr.text) > len(self.hints[i]) + 6)

    def alias(self, i: int, other: int) -> None:
        """Give a value the expression of another one."""
        if other in self.pending and (self.uses[i] > 1 or i in self.spoken):
            if i in self.hints:
                self.hints.setdefault(other, self.hints[i])
            self.name(other)
        self.exprs[i] = self.exprs[other]
        if other in self.pending:
            self.pending.discard(other)
            self.pending.add(i)

    def built(self, node: Node) -> Expr:
        """The expression of a node. Operands become statements of their own until it fits on a line."""
        avals = [self.program.values[j].aval for j in node.inputs]
        other, self.replaced = self.replaced, {}
        return self.fitting(
            node.inputs,
            lambda each: self.dialect.row(
                Use(node, [other.get(j, e) for j, e in zip(node.inputs, each, strict=True)], avals)
            ),
        )

    def fitting(self, values: Sequence[int], build: Callable[[list[Expr]], Expr], room: int = 20) -> Expr:
        """An expression built from those of values. The longest become statements until it fits on a line."""
        while True:
            expr = build([self.exprs[j] for j in values])
            # A number is no shorter as a statement.
            loose = [j for j in values if j in self.pending and not self.exprs[j].number]
            if not loose or self.fits(expr, room):
                return expr
            self.name(max(loose, key=lambda j: len(self.exprs[j].text)))

    def fits(self, expr: Expr, room: int) -> bool:
        width = WIDTH - 4 * (self.depth + 1) - room
        if expr.end is None or len(expr.text) <= width:
            return len(expr.text) <= width
        return len(expr.end.opening) <= width and all(len(str(item)) <= INLINE for item in expr.end.items)

    def hint(self, i: int) -> str:
        """The wanted name of a value."""
        value = self.program.values[i]
        of = next((self.exprs[j].text for j in value.inputs[:1] if j in self.exprs), "")
        return self.hints.get(i) or naming.role(value.node, value.index, of if of.isidentifier() else "")

    def state(self, i: int, expr: Expr) -> str:
        """Write the statement that names a value; returns the name."""
        name = self.names.new(self.hint(i))
        self.say(f"{name} = ", expr, self.device(i))
        self.exprs[i] = Expr(name)
        self.pending.discard(i)
        return name

    def name(self, i: int) -> str:
        """The name of a value, with a statement if it has none yet."""
        expr = self.exprs[i]
        if expr.text.isidentifier() and not expr.number and i not in self.pending:
            return expr.text
        return self.state(i, expr.array)

    def known(self, i: int) -> Expr:
        """The expression of a value for an inner function: a name, or a number."""
        return self.exprs[i] if self.exprs[i].number and i not in self.targets else Expr(self.name(i))

    def say(self, text: str, expr: Expr = NOTHING, device: str = "") -> None:
        self.statements.append(Statement(text if expr.end else f"{text}{expr.text}", expr.end, device))

    def claim(self, i: int, hint: str = "") -> str:
        """The assignment target of a value; an underscore if the value is unused."""
        if not (self.uses[i] or i in self.targets):
            return "_"
        if hint:
            self.hints.setdefault(i, hint)
        name = self.names.new(self.hint(i))
        self.exprs[i] = Expr(name)
        return name

    def claim_gradients(self, node: Node, names: Sequence[str]) -> list[str]:
        """The assignment targets of a gradient's results, named after its arrays, ``names``."""
        for i in node.outputs:
            self.uses[i] = self.uses[i] or 1
        return [self.claim(i, f"{name}_grad") for i, name in zip(node.outputs, names, strict=True)]

    def bind(self, targets: Targets, expr: Expr, device: str = "") -> None:
        """Unpack a nested tuple: in one statement, or in one for each part if its targets are too long for a line."""
        left = target_text(targets)
        opening = expr.end.opening if expr.end is not None else expr.text
        if isinstance(targets, str) or len(left) + len(opening) + 3 + 4 * (self.depth + 1) <= WIDTH:
            self.say(f"{left} = ", expr, device)
            return
        if expr.end is None:
            for place, part in enumerate(targets):
                self.bind(part, Expr(f"{expr.text}[{place}]"))
            return
        packed = self.names.new("found")
        self.say(f"{packed} = ", expr, device)
        self.bind(targets, Expr(packed))

    def device(self, i: int) -> str:
        return str(self.dialect.place(self.program.values[i].device)) if self.devices else ""

    def child(self, program: Program | None = None) -> Scope:
        """The scope of an inner function: of the same program, or of a body."""
        return Scope(self.dialect, program or self.program, self.names.inner(), self.depth + 1)

    @contextmanager
    def block(self, head: str) -> Iterator[Block]:
        """A compound statement. It gets the statements that are written meanwhile."""
        block, outer = Block(Statement(head)), self.statements
        outer.append(block)
        self.statements, self.depth = block.body, self.depth + 1
        try:
            yield block
        finally:
            self.statements, self.depth = outer, self.depth - 1

    def define(self, name: str, parameters: Sequence[str], body: Scope) -> None:
        """Write an inner function."""
        head = Statement("", Bracket(f"def {name}(", tuple(parameters), "):"))
        self.statements.append(Block(head, body.statements, function=True))

    def returns(self, values: Sequence[int], build: Callable[[list[Expr]], Expr]) -> None:
        """Write the return statement, built from values."""
        self.say("return ", self.fitting(values, build, len("return ")))

    def through(self, exprs: Sequence[Expr]) -> list[Expr]:
        """Write a body, with these expressions as inputs. Returns the expressions of its results."""
        self.exprs.update(zip(self.program.inputs, exprs, strict=True))
        self.run(self.program.nodes, self.program.outputs)
        return [self.exprs[i] for i in self.program.outputs]

    def enter_here(self, body: Program, exprs: Sequence[Expr]) -> list[Expr]:
        """Write a body's statements into this function; returns the expressions of its results."""
        return Scope(self.dialect, body, self.names, self.depth, statements=self.statements).through(exprs)


def target_text(targets: Targets) -> str:
    """The text of assignment targets, with inner tuples in parentheses."""
    if isinstance(targets, str):
        return targets
    parts = [target_text(one) for one in targets]
    inner = [f"({part})" if not isinstance(one, str) else part for one, part in zip(targets, parts, strict=True)]
    return f"{inner[0]}," if len(inner) == 1 else ", ".join(inner)


def nested(names: Sequence[str]) -> Targets:
    """Names as one element of targets: the only name, all of them, or an underscore if all are unused."""
    if not set(names) - {"_"}:
        return "_"
    return names[0] if len(names) == 1 else list(names)
