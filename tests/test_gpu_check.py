"""``doctor --gpu-check``: its steps, whole on CPU devices and planned for GPUs, and the file that can be sent."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from xbackend.analysis.rows import Figures
from xbackend.cli import DONE, INCOMPLETE, INTERRUPTED, WRONG, compare, devices, doctor, gpu_check, main, output, train
from xbackend.errors import EnvironmentFailed
from xbackend.measure import gpus, machine

pytestmark = pytest.mark.tier("standard")

STEPS = ["what is there", "devices", "P1 to P6", "matpow", "training", "suite"]
WELL = output.Doctor(exit_code=DONE, answer="well")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "accelerators", list)
    return tmp_path


class Planned:
    """The commands that are called, with their arguments, in place of their work."""

    def __init__(self, patch: pytest.MonkeyPatch, gpu_count: int) -> None:
        self.called: list[tuple[str, Any]] = []
        self.answers: dict[str, Callable[[], output.Output]] = {}
        there = [f"gpu:{i}" for i in range(gpu_count)]
        rows = [output.Devices(backend="jax", devices=["cpu:0", "cpu:1", *there]), output.Devices(backend="theano")]
        found = output.DevicesOf(exit_code=DONE, answer="2 of 2", rows=rows)
        patch.setattr(machine, "accelerators", lambda: ["NVIDIA H200 (driver 580)"] * gpu_count)
        patch.setattr(gpus, "look", lambda named=(): [])
        patch.setattr(devices, "devices", lambda **_: found)
        patch.setattr(compare, "compare", lambda *_, **how: self._call(how["name"], how))
        patch.setattr(train, "train", lambda *_, **how: self._call("training", how))
        patch.setattr(gpu_check, "_placed", lambda names, where, asked: self._call("P1 to P6", (names, where)))

    def _call(self, name: str, how: Any) -> output.Output:
        self.called.append((name, how))
        return self.answers.get(name, lambda: WELL)()


def sent(path: Path) -> tuple[dict[str, Any], list[str]]:
    """What each step printed, and the names of all files in the bundle."""
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("steps.json")), file.namelist()


def test_all_of_it_runs_on_cpu_devices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["doctor", "--gpu-check", "--devices", "cpu", "--quick", "--minutes", "0.1", "--backends", "numpy"]
    command += ["--env", "numpy", "--env", "jax"]  # as they are locked; jax is for no backend that is asked
    assert main(command) == DONE
    said = capsys.readouterr().out
    told, names = sent(folder / "gpu-check.zip")
    assert list(told) == STEPS
    assert "jax: jax is ready" in told["what is there"]["notes"]
    assert {name: told[name]["exit_code"] for name in STEPS[1:]} == dict.fromkeys(STEPS[1:], DONE)
    placed = (folder / "gpu-check" / "p1_to_p6.txt").read_text()
    assert all(f"numpy: P{number} " in placed for number in range(1, 7)) and "size 64" in placed
    wanted = ("p1_to_p6.txt", "matpow/report.md", "matpow/results.json.gz", "training/training.md", "suite/report.html")
    assert {*wanted} < {*names}
    assert "P1 to P6 on cpu:0 and cpu:1: as published on numpy" in said and "to send: gpu-check.zip" in said
    assert {row["devices"] for row in told["matpow"]["rows"]} == {1, 2}
    assert {row["strategy"] for row in told["training"]["rows"]} == {"one", "mirrored"}
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_without_a_gpu_it_says_what_is_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--gpu-check"]) == INCOMPLETE
    said = capsys.readouterr().out
    assert "for driver: install NVIDIA's driver" in said
    assert "no backend computes on a gpu here: see what is missing; --devices cpu runs all on CPUs" in said
    told, names = sent(folder / "gpu-check.zip")
    assert list(told) == STEPS[:1] and names == ["steps.json"]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (["gpu", 1], ["one"], ["gpu:0", "cpu:0"])), (3, (["gpu", 1, 2], ["one", "mirrored"], ["gpu:0", "gpu:1"]))],
)
def test_what_runs_on_one_gpu_and_on_several(
    count: int, expected: tuple[list[Any], ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, (numbers, strategies, where) = Planned(monkeypatch, count), expected
    assert main(["doctor", "--gpu-check", "--backends", "jax,theano", "--env", "jax", "--env", "numpy"]) == DONE
    called = dict(planned.called)
    assert [name for name, _ in planned.called] == STEPS[2:]
    assert called["P1 to P6"] == (["jax"], where), "theano has no GPU"
    matpow, suite = called["matpow"], called["suite"]
    assert matpow["measuring"].devices == numbers and matpow["size"] == [1024, 4096]
    assert str(matpow["measuring"].devices_map) == "cpu:0=gpu:0" and matpow["measuring"].backends == ["jax"]
    assert called["training"]["strategy"] == strategies
    assert (suite["suite"], suite["measuring"].minutes, suite["measuring"].devices) == ("all", 20.0, ["gpu", 1])
    assert suite["measuring"].quick and not matpow["measuring"].quick
    assert suite["measuring"].backends == ["numpy", "jax"] and suite["measuring"].environments == ["jax", "numpy"]
    assert called["training"]["environments"] == matpow["measuring"].environments == ["jax"]


def test_a_step_that_fails_is_told_and_the_next_is_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> output.Output:
        raise EnvironmentFailed("no network")

    planned = Planned(monkeypatch, 2)
    planned.answers = {"matpow": fails, "training": lambda: output.Doctor(exit_code=INCOMPLETE, answer="it differs")}
    assert main(["doctor", "--gpu-check", "--backends", "jax"]) == INCOMPLETE
    said = capsys.readouterr()
    assert "4 of 6 steps went well, not matpow and training" in said.out and "no network" in said.err
    told, _ = sent(folder / "gpu-check.zip")
    assert list(told) == STEPS and told["matpow"]["error"] == "no network"


def test_ctrl_c_ends_it_and_what_was_done_is_in_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> output.Output:
        raise KeyboardInterrupt

    for ends in (interrupted, lambda: output.Compare(exit_code=INTERRUPTED, answer="in part")):
        planned = Planned(monkeypatch, 2)
        planned.answers = {"matpow": ends}
        assert main(["doctor", "--gpu-check", "--backends", "jax"]) == INTERRUPTED
        told, _ = sent(folder / "gpu-check.zip")
        assert [*told][:3] == STEPS[:3] and "training" not in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--minutes", "3"], "--minutes says what to --gpu-check: type both"),
        (["--quick"], "--quick says what to --gpu-check: type both"),
        (["--gpu-check", "--env", "jax=/nowhere"], "'jax=/nowhere' names no environment"),
        (["--env", "jax"], "--env says what to --gpu-check: type both"),
        (["--cupy", "."], "--cupy: there is no interpreter"),
        (["--gpu-check", "--cupy", sys.executable, "--devices", "cpu"], "--cupy measures GPUs: leave it out"),
        (["--gpu-check", "--devices", "tpu"], "--devices: 'tpu' is no kind of devices to check: write gpu, or cpu"),
    ],
)
def test_wrong_options_are_refused(
    arguments: Sequence[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *arguments]) == WRONG
    assert words in capsys.readouterr().err
    assert doctor.doctor is not None and not (folder / "gpu-check.zip").exists()


def test_the_programs_are_those_of_a_clone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed = gpu_check._placed
    planned = Planned(monkeypatch, 2)
    monkeypatch.setattr(gpu_check, "_placed", placed)
    monkeypatch.setattr(gpu_check, "EXAMPLES", folder)
    assert main(["doctor", "--gpu-check", "--backends", "jax"]) == INCOMPLETE
    told, _ = sent(folder / "gpu-check.zip")
    assert "run this in a clone of the repository" in told["P1 to P6"]["error"] and planned.called


PRINTED = {
    "cupy": "14.2.0",
    "gpus": [{"name": "NVIDIA H200", "copy_within": {"median": 4.1e12}}],
    "pairs": [],
    "matpow": {
        "products": "TF32 off",
        "rows": [
            {"size": 1024, "dtype": "float32", "devices": 1, "seconds": {"median": 1.2e-3}},
            {"size": 4096, "dtype": "float32", "devices": 1, "seconds": {"median": 47.1e-3}},
            {"size": 4096, "dtype": "float64", "devices": 1, "seconds": {"median": 45e-3}},
            {"size": 4096, "dtype": "float32", "devices": 2, "seconds": {"median": 30e-3}},
        ],
    },
    "all_reduce": {"devices": 1, "rows": []},
}


def with_cupy(folder: Path, printed: str) -> list[str]:
    """The options of a check with an interpreter that prints this, and keeps what it was to run."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho \"$@\" > {folder}/ran\ncat <<'END'\n{printed}\nEND\n")
    python.chmod(0o755)
    return ["doctor", "--gpu-check", "--backends", "jax", "--cupy", str(python)]


