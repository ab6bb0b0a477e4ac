"""A drawing as plain data: boxes by device and the edges between them, for a program or an execution of it.

All drawings and plots share one palette. Its outlines have a contrast of at least three to a white and to a dark page,
and text has its own light fill, so a drawing is readable on both. `dark.py` has the dark fills.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from xbackend.errors import UsageError
from xbackend.program.program import Node, Program

LARGEST = 400  # nodes

# Outline and fill.
PALETTE = (
    *(("#3b82f6", "#dbeafe"), ("#d97706", "#fef0d5"), ("#16a34a", "#dcf5e3"), ("#dc4c4c", "#fde2e2")),
    *(("#9d6bdb", "#ede4fa"), ("#0d9488", "#d5f3f0"), ("#db5a9e", "#fbe3ef"), ("#8a8a1f", "#f3f3cf")),
    *(("#708090", "#e5e9ed"), ("#a0522d", "#f3e2d9"), ("#0891b2", "#d6f1f7")),
)
INK, GREY, PAPER = "#111827", "#767676", "#ffffff"
# One hue in steps that differ even in grey, the strongest first.
SHADES = ("#5a9bf0", "#8fbcf7", "#b9d5fa", "#dbe9fc", "#f1f5fb")

# Marks of a box: `moved` ran on another device than asked, `inside` is part of another op or was computed while
# compiling, `unread` ran on an unknown device, `result` is a result of the function, not an op.
MARKS = ("", "moved", "inside", "unread", "result")
KINDS = ("data", "transfer", "update")


@dataclass(frozen=True, slots=True)
class Box:
    """An op, an argument, a shared variable or a result, on a device."""

    text: str
    device: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """From box to box, by position; ``kind`` is one of `KINDS`. Only updates go backwards."""

    source: int
    target: int
    text: str = ""
    kind: str = "data"


@dataclass(frozen=True, slots=True)
class Link:
    """From device to device: a transfer that belongs to no op of the program."""

    source: str
    target: str
    text: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing as data."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    links: tuple[Link, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data without fields at their defaults."""

        def plain(record: Box | Edge | Link) -> dict[str, Any]:
            return {f.name: v for f in fields(record) if (v := getattr(record, f.name)) != f.default}

        lists = {"boxes": list(map(plain, self.boxes)), "edges": list(map(plain, self.edges))}
        return {"title": self.title, **lists, "links": list(map(plain, self.links))}

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of the boxes and links, in the order of their names and numbers."""
        ends = [end for link in self.links for end in (link.source, link.target)]
        return ordered([*(box.device for box in self.boxes), *ends])

    @property
    def sound(self) -> bool:
        """Whether it can be drawn, unlike one of a damaged file: not too many boxes, valid marks and kinds, two boxes
        for every edge, and only updates going backwards."""
        count = len(self.boxes)
        ends = all(0 <= e.source < count and 0 <= e.target < count for e in self.edges)
        forwards = all(e.kind in KINDS and (e.source < e.target or e.kind == "update") for e in self.edges)
        return count <= 2 * LARGEST and ends and forwards and all(box.mark in MARKS for box in self.boxes)


def ordered(devices: Iterable[str]) -> tuple[str, ...]:
    """Each device once, ``cpu:2`` before ``cpu:10``."""

    def key(device: str) -> list[tuple[int, str]]:
        parts = re.split(r"([0-9]+)", device)
        # Numbers of equal length compare as text does.
        return [(len(part.lstrip("0")), part) if i % 2 else (0, part) for i, part in enumerate(parts)]

    return tuple(sorted(dict.fromkeys(devices), key=key))


def colours(devices: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The outline and the fill of each of these devices."""
    return {device: PALETTE[i % len(PALETTE)] for i, device in enumerate(ordered(devices))}


def bytes_text(count: int) -> str:
    """Bytes in words: ``24 bytes``, ``1.5 MiB``."""
    power = min(max(count.bit_length() - 1, 0) // 10, 4)
    return f"{count / 1024**power:.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def label(node: Node) -> str:
    """A node in words: its op, its name if it has one, dtype and shape of each result."""
    name = f" {node.params['name']}" if "name" in node.params else ""
    return f"{node.op}{name} {', '.join(map(str, node.results))}"


def check_size(program: Program) -> None:
    """Raises `UsageError` for a program too large to be read as a drawing."""
    if len(program.nodes) > LARGEST:
        raise UsageError(f"the program has {len(program.nodes)} nodes; a drawing of more than {LARGEST} shows nothing")


def of_program(program: Program) -> Graph:
    """The graph of a program, bound or not. Raises `UsageError` for one that is too large."""
    check_size(program)
    values, boxes, edges = program.values, list[Box](), list[Edge]()
    box = {i: number for number, node in enumerate(program.nodes) for i in node.outputs}
    for number, node in enumerate(program.nodes):
        boxes.append(Box(label(node), node.device or "default device"))
        crossing = node.op == "transfer" and values[node.inputs[0]].device != node.device
        text = bytes_text(node.results[0].nbytes) if crossing else ""
        edges += [Edge(box[j], number, text, "transfer" if crossing else "data") for j in node.inputs]
    for number, i in enumerate(program.outputs):
        edges.append(Edge(box[i], len(boxes)))
        boxes.append(Box(f"result {number}", values[i].device or "default device", "result"))
    edges += [Edge(box[expression], box[target], "update", "update") for target, expression in program.updates.items()]
    return Graph(program.name, tuple(boxes), tuple(edges))
