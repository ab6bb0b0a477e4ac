"""One workload over time: machines separate, versions marked, no damaged or incomplete run taken for whole.

`tests/data/history.md` and `history.html` are snapshots, made by ``python tests/data/make_results.py``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import msgspec
import pytest
from page_helpers import check_page
from report_helpers import READER, check_document, check_svg, flat, history_of, measured, of, rows_of
from store_helpers import changed
from test_cli import xbackend

from xbackend.analysis import history
from xbackend.errors import UsageError
from xbackend.report.said import text
from xbackend.results.runs import Store
from xbackend.results.schema import Machine, Measurement, Results, SessionSettings

DATA = Path(__file__).parent / "data"
NONE = text.NOTHING
change: Callable[..., Any] = msgspec.structs.replace


def made() -> Any:
    """The module that makes the data."""
    spec = util.spec_from_file_location("make_results", DATA / "make_results.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(number: int, *measurements: Measurement, **fields: Any) -> Results:
    """A run of day ``number``."""
    day = {"run": f"r{number}", "created": f"2026-01-{number:02}T00:00:00+00:00"}
    return of(*measurements, **{"settings": SessionSettings(threads=2), **day, **fields})


def steady(seconds: float, version: str = "1", **fields: Any) -> Measurement:
    """Three processes, 1 % apart, of a backend unknown to the registry."""
    times = [seconds, 1.01 * seconds, 0.99 * seconds]
    return measured("b", times, **{"versions": {"framework": version}, **fields})


def markdown_of(*runs: Results, workload: str | None = None, damaged: tuple[tuple[str, str], ...] = ()) -> str:
    return history_of(runs, workload, damaged)["history.md"].decode()


# The files.


def test_the_snapshots() -> None:
    module = made()
    files = history_of(module.history(), "matpow", module.DAMAGED)
    assert sorted(files) == ["history-01-matpow.svg", "history-02-matpow.svg", "history.html", "history.md"]
    document, page = files["history.md"].decode(), files["history.html"].decode()
    assert document == (DATA / "history.md").read_text(), "see the top of this file for how to make it anew"
    check_document(document)
    check_page(page)
    plotless = [re.sub(r"<svg .*?</svg>", "", p, flags=re.DOTALL) for p in (page, (DATA / "history.html").read_text())]
    assert plotless[0] == plotless[1]
    for name in files:
        if name.endswith(".svg"):
            check_svg(files[name])
    assert files == history_of(module.history(), "matpow", module.DAMAGED)


def test_the_plot_has_a_panel_for_each_backend_and_marks_versions() -> None:
    module = made()
    first = history_of(module.history(), "matpow")["history-01-matpow.svg"].decode()
    for words in ("numpy", "pytensor-jax", "1 device", "2 devices", "pytensor 2.38.3", "pytensor 3.0.7", "2026-01-01"):
        assert f">{words}</text>" in first
    assert first.count("stroke-dasharray") == 2  # one line for each change of version, in its panel
    second = history_of(module.history(), "matpow")["history-02-matpow.svg"].decode()
    assert ">pytensor-jax</text>" not in second and "stroke-dasharray" not in second


# What is compared with what.


def test_a_change_is_judged_against_the_run_before() -> None:
    rows = rows_of(markdown_of(run(1, steady(1.0)), run(2, steady(1.0)), run(3, steady(1.2))))
    by_run = {row[2]: row for row in rows if row[0] == "b" and len(row) == 7}
    assert by_run["r1"][4:] == [NONE, NONE, NONE]
    assert by_run["r2"][4].startswith("1.00 (") and by_run["r2"][5].startswith("equal within ")
    assert by_run["r3"][4].startswith("1.20 (") and by_run["r3"][5] == "slower"
    (newest,) = (row for row in rows if row[0] == "matpow: size=8")
    assert newest[2:5] == ["b", "1", "r3"] and newest[-2] == "slower"


def test_different_machines_and_threads_are_apart() -> None:
    other = Machine(
        processor="q", cores=4, memory_bytes=1 << 30, system="s", python="3", accelerators=[], fingerprint="g"
    )
    runs = [
        run(1, steady(1.0)),
        run(2, steady(5.0), machine=other),
        run(3, steady(9.0), settings=SessionSettings(threads=1)),
        run(4, steady(1.0)),
    ]
    found = history.series(runs)
    assert [s.place for s in found] == ["p, 2 cores, 2 threads", "q, 4 cores, 2 threads", "p, 2 cores, 1 thread"]
    assert [[each.run for each in s.runs] for s in found] == [["r1", "r4"], ["r2"], ["r3"]]
    assert [p.change is None for s in found for line in s.lines for p in line.points] == [True, False, True, True]
    assert "shown to be slower" in markdown_of(*runs) and markdown_of(*runs).count("### On ") == 3


def test_parameters_devices_and_environments_are_lines_of_their_own() -> None:
    rows = [steady(1.0), steady(2.0, devices=2), steady(3.0, environment="b==1"), steady(4.0, parameters={"size": 16})]
    found = history.series([run(1, *rows), run(2, *rows)])
    assert [s.title for s in found] == ["matpow: size=8", "matpow: size=16"]
    assert [(line.label, line.devices) for line in found[0].lines] == [("b", 1), ("b", 2), ("b (b==1)", 1)]
    assert all(len(line.points) == 2 for s in found for line in s.lines)


def test_versions_that_changed_are_said() -> None:
    runs = [run(1, steady(1.0, "1")), run(2, steady(1.0, "2")), run(3, steady(1.0, "2")), run(4, steady(1.0, "1"))]
    (found,) = history.series(runs)
    news = [(p.news, p.new) for p in found.lines[0].points]
    assert news == [("", ""), ("framework 1 to 2", "framework 2"), ("", ""), ("framework 2 to 1", "framework 1")]


# What is not whole.


def test_an_incomplete_run_is_named_and_no_later_run_is_judged_by_it() -> None:
    runs = [run(1, steady(1.0)), run(2, measured("b", [5.0]), complete=False), run(3, steady(1.2))]
    source = markdown_of(*runs)
    assert "> **Incomplete.** 1 run did not finish: r2." in source
    rows = {row[2]: row for row in rows_of(source) if row[0] == "b" and len(row) == 7}
    assert rows["r2"][5:] == ["too few processes", "incomplete run; how sessions differ is not known"]
    assert rows["r3"][4].startswith("1.20 (") and rows["r3"][5] == "slower"


def test_what_gave_no_time_keeps_its_place_and_its_reason() -> None:
    bad = measured("b", [], status="failed", reason="killed | <b>")
    source = markdown_of(run(1, steady(1.0)), run(2, bad), run(3, steady(1.2)))
    rows = {row[2]: row for row in rows_of(source) if row[0] == "b" and len(row) == 7}
    assert rows["r2"][3:] == [NONE, NONE, NONE, "failed: killed | <b>"] and rows["r3"][5] == "slower"


def test_damaged_runs_are_named_first_with_their_reasons_below() -> None:
    source = markdown_of(run(1, steady(1.0)), damaged=(("r0|<i>", "torn <script>"),))
    assert READER.render(source).count("<script>") == 0
    opening = [t.content for t in flat(READER.parse(source)) if t.type == "text"]
    assert "Damaged." in opening and [r for r in rows_of(source) if r[:3] == ["r0|<i>", NONE, "damaged: torn <script>"]]
    assert source.index("Damaged.") < source.index("## Summary")


def test_nothing_to_compare_is_said() -> None:
    assert "Nothing can be compared with a run before on the same machine." in markdown_of(run(1, steady(1.0)))
    assert "No run holds a measurement." in markdown_of(run(1))
    with pytest.raises(UsageError, match="there is no workload 'lenet' in 1 run; there is matpow"):
        history_of([run(1, steady(1.0))], "lenet")


def test_drawing_waits_for_something_to_draw() -> None:
    files = history_of([run(1, measured("b", [], status="failed", reason="x"))])
    assert sorted(files) == ["history.html", "history.md"]
    code = "import sys, xbackend.report.said.history, xbackend.report.written.html, xbackend.report.written.markdown"
    code += "; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# The commands.


def stored(store: Store, *runs: Results) -> list[str]:
    """Put runs into a store. Returns their names."""
    names = []
    for each in runs:
        begun = store.create(each)
        begun.finish(each)
        names.append(begun.name)
    return names


@pytest.mark.tier("standard")
def test_the_history_of_a_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    names = stored(store, run(1, steady(1.0)), run(2, steady(1.3)), run(3, steady(1.3)))
    done = xbackend("history", "matpow", "--store", "runs", cwd=tmp_path)
    assert "Nothing is shown to be faster or slower" in done.stdout and "history: reports/history.md" in done.stdout
    source = (tmp_path / "reports" / "history.md").read_text()
    check_page((tmp_path / "reports" / "history.html").read_text())
    assert [r[2] for r in rows_of(source) if r[0] == "b" and len(r) == 7] == names
    assert "(history-01-matpow.svg)" in source and (tmp_path / "reports" / "history-01-matpow.svg").exists()
    assert "[history](./history.md)" in (tmp_path / "reports" / "index.md").read_text()

    changed(store, names[2], lambda data: data[:200])
    before = store.path.read_bytes()
    done = xbackend("history", "--store", "runs", cwd=tmp_path, code=1)
    assert f"left out: run {names[2]} is damaged" in done.stderr
    assert names[1] in done.stdout and "slower" in done.stdout
    assert f"> **Damaged.** 1 run cannot be read and will not be found below: {names[2]}." in (
        tmp_path / "reports" / "history.md"
    ).read_text().replace("\\", "")
    assert store.path.read_bytes() == before, "looking changes nothing"


def test_the_history_of_nothing(tmp_path: Path) -> None:
    assert (
        "there is no run in .xbackend/runs; xbackend compare makes one"
        in xbackend("history", cwd=tmp_path, code=2).stderr
    )
    stored(Store(tmp_path / ".xbackend" / "runs"), run(1, steady(1.0)))
    assert "there is matpow" in xbackend("history", "lenet", cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "reports").exists()


@pytest.mark.tier("standard")
def test_the_report_of_a_stored_run(tmp_path: Path) -> None:
    names = stored(Store(tmp_path / "runs"), run(1, steady(1.0)), run(2, steady(1.0), complete=False, name="../b/<i>"))
    done = xbackend("report", "--run", names[0], "--store", "runs", cwd=tmp_path)
    assert f"report: reports/{names[0]}/report.md" in done.stdout and "index: reports/index.md" in done.stdout
    done = xbackend("report", "--run", "latest", "--store", "runs", "--name", "cut off", cwd=tmp_path)
    assert "report: reports/cut-off/report.md" in done.stdout and "This run was cut off" in done.stderr
    assert "> **This run is incomplete.**" in (tmp_path / "reports" / "cut-off" / "report.md").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["reports", "runs"]
    assert "no run 'x'" in xbackend("report", "--run", "x", "--store", "runs", cwd=tmp_path, code=12).stderr
    assert "--run is a report of its own" in xbackend("report", "a", "--run", "latest", cwd=tmp_path, code=2).stderr
    assert "--name" in xbackend("report", "--name", "a", cwd=tmp_path, code=2).stderr
