"""Several threads of one interpreter on one backend; called inside of a worker."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np

import xbackend as xb

THREADS, TASKS, CALLS = 4, 6, 50


def at_once(backend: Any) -> dict[str, Any]:
    """Compile, update a common variable and call one program from several threads. Returns errors and the variable."""
    total = xb.shared(np.zeros(3))
    double = backend.compile(lambda x: x * 2.0 + 1.0, np.ones(4))
    wrong: list[str] = []

    def work(k: int) -> None:
        def step(x: Any) -> None:
            xb.update(total, total + x)

        own = backend.compile(lambda x: xb.tanh(x * (k + 1.0)) + x**2, np.ones(3))
        add = backend.compile(step, 1.0)
        for i in range(CALLS):
            add(1.0)
            if not np.array_equal(double(np.full(4, float(i + k))), np.full(4, 2.0 * (i + k) + 1.0)):
                wrong.append(f"the common program of {i + k}")
        if not np.allclose(own(np.ones(3)), np.tanh(k + 1.0) + 1.0):
            wrong.append(f"program {k}")

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(work, k) for k in range(TASKS)]:
            done.result()
    return {"wrong": wrong, "total": backend.get_value(total).tolist()}


def most_inside(backend: Any, other: str, module: str, name: str) -> int:
    """The most threads that were at once inside of a function of the framework, while this backend and another one of
    its interpreter compiled gradients."""
    from xbackend.backends import registry

    owner = import_module(module)
    theirs, inside, most = getattr(owner, name), 0, 0

    def slow(*arguments: Any, **options: Any) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.2)
        try:
            return theirs(*arguments, **options)
        finally:
            inside -= 1

    setattr(owner, name, slow)
    with registry.get(other).load(backend.settings) as beside, ThreadPoolExecutor() as threads:
        started = [
            threads.submit(own.compile, lambda x: xb.grad(xb.sum(x * x), x), np.ones(3)) for own in (backend, beside)
        ]
        for done in started:
            done.result()
    setattr(owner, name, theirs)
    return most
