"""The model of scaling beside steps over shaped links. Not reached is shown, not measured fails.

    pytest bench/test_cluster_scaling.py           # two links
    pytest bench/test_cluster_scaling.py --full    # nine, some minutes
    pytest bench/test_cluster_scaling.py --full --scaling reports/cluster_scaling

writes the results into a folder: the table, the pictures, the data. Where the system does not permit network
namespaces the tests are skipped with the reason.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from links import document, measured, namespaces, predictions
from xbackend.measure.machine import machine
from xbackend.workers.remote import ready_environment

LIMIT = 240.0  # seconds for a link
WIDE = [pytest.param(link, id=predictions.name(*link)) for link in predictions.QUICK]
MORE = [
    pytest.param(link, id=predictions.name(*link), marks=pytest.mark.only_full)
    for link in predictions.LINKS
    if link not in predictions.QUICK
]


@pytest.fixture(scope="module")
def found() -> list[predictions.Found]:
    """The results of the links so far."""
    return []


@pytest.fixture
def plan(choices: Any) -> list[measured.Asked]:
    return predictions.asked(choices.quick)


@pytest.fixture
def over(plan: list[measured.Asked], say: Callable[[str], None]) -> Callable[..., list[measured.Rounds]]:
    """The measurements of two ranks over a link of a delay and a rate."""

    def measure(delay: float, rate: float) -> list[measured.Rounds]:
        name = predictions.name(delay, rate)
        say(f"two hosts, {name}")
        try:
            return measured.measure(ready_environment("numpy").python, delay, rate, plan, LIMIT)
        except namespaces.NotPermitted as why:
            say(f"not measured: {why}")
            pytest.skip(f"two hosts need network namespaces: {why}")
        except measured.Failed as why:
            pytest.fail(f"{name} was not measured: {why}", pytrace=False)

    return measure


@pytest.mark.benchmark(group="cluster: a step of two workers over a link")
@pytest.mark.parametrize("link", WIDE + MORE)
def test_a_step_over_a_link(
    link: tuple[float, float], over: Any, plan: list[measured.Asked], found: list[predictions.Found], taken: Any
) -> None:
    rounds = over(*link)
    one = predictions.read(*link, plan, rounds)
    found.append(one)
    taken(predictions.figures(one), rounds[-1][0], plan[-1].chain)


@pytest.fixture
def taken(note: Any, replay: Any) -> Callable[..., None]:
    """Notes figures, and replays seconds as the benchmark."""

    def take(figures: list[Any], seconds: list[float], iterations: int) -> None:
        for figure in figures:
            assert note(figure) >= 0
        replay(seconds, iterations)

    return take


def test_what_many_workers_bring(
    found: list[predictions.Found], say: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    """From the measured step, with and without faults, as a table and a picture."""
    if not found:
        pytest.skip("no link was measured")
    folder: Path = request.config.getoption("--scaling")
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    document.write(folder, sorted(found, key=lambda one: (one.delay, one.rate)), machine(), created)
    say(f"scaling: {folder / 'report.md'}")
    assert {file.name for file in folder.iterdir()} >= {"report.md", "scaling.json", "measured.svg", "data-centre.svg"}
