from __future__ import annotations

from expected_failures import ExpectedFailure

_REASON = "XLA has no determinants, and TensorFlow none for it"
_LINK = "https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/compiler/tf2xla/kernels"
_LABELS = ("det-*", "det_*", "slogdet_*")

EXPECTED = (
    *(ExpectedFailure("test_result_of_op", label, _REASON, _LINK) for label in _LABELS),
    ExpectedFailure("test_gradient", "grad-det-*", _REASON, _LINK),
    ExpectedFailure("test_gradient", "grad-slogdet-*", _REASON, _LINK),
    ExpectedFailure("test_gradient", "grad-grad-slogdet", _REASON, _LINK),
    ExpectedFailure("test_gradient_at_other_shapes", "grad-rule-*det", _REASON, _LINK),
    ExpectedFailure("test_the_determinant_of_a_singular_matrix_is_zero", "", _REASON, _LINK),
    ExpectedFailure(
        "test_what_loops_leave_and_rows_that_were_taken_cross_devices",
        "scanned*",
        "what a loop keeps for its gradient cannot leave a function that XLA compiles",
        "https://www.tensorflow.org/xla/known_issues",
    ),
)
