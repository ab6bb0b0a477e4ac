"""Scripts of `to_source`: they run without xbackend, give the oracle's results, and are formatted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_programs import Case as RandomCase
from random_programs import programs
from source_cases import of_examples, of_workloads, traced
from source_scripts import Case, case, ran, write

import xbackend as xb
from xbackend import workloads
from xbackend.bring.source import FRAMEWORKS, to_source
from xbackend.errors import UnsupportedOperation, UsageError
from xbackend.program import analyses

EACH = [pytest.param(name, marks=pytest.mark.needs(name)) for name in FRAMEWORKS]
RANDOM = 8
# Ops whose results come from iterations, or without a gradient in some framework.
WITHOUT = frozenset({"eigh", "eigvalsh", "svd", "svdvals", "qr", "slogdet", "all_reduce", "digamma"})


pytestmark = pytest.mark.tier("standard")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with xb.open("numpy", virtual_devices=4) as backend:
        yield backend


def drawn(grads: bool, number: int = 7, count: int = RANDOM, without: frozenset[str] = WITHOUT) -> list[RandomCase]:
    """Random programs whose results depend on arithmetic only."""
    found: list[RandomCase] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(tame=True, grads=grads, least=3, largest=9, without=without))
    def collect(one: RandomCase) -> None:
        found.append(one)

    collect()
    return found


def of_chance(oracle: Any, grads: bool) -> dict[str, Case]:
    return {f"random{i}": case(oracle, one.program, one.arguments) for i, one in enumerate(drawn(grads))}


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("framework", EACH)
def test_workloads_as_scripts_compute_the_same(framework: str, oracle: Any, tmp_path: Path) -> None:
    cases = of_workloads(oracle, gradient=framework != "numpy")
    if framework == "numpy":
        cases = {name: one for name, one in cases.items() if not any(n.op == "grad" for n in one.program.nodes)}
    wrong = ran(cases, framework, tmp_path)
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())


@pytest.mark.tier("exhaustive", "tensorflow")
@pytest.mark.parametrize("framework", EACH)
def test_random_programs_as_scripts_compute_the_same(framework: str, oracle: Any, tmp_path: Path) -> None:
    cases = of_chance(oracle, grads=framework != "numpy")
    if framework == "pytensor":  # its second gradient through a loop fails where its own code computes the loop
        orders = {name: max(analyses.orders_through_loops(one.program)) for name, one in cases.items()}
        cases = {name: one for name, one in cases.items() if orders[name] < 2}
        assert cases
    wrong = ran(cases, framework, tmp_path)
    texts = {name: (tmp_path / name / "script.py").read_text() for name in wrong}
    assert not wrong, "\n".join(f"{name}: {said}\n{texts[name]}" for name, said in list(wrong.items())[:3])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_scripts_are_formatted(framework: str, tmp_path: Path) -> None:
    for name in workloads.names():
        program, _ = traced(name, framework != "numpy")
        if framework != "numpy" or not any(n.op == "grad" for n in program.nodes):
            to_source(program, framework).write(tmp_path / f"{name}.py")
    for number, one in enumerate(drawn(framework != "numpy")):
        to_source(one.program, framework).write(tmp_path / f"random{number}.py")
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:4000]


def stateful() -> tuple[Any, list[np.ndarray]]:
    w = xb.shared(np.linspace(0.1, 0.8, 6).reshape(3, 2), name="w", device="dev0")

    def train(x: Any, target: Any) -> Any:
        with xb.device("dev1"):
            residual = x @ w - target
            loss = xb.mean(xb.square(residual))
        xb.update(w, w - 0.1 * xb.grad(loss, w))
        return {"loss": loss}

    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(5, 3)), rng.normal(size=(5, 2))]
    return xb.trace(train, *arrays), arrays


@pytest.mark.parametrize("framework", [p for p in EACH if p.values != ("numpy",)])
def test_state_and_devices_are_the_frameworks_own(framework: str, oracle: Any, tmp_path: Path) -> None:
    program, arrays = stateful()
    one = case(oracle, program, arrays, {"dev0": "cpu:0", "dev1": "cpu:1"})
    wrong = ran({"train": one}, framework, tmp_path)
    assert not wrong, wrong
    words = {"jax": "device_put", "tensorflow": "with tf.device(DEV1)", "pytensor": "updates=updates"}
    assert words[framework] in (tmp_path / "train" / "script.py").read_text()


@pytest.mark.parametrize("framework", [p for p in EACH if p.values != ("numpy",)])
def test_examples_as_scripts_compute_the_same(
    framework: str, oracle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    wrong = ran(of_examples(oracle), framework, tmp_path)
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())


@pytest.mark.parametrize("framework", EACH)
def test_while_loops_end_where_they_do(framework: str, oracle: Any, tmp_path: Path) -> None:
    def halved(x: Any, n: Any) -> Any:
        return xb.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 0.5, s[1] + 1), (x, xb.asarray(0)))

    arrays = {f"steps{n}": (np.arange(3.0), np.asarray(n)) for n in (0, 3)}
    cases = {name: case(oracle, xb.trace(halved, *given), given) for name, given in arrays.items()}
    assert not ran(cases, framework, tmp_path)


@pytest.mark.parametrize("framework", [p for p in EACH if p.values != ("numpy",)])
def test_a_loop_may_read_a_target_and_make_nothing_of_it(framework: str, oracle: Any, tmp_path: Path) -> None:
    def unread(x: Any, w: Any) -> Any:
        last, each = xb.scan(lambda c, r: (c * w, c * r), w, x)
        return xb.grad(last, [x, w]), xb.grad(xb.sum(each), x)

    def branches(x: Any, w: Any) -> Any:
        return xb.grad(xb.cond(w > 0.0, lambda: w * 2.0 + xb.floor(x[0]), lambda: w), [x, w])

    given = (np.arange(3.0), np.asarray(0.5))
    cases = {one.__name__: case(oracle, xb.trace(one, *given), given) for one in (unread, branches)}
    wrong = ran(cases, framework, tmp_path)
    assert not wrong, wrong


@pytest.mark.parametrize("framework", EACH)
def test_running_sums_keep_their_dtype(framework: str, oracle: Any, tmp_path: Path) -> None:
    cases = {}
    for dtype in ("uint8", "int32", "int64"):
        x = np.arange(1, 7, dtype=dtype).reshape(2, 3)
        both = (lambda x, of=of: of(x, axis=1, dtype=x.dtype) for of in (xb.cumulative_sum, xb.cumulative_prod))
        cases |= {f"{dtype}{i}": case(oracle, xb.trace(one, x), [x]) for i, one in enumerate(both)}
    wrong = ran(cases, framework, tmp_path)
    assert not wrong, wrong


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_loop_may_begin_with_a_constant(framework: str) -> None:
    def switched(x: Any) -> Any:
        begin = (xb.asarray(True), xb.asarray(0), x)
        return xb.while_loop(lambda s: s[1] < 3, lambda s: (xb.logical_not(s[0]), s[1] + 1, s[2] * 0.5), begin)

    compile(to_source(xb.trace(switched, np.arange(3.0)), framework).text, "script.py", "exec")


@pytest.mark.needs("jax")
def test_a_gradient_by_a_gradient_is_not_lost(oracle: Any, tmp_path: Path) -> None:
    def twice(x: Any) -> Any:
        loss = xb.sum(x**3.0)
        slope = xb.grad(loss, x)
        return xb.grad(xb.sum(slope * slope) + loss, [x, slope])

    x = np.arange(3.0)
    assert not ran({"twice": case(oracle, xb.trace(twice, x), [x])}, "jax", tmp_path)


@pytest.mark.needs("tensorflow")
def test_a_loop_may_carry_nothing_and_give_several_results(oracle: Any, tmp_path: Path) -> None:
    def each(x: Any) -> Any:
        return xb.scan(lambda state, row: ((), (row * 2.0, row + 1.0)), (), x)[1]

    x = np.arange(3.0)
    assert not ran({"each": case(oracle, xb.trace(each, x), [x])}, "tensorflow", tmp_path)


def test_names_are_the_users() -> None:
    program, _ = traced("radon", True)
    text = to_source(program, "jax").text
    assert "residual = (y - a[county] - b[county] * floor) / scale[2]" in text
    assert "def radon(centre, log_scale, intercept, slope, county, floor, y):" in text


def test_a_wrong_script_would_be_found(oracle: Any, tmp_path: Path) -> None:
    program, arrays = traced("softmax", False)
    one = case(oracle, program, arrays)
    write(tmp_path / "wrong", one, "jax")
    wrong = ran({"softmax": Case(one.program, one.inputs, [one.expected[0] * 1.001])}, "jax", tmp_path)
    assert "off by" in wrong["softmax"]


def test_numpy_has_no_gradients() -> None:
    program, _ = traced("radon", True)
    with pytest.raises(UnsupportedOperation, match="NumPy has no gradients"):
        to_source(program, "numpy")


def test_another_framework_is_refused() -> None:
    program, _ = traced("softmax", False)
    with pytest.raises(UsageError, match="there is jax, numpy, pytensor, tensorflow"):
        to_source(program, "torch")


def test_large_constants_are_beside_the_script(tmp_path: Path) -> None:
    table = np.arange(100.0)
    program = xb.trace(lambda x: x + xb.asarray(table), np.zeros(100))
    source = to_source(program, "jax")
    assert next(iter(source.constants.values())).tolist() == table.tolist()
    assert [path.name for path in source.write(tmp_path / "s.py")] == ["s.py", "s.npz"]
