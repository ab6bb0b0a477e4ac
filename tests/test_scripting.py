"""`xb.compare` and `xb.load_results`: the session, the store and the results of the command."""

from __future__ import annotations

import html
import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from report_helpers import check_svg
from store_helpers import STEADY, finished, results, row

import xbackend as xb
from xbackend.cli import DONE, main
from xbackend.cli.compare import Measuring
from xbackend.errors import ArgumentError, DamagedStore, StoreError, UsageError, WorkloadError
from xbackend.measure import matrix, session
from xbackend.measure.standing import MEASURED, STARTING, Standing
from xbackend.results.clustered import Clustered
from xbackend.results.runs import Store
from xbackend.results.schema import sealed
from xbackend.scripting import comparing, progress

DOCUMENT = Path(__file__).parent.parent / "docs" / "scripts.md"
FAST = {"backends": "numpy", "quick": True, "processes": 1}


def compared(*rows: Any, **fields: Any) -> xb.Compared:
    return xb.Compared(results(*rows, **fields))


@pytest.mark.tier("standard")
def test_a_script_measures_as_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def double(x, *, scale=2.0): return x * scale\n")
    (tmp_path / "script.py").write_text(
        "import numpy as np, xbackend as xb\nfrom mine import double\n"
        f"found = xb.compare(double, np.ones(3), settings={{'scale': 3.0}}, name='mine', **{FAST})\n"
        "print(found)\nfound.write('reports/one')\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    arguments = ("--backends", "numpy", "--quick", "--processes", "1", "--name", "theirs")
    assert main(["compare", "mine.py:double", "--input", "float64[3]", "--set", "scale=3.0", *arguments]) == DONE
    ours, theirs = (xb.load_results(name).results for name in ("mine", "theirs"))
    (one,), (other,) = ours.measurements, theirs.measurements
    assert (one.workload, one.parameters, one.program) == (other.workload, other.parameters, other.program)
    assert one.parameters == {"from": "mine.py", "inputs": "float64[3]", "scale": 3.0}
    assert {f: getattr(ours.settings, f) for f in ("quick", "threads", "effort", "processes")} == {
        f: getattr(theirs.settings, f) for f in ("quick", "threads", "effort", "processes")
    }
    assert xb.load_results("reports/one").rows() == xb.load_results("mine").rows()
    table = re.compile(r"^numpy +\d.*", re.MULTILINE)
    assert table.search(done.stdout) and table.search(capsys.readouterr().out)
    assert "starts and compiles" in done.stderr


def test_arguments_are_the_options_of_the_command() -> None:
    own = inspect.signature(xb.compare).parameters
    usual = {one.name: getattr(Measuring(), one.name) for one in fields(Measuring)}
    assert {name: own[name].default for name in usual} == usual


def test_what_is_wrong_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "ready", lambda *_: pytest.fail("it was measured"))
    for call, error, said in (
        (lambda: xb.compare(abs, np.ones(3), backend="numpy"), ArgumentError, "takes no backend: did you mean"),
        (lambda: xb.compare(3), UsageError, "measures a function, or a workload by its name, not 3"),
        (lambda: xb.compare("matpoww"), WorkloadError, "did you mean 'matpow'"),
        (lambda: xb.compare(lambda x: x, np.ones(3), gradient=True), UsageError, "function has no gradient"),
        (lambda: xb.compare(lambda x: x, np.ones(3), settings={"n": 3}), ArgumentError, "has no argument n to be set"),
        (lambda: xb.compare("matpow", backends="numpy", baseline="jax"), ArgumentError, "the baseline 'jax' is not"),
    ):
        with pytest.raises(error, match=re.escape(said)):
            call()


