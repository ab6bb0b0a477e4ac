"""Inputs and results of bodies as tensors of their own.

TensorFlow's optimiser makes 2 x of x + x, and of sums that it simplified to x + x. Where x is an input of a branch or
of a step, the 2 waits for the other branch or for the last step, and the sum is an empty array: `SimplifyAggregation`
(grappler/optimizers/arithmetic_optimizer.cc) drops the port of x. So do the sums of its gradients. A gradient inside of
a body also goes through the predecessors of an input, and takes two inputs with one tensor for one input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from xbackend.program.ops import OPS
from xbackend.program.program import Program

_KEPT = "Xbackend kept"


def kept(tf: Any, value: Any, back: str = "") -> Any:
    """The value by an op that the optimiser leaves alone. ``back`` is the registered name of its gradient; by default
    the gradient is kept, too."""
    with tf.compat.v1.get_default_graph().gradient_override_map({"Identity": back or _kept_back(tf)}):
        result = tf.identity(value)
    result.op._set_attr("_grappler_do_not_remove", tf.compat.v1.AttrValue(b=True))
    return result


@cache
def _kept_back(tf: Any) -> str:
    """The registered name of the gradient."""

    @tf.RegisterGradient(_KEPT)  # type: ignore[untyped-decorator]
    def gradient(op: Any, cotangent: Any) -> Any:
        return kept(tf, cotangent)

    return _KEPT


def adds_same(body: Program) -> bool:
    """Whether the optimiser may come to x + x in a body, or in its gradient: two paths lead from a value to a sum or a
    difference, through ops that it may replace by their input."""
    origins: dict[int, set[int]] = {}
    for node in body.nodes:
        reached = [origins[i] for i in node.inputs]
        if node.op in ("add", "subtract") and reached[0] & reached[1]:
            return True
        passed = set().union(*reached) if _passes(node.op, reached) else set()
        known = not any(reached) and node.op != "input"  # of constants alone
        origins |= {i: set() if known else {i} | passed for i in node.outputs}
    return False


def _passes(op: str, reached: Sequence[set[int]]) -> bool:
    """Whether the optimiser may replace an op by its input, as ``c * 1`` and ``c + 0``: not a function of one array,
    such as `tanh`, nor an op of two arrays that vary."""
    row = OPS[op]
    return not (row.arity == 1 and row.takes == "floating-point") and not (row.arity == 2 and all(reached))
