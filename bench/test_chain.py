"""A chain of 100 element-by-element operations on NumPy, over the same function that a user calls with NumPy's arrays.

Both in one process, in turn; the interval is that of fresh processes. A figure that is not reached fails nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from xbackend.measure import targets
from xbackend.pytest_plugin import MARK

pytestmark = MARK


@pytest.fixture(scope="module")
def chains(choices: Any, say: Callable[[str], None]) -> Callable[[str], targets.Collected]:
    """What the processes of a backend gave, asked once."""

    @cache
    def ask(backend: str) -> targets.Collected:
        options: dict[str, Any] = {"processes": choices.extent.processes, "quick": choices.quick, "on_progress": say}
        return targets.collect([backend], wanted=targets.CHAINS.values(), threads=1, **options)[backend]

    return ask


@pytest.fixture
def feed(chains: Any, note: Any, replay: Any) -> Callable[[str, str], float]:
    """Our seconds of a part as the benchmark, its figure beside them; the value of that."""

    def fed(part: str, backend: str) -> float:
        collected = chains(backend)
        value: float = note(targets.figure(part, collected))
        found = collected.found[part]
        replay([seconds for one in found for seconds in one["ours"]], found[0]["iterations"][0])
        return value

    return fed


@pytest.mark.computes_with("autograd")
@pytest.mark.parametrize("elements", targets.CHAINS)
def test_chain(backend: str, elements: int, feed: Any, benchmark: Any) -> None:
    benchmark.group = f"framework tax: a chain on {elements} elements"
    assert feed(targets.CHAINS[elements], backend) > 0
