"""Functions that users of JAX write for several devices, each with examples as its defaults.

`test_bring_sharded` brings them in. It runs in an environment of JAX with four CPU devices.
"""

# ruff: noqa: B008  # the defaults are examples

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jax_graphs import write_all

from xbackend.bring.jax import collectives

LINE = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("i",))
GRID = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
R = np.random.default_rng(3)
X, W, Y = R.normal(size=(8, 3)), R.normal(size=(3, 4)), R.normal(size=(8, 4))
S = R.normal(size=(8, 8))
WITHOUT_GRADIENT = ("extrema", "integers")


def on(mesh: Any, ins: Any, outs: Any, **options: Any) -> Any:
    """The function at each position of a mesh."""
    return lambda f: jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, **options)


def loss(x=X, w=W, y=Y):
    @on(LINE, (P("i"), P(), P("i")), P())
    def mean(x, w, y):
        return lax.pmean(jnp.mean((jnp.tanh(x @ w) - y) ** 2), "i")

    return mean(x, w, y)


def own_gradient(x=X, w=W, y=Y):
    return jax.value_and_grad(loss, argnums=(0, 1))(x, w, y)


def model_parallel(x=X, w=R.normal(size=(3, 8)), v=R.normal(size=(8, 4))):
    @on(LINE, (P(), P(None, "i"), P("i")), P())
    def layers(x, w, v):
        return lax.psum(jnp.tanh(x @ w) @ v, "i")

    return layers(x, w, v)


def sums(x=S):
    @on(LINE, P("i"), (P(), P("i"), P()))
    def each(x):
        return lax.psum(x, "i"), lax.psum(jnp.sin(x), "i") * x, lax.pmean(2.0, "i")

    return each(x)


def extrema(x=S, k=np.arange(8, dtype=np.uint32)):
    @on(LINE, (P("i"), P("i")), P(), check_vma=False)
    def each(x, k):
        some = [lax.pmax(x, "i"), lax.pmin(x, "i"), lax.pmax(k, "i")]
        return [*some, jax.vmap(lambda row: lax.pmax(row, ("i", "row")), axis_name="row")(x)[0]]

    return each(x, k)


def integers(k=np.arange(8) * 40, u=np.arange(8, dtype=np.uint8) * 30):
    @on(LINE, (P("i"), P("i")), (P(), P(), P(), P("i")))
    def each(k, u):
        small = k.astype("int8")
        scattered = lax.psum_scatter(jnp.tile(u, 2), "i", tiled=True)
        return lax.psum(k, "i"), lax.psum(small, "i").astype(int), lax.psum(u, "i"), scattered

    return each(k, u)


def gathered(x=S):
    @on(LINE, P("i"), P("i"))
    def each(x):
        whole = lax.all_gather(x, "i", tiled=True)
        return lax.all_gather(x, "i", axis=1) * x[:, None], whole @ whole[:, :2], lax.all_gather(x[0], "i", axis=1)

    return each(x)


def scattered(x=S):
    @on(LINE, P("i"), P("i"))
    def each(x):
        one = lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True)
        return one, lax.psum_scatter(jnp.cos(x[:, :4]), "i", scatter_dimension=1), jnp.sin(one)

    return each(x)


def exchanged(x=S):
    @on(LINE, P("i"), (P("i"), P("i"), P(None, "i")))
    def each(x):
        whole = lax.all_to_all(x, "i", split_axis=1, concat_axis=0, tiled=True)
        back = lax.all_to_all(jnp.sin(whole), "i", split_axis=0, concat_axis=1, tiled=True)
        return whole, lax.all_to_all(x[:, :4], "i", split_axis=1, concat_axis=1), back

    return each(x)


def permuted(x=S):
    @on(LINE, P("i"), P("i"))
    def each(x):
        ring = lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)])
        return ring * x, lax.ppermute(jnp.exp(x), "i", [(0, 3), (3, 1)])

    return each(x)


def positions(x=S, y=S[:2]):
    @on(LINE, (P("i"), P()), P("i"))
    def each(x, y):
        k = lax.axis_index("i")
        own = lax.dynamic_slice_in_dim(y, (k + 1) % 4 * 2, 2, 1)
        many, _ = lax.scan(lambda c, n: (c * 0.9 + lax.axis_index("i") * n, None), x[0], jnp.arange(100))
        return x[:, 0] * k + own[:, 0], jnp.where(k == 0, x, 0.0), lax.cond(k > 1, jnp.sin, jnp.cos, own), many

    return each(x, y)


def two_axes(x=S, y=S[:4]):
    @on(GRID, (P("a", "b"), P(("b", "a"))), (P("a", None), P(("b", "a")), P(), P("b"), P(("a", "b")), P("b", "a")))
    def each(x, y):
        rows, both = lax.psum(x, "b"), lax.psum(x * y[0, 0], ("a", "b"))
        whole = lax.all_gather(y, ("b", "a"), tiled=True)
        moved = lax.ppermute(y, ("a", "b"), [(0, 1), (1, 3)])
        placed = lax.axis_index(("b", "a")) * y + lax.axis_index("a") + moved
        return rows, y, both, lax.psum(x, "a"), placed, whole[:, :4] * x

    return each(x, y)


