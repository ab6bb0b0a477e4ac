"""Environment variables by which a framework or one of its libraries computes or compiles otherwise than by default."""

from __future__ import annotations

import os

from xbackend.backends import threads

_PREFIXES = (
    *("OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "ONEDNN_", "DNNL_", "NPY_", "OMP_", "GOMP_", "KMP_", "NUMBA_", "MLX_"),
    *("XLA_", "JAX_", "AESARA_FLAGS", "PYTENSOR_FLAGS", "THEANO_FLAGS", "GLIBC_TUNABLES", "LD_PRELOAD"),
    # TensorFlow's own: other programs' names begin with TF_, too.
    *("TF_ENABLE_", "TF_DISABLE_", "TF_XLA_", "TF_GPU_", "TF_CUDNN_", "TF_NUM_", "TF_USE_", "TF_FORCE_"),
    *("TF_DETERMINISTIC_", "TF_ONEDNN_", "TF_MKL_", "NVIDIA_TF32_OVERRIDE", "CUBLAS_", "CUDNN_"),
)
# Variables that we give each process, that threadpoolctl sets, or that choose a folder or what is printed.
_WITHOUT = (*threads.VARIABLES, "KMP_DUPLICATE_LIB_OK", "NUMBA_CACHE_DIR", "OPENBLAS_VERBOSE", "MKL_VERBOSE")


def chosen() -> dict[str, str]:
    """Those that are set and not empty, by name. The workers inherit them."""
    names = sorted(name for name in os.environ if name.startswith(_PREFIXES) and not name.startswith(_WITHOUT))
    return {name: os.environ[name] for name in names if os.environ[name]}


def warnings() -> list[str]:
    """Which of them are set, as a row is to be the framework as its users get it."""
    found = chosen()
    if not found:
        return []
    said = ", ".join(f"{name}={value}" for name, value in found.items())
    them = "it" if len(found) == 1 else "them"
    return [
        f"set in the environment, and may change what is computed and how fast: {said}; unset {them} for the default"
    ]
