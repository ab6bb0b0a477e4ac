"""P2: the same product on two devices, their sum on the CPU.

    python examples/p2_two_devices.py [backend ...]

The result is [[44,56],[98,128]]. The placement shows the two products on their devices, and the transfers.
"""

import sys

import numpy as np

import xbackend as xb

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def two_products(a, b):
    products = []
    for name in ("dev0", "dev1"):
        with xb.device(name):
            products.append(a @ b)
    with xb.device("cpu:0"):
        return products[0] + products[1]


def main(names):
    for name in names:
        with xb.open(name, virtual_devices=2) as backend:
            run = backend.compile(two_products, A, B, devices={"dev0": "cpu:0", "dev1": "cpu:1"})
            print(f"{name}: total {run(A, B).tolist()}")
            print(run.placement)
            print(run.placement.listing())


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
