from __future__ import annotations

from expected_failures import ExpectedFailure
from expected_failures._lineage import GRADIENT_OF_EIGH, GRADIENTS_OF_LOOPS

EXPECTED = (
    *GRADIENTS_OF_LOOPS,
    GRADIENT_OF_EIGH,
    *(
        ExpectedFailure(
            test,
            label,
            "Aesara's Numba mode calls SciPy's function, which Numba has no type for",
            "https://github.com/aesara-devs/aesara/blob/main/aesara/link/numba/dispatch/scalar.py",
        )
        for test, label in (("test_result_of_op", "erfinv-*"), ("test_gradient", "grad-*erfinv*"))
    ),
    ExpectedFailure(
        "test_gradient",
        "grad-known-cond_without_inv",
        "Aesara's Numba mode computes both sides of a choice, and inverts the singular matrix",
        "https://github.com/aesara-devs/aesara/blob/main/aesara/link/numba/dispatch/basic.py",
    ),
    *(
        ExpectedFailure(
            test,
            label,
            "Aesara has memory for a fixed number of steps, and its Numba mode no Assert that tells when they were too "
            "few",
            "https://github.com/aesara-devs/aesara/tree/main/aesara/link/numba/dispatch",
        )
        for test, label in (
            ("test_control_flow", "while_loop*"),
            ("test_what_loops_leave_and_rows_that_were_taken_cross_devices", "looped*"),
        )
    ),
)
