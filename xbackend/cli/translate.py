"""``translate``: a function, a workload or a graph that exists as a script or a file of a framework."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xbackend import workloads
from xbackend.bring.source import FRAMEWORKS, to_source
from xbackend.bring.source.exports import EXPORTS, check
from xbackend.cli import DONE, graphs, options, output
from xbackend.cli.console import progress, say
from xbackend.cli.options import option
from xbackend.cli.output import Output
from xbackend.cli.users import program
from xbackend.devices import DeviceMap
from xbackend.errors import UsageError
from xbackend.measure import matrix
from xbackend.program.binding import renamed
from xbackend.program.program import Program
from xbackend.program.serialization import to_json
from xbackend.wording import suggested
from xbackend.workers import once

_TARGET = Parameter(
    help="a function in a file, or with --from a graph; or a workload, or a program's JSON file",
    metavar="FILE.py:FUNCTION",
    completer=lambda _: workloads.names(),
)
_FORMS = (*FRAMEWORKS, *EXPORTS)
_WRITER = "xbackend.bring.source.exports"
_TO = option(
    str,
    "FORM",
    f"a script in the words of {', '.join(FRAMEWORKS)}; or a file for a framework: {', '.join(EXPORTS)}",
    lambda _: _FORMS,
)
_WRITE = option(
    Path,
    "PATH",
    "write it there, in place of printing it: a script with large constants in an .npz beside it, a SavedModel "
    "as a folder",
)


def translate(
    target: Annotated[str, _TARGET],
    /,
    *,
    to: Annotated[str, _TO],
    inputs: options.Inputs = None,
    graph: graphs.GraphChoice = graphs.NONE,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    devices_map: options.DevicesMap = None,
    write: Annotated[Path | None, _WRITE] = None,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Print or write a script in a framework's own words, which runs without xbackend, or a file that it loads."""
    if to not in _FORMS:
        raise UsageError(f"--to {to}: it is one of {', '.join(_FORMS)}{suggested(to, _FORMS)}")
    if write is not None and write.exists():
        raise UsageError(f"{write} is there already: give another name, or remove it")
    if write is not None and not write.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {write.parent}: make it, or give another one")
    if write is None and to in EXPORTS and not EXPORTS[to].text:
        raise UsageError(f"{to} is no text: give --write PATH")
    made, _ = program(target, inputs, settings, seed, graph)
    made = renamed(made, devices_map or DeviceMap())
    try:
        written, text = _exported(made, to, write) if to in EXPORTS else _script(target, made, to, write)
    except OSError as error:
        raise UsageError(f"{write} cannot be written: {error}") from error
    files = [*map(str, written)]
    say(f"written: {', '.join(files)}" if files else text)
    return output.Translate(exit_code=DONE, answer=repr(made), text=text, files=files)


def _script(target: str, made: Program, to: str, write: Path | None) -> tuple[list[Path], str]:
    """The paths that were written, or the text to print."""
    source = to_source(made, to)
    if write is not None:
        return source.write(write), ""
    if source.constants:
        raise UsageError(f"{target} has constants that go beside the script: give --write FILE.py")
    return [], source.text.rstrip("\n")


def _exported(made: Program, to: str, write: Path | None) -> tuple[list[Path], str]:
    """As `_script`, by a process that has the framework."""
    check(made, to)
    with progress() as shown, tempfile.TemporaryDirectory(prefix="xbackend-export-") as folder:
        path = Path(folder) / "text" if write is None else write.absolute()
        if name := EXPORTS[to].backend:
            chosen = matrix.runs([name])
            failures = matrix.ready(chosen, shown)
            shown(f"writing {to} by {name}")
            with matrix.opened(chosen[0], failures) as backend:
                backend.call(f"{_WRITER}:write", to, to_json(made), str(path))
        else:
            python = once.made(EXPORTS[to].environment, shown)
            stored = Path(folder) / "program.json"
            stored.write_text(to_json(made))
            shown(f"writing {to} by {python}")
            once.run(python, _WRITER, {"kind": to, "program": str(stored), "path": str(path)})
        text = path.read_text() if write is None else ""
    return [] if write is None else [write], text.rstrip("\n")
