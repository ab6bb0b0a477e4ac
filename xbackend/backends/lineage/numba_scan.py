"""The loop of Aesara's Scan for Numba, as Scan.perform computes it (aesara/scan/op.py). Aesara's own
(link/numba/dispatch/scan.py) puts results of second gradients at wrong steps, rotates arrays of sums as if they had the
last steps only, and overwrites carries before views of them are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np


def has_length(node: Any) -> bool:
    """Whether a Scan is over arrays only, with a length known when it begins."""
    return not (node.op.info.as_while or node.op.info.n_shared_outs)


def _is_view(output: Any) -> bool:
    return output.owner is None or bool(getattr(output.owner.op, "view_map", None))


def _dtype(variable: Any) -> str:
    """NumPy's name of the dtype; before version 2 it has no ``np.bool``."""
    return f"np.{variable.type.dtype}".replace("bool", "bool_")


def loop_of(node: Any, step: Callable[..., Any], scalar: Callable[..., Any]) -> Callable[..., Any]:
    """The function from the inputs of a Scan (with `has_length`) to its outputs; ``step`` is its compiled inner
    function."""
    found: dict[str, Any] = {"np": np, "step": step, "scalar": scalar}
    exec(_Source(node).text(), found)
    return found["loop"]  # type: ignore[no-any-return]


class _Source:
    """The loop as Python source. Step i reads and writes a state, whose array has n steps, at ``(first + i + tap) %
    n``; ``-first`` is its earliest tap."""

    def __init__(self, node: Any) -> None:
        self.op, info = node.op, node.op.info
        self.given = ["steps", *(f"given{i}" for i in range(1, len(node.inputs)))]
        sums = self.op.outer_mitmot(self.given)
        self.kept = [*self.op.outer_mitsot(self.given), *self.op.outer_sitsot(self.given)]
        self.states = [*sums, *self.kept]
        self.new = self.op.outer_nitsot(self.given)
        read = chain(info.mit_mot_in_slices, info.mit_sot_in_slices, info.sit_sot_in_slices)
        self.read = dict(zip(self.states, read, strict=True))
        self.written = dict.fromkeys(self.states, (0,)) | dict(zip(sums, info.mit_mot_out_slices, strict=True))
        self.first = {name: -min(taps) for name, taps in self.read.items()}

    def text(self) -> str:
        op = self.op
        results = [f"result{i}" for i in range(len(op.inner_outputs))]
        step = [f"{name}[i]" for name in op.outer_seqs(self.given)]
        step += [self._at(name, tap) for name in self.states for tap in self.read[name]]
        step += op.outer_non_seqs(self.given)
        outputs = [*self.states, *(f"{name}_all" for name in self.new)]
        lines = [
            *self._begun(),
            "i = 0",
            "while i < steps:",
            f" {', '.join(results)}, = step({', '.join(step)})",
            *(f" {line}" for line in self._stored(list(zip(results, op.inner_outputs, strict=True)))),
            " i += 1",
            *(line for name in self.kept for line in self._in_order(name, name, f"i + {self.first[name]}")),
            *(line for name in self.new for line in self._in_order(name, f"{name}_all", "i")),
            f"return {', '.join(outputs)}",
        ]
        return f"def loop({', '.join(self.given)}):\n" + "".join(f" {line}\n" for line in lines)

    def _at(self, name: str, tap: int) -> str:
        return f"{name}[(i + {self.first[name] + tap}) % {name}_n]"

    def _begun(self) -> Iterator[str]:
        for number, name in enumerate(self.states):
            if number not in self.op.destroy_map:
                yield f"{name} = {name}.copy()"
            yield f"{name}_n = {name}.shape[0]"
        for name, variable in zip(self.new, self.op.inner_nitsot_outs(self.op.inner_outputs), strict=True):
            yield f"{name}_n = scalar({name})"
            yield f"{name}_all = np.empty(({name}_n, {'0, ' * variable.type.ndim}), dtype={_dtype(variable)})"

    def _stored(self, results: Sequence[tuple[str, Any]]) -> list[str]:
        """The lines that store the results of a step; views are copied, as their source may be overwritten."""
        rest = iter(results)
        copies, states, new = [], [], []
        for name in self.states:
            for tap in self.written[name]:
                result, variable = next(rest)
                if variable.type.ndim and _is_view(variable):
                    copies.append(f"{result} = np.copy({result})")
                states.append(f"{self._at(name, tap)} = {result}")
        for name in self.new:
            result, variable = next(rest)
            if variable.type.ndim:
                shape = f"({name}_n,) + np.shape({result})"
                new.append(f"if i == 0: {name}_all = np.empty({shape}, dtype={_dtype(variable)})")
            new.append(f"{name}_all[i % {name}_n] = {result}")
        return [*new, *copies, *states]

    def _in_order(self, name: str, array: str, end: str) -> list[str]:
        """The lines that rotate an array of the last steps, so that the earliest is first; unwritten steps are zero."""
        return [
            f"if {name}_n < {end}:",
            f" turn = ({end}) % {name}_n",
            f" {array} = np.concatenate(({array}[turn:], {array}[:turn]))",
            f"elif {name}_n > {end}:",
            f" {array}[{end}:] = 0",
        ]
