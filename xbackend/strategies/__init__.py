"""``xbackend.strategies``: how a program is spread over devices.

A strategy turns a function, or a traced program, into one that computes the same on several devices. It only adds nodes
to the program being traced. So it works on every backend, and gradients, placement and drawings need not know it.

- In-graph replication (data parallel) is `replicate`.
- Model parallel is a placement and needs no strategy: the function says with `xbackend.device` where each part runs.
- Both together: `replicate` such a function, with a mapping of its logical devices for each replica.

The strategies of training also make the variables and the step (`strategy.py`): `OneDevice`, `Towers`, `Mirrored` and
`ModelParallel`. Data times model parallel is `Towers` or `Mirrored` with such mappings.
"""

from xbackend.strategies.named import Mirrored, ModelParallel, OneDevice, Towers
from xbackend.strategies.replication import Replica, replicate
from xbackend.strategies.strategy import Copy, Strategy

__all__ = ["Copy", "Mirrored", "ModelParallel", "OneDevice", "Replica", "Strategy", "Towers", "replicate"]
