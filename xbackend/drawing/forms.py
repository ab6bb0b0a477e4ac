"""Drawings by device: as Mermaid (which forges render in markdown), as DOT, or as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.drawing import graph as g
from xbackend.errors import UsageError
from xbackend.program.program import Program

FORMS = ("mermaid", "dot", "svg")
_ARROWS = {"data": "-->", "transfer": "==>", "update": "-.->"}


def draw(program: Program, form: str = "mermaid") -> str:
    """The program as a graph coloured by device, transfers labelled with their bytes.

    ``form`` is one of `FORMS`. Raises `UsageError` for other forms and for programs too large for a drawing.
    """
    return written(g.of_program(program), form)


def written(graph: g.Graph, form: str) -> str:
    """A graph in one of the `FORMS`. Raises `UsageError` for others."""
    if form not in FORMS:
        raise UsageError(f"a program is drawn as {', '.join(FORMS[:-1])} or {FORMS[-1]}, not as {form!r}")
    if form == "svg":
        from xbackend.drawing.layered import svg

        return svg([graph])
    return mermaid([graph]) if form == "mermaid" else _dot(graph)


def _mermaid_text(text: str) -> str:
    """Text escaped for Mermaid's quotes: entity codes for characters that could be syntax."""
    return "".join(c if c.isalnum() or c in " .,:_-[]()/=" else f"#{ord(c)};" for c in text)


def mermaid(graphs: Sequence[g.Graph]) -> str:
    """Graphs in Mermaid, several side by side; a device has the same colour in all of them."""
    several = len(graphs) > 1
    lines = ["flowchart LR" if several else "flowchart TD"]
    colours = g.colours(device for graph in graphs for device in graph.devices)
    classes = {device: f"c{number}" for number, device in enumerate(colours)}
    for number, graph in enumerate(graphs):
        if several:
            lines += [f'  subgraph p{number}["{_mermaid_text(graph.title)}"]', "  direction TB"]
        lines += _mermaid_graph(graph, f"p{number}" if several else "", classes)
        if several:
            lines.append("  end")
        if number:
            lines.append(f"  p{number - 1} ~~~ p{number}")  # keeps their order
    for device, (outline, fill) in colours.items():
        lines.append(f"  classDef {classes[device]} fill:{fill},stroke:{outline},color:{g.INK}")
    if several:
        lines += [f"  style p{number} fill:none,stroke:{g.GREY}" for number in range(len(graphs))]
    for number, graph in enumerate(graphs):
        for place, device in enumerate(graph.devices):
            name = f"p{number}d{place}" if several else f"d{place}"
            lines.append(f"  style {name} fill:none,stroke:{colours[device][0]}")
    marks = {box.mark for graph in graphs for box in graph.boxes}
    styles = {"moved": "stroke-width:4px", "inside": "stroke-dasharray:5 4", "unread": "stroke-dasharray:1 4"}
    lines += [f"  classDef {mark} {style}" for mark, style in styles.items() if mark in marks]
    return "\n".join(lines) + "\n"


def _mermaid_graph(graph: g.Graph, prefix: str, classes: dict[str, str]) -> list[str]:
    lines = []
    for number, device in enumerate(graph.devices):
        # A direction for each: Mermaid rotates subgraphs without outside links.
        lines += [f'  subgraph {prefix}d{number}["{_mermaid_text(device)}"]', "  direction TB"]
        for i, box in enumerate(graph.boxes):
            if box.device == device:
                text = f'"{_mermaid_text(box.text)}"'
                shape = f"([{text}])" if box.mark == "result" else f"[{text}]"
                lines.append(f"    {prefix}n{i}{shape}")
        lines.append("  end")
    for edge in dict.fromkeys(graph.edges):
        text = f"|{_mermaid_text(edge.text)}|" if edge.text else ""
        lines.append(f"  {prefix}n{edge.source} {_ARROWS[edge.kind]}{text} {prefix}n{edge.target}")
    for link in graph.links:
        ends = [f"{prefix}d{graph.devices.index(device)}" for device in (link.source, link.target)]
        lines.append(f"  {ends[0]} ==>|{_mermaid_text(link.text)}| {ends[1]}")
    members: dict[str, list[str]] = {}
    for i, box in enumerate(graph.boxes):
        members.setdefault(classes[box.device], []).append(f"{prefix}n{i}")
        if box.mark not in ("", "result"):
            members.setdefault(box.mark, []).append(f"{prefix}n{i}")
    return lines + [f"  class {','.join(names)} {name}" for name, names in members.items()]


def _dot(graph: g.Graph) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    colours = g.colours(graph.devices)
    styles = {"moved": "filled,bold", "inside": "filled,dashed", "unread": "filled,dotted"}
    lines = [f"digraph {quoted(graph.title)} {{", f"  node [shape=box, fontcolor={quoted(g.INK)}];"]
    for number, (device, (outline, fill)) in enumerate(colours.items()):
        lines.append(f"  subgraph cluster_{number} {{ label={quoted(device)}; color={quoted(outline)};")
        for i, box in enumerate(graph.boxes):
            if box.device == device:
                looks = (
                    f"color={quoted(outline)}, fillcolor={quoted(fill)}, style={quoted(styles.get(box.mark, 'filled'))}"
                )
                shape = ", shape=oval" if box.mark == "result" else ""
                lines.append(f"    n{i} [label={quoted(box.text)}, {looks}{shape}];")
        lines.append("  }")
    drawn = {"data": "", "transfer": ", style=bold", "update": ", style=dashed"}
    for edge in graph.edges:
        lines.append(f"  n{edge.source} -> n{edge.target} [label={quoted(edge.text)}{drawn[edge.kind]}];")
    for number, link in enumerate(graph.links):
        # DOT needs boxes as the ends of edges between clusters.
        for end, device in (("s", link.source), ("t", link.target)):
            lines.append(f"  l{number}{end} [shape=plain, label={quoted(device)}];")
        lines.append(f"  l{number}s -> l{number}t [label={quoted(link.text)}, style=bold];")
    return "\n".join(lines) + "\n}\n"