def some_axes(x=S):
    """The other axis is left to the compiler."""

    @on(GRID, P("a"), P("a"), axis_names={"a"})
    def each(x):
        return x * lax.psum(jnp.sum(x), "a")

    return each(x)


def unchecked(x=S):
    @on(LINE, P("i"), (P("i"), P(), P()), check_vma=False)
    def each(x):
        groups = [[0, 2], [1, 3]]
        rows = jax.vmap(lambda row: lax.psum(row, ("i", "row")), axis_name="row")(x)
        return lax.psum(jnp.sin(x), "i", axis_index_groups=groups), lax.psum(x, "i"), rows[0]

    return each(x)


def rings(x=S[:, :4], w=S):
    """A product whose one factor goes around."""

    @on(LINE, (P("i"), P(None, "i")), P(None, "i"))
    def each(x, w):
        k = lax.axis_index("i")

        def step(n, carry):
            part, made = carry
            rows = lax.dynamic_update_slice_in_dim(made, part @ w[:4], (k - n) % 4 * 2, 0)
            return lax.ppermute(part, "i", [(j, (j + 1) % 4) for j in range(4)]), rows

        start = lax.pcast(jnp.zeros((8, 2)), "i", to="varying")
        return lax.fori_loop(0, 4, step, (x, start))[1]

    return each(x, w)


def loops(x=S, w=W[0]):
    @on(LINE, (P("i"), P()), (P("i"), P(), P("i")))
    def each(x, w):
        own, _ = lax.scan(lambda c, row: (jnp.tanh(c + row), None), x[0], x)
        total, states = lax.scan(lambda c, row: (c * 0.5 + lax.psum(row, "i"), c), x[0] * 0.0 + w[0], x, reverse=True)
        return own, lax.pmean(total, "i"), states

    return each(x, w)


def nested(x=S, w=W[0, 0]):
    @jax.custom_jvp
    def scaled(x):
        return 2.0 * lax.psum(x, "i")

    scaled.defjvps(lambda t, out, x: 2.0 * lax.psum(t, "i"))

    @on(LINE, (P("i"), P()), P("i"))
    def each(x, w):
        @jax.jit
        def normed(x):
            return x / lax.psum(jnp.sum(x * x), "i") + lax.axis_index("i")

        @jax.checkpoint
        def again(x):
            return jnp.sin(x) * lax.psum(x, "i")

        return again(normed(x)) * w + scaled(x)

    return each(x, w)


def gradient_inside(x=X, w=W):
    @on(LINE, (P("i"), P()), P())
    def step(x, w):
        return w - 0.1 * lax.pmean(jax.grad(lambda v: jnp.sum(jnp.tanh(x @ v)))(lax.pcast(w, "i", to="varying")), "i")

    return step(x, w)


def chained(x=X, w=W):
    """The second one takes the shards of the first one."""
    made = on(LINE, (P("i"), P()), P("i"))(lambda x, w: jnp.tanh(x @ w))(x, w)
    return on(LINE, P("i"), P("i"))(lambda y: y - lax.pmean(jnp.mean(y), "i"))(made)


def split_anew(x=S):
    """The second one takes other shards, and so does the third, of another mesh."""
    made = on(LINE, P("i"), P("i"))(jnp.tanh)(x)
    columns = on(LINE, P(None, "i"), P(None, "i"))(lambda y: y - jnp.sum(y))(made)
    return columns, on(GRID, P(("b", "a")), P(("b", "a")))(lambda y: y * jnp.sum(y))(made)


def repeated(x=X, w=W):
    def step(w, scale):
        return w - scale * jax.grad(lambda v: loss(x, v, Y))(w), jnp.sum(w)

    return lax.scan(step, w, np.array([0.1, 0.2, 0.3]))


def mapped(x=S.reshape(4, 2, 8), w=S[0]):
    each = jax.pmap(lambda x, w: (x - lax.pmean(x, "k"), jnp.sum(x * w)), "k", in_axes=(0, None))
    return each(x, w)


def laid_out(x=X, w=W):
    """Shardings are no part of the values."""
    rows = NamedSharding(LINE, P("i"))

    @partial(jax.jit, in_shardings=(rows, None), out_shardings=rows)
    def each(x, w):
        made = lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(LINE, P(None, "i")))
        return jax.device_put(made, rows) * 2.0

    return each(x, w)


def moved(x=X, w=W):
    first, second = jax.devices()[1:3]
    made = jnp.tanh(jax.device_put(x, first) @ jax.device_put(w, first))
    return jnp.sum(jax.device_put(made, second) ** 2)


if __name__ == "__main__":
    if "--planted" in sys.argv:
        collectives._REDUCED["max"] = collectives._REDUCED["min"]
    write_all(globals(), WITHOUT_GRADIENT)
