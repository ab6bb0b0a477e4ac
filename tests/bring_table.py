"""`python tests/bring_table.py` writes docs/bring_ops.md from the tables of `xbackend.bring`: the frameworks' ops that
come in, and the program's ops that go out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from xbackend.bring.jax import refused as primitives
from xbackend.bring.lineage.scalars import SCALARS
from xbackend.bring.onnx import walk as onnx
from xbackend.bring.source import FRAMEWORKS
from xbackend.bring.stablehlo.refused import REFUSED
from xbackend.bring.tensorflow.refused import INSTEAD
from xbackend.program.ops import OPS

FILE = Path(__file__).resolve().parents[1] / "docs" / "bring_ops.md"
COMMAND = "python tests/bring_table.py"
# The packages of importers, and what they bring.
COMES_IN = {
    "lineage": "PyTensor, Aesara and Theano: classes of ops",
    "tensorflow": "TensorFlow: types of operations",
    "jax": "JAX: primitives",
    "stablehlo": "Files of `jax.export`: ops of StableHLO",
}
REFUSALS = {"jax": primitives.REFUSED, "stablehlo": REFUSED}


def rows_of(package: str) -> dict[str, str]:
    """The ops that come in, each with the module of its row."""
    import_module(f"xbackend.bring.{package}.given")  # fills the table
    rows = import_module(f"xbackend.bring.{package}.walk").ROWS
    functions = {name: getattr(row, "function", row) for name, row in rows.items()}
    found = {name: function.__module__.rpartition(".")[2] for name, function in functions.items()}
    found = {name: "one function each" if module == "walk" else module for name, module in found.items()}
    return found | (dict.fromkeys(SCALARS, "scalars, elementwise") if package == "lineage" else {})


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names, key=str.lower))


def by_value(names: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of each value."""
    return {value: [name for name, own in names.items() if own == value] for value in sorted(set(names.values()))}


def _coming_in(package: str, title: str) -> list[str]:
    rows = by_value(rows_of(package)).items()
    return ["", f"## {title}", "", "| of | ops |", "|---|---|", *(f"| {own} | {code(names)} |" for own, names in rows)]


def _refused(title: str, refused: Mapping[str, str]) -> list[str]:
    rows = [f"| {code(names)} | {reason} |" for reason, names in by_value(refused).items()]
    return ["", title, "", "| refused | why, or what to write instead |", "|---|---|", *rows]


def _patterns(found: Mapping[str, str]) -> dict[str, str]:
    return {pattern.replace("|", "\\|"): reason for pattern, reason in found.items()}


def written() -> str:
    """The text of docs/bring_ops.md."""
    dialects = [import_module(f"xbackend.bring.source.frameworks.{name}").DIALECT for name in FRAMEWORKS]
    refusals = {**{dialect.spoken: dialect.refusal for dialect in dialects}, "ONNX": onnx.refusal}
    head = f"| op | {' | '.join(refusals)} |"
    said = {op: " | ".join(refusal(op) or "yes" for refusal in refusals.values()) for op in OPS}
    goes_out = [f"| {code(names)} | {cells} |" for cells, names in by_value(said).items()]
    lines = [
        "# What comes in and what goes out, op by op",
        "",
        f"Written by `{COMMAND}` from the tables that the importers and writers of code use ([bring your "
        "model](bring.md)).",
        "",
        "An op with a row comes in, unless an attribute of it has none, or a shape would depend on values: the error "
        "says so. An op without a row is refused, whatever its attributes are.",
    ]
    for package, title in COMES_IN.items():
        lines += _coming_in(package, title)
        if package == "tensorflow":
            lines += _refused("Refused with advice, by a pattern of the type:", _patterns(INSTEAD))
        if package in REFUSALS:
            lines += _refused("Refused with advice:", REFUSALS[package])
    lines += ["", "## Out: the program's ops as code", "", head, "|---" * (len(refusals) + 1) + "|", *goes_out, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
