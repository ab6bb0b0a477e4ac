"""Expected failures of the whole Theano lineage."""

from __future__ import annotations

from expected_failures import ExpectedFailure
from xbackend.errors import UnsupportedOperation

GRADIENTS_OF_LOOPS = tuple(
    ExpectedFailure(
        "test_control_flow",
        label,
        "higher gradients through Scan are wrong (Scan.L_op), so they are refused",
        "https://github.com/aesara-devs/aesara/blob/rel-2.9.4/aesara/scan/op.py",
        UnsupportedOperation,
    )
    for label in ("grad-grad-grad-of-scan*", "grad-grad-of-scan_of_two")
)

GRADIENT_OF_EIGH = ExpectedFailure(
    "test_gradient",
    "grad-grad-eigvalsh-float32",
    "the gradient of eigenvalues (EighGrad) has none itself",
    "https://github.com/aesara-devs/aesara/blob/rel-2.9.4/aesara/tensor/nlinalg.py",
    UnsupportedOperation,
)
