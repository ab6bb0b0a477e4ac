"""Messages between xbackend and a worker: JSON, and arrays beside it as dtype, shape and bytes. Nothing is pickled.

A message is a mark and the length of its text, the text as JSON, the bytes of its arrays, and the mark again. So other
output in the pipe is detected, and not taken for an answer. Lists, tuples, devices, the records of an execution, NumPy
arrays (writable) and numbers keep their types. Floats are exact, NaN and infinities included.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xbackend.backends.contract import Settings
from xbackend.backends.lowered import LoweringReport, Part
from xbackend.backends.placement import Backward, Executed, Execution, ProfiledCall, Span, Transferred
from xbackend.devices import Device

LIMIT = 600.0  # seconds that a worker may take for one request, by default
MARK = b"\nxb:"
HEAD = struct.Struct("<4sQ")
_LONGEST = 1 << 32  # bytes of text
_AT_ONCE = 512  # buffers; systems take 1024
_KINDS = "biufc"  # numpy's letters of dtypes with plain bytes


# The dataclasses that keep their type, by name.
_RECORDS = (Device, Settings, Execution, Executed, Transferred, Backward, Span, ProfiledCall, Part, LoweringReport)
RECORDS: dict[str, type] = {kind.__name__: kind for kind in _RECORDS}


class Garbled(Exception):
    """The bytes are no message, or not the expected one."""


NumberOf = Callable[[object], int | None]
Resolve = Callable[[int], object]


class Connection:
    """The descriptors of two pipes, to read from and to write to. ``end`` is the time (`time.monotonic`) to give up,
    `None` for never; for writing it needs a non-blocking pipe."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(reader, select.POLLIN)
        self._writable.register(writer, select.POLLOUT)

    def write(self, *parts: bytes | memoryview, end: float | None = None) -> None:
        """Write all parts. Raises `TimeoutError`, and `OSError` if the reader is gone."""
        rest = [memoryview(part) for part in parts]
        while rest:
            _wait(self._writable, end)
            written = os.writev(self._writer, rest[:_AT_ONCE])
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if rest:
                rest[0] = rest[0][written:]

    def read_into(self, buffer: memoryview, end: float | None = None) -> None:
        """Fill a buffer. Raises `TimeoutError`, and `EOFError` if the writer is gone."""
        while buffer:
            _wait(self._readable, end)
            count = os.readv(self._reader, [buffer])
            if not count:
                raise EOFError("the connection was closed")
            buffer = buffer[count:]

    def read(self, size: int, end: float | None = None) -> bytearray:
        """Read ``size`` bytes. Raises as `read_into` does."""
        data = bytearray(size)
        self.read_into(memoryview(data), end)
        return data


def _wait(poll: select.poll, end: float | None) -> None:
    left = None if end is None else max(0.0, end - time.monotonic()) * 1000
    if not poll.poll(left):
        raise TimeoutError("nothing came, or went, in time")


def encoded(content: object, reference: NumberOf) -> list[bytes | memoryview]:
    """Plain data as a message, for `Connection.write`. ``reference`` gives the number of an object that is not sent,
    `None` for other objects.

    Raises `TypeError` for an object that is neither plain data nor has a number, and what ``reference`` raises.
    """
    arrays: list[np.ndarray] = []
    plain = _plain(content, arrays, reference)
    message = {"arrays": [[array.dtype.str, list(array.shape)] for array in arrays], "content": plain}
    text = json.dumps(message).encode("utf-8")
    return [HEAD.pack(MARK, len(text)) + text, *map(_bytes, arrays), MARK]


def receive(connection: Connection, resolve: Resolve, end: float | None = None) -> Any:
    """Receive a message of `encoded`. ``resolve`` gives the object of a number.

    Raises:
        Garbled: it is no message of `encoded`.
        TimeoutError, EOFError: it did not come; see `Connection`.
    """
    head = connection.read(HEAD.size, end)
    mark, length = HEAD.unpack(head)
    if mark != MARK or length > _LONGEST:
        raise Garbled(f"{bytes(head)!r}")
    content, arrays = _read(connection.read(length, end))
    for array in arrays:
        connection.read_into(_bytes(array), end)
    if connection.read(len(MARK), end) != MARK:
        raise Garbled("something else in place of the bytes of an array")
    try:
        return _object(content, arrays, resolve)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise Garbled(f"{content!r:.60}") from error


def check_answer(answer: Any, number: int) -> None:
    """Raises `Garbled` unless it is the answer to request ``number``."""
    if not isinstance(answer, dict) or not (answer.keys() == _RESULT or answer.keys() == _ERROR):
        raise Garbled(f"{answer!r:.60}")
    if answer["number"] != number:
        raise Garbled(f"the answer to request {answer['number']!r:.20} in place of {number}")


_RESULT = {"number", "result"}
_ERROR = {"number", "error", "message", "ours", "out_of_memory", "of_driver", "accelerated", "traceback"}


def _read(data: Any) -> tuple[Any, list[np.ndarray]]:
    """The content of a message, and its arrays, still unfilled. Raises `Garbled`."""
    try:
        message = json.loads(data)
        dtypes = [(np.dtype(dtype), shape) for dtype, shape in message["arrays"]]
        if any(dtype.kind not in _KINDS for dtype, _ in dtypes):
            raise ValueError("a dtype that is never sent")
        return message["content"], [np.empty(shape, dtype) for dtype, shape in dtypes]
    except (ValueError, TypeError, LookupError, RecursionError, MemoryError) as error:
        raise Garbled(f"{data!r:.60}") from error


def _bytes(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _plain(item: object, arrays: list[np.ndarray], reference: NumberOf) -> object:
    """An item as JSON: numbers, text and lists unchanged, all else as an object with one key."""
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
