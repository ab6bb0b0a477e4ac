"""The findings of one process about one candidate: made by `xbackend.measure.loop` in the worker, read by the session.

Standard library only. They are sent as plain data (``asdict``), and checked by the reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(kw_only=True)
class Finished:
    """The findings after the last round.

    ``compiled`` are the watched compilers, which did nothing. ``affinity`` are the cores that the threads of the
    process may use, `None` where the system does not tell. A profiled process has an `xbackend.results.schema.Profile`
    and an `xbackend.results.schema.Memory` as plain data; ``unprofiled`` and ``memory_unknown`` say why one is missing.
    ``warnings`` say what makes the seconds doubtful, ``gpus`` what the GPUs did during the rounds.
    """

    compiled: list[str] = field(default_factory=list)
    affinity: list[int] | None = None
    profile: dict[str, Any] | None = None
    unprofiled: str = ""
    memory: dict[str, Any] | None = None
    memory_unknown: str = ""
    warnings: list[str] = field(default_factory=list)
    gpus: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Measured:
    """``wrong`` says why the result or the timing is wrong or unproven, and ``status`` which of the two. Where it is
    empty, ``iterations`` are those of a round.

    ``inputs`` is their hash; ``relative_error`` and ``ulps`` are `None` where they are not finite or there was no
    result; ``tolerance`` is the largest error that passes. ``placement`` has ``graph``, the drawing of what was
    executed, unless that is too large. ``phases`` are seconds, by their names in `xbackend.results.schema.Phases`. The
    first process of a candidate adds those of fetching results, and the ``checks`` of the clock. ``rewriting`` are
    the seconds and the replaced variables of `Backend.rewriting`. ``cache`` is the state of the compiler's cache: see
    `xbackend.results.schema.Process`. ``warnings`` are its doubts.
    """

    inputs: str
    tolerance: float
    wrong: str = ""
    status: str = "wrong"
    relative_error: float | None = None
    ulps: float | None = None
    placement: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, float | None] = field(default_factory=dict)
    rewriting: tuple[float, int] | None = None
    cache: Literal["", "cold", "warm"] = ""
    warnings: list[str] = field(default_factory=list)
    iterations: int = 0
    checks: dict[str, float] | None = None
