"""Operations that call functions: calls are inlined; choices are `cond`, loops `scan` or `while_loop`.

A loop is a `scan`, which has a gradient, if its number of steps is known and at most `MOST_STEPS`; else a `while_loop`.
Assigned variables are carries of a loop and results of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.control_flow import cond as xb_cond
from xbackend.api.control_flow import scan as xb_scan
from xbackend.api.control_flow import while_loop as xb_while_loop
from xbackend.api.tracing.array import Array
from xbackend.bring.choices import chosen
from xbackend.bring.tensorflow.functions import effects
from xbackend.bring.tensorflow.lists import TensorList
from xbackend.bring.tensorflow.state import Seen, Variable, value_of, written
from xbackend.bring.tensorflow.variables import WRITES
from xbackend.bring.tensorflow.walk import (
    ANYWHERE,
    ROWS,
    SharedState,
    TensorFlowWalk,
    array,
    key,
    on,
    operations,
    row,
    spelled,
)
from xbackend.errors import GraphError

_CALLED = {  # the attributes that name functions, and the number of the first input passed to them
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), (("f",), 0)),
    **dict.fromkeys(("If", "StatelessIf"), (("then_branch", "else_branch"), 1)),
    **dict.fromkeys(("Case", "StatelessCase"), (("branches",), 1)),
    **dict.fromkeys(("While", "StatelessWhile"), (("cond", "body"), 0)),
}
MOST_STEPS = 1 << 14  # of a loop, counted while walking


def called(walk_function: Any, operation: Any) -> list[tuple[Any, int]]:
    """The graphs of the functions that an operation calls, each with the number of the first input passed to it. The
    type of an operation may be the name of a function."""
    if operation.type not in ROWS:
        try:
            return [(walk_function(operation.graph, operation.type), 0)]
        except LookupError:  # the type of no function: `check_rows` lists it
            return []
    names, first = _CALLED.get(operation.type, ((), 0))
    values = [operation.get_attr(name) for name in names]
    each = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return [(walk_function(operation.graph, one.name), first) for one in each]


def _done(walk: TensorFlowWalk, graph: Any, values: Sequence[Any], *before: Any) -> tuple[list[Any], Seen]:
    """The results of a function, and the assignments at its end. ``before`` are further arguments of
    `TensorFlowWalk.inner`."""
    inner = walk.inner({key(tensor): value for tensor, value in zip(graph.inputs, values, strict=True)}, *before)
    return inner.results(graph.outputs, effects(graph)), inner.final()


def _inlined(walk: TensorFlowWalk, operation: Any, graph: Any, values: Sequence[Any]) -> list[Any]:
    found, walk.seen[operation.name] = _done(walk, graph, values, walk.seen[operation.name])
    return found


@row("PartitionedCall", "StatefulPartitionedCall", attributes="f config config_proto executor_type", folds=False)
def call(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    ((graph, _),) = called(walk.shared.function, operation)
    return _inlined(walk, operation, graph, values)


_BRANCHES = "then_branch else_branch branches output_shapes"


@row("If", "StatelessIf", "Case", "StatelessCase", attributes=_BRANCHES, folds=False)
def choice(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    selected, given = values[0], values[1:]
    graphs = [graph for graph, _ in called(walk.shared.function, operation)]
    if operation.type.endswith("If"):
        selected = _truth(selected)
    if isinstance(selected, np.ndarray):
        number = int(selected) if operation.type.endswith("Case") else 1 - int(selected)
        number = number if 0 <= number < len(graphs) else len(graphs) - 1
        return _inlined(walk, operation, graphs[number], given)
    before, changed = walk.seen[operation.name], _changed(walk, graphs, given)
    within = _device(walk, operation, graphs)
    templates: list[Any] = []

    def branch(graph: Any) -> Any:
        def function() -> Any:
            found, final = _done(walk, graph, given, before, within)
            templates[:] = found
            return (*map(_packed, found), *(array(value_of(one, final)) for one in changed))

        return function

    with on(within[0]):
        branches = [branch(one) for one in graphs] if graphs[0].outputs or changed else []
        made: Any = ()
        if branches and operation.type.endswith("If"):
            made = xb_cond(selected, *branches)
        elif branches:
            made = chosen(lambda number: xb.equal(selected, number), branches)
    found = [_unpacked(one, template) for one, template in zip(made, templates, strict=False)]
    _put(walk, operation, before, changed, made[len(templates) :])
    return found


def _truth(value: Any) -> Any:
    """A condition as a bool. A number is true unless it is 0, an array of another rank if it has elements."""
    if value.ndim:
        return np.asarray(bool(value.size))
    if isinstance(value, np.ndarray):
        return np.asarray(bool(value))
    return value if not value.dtype.is_numeric else xb.not_equal(value, 0)


def _packed(value: Any) -> Any:
    if isinstance(value, Variable):
        raise GraphError("a choice or a loop gives a variable: give its value")
    return value.there() if isinstance(value, TensorList) else array(value)


def _unpacked(value: Any, template: Any) -> Any:
    return TensorList(value, value.shape[0], value.dtype) if isinstance(template, TensorList) else value


def _put(
    walk: TensorFlowWalk, operation: Any, before: Seen, changed: Sequence[Variable], values: Sequence[Any]
) -> None:
    for variable, value in zip(changed, values, strict=True):
        before = written(before, variable, value)
    walk.seen[operation.name] = before


def _changed(walk: TensorFlowWalk, graphs: Sequence[Any], values: Sequence[Any]) -> list[Variable]:
    """The variables among the operands ``values`` that functions assign."""
    numbers = sorted({number for graph in graphs for number in assigned(walk.shared, graph)})
    return [values[n] for n in numbers if isinstance(values[n], Variable)]


def assigned(shared: SharedState, graph: Any) -> set[int]:
    """The numbers of the inputs that a function assigns, itself or in functions that it calls."""
    if id(graph) in shared.assigned:
        return shared.assigned[id(graph)]
    inputs = {key(tensor): number for number, tensor in enumerate(graph.inputs)}
    targets: list[Any] = []
    for operation in graph.get_operations():
        targets += operation.inputs[: WRITES.get(operation.type, 0)]
        for inner, first in called(shared.function, operation):
            targets += [operation.inputs[first + number] for number in assigned(shared, inner)]
    found = {inputs[key(one)] for one in map(behind, targets) if key(one) in inputs}
    shared.assigned[id(graph)] = found
    return found


def behind(tensor: Any) -> Any:
    """The operand at the start of a chain of `Identity` operations."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _device(walk: TensorFlowWalk, operation: Any, graphs: Sequence[Any]) -> tuple[str | None]:
    """The device of a loop or a choice. Raises `GraphError` where its operations ask for several."""
    if walk.within is not None:
        return walk.within
    found = {spelled(operation.device)}
    todo, entered = list(graphs), set[int]()
    while todo:
        graph = todo.pop()
        if id(graph) in entered:
            continue
        entered.add(id(graph))
        for inner in graph.get_operations():
            if inner.type not in (*ANYWHERE, "ReadVariableOp", *WRITES):
                found.add(spelled(inner.device))
            todo += [called_graph for called_graph, _ in called(walk.shared.function, inner)]
    asked = sorted(one for one in found if one)
    if len(asked) > 1:
        raise GraphError(
            f"it is on {' and '.join(asked)}: a program has a loop or a choice on one device, so move arrays "
            "before or behind it"
        )
    return (asked[0] if asked else None,)


