from __future__ import annotations

from expected_failures import ExpectedFailure
from expected_failures._lineage import ALGEBRA

EXPECTED = (
    ALGEBRA,
    ExpectedFailure(
        "test_control_flow",
        "while_loop*",
        "Theano's loops over arrays of a context are for CUDA, and how many steps to write one after the other is not known",
        "https://github.com/Theano/Theano/blob/rel-1.0.5/theano/gpuarray/opt.py",
    ),
)
