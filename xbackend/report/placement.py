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
from xbackend.report.blocks import Block, Drawing, Heading, Image, OnPage, bullets, paragraph, tabled
from xbackend.report.pictures import Pictures
from xbackend.results.schema import Evidence
from xbackend.wording import counted, join

# Mermaid draws at most this much: https://mermaid.js.org/config/schema-docs/config.html#maxtextsize
LARGEST_DRAWING = 50_000

_OPS = ("backends", "devices", "asked", "bound to", "executed on", "status", "ops", "which")
_TRANSFERS = ("backends", "devices", "from", "to", "why", "transfers", "bytes")
_LEGEND = (
    "coloured by device; a thick outline is an op that moved, a dashed one what was fused or folded, a dotted one what "
    "was not read back; thick arrows are transfers."
)
_CAUSES = (
    "Transfers of one execution. Program: it asks for it. Crossing: an op uses a value of another device. Gradient: a "
    "backward pass goes back. Framework: nobody asked for it."
)


Drawn = dict[str, str]  # what a drawing shows, sizes aside -> the comparison where it stands
Shown = Sequence[tuple[Row, Evidence]]


def sections(comparisons: Sequence[Comparison], pictures: Pictures) -> list[Block]:
    """The tables of each comparison and the drawings of what was executed; empty if there is no placement."""
    blocks: list[Block] = []
    drawn: Drawn = {}
    for comparison in comparisons:
        shown = [(row, row.measurement.evidence) for row in comparison.rows if row.measurement.placement]
        tables = OnPage("the placement of every op and each transfer", tuple(_tables(shown)))
        pictured = [*_executed(comparison, shown, pictures, drawn), *_drawings(shown)]
        if tables.blocks or pictured:
            blocks += [Heading(3, f"Placement: {comparison.label}"), *_answers(shown), tables, *pictured]
    return blocks


def _answers(shown: Shown) -> list[Block]:
    """Whether all ran as asked, each different answer once with the rows that it holds for."""
    whose: dict[str, list[str]] = {}
    for row, evidence in shown:
        placement = Placement(evidence.ops, evidence.transfers, evidence.backward)
        if placement.ops:
            whose.setdefault("; ".join([placement.summary(), *placement.differences()]), []).append(row.name)
    return (
        [bullets(*((f"{said[0].upper()}{said[1:]}: ", join(names)) for said, names in whose.items()))] if whose else []
    )


def _tables(shown: Shown) -> list[Block]:
    ops = _shared([(row, cells) for row, e in shown for cells in (*_op_rows(e.ops), *_backward_rows(e.backward))])
    transfers = _shared([(row, cells) for row, e in shown for cells in _transfer_rows(e.transfers)])
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
    return [[*key, str(count.total()), _which(count)] for key, count in counts.items()]


def _backward_rows(records: Sequence[BackwardRecord]) -> list[list[str]]:
    """The ops of the backward passes: nobody asks for their devices, which follow from those of the forward ops."""
    counts: Counter[tuple[str, ...]] = Counter()
    for r in records:
        counts[r.bound or "no device", r.executed or "not told", r.status] += r.count
    return [["by its forward op", *key, str(n), "in backward passes"] for key, n in counts.items()]


def _which(ops: Counter[str]) -> str:
    return ", ".join(f"{op} {count}x" if count > 1 else op for op, count in ops.items())


def _transfer_rows(transfers: Sequence[TransferRecord]) -> list[list[str]]:
    routes: dict[tuple[str, ...], list[TransferRecord]] = {}
    for transfer in transfers:
        routes.setdefault((transfer.source, transfer.target, transfer.cause), []).append(transfer)
    return [[*route, str(len(made)), bytes_text(sum(t.bytes for t in made))] for route, made in routes.items()]


def _drawings(shown: Shown) -> list[Block]:
    """Each program once, with those who ran it: results of version 1 hold no more."""
    drawn: dict[str, list[str]] = {}
    for row, evidence in shown:
        if evidence.drawing:
            drawn.setdefault(evidence.drawing, []).append(row.name)
    blocks: list[Block] = []
    for drawing, names in drawn.items():
        whose = "all" if len(names) == len(shown) else join(names)
        if len(drawing) > LARGEST_DRAWING:
            blocks.append(paragraph(f"The program of {whose} is too large to be drawn."))
        else:
            blocks += [paragraph(f"The program of {whose}:"), Drawing(drawing)]
    return blocks


def _executed(comparison: Comparison, shown: Shown, pictures: Pictures, drawn: Drawn) -> list[Block]:
    """What was executed, on the fewest and on the most devices side by side; each different picture once.

    ``drawn`` is what earlier comparisons have drawn, and is added to.
    """
    backends: dict[str, dict[int, Graph]] = {}
    for row, evidence in shown:
        if evidence.graph is not None:
            graph = replace(evidence.graph, title=counted(row.devices, "device"))
            backends.setdefault(row.label, {})[row.devices] = graph
    alike: dict[tuple[Graph, ...], list[str]] = {}
    for backend, graphs in backends.items():
        ends = dict.fromkeys([min(graphs), max(graphs)])
        alike.setdefault(tuple(graphs[devices] for devices in ends), []).append(backend)
    for key in list(alike):
        wider = next((other for other in alike if other != key and set(key) <= set(other)), None)
        if wider is not None:  # what was executed on fewer numbers of devices is part of another picture
            alike[wider] += alike.pop(key)
    blocks: list[Block] = []
    for key, names in alike.items():
        shape = comparison.workload + "".join(map(_shape, key))
        whose = "all" if len(alike) == 1 else join(names)
        if all(len(graph.devices) == 1 for graph in key):
            continue  # the answer above says all that a picture in one colour would
        if shape in drawn:
            blocks.append(paragraph(f"What was executed by {whose} looks as drawn for {drawn[shape]}, but for sizes."))
            continue
        drawn[shape] = comparison.label
        blocks += _picture(comparison, key, whose, pictures)
    return blocks


def _shape(graph: Graph) -> str:
    """What a drawing shows, sizes aside."""
    texts = re.sub("[0-9]+", "0", str([(box.text, box.mark) for box in graph.boxes]))
    return f"{graph.title} {[box.device for box in graph.boxes]} {texts} {len(graph.edges)} {len(graph.links)}"


def _picture(comparison: Comparison, graphs: Sequence[Graph], whose: str, pictures: Pictures) -> list[Block]:
    title = f"What {whose} executed, {comparison.label}: {' beside '.join(graph.title for graph in graphs)}"
    file = pictures.add("placement", comparison.workload, svg(graphs, title).encode())
    return [paragraph(f"What was executed by {whose}, {_LEGEND}"), Image(file, title, large=True)]
