"""A chain of 100 element-by-element operations on NumPy, over the same function that a user writes with NumPy."""

from __future__ import annotations

from typing import Any

import pytest

from overhead import targets

ELEMENTS = [pytest.param(size, marks=pytest.mark.figure(part)) for size, part in targets.CHAINS.items()]


@pytest.mark.computes_with("autograd")
@pytest.mark.parametrize("elements", ELEMENTS)
def test_chain(backend: str, elements: int, replay_part: Any, benchmark: Any) -> None:
    benchmark.group = f"framework tax: a chain on {elements} elements"
    assert replay_part(targets.CHAINS[elements], backend) > 0
