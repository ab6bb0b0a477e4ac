"""The loop of Aesara's Scan for Numba, by what Scan itself does (aesara/scan/op.py: Scan.perform).

Aesara's own (aesara/link/numba/dispatch/scan.py) puts the results of a gradient's gradient at the wrong steps: what a
step writes it counts from the beginning of an array, and what it reads from the earliest step that is read. It turns
arrays of sums round as if they kept the last steps only, and writes over what was carried before it stores a view of it.
PyTensor has mended the first two (pytensor/link/numba/dispatch/scan.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np


def has_length(node: Any) -> bool:
    """Whether it is a loop over arrays only and of a length that is known when it begins."""
    return not (node.op.info.as_while or node.op.info.n_shared_outs)


def _is_view(output: Any) -> bool:
    return output.owner is None or bool(getattr(output.owner.op, "view_map", None))


def loop_of(node: Any, step: Callable[..., Any], scalar: Callable[..., Any]) -> Callable[..., Any]:
    """The function from the inputs of a Scan, of which `has_length` holds, to its outputs.

    ``step`` is its compiled inner function and ``scalar`` Aesara's function from an array of rank 0 to a number. A
    state whose array has n steps is read at ``(first + i + tap) % n`` in step i, where ``-first`` is its earliest tap,
    and written likewise.
    """
    op, info = node.op, node.op.info
    given = ["steps", *(f"given{i}" for i in range(1, len(node.inputs)))]
    sums, several, single = op.outer_mitmot(given), op.outer_mitsot(given), op.outer_sitsot(given)
    new = op.outer_nitsot(given)
    states = [*sums, *several, *single]
    taps = dict(zip(states, chain(info.mit_mot_in_slices, info.mit_sot_in_slices, info.sit_sot_in_slices), strict=True))
    first = {name: -min(taps[name]) for name in states}
    written = {**dict.fromkeys(states, (0,)), **dict(zip(sums, info.mit_mot_out_slices, strict=True))}

    def at(name: str, tap: int) -> str:
        return f"{name}[(i + {first[name] + tap}) % {name}_n]"

    before, after, ends = [], [], []
    for number, name in enumerate(states):
        if number not in op.destroy_map:
            before.append(f"{name} = {name}.copy()")
        before.append(f"{name}_n = {name}.shape[0]")
    read = [f"{name}[i]" for name in op.outer_seqs(given)]
    read += [at(name, tap) for name in states for tap in taps[name]]
    read += list(op.outer_non_seqs(given))

    results = [f"result{i}" for i in range(len(op.inner_outputs))]
    rest = iter(zip(results, op.inner_outputs, strict=True))
    copies, stores = [], []
    for name in states:
        for tap in written[name]:
            result, variable = next(rest)
            if variable.type.ndim and _is_view(variable):
                copies.append(f"{result} = np.copy({result})")
            stores.append(f"{at(name, tap)} = {result}")
    for name in new:
        result, variable = next(rest)
        dtype, rank = f"np.{variable.type.dtype}", variable.type.ndim
        before.append(f"{name}_n = scalar({name})")
        before.append(f"{name}_all = np.empty(({name}_n, {'0, ' * rank}), dtype={dtype})")
        if rank:  # which shape it has is known after the first step
            after.append(f"if i == 0: {name}_all = np.empty(({name}_n,) + np.shape({result}), dtype={dtype})")
        after.append(f"{name}_all[i % {name}_n] = {result}")
    for name in (*several, *single, *new):
        kept = name if name in first else f"{name}_all"
        end = f"i + {first[name]}" if name in first else "i"
        ends += [
            f"if {name}_n < {end}:",
            f" turn = ({end}) % {name}_n",
            f" {kept} = np.concatenate(({kept}[turn:], {kept}[:turn]))",
            f"elif {name}_n > {end}:",
            f" {kept}[{end}:] = 0",
        ]

    outputs = [*states, *(f"{name}_all" for name in new)]
    lines = [
        *before,
        "i = 0",
        "while i < steps:",
        f" {', '.join(results)}, = step({', '.join(read)})",
        *(f" {line}" for line in (*after, *copies, *stores)),
        " i += 1",
        *ends,
        f"return {', '.join(outputs)}",
    ]
    source = f"def loop({', '.join(given)}):\n" + "".join(f" {line}\n" for line in lines)
    found: dict[str, Any] = {}
    exec(source, {"np": np, "step": step, "scalar": scalar}, found)
    made: Callable[..., Any] = found["loop"]
    return made
