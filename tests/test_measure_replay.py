"""The bridge to pytest-benchmark: what was recorded is what is shown and saved, and only if its test passed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xbackend.measure import replay


@pytest.fixture(autouse=True)
def no_xdist(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pytest started by a test is not a process of ``pytest -n``, which pytest-benchmark does not measure in."""
    for name in [n for n in os.environ if n.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)


ROOT = Path(__file__).resolve().parents[1]


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=30), st.integers(1, 1000))
def test_replay_is_exact(rounds: list[float], iterations: int) -> None:
    kept: list[Any] = []
    benchmark = fixture(kept.append)
    replay.feed(benchmark, rounds, iterations, {"backend": "numpy"})
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
        timer=NameWrapper(replay.CLOCK),
        **dict.fromkeys(("disable_gc", "cprofile", "cprofile_loops", "cprofile_dump"), None),
        **dict.fromkeys(("min_rounds", "min_time", "max_time", "calibration_precision"), 1),
        **dict.fromkeys(("warmup", "warmup_iterations", "precision", "confidence"), None),
    )


BENCH = """
import pytest
from xbackend.measure.replay import MARK
pytestmark = MARK
ROUNDS = [0.1, 0.1 + 0.2, 1e-9]

@pytest.mark.parametrize("backend", ["numpy", "pytensor"])
def test_one(backend, replay):
    replay(ROUNDS, 7, {"backend": backend})

def test_two(replay, request):
    replay(ROUNDS)
    if request.config.getoption("--break"):
        exec(request.config.getoption("--break"))
"""
CONFTEST = """
pytest_plugins = ["xbackend.measure.replay"]
def pytest_addoption(parser):
    parser.addoption("--break", default="")
"""


def run_bench(folder: Path, *options: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Exit status, output and saved runs of a small suite."""
    (folder / "test_it.py").write_text(BENCH)
    (folder / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", str(folder), "--rootdir", str(folder), *options]
    done = subprocess.run(
        [*command, f"--benchmark-storage={folder}/saved", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    saved = [json.loads(path.read_text()) for path in sorted(folder.glob("saved/*/*.json"))]
    return done.returncode, done.stdout + done.stderr, saved


def test_saved_runs_hold_what_was_recorded_and_are_compared(tmp_path: Path) -> None:
    status, output, (saved,) = run_bench(tmp_path, "--benchmark-save=a", "--benchmark-save-data")
    assert status == 0, output
    assert saved["xbackend"] == {"complete": True}
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
    assert all(run["xbackend"] == {"complete": False} for run in saved if "skip" not in how)


def test_a_comparison_that_matches_nothing_fails(tmp_path: Path) -> None:
    run_bench(tmp_path, "--benchmark-save=a", "-k", "one")
    status, output, _ = run_bench(tmp_path, "--benchmark-compare", "-k", "two")
    assert status == 1 and "no benchmark of this run is in the saved run" in output, output


def test_the_replay_needs_its_clock(tmp_path: Path) -> None:
    (tmp_path / "test_more.py").write_text("def test_unmarked(replay):\n    replay([1.0])\n")
    status, output, _ = run_bench(tmp_path)
    assert status == 1 and "needs the mark xbackend.measure.replay.MARK" in output


def test_bench_is_stopped_by_an_unknown_backend() -> None:
    command = [sys.executable, "-m", "pytest", "bench", "--backends=numpie", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "no backend numpie; there is numpy" in done.stderr


def test_bench_of_one_backend(tmp_path: Path) -> None:
    """Really recorded in worker processes, under ids that stay the same."""
    file = tmp_path / "run.json"
    choice = ["--backends=numpy", "--devices=1,2", "--sizes=32", "--dtypes=float32", "--processes=2", "-k", "matpow"]
    command = [sys.executable, "-m", "pytest", "bench", *choice, f"--benchmark-json={file}", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads(file.read_text())
    assert saved["xbackend"] == {"complete": True}
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
