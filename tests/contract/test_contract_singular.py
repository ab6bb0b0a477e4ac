"""Matrices without a result: NaN, infinities or an error, and the backend goes on (docs/linear_algebra.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.errors import ComputationError

la = xb.linalg
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
CASES: dict[str, tuple[Callable[..., Any], np.ndarray, np.ndarray]] = {
    "cholesky": (la.cholesky, np.array([[1.0, 2.0], [2.0, 1.0]]), np.eye(2)),
    "inv": (la.inv, SINGULAR, np.eye(2)),
    "solve": (lambda x: la.solve(x, np.eye(2)), SINGULAR, np.eye(2)),
    "solve_triangular": (lambda x: la.solve_triangular(x, np.eye(2)), np.diag([1.0, 0.0]), np.eye(2)),
}


@pytest.mark.parametrize("label", CASES)
def test_without_a_result_it_is_not_finite_or_one_error(backend: Backend, label: str) -> None:
    function, without, ordinary = CASES[label]
    run = backend.compile(function, ordinary)
    np.testing.assert_allclose(run(ordinary), np.eye(2), rtol=1e-12)
    try:
        found = run(without)
    except ComputationError as error:
        assert "has no result for these numbers" in str(error)
    else:
        assert not np.isfinite(found).all() or np.abs(found).max() > 1e14  # XLA uses QR: rounding hides it
    np.testing.assert_allclose(run(ordinary), np.eye(2), rtol=1e-12)


def test_the_determinant_of_a_singular_matrix_is_zero(backend: Backend) -> None:
    run = backend.compile(lambda x: (la.det(x), *la.slogdet(x)), SINGULAR)
    determinant, sign, logarithm = run(SINGULAR)
    assert abs(determinant) < 1e-14 and (sign == 0 or abs(sign) == 1)
    assert logarithm < -30 or logarithm == -np.inf
