"""A program drawn by device, as Mermaid (which forges render in markdown) or as DOT."""

from __future__ import annotations

from xbackend.errors import UsageError
from xbackend.program.program import Node, Program

LARGEST = 400


def _label(program: Program, position: int) -> str:
    node = program.nodes[position]
    name = f" {node.params['name']}" if "name" in node.params else ""
    return f"{node.op}{name} {node.dtype}[{','.join(map(str, node.shape))}]"


def _groups(program: Program) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for i, node in enumerate(program.nodes):
        groups.setdefault(node.device or "default device", []).append(i)
    return groups


def _edge_label(node: Node, program: Program, source: int) -> str:
    here, there = program.nodes[source].device, node.device
    return f"{node.aval.nbytes} bytes" if node.op == "transfer" and here != there else ""


def draw(program: Program, form: str = "mermaid") -> str:
    """The program as a graph grouped by device, transfers labelled with their bytes.

    ``form`` is ``mermaid`` or ``dot``. Raises `UsageError` for others and for programs too large to read as a drawing.
    """
    if form not in ("mermaid", "dot"):
        raise UsageError(f"a program is drawn as mermaid or dot, not as {form!r}")
    if len(program.nodes) > LARGEST:
        raise UsageError(f"the program has {len(program.nodes)} nodes; a drawing of more than {LARGEST} shows nothing")
    return (_mermaid if form == "mermaid" else _dot)(program)


def _mermaid_text(text: str) -> str:
    """Text that Mermaid shows as it is inside of quotes: its own entity codes for all that could be read as syntax."""
    return "".join(c if c.isalnum() or c in " .,:_-[]()/=" else f"#{ord(c)};" for c in text)


def _mermaid(program: Program) -> str:
    lines = ["flowchart TD"]
    for number, (device, members) in enumerate(_groups(program).items()):
        lines.append(f'  subgraph d{number}["{_mermaid_text(device)}"]')
        for i in members:
            lines.append(f'    n{i}["{_mermaid_text(_label(program, i))}"]')
        lines.append("  end")
    for i, node in enumerate(program.nodes):
        for j in node.inputs:
            label = _edge_label(node, program, j)
            lines.append(f"  n{j} -->|{label}| n{i}" if label else f"  n{j} --> n{i}")
    for number, i in enumerate(program.outputs):
        lines.append(f'  o{number}(["result {number}"])')
        lines.append(f"  n{i} --> o{number}")
    for target, expression in program.updates.items():
        lines.append(f"  n{expression} -.->|update| n{target}")
    return "\n".join(lines) + "\n"


def _dot(program: Program) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = [f"digraph {quoted(program.name)} {{", "  node [shape=box];"]
    for number, (device, members) in enumerate(_groups(program).items()):
        lines.append(f"  subgraph cluster_{number} {{ label={quoted(device)};")
        lines += [f"    n{i} [label={quoted(_label(program, i))}];" for i in members]
        lines.append("  }")
    for i, node in enumerate(program.nodes):
        for j in node.inputs:
            lines.append(f"  n{j} -> n{i} [label={quoted(_edge_label(node, program, j))}];")
    for number, i in enumerate(program.outputs):
        lines.append(f"  o{number} [shape=oval, label={quoted(f'result {number}')}];\n  n{i} -> o{number};")
    for target, expression in program.updates.items():
        lines.append(f"  n{expression} -> n{target} [style=dashed, label=update];")
    return "\n".join(lines) + "\n}\n"
