"""``--install-completion`` and ``--show-completion``: commands, options and names completed by a shell.

The script knows commands and options; for names (backends, environments, workloads, runs, reports) it calls xbackend.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from cyclopts.completion.detect import ShellDetectionError

from xbackend.cli import application
from xbackend.cli.console import say
from xbackend.errors import UsageError

Shell = Literal["bash", "zsh", "fish"] | None


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except ShellDetectionError:
        raise UsageError("the shell that this runs in is not known: name it, bash, zsh or fish") from None
    except OSError as error:
        raise UsageError(f"the script cannot be written to {error.filename}: {error.strerror or error}") from None


def install(shell: Shell = None) -> None:
    """Write the script where the shell (by default the current one) finds it, and have it loaded from now on."""
    with _known():
        path = application().install_completion(shell=shell)
    say(f"the script is {path}; a new shell uses it")


def show(shell: Shell = None) -> None:
    """Print the script for the shell, by default the current one."""
    with _known():
        print(application().generate_completion(shell=shell))
