"""The BLAS of the Theano lineage: the fastest one of the environment. The C linkers link to ``blas__ldflags``; Numba's
function pointers, which SciPy publishes for Cython (`scipy.linalg.cython_blas`), are replaced."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xbackend.backends import threads

CHOICE = "XBACKEND_BLAS"  # environment variable, mkl or openblas: overrides the rule of `choose`

# The BLAS routines that the two C linkers call. OpenBLAS's wheel adds a prefix to each name.
_ROUTINES = ("gemm", "gemv", "ger", "dot", "axpy", "scal", "copy", "swap", "nrm2", "asum", "symm", "syrk", "rot")
_SYMBOLS = [f"{kind}{routine}_" for kind in "sdcz" for routine in _ROUTINES]
_NUMBA_CALLS = ("sgemm", "dgemm", "sgemv", "dgemv", "sdot", "ddot")


@dataclass(frozen=True, slots=True)
class Blas:
    """A BLAS of the environment: its name, its shared library, and the prefix of its symbols."""

    name: str
    path: Path
    prefix: str = ""

    @property
    def ldflags(self) -> str:
        """The C linkers' flags for linking. They add the run-time path of every ``-L`` themselves."""
        return f"-L{self.path.parent} -l:{self.path.name}"

    @property
    def cxxflags(self) -> str:
        return " ".join(f"-D{s}={self.prefix}{s}" for s in _SYMBOLS) if self.prefix else ""

    def load(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.path))

    def describe(self) -> threads.Pool:
        """The loaded library's description of itself; without version and threads if it is not loaded."""
        mine = (p for p in threads.pools() if (p.file, p.api) == (self.path.resolve().name, "blas"))
        return replace(next(mine, threads.Pool(self.name, file=self.path.name)), library=self.name)


def _mkl() -> Blas | None:
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name.startswith("libmkl_rt.so"))
    return next((Blas("mkl", path) for path in paths), None)


def _openblas() -> Blas | None:
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "lib" / "libscipy_openblas.so"
    return Blas("openblas", path, "scipy_") if path.exists() else None


def _is_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return "intel" in platform.processor().lower()


def choose() -> Blas | None:
    """The BLAS to link to; `None` leaves the choice to the framework. MKL on Intel, where it reached 1.1 to 1.4 times
    OpenBLAS's rate, OpenBLAS elsewhere (on an AMD EPYC MKL had 0.9 times). ``XBACKEND_BLAS`` overrides the rule."""
    known = {"mkl": _mkl, "openblas": _openblas}
    wanted = os.environ.get(CHOICE)
    order = [wanted] if wanted in known else ["mkl", "openblas"] if _is_intel() else ["openblas", "mkl"]
    return next((blas for blas in (known[name]() for name in order) if blas is not None), None)


def redirect_numba(blas: Blas) -> None:
    """Make Numba compute matrix products with this BLAS, before the first product. It takes C pointers from SciPy's
    table (numba/_lapack.c: import_cython_function), where an old OpenBLAS is; both sides have Fortran's signature."""
    from scipy.linalg import cython_blas

    new, name_of = ctypes.pythonapi.PyCapsule_New, ctypes.pythonapi.PyCapsule_GetName
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    name_of.restype, name_of.argtypes = ctypes.c_void_p, [ctypes.py_object]
    library, table = blas.load(), cython_blas.__pyx_capi__
    for name in _NUMBA_CALLS:
        pointer = ctypes.cast(getattr(library, f"{blas.prefix}{name}_"), ctypes.c_void_p)
        # A capsule points to its name, which must outlive it: the old capsule's name does, as that is kept.
        old = table[name]
        _kept.append(old)
        table[name] = new(pointer, name_of(old), None)


_kept: list[Any] = []
