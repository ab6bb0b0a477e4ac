"""Loops and choices as TensorFlow's own: `tf.while_loop` with `tf.TensorArray`, and `tf.cond`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xbackend.program.program import Node, Program

# From a body and its inputs to its results, in the function under construction.
Body = Callable[[Program, Sequence[Any]], Sequence[Any]]


def _moved(tf: Any, value: Any, others: Sequence[Any]) -> Any:
    """A carry of the next step; a copy if it was another carry in this one. TensorFlow's gradient assumes that a tensor
    which is both an input and an output of the body is constant, even at another position (``_is_loop_invariant`` in
    python/ops/while_v2.py)."""
    return tf.identity(value) if any(value is other for other in others) else value


def _scan(tf: Any, node: Node, inputs: Sequence[Any], body: Body) -> Sequence[Any]:
    program, length, carries = node.params["body"], node.params["length"], node.params["carries"]
    first_closed, reverse = carries + node.params["sequences"], node.params["reverse"]
    init, xs, closed = inputs[:carries], inputs[carries:first_closed], inputs[first_closed:]
    arrays = [
        tf.TensorArray(x.dtype, size=length, element_shape=x.shape[1:], clear_after_read=False).unstack(x) for x in xs
    ]
    avals = [program.values[i].aval for i in program.outputs[carries:]]
    made = [tf.TensorArray(a.dtype.value, size=length, element_shape=a.shape) for a in avals]

    def step(count: Any, carry: Sequence[Any], ys: Sequence[Any]) -> tuple[Any, Any, Any]:
        i = length - 1 - count if reverse else count
        results = body(program, [*carry, *(a.read(i) for a in arrays), *closed])
        written = [y.write(i, value) for y, value in zip(ys, results[carries:], strict=True)]
        following = [_moved(tf, value, [*carry[:k], *carry[k + 1 :]]) for k, value in enumerate(results[:carries])]
        return count + 1, following, written

    # XLA's gradient needs the number of steps.
    start = tf.constant(0), list(init), made
    _, carry, ys = tf.while_loop(lambda count, *_: count < length, step, start, maximum_iterations=length)
    stacked = [tf.ensure_shape(y.stack(), (length, *a.shape)) for y, a in zip(ys, avals, strict=True)]
    return [*carry, *stacked]


def _while(tf: Any, node: Node, inputs: Sequence[Any], body: Body) -> Sequence[Any]:
    carries, closed = node.params["carries"], inputs[node.params["carries"] :]
    condition, step = node.params["condition"], node.params["body"]
    result = tf.while_loop(
        lambda *state: body(condition, [*state, *closed])[0],
        lambda *state: body(step, [*state, *closed]),
        list(inputs[:carries]),
    )
    # No gradient goes through it; else another gradient in the same function for XLA would record its steps.
    return [tf.stop_gradient(value) for value in result]


def _cond(tf: Any, node: Node, inputs: Sequence[Any], body: Body) -> Sequence[Any]:
    predicate, *values = inputs
    then, otherwise = node.params["then"], node.params["otherwise"]
    result = tf.cond(predicate, lambda: body(then, values), lambda: body(otherwise, values))
    return result if isinstance(result, list | tuple) else [result]  # `tf.cond` unpacks lists of one


ROWS: dict[str, Callable[..., Sequence[Any]]] = {"scan": _scan, "while_loop": _while, "cond": _cond}
