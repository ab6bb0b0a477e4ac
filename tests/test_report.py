"""The report: same data, same bytes; nothing is left out, and nothing concluded that was not shown.

`tests/data/report.md` and `report.html` are snapshots, made by ``python tests/data/make_results.py``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from page_helpers import check_page
from report_helpers import (
    all_columns,
    check_document,
    check_svg,
    markdown_of,
    measured,
    of,
    rows_of,
    tables_of,
    whole_of,
)
from store_helpers import cut_off, finished, snapshot
from store_helpers import results as stored_results

from xbackend import cli, report
from xbackend.analysis.comparison import comparisons, label
from xbackend.errors import StoreError, UsageError
from xbackend.report.said import blocks, text
from xbackend.report.said.comparison import build
from xbackend.report.written import markdown, terminal
from xbackend.results.runs import Store
from xbackend.results.schema import Parity, Results, SessionSettings, load
from xbackend.wording import plain

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parent.parent
NONE = text.NOTHING
change: Callable[..., Any] = msgspec.structs.replace


@pytest.fixture(scope="module")
def results() -> Results:
    return load(DATA / "results.json")


@pytest.fixture(scope="module")
def document(results: Results) -> str:
    return report.render(results)["report.md"].decode()


@pytest.fixture(scope="module")
def whole(results: Results) -> str:
    """The document with the parts that only the page has."""
    return whole_of(results)


# Same data, same bytes.

_DIGEST = """
import hashlib, pathlib
from xbackend import report
from xbackend.results.schema import load
from xbackend.wording import plain
files = report.render(load(pathlib.Path({path!r})))
print(*(f"{{name}} {{hashlib.sha256(data).hexdigest()}}" for name, data in files.items()), sep="\\n")
"""


@pytest.mark.tier("exhaustive")
def test_two_processes_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("axes.labelsize: 30\nxtick.direction: in\n")

    def digest(**environment: str) -> str:
        command = [sys.executable, "-c", _DIGEST.format(path=str(DATA / "results.json"))]
        run = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        return run.stdout

    first = digest(PYTHONHASHSEED="1", TZ="UTC")
    other = digest(PYTHONHASHSEED="2", TZ="Asia/Tokyo", MATPLOTLIBRC=str(tmp_path), LC_ALL="C")
    assert len(first.splitlines()) == 5
    assert first == other


def test_stored_and_read_back_gives_the_same_bytes(results: Results, tmp_path: Path) -> None:
    path = report.write(results, tmp_path / "again")
    assert path.name == "report.md"
    again = report.render(load(path.parent / "results.json.gz"))
    assert {p.name: p.read_bytes() for p in path.parent.iterdir() if p.name != "results.json.gz"} == again


def test_the_snapshots(results: Results, document: str) -> None:
    assert document == (DATA / "report.md").read_text(), "see the top of this file for how to make it anew"
    page = report.render(results)["report.html"].decode()
    assert without_pictures(page) == without_pictures((DATA / "report.html").read_text())
    check_page(page)


def without_pictures(page: str) -> str:
    """A page without its pictures, which differ between versions of matplotlib."""
    return re.sub(r"<svg .*?</svg>", "<svg/>", page, flags=re.DOTALL)


def test_markdown_can_be_searched_with_what_a_keyboard_types(results: Results, document: str) -> None:
    """Unbreakable blanks defeat grep; the page keeps numbers and units together by its style."""
    found = {c for c in document if c.isspace()} | {c for c in document if unicodedata.category(c) in ("Zs", "Cf")}
    assert found <= {" ", "\n"}
    assert re.search(r"\| \d[\d.]* ms \|", document)
    assert "td.number, .short { white-space: nowrap; }" in report.render(results)["report.html"].decode()


def test_matplotlib_waits_for_a_plot() -> None:
    code = (
        "import sys; from xbackend import report; import pathlib; from xbackend.results.schema import load;"
        "from xbackend.report.written import terminal;"
        f"terminal.lines(load(pathlib.Path({str(DATA / 'results.json')!r})), wide=True);"
        "sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_plots(results: Results) -> None:
    files = report.render(results)
    pictures = {name: data for name, data in files.items() if name.endswith(".svg")}
    drawn = build(results, None)[1]
    kinds = ["ratios-01", "medians-01", "medians-02", "sizes-01", "timeline-01", "timeline-02", "placement-01"]
    assert list(drawn) == [f"{kind}-matpow.svg" for kind in kinds]
    assert list(pictures) == [f"{kind}-matpow.svg" for kind in ("ratios-01", "sizes-01", "placement-01")]
    for data in drawn.values():
        check_svg(data)
    words = drawn["medians-02-matpow.svg"].decode()
    for m in results.measurements:
        assert all(f">{line}<" in words for line in label(m).replace(" (", "\n(").splitlines())
    assert ">(pytensor==2.38.3)<" in pictures["sizes-01-matpow.svg"].decode()
    assert all(f"]({name})" in files["report.md"].decode() for name in pictures)


# Nothing is left out.


def test_what_is_not_ok_is_a_row_with_its_reason(results: Results, document: str, whole: str) -> None:
    bad = [m for m in results.measurements if m.status != "ok"]
    assert {m.status for m in bad} == {"missing", "failed", "wrong"}
    rows = rows_of(document)
    printed, shown = all_columns(results)[1], "\n".join(terminal.lines(results, wide=True))
    for m in bad:
        reason = plain(m.reason)
        assert [r for r in rows if r[0] == m.backend and r[-1] == m.status and len(r) == 6]
        assert [r for r in rows_of(whole) if r[0] == m.backend and r[-1] == m.status and len(r) == 11]
        where = "matpow size=128 on 1 device; matpow size=1024 on 1 device"
        assert [r for r in rows if r == [m.backend, m.status, reason, where]]
        assert [r for r in printed if r[1] == m.backend and r[-1] == m.status]
        assert f"{m.status}: {m.backend} on 1 device (2 rows): {reason}" in shown


def test_a_long_reason_is_whole_somewhere() -> None:
    found = of(measured("a", [1.0]), measured("b", [1.0], status="failed", reason="why " * 100))
    source = markdown_of(found)
    rows = rows_of(source)
    whole = [r[2] for r in rows if r[:2] == ["b", "failed"] and r[2] != NONE]
    assert whole and whole[0].startswith(plain("why " * 100)) and "1 finished process not counted" in whole[0]


def test_the_printed_rows_are_the_written_ones(results: Results, whole: str) -> None:
    headers, rows = all_columns(results)
    assert headers[0] == "workload" and {row[0] for row in rows} == {"matpow size=128", "matpow size=1024"}
    written = rows_of(whole)
    assert headers[1:] in written
    assert all([*row[1:-1], row[-1].partition(":")[0]] in written for row in rows)


def test_empty_results() -> None:
    source = report.render(of())["report.md"].decode()
    check_document(source)
    assert "Nothing was compared" in source and all_columns(of())[1] == []


def test_what_has_no_time_or_no_parity_is_shown() -> None:
    wrong = measured("wrong", [1.0], parity=Parity(relative_error=1e300, tolerance=1.0, inputs=""))
    source = whole_of(of(measured("a", [1.0]), wrong, measured("none", [])))
    (row,) = (r for r in rows_of(source) if r[0] == "none" and len(r) == 11)
    assert row[2:7] == [NONE] * 5
    assert ["wrong", "1", "1.0e+300", "1.0e+00", NONE, "no", ""] in rows_of(source)


# The baseline.


def test_ratio_is_time_over_the_time_of_the_baseline() -> None:
    times = {("a", 1): 2.0, ("numpy", 2): 1.0, ("numpy", 1): 4.0, ("b", 1): 8.0}
    found = of(*(measured(backend, [t, 1.01 * t, 0.99 * t], n) for (backend, n), t in times.items()))

    def ratios(baseline: str | None) -> list[tuple[str, str]]:
        return [(row[5], row[6]) for row in all_columns(found, baseline)[1]]

    assert [ratio.split(" ")[0] for ratio, _ in ratios(None)] == ["0.500", "0.250", "1", "2.00"]
    assert [verdict for _, verdict in ratios(None)] == ["faster", "faster", "baseline", "slower"]
    assert re.fullmatch(r"0\.500 \(0\.4\d\d to 0\.5\d\d\)", ratios(None)[0][0])
    assert [ratio.split(" ")[0] for ratio, _ in ratios("a")] == ["1", "0.500", "2.00", "4.00"]


VERDICT = "faster|slower|not told apart|equal|too few processes"
BESIDE = r"\d\S* \((\d\S* to \d\S*|no interval)\)"


def bare(source: str) -> list[list[str]]:
    """The rows with a ratio or speed-up that lacks its interval or its verdict."""
    found = []
    for heads, *rows in tables_of(source):
        columns = [i for i, head in enumerate(heads) if re.match(r"ratio|against|speed-up \(", head)]
        judged = "ratio of the halves (95 % interval)" not in heads  # the noise has no verdict
        for row in rows:
            cells = [row[i] for i in columns if row[i] not in (NONE, "1", "it is the baseline")]
            verdict = re.search(VERDICT, " ".join(row)) or not judged
            if not all(re.match(BESIDE, cell) for cell in cells) or (cells and not verdict):
                found.append(row)
    return found


def test_a_ratio_is_never_without_an_interval_or_a_verdict(document: str, whole: str) -> None:
    few = whole_of(of(measured("numpy", [1.0]), measured("a", [0.5]), measured("a", [0.25], 2)))
    history = (DATA / "history.md").read_text()
    assert len(re.findall(BESIDE, whole)) > 15
    assert [bare(source) for source in (document, whole, few, history)] == [[], [], [], []]
    (row,) = (r for r in rows_of(few) if r[:2] == ["a", "1"] and r[-1] == "ok" and len(r) == 11)
    assert row[4:6] == ["0.500 (no interval)", "too few processes"]
    assert len(bare(whole.replace("faster", "-"))) > 5
    assert len(bare(re.sub(r"\s\([0-9.]+\sto\s[0-9.]+\)", "", whole))) > 5


def test_environments_are_rows_of_their_own_and_can_be_the_baseline() -> None:
    old, new = measured("a", [2.0] * 3, environment="a==1"), measured("a", [1.0] * 3)
    found = of(old, new, measured("b", [4.0] * 3))
    rows = all_columns(found, "a==1")[1]
    assert [(row[1], row[5].split(" ")[0]) for row in rows] == [("a (a==1)", "1"), ("a", "0.500"), ("b", "2.00")]
    assert all_columns(found, "a (a==1)") == all_columns(found, "a==1")
    # A backend's name alone means its locked environment.
    assert all_columns(found, "a")[1][1][5] == "1"
    with pytest.raises(UsageError, match=r"there is a, a==1, a \(a==1\) and b"):
        report.render(found, "c")


def test_the_first_row_that_is_ok_stands_in_for_numpy_and_says_so() -> None:
    found = of(measured("bad", [], status="failed"), measured("a", [2.0]), measured("b", [1.0]))
    assert "Baseline: a on 1 device (the first that gave results, as numpy gave none)." in markdown_of(found)


def test_an_unknown_baseline_names_those_there_are(results: Results) -> None:
    with pytest.raises(
        UsageError, match=r"there is numpy, tensorflow, pytensor-jax, pytensor==2.38.3, .* and tensorflow-eager"
    ):
        report.render(results, baseline="torch")
    with pytest.raises(UsageError, match="nothing was measured"):
        all_columns(of(), baseline="numpy")


def test_a_baseline_without_a_time_gives_no_ratios(results: Results) -> None:
    source = markdown_of(results, "aesara")
    assert "Baseline: none: aesara, the baseline asked for, has no time here, so there are no ratios." in source
    assert {row[5] for row in all_columns(results, "aesara")[1]} == {NONE}


# What is concluded.


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0], [2.0], "a has the smallest time, and is not told apart (too few processes: 1)"),
        ([1.0] * 2, [2.0] * 5, "a has the smallest time, and is not told apart (too few processes: 2)"),
        ([1.0, 1.0, 2.1], [2.0] * 3, "a and b are not told apart (ratio "),
        ([1.0, 1.1, 0.9], [2.0, 2.1, 1.9], "a is the fastest: 2.01 times as fast as the next, b ("),
        ([1.0] * 3, [], "a is the only one that gave a time; not measured: b (no process finished)."),
        ([], [], "no candidate gave a time; not measured: a (no process finished) and b (no process finished)."),
    ],
)
def test_a_winner_is_shown_or_there_is_none(first: list[float], second: list[float], expected: str) -> None:
    source = markdown_of(of(measured("a", first), measured("b", second)))
    assert source.split("## Summary\n\n")[1].startswith(expected), source
    (row,) = (r for r in rows_of(source) if r[0] == "matpow" and len(r) == 5)
    assert (row[1] == "a") == expected.startswith("a is the fastest")


def test_a_winner_beats_all_others_and_not_the_next_alone() -> None:
    times = {"a": [1.0, 1.01, 1.02], "b": [1.3, 1.31, 1.32], "c": [1.4, 0.9, 2.9]}
    found = comparisons(of(*(measured(name, each) for name, each in times.items())), None)
    assert [c.label for c in found[0].ranked] == ["a", "b", "c"]
    assert found[0].winner is None and [c.label for c in found[0].rivals] == ["c"]
    source = markdown_of(of(*(measured(name, each) for name, each in times.items())))
    assert "| not told apart: a and c |" in source and "c may be as fast" in source


def test_an_incomplete_run_says_so_first() -> None:
    reason = "not measured: the run did not come to it"
    cut = [measured("a", [1.0, 1.1]), measured("b", [], status="missing", reason=reason)]
    source = markdown_of(of(*cut, complete=False, settings=SessionSettings(processes=5)))
    assert source.split("\n\n")[1].startswith(
        "> **This run is incomplete.** It was cut off, or was still being measured, before all that was planned"
    )
    assert "Candidates have 2 processes; 5 each were planned." in source.split("\n\n")[1]
    assert [r for r in rows_of(source) if r[0] == "b" and r[-1] == "missing"]
    assert ["b", "missing", reason, "matpow on 1 device"] in rows_of(source)
    assert "incomplete" not in markdown_of(of(*cut))


def test_the_summary_says_on_what(document: str) -> None:
    top = document[: document.index("## Contents")]
    for words in (
        "A Processor (R) @ 2.50GHz, 2 cores, 8 GiB of memory, no accelerator; Linux x86\\_64, 2 threads each",
        "pytensor 3.0.7 and 2.38.3; xbackend 0.1.0",
        "2026-11-21 00:00 UTC, run 20261121-000000",
        "95 % intervals over 3 fresh processes of each candidate; the baseline was not compared with itself, which",
        "6 of 20 candidates, aesara on 1 device (missing), aesara-jax on 1 device (failed) and tensorflow-eager on",
    ):
        assert words.replace("x86\\_64", "x86_64") in top


def test_warnings_of_the_whole_run_stand_in_the_summary(results: Results) -> None:
    source = markdown_of(
        of(measured("a", [1.0]), settings=SessionSettings(warnings=["the machine got 9 % slower | <b>"]))
    )
    assert "- **Warning**: the machine got 9 % slower \\| &lt;b&gt;." in source


def test_cautions() -> None:
    parity = Parity(relative_error=0.0, tolerance=1.0, inputs="one")
    found = of(
        measured("a", [1.0, 1.2], parity=parity, warnings=["loaded: stop it"]),
        measured("b", [1.0], parity=change(parity, inputs="other")),
    )
    source = markdown_of(found)
    assert "- **loaded: stop it**: a on 1 device.\n" in source
    assert "- **processes differ by more than 10 %" in source
    assert "- **the candidates were not given the same inputs (their hashes differ): do not compare them**" in source


# The other sections.


def test_contents_lead_to_headings(document: str) -> None:
    titles = re.findall(r"^## (.*)$", document, re.MULTILINE)
    links = re.findall(r"^- \[(.*)\]\(#(.*)\)$", document, re.MULTILINE)
    assert [name for name, _ in links] == titles[2:]
    assert [target for _, target in links] == [blocks.anchor(h.replace("\\", "")) for h in titles[2:]]
    again = markdown.write(
        [blocks.Contents(), blocks.Heading(2, "A b"), blocks.Heading(3, "A b"), blocks.Heading(2, "A b")]
    )
    assert "(#a-b)" in again and "(#a-b-2)" in again


def test_published_times_are_of_programs_like_ours_and_no_part_of_a_report(document: str) -> None:
    published = (ROOT / "docs" / "published.md").read_text()
    rows = rows_of(published)
    assert ["11.277 s", "7.132 s", "1.58"] in [row[-3:] for row in rows] and "ResNet" not in published
    for one, two, speedup in (row[-3:] for row in rows[1:]):
        assert float(one.split()[0]) / float(two.split()[0]) == pytest.approx(float(speedup), abs=0.01)
    assert "publish" not in document and "docs/published.md" not in document


def test_parity_has_relative_error_and_ulps(whole: str) -> None:
    rows = rows_of(whole)
    assert ["numpy", "2", "4.2e-07", "5.4e-05", "3.50", "yes", "ab12ab12ab12"] in rows
    assert ["tensorflow-eager", "1", "3.0e-01", "5.4e-05", NONE, "no", "ab12ab12ab12"] in rows


def test_placement_is_counted(whole: str) -> None:
    rows = rows_of(whole)
    names = "numpy, tensorflow, pytensor-jax"
    more = f"{names}, pytensor-jax (pytensor==2.38.3)"
    assert [more, "1", "dev1", "cpu:0", "cpu:0", "as asked", "3", "matmul 3x"] in rows
    assert [names, "2", "dev1", "cpu:1", "cpu:1", "as asked", "3", "matmul 3x"] in rows
    assert ["numpy, pytensor-jax", "2", "cpu:1", "cpu:0", "crossing", "1", "1 MiB"] in rows


def test_which_op_ran_where_on_several_devices_is_one_table_of_all_sizes(document: str) -> None:
    (table,) = [table for table in tables_of(document) if "executed on" in table[0]]
    assert [row[1:5] for row in table[1:3]] == [["2", "dev0", "cpu:0", "cpu:0"], ["2", "dev1", "cpu:1", "cpu:1"]]
    assert {row[0] for row in table[1:3]} == {"numpy, tensorflow, pytensor-jax"}


def test_a_placement_is_drawn_only_where_it_differs_from_what_was_asked(document: str) -> None:
    assert "with the transfers of the program alone: 12 of 14 rows." in document
    assert document.count("](placement-01-matpow.svg)") == 1 and "](placement-02" not in document
    assert "What was executed by tensorflow on 2 devices, coloured" in document
    assert "looks as drawn for matpow size=128, but for sizes." in document


def test_phases_have_a_unit_each(whole: str) -> None:
    rows = rows_of(whole)
    assert [r for r in rows if r[2:6] == ["process start (ms)", "framework import (s)", "trace (ms)", "lower (ms)"]]
    assert [r for r in rows if r[:3] == ["numpy", "1", "210"] and r[-4:] == ["300", *[NONE] * 3]]


def test_order_shows_what_did_not_finish(whole: str) -> None:
    rows = rows_of(whole)
    assert ["42", "matpow | aesara-jax | 1", NONE, NONE, NONE, "did not finish", *[NONE] * 3] in rows
    assert [r for r in rows if r[0] == "1" and r[6:] == ["0, 1", "0", "0.10"]]
    assert "2026-09-21 14:13:20 UTC" in whole


# The index, and what cannot be written.


def test_the_index_lists_the_newest_first_and_names_the_damaged(results: Results, tmp_path: Path) -> None:
    report.write(results, tmp_path / "old")
    report.write(change(results, created="2027-01-01"), tmp_path / "new #1")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "results.json.gz").write_text('{"format": "xbackend.results"')
    source = report.index(tmp_path).read_text()
    assert source.index("[new `#1`](./new%20%231/report.md)") < source.index("[old](./old/report.md)")
    rows = rows_of(source)
    assert [r for r in rows if r[0] == "bad (no report.md)" and "bad/results.json.gz is damaged" in r[1]]
    assert [r for r in rows if r[0] == "old" and r[5] == "14 of 20"]
    assert "html" not in source.lower()  # pages are made on demand: a link to one might lead nowhere
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
    with pytest.raises(StoreError, match=r"report\.md: Is a directory"):
        report.write(results, tmp_path / "taken")
    assert not [p for p in (tmp_path / "taken").iterdir() if p.name.startswith(".")]


def test_a_wrong_baseline_changes_nothing(results: Results, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        report.write(results, tmp_path / "report", "torch")
    assert list(tmp_path.iterdir()) == []


# What stood in a report and was not so.


def test_what_proves_the_rules_of_timing_is_shown() -> None:
    row = measured("a", [1.0, 1.1])
    checks = [{"second_wait": 0.001, "twice": 2.01}, {"second_wait": 0.02, "twice": 1.9}]
    kept = [change(p, checks=c, compiled=["xla"]) for p, c in zip(row.processes, checks, strict=True)]
    source = whole_of(of(change(row, processes=kept)))
    assert ["a", "1", "2.0 %", "1.90 times as long", "xla"] in rows_of(source)
    assert "Checks of the timing" not in whole_of(of(row))


def test_a_report_that_is_written_again_leaves_its_data_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measured data keep their checksum and their format."""
    monkeypatch.setattr(report, "render", lambda results, baseline=None: {"report.md": b"", "report.html": b""})
    for data in ((DATA / "results.json").read_bytes(), (DATA / "results.json").read_bytes() + b"\n"):
        (tmp_path / "results.json.gz").write_bytes(data)
        report.write(load(tmp_path / "results.json.gz"), tmp_path, again=True)
        assert (tmp_path / "results.json.gz").read_bytes() == data


def test_nothing_that_is_read_is_changed_and_what_is_written_is_the_same_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte, for a run of the store, one that was cut off, and the data beside a report."""
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "runs")
    finished(store, stored_results())
    cut_off(store)
    before = snapshot(store.folder)
    commands = [["--run", name, "--store", "runs"] for name in ("latest~1", "latest")]
    for command in commands:
        assert cli.main(["report", *command]) == 0
    written = snapshot(tmp_path / "reports")
    for command in [*commands, []]:
        assert cli.main(["report", *command]) == 0
        assert snapshot(tmp_path / "reports") == written
    assert snapshot(store.folder) == before
