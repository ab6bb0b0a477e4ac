"""Read in a worker by a test."""

from __future__ import annotations

import os
from typing import Any


def value(backend: Any, name: str) -> str | None:
    """An environment variable as the framework found it."""
    return os.environ.get(name)
