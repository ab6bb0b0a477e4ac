"""Bodies of loops and choices as functions inside of the function, for frameworks whose loops take such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from keyword import iskeyword

from xbackend.bring.source.expressions import Expr, call, collected, listed, tupled
from xbackend.bring.source.writer import Scope, nested
from xbackend.program.program import Node, Program

Numbers = Sequence[int]


def parts(node: Node) -> tuple[Numbers, Numbers, Numbers]:
    """The inputs of a loop: what it begins with, the sequences of a scan, and what its body reads of outside."""
    carries = node.params["carries"]
    first_closed = carries + node.params.get("sequences", 0)
    return node.inputs[:carries], node.inputs[carries:first_closed], node.inputs[first_closed:]


def step(scope: Scope, node: Node) -> tuple[str, Scope, list[str], list[str]]:
    """The function of a scan's step as it begins: its name, its scope, which knows its inputs, and the names of what it
    carries and of its elements of the sequences."""
    body, (init, xs, closed) = node.params["body"], parts(node)
    captured = [scope.known(i) for i in closed]
    name, inner = scope.names.new("step"), scope.child(body)
    carried = carried_names(scope, inner, init, closed)
    texts = [scope.exprs[i].text for i in xs]
    rows = [inner.names.new(f"{text}_t" if text.isidentifier() else "x_t") for text in texts]
    inner.exprs.update(zip(body.inputs, [*map(Expr, carried), *map(Expr, rows), *captured], strict=True))
    return name, inner, carried, rows


def loop(scope: Scope, node: Node, captured: Sequence[Expr], listed_state: bool) -> tuple[list[str], list[str]]:
    """The functions of a while loop, and the names of what it carries: an argument each for a framework whose state is
    a list, else one that is a tuple."""
    made, (init, _, closed) = list[str](), parts(node)
    for role, key in (("goes_on", "condition"), ("advance", "body")):
        body = node.params[key]
        inner = scope.child(body)
        carried = carried_names(scope, inner, init, closed)
        inner.exprs.update(zip(body.inputs, [*map(Expr, carried), *captured], strict=True))
        parameters = carried if listed_state else [packed(inner, carried, "state")]
        inner.run(body.nodes, body.outputs)
        inner.returns(body.outputs, listed_results if listed_state and key == "body" else several_results)
        made.append(scope.names.new(role))
        scope.define(made[-1], parameters, inner)
    return made, carried


def choice(scope: Scope, node: Node, called: str) -> None:
    """A `cond` as a call of a function that takes a function for each branch."""
    predicate, *values = node.inputs
    captured = [scope.known(i) for i in values]
    branches = [_branch(scope, key, node.params[key], captured) for key in ("then", "otherwise")]
    names = [scope.claim(i) for i in node.outputs]
    built = scope.fitting([predicate], lambda e: call(called, e[0].array, *branches))
    scope.bind(nested(names), built, scope.device(node.outputs[0]))


def carried_names(scope: Scope, inner: Scope, init: Sequence[int], closed: Sequence[int]) -> list[str]:
    """Names of what a loop carries: those of what it begins with, which the loop does not read itself."""
    names, captured = list[str](), {scope.exprs[i].text for i in closed}
    for i in init:
        text = scope.exprs[i].text
        free = text.isidentifier() and not iskeyword(text) and text not in captured and text not in names
        names.append(text if free else inner.names.new(scope.hints.get(i, "carry")))
        inner.names.taken.add(names[-1])
    return names


def names_of_results(scope: Scope, node: Node, carried: Sequence[str]) -> tuple[list[str], list[str]]:
    """The targets of the last carry and of what each step gave."""
    last, each = node.outputs[: len(carried)], node.outputs[len(carried) :]
    return (
        [scope.claim(i, f"last_{name}") for i, name in zip(last, carried, strict=True)],
        [scope.claim(i, "each") for i in each],
    )


def group(exprs: Sequence[Expr]) -> str:
    """Results as one part of a tuple."""
    if not exprs:
        return "None"
    return exprs[0].array.text if len(exprs) == 1 else tupled(one.array for one in exprs)


def _branch(scope: Scope, name: str, body: Program, values: Sequence[Expr]) -> str:
    """A function without arguments that computes a branch: a lambda where it is one short expression."""
    inner = scope.child(body)
    text = f"lambda: {group(inner.through(values))}"
    if not inner.statements and len(text) <= 40:
        return text
    name = scope.names.new(name)
    inner.returns(body.outputs, several_results)
    scope.define(name, [], inner)
    return name


def several_results(exprs: Sequence[Expr]) -> Expr:
    """Results as a function returns them: one, or a tuple."""
    return exprs[0].array if len(exprs) == 1 else collected("(", [one.array for one in exprs], ")", bare=True)


def listed_results(exprs: Iterable[Expr]) -> Expr:
    return listed([one.array for one in exprs])


def packed(scope: Scope, names: Sequence[str], hint: str) -> str:
    """The parameter for several things, which a statement takes apart; the only name of one."""
    if len(names) == 1:
        return names[0]
    name = scope.names.new(hint)  # one that no value has which the function reads
    scope.bind(list(names), Expr(name))
    return name
