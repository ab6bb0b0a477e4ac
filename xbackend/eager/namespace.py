"""``backend.namespace``: the Array API standard, executed eagerly on a backend.

https://data-apis.org/array-api/2025.12/API_specification/

It has every function of the API (`xbackend.api.functions` and extensions such as `xbackend.api.linalg`) without a
second list, and the functions that only make sense eagerly: arrays from the host, and results whose shapes depend on
values.
"""

from __future__ import annotations

import math
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

from xbackend.api import functions
from xbackend.eager import by_value
from xbackend.eager.array import EagerArray
from xbackend.eager.cache import LIMIT, CacheInfo
from xbackend.eager.compiled import Compiles
from xbackend.eager.exchange import Exchange
from xbackend.eager.indexing import EagerAt, Indexing
from xbackend.eager.info import Info
from xbackend.eager.runner import Runner
from xbackend.errors import ArgumentError
from xbackend.habits import INSTEAD, instead
from xbackend.program.dtypes import DType

# The standard's extensions that the API has.
EXTENSIONS = tuple(name for name in ("linalg", "fft") if find_spec(f"xbackend.api.{name}"))
VERSION = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", VERSION)


class Namespace:
    """The Array API namespace of a backend, as in ``xp = backend.namespace``.

    Each function is compiled once for each set of shapes, dtypes, device and static arguments (axes, shapes, flags).
    Up to ``limit`` ops are cached; the least recently used are evicted. Arrays are `EagerArray`.
    """

    pi = math.pi
    e = math.e
    inf = math.inf
    nan = math.nan
    newaxis = None
    __array_api_version__ = VERSION

    def __init__(self, backend: Compiles, limit: int = LIMIT) -> None:
        self.__name__ = f"xbackend namespace of {backend.name}"
        self._runner = runner = Runner(backend, limit)
        runner.namespace = self
        indexing, exchange = Indexing(runner), Exchange(runner)

        def at(x: EagerArray, /) -> EagerAt:
            """An array to update at a key: ``xp.at(x)[key].set(value)``, ``xp.at(x)[key].add(value)``."""
            if not isinstance(x, EagerArray):
                raise ArgumentError(f"at takes an array of the namespace, not {x!r:.60}; make one with xp.asarray")
            return EagerAt(indexing, x)

        # Later functions replace earlier ones of the same name.
        of_the_api = {name: runner.at_once(name, getattr(functions, name)) for name in functions.NAMES}
        at_once_only = {
            **{name: by_value.on_host(runner, name) for name in by_value.FUNCTIONS},
            "repeat": by_value.repeat(runner, of_the_api["repeat"]),
            **{f.__name__: f for f in (exchange.asarray, exchange.from_dlpack, at)},
        }
        runner.functions |= {**of_the_api, **at_once_only}
        self.__dict__.update(runner.functions)
        self.__dict__.update({dtype.value: dtype for dtype in DType})
        for extension in EXTENSIONS:
            module = import_module(f"xbackend.api.{extension}")
            own = {name: self._of_extension(module, name) for name in module.__all__}
            self.__dict__[extension] = SimpleNamespace(**own)
        runner.functions |= {"__getitem__": indexing.read, "__setitem__": indexing.written}

    def _of_extension(self, module: ModuleType, name: str) -> Any:
        """A function of an extension. One that the API has, too, is the same object."""
        function = getattr(module, name)
        if getattr(functions, name, None) is function:
            return self._runner.functions[name]
        return self._runner.at_once(f"{module.__name__.rpartition('.')[2]}.{name}", function)

    def __array_namespace_info__(self) -> Info:
        """Devices, dtypes and capabilities."""
        return Info(self._runner)

    def check_version(self, api_version: str | None) -> None:
        """Raises `ArgumentError` for an unknown version of the standard."""
        if api_version is not None and api_version not in VERSIONS:
            raise ArgumentError(
                f"version {api_version!r} of the Array API standard is not known; there is {', '.join(VERSIONS)}"
            )

    def cache_info(self) -> CacheInfo:
        """The cache's hits, misses, number of ops and limit."""
        return self._runner.cache.info()

    def cache_clear(self) -> None:
        """Remove all compiled ops."""
        self._runner.forget()

    def __dir__(self) -> list[str]:
        return sorted(name for name in (*self.__dict__, *vars(type(self))) if not name.startswith("_"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        hint = instead(name, dir(self), "xbackend has no such function, constant or dtype; dir(xp) lists it all")
        hint = hint if name in INSTEAD else hint.replace("xb.", "xp.")
        raise AttributeError(f"the namespace of {self._runner.backend.name} has no {name!r}: {hint}")

    def __repr__(self) -> str:
        return f"<Array API namespace {VERSION} of {self._runner.backend!r}>"
