"""What can be brought, each with the environment that has its framework and the module that brings it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xbackend.errors import UsageError
from xbackend.wording import suggested


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of graph. ``module`` has ``brought(found, given, name, generator, **options)``. ``what`` says what NAME
    may be, ``options`` what may be chosen and the defaults; ``flags`` are a variable of its process and the value that
    the user's own is put behind, ``prepared`` is a module whose
    ``prepare()`` is called before the user's file is imported. What the framework writes to disk is a file with one of
    the endings ``files``, or a folder with one of the files ``folders``."""

    name: str
    environment: str
    module: str
    what: str
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, str] = ("", "")
    prepared: str = ""
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


# Without flags for BLAS Aesara is not imported beside today's packages. Functions are called once, in Python: C code
# would take a minute to compile.
_LINEAGE = "a variable, a list of variables, or a compiled function"
REWRITES = ("none", "canonicalize", "stabilize")
_CHOSEN = {"rewrites": "none", "draws": False}
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "pymc",
            "pymc",
            "lineage.pymc",
            "a pm.Model, or a function that returns one (or one and its point)",
            {"rewrites": "stabilize"},
        ),
        Kind("pytensor", "pytensor", "lineage.found", _LINEAGE, _CHOSEN),
        Kind(
            "tensorflow",
            "tensorflow",
            "tensorflow.found",
            "a tf.function, a ConcreteFunction, or what tf.function takes; or it is SAVED_MODEL[:SIGNATURE], or "
            "GRAPH.pb:OUTPUT[,OUTPUT...]",
            prepared="tensorflow.soft",
            files=(".pb", ".pbtxt", ".meta"),
            folders=("saved_model.pb", "saved_model.pbtxt"),
        ),
        Kind("jax", "jax", "jax.found", "a function that jax.make_jaxpr takes", prepared="jax.devices"),
        Kind("aesara", "aesara", "lineage.found", _LINEAGE, _CHOSEN, ("AESARA_FLAGS", "blas__ldflags=,cxx=")),
        Kind("theano", "theano", "lineage.found", _LINEAGE, {"rewrites": "none"}, prepared="lineage.theano"),
    )
}


def kind(name: str) -> Kind:
    """The kind of that name. Raises `UsageError`."""
    if name not in KINDS:
        raise UsageError(f"--from {name}: it is one of {', '.join(KINDS)}{suggested(name, KINDS)}")
    return KINDS[name]
