"""Files of `jax.export`: their ops of StableHLO become calls of `jax.lax`, whose jaxpr becomes a program."""
