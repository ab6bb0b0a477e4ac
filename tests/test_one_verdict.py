"""One verdict: for any seconds, the places of a report, the terminal and the gate never contradict each other."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_helpers import all_columns, measured, of, tables_of, whole_of

from xbackend.analysis import history, statistics
from xbackend.analysis.gate import Limit, judge
from xbackend.report.said import tables, text
from xbackend.results.schema import Results, SessionSettings

TURNED = {"faster": "slower", "slower": "faster"}
# The ledger's words about several devices, by verdict.
SAID = {
    said: rf"(?i)^{said}( within [^,]*| \([^)]*\))?, \S+ \([^)]*\) times as fast as one device"
    for said in map(str, statistics.Verdict)
}
Found = dict[tuple[str, str, str], set[str]]  # group, candidate, baseline -> verdicts


@st.composite
def any_seconds(draw: st.DrawFn, most: int = 4) -> Results:
    """Three backends on one device and on two or three, in two sizes, with similar random seconds."""
    near = st.floats(0.5, 2.0) | st.floats(0.97, 1.03) | st.sampled_from([1.0, 1e-3])
    rows = []
    many = draw(st.sampled_from([2, 3]))
    for size in draw(st.sampled_from([[8], [8, 16]])):
        for backend in ("numpy", "b", "c"):
            for devices in (1, many):
                medians = draw(st.lists(near, max_size=most))
                given = {"parameters": {"size": size}, "status": "ok" if medians else "failed"}
                rows.append(measured(backend, medians, devices, **given))
    return of(*rows, settings=SessionSettings(threads=1))


def verdict(cell: str) -> str:
    """The verdict of a cell, without its other text."""
    return next(word for word in map(str, statistics.Verdict) if re.search(rf"(^|: ){word}( \(| within|$)", cell))


def times(cell: str) -> float:
    """The seconds of a cell such as ``402.0 µs``."""
    value, unit = cell.split(" ")
    return float(value) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]


def add(found: Found, group: str, names: tuple[str, str], said: str) -> None:
    """Add a verdict on the first of two, and its inverse on the second."""
    first, second = names
    found.setdefault((group, first, second), set()).add(said)
    found.setdefault((group, second, first), set()).add(TURNED.get(said, said))


def check_ratio(shown: str, over: str, under: str) -> None:
    """A ratio equals that of the two printed times, of three and four digits."""
    value = float(shown.split(" ", maxsplit=1)[0])
    assert math.isclose(value, times(over) / times(under), rel_tol=0.0062), (shown, over, under)


def name_of(backend: str, devices: str) -> str:
    return f"{backend} on {devices} device{'' if devices == '1' else 's'}"


def of_comparison(found: Found, group: str, heads: list[str], rows: list[list[str]]) -> None:
    """The table of a group: each candidate against the baseline."""
    at = {re.sub("^ratio to .*", "ratio", head): i for i, head in enumerate(heads)}
    base = next((row for row in rows if row[at["verdict"]] == "baseline"), None)
    for row in rows:
        cell = row[at["ratio"]]
        if base is not None and row is not base and cell != text.NOTHING:
            check_ratio(cell, row[at["time"]], base[at["time"]])
            add(found, group, (name_of(*row[:2]), name_of(*base[:2])), verdict(row[at["verdict"]]))


def of_devices(found: Found, group: str, one: str, many: tuple[str, str], cells: Sequence[str]) -> None:
    """A row of one device against several: the times, the speed-up and the verdict."""
    check_ratio(cells[2], cells[0], cells[1])
    add(found, group, (name_of(*many), name_of(one, "1")), verdict(cells[3]))


def verdicts(results: Results) -> tuple[Found, str]:
    """All verdicts in a report, by place, and its text."""
    source = whole_of(results)
    found: Found = {}
    sizes = {m.parameters["size"] for m in results.measurements}

    def group_of(text: str) -> str:
        size = re.search(r"size=(\d+)", text)
        return size[1] if size else str(next(iter(sizes)))

    counts = {str(m.devices) for m in results.measurements}
    for part in re.split(r"\n(?=##)", source):  # a heading with its text
        title = part.split("\n", maxsplit=1)[0].replace("\\", "")
        for heads, *rows in tables_of(part):
            if heads[:4] == ["backend", "devices", "time", tables.SPEEDUP]:
                ones = {row[0]: row[2] for row in rows if row[1] == "1"}
                for row in (row for row in rows if row[3] not in ("1", text.NOTHING)):
                    of_devices(found, group_of(title), row[0], (row[0], row[1]), [ones[row[0]], *row[2:4], row[5]])
            elif heads[:3] == ["backend", "devices", "time"]:
                of_comparison(found, group_of(title), heads, rows)
            elif heads[:2] == ["backend", "time"]:
                (count,) = counts
                wider = [[row[0], count, *row[1:]] for row in rows]
                of_comparison(found, group_of(title), [heads[0], "devices", *heads[1:]], wider)
            elif heads[:2] == ["comparison", "fastest"]:
                for row in rows:
                    for cell, than in [(c, re.search(r" of (\S+ on \d devices?): ", c)) for c in row[3:5]]:
                        first = re.search(r"\w+ on \d devices?", row[1])
                        if than and first:
                            add(found, group_of(row[0]), (first[0], than[1]), verdict(cell))
            elif heads[:4] == ["backend", "devices", "one device", "several"]:
                for row in rows:
                    of_devices(found, group_of(title), row[0], (row[0], row[1]), row[2:6])
    return found, source


def check_words(found: Found, source: str) -> None:
    """The ledger's words about each backend match its verdict."""
    groups = re.split(r"### One device against several: matpow", source.replace("\\", ""))[1:]
    several = {key[0] for key in found}
    for part in groups:
        size = re.match(r" size=(\d+)", part)
        group = size[1] if size else next(iter(several))
        for backend, devices, words in re.findall(r"- \*\*(\w+) on (\d) devices\*\*: (.*)", part):
            (said,) = found[group, name_of(backend, devices), name_of(backend, "1")]
            assert re.search(SAID[said], words), (said, words)
            assert not any(re.search(pattern, words) for key, pattern in SAID.items() if key != said), words


