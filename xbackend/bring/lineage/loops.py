"""`Scan`: sequences, states with one tap or several, outputs without one, and what stays the same."""

from __future__ import annotations

from typing import Any

import xbackend.api.functions as xb
from xbackend.api.control_flow import scan as xb_scan
from xbackend.bring.lineage.walk import Walk, graph_of, row
from xbackend.errors import GraphError


@row("Scan")
def scan(walk: Walk, node: Any, values: list[Any]) -> Any:
    op, outer = node.op, node.inputs
    inner_inputs, inner_outputs = graph_of(op) or ([], [])
    info = op.info if hasattr(op.info, "n_mit_mot") else op  # of Theano it is a dictionary, and the op has the same
    if info.n_mit_mot:
        raise GraphError("the loop of a gradient has no row: give the loss, and each framework makes its own gradient")
    if getattr(op, "truncate_gradient", -1) != -1:
        raise GraphError("a loop with truncate_gradient has no row: no program cuts a gradient off")
    if info.as_while:
        raise GraphError("a loop with until() has as many results as its values say, and a program's shapes are fixed")
    steps = walk.whole(op.outer_nsteps(outer) if hasattr(op, "outer_nsteps") else outer[0], "the steps of a loop")
    sequences = [xb.asarray(walk.array(one))[:steps] for one in op.outer_seqs(outer)]
    taps = [tuple(one) for one in (info.mit_sot_in_slices if hasattr(info, "mit_sot_in_slices") else op.mitsot_taps())]
    depths = [-min(one) for one in taps]
    buffers = [xb.asarray(walk.array(one)) for one in op.outer_mitsot(outer)]
    states = [xb.asarray(walk.array(one)) for one in op.outer_sitsot(outer)]
    kept = [*_shared(op, "outer", outer)]
    others = [walk.value(one) for one in op.outer_non_seqs(outer)]
    for buffer, depth in zip([*buffers, *states], [*depths, *[1] * len(states)], strict=True):
        if buffer.shape[0] != steps + depth:
            raise GraphError("a loop that keeps fewer states than steps comes in before it is compiled only")
    init = (
        [buffer[i] for buffer, depth in zip(buffers, depths, strict=True) for i in range(depth)],
        [state[0] for state in states],
        [xb.asarray(walk.array(one)) for one in kept],
    )
    counts = len(buffers), len(states), len(kept)

    def step(carry: Any, rows: Any) -> Any:
        windows, singles, shared = carry
        given: list[Any] = list(rows or ())
        begin = 0
        for own, depth in zip(taps, depths, strict=True):
            given += [windows[begin + depth + tap] for tap in own]
            begin += depth
        given += [*singles, *shared, *others]
        results = Walk(dict(zip(inner_inputs, given, strict=True)), walk.context).results(inner_outputs)
        results = [Walk({one: value}).array(one) for one, value in zip(inner_outputs, results, strict=True)]
        moved, one_tap, without, rest = _parts(results, *counts)
        following, begin = [], 0
        for new, depth in zip(moved, depths, strict=True):
            following += [*windows[begin + 1 : begin + depth], new]
            begin += depth
        following = [xb.asarray(one) for one in following]
        return (following, one_tap, rest), [*moved, *one_tap, *without]

    (_, _, last), written = xb_scan(step, init, sequences or None, None if sequences else steps)
    each = iter(written)
    found = [xb.concat([buffer[:depth], next(each)]) for buffer, depth in zip(buffers, depths, strict=True)]
    found += [xb.concat([state[:1], next(each)]) for state in states]
    return [*found, *each, *last]


def _shared(op: Any, side: str, variables: Any) -> list[Any]:
    for name in ("untraced_sit_sot_outs", "untraced_sit_sot", "shared"):
        if hasattr(op, f"{side}_{name}"):
            return list(getattr(op, f"{side}_{name}")(variables))
    return []


def _parts(
    results: list[Any], windows: int, singles: int, shared: int
) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """The results of a step: states with several taps, with one, outputs without, and shared ones, which come last."""
    end = len(results) - shared
    return results[:windows], results[windows : windows + singles], results[windows + singles : end], results[end:]
