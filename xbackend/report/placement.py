"""Where ops were asked to run and where they did, counted; transfers with their bytes; the drawn program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from xbackend.backends.placement import OpRecord, TransferRecord
from xbackend.report import text
from xbackend.report.blocks import Block, Drawing, paragraph, table
from xbackend.report.candidates import Candidate, Group

# Mermaid draws at most this much: https://mermaid.js.org/config/schema-docs/config.html#maxtextsize
LARGEST_DRAWING = 50_000

_OPS = ("backends", "devices", "asked", "bound to", "executed on", "status", "ops", "which")
_TRANSFERS = ("backends", "devices", "from", "to", "why", "transfers", "bytes")
_CAUSES = (
    "Transfers of one execution. Program: it asks for it. Crossing: an op uses a value of another device. Gradient: a "
    "backward pass goes back. Framework: nobody asked for it."
)


class Evidence(msgspec.Struct, frozen=True):
    """The placement of an executable as results hold it; ``drawing`` is the program in the language of Mermaid."""

    ops: tuple[OpRecord, ...] = ()
    transfers: tuple[TransferRecord, ...] = ()
    drawing: str = ""


def sections(group: Group) -> list[Block]:
    """The tables of a group and the programs that were drawn; empty if no candidate has a placement."""
    found: list[tuple[Candidate, Evidence]] = []
    blocks: list[Block] = []
    for candidate in group.candidates:
        if not candidate.measurement.placement:
            continue
        try:
            found.append((candidate, msgspec.convert(candidate.measurement.placement, Evidence)))
        except msgspec.ValidationError as error:
            blocks.append(paragraph(f"The placement of {candidate.name} cannot be read: {error}."))
    ops = _shared([(c, row) for c, evidence in found for row in _op_rows(evidence.ops)])
    if ops:
        blocks.append(table(_OPS, ops, right=("devices", "ops")))
    transfers = _shared([(c, row) for c, evidence in found for row in _transfer_rows(evidence.transfers)])
    if transfers:
        blocks.append(paragraph(_CAUSES))
        blocks.append(table(_TRANSFERS, transfers, right=("devices", "transfers", "bytes")))
    return blocks + _drawings(found)


def _shared(rows: Sequence[tuple[Candidate, list[str]]]) -> list[list[str]]:
    """Each different row once, after the backends and the number of devices that it holds for."""
    backends: dict[tuple[str, ...], list[str]] = {}
    for candidate, row in rows:
        key = (str(candidate.measurement.devices), *row)
        backends.setdefault(key, []).append(text.plain(candidate.measurement.backend))
    return [[", ".join(names), *key] for key, names in backends.items()]


def _op_rows(ops: Sequence[OpRecord]) -> list[list[str]]:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for op in ops:
        key = (op.asked or "the default", op.bound, op.executed or "not told", op.status)
        counts.setdefault(key, Counter())[op.op] += 1
    return [[*map(text.plain, key), str(c.total()), _which(c)] for key, c in counts.items()]


def _which(ops: Counter[str]) -> str:
    return ", ".join(f"{text.plain(op)} {count}x" if count > 1 else text.plain(op) for op, count in ops.items())


def _transfer_rows(transfers: Sequence[TransferRecord]) -> list[list[str]]:
    routes: dict[tuple[str, ...], list[TransferRecord]] = {}
    for transfer in transfers:
        routes.setdefault((transfer.source, transfer.target, transfer.cause), []).append(transfer)
    return [
        [
            *map(text.plain, route),
            str(len(made)),
            text.size(sum(t.bytes for t in made)),
        ]
        for route, made in routes.items()
    ]


def _drawings(found: Sequence[tuple[Candidate, Evidence]]) -> list[Block]:
    """Each program once, with those who ran it."""
    drawn: dict[str, list[str]] = {}
    for candidate, evidence in found:
        if evidence.drawing:
            drawn.setdefault(evidence.drawing, []).append(candidate.name)
    blocks: list[Block] = []
    for drawing, names in drawn.items():
        whose = "all" if len(names) == len(found) else text.join(names)
        if len(drawing) > LARGEST_DRAWING:
            blocks.append(paragraph(f"The program of {whose} is too large to be drawn."))
        else:
            blocks += [paragraph(f"The program of {whose}:"), Drawing(drawing)]
    return blocks
