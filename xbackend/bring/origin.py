"""What an importer brings of a file: the program, its inputs, and what the framework itself computes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram


@dataclass(frozen=True)
class Origin:
    """A graph that was brought.

    Attributes:
        program: the program of its value.
        inputs: the arrays of a call.
        gradient: the arguments that a gradient is taken with respect to; empty where there is none.
        results: what the framework's own compiled function returns for the inputs.
        slopes: its own gradients, one for each of ``gradient``.
        facts: what is said of it: the framework's version, rewrites.
        modules: the files of the modules that its process imported, beside Python's, the environment's and xbackend's.
        drawn: whether numbers of it are random ones: inputs that were not given.
    """

    program: TracedProgram
    inputs: Sequence[np.ndarray]
    gradient: Sequence[str] = ()
    results: Sequence[np.ndarray] = ()
    slopes: Sequence[np.ndarray] = ()
    facts: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    drawn: bool = False
