"""A backend whose programs are graphs cut into stages: the contract with `assembly`."""

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

StageCall = Callable[..., Sequence[Value]]


class CompiledStage(NamedTuple):
    """The innermost callable of a stage, and its device: as the framework says, or as asked until it does."""

    call: StageCall
    device: Device


class StagedBackend(Backend):
    """A backend that cuts graphs into stages. The *mode*, the first of its base classes, compiles them."""

    packages: tuple[str, ...] = ()  # packages to report versions of
    folds: bool = True  # whether constants are folded while compiling
    mode_added: ClassVar[tuple[str, ...]] = ()  # the mode's part of `added`
    mutates: ClassVar[bool] = False  # whether a compiled function may overwrite mutable inputs
    refuses: ClassVar[bool] = True  # whether a compiled function may raise an error for some numbers
    evidence: ClassVar[str]  # how the device of a stage is known
    plain: bool = True  # whether a program of one stage can be executed by its innermost callable alone
    unread: str = ""  # why the device of a one-device program is unknown
    overlap: ClassVar[str]  # whether and why stages on different devices overlap
    # Before updates take effect, waits for all results and raises if one cannot be computed; `None` if calls do so.
    confirm: Callable[[Sequence[Value]], None] | None = None

    @abc.abstractmethod
    def compile_stage(self, label: str, stage: Stage, mutable: Collection[Variable] = ()) -> CompiledStage:
        """Compile a stage for its device; it may overwrite ``mutable`` inputs. Raises `UnsupportedOperation`."""

    def compile_stages(self, labels: Sequence[str], stages: Sequence[Stage]) -> list[CompiledStage]:
        """Compile the stages of a program on several devices. Raises `UnsupportedOperation`."""
        return [self.compile_stage(label, stage) for label, stage in zip(labels, stages, strict=True)]

    def copied(self, variable: Variable) -> Variable:
        """A variable for a copy, if the mode may return one array for two results; else the variable."""
        return variable

    def behind(self, variable: Variable) -> Variable:
        """The variable before changes of axes, if lowering merges these; else the variable."""
        return variable

    @abc.abstractmethod
    def mover(self, device: Device) -> Callable[[Value], Value]:
        """A function from a value to its copy on the device, which may return before the copy is made."""

    def on_device(self, compiled: CompiledStage, count: int) -> StageCall:
        """The callable of a stage with ``count`` results, in a program of several stages; it does not wait for them."""
        return compiled.call

    def get(self, value: Value) -> np.ndarray:
        return np.array(self.content(value))

    # Compiled functions take and return the *content* of a value, which may be a part of it.

    def content(self, value: Value) -> Any:
        """The content of a value, once it is computed."""
        return value

    def value(self, content: Any, device: Device) -> Value:
        """The value for a content that a compiled function returned on the device."""
        return content

    def finish(self, contents: Sequence[Any]) -> None:
        """Return when these are computed."""

    def copier(self, device: Device) -> Callable[[Any], Any]:
        """A function from a content to its copy on the device, which may return before the copy is made."""
        return self.mover(device)

    def own_threads(self) -> dict[str, int | None]:
        """Threads of pools that threadpoolctl does not know."""
        return {}

    @abc.abstractmethod
    def products(self) -> Pool:
        """The library for matrix products."""

    def compiler_settings(self) -> dict[str, Any]:
        """The framework's settings, as in `Description`."""
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
        """Set the variables that libraries read when they are loaded. NumPy's BLAS, loaded before, ignores them."""
        if self.settings.threads is not None:
            os.environ.update(threads.environment(self.settings.threads))
            os.environ["NPROC"] = str(self.settings.threads)  # XLA's (tsl/platform/cpu_info)

    def unsupported(self, what: str, node: Node | None, error: Exception) -> Exception:
        """The error to raise for the framework's error in lowering or compilation."""
        if isinstance(error, MemoryError | UnsupportedOperation):
            return error
        where = f" (at {node.source})" if node is not None and node.source else ""
        reason = str(error).strip() or "no reason given"
        return UnsupportedOperation(
            f"backend {self.name} cannot do {what}{where}: {type(error).__name__}: {reason[:2000]}"
        )
