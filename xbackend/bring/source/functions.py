"""Bodies of loops and choices as functions inside of the function, for frameworks whose loops take such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xbackend.bring.source.expressions import ATOM, LAMBDA, Expr, call, listed, named, tupled
from xbackend.bring.source.layout import Bracket
from xbackend.bring.source.writer import Scope, nested
from xbackend.program.program import Node, Program


class Parts(NamedTuple):
    """The inputs of a scan."""

    init: Sequence[int]
    xs: Sequence[int]
    closed: Sequence[int]


def parts(node: Node) -> Parts:
    carries = node.params["carries"]
    first_closed = carries + node.params.get("sequences", 0)
    return Parts(node.inputs[:carries], node.inputs[carries:first_closed], node.inputs[first_closed:])


class Step(NamedTuple):
    """The function of a scan's step as it begins: its name, its scope, and the names of what it carries and of its
    elements of the sequences."""

    name: str
    inner: Scope
    carried: list[str]
    rows: list[str]


def step(scope: Scope, node: Node) -> Step:
    """The step of a scan, whose scope knows its inputs."""
    body, (init, xs, closed) = node.params["body"], parts(node)
    captured = [scope.known(i) for i in closed]
    name, inner = scope.names.new("step"), scope.child(body)
    carried = carried_names(scope, inner, init, closed)
    rows = element_names(scope, inner, xs)
    inner.exprs.update(given(body, [*texts(carried), *texts(rows), *captured]))
    return Step(name, inner, carried, rows)


def loop(scope: Scope, node: Node, captured: Sequence[Expr], listed_state: bool) -> tuple[list[str], list[str]]:
    """The functions of a while loop, and the names of what it carries: an argument each for a framework whose state is
    a list, else one that is a tuple."""
    made, (init, _, closed) = list[str](), parts(node)
    for role, key in (("goes_on", "condition"), ("advance", "body")):
        body = node.params[key]
        inner = scope.child(body)
        carried = carried_names(scope, inner, init, closed)
        inner.exprs.update(given(body, [*texts(carried), *captured]))
        if not listed_state:
            unpacked(inner, carried, "state")
        inner.run(body.nodes, body.outputs)
        inner.returns(body.outputs, listed_results if listed_state and key == "body" else several_results)
        made.append(scope.names.new(role))
        scope.define(made[-1], carried if listed_state else [loop_names(carried, "state")], inner)
    return made, carried


def choice(scope: Scope, node: Node, called: str) -> None:
    """A `cond` as a call of a function that takes a function for each branch."""
    predicate, *values = node.inputs
    captured = [scope.known(i) for i in values]
    branches = [branch(scope, key, node.params[key], captured) for key in ("then", "otherwise")]
    names = [scope.claim(i) for i in node.outputs]
    built = scope.fitting([predicate], lambda e: call(called, e[0].array, *branches))
    scope.bind(nested(names), built, scope.device(node.outputs[0]))
    scope.shifted(node.outputs)


def carried_names(scope: Scope, inner: Scope, init: Sequence[int], closed: Sequence[int]) -> list[str]:
    """Names of what a loop carries: those of what it begins with, which the loop does not read itself."""
    names, captured = list[str](), {scope.exprs[i].text for i in closed}
    for i in init:
        text = scope.exprs[i].text
        free = text.isidentifier() and text not in captured and text not in names
        names.append(text if free else inner.names.new(scope.hints.get(i, "carry")))
        inner.names.taken.add(names[-1])
    return names


def element_names(scope: Scope, inner: Scope, xs: Sequence[int]) -> list[str]:
    """Names of what a step gets of each sequence."""
    found = []
    for i in xs:
        text = scope.exprs[i].text
        found.append(inner.names.new(f"{text}_t" if text.isidentifier() else "x_t"))
    return found


def names_of_results(scope: Scope, node: Node, carried: Sequence[str]) -> tuple[list[str], list[str]]:
    """The targets of the last carry and of what each step gave."""
    last, each = node.outputs[: len(carried)], node.outputs[len(carried) :]
    return (
        [scope.claim(i, f"last_{name}") for i, name in zip(last, carried, strict=True)],
        [scope.claim(i, "each") for i in each],
    )


def given(program: Program, exprs: Sequence[Expr]) -> dict[int, Expr]:
    """The expressions of a body's inputs."""
    return dict(zip(program.inputs, exprs, strict=True))


def group(exprs: Sequence[Expr]) -> str:
    """Results as one part of a tuple."""
    if not exprs:
        return "None"
    texts = [one.array.text for one in exprs]
    return texts[0] if len(texts) == 1 else tupled(texts)


def branch(scope: Scope, name: str, body: Program, values: Sequence[Expr]) -> str:
    """A function without arguments that computes a branch: a lambda where it is one short expression."""
    inner = scope.enter(body, given(body, values))
    results = [inner.exprs[i] for i in body.outputs]
    text = f"lambda: {group(results)}"
    if not inner.statements and len(text) <= 40:
        return text
    name = scope.names.new(name)
    returned(inner, body.outputs)
    scope.define(name, [], inner)
    return name


def returned(inner: Scope, outputs: Sequence[int]) -> None:
    """Return results: one, or a tuple."""
    inner.returns(outputs, several_results)


def several_results(exprs: Sequence[Expr]) -> Expr:
    if len(exprs) == 1:
        return exprs[0].array
    items: tuple[str | Bracket, ...] = tuple(one.array.end or one.array.text for one in exprs)
    end = Bracket("(", items, ")", collection=True, bare=True)
    return Expr(str(end), LAMBDA, end)


def listed_results(exprs: Iterable[Expr]) -> Expr:
    """Results as a list."""
    end = listed([one.array for one in exprs])
    return Expr(str(end), ATOM, end)


def unpacked(scope: Scope, names: Sequence[str], packed: str) -> None:
    """A statement that takes a tuple apart, if there are several names."""
    if len(names) > 1:
        scope.bind(list(names), Expr(packed))


def loop_names(names: Sequence[str], packed: str) -> str:
    """The parameter for several things."""
    return names[0] if len(names) == 1 else packed


def texts(names: Sequence[str]) -> list[Expr]:
    return [named(name) for name in names]
