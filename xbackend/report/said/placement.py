"""Where ops were asked to run and where they did, counted; transfers with their bytes; what was executed, drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xbackend.analysis.comparison import Comparison, Row
from xbackend.backends.placement import OPS, TRANSFERS, op_rows, transfer_rows
from xbackend.devices import is_device
from xbackend.drawing.graph import Graph
from xbackend.drawing.layered import svg
from xbackend.report.said.blocks import AnyBlock, Bold, Heading, Inline, OnPage, Pictures, paragraph, points, table
from xbackend.results.schema import Evidence
from xbackend.wording import counted, grouped, join

_WHAT = (
    "What the program asked for, and what the backend says that it executed. What differs on several devices is drawn; "
    "xbackend draw --backend draws the rest."
)
_ON_SEVERAL = "On several devices, which ops ran where{}, as far as the framework tells:"
_LEGEND = (
    "coloured by device. A thick outline is an op that moved, a dashed one what was fused or folded, a dotted one what "
    "was not read back; thick arrows are transfers."
)
_CAUSES = (
    "Transfers of one execution. Program: it asks for it. Crossing: an op uses a value of another device. Gradient: a "
    "backward pass goes back. Framework: nobody asked for it."
)
_RAN_ON = OPS.index("executed on")
ShownRows = Sequence[tuple[Row, Evidence]]


def sections(comparisons: Sequence[Comparison], pictures: Pictures) -> list[AnyBlock]:
    """Differences from the placement asked for, in words and drawn; on the page, tables of all. Empty without any."""
    blocks: list[AnyBlock] = []
    lines: list[list[Inline]] = []  # of comparisons without a drawing
    drawn: dict[str, str] = {}  # the shape of a drawing, without sizes -> its comparison
    right = total = 0
    for comparison in comparisons:
        shown = [(row, row.measurement.evidence) for row in comparison.rows if row.measurement.placement]
        other = [(row, evidence) for row, evidence in shown if not evidence.as_asked]
        right, total = right + len(shown) - len(other), total + len(shown)
        title = Heading(3, f"Placement: {comparison.label}")
        if there := [*points(_answers(shown)), *_tables(shown)]:
            if drawings := _drawings(comparison, other, pictures, drawn):
                blocks += [title, *points(_answers(other)), *drawings]
            else:
                there.insert(0, title)
                lines += [[Bold(comparison.label), ": ", *answer] for answer in _answers(other)]
            blocks.append(OnPage("the placement of every op and each transfer", there))
    if len({comparison.workload for comparison in comparisons}) == 1:
        told = [(row, row.measurement.evidence) for c in comparisons for row in c.rows if row.devices > 1]
        ran = [(row, cells) for row, evidence in told for cells in op_rows(evidence) if is_device(cells[_RAN_ON])]
        where = _ON_SEVERAL.format(", of all sizes" if len(comparisons) > 1 else "")
        blocks[:0] = [paragraph(where), *_shared(OPS, ran, ("devices", "ops"))] if ran else []
    said = f"Seen to run as asked, with the transfers of the program alone: {right} of {counted(total, 'row')}."
    return [paragraph(_WHAT), paragraph(said), *points(lines), *blocks] if total else []


def _answers(shown: ShownRows) -> list[list[Inline]]:
    """Whether all ran as asked: each different answer once, with its rows."""
    said = [("; ".join([p.summary(), *p.differences(), *p.notes()]), row.name) for row, p in shown if p.ops]
    return [[f"{words[0].upper()}{words[1:]}: ", join(names)] for words, names in grouped(said).items()]


def _tables(shown: ShownRows) -> list[AnyBlock]:
    ops = [(row, cells) for row, e in shown for cells in op_rows(e)]
    transfers = [(row, cells) for row, e in shown for cells in transfer_rows(e.transfers)]
    causes = [paragraph(_CAUSES)] if transfers else []
    moved = _shared(TRANSFERS, transfers, ("devices", "transfers", "bytes"))
    return [*_shared(OPS, ops, ("devices", "ops")), *causes, *moved]


def _shared(headers: Sequence[str], rows: Iterable[tuple[Row, list[str]]], right: Sequence[str]) -> list[AnyBlock]:
    """Each different row once, after its backends and their number of devices."""
    backends = grouped(dict.fromkeys(((str(row.devices), *cells), row.label) for row, cells in rows))
    each = [[", ".join(names), *cells] for cells, names in backends.items()]
    return [table(("backends", "devices", *headers), each, right)] if each else []


def _drawings(comparison: Comparison, shown: ShownRows, pictures: Pictures, drawn: dict[str, str]) -> list[AnyBlock]:
    """Drawings of executions on several devices; one that is already in ``drawn``, by comparison, is only named."""
    # Of one device a picture in one colour says nothing.
    apart = [(row, e.graph) for row, e in shown if e.differences() and e.graph and len(e.graph.devices) > 1]
    alike = grouped((replace(graph, title=counted(row.devices, "device")), row.name) for row, graph in apart)
    blocks: list[AnyBlock] = []
    for graph, names in alike.items():
        shape, who = comparison.workload + _shape(graph), join(names)
        if shape in drawn:
            blocks.append(paragraph(f"What was executed by {who} looks as drawn for {drawn[shape]}, but for sizes."))
            continue
        drawn[shape] = comparison.label
        title = f"What {who} executed, {comparison.label}"
        image = pictures.add("placement", comparison.workload, svg(graph, title).encode(), title, large=True)
        blocks += [paragraph(f"What was executed by {who}, {_LEGEND}"), image]
    return blocks


def _shape(graph: Graph) -> str:
    texts = re.sub("[0-9]+", "0", str([(box.text, box.mark) for box in graph.boxes]))
    return f"{graph.title} {[box.device for box in graph.boxes]} {texts} {len(graph.edges)} {len(graph.links)}"
