"""The executed placement as a drawing: ops on their executed devices, transfers as edges with bytes and cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from xbackend.backends.placement import UNREAD, BackwardRecord, OpRecord, Placement, TransferRecord
from xbackend.drawing.graph import Box, Edge, Graph, Link, bytes_text, check_size, label
from xbackend.program.program import Program
from xbackend.wording import counted


def executed(program: Program, placement: Placement) -> Graph:
    """The executed graph of a placed program. Raises `UsageError` for a program too large for a drawing."""
    check_size(program)
    records = {record.node: record for record in placement.ops}
    made = {record.node: record for record in placement.transfers if record.node is not None}
    backward: dict[int, list[BackwardRecord]] = {}
    for one in placement.backward:
        backward.setdefault(one.gradient, []).append(one)
    boxes: list[Box] = []
    edges: list[Edge] = []
    place: dict[int, tuple[int, list[str]]] = {}  # value -> its box, and the transfers after that
    for node in program.nodes:
        i = node.outputs[0]
        if node.op == "transfer":
            box, passed = place[node.inputs[0]]
            place[i] = (box, [*passed, _transfer(made.get(i), records.get(i))])
            continue
        edges += [_edge(place[j], len(boxes)) for j in node.inputs]
        place.update(dict.fromkeys(node.outputs, (len(boxes), [])))
        drawn = _box(label(node), node.device or "", records.get(i))
        boxes.append(_with_backward(drawn, [record for k in node.outputs for record in backward.get(k, [])]))
    for number, i in enumerate(program.outputs):
        edges.append(_edge(place[i], len(boxes)))
        device = program.values[i].device or ""
        where = device if place[i][1] else _box("", device, records.get(i)).device
        boxes.append(Box(f"result {number}", where, "result"))
    for target, expression in program.updates.items():
        source, passed = place[expression]
        edges.append(Edge(source, place[target][0], ", ".join(["update", *passed]), "update"))
    return Graph(program.name, tuple(boxes), tuple(edges), _links(placement))


def _edge(place: tuple[int, list[str]], target: int) -> Edge:
    source, passed = place
    return Edge(source, target, ", then ".join(passed), "transfer" if passed else "data")


def _transfer(made: TransferRecord | None, record: OpRecord | None) -> str:
    if made is not None:
        return f"{bytes_text(made.bytes)}, {made.cause}"
    return f"no transfer seen ({record.status})" if record is not None else "no transfer seen"


def _with_backward(box: Box, records: Sequence[BackwardRecord]) -> Box:
    """The box of a gradient; it names the devices of its backward pass, unless that is its own device alone."""
    counts: Counter[str] = Counter()
    for record in records:
        if record.executed is not None:
            moved = f" MOVED from {record.bound}" if record.status == "moved" else ""
            counts[f"{record.executed}{moved}"] += record.count
    if not set(counts) - {box.device}:
        return box
    said = " and ".join(f"{where} ({count})" for where, count in sorted(counts.items()))
    mark = "moved" if any(record.status == "moved" for record in records) else box.mark
    return replace(box, text=f"{box.text}, backward on {said}", mark=mark)


def _box(text: str, device: str, record: OpRecord | None) -> Box:
    if record is None or record.status == "as asked":
        return Box(text, device)
    where = record.executed or device
    if record.status == "moved":
        return Box(f"{text} MOVED, asked for {record.bound}", where, "moved")
    return Box(f"{text} ({record.status})", where, "unread" if record.status in UNREAD else "inside")


def _links(placement: Placement) -> tuple[Link, ...]:
    """The transfers that belong to no op, counted by source, target and cause."""
    sizes: dict[tuple[str, str, str], list[int]] = {}
    for record in placement.transfers:
        if record.node is None:
            sizes.setdefault((record.source, record.target, record.cause), []).append(record.bytes)
    return tuple(
        Link(source, target, f"{counted(len(each), 'transfer')}, {bytes_text(sum(each))}, {cause}")
        for (source, target, cause), each in sizes.items()
    )
