"""Measuring: order, checks before the clock, rows for failures, and the bridge to pytest-benchmark."""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xbackend as xb
from xbackend.backends.contract import Backend, Built, Settings
from xbackend.backends.description import Description
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.backends.placement import Executed, Execution
from xbackend.cores import FOREIGN
from xbackend.devices import Device
from xbackend.errors import (
    ArgumentError,
    BackendUnavailable,
    UnknownBackend,
    UnsupportedOperation,
    WorkerDied,
    WorkloadError,
)
from xbackend.files import write_whole
from xbackend.measure import candidates, checks, loop, session
from xbackend.measure import machine as machine_module
from xbackend.measure.candidates import case as traced_case
from xbackend.measure.plan import Extent
from xbackend.measure.runner import Session, shuffler
from xbackend.measure.worker import Worker
from xbackend.results import schema as results
from xbackend.workloads.workload import Workload

pytestmark = pytest.mark.tier("standard")

ROOT = Path(__file__).resolve().parents[1]
SMALL = loop.Effort(visits=2, at_least=1, seconds=1.0, rounds=2, round_seconds=0.002)


def here(backend_class: type[Backend] = NumPyBackend) -> Callable[..., Worker]:
    """An opener whose worker is this process, for any backend."""

    def opener(name: str, *, virtual_devices: int = 1, **_: Any) -> Worker:
        backend = backend_class(name, Settings(virtual_devices))

        def call(function: str, *arguments: Any) -> Any:
            module, _, attribute = function.partition(":")
            return getattr(import_module(module), attribute)(backend, *arguments)

        return Worker(backend, call, 0.1, 0.2)

    return opener


def measured(
    opener: Callable[..., Worker], backends: Sequence[str] = ("numpy",), processes: int = 1, **options: Any
) -> Session:
    """A finished session over two small sizes."""
    cases = [traced_case("matpow", size=size) for size in (8, 16)]
    candidates = [session.Candidate(t, b, d) for t in cases for d in (1, 2) for b in backends]
    found = Session(
        candidates,
        extent=Extent(processes),
        threads=1,
        seed=options.pop("seed", 0),
        effort=SMALL,
        opener=opener,
        **options,
    )
    found.run()
    return found


# --- order ------------------------------------------------------------------------------------------------------------


def test_each_order_holds_every_group_once_and_is_one_of_its_own() -> None:
    groups = [f"group {i}" for i in range(8)]
    shuffle, again, other = shuffler(1), shuffler(1), shuffler(2)
    found = [shuffle(groups) for _ in range(5)]
    assert all(sorted(order) == groups for order in found)
    assert len({tuple(order) for order in found}) == 5
    assert found == [again(groups) for _ in range(5)]
    assert found != [other(groups) for _ in range(5)]


@pytest.mark.tier("standard")
def test_a_session_is_complete_and_interleaved() -> None:
    done = measured(here(), ["numpy", "pytensor", "aesara"], processes=2)
    assert all(c.status == "ok" and len(c.processes) == 2 for c in done.candidates), [c.reason for c in done.candidates]
    half = len(done.order) // 2
    for part in (done.order[:half], done.order[half:]):
        assert sorted(part) == sorted(c.label for c in done.candidates)
    assert done.order[:half] != done.order[half:]
    for candidate in done.candidates:
        for process in candidate.processes:
            assert done.order[process.order] == candidate.label
        first, second = candidate.processes
        assert second.started > first.started
        assert None not in (getattr(first.phases, name) for name in first.phases.__struct_fields__)


@pytest.mark.tier("exhaustive")
def test_progress_names_what_begins() -> None:
    lines: list[str] = []
    done = measured(here(), on_progress=lines.append)
    assert all(any(c.label in line for line in lines) for c in done.candidates)
    begun = [line for line in lines if line.startswith("[")]
    assert [line.partition("]")[0] for line in begun] == ["[process 1 each, 1/2", "[process 1 each, 2/2"] * 2
    assert {line.partition("] ")[2].partition(":")[0] for line in begun} == {"numpy | 1 device", "numpy | 2 devices"}


# --- right before fast ------------------------------------------------------------------------------------------------


class Wrong(NumPyBackend):
    """Results are wrong by one per mille."""

    def get(self, value: Any) -> np.ndarray:
        return super().get(value) * np.float32(1.001)


class NotFinite(NumPyBackend):
    def get(self, value: Any) -> np.ndarray:
        return super().get(value) * np.float32(np.nan)


