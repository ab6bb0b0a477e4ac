"""What a backend cannot do: the one list, with the reason and a link. Each still runs, and must fail."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class ExpectedFailure:
    """``backend``, ``test`` and ``label`` are patterns as of a shell: for ``test_result_of_op[numpy-sin-float64]`` they
    are compared with ``numpy``, ``test_result_of_op`` and ``sin-float64``. The link is to the upstream issue."""

    backend: str
    test: str
    label: str
    reason: str
    link: str

    def matches(self, backend: str, test: str, label: str) -> bool:
        pairs = ((backend, self.backend), (test, self.test), (label, self.label))
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


EXPECTED_FAILURES: tuple[ExpectedFailure, ...] = (
    *(
        ExpectedFailure(
            backend,
            "test_result_of_op",
            "algebra-*",
            "the rewrites of the Theano lineage are of numbers: x * 0, x - x, x / x, x == x of NaN and infinities too",
            "https://github.com/Theano/Theano/issues/3848",
        )
        for backend in ("pytensor*", "aesara*", "theano*")
    ),
    *(
        ExpectedFailure(
            "pytensor",
            "test_result_of_op",
            label,
            "PyTensor compiles for Numba without signed zeros (fastmath's nsz); without it sums take 10 times as long",
            "https://github.com/pymc-devs/pytensor/blob/main/pytensor/link/numba/dispatch/basic.py",
        )
        for label in ("special-remainder", "special-power_*")
    ),
)
