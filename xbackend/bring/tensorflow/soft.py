"""What the importer's process changes of TensorFlow before a script of the user imports it.

A session has another device in the place of one that is not there, so that scripts for GPUs run on a machine without.
TensorFlow itself is not imported before the script is, which may set variables that it reads.
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
    """Change what the next import of TensorFlow is."""
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == _SESSIONS else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Soft(name, spec.origin)
        return spec


class _Soft(SourceFileLoader):
    """TensorFlow's module for sessions, with ``allow_soft_placement`` in each."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        kind, made = module.config_pb2.ConfigProto, module.BaseSession.__init__

        def init(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
            soft = kind()
            soft.CopyFrom(module.context.context().config if config is None else config)
            soft.allow_soft_placement = True
            made(self, target, graph, soft)

        module.BaseSession.__init__ = init
