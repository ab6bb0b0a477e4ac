"""Where an operation is asked to be: TensorFlow's text as a device of a program."""

from __future__ import annotations

import re
from typing import Any

from xbackend.devices import canonical
from xbackend.errors import DeviceSpellingError, GraphError

_LOCAL = re.compile(r"^/job:localhost(/replica:\d+)?(/task:\d+)?", re.IGNORECASE)


def device_of(operation: Any) -> str | None:
    """The device that an operation asks for; `None` where it asks for none. Raises `GraphError`."""
    return spelled(operation.device)


def spelled(text: str) -> str | None:
    """A device as a program has it. The job of one process, localhost, is no part of it."""
    rest = _LOCAL.sub("", text or "")
    if not rest:
        return None
    try:
        return canonical(rest)
    except DeviceSpellingError as error:
        raise GraphError(f"tf.device({text!r}) names no device of a program: {error}") from None
