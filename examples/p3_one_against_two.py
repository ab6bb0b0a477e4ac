"""P3: A^10 + B^10 on one device and on two, both timed, the sum on the CPU.

    python examples/p3_one_against_two.py [--size N] [backend ...]

Virtual CPU devices share the machine's cores, so a large product gains nothing from two of them. For verdicts use
`xbackend compare`, which measures in fresh processes.
"""

import argparse
import time

import xbackend as xb
from xbackend.workloads import matpow, relative_error


def median_seconds(backend, run, arrays, rounds=5):
    values = run.put(*arrays)
    backend.synchronize(run.execute(*values))
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        backend.synchronize(run.execute(*values))
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[rounds // 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("backends", nargs="*", default=list(xb.backend_names()))
    options = parser.parse_args()
    arrays = matpow.inputs(size=options.size, seed=0)
    expected = matpow.oracle(*arrays, n=10)
    for name in options.backends:
        with xb.open(name, virtual_devices=2) as backend:
            times = []
            for bindings in ({"dev0": "cpu:0", "dev1": "cpu:0"}, {"dev0": "cpu:0", "dev1": "cpu:1"}):
                run = backend.compile(matpow.program(n=10), *arrays, devices=bindings)
                error = relative_error(run(*arrays), expected)
                assert error < matpow.tolerance(size=options.size, n=10), error
                times.append(median_seconds(backend, run, arrays))
            one, two = times
            print(f"{name}: one device {one * 1e3:.1f} ms, two {two * 1e3:.1f} ms, speed-up {one / two:.2f}")


if __name__ == "__main__":
    main()
