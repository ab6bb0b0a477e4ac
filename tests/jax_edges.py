"""Edge cases of JAX's functions, for `test_bring_jax_edges`: a program and JAX's results for each. Then one line of
answer for each wrong call of an importer, with 32-bit numbers.

It runs in an environment of JAX.
"""

# ruff: noqa: B008  # the defaults are examples

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bring_helpers import write
from jax import export, lax
from jax_exports import as_text
from jax_graphs import brought

from xbackend.bring.jax import found
from xbackend.bring.jax.given import from_jax

A = np.arange(12.0).reshape(3, 4)
BEYOND = np.array([300.0, -5.0, np.nan, 2.7, -2.7, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, 1e30, -1e30])


def nested_vmap(a=A, k=np.array([[0, 1], [2, 3], [1, 1]])):
    def one(row, k):
        return lax.dynamic_index_in_dim(row, k, keepdims=False)

    return jax.vmap(lambda row, ks: jax.vmap(lambda k: one(row, k))(ks))(a, k)


def casts_beyond(x=BEYOND, y=BEYOND.astype("float32")):
    names = ("int8", "int16", "uint16", "uint8", "int32", "uint32", "int64")
    small = [one.astype(name).astype("int32") for one in (x, y) for name in names[:3]]
    return [*small, *(one.astype(name) for one in (x, y) for name in names[3:])]


def windows_of_bools(m=np.array([True, False, False, True, False])):
    def of(begin, join):
        return lax.reduce_window(m, begin, join, (2,), (1,), "SAME")

    return of(False, lax.max), of(True, lax.min)


def writes_into_nothing(x=np.zeros((0, 3)), i=np.array([0, 2])):
    return [x.at[i].add(1.0), x.at[i].set(2.0, mode="clip"), x.at[i].add(1.0, mode="clip"), x.at[:, i].add(1.0)]


def running_from(x=-np.arange(1.0, 21.0), m=np.array([False, True, True])):
    """From values that are not neutral. Of a function, JAX has no primitive: this is for files."""

    def of(x, begin, join, sides=None):
        n = len(x)
        return lax.reduce_window(x, begin, join, (n,), (1,), (sides or (n - 1, 0),))

    bools = [of(m, True, lax.bitwise_and), of(m, True, lax.bitwise_or), of(m, False, lax.bitwise_or, (0, 2))]
    bools.append(of(m, False, lax.max))
    return [of(x, 0.0, lax.max), of(x, -7.0, lax.min, (0, 19)), *bools, lax.cumlogsumexp(x), lax.cumsum(x)]


def reduced_from(k=np.arange(7, dtype="int32"), x=A[0]):
    def own(a, b):
        return a + b + a * b

    each = [lax.reduce(k, np.int32(5), lax.bitwise_xor, (0,)), lax.reduce(k, np.int32(5), lax.add, (0,))]
    return [*each, lax.reduce(x, 2.0, own, (0,)), lax.reduce_xor(k, (0,))]


def in_one(x):
    return {"loss": jnp.sum(x**2)}


def until(x):
    return lax.while_loop(lambda y: y < 9.0, lambda y: y * 2.0 + 1.0, jnp.sum(x))


def file_of(function: Callable[..., Any], *specs: tuple[Any, str], **options: Any) -> Any:
    return export.export(jax.jit(function), **options)(*(jax.ShapeDtypeStruct(*one) for one in specs))


def det_of_both_widths() -> str:
    with jax.enable_x64(True):
        wide = file_of(jnp.linalg.det, ((3, 3), "float32"))
    ops = [{node.op for node in from_jax(one, np.eye(3, dtype="float32")).nodes} for one in (wide, jnp.linalg.det)]
    return str(["det" in one for one in ops])


def of_lengths(shape: str, *given: int, constraints: Sequence[str] = ()) -> str:
    exported = file_of(jnp.sin, (export.symbolic_shape(shape, constraints=constraints), "float32"))
    return str(from_jax(exported, np.zeros(given, "float32")))


def of_dtype(dtype: str) -> str:
    return str(from_jax(file_of(jnp.sin, ((3,), "float32")), np.zeros(3, dtype)))


def gradient_of(function: Callable[..., Any]) -> str:
    """It sets 64-bit numbers, as the command does: ask last."""
    return str(found.brought(function, [np.ones(3)], "f", np.random.default_rng(0)).gradient)


def of_large_array() -> str:
    large, index = jax.ShapeDtypeStruct((1 << 16, 1 << 16), "uint8"), np.zeros(2, "int32")
    program = from_jax(lambda x, i: (x[i, i], x.at[i, i].set(7)), large, index)
    steps = [str(node.results[0].dtype) for node in program.nodes if node.op == "multiply"]
    return ",".join(steps)


def by_hand(body: str, wide: bool = True) -> str:
    text = f"module {{ func.func public @main(%x: KIND) -> KIND {{ {body} return %y : KIND }} }}"
    text = text.replace("KIND", "tensor<4x3xf64>")
    with jax.enable_x64(wide):
        exported = export.deserialize(bytearray(as_text(text)))
    return ",".join(node.op for node in from_jax(exported).nodes)


def running_sum_from(begin: float) -> str:
    def function(x):
        return lax.reduce_window(x, begin, lax.add, (3,), (1,), ((2, 0),))

    return str(from_jax(file_of(function, ((3,), "float32"))))


SORT = """%k = stablehlo.convert %x : (KIND) -> tensor<4x3xi32> %s = "stablehlo.sort"(%k) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>): %c = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>)
    -> tensor<i1> stablehlo.return %c : tensor<i1> }) : (tensor<4x3xi32>) -> tensor<4x3xi32>
    %y = stablehlo.convert %s : (tensor<4x3xi32>) -> KIND"""
UPPER = """%s = stablehlo.slice %x [0:3, 0:3] : (KIND) -> tensor<3x3xf64>
    %c = stablehlo.cholesky %s : tensor<3x3xf64> %y = stablehlo.negate %x : KIND"""
ASKED: dict[str, Callable[[], str]] = {
    "both widths": det_of_both_widths,
    "two lengths": lambda: of_lengths("n, n", 3, 4),
    "too short": lambda: of_lengths("n", 1, constraints=["n >= 2"]),
    "of float64": lambda: of_dtype("float64"),
    "of int32": lambda: of_dtype("int32"),
    "large": of_large_array,
    "sum from 5": lambda: running_sum_from(5.0),
    "sorted by hand": lambda: by_hand(SORT),
    "upper": lambda: by_hand(UPPER),
    "read with 32 bits": lambda: by_hand("%y = stablehlo.sine %x : KIND", False),
    "dictionary": lambda: gradient_of(in_one),
    "tuple": lambda: gradient_of(lambda x: (jnp.sum(x),)),
    "loop": lambda: gradient_of(until),
}


def answer(call: Callable[[], str]) -> str:
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")


FUNCTIONS = (nested_vmap, casts_beyond, windows_of_bools, writes_into_nothing)
OF_FILES = (*FUNCTIONS, running_from, reduced_from)  # JAX has no primitive of some of them

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for as_file, functions in ((False, FUNCTIONS), (True, OF_FILES)):
        for one in functions:
            write(folder, one.__name__ + "_of_a_file" * as_file, brought(one, False, as_file))
    jax.config.update("jax_enable_x64", False)
    (folder / "answers.txt").write_text("\n".join(f"{name}\t{answer(call)}" for name, call in ASKED.items()))
