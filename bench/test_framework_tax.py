"""What xbackend's call costs over the call that a user of the framework writes by hand, in the same process.

A figure that is not reached is shown as such and fails nothing; one that cannot be measured fails.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.figure("product")
def test_call_on_2x2(backend: str, replay_part: Any, benchmark: Any) -> None:
    benchmark.group = "framework tax: a call on 2x2 arrays"
    assert replay_part("product", backend) > 0


@pytest.mark.figure("powers")
def test_powers_at_1024(backend: str, replay_part: Any, benchmark: Any) -> None:
    benchmark.group = "framework tax: A^10 + B^10 at 1024x1024"
    assert replay_part("powers", backend) > 0


@pytest.mark.only_full
@pytest.mark.figure("loop")
def test_loop_of_10000_steps(backend: str, replay_part: Any, benchmark: Any) -> None:
    benchmark.group = "framework tax: a loop of 10 000 small steps"
    assert replay_part("loop", backend) > 0


@pytest.mark.only_full
@pytest.mark.figure("step")
def test_step_of_training(backend: str, replay_part: Any, benchmark: Any) -> None:
    benchmark.group = "framework tax: a step of training"
    assert replay_part("step", backend) > 0


@pytest.mark.only_full
@pytest.mark.figure("building")
def test_many_operations_to_their_first_result(backend: str, replay_part: Any, benchmark: Any) -> None:
    """Of 1 000 operations, with ``--thorough`` of 5 000."""
    benchmark.group = "framework tax: many operations, to their first result"
    assert replay_part("building", backend) > 0