def test_a_stored_run_is_read_by_folder_and_by_name(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    finished(Store(store), results(name="before"))
    newest = finished(Store(store), results(row(), name="after"))
    assert xb.load_results(store).results.run == newest.name
    assert xb.load_results("before", store=store).results.name == "before"
    assert xb.load_results("latest~1", store=store, baseline="other").figures[1].is_baseline
    with pytest.raises(StoreError, match="there is no run 'none'"):
        xb.load_results("none", store=store)
    with pytest.raises(UsageError, match="'jax' is not in the results"):
        xb.load_results("latest", store=store, baseline="jax")


TRAINED, JOB = "reports/digits", "reports/cluster-add_rank"
JOB_FILE = DOCUMENT.parent.parent / JOB / "cluster.json.gz"


@pytest.mark.parametrize(
    ("folder", "columns"),
    [
        (TRAINED, {"strategy", "devices", "test.accuracy", "step_seconds"}),
        (JOB, {"engine", "start_seconds", "updates", "replayed"}),
    ],
)
def test_trainings_and_jobs_are_read_too(
    folder: str, columns: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DOCUMENT.parent.parent)
    found, (file,), (document,) = xb.load_results(folder), Path(folder).glob("*.gz"), Path(folder).glob("*.md")
    assert isinstance(found, xb.Concluded) and found.rows() == xb.load_results(file).rows()
    renamed = tmp_path / "any.name"
    renamed.write_bytes(file.read_bytes())
    assert xb.load_results(renamed).rows() == found.rows()
    rows = found.rows()
    assert columns <= {*rows[0]} and len({tuple(row) for row in rows}) == 1 and len(rows) == len(found.results.runs)
    assert all(value is None or isinstance(value, bool | int | float | str) for row in rows for value in row.values())
    assert str(found).replace("\n", " ").startswith(found.answer) and found.answer in repr(found)
    page = found._repr_html_()
    assert page.startswith("<div>") and page.count("<table>") == 1 and html.escape(found.answer) in page
    check_svg(found.plot().svg)
    written = found.write(tmp_path / "again")
    assert written == tmp_path / "again" / document.name and written.read_text() == document.read_text()
    with pytest.raises(UsageError, match=r"baseline='numpy': .* compares no times"):
        xb.load_results(folder, baseline="numpy")


def test_what_did_not_end_is_a_row_and_no_picture(tmp_path: Path) -> None:
    failed = Clustered(backend="jax", engine="gloo", status="failed", reason="<b>gone</b>")
    told = xb.load_results(JOB_FILE).results
    (tmp_path / "cluster.json.gz").write_bytes(sealed(msgspec.structs.replace(told, runs=(failed,))))
    found = xb.load_results(tmp_path)
    (row,) = found.rows()
    assert (row["status"], row["reason"], row["step_seconds"]) == ("failed", "<b>gone</b>", None)
    assert "<b>gone" not in found._repr_html_()
    with pytest.raises(UsageError, match="no run ended"):
        found.plot()


def test_a_damaged_file_is_no_result(tmp_path: Path) -> None:
    for content, said in (
        (b"{", "is damaged"),
        (b'{"format": "xbackend.trained"}', "is damaged"),
        (b"{}", "nothing of"),
    ):
        (tmp_path / "training.json.gz").write_bytes(content)
        with pytest.raises(DamagedStore, match=said):
            xb.load_results(tmp_path)


def test_rows_are_numbers() -> None:
    twice = [2 * t for t in STEADY]
    found = compared(
        row(),
        row("other", twice, warnings=["a", "b"]),
        row("bad", [], status="failed", reason="why"),
        row("other", twice, parameters={"size": 8, "n": 2}),
    ).rows()
    assert len({tuple(one) for one in found}) == 1 and next(iter(found[0])) == "workload"
    numpy, other, bad, sized = found
    assert numpy["is_baseline"] and numpy["ratio"] is None and numpy["verdict"] == ""
    assert numpy["seconds"] == pytest.approx(1.0, rel=1e-3) and numpy["seconds_low"] < 1 < numpy["seconds_high"]
    assert other["ratio"] == pytest.approx(2.0) and other["ratio_low"] < 2.0 < other["ratio_high"]
    assert other["verdict"] == "slower" and other["warnings"] == "a; b"
    assert (bad["status"], bad["reason"], bad["seconds"], bad["processes"]) == ("failed", "why", None, 0)
    assert (numpy["parameters.n"], sized["parameters.n"], sized["parameters.size"]) == (None, 2, 8)
    assert all(value is None or isinstance(value, bool | int | float | str) for one in found for value in one.values())


def test_rows_of_several_devices_have_a_speed_up() -> None:
    one, two = compared(row(), row(medians=[t / 1.5 for t in STEADY], devices=2)).rows()
    assert one["speedup"] is None and two["speedup"] == pytest.approx(1.5)
    assert two["speedup_low"] < 1.5 < two["speedup_high"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_rows_go_to_a_library_that_is_there(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared()
    planted = SimpleNamespace(DataFrame=lambda rows, **_: ("frame", rows))
    monkeypatch.setitem(sys.modules, library, planted)
    assert getattr(found, f"to_{library}")() == ("frame", found.rows())
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"pip install {library}"):
        getattr(found, f"to_{library}")()


def test_a_picture_is_the_reports(tmp_path: Path) -> None:
    pair = compared().plot()
    check_svg(pair.svg)
    assert "Time over that of numpy" in repr(pair) and pair._repr_svg_().startswith("<?xml")
    assert pair.save(tmp_path / "a.svg").read_bytes() == pair.svg
    assert "Times of matpow" in repr(compared(row()).plot())
    with pytest.raises(UsageError, match="no row has a time"):
        compared(row(medians=[], status="failed", reason="why")).plot()


def test_a_notebook_shows_the_answer_and_the_table() -> None:
    evil = "<script>alert(1)</script>"
    found = compared(row(), row("other", [], status="failed", reason=evil), name=evil)
    page = found._repr_html_()
    assert page.startswith("<div>") and page.count("<table>") == 1 and found.answer in page
    assert "<script" not in page and "&lt;script&gt;" in page and "<style" not in page and " id=" not in page
    assert len(page) < 3000
    many = [row(name, workload=workload) for workload in "abcde" for name in ("numpy", "other")]
    assert compared(*many)._repr_html_().count("<table>") == 1  # the matrix


class Cell:
    """What IPython has of a notebook's cell, whose displays are kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[dict[str, str]] = []
        self.module = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
        monkeypatch.setitem(sys.modules, "IPython", self.module)
        monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=self.display))
        monkeypatch.setattr(progress, "_DRAWN", 0.0)

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert display_id
        self.update(data, raw=raw)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data)

    @property
    def bars(self) -> list[tuple[int, int]]:
        found = [re.search(r'<progress value="(\d+)" max="(\d+)">', data["text/html"]) for data in self.shown]
        return [(int(one[1]), int(one[2])) for one in found if one is not None]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    return Cell(monkeypatch)


def test_progress_is_a_line_with_a_bar_in_a_notebook(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    failed = Standing("c", "failed", failed="why")
    with progress.of_scripts() as (say, watch):
        say("one\n<line>")
        watch("case", [Standing("a", MEASURED, 1.0, processes=1), Standing("b", STARTING), failed])
        watch("case", [Standing("a", MEASURED, 1.0, processes=2), Standing("b", MEASURED, 1.0, processes=1), failed])
    assert cell.shown[1] == {"text/plain": "one <line>", "text/html": "<div>one &lt;line&gt;</div>"}
    assert cell.bars == [(1, 2), (1, 2)] and capsys.readouterr().err == ""
    assert cell.shown[-1]["text/plain"] == "ended after 0 s"
    with progress.of_scripts(planned=3) as (say, watch):
        watch("case", [Standing("a", MEASURED, 1.0, processes=2), Standing("b", STARTING), failed])
        watch("case", [failed])
    assert cell.bars[2:] == [(2, 6)]
    cell.module.get_ipython = lambda: None
    with progress.of_scripts() as (say, watch):
        say("in a log")
    assert capsys.readouterr().err == "in a log\n"


@pytest.mark.tier("standard")
def test_a_comparison_in_a_notebook_has_a_bar_that_fills(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError):  # also where it ends with an error
        xb.compare(lambda x: x, np.ones(3), gradient=True)
    assert cell.shown[-1]["text/plain"].startswith("ended after ")
    cell.shown.clear()
    xb.compare(lambda x: x + 1.0, np.ones(3), store=None, wait=0.0, **FAST)
    assert cell.bars[-1] == (1, 1) and "starts and compiles" in str(cell.shown)
    assert cell.shown[-1]["text/plain"].startswith("ended after ") and capsys.readouterr().err == ""


def test_the_document_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(matrix, "ready", lambda *_: {})
    monkeypatch.setattr(session, "compare", lambda cases, **_: results())  # what it measures is measured above
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    exec(code, {"__name__": "document"})
    compares, concludes = DOCUMENT.read_text().partition("Times are seconds")[2].split("\n\n")
    columns = set(re.findall(r"`([a-z]\w+)`", compares))
    assert "speedup" in columns <= {*compared().rows()[0]}
    columns = set(re.findall(r"`([a-z][\w.]+)`", concludes))
    trained = xb.load_results(DOCUMENT.parent.parent / TRAINED)
    assert "test.accuracy" in columns <= {*trained.rows()[0]}


def test_a_workload_that_is_given_arrays_is_measured_with_its_gradient_as_its_own_are() -> None:
    @xb.workload(gradient="x")
    def squares(x: Any) -> Any:
        return xb.sum(x * x)

    value, derived = "squares", "squares+gradient"
    for gradient, names in ((None, [value, derived]), (False, [value]), (True, [derived])):
        made = comparing._cases(squares, [np.ones(3)], {}, quick=False, seed=0, gradient=gradient, say=print)
        assert [one.workload for one in made] == names
