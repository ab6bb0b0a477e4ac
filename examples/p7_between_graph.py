"""P7: between-graph replication. Every worker builds its own graph. Variables with one name on one device share one
storage: all workers add to it, and no update is lost.

xbackend cluster run examples/p7_between_graph.py --backend tensorflow --workers 3 --ps 1 --asynchronous
"""

import numpy as np

import xbackend as xb


@xb.job(steps=100)
def add_rank(task):
    """Each worker adds its rank, counted from 1."""
    total = xb.shared(np.float64(0.0), "total", device="/job:ps/task:0")
    xb.update(total, total + (task.index + 1.0))
    return total
