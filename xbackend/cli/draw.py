"""``draw``: a program by device, or what a backend executed."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

import xbackend as xb
from xbackend import workloads
from xbackend.cli import DONE, graphs, options, output
from xbackend.cli.console import progress, say
from xbackend.cli.output import Output
from xbackend.cli.users import program as program_of
from xbackend.devices import DeviceMap
from xbackend.drawing import forms
from xbackend.errors import UsageError
from xbackend.measure import matrix
from xbackend.program.binding import bind, spread
from xbackend.program.program import Program

_TARGET = Parameter(
    help="a function in a file, or a workload, or a program's JSON file",
    metavar="FILE.py:FUNCTION",
    completer=lambda _: workloads.names(),
)


def draw(
    target: Annotated[str, _TARGET],
    /,
    *,
    inputs: options.Inputs = None,
    graph: graphs.GraphChoice = graphs.NONE,
    settings: options.Settings = None,
    devices_map: options.DevicesMap = None,
    seed: options.Seed = 0,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    form: Literal["mermaid", "dot", "svg"] = "mermaid",
    backend: options.Backend = None,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Print a drawing: of a program, its logical devices bound if bindings are given, or of what a backend executed."""
    selected = [] if backend is None else matrix.runs([backend])  # before anything is computed
    program, arrays = program_of(target, inputs, settings, seed, graph)
    if backend is not None:
        if len(arrays) != len(program.inputs):
            raise UsageError(f"{target} holds no arguments to run it with; draw a FILE.py:FUNCTION or a workload")
        drawing = _executed(program, arrays, selected, devices_map, form)
    elif devices_map:
        bindings, _ = spread(program, devices_map)
        there = sorted({*bindings.values(), xb.Device("cpu", 0)}, key=str)
        drawing = forms.draw(bind(program, bindings, there, xb.Device("cpu", 0)).program, form)
    else:
        drawing = forms.draw(program, form)
    say(drawing := drawing.rstrip("\n"))
    return output.Draw(exit_code=DONE, answer=repr(program), drawing=drawing)


def _executed(
    program: Program, arrays: list[np.ndarray], selected: list[matrix.BackendChoice], asked: DeviceMap | None, form: str
) -> str:
    ((name, _),) = selected
    bindings, count = spread(program, asked)
    with progress() as shown:
        failures = matrix.ready(selected, shown)
        shown(f"running on {name}")
        with matrix.opened(selected[0], failures, count) as backend:
            executable = backend.compile(program, devices=bindings, placement="soft")
            executable(*arrays)
            drawing, placement = executable.draw(form), executable.placement
    say(f"placement on {name}: {placement}", error=True)
    return drawing
