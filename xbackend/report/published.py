"""Published times of programs on one device and on several, to stand beside today's. As data, with their sources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """One published pair of figures: the same program on one device and on ``devices``.

    ``one`` and ``many`` are seconds, or `None` where only ``speedup`` (one device's time divided by that of many) was
    published. ``about`` says what was run and what the clock included, as far as the source tells.
    """

    source: str
    address: str
    hardware: str
    about: str
    devices: int
    one: float | None
    many: float | None
    speedup: float


_CHECK_MULTI_GPU = ("Theano pull request 3701", "https://github.com/Theano/Theano/pull/3701", "2 GPUs")

# Workload -> what was published about programs like it.
PUBLISHED: dict[str, tuple[Published, ...]] = {
    "matpow": (
        Published(
            "TensorFlow-Examples, multigpu_basics (2016)",
            "https://github.com/aymericdamien/TensorFlow-Examples",
            "2x GTX 980, 8 cores",
            "matrix powers of two 10000 x 10000 matrices; session creation, copies and first run included, once",
            2,
            11.277,
            7.132,
            1.581,
        ),
        Published(
            "TensorFlow issue 1397",
            "https://github.com/tensorflow/tensorflow/issues/1397",
            "K80",
            "the same script",
            2,
            19.0,
            28.0,
            0.68,
        ),
        Published(*_CHECK_MULTI_GPU, "check_multi_gpu, 16384 x 16384 float32", 2, 3.3497, 1.7132, 1.955),
        Published(*_CHECK_MULTI_GPU, "the same, with a transfer of the result", 2, 3.3497, 3.6355, 0.92),
        Published(*_CHECK_MULTI_GPU, "the same, two threads and a transfer", 2, 3.3497, 2.0716, 1.62),
        Published(
            "libgpuarray issue 124",
            "https://github.com/Theano/libgpuarray/issues/124",
            "2x Titan X",
            "two products of 1024 x 1024 matrices, 100 times",
            2,
            0.256,
            0.310,
            0.83,
        ),
    ),
}
