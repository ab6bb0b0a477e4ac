"""The examples' programs and the strategies, for GPUs that this machine lacks: each with its devices, and the ways of
its transfers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xbackend as xb
from xbackend.strategies import Mirrored, ModelParallel, OneDevice, Towers
from xbackend.training import SGD
from xbackend.workloads import matpow

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import p1_name_devices as p1
import p2_two_devices as p2
import p4_shared_variable as p4
import p5_model_parallel as p5
import p6_in_graph_replication as p6
import p8_towers as p8
import p10_distributed as p10
import p11_data_and_model_parallel as p11

__all__ = ["ABSENT", "CASES", "p10"]
TWO = {"dev0": "gpu:0", "dev1": "gpu:1"}
FOUR = {f"dev{i}": f"gpu:{i}" for i in range(4)}
ABSENT = tuple(FOUR.values())


class Case(NamedTuple):
    """A function with its arguments and devices. ``used`` are the devices of its ops and transfers, ``ways`` those of
    the transfers, as ``gpu:0>cpu:0``."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    devices: dict[str, str]
    used: str
    ways: str = ""


def pinned(a: Any, b: Any) -> Any:
    with xb.device("/gpu:1"):
        return a @ b


def network(replicas: Any = None) -> Callable[..., Any]:
    """A step of P5's network, or of P11's with these replicas, of which there may be none."""
    step: Callable[..., Any] = (p5.network() if replicas is None else p11.network(replicas))[1]
    return step


def reduction(x: Any) -> Any:
    """That of P9, on GPUs: the replicas are not alike."""
    with xb.device("gpu:0"):
        first = xb.sum(x * 1.0)
    with xb.device("gpu:1"):
        second = xb.sum(x * 3.0)
    mean, total = xb.all_reduce([first, second], "mean"), xb.all_reduce([first, second], "sum")
    return mean[0], total[0]


def trained(strategy: Any) -> Callable[..., Any]:
    """A step of P8's and P9's classifier."""
    optimizer = SGD(0.5, momentum=0.9)
    copies = strategy.variables(p8.weights(), optimizer)
    step: Callable[..., Any] = strategy.step(p8.classifier.loss, copies, optimizer)
    return step


def product_on_two(x: Any) -> Any:
    with xb.device("dev0"):
        first = x @ x
    with xb.device("dev1"):
        second = first @ x
    return xb.to_device(second, "dev0") + first


POINTS = p8.data(24, seed=2)
FED = (*p8.data(12, seed=3), *p8.data(12, seed=4))
SPLIT = xb.strategies.replicate(p6.product, devices=("dev0", "dev1"), split="rows", on="cpu:0")
HERE_AND_THERE = "gpu:0>gpu:1 gpu:1>gpu:0"
TO_CPU = "cpu:0>gpu:0 cpu:0>gpu:1 gpu:0>cpu:0 gpu:1>cpu:0"

CASES = {
    "P1 pinned": Case(pinned, (p1.A, p1.B), {}, "gpu:1"),
    "P1 default": Case(p1.on_default_device, (p1.A, p1.B), {}, "gpu:0"),
    "P2": Case(p2.two_products, (p2.A, p2.B), TWO, "cpu:0 gpu:0 gpu:1", "gpu:0>cpu:0 gpu:0>gpu:1 gpu:1>cpu:0"),
    "P3": Case(
        matpow.program(n=10), tuple(matpow.inputs(size=8, seed=0)), TWO, "cpu:0 gpu:0 gpu:1", "gpu:0>cpu:0 gpu:1>cpu:0"
    ),
    "P4": Case(p4.doubled, (), TWO, "gpu:0 gpu:1", "gpu:0>gpu:1"),
    "P4 update": Case(p4.increment, (), TWO, "gpu:0"),
    "P5": Case(network(), p5.data(), TWO, "cpu:0 gpu:0 gpu:1", "cpu:0>gpu:1 gpu:0>gpu:1 gpu:1>cpu:0 gpu:1>gpu:0"),
    "P6": Case(SPLIT, (p6.ROWS, p6.WEIGHTS), TWO, "cpu:0 gpu:0 gpu:1", f"{TO_CPU} gpu:0>gpu:1"),
    "P8": Case(trained(Towers(("gpu:0", "gpu:1"))), POINTS, {}, "cpu:0 gpu:0 gpu:1", TO_CPU),
    "P8 on a GPU": Case(trained(Towers(("gpu:0", "gpu:1"), on="gpu:0")), POINTS, {}, "gpu:0 gpu:1", HERE_AND_THERE),
    "P9": Case(trained(Mirrored(("gpu:0", "gpu:1"))), POINTS, {}, "gpu:0 gpu:1", HERE_AND_THERE),
    "P9 of three": Case(
        trained(Mirrored(("gpu:0", "gpu:1", "gpu:2"))),
        *(POINTS, {}, "gpu:0 gpu:1 gpu:2", "gpu:0>gpu:1 gpu:0>gpu:2 gpu:1>gpu:0 gpu:2>gpu:0"),
    ),
    "P9 reduction": Case(reduction, (np.ones(4),), {}, "gpu:0 gpu:1", HERE_AND_THERE),
    "P11 data": Case(network(p11.DATA_PARALLEL), p5.data(), TWO, "cpu:0 gpu:0 gpu:1", f"{TO_CPU} {HERE_AND_THERE}"),
    "P11 model": Case(network(()), p5.data(), TWO, "gpu:0 gpu:1", HERE_AND_THERE),
    "P11 both": Case(
        network(p11.BOTH),
        *(p5.data(), FOUR, "cpu:0 gpu:0 gpu:1 gpu:2 gpu:3"),
        # Rows go out from the CPU, layers from one device to the next, losses and gradients back.
        "cpu:0>gpu:0 cpu:0>gpu:1 cpu:0>gpu:2 cpu:0>gpu:3 gpu:0>gpu:1 gpu:0>gpu:2 gpu:0>gpu:3 gpu:1>cpu:0 gpu:1>gpu:0 "
        "gpu:2>gpu:0 gpu:2>gpu:3 gpu:3>cpu:0 gpu:3>gpu:0 gpu:3>gpu:2",
    ),
    "one device": Case(trained(OneDevice("gpu:1")), POINTS, {}, "gpu:1"),
    "model parallel": Case(
        trained(ModelParallel({"w": "gpu:0", "b": "gpu:0", "v": "gpu:1"})), POINTS, {}, "gpu:0 gpu:1", HERE_AND_THERE
    ),
    "there and back": Case(product_on_two, (np.ones((3, 3)),), TWO, "gpu:0 gpu:1", HERE_AND_THERE),
}
