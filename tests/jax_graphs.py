"""Functions that users of JAX write, each with examples as its defaults: `test_bring_jax` brings them in.

It runs in an environment of JAX and writes programs, inputs, results and gradients of each function.
"""

# ruff: noqa: B008  # the defaults are examples

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bring_helpers import Brought, weights_of, write
from jax import lax

import xbackend.api.functions as xb
from xbackend.bring.jax import walk
from xbackend.bring.jax.given import from_jax
from xbackend.errors import XBackendError

jax.config.update("jax_enable_x64", "--x32" not in sys.argv)


R = np.random.default_rng(7)
V = R.normal(size=5)
W = R.normal(size=5)
A = R.normal(size=(3, 4))
B = R.normal(size=(4, 2))
S = R.normal(size=(4, 4)) + 4.0 * np.eye(4)
T = R.normal(size=(2, 3, 4))
P = R.uniform(0.2, 0.9, size=5)
J = np.array([2, 0, 1])
K = np.array([5, -7, 3, 12, -1])
N = np.int64(1)


def arithmetic(x=V, y=W):
    return (x + y) * x - y / (2.0 + x**2) + jnp.power(jnp.abs(x) + 0.1, y)


def unary(x=P):
    return [
        *(jnp.exp(x), jnp.exp2(x), jnp.expm1(x), jnp.log(x), jnp.log1p(x), jnp.log2(x), jnp.log10(x), jnp.sqrt(x)),
        *(lax.rsqrt(x), jnp.cbrt(x - 0.5), jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arcsin(x), jnp.arccos(x)),
        *(jnp.arctan(x), jnp.sinh(x), jnp.cosh(x), jnp.tanh(x), jnp.arcsinh(x), jnp.arccosh(x + 1.0), jnp.arctanh(x)),
        *(jnp.square(x), jnp.sign(x - 0.5), jnp.abs(x - 0.5), -x, 1.0 / x),
    ]


def special(x=P):
    from jax.scipy import special as functions

    return [
        *(functions.erf(x), functions.erfc(x), functions.erfinv(x), functions.gammaln(x), functions.digamma(x)),
        *(functions.expit(x), functions.logit(x), functions.logsumexp(x), functions.log_ndtr(x), functions.xlogy(x, x)),
    ]


def powers(x=P, k=K):
    return [x**2, x**3, x**-1, x**-2, x**7, x**0, x**0.5, 2.0**x, k**2, k**3, jnp.power(x, k)]


def rounding(x=V * 3.0):
    return [jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.trunc(x), lax.round(x), x.astype(int), x.astype(bool)]


