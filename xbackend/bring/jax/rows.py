"""All rows of primitives: importing this fills the tables."""

from xbackend.bring.jax import (  # noqa: F401
    arrays,
    calls,
    collectives,
    gathers,
    lockstep,
    loops,
    matrices,
    placed,
    products,
    refused,
    scalars,
)
