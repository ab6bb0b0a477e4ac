"""The result of an importer: a program, its inputs, and the framework's own results for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram


@dataclass(frozen=True)
class Origin:
    """A graph that was brought.

    Attributes:
        program: the graph, without gradients.
        inputs: the arguments of a call.
        gradient: the names of the arguments to differentiate by; empty if there is no gradient.
        results: the results of the framework's own compiled function.
        slopes: the framework's own gradients, one for each of ``gradient``.
        facts: facts for reports: the framework's version, rewrites, draws.
        modules: by name, the files of the imported modules that are not of Python, the environment or xbackend.
        drawn: whether inputs were drawn, as they were not given.
    """

    program: TracedProgram
    inputs: Sequence[np.ndarray]
    gradient: Sequence[str] = ()
    results: Sequence[np.ndarray] = ()
    slopes: Sequence[np.ndarray] = ()
    facts: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    drawn: bool = False
