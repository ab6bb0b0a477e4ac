from __future__ import annotations

from expected_failures import ExpectedFailure

_REASON = "Theano's contexts have linear algebra and sorting for CUDA only (cuSOLVER, MAGMA), and none for OpenCL"
_LINK = "https://theano-pymc.readthedocs.io/en/latest/library/gpuarray/linalg.html"
_RESULTS = (
    *("cholesky*", "solve*", "inv-*", "inv_of*", "det-*", "det_of*", "slogdet*", "eig*", "qr*", "svd*", "pinv*"),
    *("matrix_rank*", "matrix_power_of_inverse*", "matrix_norm_nuc*", "matrix_norm_-2*"),
    *("sort*", "argsort*", "searchsorted*", "special-searchsorted*", "isin-*", "isin_*"),
)
_GRADIENTS = (
    *("cholesky*", "inv-*", "det-*", "slogdet-*", "eig*", "qr*", "svdvals*", "pinv-*", "solve*", "sort*"),
    *("of_a_symmetric_matrix", "known-cond_without_inv", "grad-cholesky", "grad-slogdet", "grad-sort"),
    *("grad-eigvalsh-float32", "grad-svdvals-float32"),
    *("rule-qr", "rule-sort"),
)
_AT_OTHER_SHAPES = ("cholesky", "inv", "*det", "solve*", "eig*", "svd*")

EXPECTED = (
    *(ExpectedFailure("test_result_of_op", label, _REASON, _LINK) for label in _RESULTS),
    *(ExpectedFailure("test_gradient", f"grad-{label}", _REASON, _LINK) for label in _GRADIENTS),
    *(ExpectedFailure("test_gradient_at_other_shapes", f"grad-rule-{op}", _REASON, _LINK) for op in _AT_OTHER_SHAPES),
    ExpectedFailure("test_without_a_result_it_is_not_finite_or_one_error", "*", _REASON, _LINK),
    ExpectedFailure("test_a_call_that_fails_leaves_all_state_as_it_was", "inv-*", _REASON, _LINK),
    ExpectedFailure("test_the_determinant_of_a_singular_matrix_is_zero", "", _REASON, _LINK),
    ExpectedFailure("test_a_gradient_knows_the_lengths_of_what_another_device_has", "matrices*", _REASON, _LINK),
    ExpectedFailure("test_what_a_result_without_elements_is_made_of_crosses_devices", "*sort", _REASON, _LINK),
    *(
        ExpectedFailure(
            "test_result_of_op",
            label,
            "what one number of a vector is set to is written by the host (GpuAdvancedIncSubtensor1 is for rows)",
            "https://github.com/Theano/Theano/blob/rel-1.0.5/theano/gpuarray/subtensor.py",
        )
        for label in ("take_set_one-float64", "take_set_one_row-float64")
    ),
    *(
        ExpectedFailure(
            test,
            label,
            "Theano's contexts have the inverse of the error function for CUDA only; else the host computes it",
            "https://github.com/Theano/Theano/blob/rel-1.0.5/theano/gpuarray/elemwise.py",
        )
        for test, label in (("test_result_of_op", "erfinv-*"), ("test_gradient", "grad-*erfinv*"))
    ),
    *(
        ExpectedFailure(
            "test_result_of_op",
            label,
            "the worker ends by SIGSEGV while PoCL compiles it (theano/gof/cc.py: cthunk_factory); float64 is fine",
            "https://github.com/pocl/pocl/issues",
        )
        for label in ("digamma-float32*", "summed-float32")
    ),
    *(
        ExpectedFailure(
            "test_gradient",
            f"grad-known-{label}",
            "the larger of two is chosen by a comparison, as Theano's own is no OpenCL; of equal ones the first has "
            "the gradient",
            "https://github.com/Theano/Theano/blob/rel-1.0.5/theano/scalar/basic.py",
            AssertionError,
        )
        for label in ("max", "min", "maximum*", "minimum*", "clip")
    ),
    ExpectedFailure(
        "test_gradient",
        "grad-known-gammaln_of_negative_in_float32",
        "Theano's own digamma, of positive numbers: PoCL ends by SIGSEGV while it compiles one made of other ops",
        "https://github.com/pocl/pocl/issues",
        AssertionError,
    ),
    *(
        ExpectedFailure(
            test,
            label,
            "Theano's loops over arrays of a context are for CUDA, and how many steps to write one after the other is "
            "not known",
            "https://github.com/Theano/Theano/blob/rel-1.0.5/theano/gpuarray/opt.py",
        )
        for test, label in (
            ("test_control_flow", "while_loop*"),
            ("test_what_loops_leave_and_rows_that_were_taken_cross_devices", "looped*"),
        )
    ),
)
