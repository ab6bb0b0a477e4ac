"""The public names as the reference lists them: under headings, each with its text and its members."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.backends.contract import Backend, Executable

# The public names by the idea that they belong to: the start of the name of the module of each, and a heading.
_PARTS = {
    "xbackend.api.functions.creation": "Arrays to start with",
    "xbackend.api.functions.elementwise": "Elementwise functions",
    "xbackend.api.functions.reductions": "Reductions",
    "xbackend.api.functions": "Other functions of arrays",
    "xbackend.api.control_flow": "Loops and branches",
    "xbackend.api.tracing": "Tracing, devices, state and gradients",
    "xbackend.program": "Tracing, devices, state and gradients",
    "xbackend.devices": "Tracing, devices, state and gradients",
    "xbackend.bring": "What comes in and what goes out",
    "xbackend": "Running, measuring, workloads and jobs",
}
# What is used, and made by functions only: its members for users. `None` stands for all public ones.
_OPENED: dict[str, tuple[type, tuple[str, ...] | None]] = {
    "Backend": (
        Backend,
        ("compile", "get_value", "set_value", "namespace", "describe", "default_device", "synchronize", "close"),
    ),
    "Executable": (Executable, None),
}
_OPENED_HEADING = "What xb.open and backend.compile return"
# Public modules, and the heading of what is in each.
_MODULES = {
    "linalg": "Linear algebra",
    "fft": "Frequencies",
    "strategies": "Strategies: a function over devices",
    "training": "Training",
    "training.layers": "Layers of models",
    "training.schedules": "Rates that follow a schedule",
    "training.sources": "Data from files and generators",
    "workloads": "Workloads",
    "errors": "Errors",
}
HEADINGS = tuple(dict.fromkeys((*_PARTS.values(), _OPENED_HEADING, *_MODULES.values())))
# Numbers for functions of the table of elementwise ones, of which the first is taken that all results are finite for.
_NUMBERS = ([-1.5, 2.5], [0.25, 0.5], [1.5, 2.5], [-0.5, -0.25], [True, False], [6, 3])


@dataclass(frozen=True)
class Entry:
    """A function or a class, under the name that users write."""

    name: str
    value: Any
    heading: str
    only: tuple[str, ...] | None = None  # of the members

    @cached_property
    def text(self) -> str:
        """Its docstring; of a row in the table of elementwise functions with an example that is computed now."""
        own = inspect.getdoc(self.value) or ""
        if ">>>" in own or "elementwise" not in self.value.__module__:
            return own
        return f"{own}\n\n{_computed(self.value)}"

    @cached_property
    def members(self) -> dict[str, Any]:
        """The methods and properties of a class, as they stand in it, by name. One that a base class in the reference
        has is listed there."""
        if not isinstance(self.value, type) or issubclass(self.value, BaseException):
            return {}
        bases = [base for base in self.value.__mro__[1:] if base in _public_classes()]
        found = {name: item for name, item in vars(self.value).items() if _is_member(name, item)}
        found = {name: item for name, item in found.items() if self.only is None or name in self.only}
        known = {name for base in bases for name in (*vars(base), *inspect.get_annotations(base))}
        return {name: item for name, item in found.items() if name not in known}


def entries() -> Iterator[Entry]:
    """Every public name, in the order of `HEADINGS`."""
    found = [Entry(f"xb.{name}", value, _heading(value)) for name, value in _names()]
    found += [Entry(name, value, _OPENED_HEADING, only) for name, (value, only) in _OPENED.items()]
    for name, heading in _MODULES.items():
        module = _module(name)
        found += [Entry(f"xb.{name}.{one}", getattr(module, one), heading) for one in _in_module(module)]
    return iter(sorted(found, key=lambda entry: HEADINGS.index(entry.heading)))


def module_of(heading: str) -> Any:
    """The public module of a heading, `None` if its names are those of the package itself."""
    return next((_module(name) for name, text in _MODULES.items() if text == heading), None)


def _module(name: str) -> Any:
    return reduce(getattr, name.split("."), xb)


def _names() -> Iterator[tuple[str, Any]]:
    for name in xb.__all__:
        value = getattr(xb, name)
        if name not in _MODULES and callable(value):
            yield name, value


def _heading(value: Any) -> str:
    return next(text for start, text in _PARTS.items() if value.__module__.startswith(start))


def _in_module(module: Any) -> list[str]:
    """The names of the public functions and classes of a module, without those that its parent has, too."""
    own = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith(module.__name__)
    ]
    above = vars(sys.modules[module.__name__.rpartition(".")[0]])
    return sorted(n for n in own if not n.startswith("_") and n not in above and callable(getattr(module, n)))


def _public_classes() -> list[type]:
    modules = [_module(name) for name in _MODULES]
    each = [value for _, value in _names()] + [getattr(one, name) for one in modules for name in _in_module(one)]
    return [value for value in each if isinstance(value, type)]


def _is_member(name: str, item: Any) -> bool:
    kinds = (property, cached_property, classmethod, staticmethod)
    return not name.startswith("_") and (isinstance(item, kinds) or inspect.isfunction(item))


def _computed(function: Callable[..., Any]) -> str:
    """A call of an elementwise function, and what NumPy's backend gives for it."""
    count = len(inspect.signature(function).parameters)
    xp = _namespace()
    for first in _NUMBERS:
        given = [first, first[::-1]][:count]
        try:
            result = getattr(xp, function.__name__)(*map(xp.asarray, given))
        except xb.errors.DTypeError:
            continue
        if np.isfinite(np.asarray(result)).all():
            called = ", ".join(f"xp.asarray({one})" for one in given)
            return f">>> xp.{function.__name__}({called})\n{result!r}"
    raise LookupError(f"none of the numbers of {__file__} are for {function.__name__}")


@cache
def _namespace() -> Any:
    return xb.open("numpy").namespace
