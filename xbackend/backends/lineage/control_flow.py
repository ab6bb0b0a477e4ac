"""Loops and choices as the lineage's own: ``scan``, with ``until`` for while loops, and ``ifelse``. Modes without a
Scan (`LineageBackend.unrolled`) unroll loops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xbackend.backends.lineage.ops import joined
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Node, Program

# From a body and its inputs to its results, in the graph under construction.
Body = Callable[[Program, Sequence[Any]], Sequence[Any]]

MOST_STEPS = 2**31 - 1  # of a while loop, for which Scan needs a maximum
KEPT = 2**28  # the most bytes for each array, where a generation allocates memory for all steps
UNROLLED = 256  # the most steps to unroll: each is a separate part of the graph


def _loop(backend: Any, function: Callable[..., Any], **options: Any) -> list[Any]:
    """The results of the framework's scan, always as a list."""
    scan = backend.framework.scan
    scan = scan if callable(scan) else backend.module("scan").scan
    if "return_updates" in inspect.signature(scan).parameters:
        made = scan(function, **options, strict=True, return_list=True, return_updates=False)
    else:
        made, _ = scan(function, **options, strict=True, return_list=True)
    return list(made) if isinstance(made, list | tuple) else [made]


def _scan(backend: Any, node: Node, inputs: Sequence[Any], body: Body) -> Sequence[Any]:
    T, program = backend.T, node.params["body"]
    carries, reverse = node.params["carries"], node.params["reverse"]
    first_closed = carries + node.params["sequences"]
    init, xs, closed = inputs[:carries], inputs[carries:first_closed], inputs[first_closed:]
    if backend.unrolled:
        return _unrolled(T, node, inputs, body)

    # A state that is also an output is one result of the framework's scan, as users write it, unless there are second
    # gradients: through all states of a carry they are wrong in Aesara and Theano, and through the state before a step,
    # the previous step's result, they fail in C. So each output state is a separate result.
    places, kept, length = program.outputs[:carries], program.outputs[carries:], node.params["length"]
    before = dict(zip(program.inputs, places, strict=False)) if backend.second and length else {}
    own = dict.fromkeys(before.get(i, i) for i in kept if backend.second or i not in places)

    def step(*given: Any) -> list[Any]:
        # Scan's order: sequences, carries, captured arrays.
        slices, carry, rest = given[: len(xs)], given[len(xs) : len(xs) + carries], given[len(xs) + carries :]
        results = list(body(program, [*carry, *slices, *rest]))
        by_number = dict(zip(program.outputs, results, strict=True))
        return [*results[:carries], *(by_number[i] for i in own)]

    made = _loop(
        backend,
        step,
        sequences=list(xs),
        outputs_info=[*init, *[None] * len(own)],
        non_sequences=list(closed),
        n_steps=length,
        go_backwards=reverse,
    )
    every = {**dict(zip(places, made, strict=False)), **dict(zip(own, made[carries:], strict=True))}
    for (i, after), first in zip(before.items(), init, strict=False):
        if i in kept:
            every[i] = T.concatenate([T.shape_padleft(first), every[after][:-1]])
    ys = [every[i] for i in kept]
    return [*(a[-1] for a in made[:carries]), *(y[::-1] if reverse else y for y in ys)]


def _unrolled(T: Any, node: Node, inputs: Sequence[Any], body: Body) -> Sequence[Any]:
    program, carries, length = node.params["body"], node.params["carries"], node.params["length"]
    if length > UNROLLED:
        raise UnsupportedOperation(
            f"a scan of {length} steps: this framework has no loop in this mode, and xbackend writes the steps of one "
            f"after each other up to {UNROLLED} only; take another mode, or fewer steps"
        )
    first_closed = carries + node.params["sequences"]
    carry, xs, closed = list(inputs[:carries]), inputs[carries:first_closed], inputs[first_closed:]
    order = range(length)[::-1] if node.params["reverse"] else range(length)
    made: dict[int, Sequence[Any]] = {}
    for i in order:
        results = body(program, [*carry, *(x[i] for x in xs), *closed])
        carry, made[i] = list(results[:carries]), results[carries:]
    count = len(program.outputs) - carries
    return [*carry, *(joined(T, [made[i][k] for i in range(length)]) for k in range(count))]


def _while(backend: Any, node: Node, inputs: Sequence[Any], body: Body) -> Sequence[Any]:
    T, carries = backend.T, node.params["carries"]
    if backend.unrolled:
        raise UnsupportedOperation(
            "a while_loop: this framework has no loop in this mode, and how many steps to write one after the other is "
            "not known; take another mode, or xb.scan with a length"
        )
    condition, step = node.params["condition"], node.params["body"]
    (begins,) = body(condition, inputs)
    until = backend.module("scan.utils").until

    def one(*given: Any) -> tuple[list[Any], Any]:
        state, (first, *closed) = given[:carries], given[carries:]
        after = list(body(step, [*state, *closed]))
        (goes_on,) = body(condition, [*after, *closed])
        # Scan makes at least one step; it stops after that if it should have made none.
        return after, until(T.invert(T.and_(goes_on, first)))

    steps = MOST_STEPS
    if backend.keeps_steps:
        steps = KEPT // max(8, *(step.values[i].aval.nbytes for i in step.outputs))
    made = _loop(
        backend,
        one,
        outputs_info=list(inputs[:carries]),
        non_sequences=[begins, *inputs[carries:]],
        n_steps=np.int64(steps),
    )
    last = [T.switch(begins, a[-1], before) for a, before in zip(made, inputs[:carries], strict=True)]
    if backend.keeps_steps:
        (goes_on,) = body(condition, [*last, *inputs[carries:]])
        said = f"xb.while_loop did not end within {steps} steps, for which this framework has memory at once"
        last = [backend.asserted(a, T.invert(goes_on), said) for a in last]
    return last


def _cond(backend: Any, node: Node, inputs: Sequence[Any], body: Body) -> Sequence[Any]:
    predicate, *values = inputs
    handed_on = [_handed_on(backend, predicate, value) for value in values]
    then = body(node.params["then"], [value for value, _ in handed_on])
    otherwise = body(node.params["otherwise"], [value for _, value in handed_on])
    # One op for each result, merged by cond_merge: IfElse.L_op takes disconnected gradients for numbers.
    return [backend.if_else(predicate, a, b) for a, b in zip(then, otherwise, strict=True)]


def _handed_on(backend: Any, predicate: Any, value: Any) -> tuple[Any, Any]:
    """A value for each side of a choice, with a gradient from the chosen side only: 0 times the other's may be NaN."""
    if not backend.differentiated or "float" not in value.dtype:
        return value, value
    constant = backend.module("gradient").zero_grad(value)
    return backend.if_else(predicate, value, constant), backend.if_else(predicate, constant, value)


ROWS: dict[str, Callable[..., Sequence[Any]]] = {"scan": _scan, "while_loop": _while, "cond": _cond}
