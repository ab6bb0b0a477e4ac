"""``translate``: a function, a workload or a graph that exists as a script of a framework."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xbackend import workloads
from xbackend.bring.source import FRAMEWORKS, to_source
from xbackend.cli import DONE, options
from xbackend.cli.console import say
from xbackend.cli.options import option
from xbackend.cli.users import program
from xbackend.errors import UsageError

_TARGET = Parameter(
    help="a function in a file, or with --from a graph; or a workload, or a program's JSON file",
    metavar="FILE.py:FUNCTION",
    completer=lambda _: workloads.names(),
)
_TO = option(str, "FRAMEWORK", f"whose code is written: {', '.join(FRAMEWORKS)}", lambda _: FRAMEWORKS)
_WRITE = option(Path, "FILE.py", "write it there, with large constants in an .npz beside it, in place of printing it")


def translate(
    target: Annotated[str, _TARGET],
    /,
    *,
    to: Annotated[str, _TO],
    brought: options.From = None,
    inputs: options.Inputs = None,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    python: options.Python = None,
    write: Annotated[Path | None, _WRITE] = None,
) -> int:
    """Print or write a script in the framework's own words, which runs without xbackend."""
    made, _ = program(target, inputs, settings, seed, brought)
    source = to_source(made, to)
    if write is None:
        if source.constants:
            raise UsageError(f"{target} has constants that go beside the script: give --write FILE.py")
        say(source.text.rstrip("\n"))
        return DONE
    if write.exists():
        raise UsageError(f"{write} is there already: give another name, or remove it")
    try:
        written = source.write(write)
    except OSError as error:
        raise UsageError(f"{write} cannot be written: {error}") from error
    say(f"written: {', '.join(map(str, written))}")
    return DONE
