"""Pages of the site that are read from the package: the API from its docstrings, the commands from their help."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xbackend as xb
from xbackend import cli

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
    lines = ["API", "===", "", "Every public name, as ``import xbackend as xb`` has it.", ""]
    parts = defaultdict(list)
    for name in xb.__all__:
        value = getattr(xb, name)
        home = getattr(value, "__module__", "")
        if name not in _MODULES and callable(value):
            parts[next(text for start, text in _PARTS.items() if home.startswith(start))].append((f"xb.{name}", value))
    for module, text in _MODULES.items():
        inside = importlib.import_module(f"xbackend.{'api.' if module == 'linalg' else ''}{module}") if module != "fft" else xb.fft
        parts[text] = [(f"xb.{module}.{name}", getattr(inside, name)) for name in _public(inside)]
    for text, members in parts.items():
        lines += [text, "-" * len(text), ""]
        for name, value in members:
            lines += [*_entry(name, value), ""]
    return "\n".join(lines)


def _public(module: Any) -> list[str]:
    own = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith(module.__name__)
    ]
    return sorted(name for name in own if not name.startswith("_") and callable(getattr(module, name)))


def _entry(name: str, value: Any) -> Iterator[str]:
    """The directive of a public name: where it is defined, and shown by its public name."""
    kind = "class" if isinstance(value, type) else "function"
    yield f".. py:{kind}:: {name}{_signature(value)}"
    yield ""
    text = "\n".join(_docstring(value))
    for line in text.splitlines():
        yield f"   {line}".rstrip()


def _docstring(value: Any) -> list[str]:
    import inspect

    from sphinx.ext.napoleon import Config, GoogleDocstring

    plain = inspect.getdoc(value) or ""
    return str(GoogleDocstring(plain, Config(napoleon_use_ivar=True, napoleon_use_rtype=False))).splitlines()


def _signature(value: Any) -> str:
    import inspect

    try:
        return str(inspect.signature(value)).replace("xbackend.api.tracing.array.", "")
    except (TypeError, ValueError):
        return ""


def _commands() -> str:
    lines = ["# Commands and their options", "", "As `--help` prints them. [How commands end](../commands.md) has the exit codes.", ""]
    for command in cli.COMMANDS:
        lines += [f"## {command}", "", "```text", _help(command).rstrip(), "```", ""]
    return "\n".join(lines)


def _help(command: str) -> str:
    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(printed):
            cli.main([command, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return printed.getvalue()
