"""The bridge to pytest-benchmark: recorded times are shown and saved, and only if the test passed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pytest_benchmark.utils import PercentageRegressionCheck
from store_helpers import finished

from xbackend import pytest_plugin
from xbackend.analysis.gate import GateOutcome, Limit, judge
from xbackend.errors import DamagedStore, StoreError
from xbackend.measure import saved
from xbackend.pytest_plugin import _decided
from xbackend.results.runs import Store
from xbackend.results.schema import Results, Visit

pytestmark = pytest.mark.tier("standard")


ROOT = Path(__file__).resolve().parents[1]
# Importing hypothesis, of which the small suites have nothing, takes two thirds of a start.
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:hypothesispytest")


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=30), st.integers(1, 1000))
def test_replay_is_exact(rounds: list[float], iterations: int) -> None:
    kept: list[Any] = []
    benchmark = fixture(kept.append)
    pytest_plugin.feed(benchmark, rounds, iterations, {"backend": "numpy"})
    (metadata,) = kept
    assert metadata.stats.data == rounds
    assert metadata.as_dict()["stats"]["iterations"] == iterations
    assert metadata.as_dict()["options"]["timer"] == "recorded in a worker"
    assert metadata.extra_info == {"backend": "numpy"}


def fixture(add: Callable[[Any], None]) -> Any:
    """pytest-benchmark's own fixture, outside of a test."""
    from types import SimpleNamespace

    from pytest_benchmark.fixture import BenchmarkFixture
    from pytest_benchmark.utils import NameWrapper

    return BenchmarkFixture(
        SimpleNamespace(name="test", nodeid="bench::test"),
        add_stats=add,
        logger=None,
        warner=None,
        disabled=False,
        timer=NameWrapper(pytest_plugin.CLOCK),
        **dict.fromkeys(("disable_gc", "cprofile", "cprofile_loops", "cprofile_dump"), None),
        **dict.fromkeys(("min_rounds", "min_time", "max_time", "calibration_precision"), 1),
        **dict.fromkeys(("warmup", "warmup_iterations", "precision", "confidence"), None),
    )


BENCH = """
import pytest
@pytest.fixture
def rounds(request):
    return list(eval(f"[{request.config.getoption('--times')}]"))

@pytest.mark.parametrize("backend", ["numpy", "pytensor"])
def test_one(backend, xbackend_replay, rounds):
    xbackend_replay(rounds, 7, {"backend": backend})

def test_two(xbackend_replay, rounds, request):
    processes = request.config.getoption("--medians")
    xbackend_replay(rounds, 1, eval(f"dict(processes=[{processes}], floor=1.01)") if processes else {})
    if request.config.getoption("--break"):
        exec(request.config.getoption("--break"))
"""
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--break", default="")
    parser.addoption("--times", default="0.1, 0.1 + 0.2, 1e-9")
    parser.addoption("--fingerprint", default="")
    parser.addoption("--medians", default="")
def pytest_benchmark_update_machine_info(config, machine_info):
    if config.getoption("--fingerprint"):
        machine_info["xbackend"] = {"fingerprint": config.getoption("--fingerprint")}
