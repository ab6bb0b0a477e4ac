"""System packages that backends need beside their environment: Debian's names, and how to detect them."""

from __future__ import annotations

import glob
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemPackage:
    """A package of Debian and Ubuntu. ``name``: apt's, with ``{python}`` for the version of the Python that needs it,
    as '3.11'. ``sign``: commands on the PATH or patterns of files, with ``{include}`` for the folder of that Python's C
    headers; any of them shows this package or an equivalent. ``gives``: its use."""

    name: str
    sign: str
    gives: str = ""

    def is_there(self, include: str) -> bool:
        signs = (sign.format(include=include) for sign in self.sign.split())
        return any(glob.glob(sign) if "/" in sign else shutil.which(sign) for sign in signs)


COMPILER = SystemPackage("g++", "g++", "a C++ compiler")
HEADERS = SystemPackage("python{python}-dev", "{include}/Python.h", "C headers of Python")
PYGPU = SystemPackage("python3-pygpu", "/usr/lib/python3/dist-packages/pygpu/gpuarray.cpython-*.so", "pygpu")
C_LINKER = (COMPILER, HEADERS)
GPUARRAY = (
    *C_LINKER,
    PYGPU,
    SystemPackage("libgpuarray-dev", "/usr/include/gpuarray/config.h", "libgpuarray, which pygpu drives devices with"),
    SystemPackage("pocl-opencl-icd", "/etc/OpenCL/vendors/pocl.icd", "PoCL: the CPU as a device of OpenCL"),
    SystemPackage("libclblast-dev", "/usr/lib/*/libclblast.so", "products of matrices for OpenCL"),
)
BROWSER = SystemPackage(
    "chromium-headless-shell",
    "chromium-headless-shell chromium chromium-browser google-chrome",
    "a browser, for the tests that look at pages",
)
HOSTS = (
    SystemPackage("openssh-server", "sshd /usr/sbin/sshd", "ssh's server, for the tests with several hosts"),
    SystemPackage("openssh-client", "ssh", "ssh, for clusters on several hosts and their tests"),
    SystemPackage("iproute2", "ip", "network namespaces, for the tests with several hosts"),
)
# Packages that tests need, by topic.
TESTS = {"reports' pages": (BROWSER,), "clusters on several hosts": HOSTS}


def missing(packages: Iterable[SystemPackage], python: str = "", include: str = "") -> tuple[str, ...]:
    """The names of the missing packages, for a version of Python and the folder of its C headers; by default those of
    the running Python."""
    python = python or f"{sys.version_info[0]}.{sys.version_info[1]}"
    include = include or sysconfig.get_path("include", vars={"installed_base": sys.base_prefix})
    return tuple(package.name.format(python=python) for package in packages if not package.is_there(include))


def remedy(names: Iterable[str]) -> str:
    """The command that installs these packages, with apt's own."""
    return f"xbackend doctor --install (apt-get install {' '.join(names)})"


def is_known() -> bool:
    """Whether this system has packages of these names: Debian, Ubuntu and their derivatives."""
    return shutil.which("apt-get") is not None