def check_winners(found: Found, source: str) -> None:
    """No place calls a winner anything but faster."""
    for size, cell in re.findall(r"\| matpow(?: size=(\d+))? \| \*\*(\w+ on \d devices?)\*\*", source):
        said = {v for (group, one, _), each in found.items() for v in each if one == cell and size in ("", group)}
        assert said <= {"faster"}, (cell, said)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_seconds())
def test_no_two_places_of_a_report_contradict_each_other(results: Results) -> None:
    found, source = verdicts(results)
    contradictions = {key: said for key, said in found.items() if len(said) != 1}
    assert not contradictions
    check_words(found, source)
    check_winners(found, source)
    headers, rows = all_columns(results)
    written = [row for table in tables_of(source) for row in table]
    assert headers[1:] in written
    assert all([*row[1:-1], row[-1].partition(":")[0]] in written for row in rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_seconds(), any_seconds())
def test_the_gate_and_the_history_say_the_same_of_two_runs(base: Results, head: Results) -> None:
    days = ("2026-01-01", "2026-01-02")
    base, head = (
        msgspec.structs.replace(r, run=day, created=f"{day}T00:00:00+00:00")
        for r, day in zip((base, head), days, strict=True)
    )
    judged = judge(base, head, [Limit.parse("slower:5%")], runs=[base, head])
    gate = [row.ratio for row in judged.rows if row.ratio is not None]
    lines = [line for each in history.series([base, head]) for line in each.lines]
    shown = [line.points[-1].change for line in lines if line.points[-1].change is not None]
    assert sorted(map(str, gate)) == sorted(map(str, shown))


def test_the_report_that_contradicted_itself() -> None:
    """Two devices of pytensor at size 128: the table said that no difference is shown, the ledger 'slower'."""
    results = of(measured("b", [1.0, 1.01, 1.02]), measured("b", [1.01, 1.03, 1.0], 2))
    found, source = verdicts(results)
    assert found["8", "b on 2 devices", "b on 1 device"] == {"equal"}
    assert "Equal within 3.5 %, 0.997 (0.967 to 1.03) times as fast as one device" in source
