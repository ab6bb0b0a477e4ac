"""bench/gpu_limits.py with a CuPy that is NumPy's: its figures, on the devices that they are of, and the reasons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tier("standard")

TESTS = Path(__file__).parent
PROGRAM = TESTS.parent / "bench" / "gpu_limits.py"
SMALL = {"256 * MIB": "1 << 16", "LEAST, MOST, PATIENCE = 3, 50, 90.0": "LEAST, MOST, PATIENCE = 3, 4, 60.0"}


def ran(folder: Path, expected: int = 0, **planted: object) -> dict[str, Any]:
    """What the program prints, with small copies and few repetitions."""
    text = PROGRAM.read_text()
    for usual, small in SMALL.items():
        assert usual in text
        text = text.replace(usual, small)
    (folder / "gpu_limits.py").write_text(text)
    variables = {f"PLANTED_{name}": str(value) for name, value in planted.items()}
    variables = {"PYTHONPATH": str(TESTS / "planted_cupy"), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, str(folder / "gpu_limits.py"), "--size", "8,32"]
    ended = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert ended.returncode == expected, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def test_the_figures_of_two_gpus(tmp_path: Path) -> None:
    told = ran(tmp_path, GPUS=2, CALLS=tmp_path / "calls")
    assert told["cupy"] == "14.2.0" and [gpu["name"] for gpu in told["gpus"]] == ["NVIDIA planted"] * 2
    for gpu in told["gpus"]:
        # A quarter of 16 KiB, read and written; a planted copy takes a millisecond for a million bytes.
        assert gpu["bytes"] == {"copy_within": 4096, "from_host": 65536, "to_host": 65536}
        assert gpu["copy_within"] == {**dict.fromkeys(("median", "low", "high"), pytest.approx(2e9)), "repetitions": 4}
        for way, expected in (("from_host", 5e6), ("to_host", 4e6)):
            assert [gpu[way][memory]["median"] for memory in ("pageable", "pinned")] == [pytest.approx(expected)] * 2
    ways = [(pair["from"], pair["to"], pair["peer_access"]) for pair in told["pairs"]]
    assert ways == [(0, 1, True), (1, 0, False)]
    assert [pair["copy_between"]["median"] for pair in told["pairs"]] == [pytest.approx(1e9)] * 2
    rows = told["matpow"]["rows"]
    assert [(r["size"], r["dtype"], r["devices"]) for r in rows] == [
        (size, dtype, count) for size in (8, 32) for dtype in ("float32", "float64") for count in (1, 2)
    ]
    for row in rows:
        assert row["relative_error"] < (1e-5 if row["dtype"] == "float32" else 1e-13)
        # 18 products and a sum; or 9 on the second GPU, which takes twice as long, the copy and the sum.
        assert row["seconds"]["median"] == pytest.approx(19e-3, rel=1e-2)
    assert "TF32 off" in told["matpow"]["products"] and told["matpow"]["cublas"] == 130100
    reduced = told["all_reduce"]
    assert (reduced["devices"], reduced["nccl"]) == (2, 22707)
    assert [row["bytes"] for row in reduced["rows"]] == [1024, 1 << 20, 1 << 16]
    assert [row["bytes_per_second"]["median"] for row in reduced["rows"]] == [pytest.approx(4e9)] * 3
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls.count("dot 1") * 3 == calls.count("dot 0"), "A and B on one, A on 0 and B on 1"


def test_one_gpu_has_no_pairs_and_reduces_alone(tmp_path: Path) -> None:
    told = ran(tmp_path)
    assert told["pairs"] == [] and {row["devices"] for row in told["matpow"]["rows"]} == {1}
    assert told["all_reduce"]["devices"] == 1 and len(told["all_reduce"]["rows"]) == 3


def test_a_reason_stands_in_place_of_what_fails_and_the_rest_is_measured(tmp_path: Path) -> None:
    told = ran(tmp_path, MEMORY=1 << 13, WRONG=1, NO_NCCL=1)
    [gpu] = told["gpus"]
    assert gpu["copy_within"]["repetitions"] == 4
    assert gpu["to_host"]["pageable"] == "MemoryError: Out of memory allocating 65536 bytes"
    assert all("the first row differs from NumPy's" in row["seconds"] for row in told["matpow"]["rows"])
    assert told["all_reduce"] == "ImportError: CuPy finds no NCCL: pip install nvidia-nccl-cu13"
    told = ran(tmp_path, CRASH=1)
    assert told["all_reduce"].startswith("its process ended with -6") and told["matpow"]["rows"]


def test_without_a_gpu_or_cupy_it_says_so(tmp_path: Path) -> None:
    told = ran(tmp_path, expected=1, GPUS=0)
    assert told["gpus"] == told["matpow"] == "RuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected"
    ended = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "cannot import CuPy: No module named 'cupy'" in json.loads(ended.stdout)["error"]
