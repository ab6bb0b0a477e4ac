from __future__ import annotations

from expected_failures import ExpectedFailure
from expected_failures._lineage import ALGEBRA

EXPECTED = (
    ALGEBRA,
    *(
        ExpectedFailure(
            "test_result_of_op",
            label,
            "PyTensor compiles for Numba without signed zeros (fastmath's nsz); without it sums take 10 times as long",
            "https://github.com/pymc-devs/pytensor/blob/main/pytensor/link/numba/dispatch/basic.py",
        )
        for label in ("special-remainder", "special-power_*")
    ),
)
