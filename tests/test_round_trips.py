"""Programs go out as scripts and come in again, with the same results and gradients.

`computation` says whether it is the same program. Devices are left out: a script has a machine's, and not all
frameworks keep them. A framework's graph has broadcasts, casts and explicit gradients of its own: another program comes
in then, but the same one from the third trip on.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from round_trips import EXPORTED
from source_cases import computation, of_examples, of_workloads
from source_scripts import FLAGS, Case, case, differs, write
from test_bring_source import WITHOUT, drawn

import xbackend as xb
from xbackend.workers.remote import ready_environment

pytestmark = pytest.mark.tier("standard")

SCRIPT = Path(__file__).with_name("round_trips.py")
REPOSITORY = Path(__file__).parent.parent
EACH = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("jax", "pytensor", "tensorflow")]
TRIPS = 3 if tiers.chosen == tiers.TIERS[-1] else 1
# Without loops and gradients it is the same program at once. PyTensor has casts and lengths in its graph.
PLAIN = ("attention", "axis_sums", "black_scholes", "convolution", "nbody", "softmax")
ON_DEVICES = ("matpow", "two_products", "replicated")
AT_ONCE = {"jax": (*PLAIN, *ON_DEVICES), "tensorflow": (*PLAIN, *ON_DEVICES, "doubled"), "pytensor": ON_DEVICES}
# It never is where a framework adds something on each trip: checks of indices that are computed, to what begins and
# ends a loop.
CHANGES = {
    "jax": ("stencil", "gaussian_process", "multivariate_normal", "radon"),
    "tensorflow": ("stencil", "gaussian_process", "multivariate_normal", "radon"),
    "pytensor": ("stencil",),
}
# What the script has is refused: JAX's gradient of `solve`, and gradients of loops.
REFUSED = {
    "jax": {"kalman": "lu, once"},
    "tensorflow": {"kalman": "StatelessWhile", "seir": "StatelessWhile"},
    "pytensor": {"kalman": "the loop of a gradient has no row", "seir": "the loop of a gradient has no row"},
}

# What some random programs have: gradients of equations, loops and choices, as frameworks write them.
MAY_LACK: dict[str, tuple[str, ...]] = {
    **{"jax": ("custom_linear_solve", "lu, once"), EXPORTED: ("getrf",)},
    "tensorflow": ("StatelessWhile", "OptionalFromValue"),
    "pytensor": ("ZeroGrad", "the loop of a gradient has no row", "Assert{msg='more than"),
}
# JAX's gradients of these look at the bits of numbers.
NOT_DRAWN = WITHOUT | {"erf", "erfc"}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with xb.open("numpy", virtual_devices=4) as backend:
        yield backend


@pytest.fixture(scope="module")
def cases(oracle: Any) -> Iterator[dict[str, Case]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPOSITORY / "examples"))
        yield {**of_workloads(oracle), **of_examples(oracle)}


def trip(cases: Mapping[str, Case], form: str, folder: Path) -> dict[str, Any]:
    """The programs of cases as scripts, and in again; for one that did not come in the error. ``form`` is a framework,
    or a file of `jax.export` that such a script writes."""
    folder.mkdir()
    framework = "jax" if form == EXPORTED else form
    for name, one in cases.items():
        write(folder / name, one, framework)
    command = [str(ready_environment(framework).python), str(SCRIPT), form, *(str(folder / n) for n in cases)]
    subprocess.run(command, env={**os.environ, **FLAGS, "PYTHONPATH": str(REPOSITORY)}, check=True, timeout=900)
    paths = {name: folder / name / "program.json" for name in cases}
    return {
        name: xb.Program.from_json(path.read_text()) if path.exists() else path.with_name("error").read_text()
        for name, path in paths.items()
    }


def again(program: Any, before: Case) -> Case:
    """The case of a program that came in. JAX has state as arguments; others may have it in another order."""
    state = [variable.value for variable in before.program.shared.values()]
    inputs = [*before.inputs, *state][: len(program.inputs)]
    names, first = [before.program.shared[i].name for i in before.program.updates], len(before.program.outputs)
    new = dict(zip(names, before.expected[first:], strict=True))
    kept = [program.shared[i].name for i in program.updates] if program.updates else names
    return Case(program, inputs, [*before.expected[:first], *(new[name] for name in kept)])


def wrong(one: Case, oracle: Any) -> str:
    """What a program computes otherwise; empty if nothing."""
    return differs([np.asarray(got) for got in case(oracle, one.program, one.inputs).expected], one)


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("framework", EACH)
def test_what_goes_out_and_comes_in_is_the_same(
    framework: str, cases: dict[str, Case], oracle: Any, tmp_path: Path
) -> None:
    before = cases
    for number in range(1, TRIPS + 1):
        found = trip(before, framework, tmp_path / str(number))
        refused = {name: said for name, said in found.items() if isinstance(said, str)}
        expected = REFUSED[framework] if number == 1 else {}
        assert set(refused) == set(expected), "\n".join(refused.values())
        assert all(words in refused[name] for name, words in expected.items()), refused
        now = {name: again(found[name], before[name]) for name in found if name not in refused}
        assert not {name: said for name, one in now.items() if (said := wrong(one, oracle))}
        same = {n for n in now if computation(now[n].program) == computation(before[n].program)}
        expected_same = AT_ONCE[framework] if number == 1 else set(now).difference(CHANGES[framework])
        assert number == 2 or same >= set(expected_same), (number, set(expected_same) - same)
        before = now


def of_chance(oracle: Any) -> dict[str, Case]:
    """Random programs, half of them with a gradient."""
    count = tiers.share(60)
    each = [*drawn(False, 35, count, NOT_DRAWN), *drawn(True, 36, count, NOT_DRAWN)]
    return {f"random{i}": case(oracle, one.program, one.arguments) for i, one in enumerate(each)}


@pytest.mark.parametrize("form", [*EACH, pytest.param(EXPORTED, marks=pytest.mark.needs("jax"))])
def test_random_programs_go_out_and_come_in(form: str, oracle: Any, tmp_path: Path) -> None:
    before = of_chance(oracle)
    found = trip(before, form, tmp_path / "1")
    refused = {name: said for name, said in found.items() if isinstance(said, str)}
    unknown = {name: said for name, said in refused.items() if not any(one in said for one in MAY_LACK[form])}
    assert not unknown, "\n".join(unknown.values())
    assert len(refused) <= len(found) / 4
    now = {name: again(found[name], before[name]) for name in found if name not in refused}
    off = {name: said for name, one in now.items() if (said := wrong(one, oracle))}
    assert not off, "\n".join(f"{name}: {said}\n{before[name].program}" for name, said in off.items())


def test_another_program_is_not_the_same(cases: dict[str, Case]) -> None:
    program = cases["softmax"].program
    other = xb.trace(lambda x: xb.exp(x + 1.0), *cases["softmax"].inputs)
    text = program.to_json()
    assert computation(program) == computation(xb.Program.from_json(text)) != computation(other)


@pytest.mark.needs("pytensor")
def test_a_while_loop_comes_in_again_with_and_without_steps(oracle: Any, tmp_path: Path) -> None:
    def doubled(x: Any) -> Any:
        return xb.while_loop(lambda s: xb.sum(s) < 10.0, lambda s: 2.0 * s, x)

    program = xb.trace(doubled, np.ones(3))
    before = {"steps": case(oracle, program, [np.ones(3)]), "none": case(oracle, program, [np.full(3, 5.0)])}
    assert [one.expected[0][0] for one in before.values()] == [4.0, 5.0]
    found = trip(before, "pytensor", tmp_path / "1")
    assert not {name: said for name, one in before.items() if (said := wrong(again(found[name], one), oracle))}
