"""Graphs as SVG, without an external program: a column for each device, a row for each step from the inputs down.

Layers are by Sugiyama's method (Sugiyama, Tagawa, Toda 1981: longest path, barycentres). Their width is bounded as in
Coffman and Graham (1972), so a drawing fits a page. A value read several rows further down runs along one track beside
the boxes, for all its readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import product

from xbackend.drawing import dark
from xbackend.drawing.graph import GREY, INK, PAPER, Edge, Graph, colours
from xbackend.wording import grouped

_LETTER = 6.6  # width in pixels of a letter of 11 px, rounded up
_ROW, _HEIGHT = 62, 28
_GAP, _TRACK, _MARGIN = 18, 14, 14
_WIDEST = 1080  # pixels for the boxes of a drawing
_HEAD = 58  # title and names of the devices
_DASHES = {"inside": ' stroke-dasharray="5 4"', "unread": ' stroke-dasharray="1 4"'}


def _text(text: str) -> str:
    """Text escaped for XML, without characters that change the writing direction."""
    return escape("".join(c if c.isprintable() else "\ufffd" for c in text))


class _Layout:
    """Positions of the parts of a graph, in pixels from its upper left corner."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.box_width = [max(60.0, len(b.text) * _LETTER + 16) for b in graph.boxes]
        self.flow = [e for e in dict.fromkeys(graph.edges) if e.kind != "update"]
        self.inputs = grouped((e.target, e.source) for e in self.flow)
        self.layers = self._layers()
        self.tracks: dict[int, float] = {}  # box -> x of its track, for values read further down
        self.lanes: list[tuple[str, float, float]] = []  # device, left, width
        columns = self._columns()
        last = {i: max(rows) for i, rows in grouped((e.source, self.layers[e.target]) for e in self.flow).items()}
        self.ends = {i: row for i, row in last.items() if row > self.layers[i] + 1}  # the last row of a track
        self.x = [0.0] * len(columns)  # centre of each box
        left = float(_MARGIN)
        for device in graph.devices:
            left = self._lane(device, left, columns)
        self.width = max(left, 2 * _MARGIN + len(graph.title) * _LETTER * 1.2)
        self.height = _HEAD + (max(self.layers, default=0) + 1) * _ROW + 22 * len(graph.links) + _MARGIN

    def _layers(self) -> list[int]:
        """The row of each box: the longest path from the top, further down where the row of its device is full. Boxes
        without inputs stand above their first reader."""
        boxes, devices = self.graph.boxes, len(self.graph.devices)
        widths = grouped((box.device, width) for box, width in zip(boxes, self.box_width, strict=True))
        fits = {device: max(int(_WIDEST / devices / (max(each) + _GAP)), 1) for device, each in widths.items()}
        layers: dict[int, int] = {}
        taken = Counter[tuple[str, int]]()

        def place(i: int, layer: int, further: int) -> None:
            while taken[boxes[i].device, layer] >= fits[boxes[i].device]:
                layer += further
            layers[i] = layer
            taken[boxes[i].device, layer] += 1

        for i, read in sorted(self.inputs.items()):  # an edge leads to a later box
            own = [j for j in read if j not in layers]
            count = Counter(boxes[j].device for j in own)
            layer = max((layers[j] for j in read if j in layers), default=0) + 1
            while taken[boxes[i].device, layer] >= fits[boxes[i].device] or any(
                taken[device, layer - 1] + min(n, fits[device]) > fits[device] for device, n in count.items()
            ):
                layer += 1
            for j in own:
                place(j, layer - 1, -1)
            place(i, layer, 1)
        for i in range(len(boxes)):
            if i not in layers:  # a box without edges
                place(i, 0, 1)
        first = min(layers.values(), default=0)
        return [layers[i] - first for i in range(len(boxes))]

    def _columns(self) -> list[int]:
        """The column of each box in its lane, by the mean column of its inputs (barycentre)."""
        boxes, columns = self.graph.boxes, [0] * len(self.graph.boxes)
        rows = grouped(((box.device, layer), i) for i, (box, layer) in enumerate(zip(boxes, self.layers, strict=True)))
        for (device, _), members in sorted(rows.items(), key=lambda row: row[0][1]):
            near = {i: [columns[j] for j in self.inputs.get(i, ()) if boxes[j].device == device] for i in members}
            members.sort(key=lambda i: (sum(near[i]) / len(near[i]) if near[i] else i, i))
            for column, i in enumerate(members):
                columns[i] = column
        return columns

    def _lane(self, device: str, left: float, columns: list[int]) -> float:
        """Place the boxes and tracks of a device. Returns the left edge of the next lane."""
        members = [i for i, box in enumerate(self.graph.boxes) if box.device == device]
        step = max((self.box_width[i] for i in members), default=0.0) + _GAP
        for i in members:
            self.x[i] = left + step * (columns[i] + 0.5)
        width = step * (max((columns[i] for i in members), default=0) + 1)
        free: list[int] = []  # the last row of each track
        for i in sorted((i for i in members if i in self.ends), key=lambda i: (self.layers[i], i)):
            track = next((t for t, last in enumerate(free) if last <= self.layers[i]), len(free))
            free[track : track + 1] = [self.ends[i]]
            self.tracks[i] = left + width + _TRACK * (track + 0.5)
        width = max(width + _TRACK * len(free), len(device) * _LETTER + _GAP)
        self.lanes.append((device, left, width))
        return left + width + _MARGIN

    def top(self, i: int) -> float:
        """The upper edge of a box."""
        return _top(self.layers[i])

    def rectangle(self, i: int) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of a box."""
        half, top = self.box_width[i] / 2, self.top(i)
        return self.x[i] - half, top, self.x[i] + half, top + _HEIGHT


def _top(layer: int) -> float:
    return _HEAD + layer * _ROW + (_ROW - _HEIGHT) / 2


def _line(path: str, colour: str, kind: str, arrow: bool = True) -> str:
    looks = {"transfer": ' stroke-width="2.2"', "update": ' stroke-dasharray="4 3"'}.get(kind, "")
    end = ' marker-end="url(#arrow)"' if arrow else ""
    return f'<path d="{path}" fill="none" stroke="{colour}"{looks}{end}/>'


class _Drawing(_Layout):
    """The elements of a layout: frames, edges, their labels, which cover nothing if there is room, and boxes."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.palette, self.lines, self.notes = colours(graph.devices), list[str](), list[str]()
        self.covered = [self.rectangle(i) for i in range(len(graph.boxes))]

    def edges(self) -> list[str]:
        """Lines, then labels."""
        for edges in grouped((e.target, e) for e in self.flow).values():
            edges.sort(key=lambda e: self.tracks.get(e.source, self.x[e.source]))
            for number, e in enumerate(edges):
                self._edge(e, (number - (len(edges) - 1) / 2) * 12)
        for e in self.graph.edges:
            if e.kind == "update":
                self._update(e)
        return self.lines + self.notes

    def _edge(self, e: Edge, aside: float) -> None:
        """An edge that enters its box ``aside`` pixels from the middle."""
        x, y = self.x[e.target] + aside, self.top(e.target) - 2
        from_x, from_y = self.x[e.source], self.top(e.source) + _HEIGHT
        if self.layers[e.target] > self.layers[e.source] + 1:
            self._track(e.source)
            from_x, from_y = self.tracks[e.source], y - 28
        colour = self.palette[self.graph.boxes[e.source].device][0] if e.kind == "transfer" else GREY
        bow = (y - from_y) / 2
        curve = ((from_x, from_y), (from_x, from_y + bow), (x, y - bow), (x, y))
        self._curve(curve, colour, e)

    def _track(self, source: int) -> None:
        """Draw the track of a value down to its last reader, once."""
        x, y, track = self.x[source], self.top(source) + _HEIGHT, self.tracks[source]
        bend = f"M{x:.1f} {y:.1f}C{x:.1f} {y + 18:.1f} {track:.1f} {y + 8:.1f} {track:.1f} {y + 30:.1f}"
        line = _line(f"{bend}V{_top(self.ends[source]) - 30:.1f}", GREY, "data", arrow=False)
        if line not in self.lines:
            self.lines.append(line)

    def _update(self, e: Edge) -> None:
        x1, x2 = (self.x[i] + self.box_width[i] / 2 for i in (e.source, e.target))
        y1, y2 = (self.top(i) + _HEIGHT / 2 for i in (e.source, e.target))
        out = max(x1, x2) + 30
        self._curve(((x1, y1), (out, y1), (out, y2), (x2 + 2, y2)), GREY, e)

    def _curve(self, curve: Sequence[tuple[float, float]], colour: str, e: Edge) -> None:
        start, *rest = (f"{x:.1f} {y:.1f}" for x, y in curve)
        self.lines.append(_line(f"M{start}C{' '.join(rest)}", colour, e.kind))
        if e.text:
            self._note(e.text, curve)

    def _note(self, text: str, curve: Sequence[tuple[float, float]]) -> None:
        """A label in the middle of a curve, or at another point near it that covers neither a box nor a label."""
        width, places = len(text) * _LETTER * 0.9 + 8, []
        for beside, t in product((0, -9, 9), (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9)):
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x = max(sum(w * point[0] for w, point in zip(weights, curve, strict=True)), width / 2 + 2)
            y = beside + sum(w * point[1] for w, point in zip(weights, curve, strict=True))
            places.append((x - width / 2, y - 8, x + width / 2, y + 8))
        place = next((p for p in places if not any(_meet(p, other) for other in self.covered)), places[0])
        self.covered.append(place)
        left, top, right, _ = place
        self.notes.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="16" rx="3" fill="{PAPER}" '
            f'stroke="{GREY}" stroke-width="0.6"/><text x="{(left + right) / 2:.1f}" y="{top + 12:.1f}" fill="{INK}" '
            f'font-size="10" text-anchor="middle">{_text(text)}</text>'
        )

    def elements(self) -> list[str]:
        """All, the frame of each device first."""
        bottom = self.height - 22 * len(self.graph.links) - _MARGIN
        title = _text(self.graph.title)
        parts = [f'<text x="{_MARGIN}" y="20" fill="{GREY}" font-size="13" font-weight="bold">{title}</text>']
        for device, left, width in self.lanes:
            parts.append(
                f'<rect x="{left - 4:.1f}" y="32" width="{width + 4:.1f}" height="{bottom - 32:.1f}" rx="6" '
                f'fill="none" stroke="{self.palette[device][0]}" stroke-width="0.8"/>'
                f'<text x="{left + 4:.1f}" y="48" fill="{GREY}" font-weight="bold">{_text(device)}</text>'
            )
        parts += [*self.edges(), *map(self._box, range(len(self.graph.boxes)))]
        for number, link in enumerate(self.graph.links):
            words = f"{link.source} to {link.target}: {link.text}"
            parts.append(f'<text x="{_MARGIN}" y="{bottom + 18 + 22 * number:.1f}" fill="{GREY}">{_text(words)}</text>')
        return parts

    def _box(self, i: int) -> str:
        box, (left, top, _, _) = self.graph.boxes[i], self.rectangle(i)
        outline, fill = self.palette[box.device]
        radius, thick = _HEIGHT / 2 if box.mark == "result" else 4, 3.5 if box.mark == "moved" else 1.2
        return (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{self.box_width[i]:.1f}" height="{_HEIGHT}" rx="{radius}" '
            f'fill="{fill}" stroke="{outline}" stroke-width="{thick}"{_DASHES.get(box.mark, "")}/>'
            f'<text x="{self.x[i]:.1f}" y="{top + _HEIGHT / 2 + 4:.1f}" fill="{INK}" text-anchor="middle">'
            f"{_text(box.text)}</text>"
        )


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two rectangles (left, top, right, bottom) overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def svg(graph: Graph, title: str = "") -> str:
    """A graph as deterministic SVG."""
    drawing = _Drawing(graph)
    width, height = drawing.width + _MARGIN, drawing.height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="11">',
        f"<title>{_text(title or graph.title)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker></defs>',
        '<g transform="translate(0.0 0)">',
        *drawing.elements(),
        "</g>",
    ]
    return "\n".join([*parts, *filter(None, [dark.style("".join(parts))]), "</svg>"]) + "\n"
