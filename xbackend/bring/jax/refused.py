"""Primitives that no program has, with what to write instead."""

from __future__ import annotations

from xbackend.bring.jax.walk import REFUSED

_DRAWS = "it draws random numbers: draw them outside, and give them as an argument"
_CALLS = "it calls Python while it runs: leave it out, or compute that outside"
_SPREAD = "it spreads arrays over devices: give the function of one device, and spread the program by a strategy"
_WRITES = "it changes an array in place: return the new value instead"
_FACTORS = "write jnp.linalg.solve, inv, det or slogdet; of their gradients give the loss in place of jax.grad"
_BITS = "it looks at the bits of numbers, which no program does"
_COMPLEX = "no program has complex numbers"
_CODE = "it is code outside of JAX: write it with jax.numpy"

_RANDOM = """random_bits random_seed random_split random_fold_in random_wrap random_unwrap random_clone random_gamma
    threefry2x32 threefry4x32 philox2x32 philox4x32 rng_bit_generator rng_uniform iota_2x32_shape"""
_COLLECTIVE = """shard_map sharding_constraint psum psum_invariant pmax pmin ppermute pbroadcast all_gather all_to_all
    reduce_scatter axis_index pvary reshard xla_pmap ragged_all_to_all"""

for names, instead in (
    (_RANDOM, _DRAWS),
    ("pure_callback io_callback debug_callback debug_print", _CALLS),
    (_COLLECTIVE, _SPREAD),
    ("new_ref empty_ref ref get swap addupdate accum_grad_in_ref freeze free_ref run_state", _WRITES),
    ("lu lu_pivots_to_permutation", _FACTORS),
    ("nextafter bitcast_convert_type population_count clz reduce_precision mulhi", _BITS),
    ("complex real imag conj fft eig schur", _COMPLEX),
    ("ffi_call custom_partitioning pallas_call custom_call tpu_custom_call", _CODE),
):
    REFUSED.update(dict.fromkeys(names.split(), instead))
REFUSED["custom_linear_solve"] = (
    "write jnp.linalg.solve of the matrix; of its gradient give the loss in place of jax.grad"
)
REFUSED["reduce"] = "write a sum, product, largest, smallest, all or any of jax.numpy"
_ORDER = "it orders NaN and the signs of zeros: compare by <, or search in a vector"
REFUSED.update(dict.fromkeys(("lt_to", "le_to", "eq_to"), _ORDER))
REFUSED.update(dict.fromkeys(("scatter-mul", "scatter-max", "scatter-min"), "read the part, compute it, and set it"))
REFUSED["select_and_scatter_add"] = "it is the gradient of a largest of windows: give the loss in place of jax.grad"
REFUSED["polygamma"] = "where it is the gradient of digamma, give the loss in place of jax.grad"
