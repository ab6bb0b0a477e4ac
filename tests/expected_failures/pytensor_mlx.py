from __future__ import annotations

from expected_failures import ExpectedFailure

_DISPATCH = "https://github.com/pymc-devs/pytensor/tree/rel-3.3.7/pytensor/link/mlx/dispatch"
_MLX = "https://github.com/ml-explore/mlx/tree/v0.32.4/mlx/backend/cpu"
_SORTED = ("searchsorted*", "special-searchsorted*", "isin-*", "isin_*")

EXPECTED = (
    *(
        ExpectedFailure(test, label, "MLX has no loop, and how many steps to write out is not known", _DISPATCH)
        for test, label in (
            ("test_control_flow", "while_loop*"),
            ("test_what_loops_leave_and_rows_that_were_taken_cross_devices", "looped*"),
        )
    ),
    *(
        ExpectedFailure("test_result_of_op", label, "PyTensor has no searchsorted for MLX", _DISPATCH)
        for label in _SORTED
    ),
    *(
        ExpectedFailure(test, label, "MLX computes erfinv of float64 in float32", f"{_MLX}/simd/math.h")
        for test, label in (
            ("test_result_of_op", "erfinv-float64"),
            ("test_gradient", "grad-erfinv-float64"),
            ("test_gradient_at_other_shapes", "grad-rule-erfinv"),
        )
    ),
    *(
        ExpectedFailure(test, label, "PyTensor has no trigamma for MLX", _DISPATCH)
        for test, label in (
            ("test_result_of_op", "summed-*"),
            ("test_gradient", "grad-digamma-float64"),
            ("test_gradient", "grad-known-digamma_of_negative"),
            ("test_gradient", "grad-known-gammaln_of_negative_twice"),
            ("test_gradient_at_other_shapes", "grad-rule-digamma"),
        )
    ),
    *(
        ExpectedFailure("test_result_of_op", label, reason, f"{_MLX}/compiled.cpp", AssertionError)
        for label, reason in (
            ("special-zeros_with_a_sign", "MLX's compiled code has 0 for -0.0"),
            ("special-atan2_of_negative_zero", "MLX's compiled code has 0 for -0.0"),
            ("overflow-int64", "MLX compiles without -fwrapv, so x * 2 // 2 is x where x * 2 overflows"),
        )
    ),
    ExpectedFailure(
        "test_gradient", "grad-solve_of_a_number-float64", "PyTensor's arange for MLX takes constants only", _DISPATCH
    ),
    ExpectedFailure(
        "test_gradient", "grad-known-cond_without_inv", "MLX computes both sides of a choice", f"{_DISPATCH}/basic.py"
    ),
    ExpectedFailure(
        "test_result_of_op",
        "mean-of_many-float32",
        "MLX adds float32 one by one",
        f"{_MLX}/reduce.cpp",
        AssertionError,
    ),
    ExpectedFailure(
        "test_without_a_result_it_is_not_finite_or_one_error",
        "cholesky",
        "MLX does not look whether LAPACK had a result",
        f"{_MLX}/cholesky.cpp",
        AssertionError,
    ),
)
