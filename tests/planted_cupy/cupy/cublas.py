"""cuBLAS."""

import os

import numpy as np

from cupy.cuda import current, work


def geam(transa, transb, alpha, a, beta, b, out):  # noqa: PLR0917
    assert {a.home, b.home, out.home} == {current()} and (transa, transb) == ("N", "N")
    np.asarray(out)[:] = alpha * np.asarray(a) + beta * np.asarray(b) + float(os.environ.get("PLANTED_WRONG", "0"))
    work(1.0, "geam")
