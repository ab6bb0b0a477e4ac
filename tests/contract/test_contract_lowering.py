"""What is lowered is what users of a framework write: no more ops than by hand, after the framework's optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import LIMIT_SECONDS, Host

import xbackend as xb
from overhead import MODULES
from xbackend.errors import UnsupportedOperation
from xbackend.workers.remote import RemoteBackend

# By workload and backend: the kinds of ops of which ours has as many as the version written by hand.
# `bench/overhead/graphs.py` prints both, and docs/suite.md says which others differ, and why.
SAME = {
    ("radon", "jax"): ("gather", "scatter", "select", "compare", "reduce", "fusion"),
    ("radon", "tensorflow"): ("GatherV2", "UnsortedSegmentSum", "Reshape", "Cast", "Mul", "Sum", "Min", "Merge"),
    # No array for the identity matrix: XLA makes it (iota, compare) as it adds it.
    ("gaussian_process", "jax"): ("iota", "compare", "custom-call", "dot", "reduce"),
    # A vector by a matrix is a product of these, with no reshape.
    ("logistic_regression", "aesara"): ("CGemv", "Dot22", "Gemm", "Reshape", "DimShuffle", "Alloc"),
}
NO_LOOPS = ("aesara-jax", "theano-gpuarray")  # modes without them refuse large stacks


def counted(name: str, workload: str, size: int) -> tuple[dict[str, int], dict[str, int]]:
    """The ops of ours and of the version written by hand."""
    with RemoteBackend(name, limit=LIMIT_SECONDS, modules=MODULES) as backend:
        ours, theirs = backend.call("overhead.graphs:counts", {"workload": workload, "parameters": {"size": size}})
    return ours, theirs


@pytest.mark.parametrize(("workload", "framework"), SAME)
def test_as_many_ops_as_by_hand(workload: str, framework: str) -> None:
    ours, theirs = counted(framework, workload, 100)
    kinds = SAME[workload, framework]
    assert {kind: ours.get(kind, 0) for kind in kinds} == {kind: theirs.get(kind, 0) for kind in kinds}
    assert any(theirs.get(kind) for kind in kinds)


def test_tensorflow_looks_at_many_indices_once() -> None:
    """It writes them anew only where one is negative; `test_many_indices_some_of_them_negative` has the numbers."""
    ours, _ = counted("tensorflow", "radon", 20_000)
    assert ours["Min"] == 1 and ours["Merge"] == ours["GatherV2"] == 2


@pytest.mark.takes_turns
def test_a_large_stack_of_matrices(host: Host) -> None:
    """Aesara and Theano have linear algebra of single matrices only: the stack is a loop."""
    x = np.random.default_rng(0).standard_normal((65, 2, 2))
    x = x @ x.swapaxes(1, 2) + np.eye(2)

    def factors(x: Any) -> Any:
        factor = xb.linalg.cholesky(x)
        return factor, xb.grad(xb.sum(xb.log(xb.linalg.diagonal(factor))), x)

    try:
        found, gradient = host.backend.compile(factors, x)(x)
    except UnsupportedOperation:
        assert host.name in NO_LOOPS
        return
    np.testing.assert_allclose(found, np.linalg.cholesky(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, 0.5 * np.linalg.inv(x), rtol=1e-10)  # of half the logarithm of det(x)
