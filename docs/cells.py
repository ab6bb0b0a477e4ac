"""A notebook as a page of the site: its cells, and the outputs that it keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xbackend.drawing import markup


def page(path: Path, intro: str) -> str:
    """Markdown; ``intro`` stands below the title."""
    blocks = [
        block for number, cell in enumerate(json.loads(path.read_text())["cells"]) for block in _cell(cell, number)
    ]
    title, _, rest = blocks[0].partition("\n")
    return "\n\n".join([title, intro, rest.strip(), *blocks[1:]]) + "\n"


def _cell(cell: dict[str, Any], number: int) -> Iterator[str]:
    text = "".join(cell["source"])
    yield text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
    for output in cell.get("outputs", []):
        data = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
        if "image/svg+xml" in data:
            yield _raw(markup.inline(data["image/svg+xml"].encode(), f"cell-{number}.", data["text/plain"].strip("<>")))
        elif "text/html" in data:
            yield _raw(data["text/html"])
        else:
            yield f"```text\n{data.get('text/plain', ''.join(output.get('text', []))).rstrip()}\n```"


def _raw(html: str) -> str:
    return f'```{{raw}} html\n<div style="overflow-x: auto">{html}</div>\n```'
