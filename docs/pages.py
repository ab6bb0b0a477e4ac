"""Pages of the site that are read from the package: the API from its docstrings, the commands from their help, the
fields of what is printed and stored from the schemas; and the example notebook."""

from __future__ import annotations

import contextlib
import inspect
import io
import textwrap
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import cells
import names
import schemas
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.inspect import stringify_signature

from xbackend import cli
from xbackend.cli import output
from xbackend.results import formats

_STYLE = Config(napoleon_use_rtype=False)
_API = """\
API
===

Every public name, as ``import xbackend as xb`` has it. Each example begins after these lines::

{begin}

``xp.sin`` computes at once what ``xb.sin`` traces in a program: `backend.namespace <../namespace.html>`__. A path such
as ``reports/matpow-devices`` is one of the repository.
"""
# What an example may use. The tests execute these lines, too.
BEGIN = """\
import numpy as np
import xbackend as xb

backend = xb.open("numpy", virtual_devices=2)
xp = backend.namespace
"""
_OUTPUT = """\
Every command prints this with `--json`: [output.schema.json](../output.schema.json) is the JSON Schema, `command` tells
the kinds apart. Times are seconds; null is what was not measured or cannot be said.
"""
_NOTEBOOK = """\
This is a notebook, [compare.ipynb](../../examples/compare.ipynb), with what its cells showed when it was executed. Its
figures are of two cores with other work beside them.
"""
_STORED = """\
The data of a run, of a training and of a job on a cluster: [stored.schema.json](../stored.schema.json) is the JSON
Schema, `format` tells the kinds apart. A report has its file beside it, `results.json.gz`, `training.json.gz` or
`cluster.json.gz`: JSON, packed by gzip. `xb.load_results(path)` reads them. Times are seconds. `checksum` is the
SHA-256 (hexadecimal) of the rest, as JSON without white space and with sorted keys. What does not fit the schema is
damaged, and `version` has another number when fields change or go.
"""


def write(folder: Path) -> None:
    """Write the pages into a folder, which is made if it is missing."""
    folder.mkdir(exist_ok=True)
    pages = {
        "api.rst": _api(),
        "commands.md": _commands(),
        "output.md": schemas.page("What `--json` prints", _OUTPUT, output.schema()),
        "notebook.md": cells.page(Path(__file__).parent.parent / "examples" / "compare.ipynb", _NOTEBOOK),
        "stored.md": schemas.page("What is stored", _STORED, formats.schema()),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:  # unchanged pages are not built again
            path.write_text(text)


def _api() -> str:
    lines = [_API.format(begin=textwrap.indent(BEGIN.rstrip(), "   "))]
    for heading, found in groupby(names.entries(), key=lambda entry: entry.heading):
        lines += [heading, "-" * len(heading), ""]
        module = names.module_of(heading)
        lines += [] if module is None else [_text(inspect.getdoc(module) or ""), ""]
        for entry in found:
            lines += [*_entry(entry), ""]
    return "\n".join(lines)


def _entry(entry: names.Entry) -> Iterator[str]:
    """The signature, the docstring and the members of a function or a class."""
    kind = "class" if isinstance(entry.value, type) else "function"
    yield from [f".. py:{kind}:: {entry.name}{_signature(entry.value)}", "", textwrap.indent(_text(entry.text), "   ")]
    for name, item in entry.members.items():
        function = item if inspect.isfunction(item) else getattr(item, "__func__", None)
        if isinstance(item, property | cached_property):
            yield f"   .. py:attribute:: {name}"
        else:
            own = _signature(function) if isinstance(item, staticmethod) else _signature(function, without_first=True)
            yield f"   .. py:method:: {name}{own}"
        if isinstance(item, classmethod | staticmethod):
            yield f"      :{type(item).__name__}:"
        yield from ["", textwrap.indent(_text(inspect.getdoc(item) or ""), "      "), ""]


def _signature(value: Any, without_first: bool = False) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):  # a class without one
        return ""
    if without_first:
        found = found.replace(parameters=[*found.parameters.values()][1:])
    return stringify_signature(found, unqualified_typehints=True)


def _text(docstring: str) -> str:
    return str(GoogleDocstring(docstring, _STYLE))


def _commands() -> str:
    lines = ["# Commands and their options", "", "As `--help` prints them, and [how they end](../commands.md).", ""]
    for command in cli.COMMANDS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            cli.main([command, "--help"])
        lines += [f"## {command}", "", "```text", printed.getvalue().rstrip(), "```", ""]
    return "\n".join(lines)
