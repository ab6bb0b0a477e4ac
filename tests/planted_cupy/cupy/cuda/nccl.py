"""NCCL: the sums are made when a group ends."""

import ctypes
import os

import numpy as np

from cupy.cuda import work

available = "PLANTED_NO_NCCL" not in os.environ
NCCL_FLOAT32, NCCL_SUM = 7, 0
_grouped = []


def get_version():
    return 22707


def groupStart():
    _grouped[:] = [True]


def groupEnd():
    terms = [_at(source, size).copy() for source, _, size in _grouped[1:]]
    for _, target, size in _grouped[1:]:
        _at(target, size)[:] = sum(terms)
    _grouped.clear()


def _at(address, size):
    return np.frombuffer((ctypes.c_float * size).from_address(address), np.float32)


class NcclCommunicator:
    @staticmethod
    def initAll(which):
        if "PLANTED_CRASH" in os.environ:
            os.abort()
        return [NcclCommunicator() for _ in which]

    def allReduce(self, source, target, size, dtype, op, stream):  # noqa: PLR0917
        assert _grouped and dtype == NCCL_FLOAT32 and op == NCCL_SUM
        _grouped.append((source, target, size))
        work(size / 1e6, "all_reduce")

    def destroy(self):
        pass
