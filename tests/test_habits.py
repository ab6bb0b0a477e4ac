"""Habits from NumPy, Theano and TensorFlow: they work, or the error says what to write."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend import environments
from xbackend.errors import (
    ArgumentError,
    BackendUnavailable,
    DTypeError,
    TraceError,
    UnknownBackend,
    UsageError,
    WorkloadError,
)
from xbackend.habits import INSTEAD, RENAMED, instead
from xbackend.program.operators import FUNCTIONS

X = np.array([1.0, -2.0, 3.0])
W = xb.shared(X, name="w")


@dataclass
class Pair:
    first: Any
    second: Any


def assigned(x: Any) -> Any:
    x[0] = 1.0
    return x


def endless(x: Any) -> Any:
    return endless(x)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x.sum(), "has no .sum: write xb.sum(...)"),
        (lambda x: x.reshape((3, 1)), "has no .reshape: write xb.reshape(...)"),
        (lambda x: x.mean(axis=0), "write xb.mean(...)"),
        (lambda x: x.astype("float32"), "write xb.astype(...)"),
        (lambda x: x.dot(x), "write x @ y, or xb.matmul(x, y)"),
        (lambda x: x.flatten(), "write xb.reshape(x, (-1,))"),
        (lambda x: x.copy(), "write x itself: arrays of a program never change"),
        (lambda x: x.item(), "write return x, and look at what the call returns"),
        (lambda x: x.numpy(), "return x, and look at"),
        (lambda x: x.eval(), "return x, and look at"),
        (lambda x: x.dimshuffle(0, "x"), "xb.permute_dims(x, axes) and xb.expand_dims"),
        (lambda x: x.transfer("dev1"), 'write xb.to_device(x, "dev1")'),
        (lambda x: x.frobnicate(), "has no .frobnicate: use the functions of xbackend, dir(xb) lists them"),
        (lambda x: W.get_value(), "write backend.get_value(w)"),
        (lambda x: [W.set_value(y) for y in (x,)], "write xb.update(w, value); outside of a program backend.set_value"),
        (lambda x: [W.assign(y) for y in (x,)], "write xb.update(w, value)"),
        (lambda x: [W.assign_add(y) for y in (x,)], "write xb.update(w, w + value)"),
        (lambda x: np.where(x > 0, x, 0.0), "np.where needs the elements of an array, which a traced one has not"),
        (lambda x: np.where(x > 0, x, 0.0), "write xb.where(...)"),
        (lambda x: np.sum(x, axis=0), "which a traced one has not: write xb.sum(...)"),
        (lambda x: np.concatenate([x, x]), "write xb.concat([x, y])"),
        (lambda x: np.mean(W), "write xb.mean(...)"),
        (assigned, "x = xb.at(x)[...].set(value) or .add(value)"),
        (endless, "calls itself without end: a traced value has no elements to stop at"),
        (lambda x: (x for _ in range(2)), "returns generator in place of an array; return arrays, or tuples"),
        (lambda x: {x}, "returns set in place of an array; return arrays, or tuples"),
        (lambda x: x if W else -x, "the elements of <shared w: float64[3]>: write xb.where for a choice by value"),
        (lambda x: x.gradient(), "has no .gradient: write xb.grad(loss, wrt)"),
        (np.gradient, "write xb.grad(loss, wrt), inside of the function; NumPy's differences are xb.diff(x)"),
        (np.linalg.norm, "write xb.linalg.vector_norm(x)"),
        (lambda x: Pair(x, x), "returns Pair in place of an array; return arrays, or tuples, lists and dictionaries"),
    ],
)  # fmt: skip
def test_a_habit_is_answered_with_what_to_write(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(TraceError) as found:
        xb.trace(function, X)
    assert said in str(found.value) and f"{Path(__file__).name}:" in str(found.value)


@pytest.mark.parametrize("given", [Pair(X, X), {"x": X}, (x for x in X)])
def test_what_holds_arrays_is_no_argument(given: Any) -> None:
    with pytest.raises(
        DTypeError, match=f"give what is inside of this {type(given).__name__} as arguments of their own"
    ):
        xb.trace(lambda x: x, given)


def test_what_is_known_while_tracing_may_be_asked_for() -> None:
    def function(x: Any) -> Any:
        assert (np.shape(x), np.ndim(x), np.size(x)) == ((3,), 1, 3)
        assert not hasattr(x, "sum") and not hasattr(x, "__array_interface__")
        return np.exp(x)

    assert xb.trace(function, X).outputs


def test_a_shared_variable_is_moved_as_an_array_is() -> None:
    program = xb.trace(lambda: W.to_device("cpu:1") * 2.0)
    assert [node.device for node in program.nodes if node.op == "transfer"] == ["cpu:1"]


def test_theanos_keywords_of_shared_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"xb.shared takes no target: write device=\.\.\."):
        xb.shared(X, target="dev1")
    with pytest.raises(ArgumentError, match=rf"takes no nme: did you mean name=\? \(at {re.escape(__file__)}:\d+\)"):
        xb.trace(lambda x: x + xb.shared(X, nme="x"), X)
    with pytest.raises(ArgumentError, match=r"takes no borrow: it takes value, name, device"):
        xb.shared(X, borrow=True)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: xb.open("numpy", device_count=2), r"xb.open takes no device_count: write virtual_devices=\.\.\."),
        (lambda: xb.open("numpy", thread=2), r"xb.open takes no thread: did you mean threads=\?"),
        (lambda: xb.workload(sweeps={"n": 1}), r"xb.workload takes no sweeps: did you mean sweep=\?"),
        (lambda: xb.model(optimiser=None), r"xb.model takes no optimiser: did you mean optimizer=\?"),
        (lambda: xb.open("nupmy"), r"pytensor-mlx; did you mean 'numpy'\?"),
        (lambda: xb.open(5), r"there is no backend 5; there is numpy, .*"),
        (lambda: xb.load_results(5), r"takes a folder, a file or the name of a run, not 5"),
        (lambda: xb.workloads.get("matpoww"), r"of your own; did you mean 'matpow'\?"),
        (lambda: xb.power, r"no attribute 'power': write xb.pow\(\.\.\.\)"),
        (lambda: xb.softmaxx, "no attribute 'softmaxx': for softmax write xb.exp"),
        (lambda: xb.argsrot, r"did you mean xb.argsort\?"),
        (lambda: xb.reduce_sum, r"write xb.sum\(\.\.\.\)"),
        (lambda: xb.random, "write rng.normal"),
        (lambda: xb.function, "write backend.compile"),
        (lambda: xb.transfer, "write xb.to_device"),
        (lambda: xb.inv, "write xb.linalg.inv"),
        (lambda: xb.Adam, "write xb.training.Adam"),
        (lambda: xb.training.Trainig, r"module 'xbackend.training' .*: did you mean xb.training.Training\?"),
        (lambda: xb.strategies.Mirored, r"did you mean xb.strategies.Mirrored\?"),
        (lambda: xb.errors.ShapError, r"did you mean xb.errors.ShapeError\?"),
        (lambda: xb.workloads.matpoww, r"did you mean 'matpow'\?"),
        (lambda: xb.trace(lambda x: xb.sum(x, dim=0), X), r"xb.sum takes no dim: write axis=... \(at .*habits.py:\d+"),
        (lambda: xb.trace(lambda x: xb.max(x, keepdim=True), X), r"xb.max takes no keepdim: write keepdims=\.\.\."),
        (lambda: xb.trace(lambda x: xb.linalg.inv(x, full=1), X), r"xb.linalg.inv takes no full: it takes none"),
        (lambda: xb.trace(lambda x: xb.squeeze(-x), X), r"xb.squeeze\(x, /, axis\) missing .*'axis' \(at .*habits.py:"),
        (lambda: xb.trace(lambda x: xb.sum(x, 0), X), r"xb.sum\(x, /, \*, axis=None, .*\) takes 1 .* 2 were given"),
        (lambda: xb.trace(lambda x: xb.cond(-x), X), r"xb.cond\(p, f, g, \*x\) missing .* 'f' and 'g' \(at "),
        (lambda: xb.trace(lambda x: xb.linalg.matrix_power(-x), X), r"xb.linalg.matrix_power\(x, n, /, .*'n' \(at "),
        (lambda: xb.linalg.dett, r"module 'xbackend.linalg' has no attribute 'dett': did you mean xb.linalg.det\?"),
        (lambda: xb.linalg.frobnicate, r"dir\(xb.linalg\) lists what there is"),
        (lambda: xb.trace(np.median, X), r"np.median needs .*: write xb.sort\(x\)\[k\]"),
        (lambda: xb.trace(np.cbrt, X), r"np.cbrt needs .*: write xb.sign\(x\)"),
        (lambda: xb.frobnicate, r"dir\(xb\) lists what there is"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_answered_with_what_is_meant(call: Callable[[], Any], said: str) -> None:
    errors = (ArgumentError, AttributeError, TraceError, UnknownBackend, UsageError, WorkloadError)
    with pytest.raises(errors, match=said):
        call()


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("jax", lambda: xb.from_jax(lambda x: x, X)),
        ("tensorflow", lambda: xb.from_tensorflow(lambda x: x, X)),
        ("tensorflow", lambda: xb.from_graph_def(b"", "loss")),
        ("pymc", lambda: xb.from_pymc(None)),
    ],
)
def test_a_framework_that_is_not_here_is_named(
    package: str, call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    said = rf"takes {package}, not installed in .*: call it where .* xbackend run FILE.py:NAME --from {package}"
    with pytest.raises(UsageError, match=said):
        call()


def mean(x: Any, y: Any) -> Any:
    return x


def test_a_function_of_the_users_with_the_same_name_is_not_taken_for_ours() -> None:
    with pytest.raises(TypeError, match=r"^mean\(\) missing 1 required positional argument: 'y'$") as found:
        xb.trace(lambda x: mean(-x), X)  # type: ignore[call-arg]
    assert not isinstance(found.value, ArgumentError)


def test_what_is_to_be_written_exists() -> None:
    """All names in the answers exist, whichever names there are where it is asked."""
    with xb.open("numpy") as backend:
        homes = [xb.__all__, FUNCTIONS, dir(backend.namespace)]
    for name, home in product([*RENAMED, *INSTEAD], homes):
        said = instead(name, home)
        for dotted in re.findall(r"\bxb\.([\w.]*\w)", said):
            found = xb
            for part in dotted.split("."):
                found = getattr(found, part)
        assert said.startswith("write ")


A, B = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 2.0]])
ARRAYS = {
    "x": np.array([1.5, -2.0, 0.5]),
    "y": np.array([4.0, 1.0, -3.0]),
    "w": np.array([1.0, 2.0, 5.0]),
    "a": A,
    "b": B,
}
NUMPYS: dict[str, Callable[..., Any]] = {
    "append": lambda x, y, **_: np.append(x, y),
    "pad": lambda x, **_: np.pad(x, (1, 2)),
    "vstack": lambda a, b, **_: np.vstack([a, b]),
    "column_stack": lambda x, y, **_: np.column_stack([x, y]),
    "kron": lambda a, b, **_: np.kron(a, b),
    "logdet": lambda a, **_: np.log(np.linalg.det(a)),
    "cbrt": lambda x, **_: np.cbrt(x),
    "exp2": lambda x, **_: np.exp2(x),
    "heaviside": lambda x, **_: np.heaviside(x, 0.0),
    "average": lambda x, w, **_: np.average(x, weights=w),
    "ptp": lambda x, **_: np.ptp(x),
    "divmod": lambda x, y, **_: np.divmod(x, y),
    "trapezoid": lambda x, y, **_: np.trapezoid(y, x),
    "polyval": lambda c, x, **_: np.polyval(c, x),
    "radians": lambda x, **_: np.radians(x),
    "degrees": lambda x, **_: np.degrees(x),
    "nansum": lambda x, **_: np.nansum(x),
    "nanmean": lambda x, **_: np.nanmean(x),
    "nan_to_num": lambda x, **_: np.nan_to_num(x),
    "array_equal": lambda x, y, **_: np.array_equal(x, y),
    "isclose": lambda x, y, atol, rtol, **_: np.isclose(x, y, rtol, atol),
    "allclose": lambda x, y, atol, rtol, **_: np.allclose(x, y, rtol, atol),
    "median": lambda x, **_: np.median(x),
    "top_k": lambda x, k, **_: np.sort(x)[::-1][:k],
    "bincount": lambda i, n, **_: np.bincount(i, minlength=n),
    "segment_sum": lambda i, n, **_: np.bincount(i, i * 1.5, minlength=n),
    "cov": lambda a, **_: np.cov(a, rowvar=False),
    "diag": lambda a, **_: np.diag(a),
    "leaky_relu": lambda x, **_: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x, **_: np.where(x > 0, x, np.expm1(x)),
    "silu": lambda x, **_: x / (1 + np.exp(-x)),
    "gelu": lambda x, **_: x * [0.5 * (1 + math.erf(one / math.sqrt(2))) for one in x],
    "log_sigmoid": lambda x, **_: np.log(1 / (1 + np.exp(-x))),
}


@pytest.mark.parametrize("name", NUMPYS)
def test_what_is_to_be_written_has_numpys_values(name: str) -> None:
    text = re.split(r", by |, with |[;,] of ", instead(name, xb.__all__).removeprefix("write "))[0]
    constants = {
        "k": 1,
        "n": 3,
        "shape": (2, 4),
        "c": (2.0, -1.0, 0.5),
        "atol": 0.1,
        "rtol": 2.0,
        "math": math,
        "xb": xb,
    }
    given = ARRAYS | {"i": np.array([0, 2, 0, 1])}
    if name == "segment_sum":
        given["x"] = given["i"] * 1.5
    if name == "cov":
        given["c"], constants["n"] = A - A.mean(axis=0), 2
    if name.startswith("nan"):
        given["x"] = np.array([1.5, np.nan, -2.0])
    with xb.open("numpy") as backend:
        found = backend.compile(
            lambda *arrays: eval(text, constants | dict(zip(given, arrays, strict=True))), *given.values()
        )
        np.testing.assert_allclose(found(*given.values()), NUMPYS[name](**constants | given))


def test_a_name_whose_counterpart_is_not_there_has_the_default_answer() -> None:
    assert instead("power", ["exp"], "look around") == instead("powwer", ["exp"], "look around") == "look around"


def test_a_namespace_lacks_what_belongs_to_tracing() -> None:
    with xb.open("numpy") as backend:
        xp = backend.namespace
        assert not hasattr(xp, "Variable")
        with pytest.raises(AttributeError, match=r"no 'gradient': write xb.grad\(loss, wrt\)"):
            xp.gradient


def test_a_name_that_is_meant_costs_nothing_where_none_is_missing() -> None:
    code = "import sys, xbackend; from xbackend import cores, environments; print('difflib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_byte_order_of_a_file_does_not_matter() -> None:
    foreign = X.astype(">f8")
    with xb.open("numpy") as backend:
        run = backend.compile(lambda x: x + foreign, foreign)
        assert run(foreign).tolist() == run(X).tolist() == (2 * X).tolist()
        weights = xb.shared(foreign)
        backend.set_value(weights, foreign)
        assert backend.get_value(weights).dtype == np.float64


@pytest.mark.parametrize("visible", ["cpu:1", "CPU:1", xb.Device("cpu", 1), ["cpu:1"], (xb.Device("cpu", 1),)])
def test_one_visible_device_needs_no_list(visible: Any) -> None:
    with xb.open("numpy", virtual_devices=2, visible=visible) as backend:
        assert list(map(str, backend.devices)) == ["cpu:1"]


@pytest.mark.parametrize("visible", [[], 0])
def test_no_visible_device_is_refused(visible: Any) -> None:
    with pytest.raises(ArgumentError, match="names no device: give 'cpu:0', or a list"):
        xb.open("numpy", visible=visible)


def test_several_visible_devices_are_separated_by_commas() -> None:
    with xb.open("numpy", virtual_devices=3, visible="cpu:0, cpu:2") as backend:
        assert list(map(str, backend.devices)) == ["cpu:0", "cpu:2"]


def test_open_works_in_an_environment_of_ours_and_says_what_does_not() -> None:
    python = environments.sync("numpy").python
    code = f"""
import sys
sys.path.insert(0, {str(Path(xb.__file__).parent.parent)!r})
import numpy as np, xbackend as xb
with xb.open("numpy") as backend:
    print(backend.compile(lambda x: x + x, np.ones(2))(np.ones(2)))
for options in ({{"name": "pytensor"}}, {{"name": "numpy", "isolated": True}}):
    try:
        xb.open(**options)
    except xb.errors.{BackendUnavailable.__name__} as error:
        print(error)
"""
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "[2. 2.]"
    assert "backend 'pytensor' cannot be opened here: pytensor, numba cannot be imported" in second
    assert "a worker was asked for" in third and "run this with the Python that xbackend was installed in" in third
