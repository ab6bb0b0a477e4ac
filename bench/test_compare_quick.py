"""How long the quick comparison of all backends takes."""

from __future__ import annotations

from typing import Any

import pytest

from overhead import targets
from xbackend.backends import registry
from xbackend.cli import users
from xbackend.measure import session
from xbackend.measure.plan import PRESETS

pytestmark = pytest.mark.every_backend


def test_compare_quick(choices: Any, say: Any, note: Any, benchmark: Any, replay: Any) -> None:
    benchmark.group = "quick comparison of all backends"
    targets.install(registry.names(), say)
    cases = users.cases("matpow", None, {}, quick=True, seed=choices.seed)
    results = session.compare(cases, quick=True, seed=choices.seed, on_progress=say)
    assert {row.status for row in results.measurements} == {"ok"}
    seconds = results.settings.seconds
    assert note(targets.quick_comparison(seconds, PRESETS["quick"].most.processes, 1)) > 0
    replay([seconds])
