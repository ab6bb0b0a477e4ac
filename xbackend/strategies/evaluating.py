"""Whether a loss is traced to be evaluated: what is random in training (dropout) is left out then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_EVALUATES: ContextVar[bool] = ContextVar("evaluates", default=False)


def evaluates() -> bool:
    """Whether the loss that is traced now is one that is evaluated."""
    return _EVALUATES.get()


@contextmanager
def evaluating() -> Iterator[None]:
    """In the block losses are traced to be evaluated."""
    before = _EVALUATES.set(True)
    try:
        yield
    finally:
        _EVALUATES.reset(before)
