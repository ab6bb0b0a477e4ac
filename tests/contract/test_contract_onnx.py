"""The checks of all ops, loops and choices as files of ONNX: the package's evaluator gives NumPy's results, with signs
of zeros, infinities and NaN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from batches import ORACLE, Batch, Check
from control_flow import BATCHES as LOOPS
from onnx_runs import evaluated
from operations import BATCHES
from random_programs import ops_of
from tolerances import check_equal

import xbackend as xb
from xbackend.bring.onnx.walk import refusal
from xbackend.errors import XBackendError
from xbackend.program.ops import OPS

pytestmark = pytest.mark.tier("standard")


def written(check: Check) -> bool:
    """Whether ONNX has the ops of a check."""
    try:
        program = xb.trace(check.function, *check.arguments)
    except XBackendError:  # a gradient that does not exist
        return False
    return not any(map(refusal, ops_of(program)))


def together(checks: Sequence[Check]) -> tuple[Any, list[np.ndarray]]:
    """One program with a result for each check, and its distinct arguments."""
    arrays = list({id(a): a for check in checks for a in check.arguments}.values())
    place = {id(a): i for i, a in enumerate(arrays)}

    def each(*inputs: Any) -> Any:
        return [check.function(*(inputs[place[id(a)]] for a in check.arguments)) for check in checks]

    return xb.trace(each, *arrays), arrays


def chosen(batch: Batch) -> list[Check]:
    """The checks of a batch in this tier that ONNX can express, without large arrays: the evaluator is slow."""
    whole = tiers.chosen == tiers.TIERS[-1]
    return [
        check
        for check in batch.checks
        if (whole or check.core) and max(a.size for a in check.arguments) < 10**5 and written(check)
    ]


def test_each_op_is_what_it_is_with_numpy(tmp_path: Path) -> None:
    checks = {batch.name: chosen(batch) for batch in (*BATCHES, *LOOPS)}
    checks = {name: some for name, some in checks.items() if some}
    found = evaluated({name: together(some) for name, some in checks.items()}, tmp_path)
    wrong = [f"{name}: {said}" for name, said in found.items() if isinstance(said, str)]
    for name, some in checks.items():
        for check, got in zip(some, [] if isinstance(found[name], str) else found[name], strict=not wrong):
            try:
                check_equal(got, np.asarray(ORACLE.result(check)), check.rule, check.limits)
            except AssertionError as error:
                wrong.append(f"{check.label}: {error}")
    assert not wrong, "\n".join(wrong)
    ops = {op for some in checks.values() for op in ops_of(together(some)[0])}
    assert {op for op in OPS if not refusal(op)} - ops == {"shared"}
