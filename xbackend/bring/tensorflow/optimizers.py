"""Steps of optimisers, by the formulas of TensorFlow's core/kernels/training_ops.cc.

The operands are the variable, its slots, then the hyperparameters and the gradient. The velocity of Keras includes the
learning rate.
"""

from __future__ import annotations

from typing import Any

import xbackend.api.functions as xb
from xbackend.bring.tensorflow.variables import WRITES, put, read_all
from xbackend.bring.tensorflow.walk import TensorFlowWalk, row
from xbackend.errors import GraphError

_MOMENTUM = ("ResourceApplyMomentum", "ApplyMomentum", "ResourceApplyKerasMomentum")
WRITES |= dict.fromkeys((*_MOMENTUM, "ResourceApplyAdagrad", "ApplyAdagrad"), 2)
WRITES |= dict.fromkeys(("ResourceApplyAdam", "ApplyAdam", "ResourceApplyRMSProp", "ApplyRMSProp"), 3)


def _put(walk: TensorFlowWalk, operation: Any, values: list[Any], *new: Any) -> Any:
    """Assign the slots, then the variable. The result is that of `put` for the variable."""
    for target, value in zip(values[1:], new[1:], strict=False):
        put(walk, operation, target, value)
    return put(walk, operation, values[0], new[0])


@row(*_MOMENTUM, attributes="use_locking use_nesterov", variables=True)
def momentum(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    nesterov, keras = operation.get_attr("use_nesterov"), "Keras" in operation.type
    old, velocity, rate, gradient, decay = read_all(walk, operation, values)
    step = xb.multiply(rate, gradient)
    if keras:
        moved = xb.subtract(xb.multiply(velocity, decay), step)
        change = xb.subtract(xb.multiply(moved, decay), step) if nesterov else moved
        return _put(walk, operation, values, xb.add(old, change), moved)
    moved = xb.add(xb.multiply(velocity, decay), gradient)
    change = xb.add(step, xb.multiply(xb.multiply(moved, decay), rate)) if nesterov else xb.multiply(moved, rate)
    return _put(walk, operation, values, xb.subtract(old, change), moved)


@row("ResourceApplyAdam", "ApplyAdam", attributes="use_locking use_nesterov", variables=True)
def adam(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    if operation.get_attr("use_nesterov"):
        raise GraphError("Adam with Nesterov's momentum has no row")
    old, mean, square, power1, power2, rate, beta1, beta2, epsilon, gradient = read_all(walk, operation, values)
    step = rate * xb.sqrt(1.0 - power2) / (1.0 - power1)
    mean = mean + (gradient - mean) * (1.0 - beta1)
    square = square + (gradient * gradient - square) * (1.0 - beta2)
    return _put(walk, operation, values, old - mean * step / (xb.sqrt(square) + epsilon), mean, square)


@row("ResourceApplyRMSProp", "ApplyRMSProp", attributes="use_locking", variables=True)
def rms_prop(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    old, square, velocity, rate, rho, decay, epsilon, gradient = read_all(walk, operation, values)
    square = square + (gradient * gradient - square) * (1.0 - rho)
    velocity = velocity * decay + rate * gradient / xb.sqrt(square + epsilon)
    return _put(walk, operation, values, old - velocity, square, velocity)


@row("ResourceApplyAdagrad", "ApplyAdagrad", attributes="use_locking update_slots", variables=True)
def adagrad(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    old, square, rate, gradient = read_all(walk, operation, values)
    square = square + gradient * gradient if operation.get_attr("update_slots") else square
    return _put(walk, operation, values, old - rate * gradient / xb.sqrt(square), square)
