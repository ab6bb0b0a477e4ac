"""The report: same data, same bytes; nothing left out; nothing concluded that was not shown.

`tests/data/report.md` is a snapshot; ``python tests/data/make_results.py`` makes it anew.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from report_helpers import check_document, check_svg, markdown_of, measured, of, rows_of

from xbackend import report
from xbackend.errors import StoreError, UsageError
from xbackend.measure.results import Parity, Results, load
from xbackend.report import blocks, markdown, summary, text
from xbackend.report.candidates import groups

DATA = Path(__file__).parent / "data"
NONE = text.NOTHING
change: Callable[..., Any] = msgspec.structs.replace


@pytest.fixture(scope="module")
def results() -> Results:
    return load(DATA / "results.json")


@pytest.fixture(scope="module")
def document(results: Results) -> str:
    return report.render(results)["report.md"].decode()


# Same data, same bytes.

_DIGEST = """
import hashlib, pathlib
from xbackend import report
from xbackend.measure.results import load
files = report.render(load(pathlib.Path({path!r})))
print(*(f"{{name}} {{hashlib.sha256(data).hexdigest()}}" for name, data in files.items()), sep="\\n")
"""


def test_two_processes_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("axes.labelsize: 30\nxtick.direction: in\n")

    def digest(**environment: str) -> str:
        command = [sys.executable, "-c", _DIGEST.format(path=str(DATA / "results.json"))]
        run = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        return run.stdout

    first = digest(PYTHONHASHSEED="1", TZ="UTC")
    other = digest(PYTHONHASHSEED="2", TZ="Asia/Tokyo", MATPLOTLIBRC=str(tmp_path), LC_ALL="C")
    assert len(first.splitlines()) == 7
    assert first == other


def test_stored_and_read_back_gives_the_same_bytes(results: Results, tmp_path: Path) -> None:
    path = report.write(results, tmp_path / "again")
    assert path.name == "report.md"
    again = report.render(load(path.parent / "results.json"))
    assert {p.name: p.read_bytes() for p in path.parent.iterdir() if p.name != "results.json"} == again


def test_the_snapshot(document: str) -> None:
    assert document == (DATA / "report.md").read_text(), "see the top of this file for how to make it anew"


def test_matplotlib_waits_for_a_plot() -> None:
    code = (
        "import sys; from xbackend import report; import pathlib; from xbackend.measure.results import load;"
        f"report.summary_table(load(pathlib.Path({str(DATA / 'results.json')!r})));"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_plots(results: Results) -> None:
    files = report.render(results)
    pictures = {name: data for name, data in files.items() if name.endswith(".svg")}
    kinds = ["medians-01", "medians-02", "sizes-01", "timeline-01", "timeline-02", "placement-01"]
    assert list(pictures) == [f"{kind}-matpow.svg" for kind in kinds]
    for data in pictures.values():
        check_svg(data)
    words = pictures["medians-02-matpow.svg"].decode()
    for m in results.measurements:
        assert f">{m.backend} on " in words
    assert all(f"]({name})" in files["report.md"].decode() for name in pictures)


# Nothing is left out.


def test_what_is_not_ok_is_a_row_with_its_reason(results: Results, document: str) -> None:
    bad = [m for m in results.measurements if m.status != "ok"]
    assert {m.status for m in bad} == {"missing", "failed", "wrong"}
    rows = rows_of(document)
    printed = report.summary_table(results)[1]
    for m in bad:
        reason = text.plain(m.reason)
        assert [r for r in rows if r[0] == m.backend and r[-1] == f"{m.status}: {reason}"]
        assert [r for r in rows if r[1:2] == [m.backend] and r[-2:] == [m.status, reason]]
        assert [r for r in printed if r[1] == m.backend and r[-1] == f"{m.status}: {reason}"]


def test_a_long_reason_is_whole_somewhere() -> None:
    found = of(measured("a", [1.0]), measured("b", [1.0], status="failed", reason="why " * 100))
    rows = rows_of(markdown_of(found))
    assert [r for r in rows if r[0] == "b" and r[-1].endswith("…")]
    whole = [r[-1] for r in rows if r[1:2] == ["b"] and "failed" in r]
    assert whole and whole[0].startswith(text.plain("why " * 100)) and "1 finished process not counted" in whole[0]


def test_the_printed_rows_are_the_written_ones(results: Results, document: str) -> None:
    headers, rows = report.summary_table(results)
    assert headers[0] == "workload" and {row[0] for row in rows} == {"matpow size=128", "matpow size=1024"}
    written = rows_of(document)
    assert headers[1:] in written
    assert all(row[1:] in written for row in rows)


def test_empty_results() -> None:
    source = report.render(of())["report.md"].decode()
    check_document(source)
    assert "Nothing was compared" in source and report.summary_table(of())[1] == []


def test_numbers_that_are_none_are_shown() -> None:
    odd = measured("odd", [math.nan, math.inf], parity=Parity(relative_error=math.inf, tolerance=1.0, inputs=""))
    source = markdown_of(of(measured("a", [1.0]), odd, measured("zero", [0.0]), measured("none", [])))
    (row,) = (r for r in rows_of(source) if r[0] == "odd" and len(r) == 9)
    assert row[3:5] == [NONE, NONE] and row[6] == "inf not ≤ 1.0e+00"
    assert {row[2], *row[5].split()} & {"nan", "inf"}
    (row,) = (r for r in rows_of(source) if r[0] == "none")
    assert row[2:6] == [NONE] * 4


# The baseline.


def test_ratio_is_time_over_the_time_of_the_baseline() -> None:
    found = of(measured("a", [2.0]), measured("numpy", [1.0], 2), measured("numpy", [4.0]), measured("b", [8.0]))

    def ratios(baseline: str | None) -> list[str]:
        return [row[5] for row in report.summary_table(found, baseline)[1]]

    assert ratios(None) == ["0.500", "0.250", "1 (baseline)", "2.00"]
    assert ratios("a") == ["1 (baseline)", "0.500", "2.00", "4.00"]


def test_the_first_row_that_is_ok_stands_in_for_numpy_and_says_so() -> None:
    found = of(measured("bad", [], status="failed"), measured("a", [2.0]), measured("b", [1.0]))
    assert "Baseline: a on 1 device (the first that gave results, as numpy gave none)." in markdown_of(found)


def test_an_unknown_baseline_names_those_there_are(results: Results) -> None:
    with pytest.raises(
        UsageError, match="there is numpy, tensorflow, pytensor-jax, aesara, aesara-jax and tensorflow-eager"
    ):
        report.render(results, baseline="torch")
    with pytest.raises(UsageError, match="nothing was measured"):
        report.summary_table(of(), baseline="numpy")


def test_a_baseline_without_a_time_gives_no_ratios(results: Results) -> None:
    source = markdown_of(results, "aesara")
    assert "Baseline: none: aesara, the baseline asked for, has no median here, so there are no ratios." in source
    assert {row[5] for row in report.summary_table(results, "aesara")[1]} == {NONE}


# What is concluded.


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0], [2.0], "No winner is called: there are candidates with only 1 process"),
        ([1.0] * 2, [2.0] * 5, "No winner is called: there are candidates with only 2 processes"),
        ([1.0, 1.0, 2.1], [2.0] * 3, "No winner is called: the spread of its processes overlaps with that of b on"),
        ([1.0, 1.0, math.nan], [2.0] * 3, "No winner is called"),
        ([1.0] * 3, [2.0] * 3, "Each of its processes was faster than every process of the others (3 or more"),
        ([1.0] * 3, [], "Nothing else gave a time"),
    ],
)
def test_a_winner_needs_processes_that_are_apart(first: list[float], second: list[float], expected: str) -> None:
    (group,) = groups(of(measured("a", first), measured("b", second)), None)
    assert summary.verdict(group).startswith(expected)


def test_cautions() -> None:
    parity = Parity(relative_error=0.0, tolerance=1.0, inputs="one")
    found = of(
        measured("a", [1.0, 1.2], parity=parity, warnings=["loaded: stop it"]),
        measured("b", [1.0], parity=change(parity, inputs="other")),
    )
    source = markdown_of(found)
    assert "- a on 1 device: loaded: stop it\n" in source
    assert "- The processes of a on 1 device differ by more than 10 %" in source
    assert "- The candidates were not given the same inputs" in source


# The other sections.


def test_contents_lead_to_headings(document: str) -> None:
    headings = re.findall(r"^## (.*)$", document, re.MULTILINE)
    links = re.findall(r"^- \[(.*)\]\(#(.*)\)$", document, re.MULTILINE)
    assert [name for name, _ in links] == headings[2:]
    assert [target for _, target in links] == [markdown.anchor(h.replace("\\", "")) for h in headings[2:]]
    again = markdown.write(
        [blocks.Contents(), blocks.Heading(2, "A b"), blocks.Heading(3, "A b"), blocks.Heading(2, "A b")]
    )
    assert "(#a-b)" in again and "(#a-b-2)" in again


def test_published_numbers_stand_beside_one_and_two_devices_only() -> None:
    one, two = measured("a", [2.0]), measured("a", [1.6], 2)
    rows = rows_of(markdown_of(of(one, two)))
    assert ["today, a", "this machine", "matpow: size=8", "2", "2.000 s", "1.600 s", "1.25"] in rows
    assert [r for r in rows if r[0].startswith("TensorFlow-Examples") and r[-3:] == ["11.28 s", "7.132 s", "1.58"]]
    for found in (of(one), of(two), of(change(one, workload="other"), change(two, workload="other"))):
        assert "as published" not in markdown_of(found)


def test_placement_is_counted_and_an_unreadable_one_says_so(document: str) -> None:
    rows = rows_of(document)
    names = "numpy, tensorflow, pytensor-jax"
    assert [names, "2", "dev1", "cpu:1", "cpu:1", "as asked", "3", "matmul 3x"] in rows
    assert [names, "2", "cpu:1", "cpu:0", "crossing", "1", "1.00 MiB"] in rows
    assert document.count("```mermaid") == 1
    assert "looks as drawn for matpow size=128, but for sizes." in document
    damaged = markdown_of(of(measured("a", [1.0], placement={"ops": 5})))
    assert "The placement of a on 1 device cannot be read: Expected" in damaged


def test_results_of_version_1_keep_their_drawing_and_say_what_they_lack() -> None:
    source = report.render(load(DATA / "results-version-1.json"))["report.md"].decode()
    check_document(source)
    assert source.count("```mermaid") == 1 and "The program of all:" in source
    assert "the results hold no profile: measure again with this version" in source


def test_figures(document: str) -> None:
    rows = rows_of(document)
    name = "call of a 2x2 product"
    assert [name, "pytensor", "0.410 x", "0.390 x to 0.440 x", "at most 0.5 x", "yes", NONE] in [r[:7] for r in rows]
    assert [name, "aesara", "0.700 x", NONE, "at most 0.5 x", "no", NONE, NONE] in rows
    assert ["rate", "aesara", NONE, NONE, "at most 280 GFLOP/s", "not measured", "missing", NONE] in rows


def test_phases_have_a_unit_each(document: str) -> None:
    rows = rows_of(document)
    assert [r for r in rows if r[2:6] == ["process start (ms)", "framework import (s)", "trace (ms)", "lower (ms)"]]
    assert [r for r in rows if r[:3] == ["numpy", "1", "210"] and r[-1] == "300"]


def test_order_shows_what_did_not_finish(document: str) -> None:
    rows = rows_of(document)
    assert ["36", "matpow | aesara-jax | 1", NONE, NONE, NONE, "did not finish"] in rows
    assert "2026-09-21 14:13:20 UTC" in document


# The index, and what cannot be written.


def test_the_index_lists_the_newest_first_and_names_the_damaged(results: Results, tmp_path: Path) -> None:
    report.write(results, tmp_path / "old")
    report.write(change(results, created="2027-01-01"), tmp_path / "new #1")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "results.json").write_text('{"format": "xbackend.results"')
    source = report.index(tmp_path).read_text()
    assert source.index("[new \\#1](./new%20%231/report.md)") < source.index("[old](./old/report.md)")
    rows = rows_of(source)
    assert [r for r in rows if r[0] == "bad (no report.md)" and "bad/results.json is damaged" in r[1]]
    assert [r for r in rows if r[0] == "old" and r[5] == "12 of 18"]
    assert str(tmp_path) not in source


def test_the_index_of_nothing(tmp_path: Path) -> None:
    assert "no report yet" in report.index(tmp_path).read_text()
    with pytest.raises(UsageError, match="there is no folder of reports"):
        report.index(tmp_path / "nowhere")


def test_a_folder_that_cannot_be_written(results: Results, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        report.write(results, tmp_path / "file")
    (tmp_path / "taken" / "report.md").mkdir(parents=True)
    with pytest.raises(StoreError, match="the report cannot be written"):
        report.write(results, tmp_path / "taken")
    assert not [p for p in (tmp_path / "taken").iterdir() if p.name.startswith(".")]


def test_a_wrong_baseline_loses_no_results(results: Results, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        report.write(results, tmp_path, "torch")
    assert load(tmp_path / "results.json") == results
