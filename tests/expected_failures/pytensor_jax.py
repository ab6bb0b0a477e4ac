from __future__ import annotations

from expected_failures import ExpectedFailure
from expected_failures._lineage import ALGEBRA

EXPECTED = (
    ALGEBRA,
    ExpectedFailure(
        "test_control_flow",
        "while_loop*",
        "PyTensor's JAX mode has no Scan that ends by itself",
        "https://github.com/pymc-devs/pytensor/issues/265",
    ),
)
