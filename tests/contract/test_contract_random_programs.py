"""Random programs give what the oracle gives."""

from __future__ import annotations

from typing import Any

import pytest
from batches import ORACLE, Host
from hypothesis import HealthCheck, Phase, given, settings
from strategies import Case, programs
from tolerances import CHAIN, check_equal

pytestmark = pytest.mark.takes_turns

# Each example is compiled, which takes seconds on some backends, so there are few and they are the same each time.
FEW = settings(
    max_examples=5,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [leaf for part in result.values() for leaf in leaves(part)]
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def test_random_programs_give_what_the_oracle_gives(host: Host) -> None:
    @FEW
    @given(programs(tame=True, largest=15))
    def agree(case: Case) -> None:
        run, reference = host.backend.compile(case.program), ORACLE.backend.compile(case.program)
        for _ in range(2):  # the second time with the state that the first one left
            got, want = leaves(run(*case.arguments)), leaves(reference(*case.arguments))
            for a, b in zip(got, want, strict=True):
                check_equal(a, b, "array", CHAIN)
            for w in case.shared:
                check_equal(host.backend.get_value(w), ORACLE.backend.get_value(w), "array", CHAIN)

    agree()
