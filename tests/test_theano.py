"""Theano's own matters: packages of the system, and placements read from its optimised graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.backends import registry, system
from xbackend.backends.contract import Settings
from xbackend.backends.system import SystemPackage
from xbackend.errors import BackendUnavailable, PlacementError
from xbackend.workers import diagnosis
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")

CONTEXTS = "theano-gpuarray"


def test_a_package_is_known_by_a_command_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "libnew.so").write_text("")
    packages = (
        SystemPackage("python3-minimal", "python3"),
        SystemPackage("no-such-command", "xbackend-has-no-such-command"),
        SystemPackage("libnew-dev", f"{tmp_path}/lib*.so"),
        SystemPackage("libold-dev", f"{tmp_path}/old/lib*.so"),
    )
    assert system.missing(packages) == ("no-such-command", "libold-dev")
    said = "xbackend doctor --install (apt-get install no-such-command libold-dev)"
    assert system.remedy(system.missing(packages)) == said


def test_headers_are_those_of_the_python_that_needs_them(tmp_path: Path) -> None:
    assert system.missing([system.HEADERS], "3.12", str(tmp_path)) == ("python3.12-dev",)
    (tmp_path / "Python.h").write_text("")
    assert system.missing([system.HEADERS], "3.12", str(tmp_path)) == ()
    wanted = {entry.name for entry in registry.entries() if system.HEADERS in entry.system}
    assert wanted < {entry.name for entry in registry.entries() if system.COMPILER in entry.system}


def test_doctor_says_which_packages_of_the_system_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BackendUnavailable("no device of OpenCL")

    entry = registry.get(CONTEXTS)
    monkeypatch.setitem(registry.REGISTRY, CONTEXTS, replace(entry, system=ABSENT))
    monkeypatch.setattr(diagnosis, "open_backend", refuse)
    state, why, remedy = diagnosis.diagnose(CONTEXTS)
    assert state == "missing"
    assert "python3-nothing" in why and remedy == "xbackend doctor --install"


ABSENT = (SystemPackage("python3-nothing", "/nowhere/at/all"),)


CONTEXTS_NEEDED = pytest.mark.needs(CONTEXTS)


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    with xb.open(CONTEXTS, virtual_devices=2, isolated=True) as backend:
        yield backend


def sum_of_powers(a: Any, b: Any) -> Any:
    with xb.device("dev0"):
        an = xb.linalg.matrix_power(a, 3)
    with xb.device("dev1"):
        bn = xb.linalg.matrix_power(b, 3)
    with xb.device("cpu:0"):
        return an + bn


@CONTEXTS_NEEDED
def test_products_stay_on_their_contexts_though_one_is_fused_with_the_sum(two: Any) -> None:
    a, b = xb.workloads.matpow.inputs(size=8, seed=0)
    run = two.compile(sum_of_powers, a, b, devices="dev0=cpu:0,dev1=cpu:1")
    np.testing.assert_allclose(run(a, b), np.linalg.matrix_power(a, 3) + np.linalg.matrix_power(b, 3), rtol=1e-5)
    products = [(r.bound, r.executed) for r in run.placement.ops if r.op == "matmul"]
    assert products == [("cpu:0", "cpu:0")] * 2 + [("cpu:1", "cpu:1")] * 2
    fused = [r for r in run.placement.ops if r.status == "fused"]
    assert [(r.op, r.executed) for r in fused] == [("matmul", "cpu:0")] and "GpuGemm" in fused[0].framework_op
    (moved,) = run.placement.transfers
    assert (moved.source, moved.target, moved.bytes, moved.cause) == ("cpu:1", "cpu:0", a.nbytes, "crossing")
    assert moved.framework_op == "GpuToGpu<cpu:0>"


@CONTEXTS_NEEDED
def test_an_op_that_theano_runs_on_the_host_is_shown_as_moved(two: Any) -> None:
    x = np.arange(300 * 300).reshape(300, 300)  # a product of integers too large for the workaround

    def function(x: Any) -> Any:
        return x @ x

    with pytest.raises(PlacementError, match=r"ran on /job:host/cpu:0; compile with placement='soft'"):
        two.compile(function, x)(x)
    run = two.compile(function, x, placement="soft")
    np.testing.assert_array_equal(run(x), x @ x)
    assert ("cpu:0", "/job:host/cpu:0") in {(t.source, t.target) for t in run.placement.transfers}


@CONTEXTS_NEEDED
def test_state_is_theanos_shared_variable_on_its_context(two: Any) -> None:
    w = xb.shared(np.array([1.0, 2.0]), name="w", device="dev1")

    def step(x: Any) -> Any:
        loss = xb.sum(x * w)
        xb.update(w, w - 0.5 * xb.grad(loss, w))
        return loss

    x = np.array([2.0, 4.0])
    run = two.compile(step, x, devices="dev1=cpu:1")
    assert float(run(x)) == 10.0
    assert two.get_value(w).tolist() == [0.0, 0.0]
    two.set_value(w, np.array([1.0, 1.0]))
    assert float(run(x)) == 6.0


PLANTED = {"planted_contexts": str(Path(__file__).parent / "planted_contexts.py")}


@CONTEXTS_NEEDED
def test_products_do_not_depend_on_what_was_in_memory() -> None:
    """CLBlast multiplies old memory by 0 in its product of a matrix and a vector."""

    generator = np.random.default_rng(0)
    row, column, matrix = (generator.random(shape) for shape in ((1, 4), (5, 1), (4, 5)))
    with RemoteBackend(CONTEXTS, Settings(1), modules=PLANTED) as backend:
        runs = [(backend.compile(lambda x, y: x @ y, *pair), pair) for pair in ((row, matrix), (matrix, column))]
        for _ in range(12):
            for run, pair in runs:
                assert backend.call("planted_contexts:memory_of_nan") > 100
                assert np.isfinite(run(*pair)).all()


@CONTEXTS_NEEDED
def test_a_wrong_placement_is_caught() -> None:
    def products(a: Any, b: Any) -> Any:
        with xb.device("dev0"):
            first = a @ b
        with xb.device("dev1"):
            second = a @ b
        with xb.device("dev0"):
            return first - 2.0 * second

    a = np.arange(9.0).reshape(3, 3)
    with RemoteBackend(CONTEXTS, Settings(2), modules=PLANTED) as backend:
        backend.call("planted_contexts:one_context_for_all_that_moves")
        run = backend.compile(products, a, a, devices="dev0=cpu:0,dev1=cpu:1")
        with pytest.raises(PlacementError, match=r"matmul .* asked for dev1 = cpu:1, ran on "):
            run(a, a)
