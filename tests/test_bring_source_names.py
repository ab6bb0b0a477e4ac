"""Names in the scripts of `to_source`: whatever names the user has, no name hides another."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source_scripts import Case, case, ran

import xbackend as xb
from xbackend.bring.source import FRAMEWORKS, to_source

pytestmark = pytest.mark.tier("standard")

EACH = [pytest.param(name, marks=pytest.mark.needs(name)) for name in FRAMEWORKS]
ROW, MATRIX = np.linspace(0.5, 1.5, 3), np.tril(np.linspace(1.0, 2.0, 9).reshape(3, 3))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with xb.open("numpy", virtual_devices=4) as backend:
        yield backend


def reads_x(x: Any, a: Any, b: Any) -> Any:
    return xb.scan(lambda c, r: (c + x[0] * r[0] * r[1], c), x[1], (a, b))


def reads_carry(carry: Any, x: Any, a: Any) -> Any:
    begin = carry[0] * 1.0, carry[1] * 2.0
    return xb.scan(lambda c, r: ((c[1] * r[0] + carry[0], c[0] - r[1] * carry[1]), c[0]), begin, (x, a))


def reads_state(state: Any, a: Any, b: Any) -> Any:
    first, second = xb.while_loop(
        lambda s: s[1] < 9.0 + state[0], lambda s: (s[1] + state[0], s[0] + 1.0), (a[0], b[0])
    )
    return xb.scan(lambda c, r: (c * r + state[1], c - state[2]), first, a)[1], second


def carries_x(x: Any, a: Any, b: Any) -> Any:
    return xb.scan(lambda c, r: (c * r[0] + r[1], c), x, (a, b))


def in_a_loop(carry: Any, x: Any, state: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        begin = c, carry[1] * c
        inner = xb.scan(lambda d, e: ((d[1] + e[0] * carry[0], d[0] * state[0] + x[0]), e[1]), begin, (r, r * x))
        return inner[0][0] + inner[0][1], inner[1]

    return xb.scan(step, carry[0], xb.stack([x, state]))


def image_and_kernel(i: Any, j: Any) -> Any:
    return xb.conv2d(i + 1.0, j * 2.0, strides=(2, 1))


LOOPS = (reads_x, reads_carry, reads_state, carries_x, in_a_loop)


def everything(a: Any, b: Any, others: Sequence[Any], gradient: bool) -> Any:
    """Each kind of statement that scripts have. Bodies and branches read all ``others``."""

    def read() -> Any:
        return xb.sum(xb.stack(list(others)) * np.linspace(0.1, 0.2, len(others)))

    w = xb.shared(np.ones(3), name="w")
    with xb.device("dev1"):
        solved = xb.linalg.solve_triangular(a, xb.reshape(b, (3, 1)), lower=True)
        table = xb.sum(xb.asarray(np.linspace(0.0, 1.0, 100))) * xb.erf(b)
    (c, d), each = xb.scan(lambda c, r: ((c[1] + r[0] * read(), c[0] * r[1]), c[0]), (b[0], b[1]), (b, table))
    (ended,) = xb.while_loop(lambda s: s[0] < 9.0 + read(), lambda s: (s[0] * 2.0 + 1.0 + read() ** 2.0,), (b[0],))
    chosen = xb.cond(c > d, lambda: c + read(), lambda: d * b[0])
    images, kernel = xb.reshape(a, (1, 3, 3, 1)), xb.reshape(a[:2, :2], (2, 2, 1, 1))
    loss = xb.sum(xb.conv2d(images, kernel, padding="SAME")) + chosen + xb.sum(each * w) + xb.sum(solved) + read()
    xb.update(w, w * 0.5 + b)
    return {"loss": loss, "ended": ended, "slopes": xb.grad(loss, [a, b]) if gradient else solved}


def named(names: Sequence[str], gradient: bool) -> Callable[..., Any]:
    """`everything` as a function of arguments of these names."""
    made: dict[str, Any] = {"everything": everything}
    listed = ", ".join(names)
    exec(
        f"def compiled({listed}): return everything({', '.join(names[:2])}, [{', '.join(names[2:])}], {gradient})", made
    )
    return made["compiled"]


def identifiers(text: str) -> list[str]:
    """Every name that a script binds or reads."""
    nodes = list(ast.walk(ast.parse(text)))
    found = [getattr(one, key) for one in nodes for key in ("id", "arg", "asname", "name") if hasattr(one, key)]
    return sorted({name for name in found if name and name.isidentifier() and name != "w"})


def of_taken_names(oracle: Any, framework: str) -> dict[str, Case]:
    """Programs whose arguments and shared variables have the names that such a program's script uses."""
    gradient = framework != "numpy"
    plain = xb.trace(named(["first", "second", "third"], gradient), MATRIX, ROW, np.asarray(0.5))
    names = identifiers(to_source(plain, framework).text)
    names += [name for name in ("DEV1", "CPU_0", "tape", "x", "carry", "state") if name not in names]
    numbers = [np.asarray(0.1 + 0.01 * number) for number in range(len(names) - 2)]
    shared = [xb.shared(one, name=name) for one, name in zip(numbers, names[2:], strict=True)]
    cases = {
        "arguments": (named(names, gradient), [MATRIX, ROW, *numbers]),
        "variables": (lambda a, b: everything(a, b, shared, False), [MATRIX, ROW]),
    }
    return {name: case(oracle, xb.trace(function, *given), given) for name, (function, given) in cases.items()}


@pytest.mark.parametrize("framework", EACH)
def test_no_name_hides_another(framework: str, oracle: Any, tmp_path: Path) -> None:
    cases = {one.__name__: case(oracle, xb.trace(one, *[ROW] * 3), [ROW] * 3) for one in LOOPS}
    cases |= of_taken_names(oracle, framework)
    pictures = [np.linspace(0.0, 1.0, n).reshape(shape) for n, shape in ((40, (2, 5, 4, 1)), (8, (2, 2, 1, 2)))]
    cases["pictures"] = case(oracle, xb.trace(image_and_kernel, *pictures), pictures)
    wrong = ran(cases, framework, tmp_path)
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    for time, name in enumerate(("first", "second")):
        text = f"def model(x):\n    {name} = x * 2.0 + 1.0\n    return {name} * {name}, {name}\n"
        path.write_text(text)
        os.utime(path, (time, time))
        names: dict[str, Any] = {}
        exec(compile(text, path, "exec"), names)
        assert f"{name} = x * 2.0" in to_source(xb.trace(names["model"], np.ones(3)), "numpy").text


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_quotes_and_backslashes_are_escaped(framework: str, tmp_path: Path) -> None:
    w = xb.shared(np.ones(100), name='w"x\\')

    def model(x: Any) -> Any:
        xb.update(w, w * 2.0)
        return {'"key"\\\n': x * w}

    model.__name__ = 'a"""b\\c'
    text = to_source(xb.trace(model, np.ones(100)), framework).text
    texts = [one.value for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant)]
    assert '"key"\\\n' in texts or framework == "pytensor"  # whose compiled functions return lists
    assert 'w"x\\' in texts or framework in ("jax", "numpy")  # whose state has no names
    assert sum(model.__name__ in str(one) for one in texts) == 2  # docstrings


def test_the_file_beside_a_script_takes_any_name(tmp_path: Path) -> None:
    file = xb.shared(np.arange(100.0), name="file")
    script, beside = to_source(xb.trace(lambda x: x * file, np.ones(100)), "tensorflow").write(tmp_path / "s.py")
    with np.load(beside) as arrays:
        assert [arrays[name][-1] for name in arrays] == [99.0] and next(iter(arrays)) in script.read_text()
