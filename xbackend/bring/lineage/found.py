"""The importer of the lineage: a name of the user's file is a variable, several, or a compiled function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from importlib import import_module
from typing import Any

import numpy as np

from xbackend.bring import dtypes
from xbackend.bring.inputs import Input, arrays_of
from xbackend.bring.lineage.draws import copied, draws_of, inputs_of, seed
from xbackend.bring.lineage.given import INCLUDED, from_graph
from xbackend.bring.lineage.walk import leaves, lengths_of
from xbackend.bring.origin import Origin
from xbackend.bring.tracing import identifiers
from xbackend.errors import GraphError
from xbackend.wording import join


def brought(
    found: Any, given: Any, name: str, generator: np.random.Generator, *, rewrites: str, draws: bool = False
) -> Origin:
    """The graph of a name in the user's file. Raises `GraphError`."""
    is_compiled = hasattr(found, "maker")
    outputs, inputs, updates = _graph(found, name)
    single = not isinstance(outputs, list | tuple)
    results = [outputs] if single else list(outputs)
    if inputs is None:
        inputs = leaves([*results, *updates.values()])
    arrays = arrays_of(list(map(_described, inputs)), given, generator)
    framework = import_module(type(found if is_compiled else results[0]).__module__.partition(".")[0])
    facts = {"graph": f"{framework.__name__} {framework.__version__}", "rewrites": rewrites}
    if draws:
        if is_compiled:
            raise GraphError(f"{name} is a compiled function: draws are taken out of variables, before it is compiled")
        random = draws_of(results, {})
        seed(random, deepcopy(generator))  # its own state says whether inputs were drawn
        arrays += computed(framework.function, inputs, random, arrays)
        drawn = inputs_of(random)
        results = copied(framework.__name__, results, drawn)
        inputs, outputs = [*inputs, *drawn.values()], results[0] if single else results
        facts["draws"] = join(identifiers([one.name or "" for one in inputs])[-len(drawn) :]) if drawn else "none"
    # A gradient is of one scalar, with respect to the floating-point inputs. PyTensor and Aesara rewrite the graph that
    # a compiled function keeps, and remove what concerns gradients; Theano rewrites a copy.
    plain = not updates and not (is_compiled and any(one in found.maker.fgraph.inputs for one in inputs))
    scalar = single and plain and results[0].type.ndim == 0 and "float" in results[0].type.dtype
    targets = [one for one in inputs if scalar and "float" in one.type.dtype]
    options: Any = {"rewrites": rewrites, "name": name, "updates": updates, "gradients": bool(targets)}
    program = from_graph(outputs, dict(zip(inputs, arrays, strict=True)), **options)
    mode: Any = "FAST_COMPILE"
    if rewrites in INCLUDED:  # of the original graph and of its gradient, as when the user compiles them
        mode = framework.compile.mode.get_mode(mode).including(*INCLUDED[rewrites])
    if is_compiled:
        own = _called(found, updates, arrays)
    else:
        own = computed(framework.function, inputs, results, arrays, mode)
    grads = framework.tensor.grad(results[0], targets, disconnected_inputs="ignore") if targets else []
    slopes = computed(framework.function, inputs, grads, arrays, mode) if targets else []
    pairs = zip(identifiers([one.name or "" for one in inputs]), inputs, strict=True)
    return Origin(program, arrays, [label for label, one in pairs if one in targets], own, slopes, facts)


def computed(
    compiler: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    arrays: Sequence[Any],
    mode: Any = "FAST_COMPILE",
) -> list[np.ndarray]:
    """The framework's own results, in the mode that compiles least, or in its default if that mode fails."""
    try:
        found = compiler(list(inputs), list(outputs), mode=mode, on_unused_input="ignore")(*arrays)
    except NotImplementedError:  # Python's elementwise ops have at most 32 operands
        found = compiler(list(inputs), list(outputs), on_unused_input="ignore")(*arrays)
    return [np.asarray(one) for one in found]


def _called(function: Any, updates: Mapping[Any, Any], arrays: Sequence[Any]) -> list[np.ndarray]:
    """The results of one call of a compiled function. The values of its shared variables are restored."""
    before = {one: one.get_value() for one in updates}
    made = function(*arrays)
    for variable, value in before.items():
        variable.set_value(value)
    return [np.asarray(one) for one in (made if isinstance(made, list | tuple) else [made] if made is not None else [])]


def _graph(found: Any, name: str) -> tuple[Any, Sequence[Any] | None, Mapping[Any, Any]]:
    """Outputs, inputs (`None` for all leaves) and updates. Raises `GraphError`."""
    if hasattr(found, "maker"):
        maker, wrapped = found.maker, list(found.maker.inputs)
        explicit = [one.variable for one in wrapped if not one.implicit and not hasattr(one.variable, "get_value")]
        updates = {one.variable: one.update for one in wrapped if one.update is not None}
        outputs = [one.variable for one in maker.outputs]
        return outputs[0] if maker.unpack_single else outputs, explicit, updates
    several = isinstance(found, list | tuple) and found
    if not all(hasattr(one, "owner") for one in (found if several else [found])):
        raise GraphError(
            f"{name} is {type(found).__name__}: it has to be a variable, a list of variables or a compiled function"
        )
    return found, None, {}


def _described(variable: Any) -> Input:
    """The description of an input. Raises `GraphError` for a dtype that no program has."""
    kind = variable.type
    dtypes.held(kind.dtype)
    return Input(variable.name or "", f"{variable} ({kind})", kind.dtype, lengths_of(kind))