"""


def run_bench(folder: Path, *options: str, saved: bool = True) -> tuple[int, str, list[dict[str, Any]]]:
    """Exit status, output and saved runs of a small suite."""
    (folder / "test_it.py").write_text(BENCH)
    (folder / "conftest.py").write_text(CONFTEST)
    command = [*PYTEST, str(folder), "--rootdir", str(folder), *options]
    done = subprocess.run(
        [*command, f"--benchmark-storage={folder}/saved", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("saved/*/*.json"))] if saved else []
    return done.returncode, done.stdout + done.stderr, runs


def test_saved_runs_hold_what_was_recorded_and_are_compared(tmp_path: Path) -> None:
    status, output, (saved,) = run_bench(tmp_path, "--benchmark-save=a", "--benchmark-save-data")
    assert status == 0, output
    assert saved["xbackend"]["complete"] is True
    assert [b["fullname"] for b in saved["benchmarks"]] == [
        "test_it.py::test_one[numpy]",
        "test_it.py::test_one[pytensor]",
        "test_it.py::test_two",
    ]
    assert all(b["stats"]["data"] == [0.1, 0.1 + 0.2, 1e-9] for b in saved["benchmarks"])
    assert saved["benchmarks"][0]["stats"]["iterations"] == 7
    status, output, _ = run_bench(tmp_path, "--benchmark-compare", "--benchmark-compare-fail=median:1%")
    assert status == 0 and "test_one[numpy] (NOW)" in output and "(0001_a)" in output, output


@pytest.mark.parametrize("how", ["assert False", "raise KeyboardInterrupt", "raise SystemExit(1)", "pytest.skip('x')"])
def test_a_partial_benchmark_is_not_saved_as_complete(tmp_path: Path, how: str) -> None:
    status, output, saved = run_bench(tmp_path, "--benchmark-save=a", f"--break={how}")
    names = [b["name"] for run in saved for b in run["benchmarks"]]
    assert names == ["test_one[numpy]", "test_one[pytensor]"], output
    assert status == 0 if "skip" in how else status != 0
    assert all(run["xbackend"]["complete"] is False for run in saved if "skip" not in how)


def test_a_comparison_that_matches_nothing_fails(tmp_path: Path) -> None:
    run_bench(tmp_path, "--benchmark-save=a", "-k", "one")
    status, output, _ = run_bench(tmp_path, "--benchmark-compare", "-k", "two")
    assert status == GateOutcome.NOTHING and "no benchmark of this run is in the saved run" in output, output


def test_a_comparison_with_nothing_fails_before_anything_is_measured(tmp_path: Path) -> None:
    for compare in ("--benchmark-compare", "--benchmark-compare=0007"):
        status, output, _ = run_bench(tmp_path, compare)
        assert status == GateOutcome.NOTHING and "there is no saved run" in output and "passed" not in output, output


def test_a_gate_on_medians_passes_noise_and_fails_a_regression(tmp_path: Path) -> None:
    run_bench(tmp_path, "--benchmark-save=a")
    gate = ("--benchmark-compare", "--benchmark-compare-fail=median:5%")
    # The mean is more than twice the earlier one, the median 4 % more.
    status, output, _ = run_bench(tmp_path, *gate, "--times=0.104, 0.9, 1e-9")
    assert status == 0, output
    status, output, _ = run_bench(tmp_path, *gate, "--times=0.106, 0.3, 1e-9")
    assert status == GateOutcome.REGRESSION and "Performance has regressed" in output, output
    assert "Traceback" not in output and "3 passed" in output


def test_the_gate_of_benchmarks_is_the_gate_between_runs(tmp_path: Path) -> None:
    """With medians of processes a benchmark has one verdict, for any median of its rounds."""
    gate = ("-k", "two", "--benchmark-compare=0001", "--benchmark-compare-fail=median:5%")
    run_bench(tmp_path, "--benchmark-save=a", "--medians=1.0, 1.01, 0.99")
    for processes, times, outcome, words in (
        ("1.2, 1.21, 1.19", "0.1", GateOutcome.REGRESSION, "slower:5%"),
        ("1.0, 1.01, 0.99", "0.9", GateOutcome.PASSED, ""),
        ("1.0, 1.4, 0.7", "0.1", GateOutcome.NO_VERDICT, "holds slower:5%"),
    ):
        status, output, _ = run_bench(tmp_path, *gate, f"--medians={processes}", f"--times={times}")
        assert status == outcome and words in output and "Traceback" not in output, output


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ({"asked": [2, None]}, {"asked": [1, None]}, "other threads"),
        ({"inputs": "ab"}, {"inputs": "cd"}, "other inputs"),
        ({}, {"processes": ["x"] * 3}, "holds no seconds of processes"),
        ({}, {"processes": None}, "holds no seconds of processes"),
        ({}, {"floor": "x"}, ""),
    ],
)
def test_other_threads_or_inputs_and_a_saved_run_of_anything_give_no_verdict(
    ours: dict[str, Any], theirs: dict[str, Any], words: str
) -> None:
    check = PercentageRegressionCheck("median", 5.0)
    now = SimpleNamespace(extra_info={"processes": [1.0, 1.01, 0.99], **ours})
    outcome, reason, _ = _decided(now, {"extra_info": {"processes": [1.0, 1.01, 0.99], **theirs}}, check)
    assert (outcome is GateOutcome.NO_VERDICT) is bool(words) and words in reason


def test_a_gate_on_anything_but_medians_is_refused(tmp_path: Path) -> None:
    run_bench(tmp_path, "--benchmark-save=a")
    status, output, _ = run_bench(tmp_path, "--benchmark-compare", "--benchmark-compare-fail=mean:5%")
    assert status == pytest.ExitCode.USAGE_ERROR and "--benchmark-compare-fail=median:5%" in output
    status, output, _ = run_bench(tmp_path, "--benchmark-compare-fail=median:5%")
    assert status == pytest.ExitCode.USAGE_ERROR and "needs --benchmark-compare" in output


DAMAGE: dict[str, Callable[[str], str]] = {
    "truncated": lambda text: text[:-40],
    "empty": lambda text: "",
    "a flipped digit": lambda text: text.replace('"median": 0.1', '"median": 9.1', 1),
    "NaN": lambda text: text.replace('"median": 0.1', '"median": NaN', 1),
    "text for a number": lambda text: text.replace('"median": 0.1,', '"median": "x",', 1),
    "no benchmarks": lambda text: text.replace('"benchmarks"', '"benchmark"', 1),
    "no machine": lambda text: text.replace('"machine_info"', '"machine"', 1),
    "no names": lambda text: text.replace('"fullname"', '"fulname"'),
    "a list": lambda text: f"[{text}]",
    "nested too deep": lambda text: "[" * 100000,
}


@pytest.fixture(scope="module")
def two_saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two saved runs."""
    folder = tmp_path_factory.mktemp("saved")
    for name in ("older", "newest"):
        run_bench(folder, f"--benchmark-save={name}")
    return folder


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_saved_run_is_named(two_saved: Path, tmp_path: Path, damage: str) -> None:
    (newest,) = two_saved.glob("saved/*/0002_newest.json")
    assert saved.check(newest)["xbackend"]["complete"]
    text = newest.read_text()
    copy = tmp_path / "copy.json"
    copy.write_text(DAMAGE[damage](text))
    assert copy.read_text() != text
    with pytest.raises(DamagedStore, match=r"the saved run .*copy\.json is damaged"):
        saved.check(copy)


