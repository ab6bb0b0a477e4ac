"""Bodies of loops and choices as inner functions, for frameworks whose loops take functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from keyword import iskeyword

from xbackend.bring.source.expressions import Expr, call, collected, listed, tupled
from xbackend.bring.source.writer import Scope, nested
from xbackend.program.program import Node, Program

Numbers = Sequence[int]


def parts(node: Node) -> tuple[Numbers, Numbers, Numbers]:
    """The inputs of a loop: initial carries, sequences of a scan, and values that its body captures."""
    carries = node.params["carries"]
    first_closed = carries + node.params.get("sequences", 0)
    return node.inputs[:carries], node.inputs[carries:first_closed], node.inputs[first_closed:]


def step(scope: Scope, node: Node) -> tuple[str, Scope, list[str], list[str]]:
    """Begin the function of a scan's step. Returns its name, its scope with the body's inputs, and the names of the
    carries and of the elements of the sequences."""
    body, (init, xs, closed) = node.params["body"], parts(node)
    captured = [scope.known(i) for i in closed]
    name, inner = scope.names.new("step"), scope.child(body)
    carried = carried_names(scope, inner, init, closed)
    texts = [scope.exprs[i].text for i in xs]
    rows = [inner.names.new(f"{text}_t" if text.isidentifier() else "x_t") for text in texts]
    inner.exprs.update(zip(body.inputs, [*map(Expr, carried), *map(Expr, rows), *captured], strict=True))
    return name, inner, carried, rows


def loop(scope: Scope, node: Node, captured: Sequence[Expr], listed_state: bool) -> tuple[list[str], list[str]]:
    """Write the functions of a while loop. Returns their names, and those of the carries. With ``listed_state`` each
    carry is a parameter, else all are one tuple."""
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
    """A `cond` as a call of the framework's function, with a function for each branch."""
    predicate, *values = node.inputs
    captured = [scope.known(i) for i in values]
    branches = [_branch(scope, key, node.params[key], captured) for key in ("then", "otherwise")]
    names = [scope.claim(i) for i in node.outputs]
    built = scope.fitting([predicate], lambda e: call(called, e[0].array, *branches))
    scope.bind(nested(names), built, scope.device(node.outputs[0]))


def carried_names(scope: Scope, inner: Scope, init: Sequence[int], closed: Sequence[int]) -> list[str]:
    """Names of the carries: those of the initial carries, except names that the body captures."""
    names, captured = list[str](), {scope.exprs[i].text for i in closed}
    for i in init:
        text = scope.exprs[i].text
        free = text.isidentifier() and not iskeyword(text) and text not in captured and text not in names
        names.append(text if free else inner.names.new(scope.hints.get(i, "carry")))
        inner.names.taken.add(names[-1])
    return names


def names_of_results(scope: Scope, node: Node, carried: Sequence[str]) -> tuple[list[str], list[str]]:
    """The targets of the last carries, and of the stacked results of the steps."""
    last, each = node.outputs[: len(carried)], node.outputs[len(carried) :]
    return (
        [scope.claim(i, f"last_{name}") for i, name in zip(last, carried, strict=True)],
        [scope.claim(i, "each") for i in each],
    )


def group(exprs: Sequence[Expr]) -> str:
    """Results as one element of a tuple."""
    if not exprs:
        return "None"
    return exprs[0].array.text if len(exprs) == 1 else tupled(one.array for one in exprs)


def _branch(scope: Scope, name: str, body: Program, values: Sequence[Expr]) -> str:
    """A function without arguments for a branch: a lambda if it is one short expression."""
    inner = scope.child(body)
    text = f"lambda: {group(inner.through(values))}"
    if not inner.statements and len(text) <= 40:
        return text
    name = scope.names.new(name)
    inner.returns(body.outputs, several_results)
    scope.define(name, [], inner)
    return name


def several_results(exprs: Sequence[Expr]) -> Expr:
    """Results to return: one, or a tuple."""
    return exprs[0].array if len(exprs) == 1 else collected("(", [one.array for one in exprs], ")", bare=True)


def listed_results(exprs: Iterable[Expr]) -> Expr:
    return listed([one.array for one in exprs])


def packed(scope: Scope, names: Sequence[str], hint: str) -> str:
    """One parameter for several names, and a statement that unpacks it; a single name is the parameter itself."""
    if len(names) == 1:
        return names[0]
    name = scope.names.new(hint)  # unlike all names that the function reads
    scope.bind(list(names), Expr(name))
    return name
