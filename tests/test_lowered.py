"""Programs lowered for GPUs that this machine lacks: what the frameworks make of them, read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import placement_plants
import pytest
from in_process import spec_of, tasks
from lowered_programs import ABSENT, CASES, p10

import xbackend as xb
from xbackend import environments
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.backends.lowered import Lowered
from xbackend.cluster import parts
from xbackend.cluster.programs import Programs
from xbackend.engines import registry as engines
from xbackend.errors import ArgumentError, BackendUnavailable, DeviceUnavailable, PlacementError, UnsupportedOperation
from xbackend.program.binding import bind
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")

PLATFORMS = {"jax": {"cpu": "cpu", "gpu": "cuda"}, "tensorflow": {"cpu": "CPU", "gpu": "GPU"}}
OF = {"jax": "jax", "pytensor-jax": "jax", "tensorflow": "tensorflow", "tensorflow-xla": "tensorflow"}
OUTSIDE = ("custom_call", "custom-call", "infeed", "outfeed", "send", "recv", "callback", "PyFunc")


@pytest.fixture(scope="module", params=OF)
def backend(request: pytest.FixtureRequest) -> Iterator[RemoteBackend]:
    with worker(request.param) as found:
        yield found


def worker(name: str) -> RemoteBackend:
    if environments.get(registry.get(name).environment).state != "ready":
        environments.sync(registry.get(name).environment)
    modules = {"placement_plants": placement_plants.__file__}
    return RemoteBackend(name, Settings(lower_for=ABSENT), modules=modules, limit=120.0)


def lowered(backend: RemoteBackend, name: str) -> Lowered:
    case = CASES[name]
    return backend.compile(case.function, *case.arguments, devices=case.devices).lowered


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_lowered_for_its_devices_and_their_platforms(backend: RemoteBackend, name: str) -> None:
    case, found = CASES[name], lowered(backend, name)
    found.placement.check()
    assert found.placement.as_asked and not found.placement.differences(), str(found)
    transfers = found.placement.transfers
    assert {f"{t.source}>{t.target}" for t in transfers} == {*case.ways.split()}
    assert {d for t in transfers for d in (t.source, t.target)} | {
        str(d) for part in found.parts for d in part.devices
    } == {*case.used.split()}
    platforms = PLATFORMS[OF[backend.name]]
    for part in found.parts:
        (kind,) = {device.kind for device in part.devices}
        assert part.platform in (platforms[kind], f"XLA on {platforms[kind]}")
        assert not part.lacking and not part.hosted, str(part)
        assert part.ops and part.text
        assert not [op for op in part.ops if any(word in op for word in OUTSIDE)], str(part)
    assert "lowered, never executed: all" in str(found)
    gpus = {f"gpu:{i}" for i in range(4)}
    for t in transfers:
        ends = (t.source in gpus, t.target in gpus)
        assert (
            t.way == {(True, True): "between GPUs", (False, True): "from the host", (True, False): "to the host"}[ends]
        )


def test_products_are_lowered_in_full_precision() -> None:
    with worker("jax") as jax:
        (part,) = lowered(jax, "P1 pinned").parts
    assert "precision = [HIGHEST, HIGHEST]" in part.text  # else TF32


@pytest.mark.parametrize(("name", "count"), [("P9", 2), ("P9 of three", 3)])
def test_replicas_on_gpus_are_one_program_with_collectives_of_jax(name: str, count: int) -> None:
    with worker("jax") as jax:
        found, unlike = lowered(jax, name), lowered(jax, "P9 reduction")
    (part,) = found.parts
    assert [str(device) for device in part.devices] == [*ABSENT[:count]] and part.platform == "cuda"
    reduced = {t.node for t in found.placement.transfers if t.cause == "all-reduce"}
    assert reduced and part.ops["stablehlo.all_reduce"] >= 3  # of each weight's gradient, losses and counts
    assert part.ops["stablehlo.all_to_all"] == 1  # the rows
    assert f'sdy.mesh @mesh = <["replicas"={count}]>' in part.text
    assert 'sharding<@mesh, [{"replicas"}, {}]>' in part.text
    assert f"mhlo.num_partitions = {count} " in part.text
    assert not found.placement.separate and "no sum over all devices" in unlike.placement.separate
    # What is not alike is summed on the first GPU, over copies from GPU to GPU.
    assert not any("all_reduce" in op for each in unlike.parts for op in each.ops)
    assert {(t.source, t.target) for t in unlike.placement.transfers if t.cause == "all-reduce"} == {("gpu:1", "gpu:0")}


def test_an_op_on_another_device_than_asked_is_found() -> None:
    with worker("tensorflow") as tensorflow:
        tensorflow.call("placement_plants:misplace", "matmul", "cpu:0")
        found = lowered(tensorflow, "P2")
    with pytest.raises(PlacementError, match=r"matmul .* asked for dev0 = gpu:0, ran on cpu:0"):
        found.placement.check()


def test_an_op_without_a_kernel_for_gpus_is_found(backend: RemoteBackend) -> None:
    def largest(x: xb.Array) -> xb.Array:
        with xb.device("gpu:0"):
            return xb.argmax(xb.astype(x, "int64") + 1)

    found = backend.compile(largest, CASES["P9 reduction"].arguments[0]).lowered
    lacking = [name.split()[0] for part in found.parts for name in part.lacking]
    assert lacking == (["ArgMax"] if backend.name == "tensorflow" else [])


def test_a_gpu_computes_int32_of_tensorflow_in_the_memory_of_the_host() -> None:
    def total(x: xb.Array) -> xb.Array:
        with xb.device("gpu:0"):
            return xb.astype(x, "int32") + xb.astype(x, "int32")

    with worker("tensorflow") as tensorflow:
        found = tensorflow.compile(total, CASES["P9 reduction"].arguments[0]).lowered
    assert [name.split()[0] for part in found.parts for name in part.hosted] == ["AddV2"]


def test_nothing_that_is_only_lowered_is_executed(backend: RemoteBackend) -> None:
    case = CASES["P2"]
    run = backend.compile(case.function, *case.arguments, devices=case.devices)
    with pytest.raises(DeviceUnavailable, match="lowered for devices that are not there"):
        run(*case.arguments)
    assert not run.placement.as_asked
    with pytest.raises(DeviceUnavailable, match="there is no device dev0=gpu:7"):
        backend.compile(case.function, *case.arguments, devices={"dev0": "gpu:7", "dev1": "gpu:0"})


def test_what_lower_for_cannot_be_is_refused() -> None:
    with pytest.raises(BackendUnavailable, match="backend numpy lowers no program for devices that are not there"):
        xb.open("numpy", lower_for="gpu:0")
    with pytest.raises(ArgumentError, match="lower_for names cpu:1: name accelerators"):
        xb.open("numpy", lower_for=("gpu:0", "/cpu:1"))
    with pytest.raises(ArgumentError, match="names a device twice"):
        xb.open("numpy", lower_for="gpu:0,cuda0")
    with pytest.raises(ArgumentError, match="names a device twice"):
        Settings(lower_for=("gpu:0", "cuda:0"))
    with xb.open("numpy") as numpy, pytest.raises(UnsupportedOperation, match="open the backend with lower_for"):
        _ = numpy.compile(lambda x: x + 1.0, CASES["P9 reduction"].arguments[0]).lowered


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parent.parent / "docs" / "gpus.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "docs/gpus.md", "exec"), {"__name__": "page"})
    said = capsys.readouterr().out
    assert said.startswith("lowered, never executed: all 2 ops as asked") and "for cuda: stablehlo.dot_general" in said
    assert "between GPUs" in said and "stablehlo.dot_general" in said.partition("module @")[2]


@pytest.mark.parametrize(("job", "servers"), [(p10.mirrored, 0), (p10.served, 1)])
def test_what_a_task_of_a_job_computes_is_lowered_for_its_gpu(backend: RemoteBackend, job: Any, servers: int) -> None:
    """P10: the parts of its program between what it reads of servers and what it sends. P7 adds on a server."""
    numpy = engines.of("numpy")
    one = Programs(job, spec_of(2, servers), numpy, asynchronous=False, guard=lambda _: nullcontext())
    task, gpu = tasks(one)[1], xb.Device("gpu", 0)
    own = one.of(task, one.arrays(task, 0)).parts.own
    cut, reduced = parts.segments(bind(own, xb.DeviceMap(), backend.devices, gpu))
    assert len(cut) == (2 if job is p10.mirrored else 1) and bool(reduced) == (job is p10.mirrored)
    for segment in cut:
        found = backend.compile(segment.program).lowered
        found.placement.check()
        assert {str(device) for part in found.parts for device in part.devices} == {"gpu:0"}
        assert not found.placement.transfers and not any(part.lacking for part in found.parts)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_many_indices_need_no_op_that_gpus_lack(dtype: str) -> None:
    """Seen on a GPU: the whole program failed by an op that nothing used."""

    def rows(x: xb.Array, indices: xb.Array) -> xb.Array:
        with xb.device("gpu:0"):
            return xb.take(x, indices, axis=0)

    with worker("tensorflow") as tensorflow:
        made = tensorflow.compile(rows, np.zeros((8, 3)), np.zeros(20000, dtype)).lowered
    assert not any(part.lacking for part in made.parts)


def test_what_tensorflow_moves_between_the_memories_of_a_gpu_is_told_as_over_the_host() -> None:
    """Seen on a GPU: the condition of a loop, made there, goes to the host, and axes are kept in the host's memory."""
    from xbackend.backends.tensorflow.reading import Observed, Sizes, _read_transfers

    def node(name: str, op: str, *inputs: str, **attr: str | int) -> Any:
        read = {k: SimpleNamespace(s=str(v).encode(), type=v, i=v) for k, v in attr.items()}
        return SimpleNamespace(name=name, op=op, input=list(inputs), attr=read)

    ends = {"send_device": "/GPU:0", "recv_device": "/GPU:0", "tensor_type": 10}
    nodes = [
        node("w/Less", "Less"), node("sent", "_Send", "w/Less", tensor_name="a", **ends),
        node("came", "_HostRecv", tensor_name="a", **ends), node("w/LoopCond", "LoopCond", "came"),
        node("axes", "Shape"), node("sent2", "_HostSend", "axes", tensor_name="b", **ends),
        node("came2", "_Recv", tensor_name="b", **ends), node("w/Use", "Identity", "came2"),
    ]  # fmt: skip
    three = SimpleNamespace(shape=SimpleNamespace(num_elements=lambda: 3))
    shapes = SimpleNamespace(get_tensor_by_name={"axes:0": three}.__getitem__)
    tf = SimpleNamespace(as_dtype=lambda number: SimpleNamespace(size=4))
    observed = Observed("")
    _read_transfers(observed, nodes, {"/GPU:0": xb.Device("gpu", 0)}, Sizes(tf, shapes, None))
    told = [(str(r.source), str(r.target), r.bytes) for r in observed.received]
    assert told == [("gpu:0", "cpu:0", 1), ("cpu:0", "gpu:0", 12)]
