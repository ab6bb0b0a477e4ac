"""Trace an array program once, run it on TensorFlow, JAX and every generation of the Theano lineage.

Public names load on first use: ``import xbackend`` imports neither NumPy nor a framework.
"""

from __future__ import annotations

import sys
from importlib import import_module

from xbackend.version import VERSION as __version__

# Type checkers know this name. Importing typing for it would take most of the time of importing xbackend.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# The module that lists the functions of arrays.
_FUNCTIONS = "xbackend.api.functions"
# Every other public name -> its module, and its name there if that differs.
_HOME = {
    **dict.fromkeys(("trace", "ArraySpec"), "xbackend.api.tracing.trace"),
    "device": "xbackend.api.tracing.scopes",
    **dict.fromkeys(("shared", "update"), "xbackend.api.tracing.state"),
    "SharedVariable": "xbackend.program.shared",
    "grad": "xbackend.api.tracing.gradient",
    "all_reduce": "xbackend.api.functions.collectives",
    **dict.fromkeys(("scan", "while_loop", "cond"), "xbackend.api.control_flow"),
    "Array": "xbackend.api.tracing.array",
    "Program": "xbackend.api.tracing.traced_program:TracedProgram",
    "DType": "xbackend.program.dtypes",
    **dict.fromkeys(("Device", "DeviceMap"), "xbackend.devices"),
    "open": "xbackend.workers.opening",
    **dict.fromkeys(("workload", "Workload"), "xbackend.workloads.workload"),
    **dict.fromkeys(("model", "Model"), "xbackend.training.model"),
    **dict.fromkeys(("job", "Job"), "xbackend.cluster.job"),
    **dict.fromkeys(("from_pytensor", "from_aesara", "from_theano"), "xbackend.bring.lineage.given:from_graph"),
    "from_pymc": "xbackend.bring.lineage.pymc",
    "from_jax": "xbackend.bring.jax.given",
    "to_source": "xbackend.bring.source",
    "to_callable": "xbackend.bring.source.callables",
    **dict.fromkeys(("from_tensorflow", "from_graph_def"), "xbackend.bring.tensorflow.given"),
    **dict.fromkeys(("compare", "load_results"), "xbackend.scripting.comparing"),
    "Compared": "xbackend.scripting.compared",
    "Concluded": "xbackend.scripting.concluded",
    "backend_names": "xbackend.backends.registry",
}
_DTYPES = ("float32", "float64", "int32", "int64", "uint8", "uint32")
_MODULES = {
    "linalg": "xbackend.api.linalg",
    "fft": "xbackend.api.functions.fft",
    "errors": "xbackend.errors",
    "strategies": "xbackend.strategies",
    "training": "xbackend.training",
    "workloads": "xbackend.workloads",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*import_module(_FUNCTIONS).NAMES, *_HOME, *_DTYPES, *_MODULES, "bool", "__version__"]
    if name in _HOME:
        module, _, own_name = _HOME[name].partition(":")
        value = getattr(import_module(module), own_name or name)
    elif name in _DTYPES or name == "bool":
        value = import_module("xbackend.program.dtypes").DType[name]
    elif name in _MODULES:
        value = import_module(_MODULES[name])
        _answers(name, value)
    elif name.startswith("_") or _is_below("xbackend", name):
        return _refuse("xbackend", name)
    elif name in import_module(_FUNCTIONS).NAMES:
        value = getattr(import_module(_FUNCTIONS), name)
    else:
        return _refuse("xbackend", name)
    globals()[name] = value
    return value


def _answers(name: str, module: Any) -> None:
    """Make a public module refuse an unknown name with the one to write."""
    module.__dict__.setdefault("__getattr__", lambda attribute: _refuse(f"xbackend.{name}", attribute))


class _Package(type(sys)):  # type: ignore[misc]
    """This package. The import system sets its modules as attributes, and so each public one gets `_answers`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _MODULES:
            _answers(name, value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def _is_below(module: str, name: str) -> Any:
    """Whether a package has a module of that name, which ``from package import name`` then imports."""
    from os.path import dirname, exists, join

    place = join(dirname(__file__), *module.split(".")[1:], name)
    return exists(place) or exists(f"{place}.py")  # not any(), which may be the function of arrays here


def _refuse(module: str, name: str) -> Any:
    """Raises `AttributeError`, which says what to write in place of the unknown name."""
    said = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_") or _is_below(module, name):
        raise AttributeError(said)
    from xbackend.habits import instead

    listed, own = module.replace("xbackend", "xb"), module.partition(".")[2]
    there = [*__getattr__("__all__")]
    for home in sorted(_MODULES, key=own.__eq__):  # the module's own names come last, which win over others
        names = vars(import_module(_MODULES[home]))
        there += [f"{home}.{one}" for one in names.get("__all__", names) if not one.startswith("_")]
    raise AttributeError(f"{said}: {instead(name, there, f'dir({listed}) lists what there is')}")


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))


if TYPE_CHECKING:
    from xbackend import errors, strategies, training, workloads
    from xbackend.api import linalg
    from xbackend.api.control_flow import cond, scan, while_loop
    from xbackend.api.functions import *  # noqa: F403
    from xbackend.api.functions import fft
    from xbackend.api.functions.collectives import all_reduce
    from xbackend.api.tracing.array import Array
    from xbackend.api.tracing.gradient import grad
    from xbackend.api.tracing.scopes import device
    from xbackend.api.tracing.state import shared, update
    from xbackend.api.tracing.trace import ArraySpec, trace
    from xbackend.api.tracing.traced_program import TracedProgram as Program
    from xbackend.backends.registry import backend_names
    from xbackend.bring.jax.given import from_jax
    from xbackend.bring.lineage.given import from_graph as from_aesara
    from xbackend.bring.lineage.given import from_graph as from_pytensor
    from xbackend.bring.lineage.given import from_graph as from_theano
    from xbackend.bring.lineage.pymc import from_pymc
    from xbackend.bring.source import to_source
    from xbackend.bring.source.callables import to_callable
    from xbackend.bring.tensorflow.given import from_graph_def, from_tensorflow
    from xbackend.cluster.job import Job, job
    from xbackend.devices import Device, DeviceMap
    from xbackend.program.dtypes import DType
    from xbackend.program.shared import SharedVariable
    from xbackend.scripting.compared import Compared
    from xbackend.scripting.comparing import compare, load_results
    from xbackend.scripting.concluded import Concluded
    from xbackend.training.model import Model, model
    from xbackend.workers.opening import open
    from xbackend.workloads.workload import Workload, workload

    float32, float64, int32, int64 = DType.float32, DType.float64, DType.int32, DType.int64
    uint8, uint32 = DType.uint8, DType.uint32
    bool = DType.bool
