"""The worker's part of the figures of placement: several devices against one, stages against the same by hand, and
copies over the host.

Plain data in, plain data out, as in the measuring loop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import xbackend as xb
from overhead import host_copies
from overhead.calls import _check, _round, in_turn, side_by_side
from xbackend.measure.load import foreign_load
from xbackend.workloads import matpow

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend


def two_against_one(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of A^n + B^n on two devices and of the same program bound to one of them.

    ``job``: ``size``, ``n``, ``rounds``, ``round_seconds``. Returns ``two``, ``one`` (seconds per call of each round,
    pairs in turn) and ``foreign_cores``. Raises `ParityError`, `PlacementError`.
    """
    size, n = job["size"], job["n"]
    a, b = matpow.inputs(size=size, seed=0)
    oracle, tolerance = matpow.oracle(a, b, n=n), matpow.tolerance(size=size, n=n)
    sides = []
    for second in backend.devices[1], backend.devices[0]:
        run = backend.compile(matpow.program(n=n), a, b, devices={"dev0": str(backend.devices[0]), "dev1": str(second)})
        _check(f"xbackend with dev1 on {second}", run(a, b), oracle, tolerance)
        sides.append(_round(run.execute, run.put(a, b), backend.synchronize))
    with foreign_load() as foreign:
        (two, one), iterations = in_turn(sides, job["rounds"], job["round_seconds"])
    return {"two": two, "one": one, "iterations": iterations, "foreign_cores": foreign[0]}


def against_hand(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of A^n + B^n on two devices and of the same by hand in JAX with `jax.device_put`.

    ``job`` and result as of `overhead.calls.tax`. For backends whose values are JAX arrays.
    """
    from overhead.handwritten import jax_placed

    size, n = job["size"], job["n"]
    a, b = matpow.inputs(size=size, seed=0)
    oracle, tolerance = matpow.oracle(a, b, n=n), matpow.tolerance(size=size, n=n)
    first, second = backend.devices[:2]
    run = backend.compile(matpow.program(n=n), a, b, devices={"dev0": str(first), "dev1": str(second)})
    by_hand, place_second = jax_placed.sum_of_powers(n, (first, second))
    theirs = [by_hand.place(a), place_second(b)]
    return side_by_side(run, (a, b), by_hand, theirs, expected=(oracle, tolerance), job=job)


def _product(x: Any) -> Any:
    with xb.device("here"):
        return x @ x


def stages(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a chain of products of 2x2 matrices, each on the next device, and of its parts by hand.

    ``job``: ``stages`` (how many, each on a device), ``rounds``, ``round_seconds``. By hand are the compiled
    functions of the stages, called one after the other with a bare `jax.device_put` between. Returns ``ours`` and
    ``by_hand``, ``stages``, ``transfers`` and ``foreign_cores``. For backends whose values are JAX arrays.
    """
    from overhead.handwritten import jax_placed

    count = job["stages"]
    devices, x = backend.devices[:count], np.eye(2, dtype="float32")

    def chain(x: Any) -> Any:
        for device in devices:
            with xb.device(str(device)):
                x = x @ x
        return x

    run = backend.compile(chain, x)
    alone = [backend.compile(_product, x, devices={"here": str(device)}) for device in devices]
    by_hand = jax_placed.chain_of_stages([one.execute for one in alone], devices)
    _check("xbackend", run(x), x, 0.0)
    values = run.put(x)
    _check("the hand-written version", backend.get(by_hand(*values)), x, 0.0)
    sides = [
        _round(run.execute, values, backend.synchronize),
        _round(by_hand, values, lambda result: backend.synchronize([result])),
    ]
    with foreign_load() as foreign:
        (ours, hand), iterations = in_turn(sides, job["rounds"], job["round_seconds"])
    return {
        "ours": ours,
        "by_hand": hand,
        "iterations": iterations,
        "stages": count,
        "transfers": len(run.placement.transfers),
        "foreign_cores": foreign[0],
    }


def host_copies_of_training(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Copies between host and devices in training steps whose state lives on two devices.

    ``job``: ``steps``, and ``look``: whether the loss is read after every step, as one who prints it does. A network of
    two layers, the first with its weights and the data on one device, the second on the other; its loss stays there.
    Returns ``seconds`` of each step, ``copies`` (by what copied), ``transfers`` of one step between the devices,
    ``beyond`` (records of transfers with devices that are not the backend's) and ``losses``, first and last.
    """
    generator = np.random.default_rng(0)
    first, second = (str(d) for d in backend.devices[:2])
    x, y = generator.random((8, 4)), generator.random((8, 2))
    data, labels = xb.shared(x, name="x", device=first), xb.shared(y, name="y", device=second)
    w1 = xb.shared(generator.random((4, 5)) / 4, name="w1", device=first)
    w2 = xb.shared(generator.random((5, 2)) / 5, name="w2", device=second)

    def step() -> Any:
        with xb.device(first):
            hidden = xb.tanh(data @ w1)
        with xb.device(second):
            loss = xb.mean(xb.square(hidden @ w2 - labels))
        for weight, gradient in zip((w1, w2), xb.grad(loss, [w1, w2]), strict=True):
            xb.update(weight, weight - 0.1 * gradient)
        return loss

    run = backend.compile(step)
    start = float(run())
    with host_copies.counted(backend) as copies:
        seconds = []
        for _ in range(job["steps"]):
            begun = time.perf_counter()
            result = run.execute()
            backend.synchronize(result)
            seconds.append(time.perf_counter() - begun)
            if job.get("look"):
                backend.get(result[0])
    transfers = run.placement.transfers
    ours = {str(d) for d in backend.devices}
    return {
        "seconds": seconds,
        "copies": dict(copies),
        "transfers": len(transfers),
        "beyond": sum(not {t.source, t.target} <= ours for t in transfers),
        "losses": [start, float(backend.get(result[0]))],
    }
