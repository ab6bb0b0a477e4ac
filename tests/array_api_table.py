"""`python tests/array_api_table.py` writes docs/array_api.md: the functions of the standard, and the state of each on
every backend, from the checks of the contract suite and the expected failures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "array_api.md"
COMMAND = "python tests/array_api_table.py"
STANDARD = "https://data-apis.org/array-api/2025.12/API_specification/"

# The functions of the Array API standard 2025.12, by section. As in the standard, a function of linear algebra may be
# in the namespace and in its extension; it counts in both.
SECTIONS = {
    "creation": "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril "
    "triu zeros zeros_like",
    "dtypes": "astype can_cast finfo iinfo isdtype result_type",
    "elementwise": "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert "
    "bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor "
    "floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp "
    "logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow "
    "real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc",
    "indexing": "take take_along_axis",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "manipulation": "broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis permute_dims "
    "repeat reshape roll squeeze stack tile unstack",
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "isin unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "utilities": "all any diff",
    "linalg": "cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank "
    "matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm",
    "fft": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift",
}
NAMESPACES = {"linalg": "linalg.", "fft": "fft."}
BESIDE = "at conv2d digamma einsum erf erfc erfinv expit gammaln log1mexp logsumexp linalg.solve_triangular"

_SHAPE = "the shape of its result depends on the elements, and is known while tracing for every array"
_COMPLEX = "there are no complex dtypes"
MISSING = {
    "from_dlpack": "a traced array has no memory; give arrays as arguments",
    "nonzero": f"{_SHAPE}; `xb.where`, `xb.count_nonzero`",
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), f"{_SHAPE}; `xb.sort`"),
    "nextafter": "the Theano lineage has no op for it; it could be composed of products, and is not",
    **dict.fromkeys(("imag", "eig", "eigvals"), _COMPLEX),
    **dict.fromkeys(["fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft"], _COMPLEX),
}
# Other names of checks that do not begin with the name of their function.
_CHECKED_AS = {"asarray": "constant"}


def functions() -> list[tuple[str, str]]:
    """Section and name of every function of the standard."""
    return [(section, name) for section, names in SECTIONS.items() for name in names.split()]


def has(section: str, name: str) -> bool:
    """Whether xbackend has the function."""
    import xbackend as xb

    home = getattr(xb, section) if section in NAMESPACES else xb
    return hasattr(home, name)


def _labels() -> Iterator[tuple[str, str]]:
    """Test and label of every check of the contract suite of ops and gradients."""
    import gradients
    import operations

    for batches, test in ((operations.BATCHES, "test_result_of_op"), (gradients.BATCHES, "test_gradient")):
        for batch in batches:
            for check in batch.checks:
                yield test, check.label


def _concerns(name: str, label: str, names: set[str]) -> bool:
    """Whether a check with this label is of the function ``name``, and not of one with a longer name."""
    own = label.removeprefix("grad-").removeprefix("grad-")

    def begins(name: str) -> bool:
        said = _CHECKED_AS.get(name, name)
        return own.startswith(said) and own[len(said) :][:1] in ("", "-", "_")

    return begins(name) and not any(begins(n) for n in names if len(n) > len(name) and n.startswith(name))


class Table:
    """The cells of the table."""

    def __init__(self) -> None:
        import expected_failures

        from xbackend.backends import registry

        self.backends = registry.names()
        self.labels = list(_labels())
        self.names = {name.rpartition(".")[2] for name in BESIDE.split()} | {name for _, name in functions()}
        self.expected = {b: expected_failures.of(b) for b in self.backends}
        self.notes: list[str] = []

    def cell(self, name: str, backend: str) -> str:
        """``yes`` if all checks must pass, the numbers of notes if some must fail, ``made`` if it has no checks of its
        own."""
        checks = [pair for pair in self.labels if _concerns(name, pair[1], self.names)]
        if not checks:
            return "made"
        numbers = []
        for expected in self.expected[backend]:
            hit = [label for test, label in checks if expected.matches(test, label)]
            if hit:
                what = "its gradient" if all(label.startswith("grad-") for label in hit) else "some of it"
                number = self.note(f"{what} fails: {expected.reason} ([link]({expected.link}))")
                if number not in numbers:
                    numbers.append(number)
        return " ".join(f"[{n}]" for n in numbers) or "yes"

    def note(self, text: str) -> int:
        """The number of a note."""
        if text not in self.notes:
            self.notes.append(text)
        return self.notes.index(text) + 1

    def row(self, shown: str, name: str) -> str:
        cells = [self.cell(name, backend) for backend in self.backends]
        return f"| `{shown}` | {' | '.join(cells)} |"


def written() -> str:
    """The text of docs/array_api.md."""
    table = Table()
    every = functions()
    there = [pair for pair in every if has(*pair)]
    head = f"| function | {' | '.join(table.backends)} |"
    rule = "|---" * (len(table.backends) + 1) + "|"
    lines = [
        "# The Array API standard, function by function",
        "",
        f"Written by `{COMMAND}` from the checks of the contract suite and the failures that are expected of each "
        "backend.",
        "",
        f"Of the {len(every)} functions of the [standard 2025.12]({STANDARD}) xbackend has {len(there)}, "
        f"{100 * len(there) / len(every):.0f} %. `yes`: its checks pass against NumPy's results, gradients included; a "
        "number: a note below says what fails; `made`: it is made of other functions while a program is traced, and "
        "has no checks of its own there.",
        "",
    ]
    for section in SECTIONS:
        names = [name for s, name in there if s == section]
        prefix = NAMESPACES.get(section, "")
        rows = [table.row(f"{prefix}{name}", name) for name in names]
        lines += [f"## {section}", "", head, rule, *rows, ""]
    beside = [table.row(name, name.rpartition(".")[2]) for name in BESIDE.split()]
    lines += ["## Beside the standard", "", head, rule, *beside, ""]
    lines += ["## Notes", "", *(f"{n}. {note}" for n, note in enumerate(table.notes, 1)), ""]
    lines += ["## What is not there", "", "| function | why |", "|---|---|"]
    lines += [
        f"| `{NAMESPACES.get(section, '')}{name}` | {MISSING[name]} |"
        for section, name in every
        if (section, name) not in there
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "contract")]
    FILE.write_text(written(), encoding="utf-8")
