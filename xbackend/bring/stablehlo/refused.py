"""Ops of StableHLO that no program has, with what to write instead before the export."""

from __future__ import annotations

from xbackend.bring.jax.refused import REFUSED as PRIMITIVES

# By op: the primitive of JAX that is refused for the same reason.
_ALIKE = {
    **dict.fromkeys(("rng", "rng_bit_generator"), "random_bits"),
    **dict.fromkeys(("fft", "complex", "real", "imag"), "complex"),
    **dict.fromkeys(("bitcast_convert", "popcnt", "count_leading_zeros", "reduce_precision"), "clz"),
    **dict.fromkeys(("infeed", "outfeed", "send", "recv", "create_token", "after_all"), "io_callback"),
    "select_and_scatter": "select_and_scatter_add",
}
REFUSED = {name: PRIMITIVES[primitive] for name, primitive in _ALIKE.items()} | {
    **dict.fromkeys(
        (
            *("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "collective_permute", "collective_broadcast"),
            *("partition_id", "replica_id", "cross_replica_sum", "manual_computation"),
        ),
        "it is on several devices: bring the function, FILE.py:NAME, whose shard_map comes in",
    ),
    **dict.fromkeys(
        (
            *("get_dimension_size", "dynamic_reshape", "dynamic_broadcast_in_dim", "dynamic_iota", "dynamic_pad"),
            *("real_dynamic_slice", "dynamic_gather", "dynamic_conv", "set_dimension_size"),
        ),
        "its shape depends on values, and a program's shapes are fixed",
    ),
}
