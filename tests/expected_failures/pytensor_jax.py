from __future__ import annotations

from expected_failures import ExpectedFailure

EXPECTED = (
    *(
        ExpectedFailure(
            test,
            label,
            "PyTensor's JAX mode has no Scan that ends by itself",
            "https://github.com/pymc-devs/pytensor/issues/265",
        )
        for test, label in (
            ("test_control_flow", "while_loop*"),
            ("test_what_loops_leave_and_rows_that_were_taken_cross_devices", "looped*"),
        )
    ),
)
