"""Functions of JAX become programs: `jax.make_jaxpr` traces them, and the jaxpr is walked."""
