"""The answer: one sentence for the question, the same in the terminal and the report."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_helpers import all_columns, any_results, markdown_of, measured, of
from store_helpers import beside
from test_one_verdict import any_seconds

from xbackend.analysis.answer import answer
from xbackend.analysis.comparison import comparisons
from xbackend.analysis.scaling import scalings
from xbackend.analysis.statistics import Verdict
from xbackend.backends.description import IN_TURN, Description
from xbackend.measure.candidates import disturbed_warnings, outlier_warnings
from xbackend.measure.loop import _warnings
from xbackend.report.said import text
from xbackend.report.said.doubts import Doubt, doubts, gathered
from xbackend.report.written import columns, terminal
from xbackend.results.schema import Measurement, Parity, Profile, Results, SessionSettings, load
from xbackend.wording import REST, visible

DATA = Path(__file__).parent / "data"
TWO = {"dev0": "gpu:0", "dev1": "gpu:1"}
SHARED = {"dev0": "cpu:0", "dev1": "cpu:1"}
LOCKED = Description(notes={"stages": f"{IN_TURN}compiled C code keeps Python's interpreter lock"})


def near(time: float, spread: float = 0.002) -> list[float]:
    """The times of five processes."""
    return [time * (1 + spread * i) for i in (-2, -1, 0, 1, 2)]


def both(backend: str, one: float, two: float, size: int = 8, **fields: Any) -> list[Measurement]:
    """The measurements of a backend on one device and on two."""
    fields = {"parameters": {"size": size}, "bindings": TWO, **fields}
    return [measured(backend, near(one), **fields), measured(backend, near(two), 2, **fields)]


def said(*rows: Measurement, **fields: Any) -> str:
    return answer(comparisons(of(*rows, **fields)))


# Does another device help?


def test_a_few_rows_are_said_one_by_one() -> None:
    rows = [*both("quick", 1.91, 1.0), *both("locked", 1.0, 1.001, description=LOCKED), *both("slow", 1.0, 2.0)]
    assert said(*rows) == (
        "Two devices against one: 1.91 times as fast on quick (1.90 to 1.92), slower on slow (0.500 times as fast, "
        "0.497 to 0.503), equal within 0.70 % on locked (compiled C code keeps Python's interpreter lock)."
    )


def test_four_rows_are_said_one_by_one_and_five_are_counted() -> None:
    rows = [m for name in "abcd" for m in both(name, 2.0, 1.0)]
    assert said(*rows).count("2.00 times as fast on ") == 4
    assert said(*rows, *both("e", 2.0, 1.0)) == "Two devices against one: 2.0 times as fast on 5 of 5."


def test_what_failed_on_one_device_and_was_not_asked_for_on_more_is_said() -> None:
    rows = [*both("a", 2.0, 1.0), measured("b", [], parameters={"size": 8}, status="failed")]
    assert said(*rows).endswith("2.00 times as fast on a (1.99 to 2.01), not measured on b (failed).")
    lost = [replace(row, processes=[], status="failed", reason="x") for row in both("a", 1.0, 1.0, 9)]
    assert said(*rows[:2], *lost).endswith(
        "size=8: 2.00 times as fast on a (1.99 to 2.01), not measured on a (failed at 9)."
    )


def test_many_rows_are_counted_with_what_was_not_measured() -> None:
    rows = [m for i in range(4) for m in both(f"quick{i}", 1.8 + 0.05 * i, 1.0)]
    rows += [m for i in range(2) for m in both(f"locked{i}", 1.0, 1.001, description=LOCKED)]
    rows += both("level", 1.0, 1.001)
    rows += [measured("gone", near(1.0), parameters={"size": 8}), measured("gone", [], 2, parameters={"size": 8},
             status="failed", reason="x")]  # fmt: skip
    assert said(*rows) == (
        "Two devices against one: 1.8 to 2.0 times as fast on 4 of 8, equal on 3 (2 of them: compiled C "
        "code keeps Python's interpreter lock), not measured on 1 (failed)."
    )


def test_devices_that_share_their_cores_are_named_as_such() -> None:
    assert said(*both("a", 2.0, 1.0, bindings=SHARED)).startswith("Two devices against one (sharing cores): 2.00 times")


def test_of_several_sizes_the_answer_is_from_which_one_they_are_faster_and_whether_both_were_busy() -> None:
    def swept(backend: str, gains: dict[int, float]) -> list[Measurement]:
        rows = [both(backend, gain, 1.0, size, bindings=SHARED) for size, gain in gains.items()]
        for (_, many), part in zip(rows, (0.1, 0.4, 0.72), strict=False):
            busy = {"cpu:0": 0.9, "cpu:1": 0.8}
            profile = Profile(
                wall=1.0, busy=busy, transfers=0, exposed=0, together=part, call=1.0, compute=1.0, launch=0.0, wait=0.0
            )
            many.processes[0] = replace(many.processes[0], profile=profile)
        return [row for pair in rows for row in pair]

    sizes = {128: 0.5, 512: 1.5, 1024: 1.9}
    assert said(*swept("a", sizes), settings=SessionSettings(cores_per_device=1)) == (
        "Two devices against one (simulated by cores): on a faster from a size between 128 and 512 (1.50 times as "
        "fast at 512 and 1.90 at 1024, slower at 128, both busy at once 40 to 72 % of the time)."
    )
    never = [m for size in sizes for m in both("b", 1.0, 1.001, size, bindings=SHARED, description=LOCKED)]
    assert said(*swept("a", sizes), *never).endswith(
        "; on b not shown to be faster at any size (128 to 1024) (compiled C code keeps Python's interpreter "
        "lock, equal at 128 to 1024)."
    )
    many = [m for name in "cdef" for m in swept(name, sizes)]
    assert said(*swept("a", sizes), *never, *many) == (
        "Two devices against one (sharing cores): on a, c, d and 2 more faster from a size between 128 and 512 (1.5 to "
        "1.9 times as fast); on b not shown to be faster at any size (128 to 1024) (equal)."
    )
    gone = replace(swept("a", sizes)[-1], processes=[], status="failed", reason="x")
    assert said(*swept("a", sizes)[:-1], gone).endswith(
        "slower at 128, both busy at once 40 % of the time), not measured on a (failed at 1024)."
    )
    assert said(*swept("a", sizes), *swept("b", {512: 1.5})).endswith(
        "; on b faster at every size measured (512) (1.50 times as fast at 512, both busy at once 10 % of the time)."
    )
    few = [replace(m, processes=m.processes[:1]) for name in "abcde" for m in swept(name, sizes)]
    assert "at any size (128 to 1024) (too few processes); there are too few processes: " in said(*few)


def test_each_number_of_devices_has_an_answer() -> None:
    rows = [*both("a", 4.0, 2.0), measured("a", near(1.0), 4, parameters={"size": 8}, bindings=TWO)]
    assert said(*rows) == (
        "Two devices against one: 2.00 times as fast on a (1.99 to 2.01); four devices against one: 4.00 times as fast "
        "on a (3.98 to 4.02)."
    )


def test_too_few_processes_are_an_answer_that_says_what_to_type() -> None:
    rows = [measured("a", [2.0, 2.0]), measured("a", [1.0, 1.0], 2, bindings=TWO)]
    assert said(*rows) == (
        "Two devices against one: too few processes on a (2.00 times as fast in 2); there are too few processes: "
        "measure with more of them (--processes 10), as below 3 there is no interval at all."
    )


def test_without_a_time_on_both_that_is_the_answer() -> None:
    rows = [measured("a", near(1.0)), measured("a", [], 2, status="missing", reason="x")]
    assert said(*rows) == (
        "Two devices against one: no backend gave a time on both, not measured on a (missing)."
    )  # fmt: skip
    assert "not measured on a (on one device failed)" in said(
        measured("a", [], status="failed"), measured("a", [1.0], 2)
    )


# Who is the fastest?


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (
            {"a": near(1.0), "b": near(1.8), "c": near(3.0)},
            "a is the fastest: 1.80 times as fast as the next, b (1.79 to 1.81).",
        ),
        (
            {"c": near(1.8), "a": near(1.0, 0.03), "b": near(1.01, 0.03)},
            "a and b are the fastest, not told apart (ratio 1.01, 0.946 to 1.08); 1.78 times as fast as the next, c "
            "(1.68 to 1.89).",
        ),
        (
            {"a": near(1.0, 0.03), "b": near(1.01, 0.03)},
            "a and b are not told apart (ratio 1.01, 0.942 to 1.08; a difference of 7.2 % would be).",
        ),
        (
            {"a": [1.0, 1.01, 1.02], "b": [1.3, 1.31, 1.32], "c": [1.4, 0.9, 2.9]},
            "a has the smallest time; c may be as fast (ratio 1.53, 0.661 to 3.52); a is 1.30 times as fast as b (1.20 "
            "to 1.40).",
        ),
        ({"a": [1.0], "b": [2.0]}, "a has the smallest time, and is not told apart (too few processes: 1); there are"),
        ({"a": near(1.0), "b": []}, "a is the only one that gave a time; not measured: b (failed)."),
        ({"a": [], "b": []}, "no candidate gave a time; not measured: a (failed) and b (failed)."),
    ],
)
def test_who_is_the_fastest_by_how_much_and_how_sure(times: dict[str, list[float]], expected: str) -> None:
    rows = [measured(name, each, status="ok" if each else "failed", reason="x") for name, each in times.items()]
    assert said(*rows).startswith(expected)


def test_of_several_that_are_not_told_apart_the_bounds_hold_all_intervals() -> None:
    spreads = {"a": (1.0, 0.03), "b": (1.01, 0.03), "c": (1.02, 0.06)}
    results = of(*(measured(name, near(*spread)) for name, spread in spreads.items()))
    (comparison,) = comparisons(results)
    ratios = [ratio for _, ratio in comparison.against_first]
    low, high = min(1 / r.high for r in ratios), max(1 / r.low for r in ratios)
    assert {r.high for r in ratios} != {1 / low} and len({r.smallest for r in ratios}) == 2
    would = max(r.smallest for r in ratios)  # the least difference that all of them would show
    assert answer([comparison]) == (
        f"a, b and c are not told apart (ratios within {text.number(low)} to {text.number(high)}; a difference of "
        f"{text.percent(would)} would be)."
    )


def test_three_without_a_time_are_named_and_four_are_counted() -> None:
    rows = [measured("a", near(1.0)), *(measured(name, [], status="failed") for name in "bcd")]
    assert said(*rows).endswith("; not measured: b (failed), c (failed) and d (failed).")
    assert said(*rows, measured("e", [], status="missing")).endswith("; not measured: 4 (3 failed, 1 missing).")


def test_each_size_has_its_fastest_and_many_sizes_are_counted() -> None:
    def rows(*sizes: int) -> list[Measurement]:
        made = []
        for size in sizes:
            fast, slow = ("a", "b") if size < 3 else ("b", "a")
            made += [measured(fast, near(1.0), parameters={"size": size})]
            made += [measured(slow, near(1.0 + size / 10), parameters={"size": size})]
        return made

    assert said(*rows(1, 4)) == (
        "size=1: a is the fastest: 1.10 times as fast as the next, b (1.09 to 1.11); size=4: b is the fastest: 1.40 "
        "times as fast as the next, a (1.39 to 1.41)."
    )
    assert said(*rows(1, 2, 3, 4)).count("size=") == 4
    gone = [measured("c", [], parameters={"size": size}, status="missing", reason="x") for size in (1, 2, 3)]
    lost = measured("d", [], parameters={"size": 2}, status="failed", reason="x")
    assert said(*rows(1, 2, 3), *gone, lost).endswith("; not measured: c (missing) and d (failed at 2).")
    assert said(*rows(1, 2, 3, 4, 5)) == (
        "b is the fastest in 3 of 5 comparisons, at sizes 3 to 5 (1.30 to 1.50 times as fast as the next), a is the "
        "fastest in 2, at sizes 1 and 2 (1.10 to 1.20 times as fast as the next)."
    )
    level = [measured(name, near(1.0, 0.03), parameters={"size": 6}) for name in "ab"]
    assert said(*rows(1, 2, 3, 4, 5), *level).endswith("next), the fastest are not told apart in 1, at size 6.")


def test_of_many_sizes_those_without_two_times_are_no_ties() -> None:
    alone = [measured("a", near(1.0), parameters={"size": size}) for size in range(5)]
    assert said(*alone) == "a is the only one that gave a time in 5 of 5 comparisons."
    failed = [measured("a", [], parameters={"size": 5}, status="failed", reason="x")]
    both = [measured(b, near(t), parameters={"size": 6}) for b, t in (("a", 1.0), ("b", 2.0))]
    assert said(*alone, *failed, *both) == (
        "a is the fastest in 1 of 7 comparisons (2.00 times as fast as the next), a is the only one that gave a time "
        "in 5, no candidate gave a time in 1; not measured: a (failed)."
    )


def test_several_devices_without_one_are_who_is_the_fastest() -> None:
    rows = [measured("a", near(1.0), 2), measured("a", near(2.0), 4)]
    assert said(*rows).startswith("a on 2 devices is the fastest: 2.00 times as fast as the next, a on 4 devices")


def test_a_group_is_ahead_of_the_next_only_where_each_member_is() -> None:
    """b is told apart neither from a nor from c; c is slower than a."""
    times = {"a": near(1.0, 0.015), "b": near(1.025, 0.015), "c": near(1.05, 0.015)}
    words = said(*(measured(name, each) for name, each in times.items()))
    assert (
        words.startswith("a has the smallest time; b may be as fast (") and "; a is 1.05 times as fast as c (" in words
    )
    words = said(*(measured(name, each) for name, each in {**times, "c": near(1.3, 0.015)}.items()))
    assert words.startswith("a and b are the fastest, not told apart (")
    assert "; 1.27 times as fast as the next, c (" in words


# One source, one verdict.


@settings(max_examples=40, deadline=None)
@given(any_seconds())
def test_the_answer_counts_the_verdicts_of_the_tables(results: Results) -> None:
    """Three backends, each named in the answer."""
    signs = {
        Verdict.FASTER: r"[\d.]+ times as fast on \w+ \(",
        Verdict.SLOWER: "slower on ",
        Verdict.NOT_TOLD_APART: "not told apart on ",
        Verdict.EQUAL: r"equal within [\d.]+ % on ",
        Verdict.UNKNOWN: "too few processes on ",
    }
    for comparison in comparisons(results):
        found = [s.ratio.verdict for s in scalings(comparison)]
        words = answer([comparison])
        assert {v: len(re.findall(sign, words)) for v, sign in signs.items()} == {v: found.count(v) for v in signs}, (
            words
        )


def test_the_report_and_the_terminal_begin_with_the_same_sentence() -> None:
    results = load(DATA / "results.json")
    sentence = answer(comparisons(results))
    assert terminal.lines(results)[0] == sentence
    source = markdown_of(results)
    assert source.split("## Summary\n\n")[1].split("\n\n")[0] == sentence


# The table.


LONG = "pytensor-jax[rewrites=merge]"


def long_names() -> Results:
    return of(
        *(
            measured(LONG, near(time, 0.05), devices, environment="pytensor==2.38.3", parameters={"size": size})
            for size in (512, 1024) for time, devices in ((1.0, 1), (0.99, 2))
        ), *both("tensorflow-eager", 1.234567, 123.4567),
        measured("aesara", [], 2, status="failed", reason="why " * 100, warnings=["rounds spread by 14 %: rest " * 5]),
    )  # fmt: skip


@pytest.mark.parametrize("results", [long_names(), load(DATA / "results.json"), of()], ids=["long", "data", "empty"])
@pytest.mark.parametrize("baseline", [None, "first"])
def test_no_line_is_longer_than_80_characters(results: Results, baseline: str | None) -> None:
    if baseline:
        if not results.measurements:
            return
        baseline = results.measurements[0].backend
    shown = terminal.lines(results, baseline, 80)
    assert max(map(len, shown)) <= 80
    told = [line for line in terminal.lines(results, baseline) if not re.match("warning|failed|wrong|miss", line)]
    assert max(map(len, told[1:]), default=0) <= 80, "the answer is one line where nothing says how wide it may be"


def test_a_long_name_is_wrapped_where_it_has_a_part() -> None:
    lines = terminal.lines(long_names(), None, 80)
    at = lines.index(next(line for line in lines[5:] if line.startswith("pytensor-jax")))
    assert [line.split("  ")[0] for line in lines[at : at + 3]] == [
        "pytensor-jax",
        "[rewrites=merge]",
        "(pytensor==2.38.3) on 2",
    ]


def test_rows_are_sorted_by_time_and_compared_with_one_device_of_the_same_backend() -> None:
    lines = terminal.lines(of(*both("a", 4.0, 2.0), *both("b", 3.0, 1.0)), None, 80)
    rows = [re.split(r" {2,}", line) for line in lines if re.match(r"[ab] on", line)]
    assert [row[0] for row in rows] == ["b on 2", "a on 2", "b on 1", "a on 1"]
    assert [row[2].split(" ")[0] for row in rows] == ["3.00", "2.00", "1", "1"]
    assert [row[3] for row in rows] == ["faster", "faster", "one device", "one device"]


def test_rows_are_compared_with_one_baseline_in_the_terminal_and_the_report() -> None:
    found = of(measured("numpy", near(2.0)), measured("b", near(1.0)), measured("c", [], status="failed", reason="no"))

    def rows(baseline: str | None) -> list[list[str]]:
        return [re.split(r" {2,}", x) for x in terminal.lines(found, baseline, 80)[2:] if re.match(r"(numpy|b|c) ", x)]

    assert [[row[0], row[2].split(" ")[0], row[3]] for row in rows(None)] == [
        ["b", "0.500", "faster"], ["numpy", "1", "baseline"], ["c", text.NOTHING, "failed"],
    ]  # fmt: skip
    assert [[row[2].split(" ")[0], row[3]] for row in rows("b")[:2]] == [["1", "baseline"], ["2.00", "slower"]]
    assert "failed: c on 1 device: no" in terminal.lines(found, None, 80)
    for baseline in (None, "b"):
        header = f"ratio to {baseline or 'numpy'}"
        assert header in " ".join(terminal.lines(found, baseline)) and header in markdown_of(found, baseline)


def test_error_and_what_passes_stand_beside_every_row() -> None:
    parity = Parity(relative_error=2e-7, tolerance=1e-5, inputs="a")
    found = of(measured("a", near(1.0), parity=parity), measured("b", [], parity=parity, status="wrong", reason="no"))
    for said in ("\n".join(terminal.lines(found)), markdown_of(found)):
        assert len(re.findall(r"2\.0e-07 / 1\.0e-05", said)) >= 2, said


def test_where_most_differ_from_the_oracle_that_is_said_first() -> None:
    rows = [measured(name, [], status="wrong", reason="no") for name in "ab"]
    assert "; 2 of 3 are wrong, so that the oracle" in said(*rows, measured("c", near(1.0)))
    assert "are wrong" not in said(*rows, measured("c", near(1.0)), measured("d", near(2.0)))


def test_the_first_line_carries_the_doubt() -> None:
    """Most decisive timings were disturbed, or hardly a difference could have been shown."""

    def disturbed(row: Measurement, cores: float) -> Measurement:
        processes = [beside(process, cores) for process in row.processes]
        return replace(row, processes=processes)

    fast, slow = measured("a", near(1.0)), measured("b", near(3.4))
    assert said(disturbed(fast, 1.5), disturbed(slow, 0.1)).startswith(
        "In doubt, as others disturbed 5 of the 10 timings that count: a is the fastest: 3.40 times"
    )
    assert said(disturbed(fast, 0.1), disturbed(slow, 0.1)).startswith("a is the fastest")
    wide = measured("c", [9.0, 30.0, 90.0])
    assert re.match(r"In doubt, as no difference below \d+ % could be shown for c: a is", said(fast, slow, wide))


def test_the_doubt_is_the_widest_of_all_comparisons() -> None:
    one = [measured("a", near(1.0), parameters={"size": 1}), measured("c", [3e4, 1e5, 3e5], parameters={"size": 1})]
    two = [measured("a", near(1.0), parameters={"size": 2}), measured("c", near(3.0), parameters={"size": 2})]
    assert re.match(r"In doubt, as no difference below \d+ % could be shown for size=1: c: size=1: a", said(*one, *two))


def test_the_title_says_what_could_have_been_shown_of_all_that_was_not() -> None:
    rows = {"a": near(1.0, 0.03), "b": near(1.01, 0.02), "c": near(1.06, 0.06), "d": near(3.0)}
    results = of(*(measured(name, each) for name, each in rows.items()))
    (comparison,) = comparisons(results)
    found = {row.label: ratio for row, ratio in comparison.against_first}
    assert [found[name].verdict for name in "bcd"] == [Verdict.NOT_TOLD_APART, Verdict.NOT_TOLD_APART, Verdict.FASTER]
    least, most = sorted(found[name].smallest for name in "bc")
    between = f"{text.percent(least)} to {text.percent(most)}"
    title = f"(smallest difference that could be shown: {between})"
    assert any(line.endswith(title) for line in terminal.lines(results))
    assert f"no difference from the baseline is shown, the smallest that could be is {between}." in markdown_of(results)


def test_a_long_reason_is_cut_and_the_warnings_of_the_run_are_shown() -> None:
    rows = [measured("a", near(1.0)), measured("b", [], status="failed", reason="why " * 200)]
    lines = terminal.lines(of(*rows, settings=SessionSettings(warnings=["the machine got 9 % slower"])))
    (failed,) = (line for line in lines if line.startswith("failed: "))
    assert failed.startswith("failed: b on 1 device: why why") and failed.endswith("why…") and len(failed) < 330
    assert "warning: the machine got 9 % slower" in lines


def test_numbers_are_aligned_to_the_right() -> None:
    assert columns.lines(["name", "time"], [("", [["a", "1 s"], ["b", "100 s"]])], None, ["time"])[2:] == [
        "a       1 s",
        "b     100 s",
    ]


def test_the_first_column_is_wrapped_before_the_others() -> None:
    rows = [["several words of a name", "1 s", "a b c d e"]]
    lines = columns.lines(["name", "time", "note"], [("", rows)], 30, ["time"])
    assert lines[2:] == ["several words   1 s  a b c d e", "of a name"]


def test_a_header_has_the_lines_that_it_is_given() -> None:
    lines = columns.lines(["name", "a\n-b"], [("", [["x", "a long cell"]])], 40, ["a\n-b"])
    assert lines[:2] == ["name            a", "               -b"]


def test_all_columns_are_shown_where_they_are_asked_for() -> None:
    results = load(DATA / "results.json")
    usual, wide = ("\n".join(terminal.lines(results, wide=wide)) for wide in (False, True))
    for _, row in zip(range(8), all_columns(results)[1], strict=False):
        assert all(cell in wide for cell in row[1:])
    assert "GFLOP/s" in wide and "GFLOP/s" not in usual
    assert usual.split("\n")[0] == wide.split("\n")[0]


@pytest.mark.tier("standard")
@given(any_results(), st.integers(40, 120), st.booleans())
@settings(max_examples=40, deadline=None)
def test_whatever_is_stored_is_shown(results: Results, width: int, wide: bool) -> None:
    for line in terminal.lines(results, None, width, wide):
        assert line == visible(line) and "\n" not in line


CELLS = st.text("ab[] =()", max_size=40) | st.text("ab]=", min_size=9, max_size=60)  # the latter must be cut


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=4), st.integers(30, 90))
def test_a_table_that_is_made_narrow_loses_no_character(rows: list[list[str]], width: int) -> None:
    headers = ["one", "two", "three"]
    lines = columns.lines(headers, [("", rows)], width)
    assert max(map(len, lines)) <= width
    for sign in "ab[]=()":
        assert "".join(lines[2:]).count(sign) >= sum(cell.count(sign) for row in rows for cell in row)


# Warnings.


def test_a_warning_is_one_for_each_cause_with_its_numbers_as_ranges() -> None:
    rows = [
        measured("a", near(1.0), warnings=["1 of 15 rounds took over 2 times the median", "on cpu:1: x"]),
        measured("b", near(1.0), warnings=["3 of 15 rounds took over 2 times the median", "2 of 15 rounds took over 2 "
                                           "times the median", "on cpu:0: x"]),
    ]  # fmt: skip
    found = [doubt for doubt in doubts(comparisons(of(*rows))) if "oracle" not in doubt.cause]
    assert [(doubt.cause, [*dict.fromkeys(name for _, name in doubt.concerned)]) for doubt in found] == [
        ("1 to 3 of 15 rounds took over 2 times the median", ["a on 1 device", "b on 1 device"]),
        ("on cpu:1: x", ["a on 1 device"]),
        ("on cpu:0: x", ["b on 1 device"]),
    ]
    lines = terminal.lines(of(*rows), None, 80)
    assert "warning: a on 1 device and b on 1 device: 1 to 3 of 15 rounds took over 2 times" in lines


def test_noise_is_one_line_with_the_rows_of_each_kind() -> None:
    noisy = [
        "2 of 15 rounds took more than 2 times as long as usual: " + REST,
        "rounds differ by 12 % (10 % ...): " + REST,
    ]
    rows = [
        measured("a", near(1.0), warnings=noisy),
        measured("b", near(1.0), warnings=[*noisy[:1], "where add ran: x"]),
    ]
    lines = [line for line in terminal.lines(of(*rows)) if line.startswith("warning") and "oracle" not in line]
    assert lines == [
        "warning: noise of 2 kinds: 2 of 15 rounds took more than 2 times as long as usual (2 rows); rounds differ by "
        "12 % (10 % ...) (1 row). What to do: close other programs, and measure again",
        "warning: b on 1 device: where add ran: x",
    ]
    slow = Doubt(f"slow: {REST}", (("one", "all"), ("another", "all")))
    (line,) = gathered([slow, Doubt(f"far: {REST}", (("one", "a"),))])
    assert line.startswith("noise of 2 kinds: slow (2 comparisons); far (1 row). What to do: ")


def test_the_noise_that_a_session_warns_of_is_gathered_whatever_its_numbers() -> None:
    def noise(count: int, cores: float) -> list[str]:
        processes: list[Any] = [SimpleNamespace(disturbed=i == 0, foreign_cores=cores, time=1.0) for i in range(count)]
        far: list[Any] = [*processes[:2], SimpleNamespace(time=2.0 + cores)]
        rounds = [0.01] * 9 + [0.012, 0.02 + cores]
        spread = [0.01, 0.012, 0.014, 0.016, 0.018 + 0.001 * count]
        return [
            *disturbed_warnings(processes),
            *outlier_warnings([*far, *far[:1]]),
            *_warnings(rounds, 1),
            *_warnings(spread, 1),
        ]

    rows = [measured(name, near(1.0), warnings=noise(*each)) for name, each in (("a", (1, 0.8)), ("b", (3, 1.2)))]
    lines = [line for line in gathered(doubts(comparisons(of(*rows)))) if "oracle" not in line]
    assert len(lines) == 1 and lines[0].startswith("noise of 4 kinds: ") and lines[0].count("(2 rows)") == 4, lines


def test_a_model_of_pymc_is_answered_by_what_to_type_there() -> None:
    model = {"workload": "model+gradient", "parameters": {"graph": "PyMC 6.4.0, PyTensor 3.3.8"}}
    rows = [
        measured("jax", near(1e-6), **model),
        measured("pytensor", near(3e-6), **model),
        measured("pytensor-jax", near(3.01e-6, 0.02), **model),
        measured("pytensor-c", near(9e-6), **model),
    ]
    said = answer(comparisons(of(*rows)))
    assert said.startswith("jax ")
    assert 'in PyMC type compile_kwargs={"mode": "NUMBA"} (3' in said
    assert "and JAX may be as fast" in said
    assert "CVM" not in said
    assert "in PyMC" not in answer(comparisons(of(*(replace(row, workload="model") for row in rows))))


def test_a_graph_of_pytensor_is_answered_by_the_mode_to_type_there() -> None:
    graph = {"parameters": {"graph": "pytensor 3.3.8"}}
    rows = [
        measured("jax", near(1e-6), **graph),
        measured("pytensor", near(3e-6), **graph),
        measured("pytensor-c", near(3.01e-6, 0.02), **graph),
        measured("pytensor-jax", near(9e-6), **graph),
    ]
    typed = 'in your script type pytensor.config.mode = "NUMBA", or mode="NUMBA" in pytensor.function'
    assert said(*rows).startswith("jax ")
    assert said(*rows).endswith(f"; {typed} (3.00 us for a call, and CVM may be as fast).")
    fast = [replace(row, workload="other") for row in rows]
    slow = [replace(row, workload="slow") for row in rows[3:]]
    both = said(*rows, *fast, *slow)
    assert f"{typed} (matpow: 3.00 us for a call, and CVM may be as fast; other: 3.00 us for a call" in both
    assert (
        both.endswith(' mode="JAX" in pytensor.function (slow: 9.00 us for a call).')
        and both.count("in your script") == 2
    )
    assert "type" not in said(*(replace(row, parameters={"graph": "aesara 2.9.4"}) for row in rows))
