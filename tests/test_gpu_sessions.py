"""Sessions on a machine with GPUs, which are NumPy's pretend devices here: which devices rows have, what the answer
calls them, and GPUs that are missing, lost or full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from report_helpers import measured, of, whole_of

from xbackend import cores
from xbackend.analysis.answer import answer
from xbackend.analysis.comparison import comparisons
from xbackend.analysis.gate import GateOutcome, judge
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.cli import WRONG, main, options
from xbackend.devices import Device, DeviceMap, choose_visible, numbers_and_kinds
from xbackend.errors import ArgumentError
from xbackend.measure import loop, machine, session
from xbackend.measure.candidates import Candidate
from xbackend.measure.candidates import case as traced_case
from xbackend.measure.plan import Extent
from xbackend.measure.runner import Session
from xbackend.measure.worker import Worker, open_worker
from xbackend.results.schema import Measurement, Results
from xbackend.scripting import comparing

pytestmark = pytest.mark.tier("standard")

SMALL = loop.Effort(visits=2, at_least=1, seconds=1.0, rounds=2, round_seconds=0.002)
CASE = traced_case("matpow", size=8)


class Pretend(NumPyBackend):
    """NumPy with so many GPUs, if it stands for a framework that computes on them."""

    gpus = 0

    def start(self) -> Iterable[Device]:
        there = [*super().start()] if self.settings.visible is None else self._cpus()
        gpus = self.gpus if registry.get(self.name).accelerated else 0
        return choose_visible([*there, *(Device("gpu", i) for i in range(gpus))], self.settings.visible)

    def _cpus(self) -> list[Device]:
        self._xp, self._limited = self.needed("autograd.numpy"), lambda: None
        return [Device("cpu", i) for i in range(self.settings.virtual_devices)]


def here(of_class: type[Pretend] = Pretend, gpus: int = 2) -> Callable[..., Worker]:
    """An opener whose workers are this process, with so many GPUs."""

    def opener(name: str, *, virtual_devices: int = 1, visible: tuple[str, ...] | None = None, **_: Any) -> Worker:
        made = type("Made", (of_class,), {"gpus": gpus})(name, Settings(virtual_devices, visible))

        def call(function: str, *arguments: Any) -> Any:
            module, _, attribute = function.partition(":")
            return getattr(import_module(module), attribute)(made, *arguments)

        return Worker(made, call, 0.1, 0.2)

    return opener


def taken(opener: Callable[..., Worker], devices: str = "1,2", **more: Any) -> Results:
    """The results of a session with what follows ``--devices``."""
    numbers, kinds = numbers_and_kinds(options.devices(devices))
    case = more.pop("case", CASE).bound(more.pop("devices_map", DeviceMap()))
    found = [Candidate(case, b, d) for d in numbers for b in more.pop("backends", ("jax", "numpy"))]
    done = Session(found, extent=Extent(1), threads=1, seed=0, effort=SMALL, opener=opener, kinds=kinds, wait=0, **more)
    done.run()
    return done.results("pretend")


def rows(results: Results) -> dict[tuple[str, int], Measurement]:
    return {(row.backend, row.devices): row for row in results.measurements}


def used(row: Measurement) -> set[str]:
    return {*row.bindings.values()} if row.status == "ok" else {row.reason}


# --- which devices a row has ----------------------------------------------------------------------------------------


def test_accelerators_are_the_devices_where_a_backend_has_some() -> None:
    found = rows(taken(here()))
    assert used(found["jax", 1]) == {"gpu:0"} and used(found["jax", 2]) == {"gpu:0", "gpu:1"}
    assert used(found["numpy", 1]) == {"cpu:0"} and used(found["numpy", 2]) == {"cpu:0", "cpu:1"}


@pytest.mark.tier("exhaustive")
def test_a_kind_that_is_named_is_taken() -> None:
    found = rows(taken(here(), "cpu,1,2"))
    assert used(found["jax", 1]) == {"cpu:0"} and used(found["jax", 2]) == {"cpu:0", "cpu:1"}
    for devices, where in (("1", "gpu:0"), ("cpu,1", "cpu:0")):  # of a program without scopes
        (row,) = taken(here(), devices, case=traced_case("softmax", size=8), backends=("jax",)).measurements
        assert {op.executed or op.bound for op in row.evidence.ops} == {where}, row.reason
    found = rows(taken(here(gpus=0), "gpu,1"))
    assert used(found["jax", 1]) == {"backend jax has no device of kind gpu (cpu:0), 1 was asked for; with "
                                     "--devices gpu,cpu,1 the CPU is taken, too; xbackend doctor --gpu says "
        "what is missing"}  # fmt: skip
    assert used(found["numpy", 1]) == {"cpu:0"}, "which has no GPU anywhere"


@pytest.mark.tier("exhaustive")
def test_two_gpus_that_are_asked_for_where_one_is_there_are_a_row_with_the_reason() -> None:
    found = rows(taken(here(gpus=1)))
    assert used(found["jax", 1]) == {"gpu:0"} and found["jax", 2].status == "failed"
    assert used(found["jax", 2]) == {
        "backend jax has 1 device of kind gpu (cpu:0, cpu:1, gpu:0), 2 were asked for; with --devices gpu,cpu,2 the "
        "CPU is taken, too"
    }
    assert found["numpy", 2].status == "ok"


@pytest.mark.tier("exhaustive")
def test_one_gpu_and_the_cpu_are_two_devices_where_that_is_asked_for() -> None:
    found = rows(taken(here(gpus=1), "cpu,gpu,1,2", backends=("jax",)))
    assert used(found["jax", 1]) == {"gpu:0"} and used(found["jax", 2]) == {"gpu:0", "cpu:0"}
    assert rows(taken(here(gpus=2), "gpu,cpu,2", backends=("jax",)))["jax", 2].bindings["dev1"] == "gpu:1"
    bound = DeviceMap.parse("dev0=gpu:0,dev1=cpu:0")
    found = rows(taken(here(gpus=1), "2", backends=("jax",), devices_map=bound))
    assert found["jax", 2].bindings == {"dev0": "gpu:0", "dev1": "cpu:0"}


@pytest.mark.parametrize(
    ("typed", "read"),
    [("1,2", [1, 2]), ("gpu,1,2", ["gpu", 1, 2]), ("cpu", ["cpu"]), ("2,cuda", [2, "cuda"]), ("1,1", [1])],
)
def test_numbers_and_kinds_are_read(typed: str, read: list[int | str]) -> None:
    assert options.devices(typed) == read
    assert comparing._devices(typed if typed != "1,1" else 1) == read, "in scripts, too"


def test_kinds_are_in_one_order_and_unknown_ones_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers_and_kinds(["cpu", 2, "cuda"]) == ([2], ["gpu", "cpu"])
    assert numbers_and_kinds(["GPU"]) == ([1], ["gpu"])
    for wrong in ([], [0], [True], ["npu", 1], [1.5]):
        with pytest.raises(ArgumentError, match=r"whole numbers from 1 up are needed, and a kind of device"):
            numbers_and_kinds(wrong)  # type: ignore[arg-type]
    for typed, words in (
        ("gpu:1,2", "'gpu:1' is not a whole number from 1 to 1024; write a list such as 1,2 or gpu,1,2; a device is"),
        ("npu", "'npu': whole numbers from 1 up are needed, and a kind of device where one is asked for (cpu, gpu"),
    ):
        assert main(["compare", "--devices", typed]) == WRONG
        assert f"xbackend compare: --devices: {words}" in capsys.readouterr().err


def test_cpu_devices_have_cores_of_their_own_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "accelerators", lambda: ["NVIDIA H200 (driver 580)"])
    monkeypatch.setattr(cores, "count", lambda: 4)
    monkeypatch.setattr(cores, "pinned", lambda *_: None)
    assert session.cores_each(2, None, None, False) is None
    assert session.cores_each(2, None, None, False, ["cpu"]) == 2
    assert session.cores_each(2, None, None, False, ["gpu", "cpu"]) is None
    monkeypatch.setattr(machine, "accelerators", list)
    assert session.cores_each(2, None, None, False) == 2


def test_runs_on_other_kinds_of_devices_are_not_compared() -> None:
    base = of(measured("jax", [1.0, 1.1, 1.2]))
    head = replace(base, settings=replace(base.settings, kinds=["cpu"]))
    assert judge(base, base, []).outcome is not GateOutcome.NO_VERDICT
    found = judge(base, head, [])
    assert found.outcome is GateOutcome.NO_VERDICT
    assert "different kinds of devices: BASE with --devices without a kind and HEAD with --devices cpu" in found.reason


# --- GPUs that fail -------------------------------------------------------------------------------------------------

PLANTED = {"planted_gpu": str(Path(__file__).parent / "planted_gpu.py")}
LOST = (
    "INTERNAL: Failed to execute XLA Runtime executable: CUDA error: Failed call to cuStreamSynchronize: "
    "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure\nmore"
)
FULL = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.\nBufferAssignment OOM Debugging."


def failing(text: str) -> Session:
    """A session of two programs, of whose processes, each its own, the first has a GPU that raises this."""
    opened: list[Worker] = []

    def opener(name: str, **how: Any) -> Worker:
        opened.append(open_worker(name, modules=PLANTED, virtual_devices=how["virtual_devices"], limit=60.0))
        if len(opened) == 1:
            opened[0].call("planted_gpu:fail", text)
        return opened[-1]

    cases = [traced_case("matpow", size=size) for size in (8, 16)]
    done = Session(
        [Candidate(one, "numpy", 1) for one in cases], extent=Extent(1), threads=1, seed=0, effort=SMALL,
        opener=opener, wait=0,
    )  # fmt: skip
    done.run()
    return done


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            LOST,
            "the driver of its GPU failed while its worker did 'call', which was ended. XlaRuntimeError: INTERNAL: "
            "Failed to execute XLA Runtime executable: CUDA error: Failed call to cuStreamSynchronize: "
            "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure. See whether nvidia-smi still lists the GPU",
        ),
        (
            FULL,
            "its worker ran out of memory while it did 'call' and was ended. XlaRuntimeError: RESOURCE_EXHAUSTED: Out "
            "of memory while trying to allocate 1073741824 bytes. Use smaller inputs, or leave it more memory (see in "
            "nvidia-smi who has the memory of the GPU, and end what is not needed); then open the backend again.",
        ),
    ],
    ids=["lost", "full"],
)
def test_a_gpu_that_fails_is_a_row_with_the_reason_and_the_session_goes_on(text: str, words: str) -> None:
    first, second = sorted(failing(text).candidates, key=lambda one: one.status)
    assert (first.status, second.status) == ("failed", "ok") and len(second.processes) == 1
    assert first.reason.startswith(f"backend 'numpy': {words}") and "\n" not in first.reason


def test_a_backend_whose_gpu_is_gone_is_not_measured_on_the_cpu_in_its_place() -> None:
    """Without its GPU JAX computes on the CPU, without a word."""
    left = [1, 0, 0]

    def opener(name: str, **how: Any) -> Worker:
        return here(gpus=left.pop(0))(name, **how)

    done = taken(opener, "1,2", backends=("jax",))
    reasons = [row.reason for row in done.measurements]
    assert sum("backend jax computes on cpu:0 in this process, and on a gpu in those before" in r for r in reasons) == 1


# --- what the answer calls them -------------------------------------------------------------------------------------

ONE, TWO = {"dev0": "gpu:0", "dev1": "gpu:0"}, {"dev0": "gpu:0", "dev1": "gpu:1"}
CPU, CPUS, BOTH = (
    {"dev0": "cpu:0", "dev1": "cpu:0"},
    {"dev0": "cpu:0", "dev1": "cpu:1"},
    {"dev0": "gpu:0", "dev1": "cpu:0"},
)


def near(seconds: float) -> list[float]:
    return [seconds, 1.001 * seconds, 1.002 * seconds]


def of_machine(accelerators: Sequence[str], *found: Measurement) -> Results:
    results = of(*found)
    return replace(results, machine=replace(results.machine, accelerators=[f"{a} (driver 580)" for a in accelerators]))


JAX = measured("jax", near(2.0), bindings=ONE), measured("jax", near(1.0), 2, bindings=TWO)
NUMPY = measured("numpy", near(9.0), bindings=CPU), measured("numpy", near(9.5), 2, bindings=CPUS)
FAILED = measured("jax", [], 2, status="failed", reason="of one device")


@pytest.mark.parametrize(
    ("there", "found", "said"),
    [
        (
            ["NVIDIA H200"] * 2,
            (*JAX, *NUMPY),
            "Two NVIDIA H200 against one: 2.00 times as fast on jax (2.00 to 2.00); two CPU devices against one "
            "(sharing cores): slower on numpy (0.947 times as fast, 0.945 to 0.949).",
        ),
        (["NVIDIA A100", "Tesla V100"], JAX, "Two GPUs (NVIDIA A100 and Tesla V100) against one: 2.00 times as fast"),
        ([], (*JAX, *NUMPY), "Two GPUs against one: 2.00 times as fast on jax (2.00 to 2.00); two CPU devices against"),
        (
            ["NVIDIA H200"],
            (JAX[0], FAILED),
            "Two GPUs (there is 1 NVIDIA H200) against one: no backend gave a time on both, not measured on jax "
            "(failed).",
        ),
        (
            ["NVIDIA H200"],
            (JAX[0], measured("jax", near(3.0), 2, bindings=BOTH)),
            "Two unequal devices, CPU and GPU (NVIDIA H200), against one (real, not equal): slower on jax (0.667 times",
        ),
        (["NVIDIA H200"], NUMPY, "Two CPU devices against one (sharing cores): slower on numpy"),
        ([], NUMPY, "Two devices against one (sharing cores): slower on numpy"),
    ],
)
def test_the_answer_names_the_devices(there: list[str], found: tuple[Measurement, ...], said: str) -> None:
    assert answer(comparisons(of_machine(there, *found))).startswith(said)


def test_many_rows_are_counted_by_their_kind_of_device() -> None:
    gpus = [replace(row, backend=f"{row.backend}-{i}") for i in range(3) for row in JAX]
    cpus = [replace(row, backend=f"{row.backend}-{i}") for i in range(6) for row in NUMPY]
    assert answer(comparisons(of_machine(["H"] * 2, *gpus, *cpus))) == (
        "Two H against one: 2.00 times as fast on jax-0 (2.00 to 2.00), 2.00 times as fast on jax-1 (2.00 to 2.00), "
        "2.00 times as fast on jax-2 (2.00 to 2.00); two CPU devices against one (sharing cores): slower on 6 of 6 "
        "(0.95 times as fast)."
    )


def test_the_page_never_calls_a_cpu_a_device_without_the_word() -> None:
    page = whole_of(of_machine(["NVIDIA H200"] * 2, *JAX, *NUMPY))
    assert "numpy on cpu, 2 devices" in page and "jax on gpu, 2 devices" in page
    unequal = whole_of(of_machine(["NVIDIA H200"], JAX[0], measured("jax", near(3.0), 2, bindings=BOTH)))
    assert "jax on cpu and gpu, 2 devices" in unequal and "jax on gpu" in unequal
