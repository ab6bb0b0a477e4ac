"""Where TensorFlow stops a gradient, and a program would not.

A program has no such op. TensorFlow's own sums of exponentials and variances stop gradients that come to 0: they come
in. Others are refused where a gradient may be asked for.
"""

from __future__ import annotations

from typing import Any

from xbackend.bring.tensorflow.walk import Walk, key, other_gradient, row


@row("StopGradient", folds=False)
def stop_gradient(walk: Walk, operation: Any, values: list[Any]) -> Any:
    if walk.whole.gradients and not (_cancels(operation) or _is_mean(operation)):
        other_gradient(values, "tf.stop_gradient lets no gradient pass")
    return values[0]


@row("PreventGradient", attributes="message", folds=False)
def prevent_gradient(walk: Walk, operation: Any, values: list[Any]) -> Any:
    if walk.whole.gradients:
        other_gradient(values, "tf.raw_ops.PreventGradient lets no gradient pass")
    return values[0]


def _followers(operation: Any, *kinds: str) -> list[Any] | None:
    """The operations that take the result, and not only its shape; `None` where one is of another kind."""
    found = [one for one in operation.outputs[0].consumers() if one.type != "Shape"]
    return found if found and all(one.type in kinds for one in found) else None


def _cancels(operation: Any) -> bool:
    """Whether the stopped value m is in log(sum(exp(x - m))) + m only, whose value it does not change
    (`tf.reduce_logsumexp`)."""
    stopped = operation.outputs[0]
    takers = [one for one in stopped.consumers() if one.type != "Shape"]
    shifted = [one for one in takers if one.type == "Sub" and key(one.inputs[1]) == key(stopped)]
    shaped = [one for one in takers if one.type == "Reshape" and key(one.inputs[0]) == key(stopped)]
    added = {id(one): one for one in takers if one.type in ("Add", "AddV2")}
    for one in shaped:
        added |= {id(sum_): sum_ for sum_ in _followers(one, "Add", "AddV2") or [one]}
    logs = [_chain(one, "Exp", "Sum", "Log") for one in shifted]
    if len(shifted) != 1 or len(added) != 1 or logs[0] is None or len(takers) != 2:
        return False
    return _followers(logs[0], "Add", "AddV2") == list(added.values())


def _chain(operation: Any, *kinds: str) -> Any:
    """The last of operations that follow one another, each the only one that takes the result; `None` for another."""
    for kind in kinds:
        found = _followers(operation, kind)
        if found is None or len(found) != 1:
            return None
        (operation,) = found
    return operation


def _is_mean(operation: Any) -> bool:
    """Whether the stopped value is the mean of x and in the mean of (x - mean)**2 only, along the same axes: its
    gradient there is 0 (`tf.nn.moments`)."""
    mean = operation.inputs[0].op
    squares = _followers(operation, "SquaredDifference")
    if mean.type != "Mean" or squares is None:
        return False
    for one in squares:
        last = _chain(one, "Mean")
        same = {key(one.inputs[0]), key(one.inputs[1])} == {key(mean.inputs[0]), key(operation.outputs[0])}
        if last is None or not same or not _same_axes(last, mean):
            return False
    return True


def _same_axes(one: Any, other: Any) -> bool:
    axes = [tensor.op for tensor in (one.inputs[1], other.inputs[1])]
    return axes[0] is axes[1] or (
        all(op.type == "Const" for op in axes) and axes[0].get_attr("value") == axes[1].get_attr("value")
    )
