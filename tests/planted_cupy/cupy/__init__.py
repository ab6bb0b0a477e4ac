"""As much of CuPy as bench/gpu_limits.py calls, with NumPy behind it.

It raises where work is queued on another device than its memory's, or on the stream of another one. Time is a counter:
work takes as long as it has bytes or products. Variables PLANTED_... say how many GPUs there are, and what fails.
"""

import numpy as np

from cupy.cuda import MemoryPointer, current, work

__version__ = "14.2.0"


class ndarray(np.ndarray):
    """An array; ``home`` is its device."""

    def __array_finalize__(self, other):
        self.home = getattr(other, "home", current())

    @property
    def data(self):
        return MemoryPointer(np.asarray(self).reshape(-1).view(np.uint8), self.home)

    def dot(self, other, out):
        assert {self.home, other.home, out.home} == {current()}, "an operand on another device"
        assert not np.shares_memory(self, out) and not np.shares_memory(other, out)
        np.matmul(np.asarray(self), np.asarray(other), out=np.asarray(out))
        work(1.0 + current(), "dot")  # the second GPU is slow: what does not wait for it is seen


def asarray(values):
    return np.array(values).view(ndarray)


def empty_like(array):
    return np.full_like(array, np.nan, subok=False).view(ndarray)


def asnumpy(array):
    assert array.home == current()
    return np.array(array)
