"""Several workloads at once: the matrix, its marks and means, in a terminal and in a report."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import markdown_of, measured, of, tables_of

from xbackend import report
from xbackend.analysis import across
from xbackend.analysis.answer import answer
from xbackend.analysis.comparison import comparisons
from xbackend.analysis.statistics import Verdict
from xbackend.backends import registry
from xbackend.report.drawn import across as drawn
from xbackend.report.said import across as cells
from xbackend.report.written import terminal
from xbackend.results.schema import Measurement, Results

SESSIONS = 300


def near(time: float, spread: float = 0.002) -> list[float]:
    return [time * (1 + spread * i) for i in (-2, -1, 0, 1, 2)]


def row(workload: str, backend: str, time: float | None, size: int = 8, **fields: Any) -> Measurement:
    given: dict[str, Any] = {"workload": workload, "parameters": {"size": size}, **fields}
    if time is None:
        return measured(backend, [], **{"status": "failed", "reason": "it cannot", **given})
    return measured(backend, near(time), **given)


def table_of(times: dict[str, dict[str, float | None]], **fields: Any) -> Results:
    """Results of workloads, with the seconds of each backend."""
    return of(*(row(w, b, t) for w, each in times.items() for b, t in each.items()), **fields)


THREE = {
    "sums": {"numpy": 1.0, "jax": 2.0, "aesara": 8.0},
    "waves": {"numpy": 4.0, "jax": 1.0, "aesara": 1.001},
    "trees": {"numpy": 2.0, "jax": 1.0, "aesara": None},
}


def made(results: Results, baseline: str | None = None) -> across.Matrix:
    found = across.matrix(comparisons(results, baseline), baseline is not None)
    assert found is not None
    return found


def test_one_workload_has_no_matrix_whatever_its_sizes() -> None:
    rows = [row("sums", b, 1.0, size) for b in ("numpy", "jax") for size in (8, 16)]
    assert across.matrix(comparisons(of(*rows))) is None


def test_each_cell_has_the_ratio_to_the_smallest_time_and_its_verdict() -> None:
    matrix = made(table_of(THREE))
    assert matrix.columns == ("numpy", "jax", "aesara")
    shown = [[" ".join(filter(None, cells.cell(one))) for one in line] for line in matrix.lines]
    assert shown == [["1 *", "2.00", "8.00"], ["4.00", "1", "1.00 ="], ["2.00", "1 *", "failed"]]
    assert matrix.wins == (1, 1, 0)


def test_with_a_baseline_ratios_are_to_it_and_winners_stay() -> None:
    matrix = made(table_of(THREE), "numpy")
    shown = [[" ".join(filter(None, cells.cell(one))) for one in line] for line in matrix.lines]
    assert shown == [["1 *", "2.00", "8.00"], ["1", "0.250", "0.250"], ["1", "0.500 *", "failed"]]
    assert "that of the baseline" in cells.reading(matrix)


def test_a_mean_of_two_is_over_the_lines_that_both_have() -> None:
    """A failure of a third backend leaves out no line of theirs."""
    matrix = made(table_of(THREE))
    numpy_over_jax, aesara_over_numpy = matrix.pairs[0, 1], matrix.pairs[2, 0]
    assert (numpy_over_jax.lines, aesara_over_numpy.lines) == (3, 2)
    assert numpy_over_jax.value == pytest.approx((0.5 * 4 * 2) ** (1 / 3))
    assert aesara_over_numpy.value == pytest.approx((8 * 1.001 / 4) ** 0.5)
    assert (matrix.absent, matrix.order) == ((0, 0, 1), (1, 0, 2))
    without = made(table_of({name: {**each, "theano": None} for name, each in THREE.items()}))
    assert without.pairs == matrix.pairs and without.order == matrix.order and without.absent == (0, 0, 1, 3)


def test_a_failure_of_another_does_not_turn_two_round() -> None:
    """The planted fault: over the lines common to all, the slower of two comes before the faster."""
    times = {f"w{i}": {"numpy": 1.0, "jax": 0.5, "xla": 0.8, "aesara": 1.0} for i in range(4)}
    times |= {f"z{i}": {"numpy": 1.0, "jax": 9.0, "xla": 1.0, "aesara": 1.0} for i in range(4)}
    failed = {name: {**each, "aesara": None if name[0] == "w" else 1.0} for name, each in times.items()}
    whole, other = made(table_of(times)), made(table_of(failed))
    jax, xla = whole.columns.index("jax"), whole.columns.index("xla")
    assert whole.pairs[jax, xla] == pytest.approx(other.pairs[jax, xla])
    assert other.pairs[jax, xla].lines == 8 and other.absent[other.columns.index("aesara")] == 4


def test_means_do_not_depend_on_what_ratios_are_to() -> None:
    first, second = made(table_of(THREE)), made(table_of(THREE), "numpy")
    assert first.pairs == second.pairs


def test_what_shares_no_line_is_not_compared() -> None:
    matrix = made(table_of({"a": {"x": 1.0, "y": None}, "b": {"x": None, "y": 1.0}}))
    assert matrix.pairs == {} and matrix.absent == (1, 1)
    assert [[*row.values()][1] for row in cells.means(matrix)] == ["1", "\N{EN DASH}"]


def test_two_workloads_give_no_interval_whatever_their_sizes() -> None:
    rows = [row(w, b, t, size) for w in ("x", "y") for size in (8, 16, 32) for b, t in (("numpy", 2.0), ("jax", 1.0))]
    mean = made(of(*rows)).pairs[0, 1]
    assert (
        mean.lines == 6
        and mean.value == pytest.approx(2.0)
        and (mean.low, mean.high) == (0, math.inf)
        and not mean.shown
    )


# The suite: sixteen workloads; six also have a line for the gradient, which is like the value's (measured: 0.87).
SUITE = [f"w{i}" for i in range(16)] + [f"w{i}" for i in range(6)]


def suite(generator: np.random.Generator, candidates: int, ahead: float = 0.0) -> list[list[float]]:
    """Logarithms of times with long tails. The first candidate is ``ahead`` by so much."""
    of_workloads = generator.standard_t(4, (candidates, 16))
    own = generator.standard_t(4, (candidates, len(SUITE)))
    shared = np.array([int(name[1:]) for name in SUITE])
    times = 0.87**0.5 * of_workloads[:, shared] + 0.13**0.5 * own
    times[0] -= ahead
    return [[float(t) for t in each] for each in times]


@pytest.mark.tier("exhaustive")
def test_identical_candidates_are_rarely_told_apart_over_a_suite() -> None:
    """Over all pairs together. The planted fault is each pair alone, with each line as evidence."""
    generator = np.random.default_rng(3)
    wrong = outside = alone = 0
    for _ in range(SESSIONS):
        times = suite(generator, 7)
        found = across.means(times, SUITE)
        wrong += any(mean.shown for mean in found.values())
        outside += not found[0, 1].low <= 1 <= found[0, 1].high
        lines = across.means(times, [str(i) for i in range(len(SUITE))])
        alone += any(not mean.low <= 1 <= mean.high for mean in lines.values())
    assert wrong <= 0.05 * SESSIONS + 3 * (0.05 * SESSIONS) ** 0.5
    assert outside <= 0.05 * SESSIONS + 3 * (0.05 * SESSIONS) ** 0.5
    assert alone > 0.3 * SESSIONS


def test_who_is_ahead_by_far_is_shown_over_a_suite() -> None:
    generator = np.random.default_rng(4)
    shown = [across.means(suite(generator, 5, 3.0), SUITE)[0, 1].shown for _ in range(50)]
    assert sum(shown) >= 45


TIMES = st.floats(0.9, 1.1) | st.floats(0.1, 10.0)


@given(st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=2, max_size=4), st.floats(0.0, 0.1))
def test_a_mark_is_the_verdict_of_the_comparison(times: list[tuple[float, ...]], spread: float) -> None:
    rows = [
        measured(backend, near(t, spread), workload=f"w{i}")
        for i, each in enumerate(times)
        for backend, t in zip("abc", each, strict=True)
    ]
    matrix = made(of(*rows))
    marks = {"~": Verdict.NOT_TOLD_APART, "=": Verdict.EQUAL, "?": Verdict.UNKNOWN, "": Verdict.SLOWER}
    for comparison, line in zip(matrix.comparisons, matrix.lines, strict=True):
        first = comparison.ranked[0]
        for one in line:
            assert one.row is not None
            against = comparison.ratio(one.row, first)
            _, mark = cells.cell(one)
            assert one.winner == (one.row is comparison.winner) == (mark == "*")
            if one.row is not first:
                assert against is not None and marks[mark] is against.verdict
                assert one.level == (one.row in comparison.rivals)


# --- as it is shown ---------------------------------------------------------------------------------------------------


def wide() -> Results:
    """All backends, with workloads of several sizes."""
    rows = [
        row(f"a_workload_{w}", backend, 1.0 + (i * 7 + w) % 13, size)
        for w in range(3)
        for size in (8, 65536)
        for i, backend in enumerate(registry.names())
    ]
    return of(*rows)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_shows_every_column_within_its_width(width: int) -> None:
    matrix = made(wide())
    lines = terminal.matrix_lines(matrix, width)
    assert max(map(len, lines)) <= width
    bands = "\n".join(lines).split("\n\n")
    heads = [" ".join(re.split(r"\s+", band.split("\n---")[0])) for band in bands]
    for name in registry.names():
        assert sum(name.split("-")[0] in head for head in heads) >= 1
    assert all(band.count("a_workload_1") == 1 and band.count("size=65536") == 3 for band in bands)
    lasts = [next(line for line in band.splitlines() if line.startswith("fastest on")) for band in bands]
    counts = [len(re.findall(r"\S+", line)) for line in lasts]
    assert sum(counts) - 2 * len(bands) == len(registry.names())


def test_the_terminal_and_the_report_begin_with_who_wins_where() -> None:
    times = {
        f"w{i}": {"numpy": 3.0, "jax": 1.0 if i < 5 else 3.5, "pytensor": 1.001 if i == 4 else 2.0} for i in range(8)
    }
    results = table_of(times)
    first = terminal.lines(results)[0]
    assert first == (
        "jax is the fastest in 4 of 8 workloads (2.00 times as fast as the next), pytensor is the fastest in 3 (1.50 "
        "times as fast as the next), the fastest are not told apart in 1."
    )
    text = markdown_of(results)
    assert first in text.replace("\\", "")
    tables = [table for table in tables_of(text) if table[0][0] == "workload"]
    assert tables[0][0] == ["workload", "numpy", "jax", "pytensor"]
    assert tables[0][1][1:] == ["3.00", "1 *", "2.00"]
    assert [line[0] for line in tables[0][-2:]] == ["w7", "fastest on"]
    over = next(table for table in tables_of(text) if table[0][0] == "over all lines")
    assert [line[0] for line in over[1:]] == ["jax", "pytensor", "numpy"] and over[1][1:] == ["1", "8", "0", "0", "0"]


def test_workloads_of_several_sizes_are_counted_as_what_they_are() -> None:
    rows = [row(w, b, t, size) for w in ("x", "y") for size in (8, 16, 32) for b, t in (("numpy", 2.0), ("jax", 1.0))]
    said = answer(comparisons(of(*rows)))
    assert said == "jax is the fastest in 6 of 6 comparisons of 2 workloads (2.00 times as fast as the next)."


def test_a_workload_and_its_gradient_are_two_comparisons_of_one() -> None:
    rows = [row(w, b, t) for w in ("x", "x+gradient", "y", "y+gradient", "z") for b, t in (("a", 2.0), ("b", 1.0))]
    assert answer(comparisons(of(*rows))).startswith("b is the fastest in 5 of 5 comparisons of 3 workloads")


def test_of_few_comparisons_the_table_stands_below_the_matrix() -> None:
    few = terminal.lines(table_of(THREE))
    assert sum(line.startswith("workload") for line in few) == 1 and any("verdict" in line for line in few)
    many = terminal.lines(wide())
    assert not any("verdict" in line for line in many)
    assert any("verdict" in line for line in terminal.lines(wide(), wide=True))


def test_the_picture_has_every_cell_and_is_readable_in_grey() -> None:
    matrix = made(wide())
    svg = drawn.picture(matrix, "title")
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    texts = ["".join(e.itertext()).strip() for e in found]
    assert {*registry.names()} <= {*texts}
    cells_shown = [drawn.short(one.slowdown) for line in matrix.lines for one in line]
    assert all(texts.count(words) >= cells_shown.count(words) for words in set(cells_shown))
    assert svg == drawn.picture(matrix, "title")

    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2

    fills = [lightness(fill) for _, fill in drawn.FILLS]
    assert all(b - a > 0.05 for a, b in pairwise(fills))
    ink = lightness(drawn.INK)
    assert all((fill + 0.05) / (ink + 0.05) > 4.5 for fill in fills)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((1.0, "1.0"), (9.94, "9.9"), (12.3, "12"), (999.4, "999"), (1234.0, "1k"), (0.05, ".05"), (2e6, "2M")),
        (None, "\N{EN DASH}"),
    ],
)
def test_a_number_of_the_picture_is_short(value: float | None, words: str) -> None:
    assert drawn.short(value) == words


def test_the_comparisons_are_folded_and_the_page_is_whole() -> None:
    with mock.patch.object(drawn, "picture", return_value=b"<svg xmlns='http://www.w3.org/2000/svg'/>"):
        files = report.render(table_of(THREE))
    page = files["report.html"].decode()
    assert page.count("<details>") >= 3 and "Each comparison" in page
    assert "it cannot" in page
