"""``compare --reuse``: rows of the same program, arrays, versions, machine and options are not measured again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from report_helpers import all_columns
from store_helpers import STEADY, finished, results, row

import xbackend as xb
from xbackend.analysis.gate import GateOutcome, Limit, judge
from xbackend.measure import matrix, reuse, session
from xbackend.measure.candidates import given
from xbackend.results.runs import Store
from xbackend.results.schema import Results
from xbackend.workloads.workload import Workload

pytestmark = pytest.mark.tier("standard")

X = np.ones(8)
HOW: dict[str, Any] = {"backends": ["numpy"], "processes": 1, "threads": 1, "name": "one"}
Change = Callable[[Results], Results]


def double(x: Any) -> Any:
    return x + x


def case(array: Any = X, function: Callable[..., Any] = double) -> Any:
    return given(Workload(function, name="double"), [array], {})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A session of NumPy, with one process."""
    matrix.ready(matrix.runs(["numpy"]), lambda _: None)
    return session.compare([case()], store=Store(tmp_path_factory.mktemp("runs")), **HOW)


def reused(folder: Path, stored: Results, cases: Any = None, **how: Any) -> list[str]:
    """The runs that the rows of a session come from, with a store that has this run; empty of what was measured."""

    def opener(*_: Any, **__: Any) -> Any:
        raise xb.errors.BackendUnavailable("a process was started")

    store = Store(folder)
    finished(store, stored)
    asked = {**HOW, "store": store, "reuse": True, "opener": opener, **how}
    return [one.reused for one in session.compare([cases or case()], **asked).measurements]


def changed(**fields: Any) -> Change:
    return lambda run: replace(run, measurements=[replace(one, **fields) for one in run.measurements])


def test_what_was_measured_is_not_measured_again(tmp_path: Path, measured: Results) -> None:
    (one,) = measured.measurements
    store = Store(tmp_path)
    run = finished(store, measured)
    again = session.compare([case()], store=store, reuse=True, **HOW)
    (row,) = again.measurements
    assert row.reused == run.name and row.times == one.times and again.complete
    assert again.settings.stopped == "every row was measured by an earlier session" and again.order == []
    assert any(f"reused from run {run.name}" in warning for warning in row.warnings)
    assert store.load("latest").measurements == again.measurements
    third = session.compare([case()], store=store, reuse=True, **HOW)
    assert third.measurements[0].reused == run.name  # who measured it, not who took it
    assert [len(each.measurements) for each in store.readable()[0]] == [1, 0, 0]


@pytest.mark.parametrize(
    "change",
    [
        changed(versions={"numpy": "0.1"}),
        changed(program="another"),
        changed(status="wrong", reason="why"),
        changed(parity=None),
        changed(environment="numpy==1.0"),
        lambda run: changed(versions={**run.measurements[0].versions, "python": "3.1.0"})(run),
        lambda run: changed(parity=replace(run.measurements[0].parity, inputs="others"))(run),
        lambda run: replace(run, machine=replace(run.machine, fingerprint="another")),
        lambda run: replace(run, xbackend="0.0.1"),
        lambda run: replace(run, settings=replace(run.settings, threads=2)),
        lambda run: replace(run, settings=replace(run.settings, effort={"visits": 1})),
        lambda run: replace(run, settings=replace(run.settings, variables={"OMP_X": "1"})),
        lambda run: replace(run, settings=replace(run.settings, visible="")),  # no GPU, then all
        lambda run: replace(run, settings=replace(run.settings, adaptive=True)),
        lambda run: replace(run, settings=replace(run.settings, allow_nan=True)),
    ],
)
def test_what_differs_is_measured(change: Change, tmp_path: Path, measured: Results) -> None:
    assert reused(tmp_path, change(measured)) == [""]


def test_the_machine_is_looked_at_once(tmp_path: Path, measured: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look starts nvidia-smi, and a store has hundreds of runs."""
    looks: list[None] = []
    monkeypatch.setattr(reuse.machine, "machine", lambda: looks.append(None) or measured.machine)
    store = Store(tmp_path)
    for _ in range(3):
        finished(store, measured)
    session = SimpleNamespace(candidates=[], **dict.fromkeys(("threads", "cores_per_device")))
    monkeypatch.setattr(reuse, "asdict", lambda _: {})
    session.effort, session.allow_nan, session.extent, session.kinds = None, False, SimpleNamespace(fixed=True), []
    assert reuse.reused(session, store) == {} and looks == [None]


def test_what_is_asked_for_otherwise_is_measured(
    tmp_path: Path, measured: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = xb.shared(1.0, name="w")
    plain = changed(program=case(function=lambda x: x * shared).program.fingerprint)
    assert reused(tmp_path / "a", measured, case(2 * X)) == [""]
    assert reused(tmp_path / "b", measured, case(function=lambda x: x * 2)) == [""]
    assert reused(tmp_path / "c", plain(measured), case(function=lambda x: x * shared)) == [""]
    assert reused(tmp_path / "d", measured, processes=2) == [""]
    assert reused(tmp_path / "e", measured, reuse=False) == [""]
    with monkeypatch.context() as without:
        without.setenv("CUDA_VISIBLE_DEVICES", "")
        assert reused(tmp_path / "g", measured) == [""]
    assert reused(tmp_path / "f", measured) != [""]
    assert reused(tmp_path / "kind", measured, devices=["cpu", 1]) == [""]


def test_a_row_says_so_and_the_answer_is_in_doubt() -> None:
    found = xb.Compared(results(row(reused="20260101-000000"), row("other", [2 * t for t in STEADY])))
    assert found.answer.startswith("In doubt, as rows of several sessions are compared: numpy is the fastest")
    assert any(line.startswith("numpy, reused ") for line in found.lines())
    assert "numpy, reused" in found._repr_html_() and found.rows()[0]["reused"] == "20260101-000000"
    assert "numpy, reused" in str(all_columns(found.results))
    one = xb.Compared(results(row(reused="a"), row("other", [2 * t for t in STEADY], reused="a")))
    assert not one.answer.startswith("In doubt")  # the session that measured both


def test_the_gate_gives_no_verdict_on_a_reused_row() -> None:
    base, head = results(run="a"), results(row(reused="a"), row("other"), run="b")
    judged = judge(base, head, [Limit.parse("slower:900%")])
    assert judged.outcome is GateOutcome.NO_VERDICT
    assert [one.outcome for one in judged.rows] == [GateOutcome.NO_VERDICT, GateOutcome.PASSED]
    assert "HEAD has it from run a (--reuse): measure it" in judged.rows[0].reason
