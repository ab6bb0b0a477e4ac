"""What backends need of the operating system beside their environment: Debian's names, and how to see what is there."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemPackage:
    """A package of Debian and Ubuntu. ``sign`` shows that it, or the same from elsewhere, is there: a command on the
    PATH, or a pattern of files.
    """

    name: str
    sign: str

    @property
    def is_there(self) -> bool:
        """Whether it is installed, by its sign."""
        return bool(glob.glob(self.sign) if "/" in self.sign else shutil.which(self.sign))


COMPILER = SystemPackage("g++", "g++")
PYGPU = SystemPackage("python3-pygpu", "/usr/lib/python3/dist-packages/pygpu/gpuarray.cpython-*.so")
GPUARRAY = (
    COMPILER,
    PYGPU,
    SystemPackage("libgpuarray-dev", "/usr/include/gpuarray/config.h"),
    SystemPackage("pocl-opencl-icd", "/etc/OpenCL/vendors/pocl.icd"),
    SystemPackage("libclblast-dev", "/usr/lib/*/libclblast.so"),
)


def missing(packages: Iterable[SystemPackage]) -> tuple[str, ...]:
    """The names of those that are not there."""
    return tuple(package.name for package in packages if not package.is_there)


def remedy(names: Iterable[str]) -> str:
    """What to type to have them (Debian, Ubuntu)."""
    return f"apt-get install {' '.join(names)}"
