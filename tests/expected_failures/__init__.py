"""Expected failures: one file for each backend that has some, each with its reason and a link. They still run, and must
fail."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec

from xbackend.backends import registry
from xbackend.errors import XBackendError


@dataclass(frozen=True)
class ExpectedFailure:
    """``test`` and ``label`` are shell patterns: for ``test_result_of_op[numpy-sin-float64]`` they are compared with
    ``test_result_of_op`` and ``sin-float64``. The link leads to the upstream issue. The test must raise ``raises``; an
    `AssertionError` is a wrong number, which docs/numbers.md states."""

    test: str
    label: str
    reason: str
    link: str
    raises: type[Exception] = XBackendError

    def matches(self, test: str, label: str) -> bool:
        return fnmatchcase(test, self.test) and fnmatchcase(label, self.label)


def module(backend: str) -> str:
    """The name of the file of a backend, without its ending."""
    return registry.base(backend).replace("-", "_")


def of(backend: str) -> tuple[ExpectedFailure, ...]:
    """The expected failures of a backend: ``EXPECTED`` in its file."""
    name = f"{__name__}.{module(backend)}"
    if find_spec(name) is None:
        return ()
    found: tuple[ExpectedFailure, ...] = import_module(name).EXPECTED
    return found
