"""Soft placement in all sessions: a missing device is replaced, so scripts for GPUs run on a machine without them.

The importer's process hooks the import of TensorFlow and leaves the import itself to the user's script, which may set
environment variables before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_SESSIONS = "tensorflow.python.client.session"


def prepare() -> None:
    """Hook the next import of TensorFlow."""
    sys.meta_path.insert(0, _SessionFinder())


class _SessionFinder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == _SESSIONS else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Soft(name, spec.origin)
        return spec


class _Soft(SourceFileLoader):
    """Loads TensorFlow's module for sessions, and sets ``allow_soft_placement`` in each session."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        kind, made = module.config_pb2.ConfigProto, module.BaseSession.__init__

        def init(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
            soft = kind()
            soft.CopyFrom(module.context.context().config if config is None else config)
            soft.allow_soft_placement = True
            made(self, target, graph, soft)

        module.BaseSession.__init__ = init
