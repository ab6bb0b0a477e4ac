from __future__ import annotations

from expected_failures import ExpectedFailure
from expected_failures._lineage import GRADIENT_OF_EIGH

EXPECTED = (
    GRADIENT_OF_EIGH,
    *(
        ExpectedFailure(
            test,
            label,
            "Aesara's JAX mode has no Scan, and how many steps to write one after the other is not known",
            "https://github.com/aesara-devs/aesara/issues/924",
        )
        for test, label in (
            ("test_control_flow", "while_loop*"),
            ("test_what_loops_leave_and_rows_that_were_taken_cross_devices", "looped*"),
        )
    ),
)
