"""``pytest --pyargs xbackend``: what is installed works, on NumPy alone. The first time, its environment is made."""

from __future__ import annotations

import importlib.util
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import xbackend as xb
from xbackend import extras

with_commands = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in extras.COMMANDS),
    reason="the commands are not installed: pip install 'xbackend[commands]'",
)


def test_every_public_name_is_there() -> None:
    assert [name for name in xb.__all__ if getattr(xb, name) is None] == []


@pytest.mark.parametrize(
    "file",
    ["py.typed", "environments/requirements/numpy.txt", "report/written/templates/page.html.j2"],
)
def test_what_is_no_python_is_there(file: str) -> None:
    assert resources.files("xbackend").joinpath(file).is_file()


def test_a_program_is_traced_differentiated_and_run() -> None:
    """Of |x w|^2, 10, the gradient to w is 2 x^T x w; after one step w is [[0,0],[-3,-3]] and the loss 72."""
    w = xb.shared(np.ones((2, 2), np.float32), name="w")

    def step(x: xb.Array) -> xb.Array:
        loss = xb.sum((x @ w) ** 2)
        xb.update(w, w - 0.5 * xb.grad(loss, w))
        return loss

    x = np.array([[1, 0], [0, 2]], np.float32)
    with xb.open("numpy") as backend:
        run = backend.compile(step, x)
        assert [float(run(x)), float(run(x))] == [10.0, 72.0]
        assert run.placement


@with_commands
def test_every_command_has_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    from xbackend.cli import COMMANDS, main

    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        assert f"Example: xbackend {command}" in capsys.readouterr().out.replace("\n", " ")


@with_commands
def test_a_function_is_compared_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from xbackend.cli import main

    monkeypatch.chdir(tmp_path)
    few = ["--backends", "numpy", "--quick", "--processes", "1", "--wait", "0", "--size", "32"]
    assert main(["compare", *few, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) == 1 and told["complete"] and told["rows"][0]["seconds"] > 0
    assert (tmp_path / "reports" / "matpow" / "report.html").is_file()
