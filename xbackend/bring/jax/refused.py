"""Primitives that no program has, with what to write instead."""

from __future__ import annotations

from typing import Any

from xbackend.bring import dtypes
from xbackend.bring.jax.walk import REFUSED, ROWS, inner_jaxprs, line_of, live, own_function
from xbackend.bring.missing import Missing
from xbackend.program.dtypes import DType

_DRAWS = "it draws random numbers: draw them outside, and give them as an argument"
_CALLS = "it calls Python while it runs: leave it out, or compute that outside"
_SPREAD = "it spreads arrays over devices in a way without a row: write jax.shard_map with psum, all_gather or ppermute"
_WRITES = "it changes an array in place: return the new value instead"
_FACTORS = "write jnp.linalg.solve, inv, det or slogdet; of their gradients give the loss in place of jax.grad"
_BITS = "it looks at the bits of numbers, which no program does"
_CODE = "it is code outside of JAX: write it with jax.numpy"

_RANDOM = """random_bits random_seed random_split random_fold_in random_wrap random_unwrap random_clone random_gamma
    threefry2x32 threefry4x32 philox2x32 philox4x32 rng_bit_generator rng_uniform iota_2x32_shape"""
_COLLECTIVE = """xla_pmap ragged_all_to_all pbroadcast_dynamic psend precv psum_start psum_invariant_start
    unreduced_psum_start all_gather_start all_gather_reduced_start reduce_scatter_start unreduced_reduce_scatter_start
    all_to_all_start ppermute_start pbroadcast_start"""

for names, instead in (
    (_RANDOM, _DRAWS),
    ("pure_callback io_callback debug_callback debug_print", _CALLS),
    (_COLLECTIVE, _SPREAD),
    ("new_ref empty_ref ref get swap addupdate accum_grad_in_ref freeze free_ref run_state", _WRITES),
    ("lu lu_pivots_to_permutation", _FACTORS),
    ("nextafter bitcast_convert_type population_count clz reduce_precision mulhi", _BITS),
    ("complex real imag conj fft eig schur", "no program has complex numbers"),
    ("ffi_call custom_partitioning pallas_call custom_call tpu_custom_call", _CODE),
    ("custom_linear_solve", "write jnp.linalg.solve of the matrix; of its gradient give the loss in place of jax.grad"),
    ("reduce reduce_window", "write a sum, product, largest, smallest, all or any of jax.numpy"),
    ("lt_to le_to eq_to", "it orders NaN and the signs of zeros: compare by <, or search in a vector"),
    ("scatter-mul scatter-max scatter-min", "read the part, compute it, and set it"),
    ("select_and_scatter_add", "it is the gradient of a largest of windows: give the loss in place of jax.grad"),
    ("polygamma", "where it is the gradient of digamma, give the loss in place of jax.grad"),
):
    REFUSED.update(dict.fromkeys(names.split(), instead))


def check_rows(name: str, jaxpr: Any) -> None:
    """Raises `GraphError` with all primitives that have no row, those of inner jaxprs included."""
    missing, todo, seen = Missing("JAX"), [jaxpr], set[Any]()
    while todo:
        inner = todo.pop()
        equations = live(inner) if inner not in seen else []
        seen.add(inner)
        for equation in equations:
            if lacking := _lacking(equation):
                missing.add(lacking[0], line_of(equation), lacking[1])
            if equation.primitive.name in ROWS and own_function(equation) is None:
                todo += inner_jaxprs(equation)
    missing.check(name)


def _lacking(equation: Any) -> tuple[str, str] | None:
    """The primitive, with its dtype if that is why, that no program has, and what to write instead; else `None`."""
    primitive = equation.primitive.name
    if primitive not in ROWS:
        return primitive, REFUSED.get(primitive, "")
    if instead := ROWS[primitive].lacks(equation):
        return primitive, instead
    for one in (*equation.invars, *equation.outvars):
        dtype = getattr(one.aval, "dtype", None)
        name = getattr(dtype, "name", str(one.aval))
        # Dtypes of random keys: primitives of random numbers are refused by name.
        if name not in (*DType, *dtypes.SMALL) and not name.startswith("key<"):
            return f"{primitive} of {dtype}", "cast to a dtype that a program has, such as float32"
    return None
