"""The kinds of graphs that ``--from`` names, each with its importer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xbackend.errors import UsageError
from xbackend.wording import suggested


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of graph. Its name is also that of its environment.

    ``module`` has ``brought(found, given, name, generator, **options)``. ``what`` describes NAME. ``options`` are the
    options with their defaults. ``flags`` are an environment variable of its process and a value, put before the
    user's own. ``prepared`` is a module whose ``prepare()`` is called before the user's file is imported. The framework
    writes files with the endings ``files`` (`ANY`: all but Python's) and folders with one of the files ``folders``.
    ``remedies`` are advice, by words of the exception that the user's file raises.
    """

    name: str
    module: str
    what: str
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, str] = ("", "")
    prepared: str = ""
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    remedies: Mapping[str, str] = field(default_factory=dict)


_LINEAGE = "a variable, a list of variables, or a compiled function"
_OF_PYMC = "a pm.Model, or a function that returns one (or one and its point)"
_OF_TENSORFLOW = (
    "a tf.function, a ConcreteFunction, or what tf.function takes; or it is SAVED_MODEL[:SIGNATURE], or "
    "GRAPH.pb:OUTPUT[,OUTPUT...]"
)
_OF_TENSORFLOW_1 = (
    "a script of TensorFlow 1 comes in with two other first lines: import tensorflow.compat.v1 as tf, and "
    "tf.disable_v2_behavior()"
)
_OF_JAX = "a function that jax.make_jaxpr takes; or it is a file that jax.export wrote"
ANY = "*"
REWRITES = ("none", "canonicalize", "stabilize")
_CHOSEN = {"rewrites": "none", "draws": False}
KINDS = {
    kind.name: kind
    for kind in (
        Kind("pymc", "lineage.pymc", _OF_PYMC, {"rewrites": "stabilize"}),
        Kind("pytensor", "lineage.found", _LINEAGE, _CHOSEN),
        Kind(
            *("tensorflow", "tensorflow.found", _OF_TENSORFLOW),
            prepared="tensorflow.soft",
            files=(".pb", ".pbtxt", ".meta"),
            folders=("saved_model.pb", "saved_model.pbtxt"),
            remedies={"module 'tensorflow' has no attribute": _OF_TENSORFLOW_1},
        ),
        Kind("jax", "jax.found", _OF_JAX, prepared="jax.devices", files=(ANY,)),
        # Without flags for BLAS, Aesara's import fails beside today's packages. Functions are called once, in Python: C
        # code would take a minute to compile.
        Kind("aesara", "lineage.found", _LINEAGE, _CHOSEN, ("AESARA_FLAGS", "blas__ldflags=,cxx=")),
        Kind("theano", "lineage.found", _LINEAGE, {"rewrites": "none"}, prepared="lineage.theano"),
    )
}


def kind(name: str) -> Kind:
    """The kind of that name. Raises `UsageError` for an unknown one."""
    if name not in KINDS:
        raise UsageError(f"--from {name}: it is one of {', '.join(KINDS)}{suggested(name, KINDS)}")
    return KINDS[name]


@dataclass(frozen=True, slots=True)
class Target:
    """``PATH:NAME``. The name of a ``stored`` graph, which a framework wrote, may be empty."""

    path: Path
    name: str
    stored: bool

    @property
    def label(self) -> str:
        """A name for reports."""
        return self.name if self.name.isidentifier() else self.path.absolute().stem


def _is_written(path: Path, kind: Kind) -> bool:
    if ANY not in kind.files:
        return path.name.endswith(kind.files)
    is_gone = not path.exists() and bool(re.fullmatch(r"\.\w+", path.suffix))
    return path.suffix != ".py" and (path.is_file() or is_gone)


def target_of(text: str, kind: Kind) -> Target:
    """The parts of a target. Names in a stored graph may have colons, such as ``graph.pb:loss:0``."""
    for cut in [place for place, sign in enumerate(text) if sign == ":"] + [len(text)]:
        path = Path(text[:cut])
        if _is_written(path, kind) or any((path / one).is_file() for one in kind.folders):
            return Target(path, text[cut + 1 :], True)
    path_, _, name = text.rpartition(":")
    return Target(Path(path_), name, False)
