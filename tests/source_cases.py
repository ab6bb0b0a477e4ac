"""Programs that are written as scripts: those of the workloads and of the examples, with what an oracle computes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np
from source_scripts import Case, case

import xbackend as xb
from xbackend import workloads
from xbackend.program.program import Program


def traced(name: str, gradient: bool) -> tuple[Any, list[np.ndarray]]:
    """The smallest program of a workload, with its gradient if it has one."""
    workload = workloads.get(name)
    parameters = workload.resolve(**{key: values[0] for key, values in workload.sweep.items()})
    arrays = workload.arrays(0, **parameters)
    return xb.trace(workload.traced(parameters, bool(workload.gradient) and gradient), *arrays), arrays


def of_workloads(oracle: Any, gradient: bool = True) -> dict[str, Case]:
    found = {}
    for name in workloads.names():
        program, arrays = traced(name, gradient)
        found[name] = case(oracle, program, arrays)
    return found


def of_examples(oracle: Any) -> dict[str, Case]:
    """The programs of the examples with devices, state, gradients and replicas."""
    import p2_two_devices as p2
    import p4_shared_variable as p4
    import p5_model_parallel as p5
    import p6_in_graph_replication as p6
    import p11_data_and_model_parallel as p11

    devices = ["dev0", "dev1", "dev2"]
    replicated = xb.strategies.replicate(p6.product, devices=devices, split="rows", on="cpu:0")
    programs = {
        "two_products": (p2.two_products, (p2.A, p2.B)),
        "doubled": (p4.doubled, ()),
        "model_parallel": (p5.network()[1], p5.data()),
        "replicated": (replicated, (p6.ROWS, p6.WEIGHTS)),
        "both": (p11.network(p11.BOTH)[1], p5.data()),
    }
    return {name: case(oracle, xb.trace(f, *arrays), arrays) for name, (f, arrays) in programs.items()}


def computation(program: Program) -> str:
    """A fingerprint of what the results and the new values of the state are computed of, whatever the order of the
    nodes, and wherever it is computed."""
    found: dict[int, str] = {}
    for node in program.nodes:
        if node.op == "transfer":
            found[node.outputs[0]] = found[node.inputs[0]]
            continue
        params = {key: _plain(value) for key, value in node.params.items()}
        own = [node.op, params, [found[i] for i in node.inputs]]
        for number, i in enumerate(node.outputs):
            found[i] = sha256(json.dumps([own, number], sort_keys=True).encode()).hexdigest()
    updates = sorted((found[i], found[new]) for i, new in program.updates.items())
    return json.dumps([program.structure, [found[i] for i in program.outputs], updates])


def _plain(value: Any) -> Any:
    if isinstance(value, Program):
        return computation(value)
    return value.tolist() if isinstance(value, np.ndarray) else value
