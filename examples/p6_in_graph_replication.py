"""P6: in-graph replication: the rows are split over the devices, multiplied on each, and concatenated on the CPU.

    python examples/p6_in_graph_replication.py [backend ...]

[[1,2,3],[4,5,6],[7,8,9],[10,11,12]] times [[1],[1],[2]] is [[9],[21],[33],[45]]. Three devices get 2, 1 and 1 of the
four rows (`tf.split` refuses that). The weights are transferred to each device once.
"""

import sys

import numpy as np

import xbackend as xb

ROWS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
WEIGHTS = np.array([[1], [1], [2]], np.float32)


def product(rows, weights):
    return rows @ weights


def main(names, replicas=3):
    devices = [f"dev{i}" for i in range(replicas)]
    replicated = xb.strategies.replicate(product, devices=devices, split="rows", on="cpu:0")
    for name in names:
        with xb.open(name, virtual_devices=replicas) as backend:
            bindings = {device: f"cpu:{i}" for i, device in enumerate(devices)}
            run = backend.compile(replicated, ROWS, WEIGHTS, devices=bindings)
            print(f"{name}: rows {run(ROWS, WEIGHTS).tolist()}")
            print(run.placement)
            print(run.placement.listing())


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
