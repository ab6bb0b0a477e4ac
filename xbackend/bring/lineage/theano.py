"""Changes of Theano in the importer's process, made before the user's script imports it.

Whatever flags the script sets, flags for BLAS are added: without them Theano's import fails beside today's packages.
The contexts in its flags are names without a device (`contexts`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from xbackend.bring.lineage import contexts

# Functions are called once, in Python: C code would take a minute to compile.
_OURS = "blas.ldflags=,cxx="
_HIDDEN = "theano.scan_module.scan_perform_ext"  # it does not compile for Python 3.11; without it loops run in Python
_ASK_FOR_DEVICES = {"device": "cpu", "init_gpu_device": "", "contexts": ""}


def prepare() -> None:
    """Let the next import of Theano have these changes."""
    sys.modules[_HIDDEN] = None  # type: ignore[assignment]
    sys.modules.update(contexts.modules())
    sys.meta_path.insert(0, _TheanoFinder())


class _TheanoFinder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        loader = {"theano": _WithFlags, "theano.gpuarray": _WithoutDevices}.get(name)
        spec = PathFinder.find_spec(name, path) if loader is not None else None
        if loader is not None and spec is not None and spec.origin is not None:
            spec.loader = loader(name, spec.origin)
        return spec


class _WithFlags(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        os.environ["THEANO_FLAGS"] = ",".join(filter(None, (_OURS, os.environ.get("THEANO_FLAGS"))))
        super().exec_module(module)


class _WithoutDevices(SourceFileLoader):
    """Theano's module for contexts, which opens no device."""

    def exec_module(self, module: ModuleType) -> None:
        theano = sys.modules["theano"]
        asked = {}
        for name, none in _ASK_FOR_DEVICES.items():  # they cannot be set after Theano's import
            parameter = getattr(type(theano.config), name)
            asked[name], parameter.val = parameter.val, none
        super().exec_module(module)
        for name, value in asked.items():
            getattr(type(theano.config), name).val = value
        registered = sys.modules["theano.gpuarray.type"]

        def init_dev(dev: str, name: str | None = None, preallocate: Any = None) -> None:
            if name not in registered.list_contexts():
                registered.reg_context(name, contexts.GpuContext(name))

        def use(device: str, *_: Any, move_shared_to_gpu: bool = True, **__: Any) -> None:
            if device:
                init_dev(device)
            if move_shared_to_gpu:
                theano.compile.shared_constructor(module.gpuarray_shared_constructor)

        vars(module).update(init_dev=init_dev, use=use)
        if asked["device"] != "cpu" or asked["init_gpu_device"]:
            init_dev(asked["device"])
        for pair in filter(None, asked["contexts"].split(";")):
            init_dev("", pair.partition("->")[0].strip())
        use("")
