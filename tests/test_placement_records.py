"""Placement records from an adapter's data, without a framework."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.backends.executed_graph import executed
from xbackend.backends.placement import (
    Backward,
    BackwardRecord,
    Executed,
    Execution,
    OpRecord,
    Placement,
    TransferRecord,
    _backward_rows,
    merge,
)
from xbackend.devices import Device
from xbackend.errors import PlacementError
from xbackend.program.binding import Placed, bind
from xbackend.results.schema import Evidence

CPU0, CPU1 = Device("cpu", 0), Device("cpu", 1)


def placed() -> Placed:
    def function(x: Any) -> Any:
        with xb.device("cpu:0"):
            y = xb.tanh(x)
        with xb.device("cpu:1"):
            return xb.grad(xb.sum(y), x), xb.concat([xb.zeros((4,))[:2], y])

    return bind(xb.trace(function, xb.ArraySpec((3,), "float64")), xb.DeviceMap({}), [CPU0, CPU1], CPU0)


def node(of: Placed, op: str) -> int:
    return next(i for i, n in enumerate(of.program.values) if n.op == op)


def test_what_depends_on_constants_only_and_was_not_seen_is_folded() -> None:
    of = placed()
    (piece,) = (r for r in merge(of, Execution({})).ops if r.op == "slice")
    assert piece.status == "folded" and piece.evidence.startswith("it depends on constants only: ")
    (joined,) = (r for r in merge(of, Execution({})).ops if r.op == "concat")
    assert joined.status == "not read"


def test_a_transfer_that_went_elsewhere_is_in_the_summary() -> None:
    add = OpRecord(0, "add", "cpu:0", "cpu:0", "cpu:0", "", "", "as asked")
    transfer = OpRecord(1, "transfer", "cpu:1", "cpu:1", "cpu:0", "", "", "moved")
    assert Placement((add, transfer), (), ()).summary() == "1 of 2 ops as asked, 1 MOVED"
    assert Placement((add, transfer), (), ()).differences() == [
        "transfer (node 1) asked for cpu:1 = cpu:1, ran on cpu:0"
    ]


def test_a_backward_op_is_bound_to_the_device_of_its_forward_op() -> None:
    of = placed()
    gradient, way = node(of, "grad"), node(of, "transfer")
    found = [
        Backward(gradient, node(of, "sum"), None, CPU1, "a"),
        Backward(gradient, way, None, CPU0, "b"),  # a transfer goes back
        Backward(gradient, None, CPU0, CPU0, "c"),
        Backward(gradient, None, CPU0, CPU0, "c"),
        Backward(gradient, None, None, CPU1, "d"),  # not bound to a device
    ]
    placement = merge(of, Execution({}, (), tuple(found)))
    placement.check()
    assert [(r.framework_op, r.bound, r.executed, r.status, r.count) for r in placement.backward] == [
        ("a", "cpu:1", "cpu:1", "as asked", 1),
        ("b", "cpu:0", "cpu:0", "as asked", 1),
        ("c", "cpu:0", "cpu:0", "as asked", 2),
        ("d", None, "cpu:1", "as asked", 1),
    ]
    assert f"backward op for the gradient at node {gradient} (c, 2 times): bound to cpu:0" in placement.listing()
    (box,) = (b for b in executed(of.program, placement).boxes if b.text.startswith("grad"))
    assert box.text.endswith(", backward on cpu:0 (3) and cpu:1 (2)")
    assert ["by its forward op", "cpu:0", "cpu:0", "as asked", "3", "in backward passes"] in _backward_rows(
        placement.backward
    )


def test_a_backward_op_elsewhere_is_an_error_and_shown() -> None:
    of = placed()
    tanh = node(of, "tanh")
    placement = merge(of, Execution({}, (), (Backward(node(of, "grad"), tanh, None, CPU1, "theirs"),)))
    with pytest.raises(
        PlacementError, match=rf"backward op of node {tanh} .* \(theirs, .*:\d+\) bound to cpu:0, ran on cpu:1"
    ):
        placement.check()
    (box,) = (b for b in executed(of.program, placement).boxes if b.text.startswith("grad"))
    assert box.text.endswith(", backward on cpu:1 MOVED from cpu:0 (1)")


def test_a_backward_pass_without_a_word_is_not_read_and_one_without_ops_is_folded() -> None:
    of = placed()
    (record,) = merge(of, Execution({})).backward
    assert (record.status, record.gradient, record.executed) == ("not read", node(of, "grad"), None)
    assert "does not tell" in record.evidence
    (record,) = merge(of, Execution({node(of, "grad"): Executed(CPU0)})).backward
    assert record.status == "folded" and record.evidence


def test_numpy_has_no_devices_and_says_so() -> None:
    with registry.get("numpy").load(Settings(virtual_devices=2)) as backend:
        of = backend.compile(placed().program, devices={})
        assert [r.status for r in of.placement.backward] == ["not read"]
        of(np.ones(3))
        of.placement.check()
        read = (*of.placement.ops, *of.placement.backward)
        assert {(r.executed, r.status) for r in read} == {(None, "nothing to read"), (None, "folded")}
        assert {r.bound for r in of.placement.backward} == {"cpu:0", "cpu:1"}
        assert "tanh float64[3] (nothing to read)" in of.draw() and "backward on" not in of.draw()
        said = str(of.placement)
        assert re.fullmatch(r"of \d+ ops none is read back: NumPy has no devices, \d transfers? \(\d+ bytes\)", said)


def records(*statuses: str, **fields: Any) -> tuple[OpRecord, ...]:
    """A record of each status, for ops on different lines."""
    ran = {"as asked": "cpu:1", "moved": "cpu:0"}
    return tuple(
        replace(OpRecord(i, "matmul", "dev1", "cpu:1", ran.get(status), "", "", status, f"model.py:{i}"), **fields)
        for i, status in enumerate(statuses)
    )


def test_a_placement_answers_yes_with_what_was_fused_and_transferred() -> None:
    moved = TransferRecord(3, "cpu:0", "cpu:1", 6 << 20, "crossing", "", "")
    back = BackwardRecord(1, 0, "cpu:1", "cpu:1", "Dot", "", "as asked", 20)
    placement = Placement(records(*["as asked"] * 3, *["fused"] * 2, "folded"), (moved, moved), (back,))
    assert str(placement) == (
        "all 26 ops as asked (2 of them fused into others, 1 of them folded away while compiling), backward ops "
        "included, 2 transfers (12 MiB)"
    )
    assert str(Placement(records("as asked"), ())) == "all 1 op as asked"


def test_transfers_of_accelerators_say_which_memories_they_are_between() -> None:
    ways = {
        ("gpu:0", "gpu:1"): "between GPUs",
        ("cpu:1", "gpu:0"): "from the host",
        ("gpu:1", "cpu:0"): "to the host",
        ("gpu:1", "gpu:1"): "within a GPU",
        ("gpu:0", "tpu:1"): "between GPUs and TPUs",
        ("cpu:0", "cpu:1"): "",
        ("cpu:0", "cpu:0"): "",
        ("a shelf", "gpu:0"): "",
        ("/job:worker/task:0/gpu:0", "/job:worker/task:1/gpu:0"): "between processes",
        ("/job:ps/task:0/cpu:0", "/job:worker/task:0/cpu:0"): "between processes",
    }
    moved = {ends: TransferRecord(None, *ends, 8, "crossing", "", "") for ends in ways}
    assert {ends: transfer.way for ends, transfer in moved.items()} == ways
    twice = [moved["gpu:0", "gpu:1"]] * 2
    placement = Placement((), (*twice, moved["gpu:1", "cpu:0"], moved["cpu:0", "cpu:1"]))
    assert "4 transfers (32 bytes: 2 between GPUs, 1 to the host)" in placement.summary()


def test_a_placement_answers_no_with_the_users_lines() -> None:
    back = BackwardRecord(1, 0, "cpu:1", "cpu:0", "Dot", "", "moved", 2, "model.py:9")
    own = TransferRecord(None, "cpu:0", "cpu:1", 8, "framework", "", "")
    placement = Placement(records("as asked", "moved", "not read"), (own,), (back,))
    assert str(placement).split("\n") == [
        "1 of 5 ops as asked, 3 MOVED, 1 transfer (8 bytes)",
        "matmul (node 1, model.py:1) asked for dev1 = cpu:1, ran on cpu:0",
        "backward op of node 0 for the gradient at node 1 (Dot, model.py:9) bound to cpu:1, ran on cpu:0",
        "not read back: matmul (node 2, model.py:2)",
        "of the framework's own: 1 transfer (8 bytes) cpu:0 -> cpu:1",
    ]
    many = Placement(records(*["moved"] * 9), ())
    assert str(many).endswith("\nand 4 more that ran elsewhere")
    with pytest.raises(PlacementError, match=r"matmul \(node 0, model.py:0\) .*, and 4 more; compile with"):
        many.check()


def test_what_was_not_read_back_is_no_proof() -> None:
    """With one device, say, nothing tells where an op ran."""
    why = {"evidence": "there is one device"}
    placement = Placement(records(*["nothing to read"] * 2, "folded", **why), ())
    placement.check()
    assert str(placement) == "of 3 ops none is read back: there is one device"
    assert "executed ?, nothing to read" in placement.listing()
    moved = Placement(records("nothing to read", "moved", **why), ())
    assert moved.summary() == "0 of 2 ops as asked, 1 MOVED"


def test_before_a_call_nothing_is_known_and_nothing_is_claimed() -> None:
    said = str(Placement(records("not read", "not read", "folded"), ()))
    assert said == "of 3 ops none is read back: nothing was executed yet, or the framework does not tell"


def test_the_users_lines_are_stored_of_what_differs_only() -> None:
    stored = Placement(records("as asked", "fused", "moved", "not read"), ()).to_dict()["ops"]
    assert [record.get("source") for record in stored] == [None, None, "model.py:2", "model.py:3"]
    assert msgspec.convert({"ops": stored, "transfers": []}, Evidence).ops[2].source == "model.py:2"


def test_stored_placements_from_before_have_no_backward_ops() -> None:
    of = placed()
    data = merge(of, Execution({}, (), (Backward(node(of, "grad"), None, CPU0, CPU0, "c"),))).to_dict()
    read = msgspec.convert(data, Evidence)
    assert [r.framework_op for r in read.backward] == ["c"]
    del data["backward"]
    assert msgspec.convert(data, Evidence) == replace(read, backward=())
