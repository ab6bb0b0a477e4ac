"""The functions of which random graphs are drawn, by framework: code with its operands in braces.

A letter is an operand (`OPERANDS`), a word is drawn for the first operand (`CHOSEN`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Drawn:
    """A function.

    Attributes:
        text: its code.
        far: numbers that have to be larger than the margin, code of NumPy: elsewhere the function jumps, or has no
            value.
        kink: the same, where the function has a value everywhere, and elsewhere no gradient that all agree on.
    """

    text: str
    far: str = ""
    kink: str = ""


# What may stand for a letter: kinds of dtypes, the least and the largest rank.
OPERANDS: dict[str, tuple[str, int, int]] = {
    **dict.fromkeys("xyz", ("f", 0, 9)),
    **dict.fromkeys("ij", ("i", 0, 9)),
    **dict.fromkeys("bc", ("b", 0, 9)),
    "a": ("fib", 0, 9),
    "o": ("fi", 0, 9),  # of another dtype than the others, perhaps
    "e": ("fib", 0, 9),  # of the first one's shape and dtype
    "r": ("f", 1, 9),
    "n": ("i", 1, 9),
    "l": ("b", 1, 9),
    "q": ("fib", 1, 9),
    "m": ("f", 2, 9),
    "s": ("f", 2, 9),  # of square matrices
    "v": ("f", 1, 1),
    "w": ("f", 2, 2),
}
_LEADERS = {"y": "x", "z": "x", "j": "i"}  # an operand has the dtype of this one
_BROADCAST = frozenset("xyzijbco")


def fits(letter: str, name: str, chosen: Mapping[str, str], arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether a value may be an operand, beside those that are chosen."""
    kinds, least, largest = OPERANDS[letter]
    array = arrays[name]
    if array.dtype.kind not in kinds or not least <= array.ndim <= largest or array.dtype.name in ("int8", "int16"):
        return False
    if letter == "s":
        return array.shape[-1] == array.shape[-2]
    leader = chosen.get(_LEADERS.get(letter, ""))
    if leader is not None and arrays[leader].dtype != array.dtype:
        return False
    if letter == "e":
        first = arrays[next(iter(chosen.values()))]
        return (first.shape, first.dtype) == (array.shape, array.dtype)
    if letter in _BROADCAST:
        try:
            np.broadcast_shapes(array.shape, *(arrays[n].shape for own, n in chosen.items() if own in _BROADCAST))
        except ValueError:
            return False
    return True


def _key(rng: random.Random, first: np.ndarray) -> str:
    items = []
    for n in first.shape:
        step = rng.choice(["", "", ":2", ":-1", ":-2"])
        start, stop = rng.choice([("", ""), ("1", ""), ("", "-1"), ("-2", ""), ("0", "2")])
        part = f"{start}:{stop}{step}" if "-" not in step else f":{step}"
        items.append(rng.choice([str(rng.randrange(-n, n)), part, part, "None, :"]))
    return ", ".join(items) or "None"


def _shape(rng: random.Random, first: np.ndarray) -> tuple[int, ...]:
    size = first.size
    return rng.choice([(-1,), (size,), (1, size), (size, 1), first.shape[::-1], (*first.shape, 1)])


CHOSEN: dict[str, Callable[[random.Random, np.ndarray], object]] = {
    "axis": lambda rng, first: rng.randrange(-first.ndim, first.ndim),
    "pair": lambda rng, first: tuple(rng.sample(range(first.ndim), 2)) if first.ndim > 1 else (0,),
    "at": lambda rng, first: [rng.randrange(-len(first), len(first)) for _ in range(rng.randint(1, 3))],
    "once": lambda rng, first: rng.sample(range(len(first)), rng.randint(1, len(first))),
    "place": lambda rng, first: rng.randrange(-len(first), len(first)),
    "key": _key,
    "perm": lambda rng, first: tuple(rng.sample(range(first.ndim), first.ndim)),
    "shape": _shape,
    "k": lambda rng, first: rng.randint(-1, 1),
    "u": lambda rng, first: rng.choice([0.37, -0.61, 1.3]),
    "len": lambda rng, first: len(first),
    "last": lambda rng, first: first.shape[-1],
    "flag": lambda rng, first: rng.choice([True, False]),
    "side": lambda rng, first: rng.choice(["'left'", "'right'"]),
}
ZERO, EQUAL = "abs(x)", "abs(x - y)"
WHOLE, HALF = "abs(x - np.round(x))", "abs(x - np.floor(x) - 0.5)"
CLIPPED = "np.minimum(abs(x + 0.5), abs(x - 1.1))"
QUOTIENT = "np.minimum(abs(y) - 0.1, abs(x / y - np.round(x / y)))"


