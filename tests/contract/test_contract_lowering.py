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

# By workload and backend: how many ops of a kind ours may have over the version written by hand. `bench/overhead/graphs.py`
# prints both, and docs/suite.md says why.
MORE: dict[tuple[str, str], dict[str, int]] = {
    ("radon", "jax"): {},
    # A negative index counts from the end: few indices are written anew, without a choice.
    ("radon", "tensorflow"): {"AddV2": 1, "Less": 1, "SelectV2": 1, "Const": 3},
    # No array for the identity matrix, which XLA makes as it adds it.
    ("gaussian_process", "jax"): {"add": 2, "exponential": 2, "multiply": 4, "pad": 3, "fusion": 2, "parameter": 5},
    # A vector by a matrix is a product of both (CGemv), with no reshape. The softplus of the workload is written out.
    ("logistic_regression", "aesara"): {"Elemwise Composite": 1},
    ("logistic_regression", "pytensor-c"): {"Elemwise Composite": 1},
}
NO_LOOPS = ("aesara-jax", "theano-gpuarray")  # modes without them refuse large stacks


@pytest.mark.parametrize("workload", dict.fromkeys(workload for workload, _ in MORE))
def test_no_more_ops_than_by_hand(name: str, workload: str) -> None:
    if (workload, name) not in MORE:
        pytest.skip("it is checked on other backends")
    job = {"workload": workload, "parameters": {"size": 100}}
    with RemoteBackend(name, limit=LIMIT_SECONDS, modules=MODULES) as backend:
        ours, theirs = backend.call("overhead.graphs:counts", job)
    assert theirs
    # Fused ops are compared by their number, not by what is in them.
    more = {op: n - theirs.get(op, 0) for op, n in ours.items() if n > theirs.get(op, 0) and ": " not in op}
    allowed = MORE[workload, name]
    assert all(n <= allowed.get(op, 0) for op, n in more.items()), (more, ours, theirs)


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
