"""JAX by hand: a jitted function, `jax.value_and_grad` of a model; arrays on the first device in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from overhead.handwritten import ByHand
from xbackend.workloads.kernels.nbody import SOFTENING, STEP
from xbackend.workloads.kernels.stencil import RATE
from xbackend.workloads.models.kalman import JOLTS, MOVES, SEES
from xbackend.workloads.models.logistic_regression import SCALE
from xbackend.workloads.models.seir import PEOPLE


def _jitted(function: Callable[..., Any]) -> ByHand:
    return ByHand(jax.jit(function), jax.device_put, jax.block_until_ready)


def _with_gradient(function: Callable[..., Any], wrt: Sequence[int]) -> ByHand:
    both = jax.value_and_grad(function, argnums=tuple(wrt))

    def run(*arrays: Any) -> Any:
        value, gradients = both(*arrays)
        return value, *gradients

    return _jitted(run)


def axis_sums(mode: str, dtype: str) -> ByHand:
    """The sums of a matrix over each axis."""
    return _jitted(lambda x: (jnp.sum(x, axis=0), jnp.sum(x, axis=1)))


def stencil(mode: str, dtype: str, steps: int) -> ByHand:
    """Heat on a plate."""

    def step(_: Any, u: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].add(RATE * (around - 4.0 * u[1:-1, 1:-1]))

    return _jitted(lambda u: (jax.lax.fori_loop(0, steps, step, u),))


def nbody(mode: str, dtype: str, steps: int) -> ByHand:
    """Bodies that attract each other."""

    def acceleration(position: Any, mass: Any) -> Any:
        apart = position[None, :, :] - position[:, None, :]
        squared = jnp.sum(apart * apart, axis=2) + SOFTENING**2
        pull = mass[None, :] / (squared * jnp.sqrt(squared))
        return jnp.sum(pull[:, :, None] * apart, axis=1)

    def run(position: Any, velocity: Any, mass: Any) -> Any:
        a = acceleration(position, mass)
        for _ in range(steps):
            velocity = velocity + 0.5 * STEP * a
            position = position + STEP * velocity
            a = acceleration(position, mass)
            velocity = velocity + 0.5 * STEP * a
        return position, velocity

    return _jitted(run)


def logistic_regression(mode: str, dtype: str) -> ByHand:
    """A log density and its gradient."""

    def density(coefficients: Any, x: Any, y: Any) -> Any:
        eta = x @ coefficients
        return jnp.sum(y * eta - jax.nn.softplus(eta)) - jnp.sum(coefficients**2) / (2.0 * SCALE**2)

    return _with_gradient(density, [0])


def radon(mode: str, dtype: str) -> ByHand:
    """A hierarchical regression and its gradient."""

    def density(  # noqa: PLR0917 (an argument is an array)
        centre: Any, log_scale: Any, intercept: Any, slope: Any, county: Any, floor: Any, y: Any
    ) -> Any:
        scale = jnp.exp(log_scale)
        a, b = centre[0] + scale[0] * intercept, centre[1] + scale[1] * slope
        residual = (y - a[county] - b[county] * floor) / scale[2]
        likelihood = -0.5 * jnp.sum(residual**2) - y.shape[0] * log_scale[2]
        raw = jnp.sum(intercept**2) + jnp.sum(slope**2) + jnp.sum(centre**2) / 100.0
        return likelihood - 0.5 * (raw + jnp.sum(scale**2)) + jnp.sum(log_scale)

    return _with_gradient(density, range(4))


def gaussian_process(mode: str, dtype: str) -> ByHand:
    """A log marginal likelihood and its gradient."""

    def density(log_parameters: Any, x: Any, y: Any) -> Any:
        length, scale, noise = jnp.exp(log_parameters)
        apart = (x[:, None] - x[None, :]) / length
        covariance = scale**2 * jnp.exp(-0.5 * apart**2) + noise**2 * jnp.eye(x.shape[0], dtype=x.dtype)
        factor = jnp.linalg.cholesky(covariance)
        white = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        constant = 0.5 * y.shape[0] * jnp.log(2.0 * jnp.pi)
        return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diagonal(factor))) - constant

    return _with_gradient(density, [0])


def seir(mode: str, dtype: str) -> ByHand:
    """An epidemic's log density and its gradient."""

    def density(log_rates: Any, start: Any, cases: Any) -> Any:
        beta, sigma, gamma = jnp.exp(log_rates)

        def day(parts: Any, seen: Any) -> Any:
            s, e, i, _ = parts
            infected, ill, well = beta * s * i, sigma * e, gamma * i
            expected = PEOPLE * ill
            change = jnp.stack([-infected, infected - ill, ill - well, well])
            return parts + change, seen * jnp.log(expected) - expected

        return jnp.sum(jax.lax.scan(day, start, cases)[1])

    return _with_gradient(density, [0])


def kalman(mode: str, dtype: str) -> ByHand:
    """A filter's log likelihood and its gradient."""
    moves, sees, jolts = (jnp.asarray(matrix, dtype) for matrix in (MOVES, SEES, JOLTS))

    def density(log_noise: Any, mean: Any, covariance: Any, y: Any) -> Any:
        noise = jnp.exp(log_noise)

        def step(belief: Any, seen: Any) -> Any:
            m, p = belief
            m, p = moves @ m, moves @ p @ moves.T + noise[0] * jolts
            miss, across = seen - sees @ m, sees @ p
            spread = across @ sees.T + noise[1] * jnp.eye(2, dtype=dtype)
            solved = jnp.linalg.solve(spread, jnp.concatenate([across, miss[:, None]], axis=1))
            gain = solved[:, :4].T
            each = jnp.sum(miss * solved[:, 4]) + jnp.linalg.slogdet(spread)[1] + 2.0 * math.log(2.0 * math.pi)
            return (m + gain @ miss, p - gain @ across), -0.5 * each

        return jnp.sum(jax.lax.scan(step, (mean, covariance), y)[1])

    return _with_gradient(density, [0])
