"""The speed of the GPUs themselves, by CuPy: copies, A^10 + B^10 by cuBLAS, all-reduce by NCCL, as one JSON object.

    /opt/cupy/bin/python bench/gpu_limits.py --size 1024,4096

The interpreter has CuPy (``pip install 'cupy-cuda13x[ctk]' nvidia-nccl-cu13``); xbackend is not needed. Each part runs
in a process of its own: an error, a crash or a hang costs that part alone, and a reason stands in place of its figures.
A figure is the median of the repetitions, with their 2.5 % and 97.5 % quantiles. Times are by CUDA events, after a
warm-up; the tasks of a part take turns. No kernel is compiled: the driver copies, cuBLAS multiplies and adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np

try:
    import cupy
except ImportError as error:
    cupy, MISSING = None, f"{sys.executable} cannot import CuPy: {error}"

GIB, MIB = 1 << 30, 1 << 20
COPIED = 256 * MIB  # bytes of a copy from or to the host, where pageable memory moves some GB/s, and between GPUs
REDUCED = (1 << 10, MIB, 256 * MIB)  # bytes of the arrays of an all-reduce
LEAST, MOST, PATIENCE = 3, 50, 90.0  # repetitions; seconds that a part may take
EXACT = {"CUPY_TF32": "0", "NVIDIA_TF32_OVERRIDE": "0"}
PRODUCTS = f"gemmEx: CUBLAS_COMPUTE_32F for float32, CUBLAS_COMPUTE_64F for float64; TF32 off ({EXACT})"
POWER, DTYPES = 10, ("float32", "float64")


@dataclass(frozen=True)
class Gpu:
    """A GPU, and the stream on which all of its work is queued."""

    index: int
    stream: Any

    @contextmanager
    def current(self) -> Iterator[None]:
        with cupy.cuda.Device(self.index), self.stream:
            yield

    def mark(self) -> Any:
        with self.current():
            event = cupy.cuda.Event()
            event.record(self.stream)
        return event

    def alloc(self, size: int) -> Any:
        with self.current():
            return cupy.cuda.alloc(size)

    def copy(self, target: Any, source: Any, size: int) -> None:
        """Queue a copy of device memory. Where peers can, CuPy first lets a GPU reach the other's memory."""
        with self.current():
            target.copy_from_device_async(source, size, self.stream)

    def put(self, values: Any) -> Any:
        """A copy of the array on this GPU."""
        with self.current():
            array = cupy.asarray(values)
            self.stream.synchronize()
        return array


@dataclass(frozen=True)
class Task:
    """Work that ``queue`` puts on GPUs, ``times`` in a row. ``check`` looks at its result after all repetitions."""

    gpus: tuple[Gpu, ...]
    queue: Callable[[], object]
    times: int = 1
    check: Callable[[], float] = float

    def seconds(self) -> float:
        """The time of one, on the GPU that took longest."""
        starts = [gpu.mark() for gpu in self.gpus]
        for _ in range(self.times):
            self.queue()
        ends = [gpu.mark() for gpu in self.gpus]
        for end in ends:
            end.synchronize()
        return float(max(map(cupy.cuda.get_elapsed_time, starts, ends))) / 1e3 / self.times


def in_turn(makers: Mapping[Any, Callable[[], Task]], budget: float) -> dict[Any, Any]:
    """The times of each task and its check's result, or the reason for none. All take turns for ``budget`` seconds."""
    tasks: dict[Any, Task] = {}
    found: dict[Any, Any] = {key: [] for key in makers}

    @contextmanager
    def kept(key: Any) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            tasks.pop(key, None)
            found[key] = _reason(error)

    for key, make in makers.items():
        with kept(key):
            task = make()
            for _ in range(2):
                task.seconds()
            tasks[key] = task
    end, turn = time.monotonic() + budget, 0
    while turn < MOST and (turn < LEAST or time.monotonic() < end):
        turn += 1
        for key, task in [*tasks.items()]:
            with kept(key):
                found[key].append(task.seconds())
    for key, task in [*tasks.items()]:
        with kept(key):
            found[key] = np.array(found[key]), task.check()
    return found


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def figure(found: Any, of: Callable[[Any], Any] = np.array) -> Any:
    """The median and the quantiles of ``of(times)``, or the reason for none."""
    if isinstance(found, str):
        return found
    low, median, high = map(float, np.quantile(of(found[0]), [0.025, 0.5, 0.975]))
    return {"median": median, "low": low, "high": high, "repetitions": len(found[0])}


def rate(found: Any, size: int) -> Any:
    """Bytes per second."""
    return figure(found, lambda seconds: size / seconds)


