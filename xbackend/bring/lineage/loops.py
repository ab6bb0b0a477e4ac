"""`Scan`: sequences, states with one or several taps, outputs without taps, and non-sequences.

A loop with ``until`` gives only the last elements (`endings` checks that they are enough). If the program may be
differentiated, the loop is a scan over the maximum number of steps, as a while loop has no gradient. Steps after the
last one keep the state by `cond`. A mask would compute them, and add zero times their derivatives, which may be NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xbackend.api.functions as xb
from xbackend.api.control_flow import cond as xb_cond
from xbackend.api.control_flow import scan as xb_scan
from xbackend.api.control_flow import while_loop as xb_while_loop
from xbackend.bring.lineage.endings import info_of, taps_of
from xbackend.bring.lineage.indexing import keys_of
from xbackend.bring.lineage.walk import LineageWalk, graph_of, row
from xbackend.errors import GraphError


@row("Scan")
def scan(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    op, outer, info = node.op, node.inputs, info_of(node.op)
    inner_inputs, inner_outputs = graph_of(op) or ([], [])
    if info.n_mit_mot:
        raise GraphError("the loop of a gradient has no row: give the loss, and each framework makes its own gradient")
    if getattr(op, "truncate_gradient", -1) != -1:
        raise GraphError("a loop with truncate_gradient has no row: no program cuts a gradient off")
    steps = walk.whole(op.outer_nsteps(outer) if hasattr(op, "outer_nsteps") else outer[0], "the steps of a loop")
    sequences = [xb.asarray(walk.array(one))[:steps] for one in op.outer_seqs(outer)]
    if any(one.shape[0] < steps for one in sequences):
        raise GraphError(f"a sequence has fewer rows than the loop's {steps} steps: leave n_steps out, or give more")
    taps = taps_of(op)
    states = [*op.outer_mitsot(outer), *op.outer_sitsot(outer)]
    before = [_begun(walk, one, -min(own), steps) for one, own in zip(states, taps, strict=True)]
    updated = op.outer_untraced_sit_sot if hasattr(op, "outer_untraced_sit_sot") else op.outer_shared
    kept = [xb.asarray(walk.array(one)) for one in updated(outer)]
    others = [walk.value(one) for one in op.outer_non_seqs(outer)]
    init = [list(state) for state in before], kept

    def step(carry: Any, rows: Any) -> Any:
        windows, shared = carry
        recent = [window[tap] for window, own in zip(windows, taps, strict=True) for tap in own]
        inner = walk.inner(dict(zip(inner_inputs, [*(rows or ()), *recent, *shared, *others], strict=True)))
        inner.results(inner_outputs)
        stops = inner.cast(inner_outputs[-1], "bool") if info.as_while else None
        made = list(map(inner.array, inner_outputs[: len(inner_outputs) - bool(info.as_while)]))
        shown, rest = made[: len(made) - len(kept)], made[len(made) - len(kept) :]  # shared variables come last
        moved = [[*window[1:], xb.asarray(new)] for window, new in zip(windows, shown, strict=False)]
        return (moved, rest), shown, stops

    if info.as_while:
        (_, last), lasts = _stopped(step, init, sequences, steps, walk.gradients)
        written = [xb.expand_dims(one, axis=0) for one in lasts]
    else:
        (_, last), written = xb_scan(lambda *given: step(*given)[:2], init, sequences or None, steps)
    each = iter(written)
    found = [xb.concat([one, next(each)]) for one in before]
    return [*found, *each, *last]


def _begun(walk: LineageWalk, variable: Any, depth: int, steps: int) -> Any:
    """The ``depth`` states before the first step, without the empty memory for all states, to whose front Scan's own
    function writes them. Raises `GraphError` if there is memory for fewer states than steps."""
    whole, node = xb.asarray(walk.array(variable)), variable.owner
    if whole.shape[0] != steps + depth:
        raise GraphError("a loop that keeps fewer states than steps comes in before it is compiled only")
    if type(getattr(node, "op", None)).__name__ == "IncSubtensor" and node.op.set_instead_of_inc:
        first, *others = keys_of(walk, node, node.inputs[2:], whole.shape)
        new = xb.asarray(walk.cast(node.inputs[1], variable.type.dtype))
        front = isinstance(first, slice) and first.indices(whole.shape[0]) == (0, depth, 1)
        if front and new.shape == (depth, *whole.shape[1:]) and all(one == slice(None) for one in others):
            return new
    return whole[:depth]


def _stopped(
    step: Callable[..., Any], init: Any, sequences: Sequence[Any], steps: int, gradients: bool
) -> tuple[Any, Sequence[Any]]:
    """The state and the results of the last step of a loop with ``until``. ``step(state, rows)`` returns both, and
    whether it is the last one. Raises `GraphError` for a loop of no steps."""
    if steps < 1:
        raise GraphError("a loop with until() of no steps has no last one")
    shaped = step(init, [one[0] for one in sequences])[1]  # for shapes and dtypes: nothing uses these ops
    start = init, [xb.zeros(one.shape, dtype=one.dtype) for one in shaped], xb.asarray(False)
    if gradients:

        def masked(state: Any, rows: Any) -> Any:
            return xb_cond(state[-1], lambda: state, lambda: step(state[0], rows)), None

        (state, lasts, _), _ = xb_scan(masked, start, sequences or None, steps)
        return state, lasts

    def following(counted: Any) -> Any:
        number, (state, *_) = counted
        return number + 1, step(state, [one[number] for one in sequences])

    def goes_on(counted: Any) -> Any:
        return xb.logical_and(xb.less(counted[0], steps), xb.logical_not(counted[1][-1]))

    _, (state, lasts, _) = xb_while_loop(goes_on, following, (xb.asarray(0), start))
    return state, lasts
