"""The figures of placement: computed from the workers' seconds, with reasons for missing ones."""

from __future__ import annotations

from typing import Any

import pytest

from overhead import placement_targets as targets
from overhead.asking import measure
from xbackend.errors import BackendUnavailable
from xbackend.measure.worker import Worker


def test_ratios_over_their_limits() -> None:
    found = {"one": [2.0, 2.0], "two": [1.0, 1.0], "foreign_cores": 0.1}
    figure = targets.speedup("pytensor", found, targets.TWO_LIMITS["numba"])
    assert figure.value == 2.0 and figure.reached and figure.detail["foreign_cores"] == 0.1
    assert targets.speedup("pytensor", {**found, "one": [1.7, 1.7]}, targets.TWO_LIMITS["numba"]).reached is False
    hand = targets.hand("pytensor-jax", {"ours": [1.04, 1.04], "by_hand": [1.0, 1.0]})
    assert hand.value == pytest.approx(1.04) and hand.reached is False


def test_a_stage_is_what_is_left_of_a_round() -> None:
    few = {"ours": [100e-6, 102e-6], "by_hand": [84e-6, 86e-6], "stages": 8, "transfers": 7}
    figure = targets.stage("pytensor-jax", few)
    assert figure.value == pytest.approx(2.0) and figure.reached and figure.unit == "us"
    assert targets.stage("pytensor-jax", {**few, "by_hand": [50e-6, 52e-6]}).reached is False
    many = {**few, "ours": [1600e-6, 1632e-6], "stages": 64}
    assert targets.growth("pytensor-jax", few, many).value == pytest.approx(2.0)
    assert targets.growth("pytensor-jax", few, many).reached is False


def test_copies_are_counted_with_what_copied() -> None:
    found: dict[str, Any] = {"copies": {}, "beyond": 0, "transfers": 2}
    assert targets.copies("tensorflow", found).reached is True
    looked = targets.copies("tensorflow", {**found, "copies": {"xbackend: get": 3}})
    assert looked.value == 3.0 and looked.reached is False and looked.detail["xbackend: get"] == 3
    assert targets.copies("tensorflow", {**found, "beyond": 1}).reached is False


def test_what_was_not_measured_says_why() -> None:
    def opener(name: str, **options: Any) -> Worker:
        raise BackendUnavailable("not here")

    for part in targets.parts(True):
        assert measure("pytensor", part, targets.parts(quick=True)[part], opener=opener) == "not here"
    for figure in (
        targets.speedup("pytensor", "not here", 1.8),
        targets.hand("pytensor-jax", "not here"),
        targets.stage("pytensor-jax", "not here"),
        targets.growth("pytensor-jax", {"ours": [1.0], "stages": 8}, "not here"),
        targets.copies("pytensor", "not here"),
    ):
        assert (figure.value, figure.reached, figure.reason) == (None, None, "not here")
