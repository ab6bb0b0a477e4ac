"""``xbackend run --shrink``: the smallest program that differs, and the script that shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import ORACLE, Case, leaves, programs

import xbackend as xb
from xbackend.bring.source.differing import Differing, in_framework, in_xbackend
from xbackend.errors import UnsupportedOperation, WorkerDied, WorkerTimeout
from xbackend.measure import matrix, shrinking
from xbackend.program.analyses import everywhere
from xbackend.program.program import Program
from xbackend.program.smaller import Example, smallest
from xbackend.program.smaller.changing import changed

pytestmark = pytest.mark.tier("standard")
RNG = np.random.default_rng(0)
MINE = """
import numpy as np
import xbackend as xb

def f(x, w):
    hidden = xb.tanh(x @ w)
    return xb.mean(hidden, axis=0), xb.log1p(xb.square(hidden)) * 2.0 + 1.0

def inputs():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 4)), rng.normal(size=(4, 3))
"""


def compute(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return leaves(ORACLE.compile(program, devices=dict.fromkeys(program.logical_devices, "cpu:0"))(*arrays))


def example(function: Callable[..., Any], *arrays: np.ndarray) -> Example:
    return Example(xb.trace(function, *arrays), arrays)


def having(op: str) -> Callable[[Example], bool]:
    """As if the results of an op were wrong; every program that is tried can be computed."""

    def shows(one: Example) -> bool:
        compute(one.program, one.arrays)
        return any(node.op == op for node in everywhere(one.program))

    return shows


def network(x: Any, w: Any, n: Any) -> Any:
    """Ops of every kind, in a loop too."""
    hidden = xb.where(x > 0, xb.pow(x, 2.0), xb.sin(x)) @ w
    running = xb.cumulative_sum(hidden, axis=0)[::2]
    flat = xb.reshape(running, (-1,))
    loss = xb.sum(xb.exp(flat - xb.max(flat)) * flat)
    last, _ = xb.scan(lambda c, e: (c + xb.log1p(xb.abs(e)),) * 2, xb.zeros(()), flat)
    chosen = xb.cond(loss > 0, xb.tanh, lambda v: v + 1.0, last)
    return loss + chosen, xb.grad(loss, w), xb.floor_divide(n, 3)


NETWORK = (RNG.normal(size=(8, 4)), RNG.normal(size=(4, 3)), RNG.integers(0, 100, 6))


@pytest.mark.parametrize(
    ("op", "shape", "count"),
    [
        *(("sin", (), 1), ("log1p", (), 1), ("tanh", (), 1), ("matmul", (1, 1), 1), ("slice", (1, 1), 1)),
        *(("grad", (1,), 2), ("floor_divide", (), 1), ("reshape", (1, 1), 1)),
    ],
)
def test_a_wrong_op_is_left_alone_with_one_number(op: str, shape: tuple[int, ...], count: int) -> None:
    tried = smallest(example(network, *NETWORK), having(op), compute)
    left = tried.example
    assert tried.finished
    assert (left.ops, [array.shape for array in left.arrays][:1]) == (count, [shape]), left.program.nodes
    assert all(array.size == 1 and array.item() == 0 for array in left.arrays)


def test_a_loop_of_one_step_is_what_is_needed_of_its_body() -> None:
    def loop(x: Any) -> Any:
        return xb.scan(lambda c, e: (c + xb.log1p(e), xb.sin(xb.cos(c * e))), xb.zeros(()), x)[0]

    tried = smallest(example(loop, np.ones(4)), having("log1p"), compute)
    assert [node.op for node in tried.example.program.nodes] == ["input", "log1p"]


def test_what_needs_a_number_keeps_it() -> None:
    one = example(lambda x: xb.exp(x * 1.0) + 0.5, np.array([0.1, 0.7312981, 0.2]))

    def shows(smaller: Example) -> bool:
        return any((result > 2.2).any() for result in compute(smaller.program, smaller.arrays))

    left = smallest(one, shows, compute).example
    assert left.ops == 1
    assert [array.tolist() for array in left.arrays] in ([1.0], [2.0], [3.0])


@pytest.mark.parametrize("made", [lambda: xb.eye(3), lambda: xb.arange(3.0)])
def test_what_has_no_rank_0_keeps_its_axes(made: Callable[[], Any]) -> None:
    left = smallest(example(lambda x: xb.sin(x) + made(), np.ones(3)), having("add"), compute).example
    assert left.ops == 1 and all(value.aval.size == 1 for value in left.program.values)
    assert compute(left.program, left.arrays)


def test_an_array_keeps_the_elements_that_an_index_names() -> None:
    one = example(lambda x, i: xb.sin(xb.take(xb.exp(x), i)), np.linspace(0.1, 0.9, 4), np.array([2, 3]))
    left = smallest(one, lambda one: having("take")(one) and bool(compute(one.program, one.arrays)), compute).example
    assert "take" in {node.op for node in left.program.nodes}
    assert compute(left.program, left.arrays)


def test_the_search_ends_with_its_time_and_counts() -> None:
    seen: list[int] = []
    tried = smallest(
        example(network, *NETWORK),
        having("sin"),
        compute,
        goes_on=lambda: len(seen) < 3,
        on_try=lambda count, found: seen.append(count),
    )
    assert (tried.count, tried.finished, seen) == (3, False, [1, 2, 3])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(("dev0",), tame=True, grads=True))
def test_a_program_written_again_computes_the_same(case: Case) -> None:
    again = changed(Example(case.program, case.arguments))
    assert again is not None
    right = compute(case.program, case.arguments)
    for one, other in zip(compute(again.program, again.arrays), right, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(again.program.updates) == len(case.program.updates)


class Planted:
    """A backend in this process that is NumPy but for wrong numbers, and what becomes of it at some tries."""

    def __init__(self, wrong: Callable[[Program], float], fails: Sequence[int] = ()) -> None:
        self.wrong, self.fails, self.tries, self.opened = wrong, fails, 0, 0

        self.worker = SimpleNamespace(limit=0.0)

    def open(self) -> Any:
        self.opened += 1
        return self

    def compile(self, program: Program, devices: Any = None) -> Callable[..., Any]:
        self.tries += 1
        if self.tries in self.fails:
            raise WorkerDied("it crashed")
        executable = ORACLE.compile(program, devices=devices)
        return lambda *arrays: [one + self.wrong(program) for one in leaves(executable(*arrays))]

    def describe(self) -> Any:
        return ORACLE.describe()

    def close(self) -> None:
        pass


def judge(planted: Planted, tolerance: float | None = None) -> shrinking.Judge:
    return shrinking.Judge(None, tolerance, planted.open)


def off(op: str, by: float) -> Callable[[Program], float]:
    return lambda program: by * any(node.op == op for node in everywhere(program))


def test_a_crash_is_an_outcome_of_its_own_and_ends_nothing() -> None:
    planted = Planted(off("sin", 1e-3), fails=(3, 5, 6))
    judged = judge(planted)
    one = example(lambda x, w: xb.sum(xb.sin(x) @ w), *NETWORK[:2])
    assert judged.differs(one)
    left = smallest(one, judged.differs, compute, worst=lambda: judged.worst)
    assert ([node.op for node in left.example.program.nodes], judged.ended) == (["input", "sin"], 3)
    assert planted.opened == 4


def test_a_try_that_hangs_is_ended_and_the_next_one_has_another_process() -> None:
    judged = shrinking.Judge(None, 0.0, lambda: matrix.opened(("numpy", ""), {}))
    one = example(lambda x: xb.sum(xb.sin(x)), NETWORK[0].astype("float32"))
    endless = example(lambda x: xb.while_loop(lambda s: s < 0.0, lambda s: s * 2.0, x), np.array(-1.0, "float32"))
    try:
        assert judged.differs(one), judged.agreed
        judged.limited(0.5)
        with pytest.raises(WorkerTimeout):
            judged.results(endless)
        judged.limited(60.0)
        assert judged.differs(one)
        assert judged.ended == 1
    finally:
        judged.close()


def test_an_allowed_difference_is_none() -> None:
    judged = judge(Planted(off("sin", 1e-15)))
    one = example(xb.sin, NETWORK[0])
    assert not judged.differs(one)
    assert "allowed" in judged.agreed or "agrees" in judged.agreed
    judged = judge(Planted(off("sin", 1e-3)), tolerance=0.1)
    assert not judged.differs(one)


def test_a_difference_of_another_kind_is_another_one() -> None:
    judged = judge(Planted(lambda program: float("nan") if len(program.nodes) < 4 else 1.0))
    one = example(lambda x: xb.sin(x) + xb.cos(x), NETWORK[0])
    assert judged.differs(one)
    smaller = example(xb.sin, NETWORK[0])
    assert not judged.differs(smaller)
    assert judged.agreed == "it differs by infinities and NaN, and not by numbers"


def test_what_agrees_the_second_time_is_not_reproducible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planted = Planted(lambda program: float(planted.tries == 1))
    monkeypatch.setattr(shrinking.matrix, "opened", lambda run, failures, count: planted.open())
    one = example(xb.sin, NETWORK[0])
    made = shrinking.shrink(("numpy", ""), one.program, one.arrays, tmp_path)
    assert made.reason == "not reproducible: computed again, its result agrees (NumPy in float64)"
    assert not list(tmp_path.iterdir())


def differing(one: Example, backend: str, off: float = 1.0) -> Differing:
    right = compute(one.program, one.arrays)
    came = [array + off for array in right]
    return Differing(one.program, one.arrays, right, came, [1e-9] * len(right), {"numpy": "2"}, backend)


def ran(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script.name], cwd=script.parent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("size", [3, 100])
def test_a_script_of_either_kind_says_whether_the_numbers_differ(tmp_path: Path, size: int) -> None:
    x = np.linspace(-1.0, 1.0, size)
    x[0] = np.inf
    one = example(lambda compiled: (xb.exp(compiled), xb.sum(compiled)), x)  # a name that one of the scripts has, too
    found = differing(one, "numpy")
    alone = in_framework(found, "numpy", ("", ""), "").write(tmp_path / "alone.py")[0]
    whole = in_xbackend(found, {}, 1).write(tmp_path / "whole.py")[0]
    wrong = Differing(**{**vars(found), "expected": [array + 1.0 for array in found.expected]})
    other = in_framework(wrong, "numpy", ("", ""), "").write(tmp_path / "wrong.py")[0]
    for script, code in ((alone, 0), (whole, 0), (other, 1)):
        done = ran(script)
        assert done.returncode == code, done.stderr
        assert "expected (NumPy):" in done.stdout
        assert "came (numpy):" in done.stdout
        assert ("Not equal to tolerance" in done.stderr) is bool(code)
    assert "came (numpy)" in alone.read_text()
    assert "xbackend" not in alone.read_text().partition('"""\n\n')[2]


