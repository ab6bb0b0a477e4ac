"""The user's own code: called so that what it raises is shown as its own lines, without those of xbackend."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xbackend import errors
from xbackend.errors import UsageError, XBackendError

_OURS = (str(Path(errors.__file__).resolve().parent), "<frozen importlib")
_HEADER = "Traceback (most recent call last):\n"


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn what the user's code raises in the block into a `UsageError` that ends with the user's lines.

    Errors of xbackend name the user's line already and pass, as does Ctrl-C.
    """
    try:
        yield
    except (XBackendError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, and what is derived from none of Python's own errors
        raise UsageError(f"{what} raised {type(error).__name__}:\n{_lines(error)}") from None


def _lines(error: BaseException) -> str:
    """The traceback of an error without xbackend's frames, and without a heading that would look like a crash."""
    found = traceback.TracebackException.from_exception(error)
    _strip(found)
    return "".join(line for line in found.format() if line.strip(" |+") != _HEADER).rstrip()


def _strip(found: traceback.TracebackException | None) -> None:
    if found is None:
        return
    users = [frame for frame in found.stack if not frame.filename.startswith(_OURS)]
    found.stack = traceback.StackSummary.from_list(users)
    for other in (found.__cause__, found.__context__, *(found.exceptions or ())):
        _strip(other)
