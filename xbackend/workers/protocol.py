"""What goes between xbackend and a worker: JSON, and arrays beside it as dtype, shape and bytes. Nothing is pickled.

A message is one JSON text followed by the bytes of its arrays, in chunks (execnet's length field is a signed 32-bit
number, and a small chunk stays in the processor's cache while it is copied). Lists and tuples stay what they are;
NumPy arrays and numbers come back as such, writable; a float is exact, NaN and infinities included. So do devices and
what is known of an execution.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from xbackend.backends.contract import Settings
from xbackend.backends.placement import Backward, Executed, Execution, Span, Transferred
from xbackend.devices import Device

LIMIT = 600.0  # seconds that a worker may take for one request, where nothing else is said
CHUNK = 1 << 18  # bytes; 64 KiB to 1 MiB were equally fast, 8 MiB slower
_KINDS = "biufc"  # numpy's letters for what has plain bytes


# The dataclasses that come back as such, by name.
_RECORDS = (Device, Settings, Execution, Executed, Transferred, Backward, Span)
RECORDS: dict[str, type] = {kind.__name__: kind for kind in _RECORDS}


class Garbled(Exception):
    """What came is no message, or not the one that was expected."""


class Channel(Protocol):
    """What is used of execnet's channel."""

    def send(self, item: object) -> None: ...

    def receive(self, timeout: float | None = None) -> Any: ...


Reference = Callable[[object], int | None]
Resolve = Callable[[int], object]


def send(channel: Channel, content: object, reference: Reference) -> None:
    """Send plain data; `reference` gives the number of an object that stays where it is, `None` for other objects.

    Raises:
        TypeError: there is something in it that is neither plain data nor has a number; nothing was sent.
    """
    arrays: list[np.ndarray] = []
    plain = _plain(content, arrays, reference)
    message = {"arrays": [[array.dtype.str, list(array.shape)] for array in arrays], "content": plain}
    channel.send(json.dumps(message).encode("utf-8"))
    for array in arrays:
        data = _bytes(array)
        for start in range(0, len(data), CHUNK):
            channel.send(bytes(data[start : start + CHUNK]))


def receive(channel: Channel, resolve: Resolve, remaining: Callable[[], float | None] = lambda: None) -> Any:
    """Receive what `send` sent.

    Args:
        channel: an open channel.
        resolve: the object that a number stands for.
        remaining: the seconds that are left to wait, `None` for no limit.

    Raises:
        Garbled: it is not what `send` sends.
    """
    content, arrays = _read(channel.receive(remaining()))
    for array in arrays:
        data, start = _bytes(array), 0
        while start < len(data):
            chunk = channel.receive(remaining())
            if not isinstance(chunk, bytes) or not 0 < len(chunk) <= len(data) - start:
                raise Garbled(f"{chunk!r:.60} in place of the bytes of an array")
            data[start : start + len(chunk)] = chunk
            start += len(chunk)
    try:
        return _object(content, arrays, resolve)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise Garbled(f"{content!r:.60}") from error


def check_answer(answer: Any, number: int) -> None:
    """See that it is the answer to the request of that number. Raises `Garbled`."""
    if not isinstance(answer, dict) or not (answer.keys() == _RESULT or answer.keys() == _ERROR):
        raise Garbled(f"{answer!r:.60}")
    if answer["number"] != number:
        raise Garbled(f"the answer to request {answer['number']!r:.20} in place of {number}")


_RESULT = {"number", "result"}
_ERROR = {"number", "error", "message", "ours", "out_of_memory", "traceback"}


def _read(data: Any) -> tuple[Any, list[np.ndarray]]:
    """The content of a message, and its arrays without what they hold. Raises `Garbled`."""
    try:
        message = json.loads(data)
        dtypes = [(np.dtype(dtype), shape) for dtype, shape in message["arrays"]]
        if any(dtype.kind not in _KINDS for dtype, _ in dtypes):
            raise ValueError("a dtype that is never sent")
        return message["content"], [np.empty(shape, dtype) for dtype, shape in dtypes]
    except (ValueError, TypeError, LookupError, RecursionError, MemoryError) as error:
        raise Garbled(f"{data!r:.60}") from error


def size(content: object) -> int:
    """Bytes of the arrays in it, to tell a small message from one that fills a pipe."""
    if isinstance(content, np.ndarray):
        return content.nbytes
    if isinstance(content, dict):
        return sum(map(size, content.values()))
    if isinstance(content, str):
        return len(content)
    return sum(map(size, content)) if isinstance(content, list | tuple) else 8


def _bytes(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _plain(item: object, arrays: list[np.ndarray], reference: Reference) -> object:
    """The JSON of an item: numbers, text and lists as they are, all else as an object with one key."""
    if isinstance(item, np.ndarray | np.generic):
        if item.dtype.kind not in _KINDS:
            raise TypeError(f"arrays of dtype {item.dtype} cannot be sent to or from a worker")
        arrays.append(np.ascontiguousarray(item).reshape(item.shape))
        return {"array" if isinstance(item, np.ndarray) else "scalar": len(arrays) - 1}
    if item is None or isinstance(item, bool | str | int | float):
        return item
    if isinstance(item, list):
        return [_plain(part, arrays, reference) for part in item]
    if isinstance(item, tuple):
        return {"tuple": [_plain(part, arrays, reference) for part in item]}
    if isinstance(item, dict):
        return {"dict": [[_plain(k, arrays, reference), _plain(v, arrays, reference)] for k, v in item.items()]}
    if type(item) in RECORDS.values():
        values = [getattr(item, name) for name in type(item).__match_args__]  # type: ignore[attr-defined]
        return {"record": [type(item).__name__, *[_plain(value, arrays, reference) for value in values]]}
    number = reference(item)
    if number is None:
        raise TypeError(f"{type(item).__name__} cannot be sent to or from a worker: {item!r:.200}")
    return {"reference": number}


def _object(item: Any, arrays: list[np.ndarray], resolve: Resolve) -> Any:
    """The opposite of `_plain`."""
    if isinstance(item, list):
        return [_object(part, arrays, resolve) for part in item]
    if not isinstance(item, dict):
        return item
    ((kind, value),) = item.items()
    if kind == "array":
        return arrays[value]
    if kind == "scalar":
        return arrays[value][()]
    if kind == "tuple":
        return tuple(_object(part, arrays, resolve) for part in value)
    if kind == "dict":
        return {_object(k, arrays, resolve): _object(v, arrays, resolve) for k, v in value}
    if kind == "record":
        return RECORDS[value[0]](*[_object(part, arrays, resolve) for part in value[1:]])
    return resolve(value)
