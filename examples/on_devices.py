"""P1 to P6 on devices that you name, such as a GPU and the CPU, on backends in environments that you name.

    python examples/on_devices.py --devices gpu:0,cpu:0 [--env jax=PATH ...] [backend ...]

Each program is that of its own file, bound to these devices. Its values must be the published ones, and the placement
must show every op on its device; one that fails says FAILED and why, and the next one is run.
"""

import argparse
import sys

import numpy as np
import p1_name_devices as p1
import p2_two_devices as p2
import p3_one_against_two as p3
import p4_shared_variable as p4
import p5_model_parallel as p5
import p6_in_graph_replication as p6

import xbackend as xb
from xbackend.measure import matrix
from xbackend.results import naming
from xbackend.workloads import matpow, relative_error


def ran(run):
    """The placement in words, after checking that each op ran on its device."""
    run.placement.check()
    devices = sorted({record.executed for record in run.placement.ops if record.executed})
    return f"on {', '.join(devices)}: {run.placement}"


def name_devices(backend, first, second):
    def pinned(a, b):
        with xb.device(first):
            return a @ b

    run = backend.compile(pinned, p1.A, p1.B)
    np.testing.assert_array_equal(run(p1.A, p1.B), [[22, 28], [49, 64]])
    yield ran(run)
    run = backend.compile(p1.on_default_device, p1.A, p1.B)
    np.testing.assert_array_equal(run(p1.A, p1.B), [[22, 28], [49, 64]])
    yield f"default {ran(run)}"


def two_devices(backend, first, second):
    run = backend.compile(p2.two_products, p2.A, p2.B, devices={"dev0": first, "dev1": second})
    np.testing.assert_array_equal(run(p2.A, p2.B), [[44, 56], [98, 128]])
    yield ran(run)


def one_against_two(backend, first, second, size=512):
    arrays = matpow.inputs(size=size, seed=0)
    expected = matpow.oracle(*arrays, n=10)
    for devices in ({"dev0": first, "dev1": first}, {"dev0": first, "dev1": second}):
        run = backend.compile(matpow.program(n=10), *arrays, devices=devices)
        error = relative_error(run(*arrays), expected)
        assert error < matpow.tolerance(size=size, n=10), error
        seconds = p3.median_seconds(backend, run, arrays)
        yield f"size {size}, {seconds * 1e3:.2f} ms, error {error:.1e}, {ran(run)}"


def shared_variable(backend, first, second):
    devices = {"dev0": first, "dev1": second}
    run = backend.compile(p4.doubled, devices=devices)
    np.testing.assert_array_equal(run(), [2, 4, 6])
    backend.compile(p4.increment, devices={"dev0": first})()
    np.testing.assert_array_equal(run(), [4, 6, 8])
    yield ran(run)


def model_parallel(backend, first, second):
    one, expected = p5.train(backend, {"dev0": first, "dev1": first})
    two, found = p5.train(backend, {"dev0": first, "dev1": second})
    np.testing.assert_allclose(two, one, atol=1e-5)
    for name, weights in found.items():
        np.testing.assert_allclose(weights, expected[name], atol=1e-5)
    yield f"losses {two[0]:.5f} to {two[-1]:.5f} on one device and on two"


def in_graph_replication(backend, first, second):
    devices = {"dev0": first, "dev1": second}
    replicated = xb.strategies.replicate(p6.product, devices=tuple(devices), split="rows", on="cpu:0")
    run = backend.compile(replicated, p6.ROWS, p6.WEIGHTS, devices=devices)
    np.testing.assert_array_equal(run(p6.ROWS, p6.WEIGHTS), [[9], [21], [33], [45]])
    yield ran(run)


PROGRAMS = (name_devices, two_devices, one_against_two, shared_variable, model_parallel, in_graph_replication)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", required=True, help="two of them: gpu:0,cpu:0")
    parser.add_argument("--size", type=int, default=512, help="rows of P3's matrices")
    parser.add_argument("--env", action="append", default=[], help="as of xbackend compare: jax=PATH")
    parser.add_argument("backends", nargs="*", default=None)
    options = parser.parse_args()
    first, second = map(str, map(xb.Device.parse, options.devices.split(",")))
    cpus = [xb.Device.parse(d).index for d in (first, second) if d.startswith("cpu")]
    failed = 0
    for name, environment in matrix.runs(options.backends or None, options.env):
        label = naming.label(name, environment)
        with xb.open(name, virtual_devices=max(cpus, default=0) + 1, environment=environment or None) as backend:
            print(f"{label}: devices {', '.join(map(str, backend.devices))}, default {backend.default_device}")
            for number, program in enumerate(PROGRAMS, 1):
                try:
                    own = {"size": options.size} if program is one_against_two else {}
                    for said in program(backend, first, second, **own):
                        print(f"{label}: P{number} {said}", flush=True)
                except (xb.errors.XBackendError, AssertionError) as error:
                    failed += 1
                    print(f"{label}: P{number} FAILED: {' '.join(str(error).split())}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
