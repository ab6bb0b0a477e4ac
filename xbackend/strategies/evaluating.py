"""Whether a loss is traced for evaluation, which leaves out the randomness of training (dropout)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_EVALUATES: ContextVar[bool] = ContextVar("evaluates", default=False)


def evaluates() -> bool:
    """Whether the present trace is of an evaluation."""
    return _EVALUATES.get()


@contextmanager
def evaluating() -> Iterator[None]:
    """Losses in the block are traced for evaluation."""
    before = _EVALUATES.set(True)
    try:
        yield
    finally:
        _EVALUATES.reset(before)
