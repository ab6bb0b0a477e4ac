"""Random programs over the whole op set give the oracle's results. A wrong one is printed as a small program."""

from __future__ import annotations

from itertools import product

import expected_failures
import pytest
import tiers
from batches import Host
from differential import Judged, chunk, report, script, slope_error, smaller, wrong_ones
from random_programs import ops_of

from xbackend.backends import registry
from xbackend.program.ops import OPS

CHUNKS = range(20)
FEW = 2  # in the standard tier
NUMBERS = [pytest.param(i, marks=[] if i < FEW else pytest.mark.tier("exhaustive")) for i in CHUNKS]
LINES, LINES_SLOW = (4, 14), (2, 5)  # of a program, and on the backends of `tiers.SLOW`
# Programs of a test, unless the backend is named: 5 to 40 seconds for each, and two where Aesara calls JAX. Of the
# exhaustive tier's own tests a quarter.
EACH = {"aesara-jax": 10, **dict.fromkeys(tiers.COMPILED, 10), **dict.fromkeys(tiers.LONGEST, 5)}
PLACED = 3  # one of so many chunks is on several devices

# Ops that a backend's programs lack besides those expected to fail.
LEFT_OUT: dict[str, dict[str, str]] = {
    "theano-gpuarray": {
        "take_set": "what one number of a vector is set to is written by the host: see the expected failures",
        "digamma": "in single precision the worker ends by SIGSEGV: see the expected failures",
    },
    "pytensor-mlx": {
        "digamma": "it has no gradient: see the expected failures",
        "qr": "the complete one is refused: PyTensor has none for MLX",
    },
}
# The same for programs on several devices.
LEFT_OUT_PLACED: dict[str, dict[str, str]] = {
    "tensorflow-xla": {
        "scan": "what a loop keeps for its gradient cannot leave a function of XLA: see the expected failures",
        "cond": "nor can what a choice keeps for its second gradient: XLA has no OptionalFromValue",
    }
}


def left_out(name: str, placed: bool = False) -> frozenset[str]:
    """The ops missing from a backend's programs: those that it does not have at all."""
    labels = {op: (op, f"{op}-float64", f"{op}_of_stack-float64") for op in OPS}
    tests = ("test_result_of_op", "test_control_flow")
    missing = {
        op
        for op, expected in product(OPS, expected_failures.of(name))
        if any(expected.matches(test, label) for test, label in product(tests, labels[op]))
    }
    known = [LEFT_OUT, LEFT_OUT_PLACED] if placed else [LEFT_OUT]
    return frozenset(missing.union(*(ops.get(registry.base(name), {}) for ops in known)))


def programs_of(number: int, name: str) -> list[Judged]:
    placed, base = number % PLACED == 1, registry.base(name)
    lines = LINES_SLOW if base in tiers.SLOW else LINES
    programs = chunk(number, placed, left_out(name, placed), lines)
    if name in tiers.named or base not in EACH:
        return programs
    return programs[: EACH[base] if number < FEW else max(1, EACH[base] // 4)]


@pytest.mark.variant  # the C of four programs takes minutes
@pytest.mark.shared_out
@pytest.mark.parametrize("number", NUMBERS)
def test_random_programs_give_what_the_oracle_gives(host: Host, placed_host: Host, number: int) -> None:
    used = placed_host if number % PLACED == 1 else host
    wrong = list(wrong_ones(used, programs_of(number, host.name)))
    assert not wrong, f"{len(wrong)} programs: " + "\n\n".join(report(used, case) for case in wrong[:3])


@pytest.mark.parametrize("number", NUMBERS)
def test_the_oracles_gradients_are_central_differences(number: int) -> None:
    for case in programs_of(number, "numpy"):
        if slope_error(case.case) > 1.0:
            small = smaller(case, lambda c: slope_error(c.case) > 1.0)
            raise AssertionError(f"{slope_error(small.case)} times what is allowed\n\n{script(small)}")


@pytest.mark.tier("exhaustive")
def test_every_op_is_in_some_random_program() -> None:
    drawn = (chunk(number, number % PLACED == 1, left_out("numpy"), LINES) for number in CHUNKS)
    assert not set(OPS).difference(*(ops_of(case.case.program) for cases in drawn for case in cases))
