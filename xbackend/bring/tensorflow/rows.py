"""All rows: importing this fills `xbackend.bring.tensorflow.walk.ROWS`."""

from __future__ import annotations

from xbackend.bring.tensorflow import (  # noqa: F401
    arrays,
    calls,
    elementwise,
    indexing,
    lists,
    matrices,
    networks,
    optimizers,
    reductions,
    variables,
)