def measured(size: int, dtype: str, seconds: float, count: int = 1) -> Figures:
    parameters = {"size": size, "dtype": dtype}
    return Figures(
        workload="matpow", parameters=parameters, backend="jax", environment="", devices=count, status="ok", reason="",
        seconds=seconds,
    )  # fmt: skip


def test_the_library_itself_stands_beside_what_backends_take(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = Planned(monkeypatch, 1)
    own = replace(measured(1024, "float32", 1.5e-3), environment="jax=/opt/cuda")
    rows = [
        measured(1024, "float32", 1.28e-3),
        own,
        measured(4096, "float32", 49e-3),
        measured(4096, "float32", 33e-3, 2),
    ]
    planned.answers = {"matpow": lambda: output.Compare(exit_code=DONE, rows=rows)}
    assert main(with_cupy(folder, json.dumps(PRINTED))) == DONE
    said = capsys.readouterr().out
    best = "the library itself (cuBLAS): 4096, float32: 47.10 ms; jax takes 49.00 ms, 1.04 times"
    assert f"limits: {best}\n" in said
    assert (
        "1024, float32: 1.200 ms; jax takes 1.280 ms, 1.07 times; jax (jax=/opt/cuda) takes 1.500 ms, 1.25 times"
        in said
    )
    assert "4096, float32, on two GPUs: 30.00 ms; jax takes 33.00 ms, 1.10 times" in said
    assert "4096, float64: 45.00 ms\n" in said
    assert (folder / "ran").read_text().endswith("bench/gpu_limits.py --size 1024,4096\n")
    told, names = sent(folder / "gpu-check.zip")
    assert [*told] == [*STEPS[:4], "limits", *STEPS[4:]] and "limits.json" in names
    with zipfile.ZipFile(folder / "gpu-check.zip") as file:
        assert json.loads(file.read("limits.json")) == PRINTED


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (json.dumps(PRINTED | {"all_reduce": "ImportError: no NCCL"}), "all_reduce: ImportError: no NCCL"),
        (json.dumps(PRINTED | {"gpus": [{"copy_within": "out of memory"}]}), "gpus 0 copy_within: out of memory"),
        (json.dumps({"error": "cannot import CuPy"}), "error: cannot import CuPy"),
        ("no json", "printed no JSON of gpu_limits.py"),
    ],
)
def test_what_the_library_could_not_do_is_said(
    printed: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Planned(monkeypatch, 1)
    assert main(with_cupy(folder, printed)) == INCOMPLETE
    said = capsys.readouterr()
    assert words in said.out + said.err
    assert "6 of 7 steps went well, not limits" in said.out


def test_without_cupy_it_says_what_to_type(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Planned(monkeypatch, 1)
    assert main(["doctor", "--gpu-check", "--backends", "jax"]) == DONE
    assert "--cupy PATH" in capsys.readouterr().out
