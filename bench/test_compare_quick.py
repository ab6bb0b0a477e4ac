"""How long the quick comparison of all backends takes. `test_matpow.py` does just that, unless told otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from overhead import targets
from xbackend.backends import registry
from xbackend.measure import session
from xbackend.measure.plan import PRESETS

pytestmark = pytest.mark.every_backend


@pytest.fixture(scope="session")
def seconds(request: pytest.FixtureRequest, choices: Any, is_quick_comparison: bool, say: Any) -> float:
    if is_quick_comparison:
        recorded = request.getfixturevalue("recorded")
        if len(recorded.candidates) == len(registry.names()):
            found: float = recorded.session.seconds
            return found
    targets.install(registry.names(), say)
    found = session.compare(quick=True, seed=choices.seed, on_progress=say).settings.seconds
    return found


def test_compare_quick(seconds: float, note: Any, benchmark: Any, replay: Any) -> None:
    benchmark.group = "quick comparison of all backends"
    assert note(targets.quick_comparison(seconds, PRESETS["quick"].processes, 1)) > 0
    replay([seconds])
