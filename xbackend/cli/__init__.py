"""The command ``xbackend``. Each subcommand is one function here and the work of one other room."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

from xbackend.environments.interpreters import VARIABLE
from xbackend.errors import StoreError, XBackendError

# Exit codes: everything asked for was done; something asked for could not be; the command line or input was wrong;
# stored results could not be read or written. Those of a gate are `xbackend.analysis.gate.Outcome`.
DONE, INCOMPLETE, WRONG, STORE = 0, 1, 2, 12
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0 done, 1 in part, 2 wrong, 12 store error, 130 interrupted."""
    from xbackend.cli.console import say
    from xbackend.cli.parser import parser

    reader = parser()
    # argparse itself cannot hand on options that it does not know, which is what `bench` is for.
    options, rest = reader.parse_known_args(argv)
    options.rest = rest
    if options.rest and not options.passes_on:
        reader.error(f"{options.command} does not take {' '.join(options.rest)}")
    if getattr(options, "python", None):
        os.environ[VARIABLE] = options.python
    module, _, name = options.handler.partition(":")
    try:
        return int(getattr(import_module(f"xbackend.cli.{module}"), name)(options))
    except XBackendError as error:
        say(f"xbackend {options.command}: {error}", error=True)
        return STORE if isinstance(error, StoreError) else WRONG
    except MemoryError as error:  # where a limit of this process is below what the machine has
        say(f"xbackend {options.command}: there is not enough memory: {error}; ask for less", error=True)
        return WRONG
    except KeyboardInterrupt:
        say(f"xbackend {options.command}: interrupted", error=True)
        return _INTERRUPTED
