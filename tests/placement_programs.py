"""Programs over several devices, for the tests of placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.backends.contract import Executable

SPREAD = "dev0=cpu:0,dev1=cpu:1,dev2=cpu:2"
ONE = "dev0=cpu:1,dev1=cpu:1,dev2=cpu:1"
A, B = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[1.0, 2], [3, 4], [5, 6]])


def same_product_twice(a: Any, b: Any) -> Any:
    """P2."""
    with xb.device("dev1"):
        first = a @ b
    with xb.device("dev2"):
        second = a @ b
    with xb.device("dev0"):
        return first + second


def network() -> tuple[Callable[..., Any], tuple[Any, ...], list[Any]]:
    """Two layers on two devices, the loss on a third, trained."""
    rng = np.random.default_rng(0)
    w1 = xb.shared(rng.random((3, 4)), name="w1", device="dev1")
    w2 = xb.shared(rng.random((4, 2)), name="w2", device="dev2")

    def step(x: Any, y: Any) -> Any:
        with xb.device("dev1"):
            hidden = xb.tanh(x @ w1)
        with xb.device("dev2"):
            found = hidden @ w2
        with xb.device("dev0"):
            loss = xb.mean(xb.square(found - y))
        for w, g in zip((w1, w2), xb.grad(loss, [w1, w2]), strict=True):
            xb.update(w, w - 0.1 * g)
        return loss

    return step, (rng.random((5, 3)), rng.random((5, 2))), [w1, w2]


def powers(a: Any, b: Any) -> Any:
    """Three devices, an explicit transfer, gradients."""
    with xb.device("dev1"):
        an = a @ a @ a
    with xb.device("dev2"):
        bn = b @ b @ b
    with xb.device("dev0"):
        total = an + bn
        loss = xb.sum(xb.square(total))
    return total, xb.to_device(total, "dev2"), *xb.grad(loss, [a, b, an])


def unary_ops(x: Any) -> Any:
    with xb.device("dev1"):
        found = xb.cos(x)
    with xb.device("dev0"):
        return xb.tanh(found)


PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "P2": lambda: (same_product_twice, (A, B)),
    "network": lambda: network()[:2],
    "powers": lambda: (powers, (np.eye(3) * 2, np.ones((3, 3)))),
}


def executed(run: Executable, *arguments: Any) -> Executable:
    run(*arguments)
    return run
