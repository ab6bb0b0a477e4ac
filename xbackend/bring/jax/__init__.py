"""Jaxprs of JAX: functions that `jax.make_jaxpr` takes become programs."""