@row("While", "StatelessWhile", attributes="cond body output_shapes parallel_iterations", folds=False)
def loop(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    (condition, _), (body, _) = called(walk.shared.function, operation)
    carried = [i for i in range(len(values)) if not _stays(body, i)]
    if _changed(walk, [condition], values):
        raise GraphError("the condition of a loop assigns a variable: assign it in the loop")
    before, changed = walk.seen[operation.name], _changed(walk, [body], values)
    within, steps = _device(walk, operation, [condition, body]), _steps(walk, condition, body, values)
    start = [values[i] for i in carried]
    if any(isinstance(one, TensorList) and one.items is None for one in start):
        # A step outside of the loop finds the shape of the elements. Pruning removes its ops.
        after, _ = _done(walk, body, values, before, within)
        start = [_first(values[i], after[i]) for i in carried]
    init = [*map(_packed, start), *(array(value_of(one, before)) for one in changed)]

    def inside(graph: Any, state: Sequence[Any]) -> tuple[list[Any], Seen]:
        given = list(values)
        for i, one, template in zip(carried, state, start, strict=False):
            given[i] = _unpacked(one, template)
        seen = before
        for variable, value in zip(changed, state[len(carried) :], strict=True):
            seen = written(seen, variable, value)
        return _done(walk, graph, given, seen, within)

    def ask(state: Sequence[Any]) -> Any:
        return _truth(array(inside(condition, state)[0][0]))

    def step(state: Sequence[Any]) -> Any:
        found, final = inside(body, state)
        return [*(_packed(found[i]) for i in carried), *(array(value_of(one, final)) for one in changed)]

    with on(within[0]):
        if steps is None:
            made = xb_while_loop(ask, step, init)
        else:
            made, _ = xb_scan(lambda state, _: (step(state), None), init, None, steps)
    result = list(values)
    for i, one, template in zip(carried, made, start, strict=False):
        result[i] = _unpacked(one, template)
    _put(walk, operation, before, changed, made[len(carried) :])
    return result


def _stays(body: Any, number: int) -> bool:
    """Whether the body returns this input unchanged. Then it is no carry."""
    return key(behind(body.outputs[number])) == key(body.inputs[number])


def _first(value: Any, after: Any) -> Any:
    """The initial carry. A list without a shape gets that of the elements that a step writes."""
    if not isinstance(value, TensorList) or value.items is not None or after.items is None:
        return value
    return TensorList(value.filled(after.items.shape[1:]), value.length, value.dtype)


def _steps(walk: TensorFlowWalk, condition: Any, body: Any, values: Sequence[Any]) -> int | None:
    """The number of steps; `None` if it depends on the inputs' values or is above `MOST_STEPS`."""
    needed, todo = set[int](), list(_used(condition, condition.outputs[0]))
    while todo:
        number = todo.pop()
        if number not in needed:
            needed.add(number)
            todo += _used(body, body.outputs[number])
    if not all(isinstance(values[i], np.ndarray) for i in needed):
        return None
    state = {i: values[i] for i in needed}
    for count in range(MOST_STEPS + 1):
        (going,) = _known(walk, condition, state, [condition.outputs[0]])
        if isinstance(going, Array):
            return None
        if not _truth(going):
            return count
        numbers = list(state)
        state = dict(zip(numbers, _known(walk, body, state, [body.outputs[i] for i in numbers]), strict=True))
        if any(isinstance(one, Array) for one in state.values()):
            return None
    return None


def _known(walk: TensorFlowWalk, graph: Any, state: dict[int, Any], outputs: Sequence[Any]) -> list[Any]:
    values = {key(graph.inputs[i]): value for i, value in state.items()}
    return walk.inner(values, {}).results(outputs, data_only=True)


def _used(graph: Any, tensor: Any) -> set[int]:
    """The numbers of the inputs of a function that a tensor depends on."""
    inputs = {key(one): number for number, one in enumerate(graph.inputs)}
    found = {inputs[key(tensor)]} if key(tensor) in inputs else set[int]()
    for operation in operations([tensor], (), inputs, data_only=True):
        found |= {inputs[key(one)] for one in operation.inputs if key(one) in inputs}
    return found