def each(form: str, names: str, far: str = "", kink: str = "") -> list[Drawn]:
    """A function for each of the names, which stand for the empty braces."""
    return [Drawn(form.replace("{}", name), far, kink) for name in names.split()]


JAX = [
    *each("jnp.{}({x})", "sin cos tanh arctan arcsinh square exp expm1 exp2 sinh cosh negative sinc deg2rad positive"),
    *each("jax.nn.{}({x})", "sigmoid softplus silu gelu log_sigmoid soft_sign tanh mish"),
    *each("jax.nn.{}({x})", "relu elu selu celu leaky_relu", kink=ZERO),
    *each("jax.nn.{}({x})", "relu6 hard_tanh", kink="np.minimum(np.minimum(abs(x), abs(x - 6)), abs(abs(x) - 1))"),
    *each("special.{}({x})", "erf erfc expit ndtr log_ndtr"),
    *each("jnp.{}(jnp.square({x}) + 0.5)", "log log2 log10 log1p sqrt reciprocal cbrt"),
    *each("special.{}(jnp.square({x}) + 0.5)", "gammaln digamma entr"),
    *each("lax.{}(jnp.square({x}) + 0.5)", "rsqrt log sqrt lgamma"),
    *each("jnp.{}(0.8 * jnp.tanh({x}))", "arcsin arccos arctanh tan"),
    Drawn("special.erfinv(0.8 * jnp.tanh({x}))"),
    Drawn("jnp.arccosh(jnp.square({x}) + 1.5)"),
    Drawn("special.logit(0.1 + 0.8 * jax.nn.sigmoid({x}))"),
    *each("jnp.{}({x})", "floor ceil trunc", far=WHOLE),
    *each("jnp.{}({x})", "round rint", far=HALF),
    *each("jnp.{}({x})", "sign", far=ZERO),
    *each("jnp.{}({x})", "abs fabs", kink=ZERO),
    *each("{x} {} {y}", "+ - *"),
    *each("{x} {} {o}", "+ - *"),
    *each("{i} {} {o}", "+ - *"),
    *each("{x} {} {u}", "+ - * /"),
    Drawn("{x} / {y}", far="abs(y) - 0.1"),
    Drawn("({u} + {x}) ** 2 - {x} ** 3"),
    *each("jnp.{}({x}, {y})", "maximum minimum fmax fmin", kink=EQUAL),
    *each("jnp.{}({x}, {y})", "logaddexp logaddexp2"),
    Drawn("jnp.hypot({x}, {y})", kink="abs(x) + abs(y)"),
    Drawn("jnp.arctan2({x}, {y})", far="np.maximum(abs(x), y)", kink="abs(x) + abs(y)"),
    Drawn("jnp.power(jnp.square({x}) + 0.5, {y})", far="5.0 - abs(y)"),
    *each("jnp.{}({x}, {y})", "remainder fmod floor_divide", far=QUOTIENT),
    *each("special.{}(jnp.square({x}) + 0.5, jnp.square({y}) + 0.5)", "xlogy xlog1py rel_entr betaln"),
    *each("{x} {} {y}", "< <= > >= == !=", far=EQUAL),
    *each("{i} {} {j}", "< <= > >= == != + - * & | ^"),
    *each("jnp.{}({i}, {j})", "maximum minimum bitwise_and bitwise_or bitwise_xor"),
    *each("{i} {} ({j} % 7 + 2)", "// % ** << >>"),
    *each("jnp.{}({i}, {j} % 7 - 9)", "floor_divide remainder fmod"),
    *each("jnp.{}({i})", "abs sign invert negative square"),
    *each("jnp.{}({b}, {c})", "logical_and logical_or logical_xor maximum minimum"),
    *each("jnp.{}({b})", "logical_not invert"),
    Drawn("lax.div({i}, jnp.full({i}.shape, -3, {i}.dtype))"),
    Drawn("lax.rem({i}, jnp.full({i}.shape, 3, {i}.dtype))"),
    Drawn("lax.integer_pow({x}, 3)"),
    *each("{}", "jnp.clip({x},-0.5,1.1)", kink=CLIPPED),
    Drawn("jnp.clip({i}, -3, 4)"),
    Drawn("{x}.astype('int32')", far=WHOLE),
    Drawn("{x}.astype(bool)", far=ZERO),
    *each("{i}.astype('{}')", "float32 float64 int64 bool uint8"),
    *each("{b}.astype('{}')", "float64 int32"),
    Drawn("jnp.where({b}, {x}, {y})"),
    Drawn("jnp.where({b}, {i}, {j})"),
    Drawn("jnp.where({b}, {x}, 0.5)"),
    Drawn("jnp.select([{b}, {c}], [{x}, {y}], 0.25)"),
    *each("jnp.{}({r}, axis={axis})", "sum mean prod cumsum cumprod"),
    *each("jnp.{}({r}, axis={axis}, keepdims={flag})", "sum mean nansum"),
    *each("jnp.{}({r}, axis={pair})", "sum mean prod"),
    *each("jnp.{}({x})", "sum mean"),
    *each("jnp.{}({r}, axis={axis}, keepdims=True)", "max min ptp", kink="spread(r)"),
    *each("jnp.{}({r}, axis={axis})", "argmax argmin argsort", far="spread(r)"),
    *each("jnp.{}({r}, axis={axis})", "sort median", kink="spread(r)"),
    *each("jnp.{}({r}, axis={axis})", "var std", kink="np.var(r, axis=axis)"),
    Drawn("special.logsumexp({r}, axis={axis})"),
    *each("jax.nn.{}({r}, axis={axis})", "softmax log_softmax standardize", far="np.var(r, axis=axis)"),
    *each("jnp.{}({n}, axis={axis})", "sum prod max min cumsum sort argsort argmax any all mean"),
    *each("jnp.{}({l}, axis={axis})", "any all sum count_nonzero cumsum argmax"),
    *each("lax.{}({r}, axis=0)", "cumsum cumprod cumlogsumexp"),
    *each("lax.{}({r}, axis=0)", "cummax cummin", kink="spread(r)"),
    Drawn("lax.cumsum({r}, axis=0, reverse=True)"),
    Drawn("jnp.linalg.norm({r}, axis={axis})", kink="np.linalg.norm(r, axis=axis)"),
    Drawn("jnp.average({r}, axis=0, weights=jnp.arange(1.0, {len} + 1.0, dtype={r}.dtype))"),
    *each("{}[{key}]", "{q} {r} {r}"),
    Drawn("{q}[jnp.array({at})]"),
    Drawn("{r}[..., jnp.array({at}) % {last}]"),
    Drawn("jnp.take({r}, {i} % {len}, axis=0)"),
    Drawn("jnp.take({r}, {i}, axis=0, mode='clip')"),
    Drawn("jnp.take({r}, {i}, axis=0, mode='wrap')"),
    Drawn("{r}[{i} % {len}, ...]"),
    Drawn("{w}[{i} % {len}, {i} % {last}]"),
    Drawn("{w}[:, {i} % {last}]"),
    Drawn("jnp.take_along_axis({r}, jnp.argsort({e}, axis={axis}), axis={axis})", far="spread(e)"),
    Drawn("{r}.at[{place}].set(0.5)"),
    Drawn("{r}.at[jnp.array({at})].add({r}[jnp.array({at})] * 0.5)"),
    Drawn("{r}.at[jnp.array({once})].set({u} * {e}[jnp.array({once})])"),
    Drawn("{r}.at[{i} % {len}].add(0.25)"),
    Drawn("{w}.at[:, {last} - 1].set({w}[:, 0])"),
    Drawn("lax.dynamic_slice_in_dim({r}, {place}, 1, axis=0)"),
    Drawn("lax.dynamic_index_in_dim({r}, jnp.sum({i}) % {len}, axis=0, keepdims={flag})"),
    Drawn("lax.dynamic_update_slice_in_dim({r}, {e}[:1] * 2.0, {place}, axis=0)"),
    Drawn("jnp.reshape({a}, {shape})"),
    *each("jnp.{}({a})", "ravel atleast_1d transpose squeeze zeros_like ones_like"),
    Drawn("jnp.transpose({q}, {perm})"),
    *each("jnp.{}({q}, axis={axis})", "flip expand_dims"),
    *each("jnp.{}({q}, {k}, axis={axis})", "roll"),
    Drawn("jnp.repeat({q}, 2, axis={axis})"),
    Drawn("jnp.tile({a}, (2, 1))"),
    Drawn("jnp.pad({r}, 1)"),
    Drawn("jnp.pad({r}, 1, mode='edge')"),
    Drawn("jnp.pad({r}, 1, mode='wrap')"),
    Drawn("jnp.diff({r}, axis={axis})"),
    Drawn("jnp.broadcast_to({a}, (2, *{a}.shape))"),
    Drawn("jnp.concatenate([{q}, {e}], axis={axis})"),
    Drawn("jnp.stack([{a}, {e}])"),
    Drawn("jnp.split({r}, [1], axis={axis})[1]"),
    *each("jnp.{}({m}, {k})", "tril triu"),
    *each("jnp.{}({m})", "diagonal trace rot90 fliplr"),
    Drawn("jnp.diag({v}, {k})"),
    Drawn("jnp.searchsorted(jnp.sort({v}), {x}, side={side})", far="spread(v, x)"),
    Drawn("jnp.interp({x}, jnp.arange({x}.ndim + 3.0), jnp.arange({x}.ndim + 3.0) ** 2)", kink=WHOLE),
    *each("{m} @ {}", "jnp.swapaxes({m},-1,-2)"),
    Drawn("jnp.matmul({s}, {e})"),
    Drawn("jnp.dot({v}, {e})"),
    *each("jnp.{}({v}, {v})", "outer kron"),
    Drawn("jnp.outer({n}, {n})"),
    Drawn("jnp.einsum('...ij,...kj->...ik', {m}, {m})"),
    Drawn("jnp.einsum('...ii->...i', {s})"),
    Drawn("jnp.tensordot({w}, {e}, axes=((0,), (0,)))"),
    *each("jnp.linalg.{}(0.3 * jnp.tanh({s}) + jnp.eye({last}, dtype={s}.dtype))", "inv det"),
    Drawn("jnp.linalg.slogdet(0.3 * jnp.tanh({s}) + jnp.eye({last}, dtype={s}.dtype))[1]"),
    Drawn("jnp.linalg.solve(0.3 * jnp.tanh({s}) + jnp.eye({last}, dtype={s}.dtype), {e})"),
    Drawn("jnp.linalg.cholesky({s} @ jnp.swapaxes({s}, -1, -2) + jnp.eye({last}, dtype={s}.dtype))"),
    Drawn("linalg.solve_triangular(0.3 * jnp.tanh({s}) + jnp.eye({last}, dtype={s}.dtype), {e}, lower={flag})"),
    Drawn("lax.scan(lambda c, row: (jnp.tanh(c + jnp.sum(row)), c * row), jnp.zeros((), {r}.dtype), {r})[1]"),
    Drawn("lax.fori_loop(0, 3, lambda k, c: c * 0.5 + jnp.sin(c), {x})"),
    Drawn("lax.cond(jnp.any({b}), jnp.sin, lambda one: one * 2.0, {x})"),
    Drawn("jax.vmap(lambda row: row / (1.0 + jnp.sum(row ** 2)))({r})"),
    Drawn("lax.stop_gradient({x}) * {x}"),
]
TENSORFLOW = [
    *each("tf.{}({x})", "sin cos tanh atan exp square negative sigmoid sinh cosh identity"),
    *each("tf.math.{}({x})", "asinh expm1 erf erfc softplus sigmoid log_sigmoid"),
    *each("tf.nn.{}({x})", "softplus softsign gelu tanh"),
    *each("tf.nn.{}({x})", "relu elu selu leaky_relu", kink=ZERO),
    Drawn("tf.nn.relu6({x})", kink="np.minimum(abs(x), abs(x - 6))"),
    *each("tf.math.{}(tf.square({x}) + 0.5)", "log log1p sqrt rsqrt reciprocal lgamma digamma"),
    *each("tf.math.{}(0.8 * tf.tanh({x}))", "asin acos atanh tan erfinv"),
    Drawn("tf.acosh(tf.square({x}) + 1.5)"),
    *each("tf.{}({x})", "floor", far=WHOLE),
    *each("tf.math.{}({x})", "ceil floor", far=WHOLE),
    *each("tf.math.{}({x})", "rint round", far=HALF),
    *each("tf.{}({x})", "sign", far=ZERO),
    *each("tf.{}({x})", "abs", kink=ZERO),
    *each("{x} {} {y}", "+ - *"),
    *each("{x} {} {u}", "+ - * /"),
    Drawn("{u} - {x} ** 3"),
    Drawn("{x} / {y}", far="abs(y) - 0.1"),
    *each("tf.{}({x}, {y})", "maximum minimum", kink=EQUAL),
    *each("tf.math.{}({x}, {y})", "squared_difference multiply_no_nan"),
    *each("tf.math.{}({x}, tf.square({y}) + 0.5)", "xlogy xlog1py xdivy divide_no_nan"),
    Drawn("tf.math.divide_no_nan({x}, tf.where({b}, {y} * {y} + 0.5, tf.zeros_like({y})))"),
    Drawn("tf.math.xlogy(tf.where({b}, {x}, tf.zeros_like({x})), tf.square({x}) + 0.5)"),
    Drawn("tf.atan2({x}, {y})", far="np.maximum(abs(x), y)", kink="abs(x) + abs(y)"),
    Drawn("tf.pow(tf.square({x}) + 0.5, {y})", far="5.0 - abs(y)"),
    *each("tf.math.{}({x}, {y})", "floormod floordiv", far=QUOTIENT),
    *each("{x} {} {y}", "< <= > >= == !=", far=EQUAL),
    *each("{i} {} {j}", "< <= > >= == != + - *"),
    *each("tf.{}({i}, {j})", "maximum minimum"),
    *each("tf.bitwise.{}({i}, {j})", "bitwise_and bitwise_or bitwise_xor"),
    *each("tf.bitwise.{}({i}, {j} % 7)", "left_shift right_shift"),
    *each("{i} {} ({j} % 7 + 2)", "// %"),
    *each("{i} {} ({j} % 7 - 9)", "// %"),
    *each("tf.truncate{}({i}, {j} % 7 - 9)", "div mod"),
    *each("tf.{}({i})", "abs sign negative square"),
    Drawn("tf.bitwise.invert({i})"),
    *each("tf.{}({b}, {c})", "logical_and logical_or equal not_equal"),
    Drawn("tf.math.logical_xor({b}, {c})"),
    Drawn("tf.logical_not({b})"),
    Drawn("tf.clip_by_value({x}, -0.5, 1.1)", kink=CLIPPED),
    Drawn("tf.clip_by_value({i}, -3, 4)"),
    Drawn("tf.add_n([{x}, {e}, {x}])"),
    Drawn("tf.cast({x}, tf.int32)", far=WHOLE),
    Drawn("tf.cast({x}, tf.bool)", far=ZERO),
    *each("tf.cast({i}, tf.{})", "float32 float64 int64 bool"),
    *each("tf.cast({b}, tf.{})", "float64 int32"),
    *each("tf.where({b}, {}", "{x},{y}) {i},{j}) {x},tf.zeros_like({x}))"),
    *each("tf.reduce_{}({r}, axis={axis})", "sum mean prod"),
    *each("tf.reduce_{}({r}, axis={axis}, keepdims={flag})", "sum mean logsumexp"),
    *each("tf.reduce_{}({r}, axis={pair})", "sum mean prod"),
    *each("tf.reduce_{}({x})", "sum mean"),
    *each("tf.reduce_{}({r}, axis={axis}, keepdims=True)", "max min", kink="spread(r)"),
    *each("tf.{}({r}, axis={axis})", "argmax argmin argsort", far="spread(r)"),
    *each("tf.{}({r}, axis={axis})", "sort", kink="spread(r)"),
    Drawn("tf.sort({r}, axis={axis}, direction='DESCENDING')", kink="spread(r)"),
    *each("tf.math.reduce_{}({r}, axis={axis})", "variance std euclidean_norm", kink="np.var(r, axis=axis)"),
    *each("tf.nn.{}({r}, axis={axis})", "softmax log_softmax"),
    *each("tf.reduce_{}({n}, axis={axis})", "sum prod max min"),
    *each("tf.{}({n}, axis={axis})", "cumsum sort argsort argmax"),
    *each("tf.reduce_{}({l}, axis={axis})", "any all"),
    *each("tf.math.{}({r}, axis={axis}, exclusive={flag})", "cumsum cumprod"),
    *each("tf.math.{}({r}, axis={axis}, reverse={flag})", "cumsum cumprod"),
    Drawn("tf.math.top_k({r}, k=1)[0]", kink="spread(r)"),
    Drawn("tf.linalg.norm({r}, axis={axis})", kink="np.linalg.norm(r, axis=axis)"),
    Drawn("tf.math.segment_sum({r}, tf.range({len}) // 2)"),
    Drawn("tf.math.unsorted_segment_sum({r}, tf.range({len}) % 2, 2)"),
    *each("{}[{key}]", "{q} {r} {r}"),
    Drawn("tf.gather({q}, tf.constant({once}))"),
    Drawn("tf.gather({r}, {i} % {len})"),
    Drawn("tf.gather({r}, tf.constant({at}) % {last}, axis=-1)"),
    Drawn("tf.gather({r}, tf.argsort({e}, axis=-1), axis=-1, batch_dims={r}.ndim - 1)", far="spread(e)"),
    Drawn("tf.gather_nd({w}, tf.stack([{i} % {len}, {i} % {last}], axis=-1))"),
    Drawn("tf.tensor_scatter_nd_update({r}, [[{place} % {len}]], {e}[:1] * 2.0)"),
    Drawn("tf.tensor_scatter_nd_add({r}, [[0], [{len} - 1], [0]], tf.stack([{r}[0], {r}[0], {r}[-1]]))"),
    Drawn("tf.scatter_nd([[0], [2]], tf.stack([{x}, {e}]), [3, *{x}.shape])"),
    Drawn("tf.one_hot({i}, 3, dtype=tf.float64)"),
    Drawn("tf.boolean_mask({r}, np.arange({len}) % 2 == 0)"),
    Drawn("tf.reshape({a}, {shape})"),
    *each("tf.{}({a})", "zeros_like ones_like squeeze identity transpose"),
    Drawn("tf.transpose({q}, {perm})"),
    Drawn("tf.reverse({q}, [{axis}])"),
    Drawn("tf.expand_dims({q}, {axis})"),
    Drawn("tf.roll({q}, {k}, axis={axis})"),
    Drawn("tf.repeat({q}, 2, axis={axis})"),
    Drawn("tf.tile({v}, [2])"),
    Drawn("tf.pad({r}, [[1, 1]] * {r}.ndim, constant_values=0.5)"),
    Drawn("tf.pad({w}, [[1, 0], [0, 1]], mode='SYMMETRIC')"),
    Drawn("tf.broadcast_to({a}, (2, *{a}.shape))"),
    Drawn("tf.concat([{q}, {e}], axis={axis})"),
    Drawn("tf.stack([{a}, {e}], axis=-1)"),
    Drawn("tf.unstack({q}, axis={axis})[-1]"),
    Drawn("tf.split({r}, [1, {len} - 1], axis=0)[1]"),
    *each("tf.linalg.{}({m})", "diag_part trace matrix_transpose adjoint"),
    Drawn("tf.linalg.band_part({m}, 1, 0)"),
    Drawn("tf.linalg.diag({v})"),
    Drawn("tf.searchsorted(tf.sort({v}), tf.reshape({x}, [-1]), side={side})", far="spread(v, x)"),
    Drawn("{m} @ tf.linalg.matrix_transpose({m})"),
    Drawn("tf.matmul({s}, {e}, transpose_a={flag})"),
    Drawn("tf.linalg.matvec({w}, {w}[0])"),
    Drawn("tf.tensordot({v}, {e}, 1)"),
    Drawn("tf.tensordot({w}, {e}, axes=((0,), (0,)))"),
    Drawn("tf.einsum('...ij,...kj->...ik', {m}, {m})"),
    Drawn("tf.einsum('i,j->ij', {v}, {v})"),
    *each("tf.linalg.{}(0.3 * tf.tanh({s}) + tf.eye({last}, dtype={s}.dtype))", "inv det"),
    Drawn("tf.linalg.slogdet(0.3 * tf.tanh({s}) + tf.eye({last}, dtype={s}.dtype))[1]"),
    Drawn("tf.linalg.solve(0.3 * tf.tanh({s}) + tf.eye({last}, dtype={s}.dtype), {e})"),
    Drawn("tf.linalg.cholesky({s} @ tf.linalg.matrix_transpose({s}) + tf.eye({last}, dtype={s}.dtype))"),
    Drawn("tf.scan(lambda c, row: tf.tanh(c + row), {r})"),
    Drawn("tf.map_fn(lambda row: row / (1.0 + tf.reduce_sum(row ** 2)), {r})"),
    Drawn("tf.cond(tf.reduce_any({b}), lambda: tf.sin({x}), lambda: {x} * 2.0)"),
    Drawn("tf.while_loop(lambda k, c: k < 3, lambda k, c: (k + 1, c * 0.5 + tf.sin(c)), (0, {x}))[1]"),
]
PYTENSOR = [
    *each("pt.{}({x})", "sin cos tanh arctan arcsinh sqr exp expm1 exp2 sinh cosh neg sigmoid softplus erf erfc deg2rad"),
    Drawn("pt.erfcx({x})", far="3 + x"),
    *each("pt.{}(pt.sqr({x}) + 0.5)", "log log2 log10 log1p sqrt reciprocal gammaln psi gamma tri_gamma"),
    Drawn("pt.special.factorial(pt.sqr({x}) + 0.5)"),
    *each("pt.{}(0.8 * pt.tanh({x}))", "arcsin arccos arctanh tan erfinv"),
    Drawn("pt.arccosh(pt.sqr({x}) + 1.5)"),
    Drawn("pt.erfcinv(0.1 + 1.8 * pt.sigmoid({x}))"),
    *each("pt.{}(-pt.sqr({x}) - 0.1)", "log1mexp log1pexp"),
    Drawn("pt.special.logit(0.1 + 0.8 * pt.sigmoid({x}))"),
    *each("pt.{}({x})", "floor ceil trunc", far=WHOLE),
    Drawn("pt.round({x})", far=HALF),
    Drawn("pt.round({x}, mode='half_away_from_zero')", far=HALF),
    *each("pt.{}({x})", "sign", far=ZERO),
    *each("pt.{}({x})", "abs", kink=ZERO),
    *each("{x} {} {y}", "+ - *"),
    *each("{x} {} {o}", "+ - *"),
    *each("{i} {} {o}", "+ - *"),
    *each("{x} {} {u}", "+ - * /"),
    Drawn("{x} + {b}"),
    Drawn("{i} * {b} + {c}"),
    Drawn("{i} / 3"),
    Drawn("{x} ** 2 - {x} ** 3"),
    Drawn("{x} / {y}", far="abs(y) - 0.1"),
    *each("pt.{}({x}, {y})", "maximum minimum", kink=EQUAL),
    Drawn("pt.special.logaddexp({x}, {y})", kink=EQUAL),
    Drawn("pt.arctan2({x}, {y})", far="np.maximum(abs(x), y)", kink="abs(x) + abs(y)"),
    Drawn("pt.power(pt.sqr({x}) + 0.5, {y})", far="5.0 - abs(y)"),
    *each("{x} {} {y}", "% //", far=QUOTIENT),
    *each("pt.special.{}(pt.sqr({x}) + 0.5, pt.sqr({y}) + 0.5)", "betaln poch beta"),
    *each("pt.special.{}(pt.sqr({x}) + 0.5, pt.sqr({e}) + 0.5)", "xlogy xlog1py"),
    *each("pt.{}({x}, {y})", "lt le gt ge eq neq", far=EQUAL),
    *each("pt.{}({i}, {j})", "lt le gt ge eq neq maximum minimum and_ or_ xor"),
    *each("{i} {} ({j} % 7 + 2)", "// % **"),
    *each("{i} {} ({j} % 7 - 9)", "// %"),
    *each("pt.{}({i})", "abs sign neg invert sqr"),
    *each("{b} {} {c}", "& | ^ + *"),
    Drawn("~{b}"),
    Drawn("pt.isclose({x}, {y})", far="abs(abs(x - y) - 1e-5)"),
    *each("pt.{}({x})", "isnan isinf"),
    Drawn("pt.clip({x}, -0.5, 1.1)", kink=CLIPPED),
    Drawn("pt.clip({i}, -3, 4)"),
    Drawn("pt.cast({x}, 'int32')", far=WHOLE),
    Drawn("pt.cast({x}, 'int8')", far=WHOLE),
    Drawn("pt.cast({x}, 'bool')", far=ZERO),
    *each("pt.cast({i}, '{}')", "float32 float64 int64 bool int8 int16 uint8"),
    *each("pt.cast({b}, '{}')", "float64 int32"),
    *each("pt.switch({b}, {}", "{x},{y}) {i},{j}) {x},0.5) {i},0.5)"),
    Drawn("pt.second({x}, {u})"),
    *each("pt.{}({r}, axis={axis})", "sum mean prod cumsum cumprod"),
    *each("pt.{}({r}, axis={axis}, keepdims={flag})", "sum mean logsumexp"),
    *each("pt.{}({r}, axis={pair})", "sum mean prod"),
    *each("pt.{}({x})", "sum mean"),
    *each("pt.{}({r}, axis={axis}, keepdims=True)", "max min", kink="spread(r)"),
    *each("pt.{}({r}, axis={axis})", "argmax argmin argsort", far="spread(r)"),
    *each("pt.{}({r}, axis={axis})", "sort median", kink="spread(r)"),
    Drawn("pt.argmax({r}, axis={pair})", far="spread(r)"),
    *each("pt.{}({r}, axis={axis})", "var std ptp", kink="np.var(r, axis=axis) * spread(r)"),
    *each("pt.special.{}({r}, axis={axis})", "softmax log_softmax"),
    *each("pt.{}({n}, axis={axis})", "sum prod max min cumsum sort argsort argmax any all mean"),
    *each("pt.{}({l}, axis={axis})", "any all sum"),
    Drawn("pt.linalg.norm({w}, ord='fro')"),
    *each("{}[{key}]", "{q} {r} {r}"),
    Drawn("{q}[{at}]"),
    Drawn("{r}[..., [{k}, 0]]", far="r.shape[-1] - 1"),
    Drawn("{r}[{i} % {len}]"),
    Drawn("{w}[{i} % {len}, {i} % {last}]"),
    Drawn("{w}[:, {i} % {last}]"),
    Drawn("{w}[[0, -1], {k}:]"),
    Drawn("pt.take_along_axis({r}, pt.argsort({e}, axis={axis}), axis={axis})", far="spread(e)"),
    Drawn("pt.set_subtensor({r}[{place}], 0.5)"),
    Drawn("pt.set_subtensor({r}[{once}], {u} * {e}[{once}])"),
    Drawn("pt.inc_subtensor({r}[{at}], {r}[{at}] * 0.5)"),
    Drawn("pt.inc_subtensor({r}[{i} % {len}], 0.25)"),
    Drawn("pt.set_subtensor({w}[:, -1], {w}[:, 0])"),
    Drawn("pt.inc_subtensor({w}[::-1], 2.0)"),
    Drawn("pt.set_subtensor({r}[{e} > 0.3], 0.25)", far="abs(e - 0.3)"),
    Drawn("{r}[np.arange({len}) % 2 == 0]"),
    Drawn("pt.reshape({a}, {shape})"),
    *each("pt.{}({a})", "flatten squeeze zeros_like ones_like transpose"),
    Drawn("pt.transpose({q}, {perm})"),
    Drawn("pt.flip({q}, axis={axis})"),
    Drawn("pt.expand_dims({q}, {axis})"),
    Drawn("pt.roll({q}, {k}, axis={axis})"),
    Drawn("pt.repeat({q}, 2, axis={axis})"),
    Drawn("pt.tile({v}, 2)"),
    Drawn("pt.tile({w}, (2, 1))"),
    Drawn("pt.pad({r}, 1)"),
    *each("pt.pad({r}, 1, mode='{}')", "edge wrap"),
    Drawn("pt.diff({r}, axis={axis})"),
    Drawn("pt.broadcast_to({v}, (2, {len}))"),
    Drawn("pt.alloc({a}, 2, *{a}.shape)"),
    Drawn("pt.concatenate([{q}, {e}], axis={axis})"),
    Drawn("pt.concatenate([{w}, pt.ones_like({w}, dtype='int32')])"),
    Drawn("pt.stack([{a}, {e}])"),
    Drawn("pt.stack([{x}.sum(), {y}.sum(), 2])"),
    Drawn("pt.split({r}, [1, {len} - 1], n_splits=2)[1]"),
    *each("pt.{}({w}, {k})", "tril triu"),
    *each("pt.{}({m})", "matrix_transpose"),
    *each("pt.{}({w})", "diagonal trace"),
    Drawn("pt.diag({v}, {k})"),
    Drawn("pt.fill_diagonal({w}, 0.5)"),
    Drawn("pt.arange({len}) * {v}"),
    Drawn("pt.searchsorted(pt.sort({v}), {x}, side={side})", far="spread(v, x)"),
    Drawn("{m} @ pt.swapaxes({m}, -1, -2)"),
    Drawn("pt.matmul({s}, {e})"),
    Drawn("pt.dot({v}, {e})"),
    Drawn("pt.dot({w}, {w}[0])"),
    *each("pt.{}({v}, {v})", "outer"),
    Drawn("pt.outer({n}, {n})"),
    Drawn("pt.linalg.kron({w}, {w})"),
    Drawn("pt.tensordot({w}, {e}, axes=((0,), (0,)))"),
    Drawn("pt.einsum('...ij,...kj->...ik', {m}, {m})"),
    *each("pt.linalg.{}(0.3 * pt.tanh({s}) + pt.eye({last}, dtype={s}.dtype))", "inv det"),
    Drawn("pt.linalg.slogdet(0.3 * pt.tanh({s}) + pt.eye({last}, dtype={s}.dtype))[1]"),
    Drawn("pt.linalg.solve({w} @ {w}.T + pt.eye({len}, dtype={w}.dtype), {w}, assume_a='pos')"),
    Drawn("pt.linalg.cholesky({s} @ pt.swapaxes({s}, -1, -2) + pt.eye({last}, dtype={s}.dtype))"),
    Drawn("pt.linalg.solve_triangular(0.3 * pt.tanh({s}) + pt.eye({last}, dtype={s}.dtype), {e}, lower={flag})"),
    Drawn("pytensor.scan(lambda row, c: pt.tanh(c + row), {r}, [pt.zeros_like({r}[0])], return_updates=False)"),
    Drawn("ops.ifelse(pt.any({b}), pt.sin({x}), {x} * 2.0)"),
]
