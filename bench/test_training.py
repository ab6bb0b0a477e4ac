"""Training beside the frameworks' own strategies and loops. Not reached is shown, not measured fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from overhead import training_targets as targets
from overhead.asking import measure
from overhead.handwritten.training import FITTED, SPREAD

Found = dict[str, Any]
pytestmark = pytest.mark.only_full


@pytest.fixture
def ask(choices: Any, say: Callable[[str], None]) -> Callable[[str, str], Found]:
    """The answer of a process for a part."""

    def answer(backend: str, part: str) -> Found:
        found = measure(backend, part, targets.parts(choices.quick)[part], on_progress=say)
        if isinstance(found, str):
            pytest.fail(f"{part} on {backend} was not measured: {found}", pytrace=False)
        return found

    return answer


@pytest.mark.only_for(*SPREAD)
def test_against_the_frameworks_own_strategies(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = "training: a mirrored step on two devices"
    for part in ("one device", "mirrored, fed", "mirrored"):
        found = ask(backend, part)
        assert found["difference"] <= targets.DIFFERENCE
        name = f"a step of training, {part}, over the framework's own strategy"
        assert note(targets.own(backend, found, name, targets.OWN_LIMIT)) > 0
    replay(found["ours"], found["iterations"][0])


@pytest.mark.only_for(*FITTED)
def test_an_epoch_against_keras(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = "training: a step of an epoch"
    found = ask(backend, "epoch")
    assert found["difference"] <= 1e-4  # float32, 64 steps
    figure = targets.own(backend, found, "a step of an epoch at batch 32 over one of Keras's fit", targets.FIT_LIMIT)
    assert note(figure) > 0
    replay(found["ours"], found["iterations"][0])


def test_how_graphs_grow(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = "training: eight replicas in one graph"
    found = ask(backend, "growth")
    for figure in targets.growth(backend, found):
        assert note(figure) > 0
    replay(found["ours"], found["iterations"][0])


def test_a_prediction_before_the_run(backend: str, ask: Any, note: Any, replay: Any, benchmark: Any) -> None:
    benchmark.group = "training: a mirrored step of 1 024 rows on two devices"
    found = ask(backend, "prediction")
    for figure in targets.prediction(backend, found):
        assert note(figure) >= 0
    replay(found["ours"], found["iterations"][0])