@pytest.mark.parametrize("compare", ["--benchmark-compare", "--benchmark-compare=000"])
@pytest.mark.parametrize("damage", ["truncated", "no machine"])
def test_no_older_run_stands_in_for_a_damaged_one(two_saved: Path, tmp_path: Path, compare: str, damage: str) -> None:
    shutil.copytree(two_saved / "saved", tmp_path / "saved")
    (newest,) = tmp_path.glob("saved/*/0002_newest.json")
    newest.write_text(DAMAGE[damage](newest.read_text()))
    for _ in range(2):
        status, output, _ = run_bench(tmp_path, compare, "--benchmark-compare-fail=median:5%", saved=False)
        assert status == GateOutcome.STORE and f"the saved run {newest} is damaged" in output, output
        assert "Traceback" not in output and "passed" not in output


def test_an_older_damaged_run_does_not_matter_to_a_comparison_with_the_newest(two_saved: Path, tmp_path: Path) -> None:
    shutil.copytree(two_saved / "saved", tmp_path / "saved")
    (older,) = tmp_path.glob("saved/*/0001_older.json")
    older.write_text("{")
    status, output, _ = run_bench(tmp_path, "--benchmark-compare", saved=False)
    assert status == 0 and "(0002_newest)" in output, output


def test_an_incomplete_newest_run_is_named_and_no_older_one_stands_in(tmp_path: Path) -> None:
    run_bench(tmp_path, "--benchmark-save=older")
    run_bench(tmp_path, "--benchmark-save=newest", "--break=assert False")
    status, output, _ = run_bench(tmp_path, "--benchmark-compare")
    assert status == GateOutcome.INCOMPLETE and "0002_newest.json is not complete" in output, output


def test_a_gate_between_different_machines_gives_no_verdict(tmp_path: Path) -> None:
    run_bench(tmp_path, "--benchmark-save=a", "--fingerprint=one")
    gate = ("--benchmark-compare", "--benchmark-compare-fail=median:5%")
    assert run_bench(tmp_path, *gate, "--fingerprint=one")[0] == 0
    status, output, _ = run_bench(tmp_path, *gate, "--fingerprint=two", "--times=1")
    assert status == GateOutcome.NO_VERDICT and "is of another machine (one, this is two)" in output, output
    assert run_bench(tmp_path, "--benchmark-compare", "--fingerprint=two")[0] == 0


