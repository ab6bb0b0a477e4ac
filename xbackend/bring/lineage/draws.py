"""Random variables of a graph of PyTensor or Aesara, taken out as inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from xbackend.bring.lineage.walk import is_a, nodes


def draws_of(outputs: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
    """The random variables that outputs depend on, up to given variables and up to one another."""
    every = {node.outputs[-1]: None for node in nodes(outputs, given) if is_a(node.op, "RandomVariable")}
    read = dict.fromkeys(one for node in nodes(outputs, {**given, **every}) for one in node.inputs)
    return [one for one in {**read, **dict.fromkeys(outputs)} if one in every]


def taken_out(package: str, outputs: Sequence[Any], draws: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The outputs of a graph with an input in the place of each draw, and these inputs, which are named after them."""
    inputs = [one.type(one.name or one.owner.op.name) for one in draws]
    return copied(package, outputs, dict(zip(draws, inputs, strict=True))), inputs


def copied(package: str, outputs: Sequence[Any], replaced: Mapping[Any, Any]) -> list[Any]:
    """The outputs of a copy of a graph, with other variables in the place of those that are ``replaced``."""
    try:
        clone_replace = import_module(f"{package}.graph.replace").clone_replace
    except ModuleNotFoundError:  # Aesara's
        clone_replace = import_module(f"{package}.graph.basic").clone_replace
    return list(clone_replace(list(outputs), dict(replaced)))


def seed(draws: Sequence[Any], generator: np.random.Generator) -> None:
    """Let the next draws be the same in each process, whatever seeds they were made with."""
    read = dict.fromkeys(one for node in nodes(draws, {}) for one in node.inputs if hasattr(one, "get_value"))
    for variable in read:
        if isinstance(variable.get_value(), np.random.Generator):
            variable.set_value(np.random.default_rng(generator.integers(2**63)))
