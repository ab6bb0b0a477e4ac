"""PyMC's models: the log-density of one flat vector in unconstrained space, as samplers call it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.lineage.found import computed
from xbackend.bring.lineage.given import from_graph
from xbackend.bring.origin import Origin
from xbackend.errors import GraphError
from xbackend.extras import need_framework
from xbackend.wording import join


def log_density(model: Any, point: Any, rewrites: str | None, name: str) -> tuple[TracedProgram, Any, Any, np.ndarray]:
    """The log-density of a `pymc.Model`: the program, the graph, its input vector and the initial point as a vector.

    Dimensions and data become constants, as shapes of programs are fixed. Raises `GraphError`, also for a model without
    free variables.
    """
    from pymc.blocking import DictToArrayBijection
    from pymc.model.transform.optimization import freeze_dims_and_data
    from pymc.pytensorf import join_nonshared_inputs

    point = model.initial_point() if point is None else point
    frozen = freeze_dims_and_data(model)
    variables = frozen.value_vars
    if not variables:
        raise GraphError(f"{name} has no free variable: its log-density is a constant")
    if lacking := [one.name for one in variables if one.name not in point]:
        raise GraphError(f"the point of {name} lacks {join(lacking)}")
    (logp,), theta = join_nonshared_inputs(point=point, outputs=[frozen.logp()], inputs=variables)
    theta.name = "theta"
    data = DictToArrayBijection.map({one.name: point[one.name] for one in variables}).data
    start = np.asarray(data, theta.type.dtype)
    return from_graph(logp, {theta: start}, rewrites=rewrites, name=name), logp, theta, start


def brought(found: Any, given: Any, name: str, generator: np.random.Generator, *, rewrites: str) -> Origin:
    """The log-density of a model. ``found`` is a model, or a function without arguments that returns a model, or one
    and its initial point. Raises `GraphError`."""
    import pymc
    import pytensor

    made = found() if callable(found) and not isinstance(found, pymc.Model) else found
    model, point = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, pymc.Model):
        raise GraphError(f"{name} is {type(made).__name__}: it has to be a pm.Model, or a function that returns one")
    if given:
        raise GraphError(f"{name}: a model has its own initial point; leave --input out")
    program, logp, theta, start = log_density(model, point, rewrites, name)
    gradient = ["theta"] if all("float" in one.type.dtype for one in model.value_vars) else []
    logp = pymc.pytensorf.rewrite_pregrad(logp)
    outputs = [logp, *(pytensor.tensor.grad(logp, theta) for _ in gradient)]
    value, *slopes = computed(pymc.pytensorf.compile, [theta], outputs, [start])
    facts = {"graph": f"PyMC {pymc.__version__}, PyTensor {pytensor.__version__}", "rewrites": rewrites}
    return Origin(program, [start], gradient, [value], slopes, facts)


def from_pymc(model: Any, point: Any = None, *, rewrites: str | None = "stabilize") -> TracedProgram:
    """The program of a `pymc.Model`'s log-density, a function of one vector in unconstrained space.

    Its dtype is PyTensor's ``floatX``, by default float64. ``point`` is the initial point, which determines the shapes,
    by default the model's own. ``rewrites`` are those of `from_pytensor`. Raises `GraphError`.

    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, observed=[1.0, 2.0])
    >>> program = xb.from_pymc(model)
    >>> len(program.inputs)
    1
    """
    need_framework("xb.from_pymc", "pymc")
    return log_density(model, point, rewrites, "logp")[0]
