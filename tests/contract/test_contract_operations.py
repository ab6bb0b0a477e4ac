"""Every op with each of its dtypes gives the oracle's dtype, shape and values on every backend."""

from __future__ import annotations

import pytest
from batches import Batch, Check, Host
from operations import BATCHES
from strategies import ELEMENTWISE, TAKES

from xbackend.program.ops import OPS

ALL = [(batch, check) for batch in BATCHES for check in batch.checks]


@pytest.mark.parametrize("batch", BATCHES, ids=[b.name for b in BATCHES])
def test_ops_compile_as_one_program(host: Host, batch: Batch) -> None:
    host.check_whole(batch)


@pytest.mark.parametrize(("batch", "check"), ALL, ids=[c.label for _, c in ALL])
def test_result_of_op(host: Host, batch: Batch, check: Check) -> None:
    host.check(batch, check)


def test_no_op_and_no_dtype_is_left_out() -> None:
    import xbackend as xb

    checked = set()
    for batch in BATCHES:
        for check in batch.checks:
            program = xb.trace(check.function, *check.arguments)
            checked |= {(n.op, program.values[n.inputs[0]].dtype) for n in program.values if n.inputs}
            checked |= {(n.op, n.dtype) for n in program.values if not n.inputs}
    missing = {(op, dtype) for op, dtypes in TAKES.items() for dtype in dtypes} - checked
    assert not missing
    elsewhere = {"shared", "transfer", "grad", "scan", "while_loop", "cond", "all_reduce"}
    assert {op for op, _ in checked} - elsewhere == set(OPS) - elsewhere
    assert set(ELEMENTWISE) < set(OPS)
