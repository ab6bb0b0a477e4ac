"""The files of `xbackend cluster run`, and the index over reports of every kind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import share

from xbackend import report as reporting
from xbackend.cli import STORE, main
from xbackend.drawing.graph import bytes_text
from xbackend.errors import DamagedStore, StoreError, StoreVersionError
from xbackend.measure.machine import machine
from xbackend.report import files
from xbackend.report.drawn import steps
from xbackend.report.said import cluster as report
from xbackend.report.said.text import NOTHING
from xbackend.results.clustered import Clustered, Fault, Jobs
from xbackend.results.packing import packed, unpacked
from xbackend.results.schema import read, sealed
from xbackend.results.trained import Passed, Trained, Trainings

LOST = Fault(
    task="/job:worker/task:1", step=7, why="was killed | by SIGKILL", again="all tasks, from step 4", seconds=2.5
)
FAILED = Clustered(backend="theano", engine="MPI", status="failed", reason="/job:ps/task:0 is | gone")


def run_of(backend: str = "numpy", **more: Any) -> Clustered:
    common: dict[str, Any] = {
        **{"engine": "MPI: mpi4py with MPICH", "start": 1.5, "seconds": ((0.5, 0.25), (0.125, 0.125)), "updates": 8},
        **{"pulled": 4096 * 8, "pushed": 0, "listens": {"/job:worker/task:0": ("127.0.0.1:29400",)}, "copies": True},
    }
    return Clustered(backend=backend, **{**common, **more})


def jobs(*runs: Clustered, name: str = "served", **more: Any) -> Jobs:
    common: dict[str, Any] = {"workers": 2, "servers": 1, "steps": 4, "asynchronous": False, "hosts": ("here",)}
    return Jobs(
        job=name, summary="Two workers.", created="2026-01-02T03:04:05+00:00", machine=machine(), runs=runs,
        **{**common, **more},
    )  # fmt: skip


def test_a_report_says_first_whether_the_variables_agree() -> None:
    done = jobs(run_of(), run_of("jax", difference=3e-12, faults=(LOST,)), FAILED)
    text = files("cluster", *report.build(done))["cluster.md"].decode()
    first = text.splitlines()[2]
    assert "served, 2 workers and 1 server, 4 steps: 2 backends ended" in first.lower()
    assert "but for 3.0e-12 at most (jax); 1 backend failed" in first
    for row in (("numpy", "reference"), ("jax", "3.0e-12"), ("theano", "failed", NOTHING)):
        assert f"| {' | '.join(row)} |" in text
    assert "theano: /job:ps/task:0 is | gone" in text.replace("\\", "")
    assert "/job:worker/task:1 | 7 | was killed | by SIGKILL | all tasks, from step 4 | 2.5 s" in text.replace("\\", "")
    assert "127.0.0.1:29400" in text and f"| {bytes_text(4096)} |" in text


def test_other_variables_are_no_roundings() -> None:
    near, far = run_of("jax", difference=3e-12), run_of("theano", difference=0.25)
    said = report.said(jobs(run_of(), near, far)).answer
    assert "with the variables of numpy but for 3.0e-12 at most (jax)" in said
    assert said.endswith("other variables than numpy, by more than roundings make: theano (2.5e-01)")
    assert report.said(jobs(run_of(), near, far)).ended.apart == [far]


def test_the_reference_is_the_first_that_ended_and_who_did_not_is_named() -> None:
    nan = run_of("jax", status="not verified", reason="NaN", difference=1.8e308)
    assert report.said(jobs(FAILED, run_of(), nan)).answer == (
        "served, 2 workers and 1 server, 4 steps: 1 backend ended; 1 backend failed; with NaN, not verified: jax; the "
        "reference is numpy, as theano failed"
    )


def test_a_line_of_steps_stays_within_its_steps() -> None:
    drawn: list[list[float]] = []
    axes = SimpleNamespace(plot=lambda x, y, **_: drawn.append(x))
    steps._run(axes, 0, run_of(seconds=((1.0, 3.0), (2.0,))), 1.0)
    assert drawn == [pytest.approx([1.2, 2.8]), [2.0], [2.0, 2.0], [2.0]]


@pytest.mark.parametrize(("replayed", "said"), [(True, "replayed to the bit"), (False, "replayed: other numbers")])
def test_what_a_replay_came_to_is_said(replayed: bool, said: str) -> None:
    done = jobs(run_of(replayed=replayed), asynchronous=True)
    assert f"{int(replayed)} of 1 repeated to the bit in one process" in report.said(done).answer
    assert report.said(done).rows[0]["variables"] == said
    assert report.said(jobs(run_of(), asynchronous=True)).rows[0]["variables"] == "an order of its own"


@settings(max_examples=share(100))
@given(st.text(min_size=1), st.text(), st.text())
def test_any_names_make_a_report(name: str, reason: str, task: str) -> None:
    lost = Fault(task=task, step=0, why=reason, again=name, seconds=0.0)
    failed = Clustered(backend=name, engine=reason, status="failed", reason=reason)
    done = jobs(run_of(name, faults=(lost,), listens={task: (name,)}), failed, name=name)
    assert files("cluster", *report.build(done))["cluster.md"]


def test_jobs_are_read_as_they_were_written(tmp_path: Path) -> None:
    path, whole = tmp_path / "cluster.json", jobs(run_of(faults=(LOST,)), FAILED)
    path.write_bytes(sealed(whole))
    assert read(path, Jobs) == whole
    text = path.read_text()
    path.write_text(text.replace("SIGKILL", "SIGSTOP"))
    with pytest.raises(DamagedStore, match="not what its checksum says"):
        read(path, Jobs)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(DamagedStore):
        read(path, Jobs)
    path.write_bytes(sealed({"format": "xbackend.clustered", "version": 2}))
    with pytest.raises(StoreVersionError, match="upgrade xbackend"):
        read(path, Jobs)
    path.write_text('{"format": "xbackend.trained"}')
    with pytest.raises(DamagedStore, match="holds nothing of xbackend cluster run"):
        read(path, Jobs)
    with pytest.raises(StoreError):
        read(tmp_path / "nowhere.json", Jobs)


def test_reports_of_every_kind_are_in_the_index_and_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("reports")
    reporting.write(jobs(run_of(), FAILED), folder / "served")
    reporting.write(jobs(run_of(faults=(LOST,)), asynchronous=True, servers=0), folder / "p7 again")
    with pytest.raises(ValueError, match="has no epoch"):
        Trained(backend="numpy", strategy="towers", devices=2)
    epoch = Passed(number=0, steps=4, train={"loss": 1.0})
    trained = Trained(backend="numpy", strategy="towers", devices=2, epochs=(epoch,))
    reporting.write(
        Trainings(
            model="classifier",
            summary="",
            optimizer="SGD",
            dtypes=("float64",),
            batch=8,
            seed=0,
            created="2026-01-02T03:04:05+00:00",
            machine=machine(),
            runs=(trained,),
        ),
        folder / "digits",
    )
    for name, kind in (
        ("served", "cluster"),
        ("digits", "training"),
    ):  # from an older version
        path = folder / name / f"{kind}.json.gz"
        content = msgspec.json.decode(unpacked(path.read_bytes(), path))
        path.write_bytes(packed(sealed({"older": 1, **content})))
    (folder / "figures").mkdir()
    (folder / "figures" / "figures.md").write_text("# Figures\n")
    (folder / "torn").mkdir()
    (folder / "torn" / "cluster.json.gz").write_text("{")
    written = {path: path.read_bytes() for path in folder.rglob("*.*") if path.parent.name != "torn"}

    index = reporting.index(folder).read_text()
    rows = [line.strip("| ").split(" | ") for line in index.splitlines() if line.startswith("|")]
    served = next(row for row in rows if row[0] == "[served](./served/cluster.md)")
    assert served[2:8] == ["served", "numpy, theano", "2 workers and 1 server, in step", "4", "0", "1 of 2"]
    again = next(row for row in rows if "p7%20again/cluster.md" in row[0])
    assert again[4:8] == ["2 workers, asynchronous", "4", "1", "1 of 1"]
    digits = next(row for row in rows if row[0] == "[digits](./digits/training.md)")
    assert digits[2:6] == ["classifier", "numpy", "towers (2 devices)", "1 of 1"]
    assert [row for row in rows if "torn" in row[0] and "torn/cluster.json.gz` is damaged" in row[1]]
    assert "(./figures/figures.md)" in index

    for path in written:
        if path.suffix in (".md", ".html") and path.parent.name != "figures":
            path.unlink()
    assert main(["report", "served", "p7 again", "digits"]) == 0
    said = capsys.readouterr().out
    assert "report: reports/digits/training.md" in said and "report: reports/served/cluster.md" in said
    assert {path: path.read_bytes() for path in written} == written

    (folder / "served" / "cluster.md").unlink()
    assert main(["report"]) == STORE  # a damaged report hides no other
    told = capsys.readouterr()
    assert "torn/cluster.json.gz is damaged" in told.err and "index: reports/index.md" in told.out
    assert {path: path.read_bytes() for path in written} == written
