from __future__ import annotations

from expected_failures import ExpectedFailure
from expected_failures._lineage import ALGEBRA

EXPECTED = (
    ALGEBRA,
    ExpectedFailure(
        "test_control_flow",
        "while_loop*",
        "Aesara's JAX mode has no Scan, and how many steps to write one after the other is not known",
        "https://github.com/aesara-devs/aesara/issues/924",
    ),
)
