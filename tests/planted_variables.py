"""What a test asks in a worker."""

from __future__ import annotations

import os
from typing import Any


def value(backend: Any, name: str) -> str | None:
    """Of an environment variable, as the framework found it."""
    return os.environ.get(name)
