"""Aesara by hand: `aesara.function`, in one of its modes; NumPy arrays in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import aesara
import aesara.tensor as at
from aesara.tensor import nlinalg, slinalg

from overhead.handwritten import ByHand
from overhead.handwritten.aesara import compiled
from xbackend.workloads.kernels.nbody import SOFTENING, STEP
from xbackend.workloads.kernels.stencil import RATE
from xbackend.workloads.models.kalman import JOLTS, MOVES, SEES
from xbackend.workloads.models.logistic_regression import SCALE
from xbackend.workloads.models.seir import PEOPLE


def _with_gradient(mode: str, inputs: Sequence[Any], value: Any, wrt: int) -> ByHand:
    return compiled(mode, inputs, [value, *aesara.grad(value, list(inputs[:wrt]))])


def axis_sums(mode: str, dtype: str) -> ByHand:
    """The sums of a matrix over each axis."""
    x = at.matrix("x", dtype=dtype)
    return compiled(mode, [x], [at.sum(x, axis=0), at.sum(x, axis=1)])


def stencil(mode: str, dtype: str, steps: int) -> ByHand:
    """Heat on a plate."""

    def step(u: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return at.inc_subtensor(u[1:-1, 1:-1], RATE * (around - 4.0 * u[1:-1, 1:-1]))

    u = at.matrix("u", dtype=dtype)
    every, _ = aesara.scan(step, outputs_info=[u], n_steps=steps)
    return compiled(mode, [u], [every[-1]])


def nbody(mode: str, dtype: str, steps: int) -> ByHand:
    """Bodies that attract each other."""

    def acceleration(position: Any, mass: Any) -> Any:
        apart = position[None, :, :] - position[:, None, :]
        squared = at.sum(apart * apart, axis=2) + SOFTENING**2
        pull = mass[None, :] / (squared * at.sqrt(squared))
        return at.sum(pull[:, :, None] * apart, axis=1)

    inputs = [at.matrix("position", dtype=dtype), at.matrix("velocity", dtype=dtype), at.vector("mass", dtype=dtype)]
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
    inputs = [at.vector("b", dtype=dtype), at.matrix("x", dtype=dtype), at.vector("y", dtype=dtype)]
    coefficients, x, y = inputs
    eta = at.dot(x, coefficients)
    value = at.sum(y * eta - at.softplus(eta)) - at.sum(coefficients**2) / (2.0 * SCALE**2)
    return _with_gradient(mode, inputs, value, 1)


def radon(mode: str, dtype: str) -> ByHand:
    """A hierarchical regression and its gradient."""
    names = ("centre", "log_scale", "intercept", "slope", "county", "floor", "y")
    inputs = [at.vector(name, dtype="int64" if name == "county" else dtype) for name in names]
    centre, log_scale, intercept, slope, county, floor, y = inputs
    scale = at.exp(log_scale)
    a, b = centre[0] + scale[0] * intercept, centre[1] + scale[1] * slope
    residual = (y - a[county] - b[county] * floor) / scale[2]
    likelihood = -0.5 * at.sum(residual**2) - y.shape[0] * log_scale[2]
    raw = at.sum(intercept**2) + at.sum(slope**2) + at.sum(centre**2) / 100.0
    value = likelihood - 0.5 * (raw + at.sum(scale**2)) + at.sum(log_scale)
    return _with_gradient(mode, inputs, value, 4)


def gaussian_process(mode: str, dtype: str) -> ByHand:
    """A log marginal likelihood and its gradient."""
    inputs = [at.vector(name, dtype=dtype) for name in ("log_parameters", "x", "y")]
    log_parameters, x, y = inputs
    length, scale, noise = (at.exp(log_parameters[i]) for i in range(3))
    apart = (x[:, None] - x[None, :]) / length
    covariance = scale**2 * at.exp(-0.5 * apart**2) + noise**2 * at.eye(x.shape[0], dtype=dtype)
    factor = slinalg.cholesky(covariance)
    white = slinalg.solve_triangular(factor, y, lower=True)
    constant = 0.5 * y.shape[0] * math.log(2.0 * math.pi)
    value = -0.5 * at.sum(white**2) - at.sum(at.log(at.diag(factor))) - constant
    return _with_gradient(mode, inputs, value, 1)


def seir(mode: str, dtype: str) -> ByHand:
    """An epidemic's log density and its gradient."""
    inputs = [at.vector(name, dtype=dtype) for name in ("log_rates", "start", "cases")]
    log_rates, start, cases = inputs
    rates = at.exp(log_rates)

    def day(seen: Any, parts: Any, rates: Any) -> Any:
        infected, ill, well = rates[0] * parts[0] * parts[2], rates[1] * parts[1], rates[2] * parts[2]
        expected = PEOPLE * ill
        change = at.stack([-infected, infected - ill, ill - well, well])
        return parts + change, seen * at.log(expected) - expected

    (_, each), _ = aesara.scan(day, sequences=[cases], outputs_info=[start, None], non_sequences=[rates])
    return _with_gradient(mode, inputs, at.sum(each), 1)


def kalman(mode: str, dtype: str) -> ByHand:
    """A filter's log likelihood and its gradient."""
    moves, sees, jolts = (at.constant(matrix, dtype=dtype) for matrix in (MOVES, SEES, JOLTS))
    inputs = [at.vector("log_noise", dtype=dtype), at.vector("mean", dtype=dtype)]
    inputs += [at.matrix("covariance", dtype=dtype), at.matrix("y", dtype=dtype)]
    log_noise, mean, covariance, y = inputs
    noise = at.exp(log_noise)

    def step(seen: Any, m: Any, p: Any, noise: Any) -> Any:
        m, p = at.dot(moves, m), at.dot(at.dot(moves, p), moves.T) + noise[0] * jolts
        miss, across = seen - at.dot(sees, m), at.dot(sees, p)
        spread = at.dot(across, sees.T) + noise[1] * at.eye(2, dtype=dtype)
        solved = slinalg.solve(spread, at.concatenate([across, miss[:, None]], axis=1))
        gain = solved[:, :4].T
        each = at.sum(miss * solved[:, 4]) + at.log(nlinalg.det(spread)) + 2.0 * math.log(2.0 * math.pi)
        return m + at.dot(gain, miss), p - at.dot(gain, across), -0.5 * each

    (_, _, each), _ = aesara.scan(step, sequences=[y], outputs_info=[mean, covariance, None], non_sequences=[noise])
    return _with_gradient(mode, inputs, at.sum(each), 1)