def every_gpu() -> list[Gpu]:
    cupy.cuda.set_allocator(None)  # no pool: memory is free as soon as nothing uses it
    cupy.cuda.set_pinned_memory_allocator(None)
    found = []
    for index in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(index):
            found.append(Gpu(index, cupy.cuda.Stream(non_blocking=True)))
    return found


def gpus(_: list[int]) -> list[dict[str, Any]]:
    """Each GPU: its name, and copies within it, from the host and to the host in bytes per second."""
    runtime, large = cupy.cuda.runtime, {}
    for gpu in (every := every_gpu()):
        with gpu.current():
            large[gpu] = int(min(GIB, runtime.memGetInfo()[0] // 4))

    def within(gpu: Gpu) -> Task:
        source, target = gpu.alloc(large[gpu]), gpu.alloc(large[gpu])
        return Task((gpu,), partial(gpu.copy, target, source, large[gpu]), times=10)

    def host(gpu: Gpu, way: str, memory: str) -> Task:
        there = gpu.alloc(COPIED)
        with gpu.current():
            pinned = cupy.cuda.alloc_pinned_memory(COPIED) if memory == "pinned" else None
        pageable = np.ones(COPIED if pinned is None else 1, np.uint8)  # written once: its pages are there

        def queue() -> None:
            address = pageable.ctypes.data if pinned is None else pinned.ptr
            with gpu.current():
                (there.copy_from_host_async if way == "from_host" else there.copy_to_host_async)(address, COPIED)

        return Task((gpu,), queue)

    ways, memories = ("from_host", "to_host"), ("pageable", "pinned")
    makers: dict[Any, Callable[[], Task]] = {gpu: partial(within, gpu) for gpu in every}
    makers |= {each: partial(host, *each) for each in product(every, ways, memories)}
    found = in_turn(makers, 8.0)
    return [
        {
            "name": runtime.getDeviceProperties(gpu.index)["name"].decode(),
            "bytes": {"copy_within": large[gpu], "from_host": COPIED, "to_host": COPIED},
            "copy_within": rate(found[gpu], 2 * large[gpu]),  # read, and written
            **{way: {memory: rate(found[gpu, way, memory], COPIED) for memory in memories} for way in ways},
        }
        for gpu in every
    ]


def pairs(_: list[int]) -> list[dict[str, Any]]:
    """Each ordered pair of GPUs: whether the one reaches the other's memory, and a copy in bytes per second."""
    ways = [*permutations(every_gpu(), 2)]

    def between(one: Gpu, other: Gpu) -> Task:
        source, target = one.alloc(COPIED), other.alloc(COPIED)
        return Task((one,), partial(one.copy, target, source, COPIED), times=2)

    told = []
    for one, other in ways:  # buffers of all pairs at once would fill the GPUs
        [found] = in_turn({one: partial(between, one, other)}, 4.0 / len(ways)).values()
        reaches = bool(cupy.cuda.runtime.deviceCanAccessPeer(one.index, other.index))
        told.append({"from": one.index, "to": other.index, "peer_access": reaches, "bytes": COPIED})
        told[-1]["copy_between"] = rate(found, COPIED)
    return told


def matpow(sizes: list[int]) -> dict[str, Any]:
    """A^10 + B^10 by cuBLAS: 18 products and the sum on one GPU, or B^10 on a second, its copy added on the first."""
    from cupy import cublas
    from cupy._core import _routines_linalg, set_compute_type

    def powers(first: Gpu, second: Gpu, matrices: list[Any]) -> Task:
        held = []
        for gpu, values in zip((first, second), matrices, strict=True):
            matrix = gpu.put(values)
            with gpu.current():
                held.append((gpu, matrix, cupy.empty_like(matrix), cupy.empty_like(matrix)))
        with second.current():
            done = cupy.cuda.Event(disable_timing=True)
        (_, _, total, result), (_, _, addend, _) = held  # nine products end in the first of the two
        arrived = addend if first is second else first.put(matrices[1])

        def queue() -> None:
            for step in range(POWER - 1):  # in turn, so that both GPUs have work from the start
                for gpu, matrix, one, other in held:
                    with gpu.current():
                        (((other, one)[step % 2]) if step else matrix).dot(matrix, (one, other)[step % 2])
            if arrived is not addend:
                done.record(second.stream)
                first.stream.wait_event(done)
                first.copy(arrived.data, addend.data, addend.nbytes)
            with first.current():
                cublas.geam("N", "N", 1.0, total, 1.0, arrived, result)

        def check() -> float:
            with first.current():
                return error_of(cupy.asnumpy(result[0]), matrices)

        return Task(tuple(dict.fromkeys((first, second))), queue, check=check)

    every, told = every_gpu(), []
    for dtype in DTYPES:  # and not as the environment says
        set_compute_type(dtype, _routines_linalg.COMPUTE_TYPE_DEFAULT)
    for size in sizes:
        rng, makers = np.random.default_rng(0), dict[Any, Any]()
        drawn = [rng.random((size, size)) * (2 / size) for _ in range(2)]  # the inputs of `xbackend compare matpow`
        for dtype in DTYPES:
            cast = [matrix.astype(dtype) for matrix in drawn]
            makers |= {(dtype, n): partial(powers, every[0], every[n - 1], cast) for n in (1, 2)[: len(every)]}
        for (dtype, count), found in in_turn(makers, 10.0 / len(sizes)).items():
            told.append({"size": size, "dtype": dtype, "devices": count, "seconds": figure(found)})
            told[-1] |= {} if isinstance(found, str) else {"relative_error": found[1]}
    return {"products": PRODUCTS, "cublas": cupy.cuda.cublas.getVersion(cupy.cuda.get_cublas_handle()), "rows": told}


def error_of(found: np.ndarray, matrices: list[Any]) -> float:
    """By how much the first row of A^10 + B^10 differs from NumPy's in float64, relative to the largest entry."""
    expected = np.zeros(len(found))
    for matrix in (values.astype(np.float64) for values in matrices):
        row = matrix[0]
        for _ in range(POWER - 1):
            row = row @ matrix
        expected += row
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    if not error < 1e-2:
        raise ArithmeticError(f"the first row differs from NumPy's, relative error {error}")
    return error


def all_reduce(_: list[int]) -> dict[str, Any]:
    """NCCL's all-reduce of float32 over all GPUs; with one GPU over a communicator of one."""
    from cupy.cuda import nccl

    if not nccl.available:
        raise ImportError("CuPy finds no NCCL: pip install nvidia-nccl-cu13")
    every = every_gpu()
    communicators = nccl.NcclCommunicator.initAll([gpu.index for gpu in every])

    def summed(size: int) -> Task:
        terms, sums = ([gpu.put(np.ones(size // 4, np.float32)) for gpu in every] for _ in range(2))

        def queue() -> None:
            nccl.groupStart()
            for gpu, communicator, term, total in zip(every, communicators, terms, sums, strict=True):
                with gpu.current():
                    pointers = term.data.ptr, total.data.ptr
                    communicator.allReduce(*pointers, term.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, gpu.stream.ptr)
            nccl.groupEnd()

        def check() -> float:
            for gpu, total in zip(every, sums, strict=True):
                with gpu.current():
                    if (found := float(cupy.asnumpy(total[-1:])[0])) != len(every):
                        raise ArithmeticError(f"the sum of {len(every)} ones is {found}")
            return 0.0

        return Task(tuple(every), queue, times=20, check=check)

    found = in_turn({size: partial(summed, size) for size in REDUCED}, 4.0)
    told = [{"bytes": n, "seconds": figure(of), "bytes_per_second": rate(of, n)} for n, of in found.items()]
    for communicator in communicators:
        communicator.destroy()
    return {"devices": len(every), "nccl": nccl.get_version(), "rows": told}


PARTS: dict[str, Callable[[list[int]], Any]] = {f.__name__: f for f in (gpus, pairs, matpow, all_reduce)}


def apart(part: str, sizes: str) -> Any:
    """The figures of a part, from a process of its own, or the reason for none."""
    command, exact = [sys.executable, __file__, "--part", part, "--size", sizes], os.environ | EXACT
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=exact, check=False)
    except subprocess.TimeoutExpired:
        return f"it did not end within {PATIENCE:.0f} s"
    if ended.returncode:
        return f"its process ended with {ended.returncode}: {' '.join(ended.stderr.split()[-60:])}"
    return json.loads(ended.stdout.splitlines()[-1])  # a library may print, too


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="1024,4096", help="rows of the matrices")
    parser.add_argument("--part", choices=PARTS, help="this part alone, in this process")
    asked, start = parser.parse_args(), time.monotonic()
    if cupy is None:
        print(json.dumps({"error": MISSING}))
        return 1
    if asked.part:
        try:
            told = PARTS[asked.part]([int(size) for size in asked.size.split(",")])
        except Exception as error:
            told = _reason(error)
        print(json.dumps(told))
        return 0
    found = {part: apart(part, asked.size) for part in PARTS}
    print(json.dumps({"cupy": cupy.__version__, **found, "took": time.monotonic() - start}, indent=1))
    return int(isinstance(found["gpus"], str))


if __name__ == "__main__":
    sys.exit(main())
