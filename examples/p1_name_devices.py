"""P1: name the devices, see where each op ran, pin ops to a device, and see the default device.

    python examples/p1_name_devices.py [backend ...]

The product of [[1,2,3],[4,5,6]] and [[1,2],[3,4],[5,6]] is [[22,28],[49,64]]. A missing device is an error that names
the devices, never a silent fallback.
"""

import sys

import numpy as np

import xbackend as xb

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def pinned(a, b):
    with xb.device("/cpu:0"):
        return a @ b


def on_default_device(a, b):
    return a @ b


def on_missing_device(a, b):
    with xb.device("/gpu:7"):
        return a @ b


def main(names):
    for name in names:
        with xb.open(name) as backend:
            print(f"{name}: devices {', '.join(map(str, backend.devices))}, default {backend.default_device}")
            run = backend.compile(pinned, A, B)
            print(f"{name}: pinned {run(A, B).tolist()}")
            print(run.placement)
            print(run.placement.listing())
            print(f"{name}: default {backend.compile(on_default_device, A, B)(A, B).tolist()}")
            try:
                backend.compile(on_missing_device, A, B)
            except xb.errors.DeviceUnavailable as error:
                print(f"{name}: refused: {error}")


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
