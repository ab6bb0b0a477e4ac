"""Pages of the site that are read from the package: the API from its docstrings, the commands from their help."""

from __future__ import annotations

import contextlib
import inspect
import io
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.inspect import stringify_signature

import xbackend as xb
from xbackend import cli

_STYLE = Config(napoleon_use_rtype=False)

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
# Public modules, and the heading of what is in each.
_MODULES = {
    "linalg": "Linear algebra",
    "fft": "Frequencies",
    "strategies": "Strategies: a function over devices",
    "training": "Training",
    "workloads": "Workloads",
    "errors": "Errors",
}


def write(folder: Path) -> None:
    """Write `api.rst` and `commands.md` into a folder, which is made if it is missing."""
    folder.mkdir(exist_ok=True)
    for name, text in (("api.rst", _api()), ("commands.md", _commands())):
        path = folder / name
        if not path.exists() or path.read_text() != text:  # unchanged pages are not built again
            path.write_text(text)


def _api() -> str:
    parts = defaultdict(list)
    for name in xb.__all__:
        value = getattr(xb, name)
        if name not in _MODULES and callable(value):
            home = next(start for start in _PARTS if value.__module__.startswith(start))
            parts[_PARTS[home]].append((f"xb.{name}", value))
    for name, text in _MODULES.items():
        module = getattr(xb, name)
        parts[text] = [(f"xb.{name}.{member}", getattr(module, member)) for member in _members(module)]
    lines = ["API", "===", "", "Every public name, as ``import xbackend as xb`` has it.", ""]
    for text in dict.fromkeys((*_PARTS.values(), *_MODULES.values())):
        lines += [text, "-" * len(text), ""]
        for name, value in parts[text]:
            lines += [*_entry(name, value), ""]
    return "\n".join(lines)


def _members(module: Any) -> list[str]:
    """The public functions and classes of a module."""
    own = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith(module.__name__)
    ]
    return sorted(name for name in own if not name.startswith("_") and callable(getattr(module, name)))


def _entry(name: str, value: Any) -> list[str]:
    """The entry of a function or a class: its signature and its docstring."""
    try:
        signature = stringify_signature(inspect.signature(value), unqualified_typehints=True)
    except (TypeError, ValueError):  # a class without one
        signature = ""
    kind = "class" if isinstance(value, type) else "function"
    text = str(GoogleDocstring(inspect.getdoc(value) or "", _STYLE))
    return [f".. py:{kind}:: {name}{signature}", "", textwrap.indent(text, "   ")]


def _commands() -> str:
    lines = ["# Commands and their options", "", "As `--help` prints them, and [how they end](../commands.md).", ""]
    for command in cli.COMMANDS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            cli.main([command, "--help"])
        lines += [f"## {command}", "", "```text", printed.getvalue().rstrip(), "```", ""]
    return "\n".join(lines)
