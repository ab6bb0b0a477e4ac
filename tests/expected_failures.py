"""What a backend cannot do: the one list, with the reason and a link. Each still runs, and must fail."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class ExpectedFailure:
    """``backend``, ``test`` and ``label`` are patterns as of a shell; the label is that of the check, else empty."""

    backend: str
    test: str
    label: str
    reason: str
    link: str

    def matches(self, backend: str, test: str, label: str) -> bool:
        pairs = ((backend, self.backend), (test, self.test), (label, self.label))
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


EXPECTED_FAILURES: tuple[ExpectedFailure, ...] = ()
