"""What several devices bring and what xbackend's stages cost. Not reached is shown, not measured fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from overhead import placement_targets as targets
from overhead.asking import measure
from xbackend.backends import registry

Found = dict[str, Any]


@pytest.fixture(scope="module")
def ask(choices: Any, say: Callable[[str], None]) -> Callable[[str, str], Found]:
    """The answer of a process for a part, asked once."""
    asked: dict[tuple[str, str], Found | str] = {}

    def answer(backend: str, part: str) -> Found:
        if (backend, part) not in asked:
            asked[backend, part] = measure(backend, part, targets.parts(choices.quick)[part], on_progress=say)
        found = asked[backend, part]
        if isinstance(found, str):
            pytest.fail(f"{part} on {backend} was not measured: {found}", pytrace=False)
        return found

    return answer


@pytest.mark.computes_with(*targets.TWO_LIMITS)
def test_two_devices_against_one(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = "placement: 128x128, n=100 on two devices"
    limit = next(targets.TWO_LIMITS[p] for p in registry.get(backend).packages if p in targets.TWO_LIMITS)
    found = ask(backend, "two devices")
    assert note(targets.speedup(backend, found, limit)) > 0
    replay(found["two"], found["iterations"][0])


@pytest.mark.computes_with("jax")
def test_two_devices_against_the_same_by_hand(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = "placement: A^10 + B^10 at 1024x1024 on two devices"
    found = ask(backend, "by hand")
    assert note(targets.hand(backend, found)) > 0
    replay(found["ours"], found["iterations"][0])


@pytest.mark.computes_with("jax")
def test_stages(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = f"placement: a chain over {targets.MANY} devices"
    few, many = ask(backend, "stage"), ask(backend, "many stages")
    for figure in targets.stage(backend, few), targets.stage(backend, many), targets.growth(backend, few, many):
        note(figure)
    assert (few["transfers"], many["transfers"]) == (few["stages"] - 1, many["stages"] - 1)
    replay(many["ours"], many["iterations"][0])


def test_no_copy_over_the_host_in_training(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = "placement: copies over the host"
    found = ask(backend, "host copies")
    assert found["losses"][1] < found["losses"][0]
    figure = targets.copies(backend, found)
    note(figure)
    assert figure.value == 0.0, figure.detail
    replay(found["seconds"], 1)
