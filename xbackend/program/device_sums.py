"""Sums over devices in a placed program: what binding makes of an all-reduce, and of a mean over replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.program.ops import GENERATORS
from xbackend.program.program import Program, generate


@dataclass(frozen=True)
class DeviceSum:
    """A sum over devices: a term of each, times the same ``share`` unless that is `None`, and the values between the
    terms and the sum."""

    terms: Mapping[str, int]
    share: Any
    made: frozenset[int]


def sums_over(program: Program, homes: Sequence[str]) -> dict[int, DeviceSum]:
    """The sums of a term of each of these devices, made on the first one, by their values."""
    sums = {n.outputs[0]: _sum(program, n.outputs[0], homes) for n in program.nodes if n.op == "add"}
    return {i: total for i, total in sums.items() if total is not None}


def _sum(program: Program, last: int, homes: Sequence[str]) -> DeviceSum | None:
    """The sum that an addition completes; `None` if it completes none."""
    values, root = program.values, homes[0]
    added, made = [last], set[int]()
    for _ in homes[1:]:  # terms are added in turn
        first = values[added[0]]
        if first.op != "add" or first.device != root:
            return None
        made.add(added[0])
        added[:1] = first.inputs
    terms, shares, here = dict[str, int](), set[Any](), list[tuple[int, int, Any]]()
    for i in added:
        term, share = i, None
        if values[i].op == "multiply" and values[values[i].inputs[1]].op in GENERATORS:
            term, factor = values[i].inputs
            share = generate(values[factor])[()] if not values[factor].shape else np.nan
        if values[term].op != "transfer":
            here.append((i, term, share))
            continue
        made |= {i, term}
        (source,) = values[term].inputs
        terms[values[source].device or ""] = source
        shares.add(share)
    if len(shares) != 1 or len(here) != 1 or {*terms} != {*homes[1:]}:
        return None
    ((i, term, share),), (common,) = here, shares
    if common is not None:
        if share != common or not common:  # zeros have signs
            return None
        made.add(i)
    return DeviceSum({root: i if common is None else term, **terms}, common, frozenset(made - {last}))
