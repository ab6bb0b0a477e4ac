"""The side of a worker: hosts one backend and answers requests until it is told to stop.

It imports the standard library, NumPy, and what the hosted backend imports.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from xbackend.backends import registry
from xbackend.backends.contract import Backend, Built, Settings
from xbackend.devices import Device
from xbackend.errors import BackendError, XBackendError
from xbackend.program.serialization import from_json
from xbackend.program.shared import SharedVariable
from xbackend.workers import protocol


class Held:
    """Wraps what is to stay in the worker: the other side gets a reference to it."""

    def __init__(self, content: object) -> None:
        self.content = content


class Host:
    """The operations that can be asked for, one method each."""

    def __init__(self) -> None:
        self.held: dict[int, object] = {}
        self.next = 0
        self._backend: Backend | None = None

    def number(self, item: object) -> int | None:
        """Keep a held object and give it a number."""
        if not isinstance(item, Held):
            return None
        self.next += 1
        self.held[self.next] = item.content
        return self.next

    @property
    def backend(self) -> Backend:
        if self._backend is None:
            raise BackendError("this worker hosts no backend yet: the first request is 'start'")
        return self._backend

    def start(self, name: str, settings: dict[str, Any]) -> dict[str, Any]:
        self._backend = registry.get(name).load(Settings(**settings))
        return {"devices": [str(device) for device in self._backend.devices]}

    def put(self, array: np.ndarray, device: str) -> Held:
        return Held(self.backend.put(array, Device.parse(device)))

    def get(self, value: Any) -> np.ndarray:
        return self.backend.get(value)

    def device_of(self, value: Any) -> str:
        return str(self.backend.device_of(value))

    def synchronize(self, values: Sequence[Any]) -> None:
        self.backend.synchronize(values)

    def build(self, program: str) -> Held:
        return Held(self.backend.build(from_json(program)))

    def execute(self, built: Built, values: Sequence[Any]) -> list[Held]:
        return [Held(value) for value in built.execute(*values)]

    def executed(self, built: Built) -> tuple[dict[int, tuple[Any, ...]], list[Any], list[Any]]:
        found = built.executed()
        ops = {node: _plain(record) for node, record in found.ops.items()}
        return ops, [_plain(t) for t in found.transfers], [_plain(b) for b in found.backward]

    def profile(self, built: Built, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [_plain(span) for span in built.profile(*values)]

    def new_storage(self, uid: str, name: str, array: np.ndarray, device: str) -> Held:
        # Under the same uid as on the other side: the programs that come name their variables by it.
        variable = SharedVariable(array, name, uid=uid)
        self.backend.ensure_storage(variable, Device.parse(device))
        return Held(variable)  # the backend keeps the storage for as long as the variable is held

    def read_storage(self, variable: SharedVariable) -> np.ndarray:
        return self.backend.get_value(variable)

    def write_storage(self, variable: SharedVariable, array: np.ndarray) -> None:
        self.backend.set_value(variable, array)

    def describe(self) -> dict[str, Any]:
        return self.backend.describe()

    def call(self, path: str, arguments: Sequence[Any]) -> Any:
        module, _, name = path.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function(self.backend, *arguments)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()


def serve(requests: int, answers: int) -> NoReturn:
    """Answer requests, one after the other, until 'close' or until the connection ends.

    They come and go by these descriptors; an answer carries the number of its request.
    """
    connection, host, server = protocol.Connection(requests, answers), Host(), os.getpid()
    while True:
        try:
            request = protocol.receive(connection, host.held.__getitem__)
        except EOFError:
            _leave(0)
        for number in request["free"]:
            del host.held[number]
        number = {"number": request["number"]}
        try:
            answer = {**number, "result": getattr(host, request["operation"])(*request["content"])}
            _only(server)
            protocol.send(connection, answer, host.number)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: it is the other side that decides
            _only(server)
            protocol.send(connection, {**number, **_describe(error)}, host.number)
        if request["operation"] == "close":
            _leave(0)
        del request


def _only(server: int) -> None:
    """End a process that a function forked and that came back from it: the other one answers."""
    if os.getpid() != server:
        os._exit(0)


def _plain(record: Any) -> tuple[Any, ...]:
    """A record as plain data: devices as text."""
    values = [getattr(record, f.name) for f in fields(record)]
    return tuple(str(v) if isinstance(v, Device) else v for v in values)


def _describe(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    return {
        "error": type(error).__name__,
        "message": str(error),
        "ours": isinstance(error, XBackendError),
        # NumPy raises the first, TensorFlow and XLA say the second.
        "out_of_memory": isinstance(error, MemoryError)
        or "ResourceExhausted" in type(error).__name__
        or "RESOURCE_EXHAUSTED" in str(error)[:500],
        "traceback": "".join(traceback.format_exception(error)),
    }


def _leave(status: int) -> NoReturn:
    """End without the frameworks' hooks, which at the end of a process are slow and may crash or hang."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
