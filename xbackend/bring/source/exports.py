"""Files of a program: StableHLO's text, a serialized `jax.export`, a SavedModel, ONNX. A process that has the framework
writes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.onnx.file import write as write_onnx
from xbackend.bring.onnx.walk import graph_of
from xbackend.bring.source.callables import to_callable
from xbackend.bring.source.dialect import result_names
from xbackend.errors import UnsupportedOperation, XBackendError
from xbackend.files import refused, whole
from xbackend.program.program import Program
from xbackend.program.structure import flatten


@dataclass(frozen=True)
class Export:
    """A kind of file: the environment that writes it, whether it is text, and the function that writes it.

    A worker of the ``backend`` writes it, or without a backend another process of the environment. ``check`` raises
    `UnsupportedOperation` for ops that the kind lacks."""

    environment: str
    text: bool
    write: Callable[[Program, Path], Any]
    backend: str = ""
    check: Callable[[Program], Any] = lambda program: None


def check(program: Program, kind: str) -> None:
    """Raises `UnsupportedOperation` for a program that names devices, or has ops that the kind lacks."""
    if any(node.device is not None for node in program.nodes):
        raise UnsupportedOperation(
            f"{program.name} names devices, and {kind} has none: leave them out, or write a script, which has them"
        )
    EXPORTS[kind].check(program)


def write(backend: Any, kind: str, program: str, path: str) -> None:
    """Write a program, given as JSON, whole or not at all. Raises what `to_callable` raises, and `StoreError`."""
    made = TracedProgram.from_json(program)
    with refused(f"{path} is not written"), whole(Path(path)) as place:
        EXPORTS[kind].write(made, place)


def main(asked: str) -> None:
    """`write` in a process of its own. ``asked`` is JSON, with the path of the program."""
    told = json.loads(asked)
    try:
        write(None, told["kind"], Path(told["program"]).read_text(), told["path"])
    except XBackendError as error:
        sys.exit(str(error))


def _stablehlo(program: Program, path: Path) -> None:
    """The module that JAX lowers for its kind of device there, without source lines."""
    function, given = _jitted(program)
    path.write_text(function.lower(*given).as_text())


def _jax_export(program: Program, path: Path) -> None:
    """The function, serialized for JAX's kind of device there, without a gradient."""
    from jax import export

    function, given = _jitted(program)
    path.write_bytes(export.export(function)(*given).serialize())


def _jitted(program: Program) -> tuple[Any, list[Any]]:
    """The function, with unused arguments kept, and the shapes and dtypes of its arguments."""
    import jax

    values = (program.values[i] for i in (*program.inputs, *program.shared))
    given = [jax.ShapeDtypeStruct(one.shape, one.dtype.value) for one in values]
    return jax.jit(to_callable(program, "jax"), keep_unused=True), given


def _saved_model(program: Program, path: Path) -> None:
    """One signature, ``serving_default``. Arguments have the inputs' names, and results those of `result_names`."""
    import tensorflow as tf

    function, names = to_callable(program, "tensorflow"), result_names(program, set())

    def serving_default(**inputs: Any) -> dict[str, Any]:
        found, _ = flatten(function(*(inputs[one.name] for one in specs)), lambda one: one)
        return dict(zip(names, found, strict=True))

    values = [program.values[i] for i in program.inputs]
    specs = [tf.TensorSpec(one.shape, one.dtype.value, one.params["name"]) for one in values]
    signature = tf.function(serving_default).get_concrete_function(**{one.name: one for one in specs})
    module = tf.Module()
    module.state = list(signature.variables)
    try:
        tf.saved_model.save(module, str(path), signatures=signature)
    except tf.errors.OpError as error:
        raise OSError(error.message) from None


EXPORTS = {
    "stablehlo": Export("jax", True, _stablehlo, "jax"),
    "jax-export": Export("jax", False, _jax_export, "jax"),
    "savedmodel": Export("tensorflow", False, _saved_model, "tensorflow"),
    "onnx": Export("onnx", False, write_onnx, check=graph_of),
}
