"""Drawings by device: as Mermaid (which forges render in markdown), as DOT, or as SVG."""

from __future__ import annotations

from xbackend.drawing import graph as g
from xbackend.errors import UsageError
from xbackend.program.program import Program
from xbackend.wording import grouped

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

        return svg(graph)
    return mermaid(graph) if form == "mermaid" else _dot(graph)


def _mermaid_text(text: str) -> str:
    """Text escaped for Mermaid's quotes: entity codes for characters that could be syntax."""
    return "".join(c if c.isalnum() or c in " .,:_-[]()/=" else f"#{ord(c)};" for c in text)


def mermaid(graph: g.Graph) -> str:
    """A graph in Mermaid: a subgraph for each device."""
    lines, numbers = ["flowchart TD"], {device: number for number, device in enumerate(graph.devices)}
    for device, number in numbers.items():
        # A direction for each: Mermaid rotates subgraphs without outside links.
        lines += [f'  subgraph d{number}["{_mermaid_text(device)}"]', "  direction TB"]
        for i, box in enumerate(graph.boxes):
            if box.device == device:
                text = f'"{_mermaid_text(box.text)}"'
                lines.append(f"    n{i}([{text}])" if box.mark == "result" else f"    n{i}[{text}]")
        lines.append("  end")
    for edge in dict.fromkeys(graph.edges):
        text = f"|{_mermaid_text(edge.text)}|" if edge.text else ""
        lines.append(f"  n{edge.source} {_ARROWS[edge.kind]}{text} n{edge.target}")
    for link in graph.links:
        lines.append(f"  d{numbers[link.source]} ==>|{_mermaid_text(link.text)}| d{numbers[link.target]}")
    marked = [(name, f"n{i}") for i, b in enumerate(graph.boxes) for name in (f"c{numbers[b.device]}", b.mark)]
    styles = {"moved": "stroke-width:4px", "inside": "stroke-dasharray:5 4", "unread": "stroke-dasharray:1 4"}
    classes = grouped((name, node) for name, node in marked if name not in ("", "result"))
    lines += [f"  class {','.join(nodes)} {name}" for name, nodes in classes.items()]
    colours = [*g.colours(graph.devices).values()]
    lines += [f"  classDef c{i} fill:{fill},stroke:{line},color:{g.INK}" for i, (line, fill) in enumerate(colours)]
    lines += [f"  style d{i} fill:none,stroke:{outline}" for i, (outline, _) in enumerate(colours)]
    lines += [f"  classDef {mark} {style}" for mark, style in styles.items() if mark in classes]
    return "\n".join(lines) + "\n"


def _dot(graph: g.Graph) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    styles = {"moved": "filled,bold", "inside": "filled,dashed", "unread": "filled,dotted"}
    lines = [f"digraph {quoted(graph.title)} {{", f"  node [shape=box, fontcolor={quoted(g.INK)}];"]
    for number, (device, (outline, fill)) in enumerate(g.colours(graph.devices).items()):
        lines.append(f"  subgraph cluster_{number} {{ label={quoted(device)}; color={quoted(outline)};")
        for i, box in enumerate(graph.boxes):
            if box.device == device:
                looks = f"color={quoted(outline)}, fillcolor={quoted(fill)}"
                looks += f", style={quoted(styles.get(box.mark, 'filled'))}"
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
