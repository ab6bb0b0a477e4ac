"""Random variables of a PyTensor or Aesara graph, replaced by inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from xbackend.bring.lineage.walk import is_a, nodes
from xbackend.errors import GraphError


def draws_of(outputs: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
    """The random variables that the outputs read, without those read only by other ones or by given variables."""
    every = {node.outputs[-1]: None for node in nodes(outputs, given) if is_a(node.op, "RandomVariable")}
    read = dict.fromkeys(one for node in nodes(outputs, {**given, **every}) for one in node.inputs)
    return [one for one in {**read, **dict.fromkeys(outputs)} if one in every]


def inputs_of(draws: Sequence[Any]) -> dict[Any, Any]:
    """For each draw a new input, named after it."""
    return {one: one.type(one.name or one.owner.op.name) for one in draws}


def copied(package: str, outputs: Sequence[Any], replaced: Mapping[Any, Any]) -> list[Any]:
    """The outputs of a copy of the graph. ``replaced`` maps variables to the new ones. Raises `GraphError` for Theano's
    graphs."""
    if find_spec(f"{package}.graph") is None:
        raise GraphError(f"{package} has no draws or rewrites that are chosen: leave draws and rewrites out")
    try:
        clone_replace = import_module(f"{package}.graph.replace").clone_replace
    except ModuleNotFoundError:  # Aesara
        clone_replace = import_module(f"{package}.graph.basic").clone_replace
    return list(clone_replace(list(outputs), dict(replaced)))


def seed(draws: Sequence[Any], generator: np.random.Generator) -> None:
    """Set the generators of the draws, so that each process draws the same, whatever the user's seeds are."""
    read = dict.fromkeys(one for node in nodes(draws, {}) for one in node.inputs if hasattr(one, "get_value"))
    for variable in read:
        if isinstance(variable.get_value(), np.random.Generator):
            variable.set_value(np.random.default_rng(generator.integers(2**63)))
