from __future__ import annotations

from expected_failures import ExpectedFailure
from expected_failures._lineage import ALGEBRA

EXPECTED = (
    ALGEBRA,
    ExpectedFailure(
        "test_result_of_op",
        "logsumexp_special-*",
        "Theano rewrites log(sum(exp(x))) to subtract the largest x, infinities too (local_log_sum_exp)",
        "https://github.com/Theano/Theano/blob/rel-1.0.5/theano/tensor/opt.py",
    ),
)
