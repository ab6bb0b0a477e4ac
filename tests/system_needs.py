"""What tests need of the operating system.

On a system with known packages (`xbackend doctor --install --tests` installs them) a test fails without them. On
another system it is skipped with the reason, and the last line of the run says what was not tested.
"""

from __future__ import annotations

import functools
from collections import Counter

import pytest
import tiers

from xbackend.backends import registry, system
from xbackend.environments import recipes

_OF_TESTS = {"browser": (system.BROWSER,), "hosts": system.HOSTS}
LACKS = "this system lacks what Debian calls "


@functools.cache
def missing_for(need: str) -> tuple[str, ...]:
    """The missing packages for a backend, or for a need of ``@pytest.mark.needs``."""
    if need in _OF_TESTS:
        return system.missing(_OF_TESTS[need])
    entry = registry.get(need)
    python = recipes.recipe(entry.environment).python
    return system.missing(entry.system, str(python), python.include)


def leave_out(items: list[pytest.Item]) -> None:
    """Skip tests that cannot run here, if no command would help."""
    if system.is_known():
        return
    for item in items:
        backend = tiers.backend_of(item)
        needs = [backend] if backend is not None else []
        needs += [need for mark in item.iter_markers("needs") for need in mark.args]
        lacking = dict.fromkeys(package for need in needs for package in missing_for(need))
        if lacking:
            item.add_marker(pytest.mark.skip(reason=LACKS + ", ".join(lacking)))


def not_tested(config: pytest.Config) -> str:
    """One line about the skipped tests; empty if there are none."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter is not None else []
    reasons = (report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple))
    count = Counter(reason.partition(LACKS)[2] for reason in reasons if LACKS in reason)
    parts = [f"{number} tests without {lacking}" for lacking, number in count.items()]
    return f"not tested, because xbackend knows no packages of this system: {'; '.join(parts)}" if parts else ""
