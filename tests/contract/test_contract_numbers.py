"""Rewrites by the algebra of real numbers, where NaN, infinities or overflow differ, as docs/numbers.md has it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tiers
from batches import Check, Host
from real_numbers import PROGRAMS, batch, said

import xbackend as xb
from xbackend.backends import registry
from xbackend.measure import shrinking

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


@pytest.mark.tier("exhaustive")
def test_known_differences_are_made_smaller(name: str, tmp_path: Path) -> None:
    """Each is the smallest already, but for its numbers, or one that the tolerance allows. Its script shows it."""
    # Those backends of a row that compile fastest take turns: gcc and Numba compile each try for seconds.
    turns = ((label, sorted(set(names).difference(tiers.COMPILED) or names)) for label, names in SAID.items() if names)
    for label in [label for i, (label, names) in enumerate(turns) if names[i % len(names)] == name]:
        function, given = PROGRAMS[label]
        arrays = [np.asarray(numbers) for numbers in given]
        program = xb.trace(function, *arrays)
        made = shrinking.shrink((name, ""), program, arrays, tmp_path, seconds=10)
        if made.reason:
            assert "allowed" in made.reason or "agrees" in made.reason, f"{label}: {made.reason}"
        else:
            assert made.ops <= made.ops_before and made.numbers <= made.numbers_before, label
            assert not any("run again" in note for note in made.notes), f"{label}: {made.notes}"
