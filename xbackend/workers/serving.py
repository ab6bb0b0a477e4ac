"""The worker's side: host one backend, and answer requests until told to stop.

It imports the standard library, NumPy, and the imports of the hosted backend.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from xbackend.backends import registry
from xbackend.backends.contract import Backend, Built, Settings
from xbackend.backends.lowered import LoweringReport
from xbackend.backends.placement import Execution, ProfiledCall
from xbackend.devices import Device
from xbackend.errors import BackendError, XBackendError
from xbackend.program.serialization import from_json
from xbackend.program.shared import SharedVariable
from xbackend.workers import protocol

_WAITING = ("get", "get_all", "device_of", "synchronize")
OF_THE_BACKEND = (*_WAITING, "get_value", "set_value", "compilations", "memory_peaks")  # the backend's own methods
COMPUTING = (*_WAITING, "execute", "profile")  # compute, or wait for a computation


class Held:
    """Wraps an object that stays in the worker. The other side gets a reference."""

    def __init__(self, content: object) -> None:
        self.content = content


class Host:
    """The other operations, one method each."""

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

    def start(self, name: str, settings: Settings, joined: dict[str, Any] | None = None) -> list[Device]:
        """``joined`` has an engine's arguments. It joins this process with others before the framework starts."""
        engine = None
        if joined is not None:
            module, _, cls = joined["engine"].partition(":")
            engine = getattr(import_module(module), cls)(joined, settings)
        self._backend = registry.get(name).load(settings)
        if engine is not None:
            self._backend.engine = engine
            engine.started(self._backend)
        return list(self._backend.devices)

    def put(self, array: np.ndarray, device: Device) -> Held:
        return Held(self.backend.put(array, device))

    def put_all(self, arrays: Sequence[np.ndarray], devices: Sequence[Device]) -> list[Held]:
        return [Held(value) for value in self.backend.put_all(arrays, devices)]

    def build(self, program: str) -> Held:
        return Held(self.backend.build(from_json(program)))

    def execute(self, built: Built, values: Sequence[Any]) -> list[Held]:
        return [Held(value) for value in built.execute(*values)]

    def executed(self, built: Built, values: Sequence[Any]) -> Execution:
        return built.executed()

    def profile(self, built: Built, values: Sequence[Any]) -> ProfiledCall:
        return built.profile(*values)

    def lowered(self, built: Built, values: Sequence[Any]) -> LoweringReport:
        return built.lowered()

    def new_storage(self, uid: str, name: str, array: np.ndarray, device: Device) -> Held:
        # With the other side's uid: programs name their variables by it.
        variable = SharedVariable(array, name, uid=uid)
        self.backend.ensure_storage(variable, device)
        return Held(variable)  # the backend keeps the storage for as long as the variable is held

    def describe(self) -> dict[str, Any]:
        return asdict(self.backend.describe())

    def call(self, path: str, arguments: Sequence[Any]) -> Any:
        module, _, name = path.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function(self.backend, *arguments)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    def described(self, error: BaseException, operation: str) -> dict[str, Any]:
        """The error of an operation as plain data. If a program refuses its numbers, any operation that waits for its
        results may raise that."""
        backend = self._backend
        trace = "".join(traceback.format_exception(error))
        if backend is not None and operation in COMPUTING:
            error = backend.refused(error)
        return {
            "error": type(error).__name__,
            "message": str(error),
            "ours": isinstance(error, XBackendError),
            "out_of_memory": isinstance(error, MemoryError) if backend is None else backend.is_out_of_memory(error),
            "of_driver": backend is not None and backend.is_of_driver(error),
            "accelerated": backend is not None and any(device.is_accelerator for device in backend.devices),
            "traceback": trace,
        }


def serve(requests: int, answers: int) -> NoReturn:
    """Answer requests, one after the other, until 'close' or until the connection ends.

    ``requests`` and ``answers`` are descriptors. An answer has the number of its request.
    """
    connection, host, server = protocol.Connection(requests, answers), Host(), os.getpid()
    while True:
        try:
            request = protocol.receive(connection, host.held.__getitem__)
        except EOFError:
            _leave(0)
        for number in request["free"]:
            del host.held[number]
        operation, number = request["operation"], {"number": request["number"]}
        try:
            asked = host.backend if operation in OF_THE_BACKEND else host
            made = {**number, "result": getattr(asked, operation)(*request["content"])}
            _only(server)
            answer = protocol.encoded(made, host.number)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the other side decides
            _only(server)
            answer = protocol.encoded({**number, **host.described(error, operation)}, host.number)
        connection.write(*answer)
        if operation == "close":
            _leave(0)
        del request, answer


def _only(server: int) -> None:
    """End a process that a called function forked and let return or raise: the original process answers."""
    if os.getpid() != server:
        os._exit(0)


def _leave(status: int) -> NoReturn:
    """End without the frameworks' exit hooks, which are slow and may crash or hang."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
