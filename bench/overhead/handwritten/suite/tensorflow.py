"""TensorFlow by hand: a `tf.function`, compiled by XLA or not, with a tape for a model; tensors in, tensors out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from overhead.handwritten import ByHand
from overhead.handwritten.tensorflow import by_hand
from xbackend.workloads.kernels.nbody import SOFTENING, STEP
from xbackend.workloads.kernels.stencil import RATE
from xbackend.workloads.models.kalman import JOLTS, MOVES, SEES
from xbackend.workloads.models.logistic_regression import SCALE
from xbackend.workloads.models.seir import PEOPLE


def _with_gradient(mode: str, function: Callable[..., Any], wrt: Sequence[int]) -> ByHand:
    def run(*arrays: Any) -> Any:
        with tf.GradientTape() as tape:
            watched = [arrays[i] for i in wrt]
            tape.watch(watched)
            value = function(*arrays)
        return value, *tape.gradient(value, watched)

    return by_hand(mode, run)


def axis_sums(mode: str, dtype: str) -> ByHand:
    """The sums of a matrix over each axis."""
    return by_hand(mode, lambda x: (tf.reduce_sum(x, axis=0), tf.reduce_sum(x, axis=1)))


def stencil(mode: str, dtype: str, steps: int) -> ByHand:
    """Heat on a plate."""

    def step(i: Any, u: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return i + 1, u + tf.pad(RATE * (around - 4.0 * u[1:-1, 1:-1]), [[1, 1], [1, 1]])

    def run(u: Any) -> Any:
        return (tf.while_loop(lambda i, _: i < steps, step, (tf.constant(0), u), maximum_iterations=steps)[1],)

    return by_hand(mode, run)


def nbody(mode: str, dtype: str, steps: int) -> ByHand:
    """Bodies that attract each other."""

    def acceleration(position: Any, mass: Any) -> Any:
        apart = position[None, :, :] - position[:, None, :]
        squared = tf.reduce_sum(apart * apart, axis=2) + SOFTENING**2
        pull = mass[None, :] / (squared * tf.sqrt(squared))
        return tf.reduce_sum(pull[:, :, None] * apart, axis=1)

    def run(position: Any, velocity: Any, mass: Any) -> Any:
        a = acceleration(position, mass)
        for _ in range(steps):
            velocity = velocity + 0.5 * STEP * a
            position = position + STEP * velocity
            a = acceleration(position, mass)
            velocity = velocity + 0.5 * STEP * a
        return position, velocity

    return by_hand(mode, run)


def logistic_regression(mode: str, dtype: str) -> ByHand:
    """A log density and its gradient."""

    def density(coefficients: Any, x: Any, y: Any) -> Any:
        eta = tf.linalg.matvec(x, coefficients)
        likelihood = tf.reduce_sum(y * eta - tf.math.softplus(eta))
        return likelihood - tf.reduce_sum(tf.square(coefficients)) / (2.0 * SCALE**2)

    return _with_gradient(mode, density, [0])


def radon(mode: str, dtype: str) -> ByHand:
    """A hierarchical regression and its gradient."""

    def density(  # noqa: PLR0917 (an argument is an array)
        centre: Any, log_scale: Any, intercept: Any, slope: Any, county: Any, floor: Any, y: Any
    ) -> Any:
        scale = tf.exp(log_scale)
        a, b = centre[0] + scale[0] * intercept, centre[1] + scale[1] * slope
        residual = (y - tf.gather(a, county) - tf.gather(b, county) * floor) / scale[2]
        likelihood = -0.5 * tf.reduce_sum(tf.square(residual)) - float(y.shape[0]) * log_scale[2]
        raw = tf.reduce_sum(tf.square(intercept)) + tf.reduce_sum(tf.square(slope))
        raw += tf.reduce_sum(tf.square(centre)) / 100.0
        return likelihood - 0.5 * (raw + tf.reduce_sum(tf.square(scale))) + tf.reduce_sum(log_scale)

    return _with_gradient(mode, density, range(4))


def gaussian_process(mode: str, dtype: str) -> ByHand:
    """A log marginal likelihood and its gradient."""

    def density(log_parameters: Any, x: Any, y: Any) -> Any:
        length, scale, noise = tf.unstack(tf.exp(log_parameters))
        apart = (x[:, None] - x[None, :]) / length
        covariance = scale**2 * tf.exp(-0.5 * tf.square(apart)) + noise**2 * tf.eye(x.shape[0], dtype=x.dtype)
        factor = tf.linalg.cholesky(covariance)
        white = tf.linalg.triangular_solve(factor, y[:, None], lower=True)
        constant = 0.5 * y.shape[0] * math.log(2.0 * math.pi)
        logarithms = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
        return -0.5 * tf.reduce_sum(tf.square(white)) - logarithms - constant

    return _with_gradient(mode, density, [0])


def seir(mode: str, dtype: str) -> ByHand:
    """An epidemic's log density and its gradient."""

    def density(log_rates: Any, start: Any, cases: Any) -> Any:
        beta, sigma, gamma = tf.unstack(tf.exp(log_rates))

        def day(before: Any, seen: Any) -> Any:
            parts, _ = before
            s, e, i, _ = tf.unstack(parts)
            infected, ill, well = beta * s * i, sigma * e, gamma * i
            expected = PEOPLE * ill
            change = tf.stack([-infected, infected - ill, ill - well, well])
            return parts + change, seen * tf.math.log(expected) - expected

        return tf.reduce_sum(tf.scan(day, cases, (start, tf.zeros((), start.dtype)))[1])

    return _with_gradient(mode, density, [0])


def kalman(mode: str, dtype: str) -> ByHand:
    """A filter's log likelihood and its gradient."""
    moves, sees, jolts = (tf.constant(matrix, dtype) for matrix in (MOVES, SEES, JOLTS))

    def density(log_noise: Any, mean: Any, covariance: Any, y: Any) -> Any:
        noise = tf.exp(log_noise)

        def step(before: Any, seen: Any) -> Any:
            m, p, _ = before
            m, p = tf.linalg.matvec(moves, m), moves @ p @ tf.transpose(moves) + noise[0] * jolts
            miss, across = seen - tf.linalg.matvec(sees, m), sees @ p
            spread = across @ tf.transpose(sees) + noise[1] * tf.eye(2, dtype=dtype)
            solved = tf.linalg.solve(spread, tf.concat([across, miss[:, None]], axis=1))
            gain = tf.transpose(solved[:, :4])
            each = tf.reduce_sum(miss * solved[:, 4]) + tf.linalg.slogdet(spread)[1] + 2.0 * math.log(2.0 * math.pi)
            return m + tf.linalg.matvec(gain, miss), p - gain @ across, -0.5 * each

        return tf.reduce_sum(tf.scan(step, y, (mean, covariance, tf.zeros((), dtype)))[2])

    return _with_gradient(mode, density, [0])
