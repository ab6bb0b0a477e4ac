"""What all of the Theano lineage share."""

from __future__ import annotations

from expected_failures import ExpectedFailure

ALGEBRA = ExpectedFailure(
    "test_result_of_op",
    "algebra-*",
    "the rewrites of the Theano lineage are of numbers: x * 0, x - x, x / x, x == x of NaN and infinities too",
    "https://github.com/Theano/Theano/issues/3848",
    unless=("rewrites=merge", "rewrites=None"),
)
