"""Loops with ``until``: the length of their results depends on values, so a program has only the last elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

ONLY_LAST = "the length of its results depends on values: take [-1] of each, and nothing else"


def info_of(op: Any) -> Any:
    """The ``info`` of a Scan, as attributes. Theano's is a dictionary, but the op has the same attributes."""
    return op.info if hasattr(op.info, "n_mit_mot") else op


def taps_of(op: Any) -> list[tuple[int, ...]]:
    """The taps of each state of a Scan: first the states with several taps, then those with one."""
    info = info_of(op)
    several = info.mit_sot_in_slices if hasattr(info, "mit_sot_in_slices") else op.mitsot_taps()
    return [*map(tuple, several), *[(-1,)] * info.n_sit_sot]


def entries_of(node: Any, variables: Sequence[Any]) -> list[Any]:
    """The entries of the index of a node that reads or writes elements; ``variables`` are its variables."""
    listed = getattr(node.op, "idx_list", None)
    if listed is None:
        return list(variables)
    module = import_module(f"{type(node.op).__module__.partition('.')[0]}.tensor.subtensor")
    return list(module.get_idx_list([None, *variables], listed))


def without_length(outputs: Sequence[Any], nodes: Sequence[Any]) -> Iterator[Any]:
    """The loops with ``until`` whose results are used for more than their last elements."""
    clients: dict[Any, list[Any]] = {}
    for node in nodes:
        for one in node.inputs:
            clients.setdefault(one, []).append(node)

    def only_last(variable: Any, before: int) -> bool:
        """Whether nothing but the last row is used. ``before`` is the number of rows before the first step."""
        return variable not in outputs and all(taken(node, variable, before) for node in clients.get(variable, ()))

    def taken(node: Any, variable: Any, before: int) -> bool:
        if type(node.op).__name__ != "Subtensor" or variable in node.inputs[1:]:
            return False
        first = entries_of(node, node.inputs[1:])[0]
        if not isinstance(first, slice):
            return bool(_plain(first) == -1)
        start = _plain(first.start) or 0
        whole = _plain(first.stop) is None and _plain(first.step) in (None, 1)
        return whole and isinstance(start, int) and 0 <= start <= before and only_last(node.outputs[0], before - start)

    for node in nodes:
        if type(node.op).__name__ == "Scan" and info_of(node.op).as_while:
            op, results = node.op, node.outputs
            states = [*op.outer_mitsot_outs(results), *op.outer_sitsot_outs(results)]
            found = [(one, -min(taps)) for one, taps in zip(states, taps_of(op), strict=True)]
            found += [(one, 0) for one in op.outer_nitsot_outs(results)]
            if not all(only_last(*one) for one in found):
                yield node


def _plain(entry: Any) -> Any:
    """The number in a constant; a variable unchanged."""
    value = getattr(entry, "data", entry)
    return int(value) if hasattr(value, "__index__") or getattr(value, "ndim", None) == 0 else value
