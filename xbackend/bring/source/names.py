"""Names of values: the user's, else names by op."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Container, Iterable
from functools import lru_cache
from pathlib import Path

from xbackend.program.program import Node, Program

# Names of results by op.
_ROLES = {
    **{"add": "total", "subtract": "difference", "multiply": "product", "divide": "ratio", "negative": "opposite"},
    **{"sum": "total", "prod": "product", "mean": "mean", "max": "largest", "min": "smallest", "square": "squared"},
    **{"exp": "exponential", "expm1": "exponential", "log": "logarithm", "log1p": "logarithm", "sqrt": "root"},
    **{"tanh": "activation", "expit": "probability", "abs": "magnitude", "sign": "sign", "pow": "power"},
    **{"matmul": "product", "conv2d": "convolved", "where": "chosen", "cond": "chosen", "maximum": "larger"},
    **{"minimum": "smaller", "cholesky": "factor", "solve": "solution", "solve_triangular": "solution"},
    **{"inv": "inverse", "det": "determinant", "concat": "joined", "stack": "stacked", "sort": "ordered"},
    **{"argsort": "order", "argmax": "place", "argmin": "place", "searchsorted": "places", "take": "taken"},
    **{"take_along_axis": "taken", "slice": "part", "slice_set": "changed", "slice_add": "changed"},
    **{"take_set": "changed", "take_add": "changed", "cumulative_sum": "running", "cumulative_prod": "running"},
    **{"full": "filled", "arange": "steps", "eye": "identity", "constant": "constant", "diagonal": "diagonal"},
    **{"all": "every", "any": "some", "logical_and": "both", "logical_or": "either", "logical_not": "otherwise"},
    **{"floor_divide": "quotient", "remainder": "remainder", "eigvalsh": "eigenvalues", "svdvals": "singular"},
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), "mask"),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), "mask"),
    **dict.fromkeys(("reshape", "permute_dims", "broadcast_to", "astype", "transfer"), ""),  # named after the operand
}
_SEVERAL = {
    "slogdet": ("sign", "log_det"),
    "eigh": ("eigenvalues", "eigenvectors"),
    "qr": ("q", "r"),
    "svd": ("u", "s", "vt"),
}
_MOVED = {"reshape": "reshaped", "permute_dims": "transposed", "broadcast_to": "wide", "astype": "cast"}
_FILE = 1 << 20  # bytes of the largest file that is parsed
_WORDS = frozenset((*keyword.kwlist, *keyword.softkwlist, *dir(builtins)))


class NameScope:
    """The taken names of a scope, with those of its outer scopes."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*_WORDS, *taken}

    def new(self, name: str) -> str:
        found = numbered(identifier(name), self.taken)
        self.taken.add(found)
        return found

    def inner(self) -> NameScope:
        return NameScope(self.taken)


def numbered(name: str, taken: Container[str]) -> str:
    """The name, with a number if it is taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def identifier(text: str) -> str:
    """The text as a name of Python."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"x_{name}" if name[0].isdigit() else name


def escaped(text: str) -> str:
    """The text for a string or a docstring in double quotes."""
    each = (one if one.isprintable() and one != "\\" else repr(one)[1:-1] for one in text)
    return "".join(each).replace('"', '\\"')


def users(program: Program) -> dict[int, str]:
    """Names of values by the user's lines: each statement ``name = ...`` names the last value that it makes."""
    last: dict[tuple[str, int], tuple[Node, tuple[str, ...]]] = {}
    for node in program.nodes:
        if node.op not in ("input", "shared", "transfer") and (statement := _statement(node.source)):
            last[statement[0]] = node, statement[1]
    found: dict[int, str] = {}
    for node, names in last.values():
        if len(names) == len(node.outputs):
            found |= {i: name for i, name in zip(node.outputs, names, strict=True) if name != "_"}
    return found


def _statement(source: str) -> tuple[tuple[str, int], tuple[str, ...]] | None:
    """The file and first line of the assignment at ``file:line``, and its targets; `None` if there is none."""
    file, _, line = source.rpartition(":")
    if not (file.endswith(".py") and line.isdigit()):
        return None
    try:
        changed = Path(file).stat().st_mtime_ns
    except OSError:
        return None
    found = _assignments(file, changed).get(int(line))
    return ((file, found[0]), found[1]) if found else None


@lru_cache(maxsize=64)
def _assignments(file: str, changed: int) -> dict[int, tuple[int, tuple[str, ...]]]:
    """For each line in an assignment of a file, the assignment's first line and its targets. The file is read again
    where it was ``changed``, at another time."""
    path = Path(file)
    try:
        if not path.is_file() or path.stat().st_size > _FILE:
            return {}
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            each = target.elts if isinstance(target, ast.Tuple) else [target]
            names = tuple(one.id for one in each if isinstance(one, ast.Name))
            if len(names) == len(each) and names != ("_",):
                found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), (node.lineno, names)))
    return found


def role(node: Node, index: int, of: str) -> str:
    """The name of a value without a name in the user's line. ``of`` is the name of its first operand."""
    if node.op in _SEVERAL:
        return _SEVERAL[node.op][index]
    if node.op == "slice" and of and not node.shape:
        places = "_".join(str(start) for start in node.params["starts"])
        return f"{of}_{places}"
    said = _ROLES.get(node.op)
    if said == "":
        return f"{of}_{_MOVED[node.op]}" if of and node.op in _MOVED else of or "moved"
    return said or f"{node.op.replace('arc', 'a')}_of_{of}" if of else said or node.op
