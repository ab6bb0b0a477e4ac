"""The Theano lineage over several devices: wrong placements are caught, stages overlap, errors arrive."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batches import LIMIT_SECONDS

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.backends.lineage.adapter import LineageBackend
from xbackend.errors import PlacementError, WorkerError
from xbackend.workers.remote import RemoteBackend


def staged(entry: registry.Entry) -> bool:
    """Whether `placed` cuts the backend's programs into stages. No framework is imported."""
    module, _, name = entry.adapter.partition(":")
    adapter = getattr(import_module(module), name)
    return issubclass(adapter, LineageBackend) and adapter._compile is LineageBackend._compile


STAGED = [entry.name for entry in registry.entries() if staged(entry)]
A = np.arange(9.0).reshape(3, 3) / 9
BOUND = "dev0=cpu:0,dev1=cpu:1"


@pytest.fixture(scope="module", params=STAGED)
def planted(request: pytest.FixtureRequest) -> Iterator[RemoteBackend]:
    """A backend with two devices, for functions of `planted_lineage`."""
    modules = {"planted_lineage": str(Path(__file__).parent / "planted_lineage.py")}
    with RemoteBackend(request.param, Settings(2, None, 1), limit=LIMIT_SECONDS, modules=modules) as backend:
        yield backend


@pytest.fixture
def plant(planted: RemoteBackend) -> Iterator[Any]:
    """Break the adapter, and mend it afterwards."""

    def broken(how: str) -> bool:
        return bool(planted.call(f"planted_lineage:{how}"))

    yield broken
    planted.call("planted_lineage:mend")


def sums(a: Any, b: Any) -> Any:
    """A product on each device, their sum on dev0."""
    with xb.device("dev0"):
        x = a @ a
    with xb.device("dev1"):
        y = b @ b
    with xb.device("dev0"):
        return x + y


WANT = A @ A + A @ A


def test_without_a_plant_everything_is_as_asked(planted: RemoteBackend) -> None:
    run = planted.compile(sums, A, A, devices=BOUND)
    np.testing.assert_allclose(run(A, A), WANT)
    assert {r.status for r in run.placement.ops} == {"as asked"}
    assert [(t.source, t.target, t.bytes, t.cause) for t in run.placement.transfers] == [
        ("cpu:1", "cpu:0", A.nbytes, "crossing")
    ]


def test_a_stage_compiled_for_the_wrong_device_is_caught(planted: RemoteBackend, plant: Any) -> None:
    plant("compiled_for_the_wrong_device")
    run = planted.compile(sums, A, A, devices=BOUND)
    with pytest.raises(PlacementError, match=r"cpu:1.*(ran on|compiled for) cpu:0"):
        run(A, A)


def test_the_frameworks_own_call_is_caught_and_shown(planted: RemoteBackend, plant: Any) -> None:
    if not plant("the_frameworks_own_call"):
        return
    strict = planted.compile(sums, A, A, devices=BOUND)
    with pytest.raises(PlacementError, match=r"asked for dev1 = cpu:1, ran on cpu:0.*placement='soft'"):
        strict(A, A)
    soft = planted.compile(sums, A, A, devices=BOUND, placement="soft")
    np.testing.assert_allclose(soft(A, A), WANT)
    assert [(r.op, r.executed) for r in soft.placement.ops if r.status == "moved"] == [("matmul", "cpu:0")]


def test_a_transfer_that_does_nothing_is_caught(planted: RemoteBackend, plant: Any) -> None:
    plant("a_transfer_that_does_nothing")
    with pytest.raises(PlacementError, match=r"cpu:0.*(ran on|given values on).* cpu:1"):
        planted.compile(sums, A, A, devices=BOUND)(A, A)

    def moved(a: Any) -> Any:
        with xb.device("dev0"):
            return xb.to_device(a @ a, "dev1")

    with pytest.raises(PlacementError, match=r"transfer .* asked for dev1 = cpu:1, ran on cpu:0"):
        planted.compile(moved, A, devices=BOUND)(A)
    soft = planted.compile(moved, A, devices=BOUND, placement="soft")
    np.testing.assert_allclose(soft(A), A @ A)
    assert [(r.op, r.executed) for r in soft.placement.ops if r.status == "moved"] == [("transfer", "cpu:0")]


