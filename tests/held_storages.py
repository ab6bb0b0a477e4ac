"""Called inside of a worker."""

from __future__ import annotations

import gc
from typing import Any


def count(backend: Any) -> int:
    """How many storages of shared variables the backend keeps."""
    gc.collect()
    return len(backend._storages.made)
