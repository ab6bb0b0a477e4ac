"""MPI by mpi4py: NumPy arrays, `Allreduce` of one buffer; a server as a window of memory with MPI's own locks."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from slopes import BY
from told import MOMENTUM, RATE, Told, told

SERVER = 0  # the rank of the server, where there is one


def mirrored(own: Told) -> None:
    comm, gradients = MPI.COMM_WORLD, BY[own.slopes]()
    weights = own.zeros()
    velocities = {name: np.zeros_like(value) for name, value in weights.items()}
    sizes = [value.size for value in weights.values()]
    sent = np.empty(sum(sizes) + 2, weights["w"].dtype)
    total = np.empty_like(sent)

    def step(x: np.ndarray, labels: np.ndarray, _: int) -> float:
        loss, slopes = gradients(weights, x, labels)
        begin = 0
        for name, size in zip(weights, sizes, strict=True):
            sent[begin : begin + size] = slopes[name].ravel()
            begin += size
        sent[-2], sent[-1] = loss, 1.0
        np.multiply(sent, len(x), out=sent)
        comm.Allreduce(sent, total)
        np.divide(total[:-1], total[-1], out=total[:-1])
        begin = 0
        for name, size in zip(weights, sizes, strict=True):
            velocities[name] = MOMENTUM * velocities[name] + total[begin : begin + size].reshape(weights[name].shape)
            weights[name] = weights[name] - RATE * velocities[name]
            begin += size
        return float(total[-2])

    comm.Barrier()
    own.measure(step, lambda: weights)


def views_of(held: np.ndarray, zeros: dict[str, np.ndarray], copies: int) -> list[dict[str, np.ndarray]]:
    """Views of the held array: weights, and velocities where there are."""
    found, begin = [], 0
    for _ in range(copies):
        one = {}
        for name, value in zeros.items():
            one[name] = held[begin : begin + value.size].reshape(value.shape)
            begin += value.size
        found.append(one)
    return found


def on_a_window(own: Told) -> None:
    """``add_rank`` and ``served``: the server's variables are one array of a window."""
    comm = MPI.COMM_WORLD
    zeros = {"total": np.zeros(())} if own.program == "add_rank" else own.zeros()
    dtype = next(iter(zeros.values())).dtype
    copies = 1 if own.program == "add_rank" else 2  # weights and velocities
    size = copies * sum(value.size for value in zeros.values())
    window = MPI.Win.Allocate(size * dtype.itemsize if own.job == "ps" else 0, 1, MPI.INFO_NULL, comm)
    if own.job == "ps":
        window.Lock(SERVER, MPI.LOCK_EXCLUSIVE)
        np.frombuffer(window.tomemory(), dtype)[:] = 0
        window.Unlock(SERVER)
    comm.Barrier()
    held = np.empty(size, dtype)

    views, gradients = views_of(held, zeros, copies), BY[own.slopes]()

    def add_rank() -> float:
        window.Lock(SERVER, MPI.LOCK_EXCLUSIVE)
        window.Get(held, SERVER)
        window.Flush(SERVER)
        np.add(held, own.index + 1.0, out=held)
        window.Put(held, SERVER)
        window.Unlock(SERVER)
        return float(held[0])

    def served(x: np.ndarray, labels: np.ndarray, _: int) -> float:
        window.Lock(SERVER, MPI.LOCK_SHARED)
        window.Get(held, SERVER)
        window.Unlock(SERVER)
        loss, slopes = gradients(views[0], x, labels)
        window.Lock(SERVER, MPI.LOCK_EXCLUSIVE)
        window.Get(held, SERVER)
        window.Flush(SERVER)
        weights, velocities = views
        for name, slope in slopes.items():
            velocities[name][...] = MOMENTUM * velocities[name] + slope / own.workers
            weights[name] -= RATE * velocities[name]
        window.Put(held, SERVER)
        window.Unlock(SERVER)
        return float(loss)

    if own.job == "worker":
        own.measure(add_rank if own.program == "add_rank" else served, lambda: {})
    comm.Barrier()
    if own.job == "ps":
        window.Lock(SERVER, MPI.LOCK_SHARED)
        held[:] = np.frombuffer(window.tomemory(), dtype)
        window.Unlock(SERVER)
        own.write([], lambda: views[0])
    comm.Barrier()
    window.Free()


if __name__ == "__main__":
    asked = told()
    mirrored(asked) if asked.program == "mirrored" else on_a_window(asked)
