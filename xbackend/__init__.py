"""Trace an array program once, run it on TensorFlow and on every generation of the Theano lineage.

Everything public is here; it is loaded when it is first used, so that ``import xbackend`` imports neither NumPy nor a
framework.
"""

from __future__ import annotations

from importlib import import_module

# As type checkers understand it. To import typing for it would take most of the time that importing xbackend takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# The functions of arrays are those that this module lists.
_FUNCTIONS = "xbackend.api.functions"
# Every other public name -> the module it lives in, and its name there if it has another.
_HOME = {
    **dict.fromkeys(("trace", "ArraySpec"), "xbackend.api.trace"),
    "device": "xbackend.api.scopes",
    **dict.fromkeys(("shared", "update"), "xbackend.api.state"),
    "SharedVariable": "xbackend.program.shared",
    "grad": "xbackend.api.gradient",
    "all_reduce": "xbackend.api.collectives",
    **dict.fromkeys(("scan", "while_loop", "cond"), "xbackend.api.control_flow"),
    "Array": "xbackend.api.array",
    "Program": "xbackend.api.traced_program:TracedProgram",
    "DType": "xbackend.program.dtypes",
    **dict.fromkeys(("Device", "DeviceMap"), "xbackend.devices"),
    "open": "xbackend.workers.opening",
    **dict.fromkeys(("workload", "Workload"), "xbackend.workloads.workload"),
    **dict.fromkeys(("model", "Model"), "xbackend.training.model"),
    **dict.fromkeys(("job", "Job"), "xbackend.cluster.job"),
    "backend_names": "xbackend.backends.registry",
}
_DTYPES = ("float32", "float64", "int32", "int64", "uint8", "uint32")
_MODULES = {
    "linalg": "xbackend.api.linalg",
    "fft": "xbackend.api.fft",
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
        value.__dict__.setdefault("__getattr__", lambda attribute: _refuse(f"xbackend.{name}", attribute))
    elif name.startswith("_") or _is_below(name):
        raise AttributeError(f"module 'xbackend' has no attribute {name!r}")
    elif name in import_module(_FUNCTIONS).NAMES:
        value = getattr(import_module(_FUNCTIONS), name)
    else:
        return _refuse("xbackend", name)
    globals()[name] = value
    return value


def _is_below(name: str) -> Any:
    """Whether a module of that name is here: ``from xbackend import name`` imports it when it is no attribute."""
    from os.path import exists, join

    place = join(globals()["__path__"][0], name)
    return exists(place) or exists(f"{place}.py")  # without any(), which may be the function of arrays here


def _refuse(module: str, name: str) -> Any:
    """Raises `AttributeError`, with what to write in place of a name that the module does not have."""
    said = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(said)
    from xbackend.habits import instead

    inside = (f"{home}.{own}" for home in _MODULES for own in getattr(import_module(_MODULES[home]), "__all__", ()))
    listed = module.replace("xbackend", "xb")
    raise AttributeError(
        f"{said}: {instead(name, [*inside, *__getattr__('__all__')], f'dir({listed}) lists what there is')}"
    )


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))


if TYPE_CHECKING:
    from xbackend import errors, strategies, training, workloads
    from xbackend.api import fft, linalg
    from xbackend.api.array import Array
    from xbackend.api.collectives import all_reduce
    from xbackend.api.control_flow import cond, scan, while_loop
    from xbackend.api.functions import *  # noqa: F403
    from xbackend.api.gradient import grad
    from xbackend.api.scopes import device
    from xbackend.api.state import shared, update
    from xbackend.api.trace import ArraySpec, trace
    from xbackend.api.traced_program import TracedProgram as Program
    from xbackend.backends.registry import backend_names
    from xbackend.cluster.job import Job, job
    from xbackend.devices import Device, DeviceMap
    from xbackend.program.dtypes import DType
    from xbackend.program.shared import SharedVariable
    from xbackend.training.model import Model, model
    from xbackend.workers.opening import open
    from xbackend.workloads.workload import Workload, workload

    float32, float64, int32, int64 = DType.float32, DType.float64, DType.int32, DType.int64
    uint8, uint32 = DType.uint8, DType.uint32
    bool = DType.bool
