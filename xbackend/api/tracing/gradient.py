"""``xbackend.grad``: gradients as nodes of the program, lowered to each framework's own."""

from __future__ import annotations

from typing import Any

from xbackend.api.tracing.tracer import Tracer, current
from xbackend.errors import DTypeError, GradientError, ShapeError
from xbackend.program import analyses
from xbackend.program.program import Value


def grad(loss: Any, wrt: Any) -> Any:
    """The gradient of ``loss``, a floating-point scalar (shape ()), with respect to an array or to several.

    ``wrt`` is an array of the program, a shared variable, or a list or tuple of them; the result has the same form.
    Each gradient has the shape, dtype and device of its array. Gradients of gradients work. Raises `GradientError`
    where the loss does not depend on an array through floating-point values, or an op between has no gradient.

    >>> run = backend.compile(lambda x: xb.grad(xb.sum(x * x), x), np.ones(3))
    >>> run(np.asarray([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    tracer = current("xb.grad")
    several = isinstance(wrt, list | tuple)
    targets = [tracer.array(w) for w in (wrt if several else [wrt])]
    scalar = tracer.array(loss)
    if scalar.shape != () or not scalar.dtype.is_floating:
        raise ShapeError(
            f"xb.grad takes the gradient of a floating-point scalar, not of {scalar!r}; reduce it with xb.sum or "
            "xb.mean"
        )
    # The predecessors of the loss along floating-point values only, with the loss.
    values = tracer.values
    reached = analyses.reached(
        values, [scalar.node], lambda value: [i for i in value.inputs if values[i].dtype.is_floating]
    )
    for number, target in enumerate(targets):
        if not target.dtype.is_floating:
            raise DTypeError(f"xb.grad with respect to {target!r}: only floating-point arrays have a gradient")
        if target.node not in reached:
            raise GradientError(
                f"the loss does not depend on number {number} of the arrays that xb.grad was given ({target!r}) "
                "through floating-point numbers; leave it out, or use xb.zeros_like"
            )
        _check_way(tracer, reached, target.node)
    results = tracer.emit_all("grad", (scalar, *targets), {}) if targets else []
    if not several:
        return results[0]
    return tuple(results) if isinstance(wrt, tuple) else results


def _check_way(tracer: Tracer, reached: set[int], target: int) -> None:
    """Raises `GradientError` where an op on a path from the target to the loss has no gradient."""
    refused = {i: why for i in reached if i > target and (why := _refusal(tracer.values[i]))}
    depends = {target}
    for i in range(target + 1, max(refused, default=target) + 1):
        if i in reached and not depends.isdisjoint(tracer.values[i].inputs):
            if i in refused:
                raise GradientError(refused[i])
            depends.add(i)


def _refusal(node: Value) -> str | None:
    """Why a node, or one in its bodies, has no gradient; `None` if it has."""
    if node.op == "while_loop":
        if not node.dtype.is_floating:
            return None
        return (
            f"no gradient goes through xb.while_loop (at {node.source}), for the number of its steps is not known "
            "while tracing: write it as xb.scan, with a length"
        )
    if node.params.get("full"):
        instead = {"qr": 'mode="reduced"', "svd": "full_matrices=False"}[node.op]
        return (
            f"no gradient goes through xb.linalg.{node.op} with a complete basis (at {node.source}), for the vectors "
            f"that complete it are not determined: write {instead}"
        )
    return next((why for body in node.bodies.values() for inner in body.values if (why := _refusal(inner))), None)
