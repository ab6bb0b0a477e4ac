"""Stored results for scripts and notebooks: an answer, rows as numbers, tables and pictures."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from xbackend import report
from xbackend.errors import UsageError
from xbackend.report.said.blocks import AnyBlock


class Picture:
    """A picture in SVG, which a notebook shows."""

    def __init__(self, svg: bytes, alt: str) -> None:
        self.svg, self.alt = svg, alt

    def __repr__(self) -> str:
        return f"<picture: {self.alt}>"

    def _repr_svg_(self) -> str:
        return self.svg.decode()

    def save(self, path: str | Path) -> Path:
        """Write it to a file. Raises `StoreError`."""
        path = Path(path)
        return report.write_files({path.name: self.svg}, path.parent, path.name)


class Tabled(abc.ABC):
    """Stored results with their answer, their rows and a picture: for a script, a prompt and a notebook."""

    @property
    @abc.abstractmethod
    def answer(self) -> str:
        """The first sentence of the report."""

    @abc.abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each row, all with the same keys: numbers, words and `None`."""

    @abc.abstractmethod
    def plot(self) -> Picture:
        """The report's first picture. Raises `UsageError` where it has none."""

    @abc.abstractmethod
    def lines(self, width: int | None = None) -> list[str]:
        """The lines that the command prints, of at most ``width`` each."""

    @abc.abstractmethod
    def _blocks(self) -> list[AnyBlock]:
        """The blocks for a notebook."""

    def to_pandas(self) -> Any:
        """`rows` as a pandas ``DataFrame``. Raises `UsageError` without pandas."""
        return _library("pandas").DataFrame(self.rows())

    def to_polars(self) -> Any:
        """`rows` as a polars ``DataFrame``. Raises `UsageError` without polars."""
        return _library("polars").DataFrame(self.rows(), infer_schema_length=None)

    def __str__(self) -> str:
        return "\n".join(self.lines(80))

    def _repr_html_(self) -> str:
        from xbackend.report.written import html

        return html.fragment(self._blocks())


def alike(rows: Sequence[Mapping[str, Any]], first: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Flat rows with the same keys in the same order: those of ``first``, then the others as they come."""
    flat = [_flat(row) for row in rows]
    names = dict.fromkeys([*first, *(name for row in flat for name in row)])
    return [{**names, **row} for row in flat]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without mappings and lists, which no column holds."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            found[name] = "; ".join(map(str, value)) if isinstance(value, list) else value
    return found


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"{name} cannot be imported ({error}): pip install {name}; or take .rows()") from error
