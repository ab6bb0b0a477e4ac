"""Rewrites by the algebra of real numbers, where NaN, infinities or overflow differ, as docs/numbers.md has it."""

from __future__ import annotations

import os

import pytest
import tiers
from batches import Check, Host
from real_numbers import PROGRAMS, batch, said

from xbackend.backends import registry

BATCH, SAID = batch(), said()
CONTRACTED = "x * y - z"  # XLA rounds it once where it optimises


@pytest.mark.parametrize("check", BATCH.checks, ids=[check.label for check in BATCH.checks])
def test_algebra_of_real_numbers(host: Host, check: Check) -> None:
    named = host.name.partition("[")[0] in SAID[check.label]
    try:
        host.check(BATCH, check)
    except AssertionError:
        if not named:
            raise
    else:  # an option, an older version, as of an older Python, or a GPU may lack the rewrite
        gpu = host.backend.default_device.is_accelerator
        apart = check.label == CONTRACTED and tiers.LITTLE_OPTIMISED in os.environ.get("XLA_FLAGS", "")
        other = registry.get(host.name).chosen or "XBACKEND_PYTHON" in os.environ or gpu or apart
        assert not named or other, f"{host.name} computes what is written: the row is old"


def test_the_document_and_the_programs_are_the_same() -> None:
    assert list(SAID) == list(PROGRAMS)
