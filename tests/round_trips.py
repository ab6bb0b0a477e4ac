"""Scripts that `to_source` wrote come in again, in the framework's environment: a folder for each, as of
`source_scripts`."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

EXPORTED = "jax-export"


def of_jax(script: Any, name: str, given: list[Any], state: list[Any], updated: bool) -> Any:
    from xbackend.bring.jax.given import from_jax

    return from_jax(getattr(script, name), *given, *state)


def of_exported(script: Any, name: str, given: list[Any], state: list[Any], updated: bool) -> Any:
    """By a file of `jax.export`."""
    import jax

    from xbackend.bring.jax.given import from_jax

    function = jax.jit(getattr(script, name), keep_unused=True)
    specs = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (*given, *state)]
    content = jax.export.export(function)(*specs).serialize()
    return from_jax(jax.export.deserialize(bytearray(content)))


def of_tensorflow(script: Any, name: str, given: list[Any], state: list[Any], updated: bool) -> Any:
    from xbackend.bring.tensorflow.given import from_tensorflow

    return from_tensorflow(getattr(script, name), *given)


def of_pytensor(script: Any, name: str, given: list[Any], state: list[Any], updated: bool) -> Any:
    import pytensor.tensor as pt

    from xbackend.bring.lineage.given import from_graph

    function = getattr(script, name)
    names = inspect.signature(function).parameters
    arguments = [pt.tensor(own, dtype=one.dtype.name, shape=one.shape) for own, one in zip(names, given, strict=True)]
    made, updates = function(*arguments), []
    if updated:
        made, updates = made
    outputs = [pt.as_tensor(one) for one in made] if isinstance(made, list | tuple) else pt.as_tensor(made)
    return from_graph(outputs, dict(zip(arguments, given, strict=True)), updates=dict(updates), name=name)


BRING: Mapping[str, Callable[..., Any]] = {
    **{"jax": of_jax, EXPORTED: of_exported, "tensorflow": of_tensorflow, "pytensor": of_pytensor},
}


def program(framework: str, folder: Path) -> str:
    """The program of the script in a folder, as JSON."""
    if framework == "pytensor":
        import pytensor

        pytensor.config.floatX = "float64"  # a script before may have set another
    spec = importlib.util.spec_from_file_location("script", folder / "script.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with np.load(folder / "inputs.npz") as arrays:
        given, state = ([arrays[n] for n in arrays if n.startswith(kind)] for kind in ("input", "state"))
    name, *updated = (folder / "name").read_text().split()
    text: str = BRING[framework](script, name, given, state, bool(updated)).to_json()
    return text


def main(framework: str, *folders: str) -> None:
    for folder in map(Path, folders):
        try:
            (folder / "program.json").write_text(program(framework, folder))
        except Exception:
            (folder / "error").write_text(traceback.format_exc()[-3000:])


if __name__ == "__main__":
    main(*sys.argv[1:])
