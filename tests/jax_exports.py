"""Files of `jax.export`: `test_bring_exported` brings them in, or is told why they do not come in.

It runs in an environment of JAX, writes files to a folder, and prints the answers to those that have no program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jaxlib.mlir.dialects import stablehlo

from xbackend.bring.jax.found import brought
from xbackend.errors import XBackendError

jax.config.update("jax_enable_x64", True)
ROWS, SQUARE = jax.ShapeDtypeStruct((4, 3), "float64"), jax.ShapeDtypeStruct((3, 3), "float64")


def loss(x: Any, w: Any) -> Any:
    carry, each = lax.scan(lambda c, row: (jnp.tanh(c @ w) + row, c.sum()), jnp.zeros(3), x)
    return jnp.sum(carry**2) + each.sum()


def several(x: Any) -> Any:
    return lax.clz(x.astype(int)), lax.clz(x.astype(int) + 1), jnp.fft.fft(x)


def spread(x: Any) -> Any:
    mesh = jax.make_mesh((2,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(lambda one: lax.psum(one, "a"), mesh=mesh, in_specs=jax.P("a"), out_specs=jax.P())(x)


def exported(function: Callable[..., Any], *specs: Any, **options: Any) -> Any:
    return export.export(jax.jit(function), **options)(*specs)


def as_text(text: str) -> bytes:
    """The file of a function of one float64[4, 3] whose module is written by hand."""
    made = stablehlo.serialize_portable_artifact_str(text, stablehlo.get_minimum_version())
    return replace(exported(jnp.sin, ROWS), mlir_module_serialized=made, fun_name="written").serialize()


def of_body(body: str, more: str = "") -> bytes:
    kind = "tensor<4x3xf64>"
    text = "module { func.func public @main(%x: T) -> T { BODY } MORE }"
    return as_text(text.replace("BODY", body).replace("MORE", more).replace("T", kind))


TWICE = "func.func private @fN(%x: T) -> T { %a = call @fM(%x) : (T) -> T %b = call @fM(%a) : (T) -> T return %b : T }"
HANDED = {
    "printing": of_body("%y = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) : (T) -> T return %y : T"),
    "unknown_attribute": of_body("%y = stablehlo.sine %x {accuracy_of_tomorrow = 3 : i64} : T return %y : T"),
    "calling_itself": of_body(
        "%y = call @f(%x) : (T) -> T return %y : T",
        "func.func private @f(%x: T) -> T { %y = call @f(%x) : (T) -> T return %y : T }",
    ),
    "many_calls": of_body(
        "%y = call @f39(%x) : (T) -> T return %y : T",
        " ".join(TWICE.replace("N", str(n)).replace("M", str(n - 1)) for n in range(1, 40))
        + "func.func private @f0(%x: T) -> T { return %x : T }",
    ),
    "large": of_body(
        "%z = stablehlo.constant dense<1.0> : tensor<1000000000000xf64> "
        "%y = stablehlo.slice %z [0:12] : (tensor<1000000000000xf64>) -> tensor<12xf64> "
        "%w = stablehlo.reshape %y : (tensor<12xf64>) -> T return %w : T"
    ),
}


def files() -> dict[str, bytes]:
    plain = bytes(exported(loss, ROWS, SQUARE).serialize())
    symbolic = exported(loss, jax.ShapeDtypeStruct(export.symbolic_shape("n, 3"), "float64"), SQUARE)
    half = len(plain) // 2
    return {
        "loss": plain,
        "with_rule": exported(loss, ROWS, SQUARE).serialize(vjp_order=1),
        "of_symbols": symbolic.serialize(),
        "of_two": exported(jnp.sin, ROWS, platforms=("cuda", "cpu")).serialize(),
        "of_another": exported(loss, ROWS, SQUARE, platforms=("cuda",)).serialize(),
        "several": exported(several, jax.ShapeDtypeStruct((3,), "float64")).serialize(),
        "half": exported(jnp.sin, jax.ShapeDtypeStruct((3,), "float16")).serialize(),
        "spread": exported(spread, ROWS).serialize(),
        **{"cut": plain[:half], "empty": b"", "text": b"no file of jax.export" * 9},
        "changed": bytes([*plain[: half + 50], plain[half + 50] ^ 255, *plain[half + 51 :]]),
        **HANDED,
    }


def answer(path: Path) -> str:
    try:
        return f"no error: {brought(path, [], '', np.random.default_rng(0)).program}"
    except XBackendError as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")


if __name__ == "__main__":
    folder, *asked = sys.argv[1:]
    for name, content in files().items():
        (Path(folder) / f"{name}.jaxexport").write_bytes(content)
        if name in asked:
            print(name, answer(Path(folder) / f"{name}.jaxexport"), sep="\t")