def test_an_error_inside_of_a_stage_reaches_the_caller_and_leaves_the_state(planted: RemoteBackend, plant: Any) -> None:
    plant("a_failing_stage")
    w = xb.shared(A, name="w", device="dev1")

    def step(a: Any) -> Any:
        with xb.device("dev0"):
            x = a @ a
        xb.update(w, w + xb.to_device(x, "dev1"))
        return x

    run = planted.compile(step, A, devices=BOUND)
    np.testing.assert_allclose(run(A), A @ A)
    planted.call("planted_lineage:fail", True)
    with pytest.raises(WorkerError, match="planted in a stage"):
        run(A)
    np.testing.assert_allclose(planted.get_value(w), A + A @ A)
    planted.call("planted_lineage:fail", False)
    run(A)
    np.testing.assert_allclose(planted.get_value(w), A + 2 * (A @ A))


def test_a_profile_says_what_each_device_did_when(planted: RemoteBackend) -> None:
    run = planted.compile(sums, A, A, devices=BOUND)
    spans = run.profile(*run.put(A, A)).spans
    assert [(str(s.device), s.kind) for s in sorted(spans, key=lambda s: (s.kind, s.what))] == [
        ("cpu:1", "compute"), ("cpu:0", "compute"), ("cpu:0", "compute"), ("cpu:0", "transfer"),
    ]  # fmt: skip
    assert all(0 <= s.start < s.end < 60 for s in spans)
    by_name = {s.what: s for s in spans}
    first, move, last = by_name["stage 0 of sums"], by_name["cpu:1 to cpu:0"], by_name["stage 2 of sums"]
    assert first.end <= move.start and move.end <= last.start


def test_profiles_of_one_stage_and_of_state(planted: RemoteBackend) -> None:
    w = xb.shared(A, name="w", device="cpu:1")

    def step() -> Any:
        xb.update(w, w * 2.0)
        return w + 1.0

    run = planted.compile(step)
    (span,) = run.profile().spans
    assert (str(span.device), span.kind) == ("cpu:1", "compute")
    np.testing.assert_allclose(planted.get_value(w), 2 * A)
    np.testing.assert_allclose(run(), 2 * A + 1)
    np.testing.assert_allclose(planted.get_value(w), 4 * A)


def test_the_description_says_what_stages_do_at_the_same_time(planted: RemoteBackend) -> None:
    assert any(word in planted.describe().notes["stages"] for word in ("overlap", "take turns"))


def powers(a: Any, b: Any) -> Any:
    """Long enough on each device to overlap."""
    with xb.device("dev0"):
        x = xb.linalg.matrix_power(a, 40, method="chain")
    with xb.device("dev1"):
        y = xb.linalg.matrix_power(b, 40, method="chain")
    return x, y


def test_stages_do_at_the_same_time_what_the_description_says(planted: RemoteBackend) -> None:
    a = np.random.default_rng(0).random((400, 400)) / 200
    run = planted.compile(powers, a, a, devices=BOUND)
    values = run.put(a, a)
    planted.synchronize(run.execute(*values))
    overlap = "overlap" in planted.describe().notes["stages"]
    # If Python's lock is held, another thread gets it only between two stages, for five milliseconds.
    shares = [planted.call("planted_lineage:share_of_another_thread", run, values) for _ in range(3)]
    assert (max(shares) > 0.25) == overlap, shares
    if overlap:  # a busy machine may hide it, but not every time
        assert any(
            one.start < two.end and two.start < one.end for one, two in (run.profile(*values).spans for _ in range(10))
        )


def test_threads_end_with_the_backend(planted: RemoteBackend) -> None:
    names = planted.call("planted_lineage:threads_of_the_process")
    ours = [n for n in names if n.startswith("xbackend ")]
    assert ours in ([], ["xbackend cpu:0", "xbackend cpu:1"])
    assert planted.call("planted_lineage:closed") is True
