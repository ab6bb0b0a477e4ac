"""Every op, gradient, loop and choice is lowered for a GPU that this machine lacks; nothing is executed."""

from __future__ import annotations

import re

import control_flow
import gradients
import operations
import pytest

import xbackend as xb
from xbackend.errors import UnsupportedOperation

pytestmark = pytest.mark.tier("exhaustive")

CHECKS = [check for room in (operations, gradients, control_flow) for batch in room.BATCHES for check in batch.checks]
# As on CPUs: tests/expected_failures.
REFUSED = {"tensorflow-xla": "XLA has no determinants", "pytensor-jax": "While Scan cannot yet be converted to JAX"}
LOWER = ("jax", "pytensor-jax", "tensorflow", "tensorflow-xla")
# Libraries for GPUs that XLA and JAX call, and what XLA makes itself.
LIBRARIES = (
    "cusolver_",
    "cublas_",
    "cu_lu_pivots_to_permutation",
    "Qr",
    "Eigh",
    "ProductOfElementaryHouseholderReflectors",
    "AllocateBuffer",
)


@pytest.mark.parametrize("lowering", LOWER)
def test_every_op_is_lowered_for_a_gpu(lowering: str) -> None:
    refused, lacking, outside = set[str](), set[str](), set[str]()
    with xb.open(lowering, lower_for="gpu:0", isolated=True) as backend:
        for check in CHECKS:
            try:
                found = backend.compile(check.function, *check.arguments).lowered
            except UnsupportedOperation as error:
                refused.add(str(error))
                continue
            found.placement.check()
            devices = {str(device) for part in found.parts for device in part.devices}
            assert devices <= {"gpu:0"} or "to_device" in check.label, check.label
            lacking |= {check.label for part in found.parts if part.lacking}
            called = [op.split()[1] for part in found.parts for op in part.ops if "custom" in op and " " in op]
            outside |= {target for target in called if not target.startswith(LIBRARIES)}
    assert not outside
    # Integers have fewer kernels (docs/gpus.md), floats have all.
    assert all(re.search("int|bool", label) for label in lacking)
    assert bool(lacking) == (lowering == "tensorflow")
    assert {why for why in refused if REFUSED.get(lowering, "of nothing") not in why} == set()
    assert bool(refused) == (lowering in REFUSED)
