"""P6: in-graph replication: the rows are split over the devices, multiplied on each, and concatenated on the CPU.

    python examples/p6_in_graph_replication.py [backend ...]

[[1,2,3],[4,5,6],[7,8,9],[10,11,12]] times [[1],[1],[2]] is [[9],[21],[33],[45]]. Four rows on three devices are spread
as 2, 1 and 1.
"""

import sys

import numpy as np

import xbackend as xb

ROWS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
WEIGHTS = np.array([[1], [1], [2]], np.float32)


def replicated(rows, weights, replicas=3):
    sizes = [rows.shape[0] // replicas + (i < rows.shape[0] % replicas) for i in range(replicas)]
    results, start = [], 0
    for i, size in enumerate(sizes):
        with xb.device(f"dev{i}"):
            results.append(rows[start : start + size] @ weights)
        start += size
    with xb.device("cpu:0"):
        return xb.concat(results)


def main(names, replicas=3):
    for name in names:
        with xb.open(name, virtual_devices=replicas) as backend:
            bindings = {f"dev{i}": f"cpu:{i}" for i in range(replicas)}
            run = backend.compile(replicated, ROWS, WEIGHTS, devices=bindings, replicas=replicas)
            print(f"{name}: rows {run(ROWS, WEIGHTS).tolist()}")


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
