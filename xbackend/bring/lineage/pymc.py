"""PyMC's models: the log-density of one flat vector in unconstrained space, as samplers call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.lineage.found import computed
from xbackend.bring.lineage.given import from_graph
from xbackend.bring.origin import Origin
from xbackend.errors import GraphError


@dataclass(frozen=True)
class LogDensity:
    """The graph of a model's log-density: ``logp`` of the vector ``theta``, whose initial value is ``start``.

    ``discrete`` says that a variable is of whole numbers, so there is no gradient.
    """

    name: str
    logp: Any
    theta: Any
    start: np.ndarray
    discrete: bool

    def program(self, rewrites: str | None = "stabilize") -> TracedProgram:
        """The program of the log-density. Raises `GraphError`."""
        return from_graph(self.logp, {self.theta: self.start}, rewrites=rewrites, name=self.name)


def log_density(model: Any, point: Any = None, name: str = "logp") -> LogDensity:
    """The log-density of a `pymc.Model`. ``point`` is its initial point, by default its own.

    Dimensions and data become constants, as shapes of programs are fixed. Raises `GraphError` for a model without free
    variables.
    """
    from pymc.blocking import DictToArrayBijection
    from pymc.model.transform.optimization import freeze_dims_and_data
    from pymc.pytensorf import join_nonshared_inputs

    point = model.initial_point() if point is None else point
    frozen = freeze_dims_and_data(model)
    variables = frozen.value_vars
    if not variables:
        raise GraphError(f"{name} has no free variable: its log-density is a constant")
    (logp,), theta = join_nonshared_inputs(point=point, outputs=[frozen.logp()], inputs=variables)
    theta.name = "theta"
    start = DictToArrayBijection.map({one.name: point[one.name] for one in variables}).data
    discrete = any("int" in one.type.dtype or one.type.dtype == "bool" for one in variables)
    return LogDensity(name, logp, theta, np.asarray(start, theta.type.dtype), discrete)


def brought(found: Any, given: Any, name: str, generator: np.random.Generator, *, rewrites: str) -> Origin:
    """The log-density of a model, or of what a function without arguments returns: a model, or one and its initial
    point. Raises `GraphError`."""
    import pymc
    import pytensor

    made = found() if callable(found) and not isinstance(found, pymc.Model) else found
    model, point = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, pymc.Model):
        raise GraphError(f"{name} is {type(made).__name__}: it has to be a pm.Model, or a function that returns one")
    if given:
        raise GraphError(f"{name}: a model has its own initial point; leave --input out")
    density = log_density(model, point, name)
    program = density.program(rewrites)
    logp = pymc.pytensorf.rewrite_pregrad(density.logp)
    outputs = [logp] if density.discrete else [logp, pytensor.tensor.grad(logp, density.theta)]
    value, *slopes = computed(pymc.pytensorf.compile, [density.theta], outputs, [density.start])
    facts = {"graph": f"PyMC {pymc.__version__}, PyTensor {pytensor.__version__}", "rewrites": rewrites}
    gradient = () if density.discrete else ("theta",)
    return Origin(program, [density.start], gradient, [value], slopes, facts)


def from_pymc(model: Any, point: Any = None, *, rewrites: str | None = "stabilize") -> TracedProgram:
    """The program of a `pymc.Model`'s log-density, a function of one float64 vector in unconstrained space.

    ``point`` is the initial point that gives the shapes, by default the model's own. Raises `GraphError`.
    """
    return log_density(model, point).program(rewrites)
