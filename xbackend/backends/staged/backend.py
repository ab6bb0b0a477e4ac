"""A backend whose programs are graphs that are cut into stages: what it has beside the contract, for `assembly`."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xbackend.backends import threads
from xbackend.backends.contract import Backend, Value
from xbackend.backends.description import Description, versions
from xbackend.backends.threads import Pool
from xbackend.devices import Device
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Node
from xbackend.program.stages import Stage, Variable

Call = Callable[..., Sequence[Value]]


class CompiledStage(NamedTuple):
    """A compiled stage: its innermost callable, and the device of its outputs, the one that the framework says, where
    it knows devices and shapes, else the one that it is to run on."""

    call: Call
    device: Device


class StagedBackend(Backend):
    """A backend whose programs are graphs, cut into stages. Its class has two parts: how a program becomes a graph, and
    the *mode*, what computes a stage and what its values are, which comes first of its bases."""

    packages: tuple[str, ...] = ()  # whose versions are told
    folds: bool = True  # whether what depends on constants only is computed while compiling
    mode_added: ClassVar[tuple[str, ...]] = ()  # as `added`, of the mode
    mutates: ClassVar[bool] = False  # whether a compiled function may overwrite an input that it is allowed to
    refuses: ClassVar[bool] = True  # whether a compiled function may raise an error, by the numbers that it gets
    evidence: ClassVar[str]  # how the device of a stage is known
    unread: str = ""  # why it is not known of a program on the one device that there is
    overlap: ClassVar[str]  # what stages on different devices do at the same time
    # Waits for what a program with updates gives, and raises where it cannot be computed, before they take effect;
    # `None` where the calls do so themselves.
    confirm: Callable[[Sequence[Value]], None] | None = None

    @abc.abstractmethod
    def compile_stage(self, label: str, stage: Stage, mutable: Collection[Variable] = ()) -> CompiledStage:
        """A part of the graph, compiled for its device; inputs that are mutable may be overwritten.

        Raises `UnsupportedOperation`.
        """

    def copied(self, variable: Variable) -> Variable:
        """A variable that is to hold a copy of another one's value, where results may be each other's; else that."""
        return variable

    def behind(self, variable: Variable) -> Variable:
        """What a variable is with other axes, where lowering puts changes of axes together; else the variable."""
        return variable

    @property
    def plain(self) -> bool:
        """Whether a program of one stage can be its innermost callable, with nothing around it."""
        return True

    @abc.abstractmethod
    def mover(self, device: Device) -> Callable[[Value], Value]:
        """What returns a copy of a value on the device, possibly before it is made."""

    def on_device(self, compiled: CompiledStage, count: int) -> Call:
        """The callable of a stage in a program of several, with so many results; it does not wait for them."""
        return compiled.call

    def get(self, value: Value) -> np.ndarray:
        return np.array(value)

    # A compiled function may take and return less than a value: its *content*.

    def content(self, value: Value) -> Any:
        """What a compiled function takes for the value, once that is computed."""
        return value

    def value(self, content: Any, device: Device) -> Value:
        """The value of what a compiled function returned on the device."""
        return content

    def finish(self, contents: Sequence[Any]) -> None:
        """Return when these are computed."""

    def copy(self, content: Any, device: Device) -> Any:
        """A copy of the content on the device, possibly before it is made."""
        return self.mover(device)(content)

    def own_threads(self) -> dict[str, int | None]:
        """Threads of pools that threadpoolctl does not know."""
        return {}

    @abc.abstractmethod
    def products(self) -> Pool:
        """What products of matrices are computed with."""

    def compiler_settings(self) -> dict[str, Any]:
        """The framework's, as in `Description`."""
        return {}

    def describe(self) -> Description:
        return Description(
            versions=versions(*self.packages),
            devices=[str(d) for d in self.devices],
            threads={**{str(pool.file): pool.threads for pool in threads.pools()}, **self.own_threads()},
            blas=[self.products()],
            settings=self.compiler_settings(),
            notes={"stages": self.overlap, "added": "; ".join((*self.added, *self.mode_added)), **self.note_on_cores()},
        )

    def limit_threads(self) -> None:
        """Libraries read these when they are loaded; those of NumPy already are, and are limited by threadpoolctl."""
        if self.settings.threads is not None:
            os.environ.update(threads.environment(self.settings.threads))
            os.environ["NPROC"] = str(self.settings.threads)  # XLA's (tsl/platform/cpu_info)

    def unsupported(self, what: str, node: Node | None, error: Exception) -> Exception:
        """What to raise for an error of the framework while lowering or compiling."""
        if isinstance(error, MemoryError | UnsupportedOperation):
            return error
        where = f" (at {node.source})" if node is not None and node.source else ""
        reason = str(error).strip() or "no reason given"
        return UnsupportedOperation(
            f"backend {self.name} cannot do {what}{where}: {type(error).__name__}: {reason[:2000]}"
        )
