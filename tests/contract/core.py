"""The core of the checks of ops: every op in float64, and in the other dtypes that are lowered in another way.

The others are variants: a backend compiles them much like a check of the core (another dtype, axis or slice of the same
op). `tests/tiers.py` decides which backends run them.
"""

from __future__ import annotations

# Family of batches -> dtype -> its core, by the beginnings of labels before the dtype.
ELSEWHERE: dict[str, dict[str, set[str]]] = {
    "elementwise": {
        "bool": {"logical_not", "logical_and", "logical_or", "equal"},
        "int32": {"floor_divide", "remainder_of_the_smallest"},
        "int64": {
            "overflow",
            "add",
            "multiply",
            "less",
            "floor_divide",
            "remainder",
            "pow",
            "pow_beyond_53_bits",
            "min_and_1",
        },
        "float32": {"exp", "divide", "pow", "erf"},
    },
    "reductions": {
        "bool": {"any-axes_0_and_-1_kept", "all-nothing"},
        "int32": {"sum-beyond_32_bits"},
        "int64": {"prod-axes_0_and_-1_kept", "max-axes_0_and_-1_kept"},
        "float32": {"sum-axes_0_and_-1_kept", "mean-axes_0_and_-1_kept"},
    },
    "matrices": {"float32": {"cholesky", "solve", "slogdet_logarithm", "svdvals"}},
    "vectors": {"float32": {"conv2d"}},
    "special": {"float32": {"logsumexp"}},
    "ordered": {
        "int32": {"sort", "cumulative_prod_in_its_own_dtype"},
        "int64": {"sort", "argsort", "cumulative_prod"},
        "float32": {"argsort_special"},
    },
    "composed": {"int32": {"bitwise_right_shift"}, "int64": {"bitwise_left_shift", "operators"}},
    "unsigned": {
        "uint8": {"subtract", "maximum", "less", "negative", "sum", "matmul", "concat", "take_set", "astype_float64"},
        "uint32": {"add", "multiply", "greater", "floor_divide", "bitwise_left_shift", "max", "argmax", "scan"}
        | {"astype_wraps", "identity"},
    },
    "moving": {"bool": {"concat"}, "int32": {"where"}, "int64": {"slice_step_-2"}, "float32": {"identity"}},
    "indexing": {"bool": {"slice_set"}, "int32": {"take_add"}, "int64": {"take"}, "float32": {"take_set"}},
    "products": {
        "int32": {"matmul_beyond_24_bits", "matmul_large_row"},
        "int64": {"matmul_beyond_53_bits", "matmul_large_rows"},
        "float32": {"matmul", "matrix_power_5"},
    },
}
# Parts of float64 labels that make a variant.
IN_FLOAT64: dict[str, set[str]] = {
    "reductions": {"no_axes", "scalar", "axis_1", "axis_0", "ties", "axis_-1_kept", "empty"},
    "moving": {
        *("scalar", "empty", "concat_one", "concat_flat", "slice_last", "slice_all", "slice_range", "slice_step_2"),
        *("slice_step_-1_to_the_front", "slice_beyond", "slice_everything", "matrix_transpose", "permute_dims_then"),
    },
    "indexing": {
        *("take_of_vector", "take_one", "take_nothing", "take_of_a_slice", "slice_set_broadcast", "slice_set_nothing"),
        *("take_set_of_a_slice", "take_known", "take_add_inside"),
    },
    "matrices": {
        *("cholesky_upper", "cholesky_of_the", "solve_vector", "solve_broadcast", "solve_triangular_vector"),
        *(
            "eigh_of_what",
            "svd_full_of",
            "pinv_of",
            "matrix_norm_1",
            "matrix_norm_-2",
            "matrix_norm_inf",
            "slogdet_sign",
        ),
    },
    "vectors": {
        *("cross_axis", "vector_norm_1", "vector_norm_0", "vector_norm_-inf", "vector_norm_kept", "einsum_elementwise"),
        *("einsum_outer", "einsum_sum", "einsum_diagonal"),
    },
    "ordered": {"sort_axis_1", "searchsorted_with", "isin_inverted", "cumulative_prod_from"},
    "composed": {"flip_all", "roll_flat", "repeat_each", "unstack", "fftshift", "triu", "moveaxis", "broadcast_arrays"},
    "products": {
        *("matmul_transposed", "matmul_column", "matmul_rows", "matmul_row_with", "tensordot_1", "outer"),
        *("matrix_power_0", "matrix_power_1", "matrix_power_6", "matrix_power_3"),
    },
}
# Beginnings of labels, in batches of many dtypes.
ACROSS: dict[str, tuple[str, ...]] = {
    "promotion": (
        *("arithmetic-bool-bool", "arithmetic-int32-int64", "arithmetic-float32-float64", "concat-int32-int64"),
        *("tenth-", "remainder_-3-int64", "and_true-", "invert-"),
    ),
    "conversions": ("astype-special-", "astype-float64-int32", "astype-int64-float32", "astype-bool-float64"),
}


def is_core(batch: str, label: str) -> bool:
    """Whether a check is of the core."""
    family, _, dtype = batch.partition("-")
    if family in ACROSS:
        return label.startswith(ACROSS[family])
    what = label.removesuffix(f"-{dtype}")
    if dtype == "float64":
        return not any(variant in what for variant in IN_FLOAT64.get(family, ()))
    return family not in ELSEWHERE or what in ELSEWHERE[family].get(dtype, ())