@pytest.mark.parametrize("gate", [(), ("--benchmark-compare-fail=median:5%",)])
def test_a_run_that_was_saved_without_xbackend_is_said_to_lack_its_words(tmp_path: Path, gate: tuple[str, ...]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "test_it.py").write_text("def test_two(benchmark):\n    benchmark(sum, [1, 2])\n")
    storage = f"--benchmark-storage={tmp_path}/saved"  # outside of pytest's directory
    theirs = ("-p", "no:xbackend", "--benchmark-save=theirs", storage, f"--rootdir={tmp_path}/a")
    status, output = run_pytest(tmp_path / "a", *theirs)
    (file,) = tmp_path.glob("saved/*/*.json")
    assert status == 0 and "xbackend" not in json.loads(file.read_text()), output
    (tmp_path / "a" / "test_it.py").write_text("def test_two(xbackend_replay):\n    xbackend_replay([0.1] * 3)\n")
    status, output = run_pytest(tmp_path / "a", "--benchmark-compare", storage, f"--rootdir={tmp_path}/a", *gate)
    assert status == (GateOutcome.NO_VERDICT if gate else 0), output
    said = [line for line in output.splitlines() if f"{file} was saved without xbackend: it does not say on" in line]
    assert len(said) == 1 and "Traceback" not in output and "INTERNALERROR" not in output, output
    assert "machine_info" not in output and ("(0001_theirs)" in output) is not bool(gate)


