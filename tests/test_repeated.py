"""Functions that draw, count or keep values while being traced: a second trace shows the difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.api.tracing.repeated import check_repeated, noticing_kept
from xbackend.cli import DONE, WRONG, main
from xbackend.cluster import running
from xbackend.cluster.job import Job
from xbackend.cluster.jobspec import JobSpec
from xbackend.engines.spec import local
from xbackend.errors import TraceError
from xbackend.measure.candidates import given
from xbackend.workloads.workload import Workload

X, SEEN = np.ones(3), list[Any]()
ONCE = iter([1.0])


def noisy(x: Any) -> Any:
    return x + np.random.default_rng().normal()


def counting(x: Any) -> Any:
    SEEN.append(1)
    return x + float(len(SEEN))


def growing(x: Any) -> Any:
    SEEN.append(1)
    for _ in SEEN:
        x = x + 1.0
    return x


def in_a_loop(x: Any) -> Any:
    return xb.while_loop(lambda s: xb.sum(s) < 9.0, lambda s: s + np.random.default_rng().random(), x)


def drawn(x: Any) -> Any:
    return x + xb.shared(np.random.default_rng().normal(size=3))


def consuming(x: Any) -> Any:
    return x * next(ONCE)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (noisy, r"noisy is another program when it is traced again: constant has value \S+, then \S+ \(at .*d.py:"),
        (counting, r"constant has value \d+.0, then \d+.0 \(at .*test_repeated.py:\d+\); it is traced once"),
        (growing, r"it has \d+ ops, then \d+, the first more a \w+ \(at .*test_repeated.py:"),
        (in_a_loop, r"constant has value \S+, then \S+ \(at .*test_repeated.py:"),
        (drawn, r"begins with \[.*, then with \["),
        (consuming, r"fails when it is traced again, with StopIteration: +\(at .*test_repeated.py:"),
    ],
)  # fmt: skip
def test_a_function_that_is_another_program_each_time_is_refused(function: Callable[..., Any], said: str) -> None:
    program = xb.trace(function, X)
    with pytest.raises(TraceError, match=said):
        check_repeated(program, function, X)


def test_what_is_measured_is_traced_again() -> None:
    with pytest.raises(TraceError, match="noisy is another program"):
        given(Workload(noisy, name="noisy"), [X], {})


def test_what_tasks_of_a_cluster_compute_is_traced_again() -> None:
    asked = JobSpec(Job(lambda task: noisy(xb.shared(X, "w"))), "numpy", partial(local, 1, 0), 1)
    with pytest.raises(TraceError, match="lambda> is another program when it is traced again"):
        running.run(asked)


def test_what_is_trained_is_traced_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any training."""
    lines = [
        "import numpy as np, xbackend as xb",
        "kept = []",
        "@xb.model",
        "def model(weights, x):",
        "    kept.append(x)",
    ]
    lines += ["    return xb.sum(x * weights['w']) + NOISE", "@model.weights", "def _(rng): return {'w': np.ones(2)}"]
    lines += ["@model.data", "def _(rng): return (np.ones((4, 2)),)"]
    words = ["--backends", "numpy", "--epochs", "1", "--reports", str(tmp_path)]
    for noise, code, said in (
        ("np.random.default_rng().normal()", WRONG, "model is another program when it is traced again: constant has"),
        ("0.0", DONE, "traced arrays are kept beyond their function"),
    ):
        file = tmp_path / f"file_{code}.py"
        file.write_text("\n".join(lines).replace("NOISE", noise))
        assert main(["train", f"{file}:model", *words]) == code
        assert said in capsys.readouterr().err


def test_the_same_program_passes_with_variables_of_its_own() -> None:
    def function(x: Any) -> Any:
        weights = xb.shared(np.ones(3))
        xb.update(weights, weights + x)
        return weights * np.float64("nan")

    check_repeated(xb.trace(function, X), function, X)


def test_arrays_that_are_kept_are_said() -> None:
    kept, said = list[Any](), list[str]()

    def keeping(x: Any) -> Any:
        kept.extend([x, x * 2.0])
        return x

    with noticing_kept(said.append):
        xb.trace(keeping, X)
    assert len(said) == 1 and "the argument x and " in said[0] and "test_repeated.py:" in said[0]
    with noticing_kept(said.append):
        xb.trace(lambda x: x + 1.0, X)
    assert len(said) == 1
