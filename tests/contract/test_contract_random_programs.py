"""Random programs over the whole op set give what the oracle gives; what does not is printed as a small program."""

from __future__ import annotations

import pytest
import tiers
from batches import Host
from differential import EACH, Judged, chunk, report, slope_error, smaller, wrong_ones
from random_programs import ops_of

from xbackend.backends import registry
from xbackend.program.ops import OPS

WHOLE = 500
CHUNKS = range(tiers.share(WHOLE // EACH))
PLACED = 4  # every so many chunks are on several devices

# The ops that a backend's programs are without, and why.
LEFT_OUT: dict[str, dict[str, str]] = {}


def programs_of(number: int, name: str) -> list[Judged]:
    left_out = LEFT_OUT.get(registry.base(name), {})
    return chunk(number, number % PLACED == PLACED - 1, frozenset(left_out))


@pytest.mark.takes_turns
@pytest.mark.parametrize("number", CHUNKS)
def test_random_programs_give_what_the_oracle_gives(host: Host, placed_host: Host, number: int) -> None:
    used = placed_host if number % PLACED == PLACED - 1 else host
    wrong = list(wrong_ones(used, programs_of(number, host.name)))
    assert not wrong, f"{len(wrong)} of {EACH} programs: " + "\n\n".join(report(used, case) for case in wrong[:3])


@pytest.mark.parametrize("number", CHUNKS)
def test_the_oracles_gradients_are_central_differences(number: int) -> None:
    for case in programs_of(number, "numpy"):
        if case.source.wrt and slope_error(case.source) > 1.0:
            small = smaller(case, lambda c: c.source.wrt and slope_error(c.source) > 1.0)
            raise AssertionError(f"{slope_error(small.source)} times what is allowed\n\n{small.source.code}")


def test_every_op_is_in_some_random_program() -> None:
    cases = [case for number in CHUNKS for case in programs_of(number, "numpy")]
    never = set(OPS).difference(*(ops_of(case.case.program) for case in cases))
    assert not never or len(cases) < WHOLE, never