@pytest.mark.parametrize("of_dictionary", [False, True])
def test_a_script_takes_any_names_and_any_structure(tmp_path: Path, of_dictionary: bool) -> None:
    def platform(version: Any, came: Any) -> Any:
        return {"b": version, "a": [came]} if of_dictionary else [version + came]

    found = differing(example(platform, np.ones(2), np.zeros(2)), "numpy")
    for name, source in (
        ("alone", in_framework(found, "numpy", ("", ""), "")),
        ("whole", in_xbackend(found, {}, 1)),
    ):
        done = ran(source.write(tmp_path / f"{name}.py")[0])
        assert done.returncode == 0, done.stderr


def test_a_script_is_refused_for_state() -> None:
    s = xb.shared(np.ones(3), name="s")
    with pytest.raises(UnsupportedOperation, match="shared variables"):
        in_framework(differing(example(lambda x: x + s, np.ones(3)), "jax"), "jax", ("", ""), "")


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xbackend", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_command_says_that_nothing_differs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    done = command(tmp_path, "run", "mine.py:f", "--backends", "numpy", "--shrink")
    assert "nothing is made smaller: no result differs by more than is allowed" in done.stdout
    assert not (tmp_path / "shrunk").exists()


def test_the_command_writes_a_script_for_a_planted_wrong_number(tmp_path: Path) -> None:
    """An oracle of NumPy in float64 is wrong of float32 with no tolerance: a real process, and a real script."""
    (tmp_path / "mine.py").write_text(
        MINE.replace("return rng.normal(size=(6, 4)), ", 'return rng.normal(size=(6, 4)).astype("float32"), ').replace(
            "rng.normal(size=(4, 3))\n", 'rng.normal(size=(4, 3)).astype("float32")\n'
        )
    )
    words = ("run", "mine.py:f", "--backends", "numpy", "--tolerance", "1e-12", "--shrink", "--shrink-to", "out")
    done = command(tmp_path, *words, "--json")
    made = json.loads(done.stdout)
    (one,) = made["shrunk"]
    assert made["files"] == [one["path"]]
    assert (one["ops"], one["language"], one["finished"]) == (1, "numpy", True), done.stderr
    script = tmp_path / one["path"]
    assert "Not equal to tolerance" in ran(script).stderr
