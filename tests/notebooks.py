"""Notebooks without Jupyter: the cells of a file executed in order in one namespace, with what they print and show.

``python tests/notebooks.py examples/compare.ipynb`` executes one and keeps its outputs in it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHOWN = {"_repr_html_": "text/html", "_repr_svg_": "image/svg+xml"}


def code(path: Path) -> list[str]:
    """The code cells of a notebook."""
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def executed(cells: list[str]) -> Iterator[list[dict[str, Any]]]:
    """The outputs of each cell, as a notebook stores them: what it prints, and what its last expression shows."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(cells, 1):
        name, printed = f"<cell {number}>", io.StringIO()
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # for tracebacks and lines
        tree = ast.parse(source, name)
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, name, "exec"), variables)
            value = None if last is None else eval(compile(last, name, "eval"), variables)
        outputs: list[dict[str, Any]] = []
        if text := printed.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": lines(text)})
        if value is not None:
            data = {"text/plain": lines(repr(value))}
            data |= {kind: lines(getattr(value, method)()) for method, kind in SHOWN.items() if hasattr(value, method)}
            outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
        yield outputs


def lines(text: str) -> list[str]:
    """As notebooks store text."""
    return text.splitlines(keepends=True)


def keep(path: Path) -> None:
    """Execute a notebook in a folder of its own, and keep the outputs."""
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, (cell, outputs) in enumerate(zip(cells, executed(code(path)), strict=True), 1):
            cell["execution_count"], cell["outputs"] = number, outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + os.linesep)


if __name__ == "__main__":
    keep(Path(sys.argv[1]).resolve())