def remainders(x=V * 3.0, y=W, k=K, n=np.array([2, 3, -4, 5, 7])):
    each = [lax.rem(x, y), jnp.mod(x, y), jnp.fmod(x, y), jnp.floor_divide(x, y), lax.div(k, n), lax.rem(k, n)]
    return [*each, k // n, k % n]


def least_numbers(k=np.array([-(2**63), 5, -(2**63), 7]), n=np.array([3, -(2**63), -5, -2])):
    return lax.rem(k, n), lax.div(k, n)


def divided_by_0(k=K, n=np.array([0, 3, 0, -4, 0])):
    unsigned = [lax.div(k.astype(one), n.astype(one)).astype(int) for one in ("uint8", "uint16", "uint32", "int8")]
    return lax.div(k, n), lax.rem(k, n), k // n, k % n, lax.rem(k, jnp.zeros(5, int)), *unsigned


def shifted_out(k=K, by=np.array([0, 63, 64, -1, 200]), u=np.array([1, 2, 3, 4, 250], np.uint32)):
    shifts = (lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical)
    small = [one(k.astype("int8"), (by % 11).astype("int8")).astype(int) for one in shifts]
    return [*(one(k, by) for one in shifts), *small, lax.shift_left(u, u * 9), lax.shift_right_logical(u, u * 9)]


def comparisons(x=V, y=W, k=K):
    a, b = x > 0, y < x
    each = [a & b, a | b, a ^ b, ~a, x == y, x != x, x >= y, k <= 3, jnp.isfinite(x), jnp.isnan(jnp.log(x)), a < b]
    return [*each, jnp.maximum(a, b), jnp.where(a, x, y), jnp.where(a, 1.0, y)]


def bits(k=K, u=np.array([1, 2, 3, 250], np.uint32), c=np.array([1, 2, 3, 250], np.uint8)):
    each = [k & 6, k | 9, k ^ 5, ~k, k << 2, k >> 1, u << 3, u >> 1, u + u, u - 3 * u, c + c, c * c, c.astype(int)]
    return [*each, (u // 2) % 7]


def small_integers(k=K):
    c = (40 * k).astype(jnp.int8)
    d = k.astype(jnp.int16)
    each = [c + c, c * c, -c, d * d * d * d, c.astype(jnp.int16) + d, jnp.abs(c), c > 0, jnp.sum(c, dtype=jnp.int8)]
    whole = [c // 3, d % 7, k.astype(jnp.uint16) // 5, jnp.where(d > 0, d, 3) % 4]
    return [one.astype(int) for one in (*each, *whole)]


def more_small_integers(x=V * 300.0, k=K):
    c = (40 * k).astype(jnp.int8)
    windows = [lax.reduce_window(-jnp.abs(c), np.int8(0), lax.add, (3,), (1,), "SAME")]
    windows += [lax.reduce_window(c, np.int8(-128), lax.max, (1,), (1,), ((2, 0),))]
    filled = c.astype(jnp.uint8).at[k].get(mode="fill", fill_value=-1) + lax.iota(jnp.uint8, 300)[-5:]
    missing = jnp.where(x > 0.0, x, jnp.nan)
    each = [
        *windows,
        filled,
        lax.iota(jnp.int8, 200),
        *(one.astype(n) for one in (x, missing) for n in ("int8", "uint16")),
    ]
    return [one.astype(int) for one in each]


def crossed_limits(x=V):
    return lax.clamp(0.5, x, -0.5)


def limits_of_nan(x=np.array([1.0, np.nan, -3.0]), low=np.float64(np.nan), high=np.float64(0.5)):
    none = jnp.nan
    return lax.clamp(low, x, high), lax.clamp(-high, x, low), lax.clamp(-1.0, x, none), lax.clamp(-high, x, high)


def limits(x=V, y=np.float64(0.3)):
    return [jnp.clip(x, -0.5, 0.5), jnp.clip(x, y - 1.0, y), lax.clamp(-0.4, x, 0.4), jnp.minimum(x, y)]


def selections(x=V, k=np.array([0, 2, 1, 0, 2], np.int32)):
    return lax.select_n(k, x, 2.0 * x, jnp.sin(x)), lax.select_n(k > 0, x, -x)


def reductions(t=T, k=K):
    each = [t.sum(), t.sum(1), t.sum((0, 2)), t.prod(2), t.max(0), t.min((1, 2)), t.mean(1), t.var(1), jnp.std(t)]
    more = [(t > 0).any(1), (t > 0).all(), k.sum(), k.prod(), k.max(), (k > 0).max(), jnp.linalg.norm(t)]
    return [*each, *more, jnp.argmax(t, 1), jnp.argmin(t), jnp.count_nonzero(t > 0, axis=1)]


def cumulative(a=A):
    each = [jnp.cumsum(a, 0), jnp.cumprod(a, 1), lax.cumsum(a, 1, reverse=True), lax.cummax(a, 1), lax.cummin(a, 0)]
    return [*each, lax.cumlogsumexp(a, 1), lax.cumlogsumexp(a, 0, reverse=True)]


def shapes(a=A, t=T):
    each = [a.T, a.reshape(2, 6), a[:, None], t.transpose(2, 0, 1), t[0:1].squeeze(0), jnp.flip(a, 1), jnp.rot90(a)]
    more = [jnp.concatenate([a, a], 1), jnp.stack([a, 2.0 * a], 1), jnp.tile(a, (2, 1)), jnp.repeat(a, 2, 1)]
    parts = [*jnp.split(a, 2, 1), *jnp.split(a, [1], 0), jnp.broadcast_to(a, (2, 3, 4)), jnp.roll(a, 1, 1)]
    return [*each, *more, *parts, jnp.expand_dims(a, (0, 3)), jnp.moveaxis(t, 0, 2), jnp.ravel(a), jnp.atleast_3d(a)]


def padding(a=A, v=np.float64(2.5)):
    each = [jnp.pad(a, 1), jnp.pad(a, ((0, 2), (1, 0)), constant_values=3.0), jnp.pad(a, 2, mode="edge")]
    return [*each, lax.pad(a, v, ((1, -1, 1), (-1, 2, 0))), lax.pad(a, v, ((0, 0, 2), (0, 0, 0)))]


def creation(x=V):
    each = [jnp.zeros(3), jnp.ones((2, 2)), jnp.full(3, 7), jnp.eye(3), jnp.arange(4), jnp.linspace(0.0, 1.0, 5)]
    return [*each, x + jnp.arange(5), jnp.tri(3), jnp.zeros_like(x), lax.broadcasted_iota(int, (2, 3), 1)]


def constants(x=V):
    table = jnp.asarray(A)
    return table[:, 1:].sum() * x + jnp.asarray(W), x @ jnp.asarray(W), jnp.asarray(K) + 1


def slices(a=A, t=T):
    return [a[1], a[-1, ::2], a[::-1, 1:3], a[:, -2:], t[..., 0], t[1, :, None, 3], a[1:, :-1], t[:, 1]]


def known_indices(a=A, t=T):
    each = [a[np.array([2, 0])], a[:, np.array([1, 1, 3])], a[np.array([0, 2]), np.array([3, 1])], t[:, [0, 2], [1, 1]]]
    return [*each, t[np.array([[0, 1], [1, 0]])], t[0, :, np.array([1, 2])], a[np.array([-1, 0])], jnp.diag(a[:, :3])]


def indices(a=A, t=T, i=J, n=N):
    each = [a[i], a[:, i], a[i, i], t[:, i, i], t[n, i], t[:, :, i], a[n], a[:, n], a[i[:, None], i], t[n, :, i]]
    return [*each, a[-i], jnp.take(a, i, axis=1), jnp.take(a, i + 2, axis=0, mode="clip"), t[n, n, n]]


def filled_indices(a=A, i=np.array([0, 5, 2])):
    return jnp.take(a, i, axis=0), a.at[i].get(mode="fill", fill_value=-1.0), jnp.take(jnp.arange(4), i)


def along_axes(a=A, t=T):
    order = jnp.argsort(t, axis=1)
    return jnp.take_along_axis(t, order, 1), jnp.take_along_axis(a, jnp.argmax(a, 1)[:, None], 1)


def batched_indices(t=T, i=np.array([[1, 0], [2, 1]])):
    return jax.vmap(lambda one, k: one[k])(t, i), jax.vmap(lambda one, k: one[:, k], (0, 1))(t, i)


def written(a=A, i=J, n=N, v=V):
    each = [a.at[1].set(2.0), a.at[:, 1:3].add(v[:2]), a.at[i].add(1.5), a.at[:, i].set(v[:3]), a.at[n].set(0.0)]
    more = [a.at[i, i].add(v[:3]), a.at[np.array([0, 0])].add(1.0), a.at[n, 1:].set(7.0), a.at[-1, n].add(v[0])]
    return [*each, *more, a.at[i, 0].set(v[:3]), a.at[1, 2].set(v[0])]


def dropped_writes(a=A, i=np.array([0, 9, 2])):
    return a.at[i].add(1.0), a.at[:, i].set(2.0), a.at[i].set(3.0, mode="clip")


def batched_writes(t=T, i=np.array([[1, 0], [2, 1]]), v=V):
    return jax.vmap(lambda one, k: one.at[k].add(v[:4]))(t, i), jax.vmap(lambda one, k: one.at[k, 1].set(0.0))(t, i)


def dynamic_slices(a=A, t=T, n=N):
    each = [lax.dynamic_slice(a, (1, 2), (2, 2)), lax.dynamic_slice(a, (n, n + 9), (2, 3))]
    more = [
        lax.dynamic_slice_in_dim(t, n, 2, 2),
        lax.dynamic_index_in_dim(t, n, 1),
        lax.dynamic_slice(a, (n, 0), (1, 4)),
    ]
    return [*each, *more]


def beyond_the_ends(k=np.arange(12).reshape(3, 4), i=np.array([1, 0, 2, -9]), n=np.uint8(251)):
    """Of integers, as a gradient of what JAX leaves open is JAX's own. A file has it as XLA computes it."""
    j = jnp.array([7, 4, 3, -1]) + i[1]
    promised = [k[i], k[i, j], k[1, j], k.at[i, j].set(-1, mode="promise_in_bounds"), k.at[j].add(5), k[i[3], j[:2]]]
    parts = [lax.dynamic_slice(k, (i[a], j[a]), (2, 2), allow_negative_indices=False) for a in range(4)]
    pushed = lax.dynamic_update_slice(k, -k[:2, :2], (i[3], j[3]), allow_negative_indices=False)
    many = jnp.arange(270) + i[1]
    of_uint8 = (
        lax.dynamic_slice(many, (n,), (7,)),
        lax.dynamic_update_slice(many, -many[:9], (n,)),
        many[n - i.astype("uint8")],
    )
    return [*promised, *parts, pushed, lax.dynamic_slice(k[0], (i[3],), (2,)), *of_uint8]


def dynamic_updates(a=A, n=N, b=R.normal(size=(2, 2))):
    each = [lax.dynamic_update_slice(a, b, (1, 1)), lax.dynamic_update_slice(a, b, (n, n)), a.at[n, n].set(b[0, 0])]
    return [*each, lax.dynamic_update_index_in_dim(a, b[0, 0] * jnp.ones(3), n, 1)]


def products(a=A, b=B, t=T, v=V[:4], k=K):
    each = [a @ b, a @ v, v @ b, jnp.dot(v, v), jnp.outer(v, v), t @ b, jnp.einsum("bij,kj->bki", t, a), k @ k]
    more = [jnp.einsum("bij,bkj->bik", t, t), jnp.tensordot(t, t, ((0, 2), (0, 2))), jnp.einsum("ij,ij->i", a, a)]
    return [
        *each,
        *more,
        jnp.vdot(a, a),
        jnp.kron(a, a[:2, :2]),
        jnp.einsum("bij->j", t),
        jnp.matmul(t, v),
        t.swapaxes(0, 1) @ b,
    ]


def convolutions(x=R.normal(size=(2, 6, 5, 2)), k=R.normal(size=(3, 2, 2, 4)), d=R.normal(size=(2, 2, 1, 2))):
    numbers = ("NHWC", "HWIO", "NHWC")

    def of(image, kernel, strides=(1, 1), padding="SAME", **more):
        return lax.conv_general_dilated(image, kernel, strides, padding, dimension_numbers=numbers, **more)

    turned = lax.conv(x.transpose(0, 3, 1, 2), k.transpose(3, 2, 0, 1), (1, 2), "VALID")
    each = [
        of(x, k),
        of(x, k, (2, 1), "VALID"),
        of(x, k, rhs_dilation=(2, 1)),
        of(x, k, (1, 1), ((2, 1), (0, 3)), lhs_dilation=(2, 2)),
    ]
    return [*each, of(x, d, feature_group_count=2), turned, jnp.convolve(x[0, :, 0, 0], k[:, 0, 0, 0])]


def pooling(x=R.normal(size=(1, 6, 4, 2))):
    window, steps = (1, 2, 2, 1), (1, 2, 2, 1)
    largest = lax.reduce_window(x, -jnp.inf, lax.max, window, steps, "VALID")
    return largest, lax.reduce_window(x, 0.0, lax.add, window, steps, "SAME") / 4.0


def sorts(a=A, k=K, x=V):
    several = lax.sort((k % 3, x, k), num_keys=2)
    return [
        jnp.sort(a, 0),
        jnp.argsort(a, 1),
        jnp.sort(k),
        *several,
        *lax.top_k(a, 2),
        jnp.median(x),
        jnp.quantile(x, 0.3),
    ]


def solves(s=S, b=B, v=V[:4]):
    spd = s @ s.T
    root = jnp.linalg.cholesky(spd)
    solved = jax.scipy.linalg.solve_triangular
    each = [root, solved(root, b, lower=True), solved(root, v, lower=True, trans=1), solved(s, b, unit_diagonal=True)]
    more = [lax.linalg.triangular_solve(root, b.T, lower=True), jax.scipy.linalg.cho_solve((root, True), b)]
    return [*each, *more, jnp.linalg.solve(s, b), jnp.linalg.solve(s, v), jnp.linalg.inv(s), jnp.linalg.det(s)]


def more_matrices(s=S):
    spd = s @ s.T
    sign, size = jnp.linalg.slogdet(s)
    values, vectors = jnp.linalg.eigh(spd)
    left, singular, right = jnp.linalg.svd(s[:, :3], full_matrices=False)
    q, r = jnp.linalg.qr(s)
    each = [sign, size, values, (vectors * values) @ vectors.T, singular, (left * singular) @ right, q @ r, jnp.abs(r)]
    return [
        *each,
        jnp.linalg.eigvalsh(spd),
        jnp.linalg.svd(s, compute_uv=False),
        jnp.trace(s),
        jnp.tril(s),
        jnp.triu(s, 1),
    ]


def weighted_triangles(s=S, w=T[0, 0]):
    """Only a number keeps a matrix symmetric."""
    vectors, values = lax.linalg.eigh((s + s.T) * w, symmetrize_input=False)
    return values, jnp.abs(vectors), lax.linalg.eigh((s + s.T) * 3.0)[1]


def one_triangle(s=S):
    spd = s @ s.T
    values, vectors = jnp.linalg.eigh(jnp.tril(spd) + 7.0 * jnp.triu(spd, 1), symmetrize_input=False, UPLO="L")
    return values, jnp.abs(vectors)


def batched_solves(s=S):
    stack = jnp.stack([s, s.T + jnp.eye(4)])
    return jnp.linalg.solve(stack, jnp.ones((4, 2))), jnp.linalg.inv(stack), jax.vmap(jnp.linalg.det)(stack)


def scans(x=A, c=V[:4]):
    def step(carry, row):
        total, count = carry
        new = jnp.tanh(total * row + c)
        return (new, count + 1), (new.sum(), count)

    first = lax.scan(step, (jnp.zeros(4), 0), x)
    last, _ = lax.scan(step, (jnp.ones(4), 0), x, reverse=True)
    return first, last[0], lax.map(jnp.sin, x), lax.fori_loop(0, 3, lambda i, y: y * c + i, c)


def nested_scans(x=T):
    def inner(carry, row):
        return carry + jnp.sin(row).sum(), carry

    def outer(carry, rows):
        total, each = lax.scan(inner, carry, rows)
        return total, each

    return lax.scan(outer, 0.5, x), lax.associative_scan(jnp.add, x[0, :, 0])


def whiles(x=V, n=np.int64(4)):
    def body(state):
        i, y, total = state
        return i + 1, jnp.cos(y) + x, total + y.sum()

    limited = lax.while_loop(lambda s: (s[0] < n) & (s[2] < 50.0), body, (0, x, 0.0))
    return limited, lax.fori_loop(0, n, lambda i, y: y * 0.5 + i, x)


def conditions(x=V, n=N, y=np.float64(0.3)):
    two = lax.cond(y > 0.0, lambda a: a * 2.0, jnp.sin, x)
    three = lax.switch(n, [jnp.sin, jnp.cos, lambda a: a * y], x)
    return two, three, lax.cond(True, jnp.tanh, jnp.exp, x), lax.cond(n, lambda: x, lambda: -x)


def calls(x=V):
    inner = jax.jit(lambda a, b: a * b + 1.0)
    return inner(x, 2.0), jax.checkpoint(jnp.sin)(x), jax.jit(jax.checkpoint(inner))(x, x), inner(inner(x, x), x)


@jax.custom_jvp
def _own_rule(x):
    return jnp.log1p(jnp.exp(x))


_own_rule.defjvp(lambda p, t: (_own_rule(*p), jax.nn.sigmoid(p[0]) * t[0]))


@jax.custom_vjp
def _own_backward(x):
    return jnp.sin(x) * 2.0


_own_backward.defvjp(lambda x: (_own_backward(x), x), lambda x, g: (2.0 * jnp.cos(x) * g,))


def own_rules(x=V):
    return _own_rule(x), _own_backward(x)


def stopped(x=V * np.array([1.0, 1e-3, 1e20, 1e-250, 0.0])):
    return x * lax.stop_gradient(x), lax.stop_gradient(jnp.round(x) - x) + x, lax.stop_gradient(x)


def layers(x=A, w=B):
    nn = jax.nn
    y = x @ w
    each = [
        nn.relu(y),
        nn.gelu(y),
        nn.gelu(y, approximate=False),
        nn.softmax(y),
        nn.log_softmax(y),
        nn.silu(y),
        nn.elu(y),
    ]
    more = [nn.sigmoid(y), nn.softplus(y), nn.leaky_relu(y), nn.standardize(y), nn.one_hot(jnp.array([0, 1, 1]), 2)]
    return [*each, *more, nn.logsumexp(y, axis=1), nn.relu6(y), nn.selu(y), nn.hard_tanh(y), nn.mish(y), nn.celu(y)]


def nested(p={"w": B, "layers": [V[:2], (W[:2], {"b": P[:2]})]}, x=A):  # noqa: B006
    y = x @ p["w"] + p["layers"][0] * p["layers"][1][0]
    return {"y": y, "parts": [p["layers"][1][1]["b"], (y.sum(), [y[0]])]}


def own_gradient(x=V, w=W):
    return (
        jax.grad(lambda a: jnp.sum(jnp.tanh(a * w) ** 2))(x),
        jax.jacfwd(jnp.sin)(x),
        jax.hessian(lambda a: (a**3).sum())(x),
    )


def vectorised(a=A, b=B):
    each = jax.vmap(lambda row: jnp.tanh(row @ b).sum())(a)
    return each, jax.vmap(lambda x, n: lax.cond(n > 0, jnp.sin, jnp.cos, x))(a[0], jnp.array([0, 1, 1, 0]))


def vectorised_loops(x=V, n=np.array([0, 1, 2, 3, 4])):
    return jax.vmap(lambda y, k: lax.while_loop(lambda s: s[0] < k, lambda s: (s[0] + 1, s[1] * 0.5), (0, y)))(x, n)


def gaussian_process(x=np.linspace(0.0, 1.0, 4), y=V[:4], scale=np.float64(0.4)):
    distance = jnp.square(x[:, None] - x[None, :])
    root = jnp.linalg.cholesky(jnp.exp(-0.5 * distance / scale**2) + 0.1 * jnp.eye(4))
    half = jax.scipy.linalg.solve_triangular(root, y, lower=True)
    return -0.5 * half @ half - jnp.log(jnp.diag(root)).sum()


def searches(v=np.sort(V), x=A):
    each = [jnp.searchsorted(v, x), jnp.searchsorted(v, x[0], side="right"), jnp.digitize(x[0], v)]
    return [*each, jnp.interp(x[0], v, v**2), jnp.nonzero(x[0] > 0.0, size=4)[0], jnp.histogram(x, bins=3)[0]]


def equal_searches(x=V, a=np.array([3, 0, 3, 2]), b=np.array([3, 0, 3, 2])):
    """Primitives that JAX takes to be equal, of several dtypes, lengths and numbers of inputs."""
    several = [jnp.nonzero(a > 0, size=4)[0], jnp.nonzero(b, size=4)[0], x[jnp.nonzero(x > 0, size=4)[0]]]
    return [*several, jnp.nonzero(a, size=4, fill_value=9)[0], jnp.nonzero(a[:2], size=4)[0]]


def more_numpy(x=S, v=P[:4], k=np.arange(4)):
    each = [jnp.linalg.pinv(x), jnp.linalg.matrix_power(x, 3), jnp.cov(x), jnp.nan_to_num(x), jnp.isclose(v, v + 1e-9)]
    more = [jax.scipy.stats.norm.logpdf(v), jax.scipy.stats.beta.logpdf(v, 2.0, 3.0), jnp.bincount(k, length=5)]
    last = [jax.ops.segment_sum(v, k // 2, 2), jnp.percentile(v, 30.0), jnp.select([x > 1, x > 0], [x, 2.0 * x])]
    return [*each, *more, *last, jax.scipy.stats.multivariate_normal.logpdf(v, v + 1.0, x @ x.T), jnp.hypot(v, v + 1.0)]


def polynomials_and_bits(x=V, k=K, e=np.array([0, 1, 2, 3, 70])):
    narrow = lax.shift_right_logical(k.astype("int8"), e.astype("int8")).astype(int)
    wide = lax.shift_right_logical(k.astype("int32"), e.astype("int32"))
    return [jnp.sinc(x), k**e, lax.shift_right_logical(k, e), wide, narrow]


def gradients_inside(x=S, v=V[:4]):
    summed = [jnp.linalg.cholesky, jax.nn.relu, lambda a: jnp.sort(a, 0), lambda a: jnp.cumprod(a, 1), jnp.abs]
    each = [jax.grad(lambda a, f=f: jnp.sum(f(a)))(x @ x.T) for f in summed]
    loop = jax.grad(lambda a: lax.scan(lambda c, r: (jnp.tanh(c * r), c), 0.5, a)[0])
    return [*each, loop(v), jax.grad(lambda a: lax.cond(a[0] > 0, jnp.sum, lambda b: jnp.sum(b * b), a))(v)]


def attention(x=R.normal(size=(2, 3, 4)), w=R.normal(size=(3, 4, 4))):
    q, k, v = (x @ one for one in w)
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / jnp.sqrt(4.0)
    masked = jnp.where(jnp.tril(jnp.ones((3, 3), bool)), scores, -jnp.inf)
    return jax.nn.softmax(masked, axis=-1) @ v


# Loops whose number of steps is unknown have no gradient, and triangles that are not read have JAX's own.
WITHOUT_GRADIENT = ("whiles", "vectorised_loops", "one_triangle", "weighted_triangles", "limits_of_nan")


def exported(function: Callable[..., Any], arrays: Sequence[np.ndarray], form: Any) -> jax.export.Exported:
    """A function as it comes out of the file that `jax.export` writes."""
    specs = jax.tree.unflatten(form, [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in arrays])
    return jax.export.deserialize(bytearray(jax.export.export(jax.jit(function))(*specs).serialize()))


def brought(function: Callable[..., Any], with_gradient: bool, as_file: bool) -> Brought:
    """A function, or the file of it, as it came in, with what JAX computes of it, compiled."""
    examples = [p.default for p in inspect.signature(function).parameters.values()]
    leaves, form = jax.tree.flatten(examples)
    arrays = [np.asarray(jnp.asarray(one)) for one in leaves]
    try:
        program = from_jax(*([exported(function, arrays, form)] if as_file else [function, *examples]))
    except XBackendError as error:
        return Brought("", [], [], [], [], [], f"{type(error).__name__}: {error}")
    results = [np.asarray(one) for one in jax.tree.leaves(jax.jit(function)(*jax.tree.map(jnp.asarray, examples)))]
    weights = weights_of(results)
    of = [i for i, one in enumerate(arrays) if one.dtype.kind == "f" and any(w is not None for w in weights)]
    of = of if with_gradient else []

    def loss(chosen: list[Any]) -> Any:
        given = [chosen[of.index(i)] if i in of else one for i, one in enumerate(arrays)]
        made = jax.tree.leaves(function(*jax.tree.unflatten(form, given)))
        return sum(jnp.sum(one * w) for one, w in zip(made, weights, strict=True) if w is not None)

    gradients = [np.asarray(one) for one in jax.jit(jax.grad(loss))([jnp.asarray(arrays[i]) for i in of])] if of else []
    return Brought(program.to_json(), arrays, results, weights, gradients, of)


def write_all(names: dict[str, Any], without_gradient: Sequence[str]) -> None:
    """Write the functions of a script that have examples, to the folder that it was told: all, or those it was told."""
    folder, asked = Path(sys.argv[1]), [one for one in sys.argv[2:] if not one.startswith("-")]
    for name, one in list(names.items()):
        own = inspect.isfunction(one) and one.__module__ == "__main__" and one.__defaults__
        if own and (name in asked or not asked):
            write(folder, name, brought(one, name not in without_gradient, "--exported" in sys.argv))


if __name__ == "__main__":
    if "--planted" in sys.argv:
        walk.mapping({"sub": xb.add})
    write_all(globals(), WITHOUT_GRADIENT)
