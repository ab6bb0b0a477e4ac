"""PyTensor by hand: `pytensor.function`, in one of its modes; NumPy arrays in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytensor
import pytensor.tensor as pt
from pytensor.tensor import nlinalg, slinalg

from overhead.handwritten import ByHand
from overhead.handwritten.pytensor import compiled
from xbackend.workloads.kernels.nbody import SOFTENING, STEP
from xbackend.workloads.kernels.stencil import RATE
from xbackend.workloads.models.kalman import JOLTS, MOVES, SEES
from xbackend.workloads.models.logistic_regression import SCALE
from xbackend.workloads.models.seir import PEOPLE


def _with_gradient(mode: str, inputs: Sequence[Any], value: Any, wrt: int) -> ByHand:
    return compiled(mode, inputs, [value, *pytensor.grad(value, list(inputs[:wrt]))])


def axis_sums(mode: str, dtype: str) -> ByHand:
    """The sums of a matrix over each axis."""
    x = pt.matrix("x", dtype=dtype)
    return compiled(mode, [x], [pt.sum(x, axis=0), pt.sum(x, axis=1)])


def stencil(mode: str, dtype: str, steps: int) -> ByHand:
    """Heat on a plate."""

    def step(u: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return pt.inc_subtensor(u[1:-1, 1:-1], RATE * (around - 4.0 * u[1:-1, 1:-1]))

    u = pt.matrix("u", dtype=dtype)
    every = pytensor.scan(step, outputs_info=[u], n_steps=steps, return_updates=False)
    return compiled(mode, [u], [every[-1]])


def nbody(mode: str, dtype: str, steps: int) -> ByHand:
    """Bodies that attract each other."""

    def acceleration(position: Any, mass: Any) -> Any:
        apart = position[None, :, :] - position[:, None, :]
        squared = pt.sum(apart * apart, axis=2) + SOFTENING**2
        pull = mass[None, :] / (squared * pt.sqrt(squared))
        return pt.sum(pull[:, :, None] * apart, axis=1)

    inputs = [pt.matrix("position", dtype=dtype), pt.matrix("velocity", dtype=dtype), pt.vector("mass", dtype=dtype)]
    position, velocity, mass = inputs
    a = acceleration(position, mass)
    for _ in range(steps):
        velocity = velocity + 0.5 * STEP * a
        position = position + STEP * velocity
        a = acceleration(position, mass)
        velocity = velocity + 0.5 * STEP * a
    return compiled(mode, inputs, [position, velocity])


def logistic_regression(mode: str, dtype: str) -> ByHand:
    """A log density and its gradient."""
    inputs = [pt.vector("b", dtype=dtype), pt.matrix("x", dtype=dtype), pt.vector("y", dtype=dtype)]
    coefficients, x, y = inputs
    eta = pt.dot(x, coefficients)
    value = pt.sum(y * eta - pt.softplus(eta)) - pt.sum(coefficients**2) / (2.0 * SCALE**2)
    return _with_gradient(mode, inputs, value, 1)


def radon(mode: str, dtype: str) -> ByHand:
    """A hierarchical regression and its gradient."""
    names = ("centre", "log_scale", "intercept", "slope", "county", "floor", "y")
    inputs = [pt.vector(name, dtype="int64" if name == "county" else dtype) for name in names]
    centre, log_scale, intercept, slope, county, floor, y = inputs
    scale = pt.exp(log_scale)
    a, b = centre[0] + scale[0] * intercept, centre[1] + scale[1] * slope
    residual = (y - a[county] - b[county] * floor) / scale[2]
    likelihood = -0.5 * pt.sum(residual**2) - y.shape[0] * log_scale[2]
    raw = pt.sum(intercept**2) + pt.sum(slope**2) + pt.sum(centre**2) / 100.0
    value = likelihood - 0.5 * (raw + pt.sum(scale**2)) + pt.sum(log_scale)
    return _with_gradient(mode, inputs, value, 4)


def gaussian_process(mode: str, dtype: str) -> ByHand:
    """A log marginal likelihood and its gradient."""
    inputs = [pt.vector(name, dtype=dtype) for name in ("log_parameters", "x", "y")]
    log_parameters, x, y = inputs
    length, scale, noise = (pt.exp(log_parameters[i]) for i in range(3))
    apart = (x[:, None] - x[None, :]) / length
    covariance = scale**2 * pt.exp(-0.5 * apart**2) + noise**2 * pt.eye(x.shape[0], dtype=dtype)
    factor = slinalg.cholesky(covariance)
    white = slinalg.solve_triangular(factor, y, lower=True)
    constant = 0.5 * y.shape[0] * math.log(2.0 * math.pi)
    value = -0.5 * pt.sum(white**2) - pt.sum(pt.log(pt.diag(factor))) - constant
    return _with_gradient(mode, inputs, value, 1)


def seir(mode: str, dtype: str) -> ByHand:
    """An epidemic's log density and its gradient."""
    inputs = [pt.vector(name, dtype=dtype) for name in ("log_rates", "start", "cases")]
    log_rates, start, cases = inputs
    rates = pt.exp(log_rates)

    def day(seen: Any, parts: Any, rates: Any) -> Any:
        infected, ill, well = rates[0] * parts[0] * parts[2], rates[1] * parts[1], rates[2] * parts[2]
        expected = PEOPLE * ill
        change = pt.stack([-infected, infected - ill, ill - well, well])
        return parts + change, seen * pt.log(expected) - expected

    (_, each) = pytensor.scan(
        day, sequences=[cases], outputs_info=[start, None], non_sequences=[rates], return_updates=False
    )
    return _with_gradient(mode, inputs, pt.sum(each), 1)


def kalman(mode: str, dtype: str) -> ByHand:
    """A filter's log likelihood and its gradient."""
    moves, sees, jolts = (pt.constant(matrix, dtype=dtype) for matrix in (MOVES, SEES, JOLTS))
    inputs = [pt.vector("log_noise", dtype=dtype), pt.vector("mean", dtype=dtype)]
    inputs += [pt.matrix("covariance", dtype=dtype), pt.matrix("y", dtype=dtype)]
    log_noise, mean, covariance, y = inputs
    noise = pt.exp(log_noise)

    def step(seen: Any, m: Any, p: Any, noise: Any) -> Any:
        m, p = pt.dot(moves, m), pt.dot(pt.dot(moves, p), moves.T) + noise[0] * jolts
        miss, across = seen - pt.dot(sees, m), pt.dot(sees, p)
        spread = pt.dot(across, sees.T) + noise[1] * pt.eye(2, dtype=dtype)
        solved = slinalg.solve(spread, pt.concatenate([across, miss[:, None]], axis=1), b_ndim=2)
        gain = solved[:, :4].T
        each = pt.sum(miss * solved[:, 4]) + pt.log(nlinalg.det(spread)) + 2.0 * math.log(2.0 * math.pi)
        return m + pt.dot(gain, miss), p - pt.dot(gain, across), -0.5 * each

    (_, _, each) = pytensor.scan(
        step, sequences=[y], outputs_info=[mean, covariance, None], non_sequences=[noise], return_updates=False
    )
    return _with_gradient(mode, inputs, pt.sum(each), 1)
