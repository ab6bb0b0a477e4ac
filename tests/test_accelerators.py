"""Facts read of NVIDIA GPUs, from recorded answers, and how results name what computed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from report_helpers import markdown_of, measured, of

from xbackend.analysis.answer import answer
from xbackend.analysis.comparison import comparisons
from xbackend.measure import machine
from xbackend.report.written import terminal

H200 = {
    "--query-gpu=name,driver_version": "NVIDIA H200, 580.159.04",
    "--query-gpu=memory.free": "142620 MiB",
    "--query-compute-apps=pid,process_name,used_memory": "553, /opt/cuda/bin/python, 528 MiB\n77, /bin/x, [N/A]",
}


def nvidia_smi(folder: Path, answers: dict[str, str], patch: pytest.MonkeyPatch) -> None:
    """The program in its own folder, which is the whole path."""
    cases = "\n".join(f"'{query}') printf '%s\\n' '{told}';;" for query, told in answers.items())
    program = folder / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\n[ "$2" = --format=csv,noheader ] || exit 2\ncase "$1" in\n{cases}\n*) exit 2;; esac\n'
    )
    program.chmod(0o755)
    patch.setenv("PATH", str(folder))


def test_a_gpu_is_named_with_its_driver_its_memory_and_who_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(tmp_path, H200, monkeypatch)
    assert machine.accelerators() == ["NVIDIA H200 (driver 580.159.04)"]
    assert machine.accelerator_memory() == [142620 << 20]
    assert machine.accelerator_processes({553}) == ["process 77, /bin/x, [N/A]"]
    assert len(machine.accelerator_processes() or ()) == 2


def test_another_driver_is_no_other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for told in ("NVIDIA H200, 580.159.04", "NVIDIA H200, 590.1", "NVIDIA H100, 590.1"):
        nvidia_smi(tmp_path, {"--query-gpu=name,driver_version": told}, monkeypatch)
        found.append(machine.machine())
    assert found[0].fingerprint == found[1].fingerprint != found[2].fingerprint
    assert found[0].accelerators != found[1].accelerators


@pytest.mark.parametrize("told", ["No devices were found", ""])
def test_a_driver_without_a_gpu_names_none(told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, dict.fromkeys(H200, told), monkeypatch)
    monkeypatch.setattr(machine, "GPUS", tmp_path / "gpus")
    assert machine.accelerators() == [] and machine.accelerator_memory() == []


def test_a_gpu_is_named_without_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine, "GPUS", tmp_path)
    (tmp_path / "0000:00:06.0").mkdir()
    (tmp_path / "0000:00:06.0" / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\n")
    assert machine.accelerators() == ["NVIDIA H200"]


GPU, CPU = {"dev0": "gpu:0", "dev1": "gpu:0"}, {"dev0": "cpu:0", "dev1": "cpu:0"}
ROWS = (
    measured("jax", [1.0, 1.001, 1.002], bindings=GPU),
    measured("numpy", [9.0, 9.001, 9.002], bindings=CPU),
    measured("pytensor-jax", [], status="failed", reason="of no device"),
)


def test_rows_on_a_gpu_and_on_cpus_say_which_they_are() -> None:
    found = of(*ROWS)
    assert "jax on gpu is the fastest: 8.99 times as fast as the next, numpy on cpu" in answer(comparisons(found))
    for text in (markdown_of(found), "\n".join(terminal.lines(found))):
        assert "jax on gpu" in text and "numpy on cpu" in text and "pytensor-jax on gpu" not in text


def test_rows_on_cpus_say_so_on_a_machine_with_a_gpu_alone() -> None:
    cpus = of(ROWS[1], measured("jax", [1.0, 1.001, 1.002], bindings=CPU))
    assert "jax is the fastest" in answer(comparisons(cpus))
    beside = replace(cpus, machine=replace(cpus.machine, accelerators=["a GPU"]))
    assert "jax on cpu is the fastest" in answer(comparisons(beside))
    two = of(measured("jax", [1.0], bindings={"dev0": "gpu:0", "dev1": "cpu:0"}), ROWS[1])
    assert comparisons(two)[0].rows[0].name == "jax on cpu and gpu, 1 device"
    assert comparisons(of(ROWS[0]))[0].rows[0].name == "jax on 1 device"
