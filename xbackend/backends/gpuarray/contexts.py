"""Theano's contexts: a context for each device of CUDA, or of OpenCL that PoCL (https://portablecl.org) makes from the
CPU, by libgpuarray and Debian's pygpu, for which no other package still builds."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from xbackend.backends import system
from xbackend.devices import Device
from xbackend.errors import BackendUnavailable, DeviceUnavailable
from xbackend.files import hold

HOST = Device("cpu", 0, job="host")
"""Ops that Theano lacks for its contexts run here: in the process itself, which is none of our devices."""


def prepare(backend: str, devices: int, threads: int | None) -> None:
    """Set the number of PoCL's devices and make pygpu importable, before Theano is imported. Raises
    `BackendUnavailable`."""
    os.environ.setdefault("POCL_DEVICES", " ".join(["pthread"] * devices))
    if threads is not None:
        os.environ["POCL_MAX_PTHREAD_COUNT"] = str(threads)
    if importlib.util.find_spec("pygpu") is not None:
        return
    if lacking := system.missing(system.GPUARRAY):
        raise BackendUnavailable(
            f"backend {backend} needs packages of the system that are not there: {', '.join(lacking)}; "
            f"{system.remedy(lacking)}"
        )
    _expose_pygpu(backend)


def _expose_pygpu(backend: str) -> None:
    """Import Debian's pygpu without its folder on the path: the NumPy there must not replace ours."""
    folder = Path("/usr/lib/python3/dist-packages/pygpu")
    file = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location("pygpu", file, submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None, "a file's path always has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules["pygpu"] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        del sys.modules["pygpu"]
        raise BackendUnavailable(
            f"backend {backend} needs pygpu, and that in {folder} cannot be imported by Python "
            f"{sys.version_info[0]}.{sys.version_info[1]}: {error}; it is built for Debian's own Python"
        ) from error


def start(backend: str, gpuarray: ModuleType, wanted: int, folder: Path) -> Mapping[Device, Any]:
    """A context of pygpu for each device of CUDA, else of PoCL, known to Theano (``gpuarray``) under the device's name.
    Raises `DeviceUnavailable`, `BackendUnavailable`."""
    # One process at a time: PoCL's builds for a device failed when several began at once.
    descriptor = hold(folder)
    try:
        return _start(backend, gpuarray, wanted)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _start(backend: str, gpuarray: ModuleType, wanted: int) -> Mapping[Device, Any]:
    names = _cuda() or _pocl(backend, wanted)
    devices = {Device.parse(ours): theirs for ours, theirs in names.items()}
    if sum(d.kind == "cpu" for d in devices) < wanted and wanted > 1:
        raise DeviceUnavailable(
            f"backend {backend} was asked for virtual_devices={wanted}, and has "
            f"{', '.join(map(str, devices))}: they are made by PoCL when it starts (POCL_DEVICES="
            f"{os.environ['POCL_DEVICES']!r}); open it with isolated=True"
        )
    for device, theirs in devices.items():
        try:
            gpuarray.init_dev(theirs, str(device), preallocate=0)
        except Exception as error:  # pygpu's errors are plain exceptions with the driver's words
            raise BackendUnavailable(
                f"backend {backend} cannot use {theirs}: {type(error).__name__}: {error}; clinfo shows what OpenCL has"
            ) from error
    gpuarray.use("")
    return {device: gpuarray.get_context(str(device)) for device in devices}


def _cuda() -> dict[str, str]:
    from pygpu.gpuarray import GpuArrayException, count_devices

    try:
        return {f"gpu:{i}": f"cuda{i}" for i in range(count_devices("cuda", 0))}
    except GpuArrayException:  # no libcuda, or no device: a machine without a GPU
        return {}


def _pocl(backend: str, wanted: int) -> dict[str, str]:
    from pygpu.gpuarray import GpuArrayException, count_devices, count_platforms, init

    try:
        for platform in range(count_platforms("opencl")):
            if init(f"opencl{platform}:0").devname.startswith(("pthread", "cpu", "basic")):
                count = min(count_devices("opencl", platform), wanted)
                return {f"cpu:{i}": f"opencl{platform}:{i}" for i in range(count)}
    except GpuArrayException as error:
        raise BackendUnavailable(f"backend {backend} found no device of OpenCL: {error}; clinfo shows why") from error
    raise BackendUnavailable(
        f"backend {backend} found neither a device of CUDA nor one of PoCL; {system.remedy(['pocl-opencl-icd'])}"
    )
