"""JAX (https://docs.jax.dev): a jitted function for each stage, `jax.device_put` between them. JAX traces a program as
any user's function, with gradients by its own `jax.vjp`; the jaxpr is cut at ``device_put``. Replicas that are alike
are one function over a mesh of their devices."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.contract import Built
from xbackend.backends.jax import replicated
from xbackend.backends.jax.devices import JAXDevices
from xbackend.backends.jax.gradient_rules import MENDED
from xbackend.backends.jax.over_mesh import SharedCell
from xbackend.backends.jax.tracing import Copied, DevicePut, Tracing, function_of
from xbackend.backends.special_numbers import QUOTIENTS, SIGNS
from xbackend.backends.staged.assembly import Assembly
from xbackend.backends.staged.backend import CompiledStage
from xbackend.devices import Device
from xbackend.program import replicas
from xbackend.program.program import Program
from xbackend.program.shared import SharedVariable
from xbackend.program.stages import Stage, Variable


class JAXBackend(JAXDevices):
    """JAX, without a framework above it."""

    added: tuple[str, ...] = (QUOTIENTS, SIGNS, MENDED)
    mutates: ClassVar[bool] = True  # the old values of updated variables are donated, as JAX's users do with state

    def start(self) -> Iterable[Device]:
        self.limit_threads()
        return self.start_mode()

    def build(self, program: Program) -> Built:
        try:
            alike = replicas.found(program)
            why = replicated.why_not(self.jax, alike)
            if not why:
                return replicated.Replicated(self, program, alike).built()
        except replicas.Unlike as unlike:
            why = str(unlike)
        return Assembly(self, Tracing(self, program).traced(), DevicePut, separate=why).built()

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        if len(self.devices) == 1:
            return super().new_storage(variable, array, device)
        return SharedCell(self.put(array, device), device)

    def copied(self, variable: Variable) -> Variable:
        return Copied(variable).outputs[0]

    def compile_stage(self, label: str, stage: Stage, mutable: Collection[Variable] = ()) -> CompiledStage:
        try:
            donated = [i for i, v in enumerate(stage.inputs) if v in mutable]
            return self.compiled(function_of(self.jax, stage), stage.inputs, stage.device, donated)
        except Exception as error:
            raise self.unsupported(label, None, error) from error