@pytest.mark.tier("exhaustive")
def test_what_is_saved_is_read_by_pytest_benchmarks_own_command(tmp_path: Path) -> None:
    for name, times in (("a", "0.1"), ("b", "0.2")):
        run_bench(tmp_path, f"--benchmark-save={name}", f"--times={times}")
    command = [sys.executable, "-m", "pytest_benchmark", f"--storage={tmp_path}/saved", "compare", "--columns=median"]
    done = subprocess.run([*command, f"--csv={tmp_path}/all"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [name for name in ("0001_a", "0002_b") if name in done.stdout] == ["0001_a", "0002_b"], done.stdout
    rows = (tmp_path / "all.csv").read_text().splitlines()
    assert len(rows) == 7 and sum(row.endswith(",0.2") for row in rows) == 3, rows


def test_a_saved_run_is_whole_or_not_there_and_replaces_none(tmp_path: Path) -> None:
    from pytest_benchmark.logger import Logger

    storage = saved.WholeStorage(tmp_path, Logger(Logger.QUIET), default_machine_id="machine")
    for _ in range(2):
        storage.save({"benchmarks": []}, "a")
    # Another writer took the next number meanwhile.
    (tmp_path / "machine" / "0003_theirs.json").write_text("theirs")
    with mock.patch.object(saved.WholeStorage, "_next_num", "0003"):
        storage.save({"benchmarks": []}, "b")
    names = sorted(path.name for path in (tmp_path / "machine").iterdir())
    assert names == ["0001_a.json", "0002_a.json", "0003_theirs.json", "0004_b.json"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be saved"):
        saved.WholeStorage(tmp_path / "file", Logger(Logger.QUIET)).save({}, "a")


def test_a_replay_that_cannot_have_its_clock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_more.py").write_text(
        "def test_late(request):\n    request.getfixturevalue('xbackend_replay')([1.0])\n"
    )
    status, output, _ = run_bench(tmp_path)
    assert status == 1 and "xbackend_replay has to be an argument of its test" in output


def test_bench_is_stopped_by_an_unknown_backend() -> None:
    command = [sys.executable, "-m", "pytest", "bench", "--backends=numpie", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "there is no backend 'numpie'; there is numpy" in done.stderr


@pytest.mark.tier("exhaustive")
def test_bench_of_one_backend(tmp_path: Path) -> None:
    """Recorded in real worker processes, under stable ids."""
    file = tmp_path / "run.json"
    choice = ["--backends=numpy", "--devices=1,2", "--sizes=32", "--dtypes=float32", "--processes=2", "-k", "matpow"]
    command = [sys.executable, "-m", "pytest", "bench", *choice, f"--benchmark-json={file}", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads(file.read_text())
    assert saved["xbackend"]["complete"] is True
    assert saved["machine_info"]["xbackend"]["fingerprint"]
    assert [b["fullname"] for b in saved["benchmarks"]] == [
        f"bench/test_matpow.py::test_matpow[numpy-{devices}-32-float32]" for devices in (1, 2)
    ]
    for benchmark in saved["benchmarks"]:
        assert len(benchmark["extra_info"]["processes"]) == 2
        assert benchmark["extra_info"]["relative_error"] < 1e-4
        assert benchmark["stats"]["iterations"] > 1
        assert all(0 < seconds < 1 for seconds in benchmark["stats"]["data"])


def test_bench_of_a_backend_that_cannot_run_fails_with_the_reason(tmp_path: Path) -> None:
    environment = {**os.environ, "XBACKEND_HOME": "/proc/nowhere"}
    choice = ["--backends=numpy", "--sizes=32", "-k", "matpow"]
    command = [sys.executable, "-m", "pytest", "bench", *choice, "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "numpy | 1 device: missing: " in done.stdout, done.stdout + done.stderr
    assert "/proc/nowhere" in done.stdout and "skipped" not in done.stdout


# --- in a project of somebody else ------------------------------------------------------------------------------------

MINE = """
import numpy as np
import xbackend as xb

def energy(x, *, scale):
    return xb.sum(scale * x * x)

def test_energy(xbackend_benchmark):
    row = xbackend_benchmark(energy, np.ones((8, 8), np.float32), scale=0.5)
    assert row.status == "ok" and row.backend == xbackend_benchmark.backend

def test_wrong(xbackend_benchmark):
    xbackend_benchmark(energy, np.ones(3), scale=0.5, expected=np.float64(7.0))
"""


def run_pytest(folder: Path, *options: str, **variables: str) -> tuple[int, str]:
    """Exit status and output of pytest in a project without this repository's files, with xbackend installed."""
    command = [*PYTEST, "-p", "no:cacheprovider", *options]
    environment = {k: v for k, v in {**os.environ, **variables}.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a benchmark of a user's function."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "test_mine.py").write_text(MINE)
    return tmp_path


def test_another_project_benchmarks_its_function_over_backends(project: Path) -> None:
    options = ("bench", "--quick", "--processes=1", "--backends", "numpy", "--devices=1,2", "-k", "energy")
    status, output = run_pytest(project, *options, "--benchmark-autosave")
    assert status == 0 and "verdicts: bench energy" in output, output
    (file,) = project.glob(".benchmarks/*/*.json")
    content = saved.check(file)
    assert [b["name"] for b in content["benchmarks"]] == ["test_energy[numpy]", "test_energy[numpy-2]"]
    assert all(b["extra_info"]["relative_error"] < 1e-4 and b["stats"]["rounds"] >= 5 for b in content["benchmarks"])
    assert list(project.glob(".xbackend/runs/*"))


@pytest.mark.tier("exhaustive")  # three sessions
def test_what_sessions_differ_by_is_that_of_the_gate(project: Path) -> None:
    """The runs of the store show it. The saved runs and the store's two runs give one verdict."""
    options = ("bench", "--quick", "--processes=3", "--backends=numpy", "-k", "energy", "--benchmark-autosave")
    gate = ("--benchmark-compare=0001", "--benchmark-compare-fail=median:5%")
    assert run_pytest(project, *options)[0] == 0
    status, output = run_pytest(project, *options, *gate)
    assert "how much sessions differ is not known for 1 of 1 measurement" in output, output
    store = Store(project / ".xbackend" / "runs")
    base = store.load("latest~1")
    for day, factor in enumerate([1.0, 1.5, 0.6, 1.7, 0.7], 1):
        finished(store, planted(base, factor, f"2000-01-0{day}T12:00:00+00:00"))
    status, output = run_pytest(project, *options, *gate)
    assert status == GateOutcome.NO_VERDICT and "sessions differ is not known" not in output, output
    runs, _ = store.readable()
    (row,) = judge(base, store.load("latest"), [Limit.parse("slower:5%")], runs=runs).rows
    assert row.ratio is not None and row.ratio.sessions == 7 and row.reason in output, row


def planted(results: Results, factor: float, created: str) -> Results:
    """An earlier session, in which everything took ``factor`` times as long."""
    rows = [
        replace(row, processes=[replace(p, visits=[Visit([factor * p.time])]) for p in row.processes])
        for row in results.measurements
    ]
    return replace(results, measurements=rows, created=created)


def test_a_wrong_result_and_arrays_that_change_fail_their_test(project: Path) -> None:
    with (project / "bench" / "test_mine.py").open("a") as file:
        file.write("\ndef test_other(xbackend_benchmark):\n")
        file.write("    xbackend_benchmark(energy, np.random.default_rng().random(3), scale=0.5)\n")
    options = ("--quick", "--processes=1", "--backends=numpy", "--devices=1,2", "-k", "wrong or other")
    status, output = run_pytest(project, "bench", *options)
    assert status == 1 and "inputs=float64[3], scale=0.5 | numpy | 1 device: wrong: relative error" in output
    assert "the function, or its arrays, are not those" in output and "3 failed, 1 passed" in output, output


def test_devices_have_a_kind(project: Path) -> None:
    status, output = run_pytest(
        project, "bench", "--quick", "--processes=1", "--backends=jax", "--devices=gpu,1", "-k", "energy"
    )
    assert status == 1 and "backend jax has no device of kind gpu" in output, output
    status, output = run_pytest(project, "bench", "--backends=numpy", "--devices=tpux,1", "-k", "energy")
    assert "a kind of device where one is asked for" in output, output


WORKLOADS = """
import xbackend as xb

@xb.workload(sweep={"n": [3, 4]}, gradient="a")
def squares(a, *, n):
    return xb.sum(a * a) / n

@squares.inputs
def _(rng, *, n):
    return rng.random(n)
"""


def test_workloads_of_a_file_are_benchmarks(project: Path) -> None:
    """Without the option there are none. An invalid value fails its own test."""
    (project / "model.py").write_text(WORKLOADS)
    (project / "bench" / "test_model.py").write_text("def test_model(xbackend_workload):\n    xbackend_workload()\n")
    options = ("bench/test_model.py", "--quick", "--processes=1", "--backends=numpy", "-v")
    status, output = run_pytest(project, *options)
    assert "1 deselected" in output and status == 5, output
    status, output = run_pytest(project, *options, "--workload", "model.py", "--set", "n=3,-1")
    assert status == 1 and "2 failed, 2 passed" in output, output
    for name in ("squares", "squares+gradient"):
        assert f"test_model[{name}[from=model.py,n=3]-numpy] PASSED" in output
    assert "squares: workload squares n=-1 raised ValueError" in output, output
    status, output = run_pytest(project, *options, "--workload", "nowhere.py")
    assert "there is no file nowhere.py" in output, output


def test_without_the_extra_the_test_that_measures_says_what_to_type(project: Path) -> None:
    (project / "conftest.py").write_text("from xbackend import extras\nextras.find_spec = lambda name: None\n")
    status, output = run_pytest(project, "bench", "--backends=numpy")
    assert status == 2 and "a benchmark over backends, takes cyclopts, " in output, output
    assert "not installed here: pip install 'xbackend[commands]'" in output and "INTERNALERROR" not in output, output


def test_without_pytest_benchmark_its_fixtures_say_what_is_missing(project: Path) -> None:
    (project / "pytest_benchmark").mkdir()
    (project / "pytest_benchmark" / "__init__.py").write_text("raise ImportError('not here')")
    status, output = run_pytest(project, "bench", "-p", "xbackend.pytest_plugin", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert status == 2 and "needs pytest-benchmark, and that is not here: pip install" in output, output
    (project / "bench" / "test_mine.py").write_text("def test_nothing(): pass")
    status, output = run_pytest(project, "bench", "-p", "xbackend.pytest_plugin", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert status == 0 and "1 passed" in output, output


THEIRS = """
import sys
def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true")
    parser.addoption("--backends", default="theirs")
def pytest_unconfigure(config):
    found = {m for m in sys.modules if m.startswith("xbackend")} | {"numpy", "msgspec"} & set(sys.modules)
    print("imported:", *sorted(found))
"""


def test_a_project_that_does_not_use_it_has_its_options_and_pays_nothing(project: Path) -> None:
    (project / "conftest.py").write_text(THEIRS)
    (project / "bench" / "test_mine.py").write_text(
        "def test_it(request):\n    assert (request.config.getoption('--backends'), "
        "request.config.getoption('--quick')) == ('tf', True)\n"
    )
    options = ("bench", "--backends", "tf", "--quick", "-p", "no:hypothesispytest", "-p", "no:benchmark")
    status, output = run_pytest(project, *options)
    assert status == 0 and "imported: xbackend xbackend.pytest_plugin xbackend.version\n" in output, output
    status, output = run_pytest(project, "bench", "--backends", "tf", "--xbackend-backends", "numpie")
    assert status == 4 and "there is no backend 'numpie'; there is numpy" in output, output