class OtherDType(NumPyBackend):
    def get(self, value: Any) -> np.ndarray:
        return super().get(value).astype(np.float64)


class Moved(NumPyBackend):
    """Reports another device for everything."""

    def build(self, program: Any) -> Built:
        built = super().build(program)
        return Built(built.execute, lambda: Execution({i: Executed(Device("cpu", 7)) for i in built.executed().ops}))


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (Wrong, "relative error 0.001 against the float64 oracle"),
        (NotFinite, "what rewrites make of NaN, infinities and overflow: docs/numbers.md"),
        (OtherDType, "the outputs are float64, the program says float32"),
        (Moved, "ran on cpu:7"),
    ],
)
def test_a_wrong_result_gives_no_timing(backend: type[Backend], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def clock(*_: Any) -> Any:
        raise AssertionError("the clock was started")

    monkeypatch.setattr(loop, "_hold", clock)
    done = measured(here(backend))
    rows = done.results("wrong").measurements
    assert [row.status for row in rows] == ["wrong"] * 4
    assert all(reason in row.reason and not row.processes for row in rows)
    assert results_survive(done)


def test_what_is_not_shown_to_be_right_gives_no_timing() -> None:
    """NaN agrees with any error. A result that the precision does not determine has an error, but no verdict."""
    logs = candidates.given(Workload(xb.log, name="logs"), [np.array([-1.0, 1.0])], {})
    hilbert = (1 / (np.arange(1, 9)[:, None] + np.arange(8.0)[None])).astype(np.float32)
    inverse = candidates.given(Workload(xb.linalg.inv, name="inverse"), [hilbert], {})
    for allow_nan in (False, True):
        rows = [candidates.Candidate(one, "numpy", 1) for one in (logs, inverse)]
        done = Session(
            rows, extent=Extent(1), threads=1, seed=0, effort=SMALL, opener=here(), wait=0, allow_nan=allow_nan
        )
        done.run()
        nan, unknown = done.results("nan").measurements
        assert (nan.status, bool(nan.processes)) == (("ok", True) if allow_nan else ("not verified", False))
        assert any("NaN is said to be right, in 1 element" in warning for warning in nan.warnings) is allow_nan
        assert unknown.status == "not determined" and unknown.parity is not None and not unknown.processes
        assert results_survive(done) and done.results("nan").settings.allow_nan is allow_nan


def results_survive(done: Session) -> bool:
    """Whether the results can be stored and read back."""
    import msgspec

    stored = done.results("any")
    return msgspec.json.decode(msgspec.json.encode(stored), type=results.Results) == stored


@pytest.mark.tier("exhaustive")
def test_a_process_that_turns_wrong_takes_the_earlier_seconds_along(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = 0

    def opener(name: str, **options: Any) -> Worker:
        nonlocal opened
        opened += 1
        return here(Wrong if opened > 2 else NumPyBackend)(name, **options)

    done = measured(opener, processes=2)
    assert {c.status for c in done.candidates} == {"wrong"}
    assert not any(c.processes for c in done.candidates)


@pytest.mark.tier("exhaustive")
def test_other_inputs_than_in_the_other_processes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = iter(map(str, range(100)))
    monkeypatch.setattr(loop, "hash_of", lambda _: next(hashes))
    rows = measured(here()).results("inputs").measurements
    assert sum(row.status == "wrong" for row in rows) >= 2
    assert all("inputs are not those of the other processes" in row.reason for row in rows if row.status == "wrong")


def test_hash_of_inputs_sees_dtype_shape_and_content() -> None:
    a = np.arange(4, dtype=np.float32)
    different = [a, a.astype(np.float64), a.reshape(2, 2), a[::-1]]
    assert len({loop.hash_of([x]) for x in different}) == 4
    assert loop.hash_of([a]) == loop.hash_of([a.copy()])


# --- the clock waits --------------------------------------------------------------------------------------------------


class Asynchronous(NumPyBackend):
    """Works in its own thread, as a GPU does; `execute` returns before the result."""

    waits = True

    def start(self) -> Any:
        self.thread = ThreadPoolExecutor(1)
        return super().start()

    def build(self, program: Any) -> Built:
        built = super().build(program)

        def work(values: Sequence[Any]) -> Any:
            time.sleep(0.003)
            return built.execute(*values)[0]

        return Built(lambda *values: [self.thread.submit(work, values)], built.executed)

    def synchronize(self, values: Any) -> None:
        if self.waits:
            for value in values:
                if isinstance(value, Future):
                    value.result()

    def get(self, value: Any) -> np.ndarray:
        return super().get(value.result() if isinstance(value, Future) else value)


class LaunchOnly(Asynchronous):
    """Its synchronize does not wait."""

    waits = False


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The cores that others keep busy during the checks of the clock: none, unless a test says so."""
    used = [0.0]
    monkeypatch.setattr(checks, "foreign_load", lambda: contextlib.nullcontext(used))
    return used


@pytest.mark.tier("standard")
@pytest.mark.usefixtures("others")
def test_a_timing_of_launches_is_found_out() -> None:
    rows = measured(here(LaunchOnly)).results("launches").measurements
    assert {row.status for row in rows} == {"wrong"}
    assert all("the clock does not wait for the work" in row.reason and not row.processes for row in rows)


@pytest.mark.tier("standard")
def test_an_asynchronous_backend_that_waits_passes() -> None:
    done = measured(here(Asynchronous))
    assert [c.reason for c in done.candidates] == [""] * 4
    assert all(p.time >= 0.003 for c in done.candidates for p in c.processes)


@pytest.mark.tier("standard")
@pytest.mark.usefixtures("others")
def test_work_that_is_remembered_instead_of_done_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def remembers(_: Any, iterations: int) -> float:
        return 0.004

    monkeypatch.setattr(checks, "seconds_of", remembers)
    with pytest.raises(checks.TimingError, match=r"twice of it takes 1\.00 times as long"):
        checks.check_twice(list, 1, [0.004] * 3)


def test_long_rounds_of_a_machine_that_was_slower_then_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "seconds_of", lambda _, iterations: 0.2 * iterations)
    monkeypatch.setattr(checks.time, "sleep", lambda _: None)
    assert checks.check_twice(list, 1, [0.8] * 15)["twice"] == pytest.approx(2.0)


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(("disturbed", "passes", "fails"), [(0.1, 0.005, 0.0), (0.33, 0.04, 0.01)])
def test_remembered_work_seldom_passes_and_done_work_does_where_rounds_are_doubled_by_chance(
    disturbed: float, passes: float, fails: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1 000 each. The larger of two ratios over ten attempts passed remembered work in 20 and 63 %."""
    random_ = random.Random(1)

    def noisy(seconds: float) -> float:
        return seconds * (2 if random_.random() < disturbed else 1) * random_.uniform(0.98, 1.02)

    def passed(seconds: Callable[[int], float]) -> float:
        monkeypatch.setattr(checks, "seconds_of", lambda _, iterations: noisy(seconds(iterations)))
        monkeypatch.setattr(checks.time, "sleep", lambda _: None)
        right = 0
        for _ in range(1000):
            with contextlib.suppress(checks.TimingError):
                right += bool(checks.check_twice(list, 1, [noisy(0.004) for _ in range(15)]))
        return right / 1000

    assert passed(lambda _: 0.004) <= passes
    assert passed(lambda iterations: 0.004 * iterations) >= 1 - fails


def test_where_others_keep_the_cores_busy_a_check_that_fails_says_nothing(
    others: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made again, and then the row has failed, with what to do."""
    asked = list[int]()
    monkeypatch.setattr(loop, "check_twice", lambda call, iterations, rounds: checks.check_twice(call, 1, [0.004]))
    monkeypatch.setattr(checks, "seconds_of", lambda _, iterations: asked.append(iterations) or 0.004)
    monkeypatch.setattr(checks.time, "sleep", lambda _: None)
    others[:] = [2.9]
    rows = measured(here()).results("loud").measurements
    assert len(rows) == 4 and {row.status for row in rows} == {"failed"}
    assert all(
        re.match(
            r"this may be noise, as others kept 2\.9 cores busy: the work is not done .* measure again", row.reason
        )
        for row in rows
    )
    assert asked.count(2) == len(rows) * 2 * checks.PAIRS
    others[:] = [FOREIGN]
    assert {row.status for row in measured(here()).results("quiet").measurements} == {"wrong"}


def test_a_call_of_seconds_is_made_twice_and_no_more_to_check_that_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[int]()
    monkeypatch.setattr(checks, "seconds_of", lambda _, iterations: made.append(iterations) or 10.0 * iterations)
    assert checks.check_twice(list, 1, [10.0]) == {"twice": 2.0} and made == [2]


def test_a_round_that_was_long_by_chance_is_no_reason_for_fewer_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[int]()
    monkeypatch.setattr(checks, "seconds_of", lambda _, iterations: made.append(iterations) or 0.3 * iterations)
    monkeypatch.setattr(checks.time, "sleep", lambda _: None)
    assert checks.check_twice(list, 1, [1.2]) == {"twice": pytest.approx(2.0)} and made.count(2) > checks.AHEAD


def test_what_is_compiled_in_timed_rounds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(range(10_000))
    monkeypatch.setattr(NumPyBackend, "compilations", lambda _: {"jax": next(counted)})
    rows = measured(here()).results("compiled").measurements
    assert {row.status for row in rows} == {"wrong"}
    assert "compiled in timed rounds" in rows[0].reason


# --- profiles and drawings --------------------------------------------------------------------------------------------


@pytest.mark.tier("standard")
def test_what_the_devices_did_is_stored_and_the_spans_once() -> None:
    done = measured(here(), processes=2)
    for candidate, row in zip(done.candidates, done.results("devices").measurements, strict=True):
        first, second = (process.profile for process in row.processes)
        assert first is not None and candidate.unprofiled == "" and (second is not None) is (candidate.devices > 1)
        kept = [profile for profile in (first, second) if profile is not None and profile.spans]
        assert len(kept) == 1 and first.count == len(kept[0].spans)
        assert set(first.busy) == {f"cpu:{i}" for i in range(candidate.devices)}
        assert 0 < sum(first.busy.values()) <= first.wall and first.together == 0
        assert (first.transfers > 0) is (candidate.devices > 1)
        assert all(process.own_cores is not None and process.own_cores > 0 for process in candidate.processes)
    assert results_survive(done)


class Unprofiled(NumPyBackend):
    def build(self, program: Any) -> Built:
        built = super().build(program)
        return Built(built.execute, built.executed)


@pytest.mark.tier("exhaustive")
def test_a_backend_that_tells_nothing_is_timed_and_says_so() -> None:
    rows = measured(here(Unprofiled)).results("unprofiled").measurements
    assert {row.status for row in rows} == {"ok"}
    assert {row.unprofiled for row in rows} == {"this backend does not tell what its devices did when"}
    assert not any(process.profile for row in rows for process in row.processes)


@pytest.mark.tier("exhaustive")
def test_the_placement_holds_the_drawing_of_what_was_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    for candidate in measured(here()).candidates:
        drawn = candidate.placement["graph"]
        assert {box["device"] for box in drawn["boxes"]} == {f"cpu:{i}" for i in range(candidate.devices)}
        assert sum(edge.get("kind") == "transfer" for edge in drawn["edges"]) == candidate.devices - 1
    monkeypatch.setattr(loop, "LARGEST", 3)
    assert all("graph" not in candidate.placement for candidate in measured(here()).candidates)


@given(target=st.floats(0.001, 0.01), cost=st.floats(1e-5, 2e-3))
def test_calibration_makes_rounds_long_enough(target: float, cost: float) -> None:
    clock = 0.0

    def call() -> None:
        nonlocal clock
        clock += cost

    def seconds(_: Any, iterations: int) -> float:
        start = clock
        for _ in range(iterations):
            call()
        return clock - start

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "seconds_of", seconds)
        iterations, _ = loop.calibrate(call, target)
    assert iterations * cost >= target * 0.999
    assert (iterations - 1) * cost <= 12 * target


# --- what fails is a row ----------------------------------------------------------------------------------------------


@pytest.mark.tier("exhaustive")
def test_a_backend_that_is_missing_is_a_row_and_the_rest_goes_on() -> None:
    def opener(name: str, **options: Any) -> Worker:
        if name == "pytensor":
            raise BackendUnavailable("no such framework; type this")
        return here()(name, **options)

    done = measured(opener, ["numpy", "pytensor"], processes=2)
    rows = done.results("missing").measurements
    assert {(row.backend, row.status) for row in rows} == {("numpy", "ok"), ("pytensor", "missing")}
    assert all(row.reason == "no such framework; type this" for row in rows if row.backend == "pytensor")
    assert results_survive(done)


def test_a_worker_that_dies_costs_one_candidate() -> None:
    opened: list[str] = []

    def opener(name: str, **options: Any) -> Worker:
        worker = here()(name, **options)
        opened.append(name)

        def call(function: str, job: dict[str, Any]) -> Any:
            if "size=16" in job.get("label", ""):
                raise WorkerDied("its worker was killed by SIGSEGV")
            return getattr(loop, function.partition(":")[2])(worker.backend, job)

        return Worker(worker.backend, call)

    rows = measured(opener).results("died").measurements
    assert {(row.parameters["size"], row.status) for row in rows} == {(8, "ok"), (16, "failed")}
    assert all("SIGSEGV" in row.reason for row in rows if row.status == "failed")


def test_what_cannot_be_compiled_is_a_row() -> None:
    class Unable(NumPyBackend):
        def build(self, program: Any) -> Built:
            raise UnsupportedOperation("no matmul here")

    rows = measured(here(Unable)).results("unable").measurements
    assert {(row.status, row.reason) for row in rows} == {("failed", "no matmul here")}


@pytest.mark.tier("exhaustive")
def test_too_few_devices_is_a_row() -> None:
    def opener(name: str, **options: Any) -> Worker:
        return here()(name, **{**options, "virtual_devices": 1})

    rows = measured(opener).results("few").measurements
    assert {(row.devices, row.status) for row in rows} == {(1, "ok"), (2, "failed")}
    assert any("has 1 device of kind cpu (cpu:0), 2 were asked for" in row.reason for row in rows)


def test_wrong_requests_are_errors_before_anything_is_measured() -> None:
    def opener(*_: Any, **__: Any) -> Worker:
        raise AssertionError("something was started")

    for options, error in (
        ({"backends": ["numpie"]}, UnknownBackend),
        ({"devices": ()}, ArgumentError),
        ({"devices": (0,)}, ArgumentError),
        ({"processes": 0}, ArgumentError),
    ):
        with pytest.raises(error):
            session.compare([traced_case("matpow", size=8)], opener=opener, **options)  # type: ignore[arg-type]
    for name, parameters in (("matpow", {"sizes": 3}), ("matpot", {})):
        with pytest.raises(WorkloadError):
            traced_case(name, **parameters)


def test_threads_that_are_not_equal_are_warned_of() -> None:
    assert not [*candidates.thread_warnings(Description(threads={"openblas": 2, "XLA": 2}), 2)]
    assert "openblas 4" in next(candidates.thread_warnings(Description(threads={"openblas": 4, "XLA": 2}), 2))
    assert "at most 1" in next(candidates.thread_warnings(Description(threads={"openblas": 1}), 2))


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.mark.tier("exhaustive")
def test_numpy_in_real_processes(tmp_path: Path) -> None:
    found = session.compare(
        [traced_case("matpow", size=64)], backends=["numpy"], devices=(1, 2), processes=2, threads=1
    )
    assert [row.status for row in found.measurements] == ["ok", "ok"], [row.reason for row in found.measurements]
    for row in found.measurements:
        assert len(row.processes) == 2
        assert row.bindings == {"dev0": "cpu:0", "dev1": f"cpu:{row.devices - 1}"}
        assert row.operations == 2 * 9 * 2 * 64**3 + 64**2
        assert row.parity is not None and row.parity.relative_error <= row.parity.tolerance
        assert {op["status"] for op in row.placement["ops"]} == {"nothing to read"}
        for process in row.processes:
            missing = [] if process is row.processes[0] else ["device_to_host"]
            phases = {name: getattr(process.phases, name) for name in process.phases.__struct_fields__}
            assert [name for name, seconds in phases.items() if seconds is None] == missing
            assert all(seconds >= 0 for seconds in phases.values() if seconds is not None)
            assert process.iterations * process.time >= 1e-3
    write_whole(tmp_path / "results.json", results.sealed(found))
    assert results.load(tmp_path / "results.json") == found


def test_the_measuring_loop_brings_nothing_along() -> None:
    code = "import sys; sys.path.append('bench'); import xbackend.measure.loop, overhead.calls, overhead.placements"
    loaded = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules)"], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout
    assert not {"msgspec", "psutil", "pytest", "rich", "matplotlib", "tensorflow"} & set(loaded.split())


# --- the machine ------------------------------------------------------------------------------------------------------


def test_the_fingerprint_is_of_stable_fields_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine_module.machine()
    assert before == machine_module.machine()
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    monkeypatch.setattr("platform.release", lambda: "99")
    monkeypatch.setattr(machine_module.limits, "machine_memory", lambda: before.memory_bytes + 4096)
    assert machine_module.machine().fingerprint == before.fingerprint
    monkeypatch.setattr(machine_module.cores, "count", lambda: before.cores + 1)
    assert machine_module.machine().fingerprint != before.fingerprint
