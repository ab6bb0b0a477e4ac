"""Where ops were asked to run and where they did, counted; transfers with their bytes; what was executed, drawn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from xbackend.analysis.comparison import Comparison, Row
from xbackend.backends.placement import BackwardRecord, OpRecord, Placement, TransferRecord
from xbackend.drawing.graph import Graph, bytes_text
from xbackend.drawing.layered import svg
from xbackend.report.said.blocks import Block, Heading, OnPage, Pictures, paragraph, points, tabled
from xbackend.results.schema import Evidence
from xbackend.wording import counted, join

_OPS = ("backends", "devices", "asked", "bound to", "executed on", "status", "ops", "which")
_TRANSFERS = ("backends", "devices", "from", "to", "why", "transfers", "bytes")
_WHAT = (
    "What the program asked for, and what the backend says that it executed. What differs on several devices is drawn; "
    "xbackend draw --backend draws the rest."
)
_LEGEND = (
    "coloured by device; a thick outline is an op that moved, a dashed one what was fused or folded, a dotted one what "
    "was not read back; thick arrows are transfers."
)
_CAUSES = (
    "Transfers of one execution. Program: it asks for it. Crossing: an op uses a value of another device. Gradient: a "
    "backward pass goes back. Framework: nobody asked for it."
)


Shown = Sequence[tuple[Row, Placement, Evidence]]


def sections(comparisons: Sequence[Comparison], pictures: Pictures) -> list[Block]:
    """What differs from what was asked for, in words and drawn; that the rest is as asked, and on the page the tables
    of all. Empty if there is no placement."""
    blocks: list[Block] = []
    drawn: dict[str, str] = {}  # what a drawing shows, sizes aside -> the comparison where it stands
    right = total = 0
    for comparison in comparisons:
        shown = _shown(comparison)
        other = [one for one in shown if not one[1].as_asked]
        right, total = right + len(shown) - len(other), total + len(shown)
        title = Heading(3, f"Placement: {comparison.label}")
        there = [*_answers(shown), *_tables(shown)]
        if other:
            blocks += [title, *_answers(other), *_drawings(comparison, other, pictures, drawn)]
        if there:
            blocks.append(OnPage("the placement of every op and each transfer", (*([] if other else [title]), *there)))
    said = f"Seen to run as asked, with the transfers of the program alone: {right} of {counted(total, 'row')}."
    return [paragraph(_WHAT), paragraph(said), *blocks] if total else []


def _shown(comparison: Comparison) -> Shown:
    evidence = [(row, row.measurement.evidence) for row in comparison.rows if row.measurement.placement]
    return [(row, Placement(e.ops, e.transfers, e.backward), e) for row, e in evidence]


def _answers(shown: Shown) -> list[Block]:
    """Whether all ran as asked, each different answer once with the rows that it holds for."""
    whose: dict[str, list[str]] = {}
    for row, placement, _ in shown:
        if placement.ops:
            whose.setdefault("; ".join([placement.summary(), *placement.differences()]), []).append(row.name)
    return points((f"{said[0].upper()}{said[1:]}: ", join(names)) for said, names in whose.items())


def _tables(shown: Shown) -> list[Block]:
    ops = _shared([(row, cells) for row, _, e in shown for cells in (*_op_rows(e.ops), *_backward_rows(e.backward))])
    transfers = _shared([(row, cells) for row, _, e in shown for cells in _transfer_rows(e.transfers)])
    causes = [paragraph(_CAUSES)] if transfers else []
    moved = tabled(_TRANSFERS, transfers, right=("devices", "transfers", "bytes"))
    return [*tabled(_OPS, ops, right=("devices", "ops")), *causes, *moved]


def _shared(rows: Sequence[tuple[Row, list[str]]]) -> list[list[str]]:
    """Each different row once, after the backends and the number of devices that it holds for."""
    backends: dict[tuple[str, ...], list[str]] = {}
    for row, cells in rows:
        backends.setdefault((str(row.devices), *cells), []).append(row.label)
    return [[", ".join(names), *key] for key, names in backends.items()]


def _op_rows(ops: Sequence[OpRecord]) -> list[list[str]]:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for op in ops:
        key = (op.asked or "the default", op.bound, op.executed or "not told", op.status)
        counts.setdefault(key, Counter())[op.op] += 1
    each = [(key, of, [f"{op} {n}x" if n > 1 else op for op, n in of.items()]) for key, of in counts.items()]
    return [[*key, str(of.total()), ", ".join(which)] for key, of, which in each]


def _backward_rows(records: Sequence[BackwardRecord]) -> list[list[str]]:
    """The ops of the backward passes: nobody asks for their devices, which follow from those of the forward ops."""
    counts: Counter[tuple[str, ...]] = Counter()
    for r in records:
        counts[r.bound or "no device", r.executed or "not told", r.status] += r.count
    return [["by its forward op", *key, str(n), "in backward passes"] for key, n in counts.items()]


def _transfer_rows(transfers: Sequence[TransferRecord]) -> list[list[str]]:
    routes: dict[tuple[str, ...], list[TransferRecord]] = {}
    for transfer in transfers:
        routes.setdefault((transfer.source, transfer.target, transfer.cause), []).append(transfer)
    return [[*route, str(len(made)), bytes_text(sum(t.bytes for t in made))] for route, made in routes.items()]


def _drawings(comparison: Comparison, shown: Shown, pictures: Pictures, drawn: dict[str, str]) -> list[Block]:
    """What was executed on several devices; a picture that is in ``drawn``, by comparison, is there already."""
    alike: dict[Graph, list[str]] = {}
    for row, placement, evidence in shown:
        # Of one device a picture in one colour says nothing.
        if placement.differences() and evidence.graph is not None and len(evidence.graph.devices) > 1:
            graph = replace(evidence.graph, title=counted(row.devices, "device"))
            alike.setdefault(graph, []).append(row.name)
    blocks: list[Block] = []
    for graph, names in alike.items():
        shape = comparison.workload + _shape(graph)
        if shape in drawn:
            like = f"What was executed by {join(names)} looks as drawn for {drawn[shape]}, but for sizes."
            blocks.append(paragraph(like))
            continue
        drawn[shape] = comparison.label
        title = f"What {join(names)} executed, {comparison.label}"
        image = pictures.add("placement", comparison.workload, svg([graph], title).encode(), title, large=True)
        blocks += [paragraph(f"What was executed by {join(names)}, {_LEGEND}"), image]
    return blocks


def _shape(graph: Graph) -> str:
    """What a drawing shows, sizes aside."""
    texts = re.sub("[0-9]+", "0", str([(box.text, box.mark) for box in graph.boxes]))
    return f"{graph.title} {[box.device for box in graph.boxes]} {texts} {len(graph.edges)} {len(graph.links)}"
