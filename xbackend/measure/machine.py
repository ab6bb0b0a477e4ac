"""The machine that is measured on, and a fingerprint of what about it does not change."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

from xbackend import cores
from xbackend.results.schema import Machine

_GIB = 1 << 30
LOADED = 0.5  # of a core for each core: the load average above which others are at work


def load() -> float | None:
    """The load average of the last minute; `None` where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def load_warnings() -> list[str]:
    """Whether others are at work before anything is measured."""
    now = load()
    if now is None or now <= LOADED * cores.count():
        return []
    return [
        f"the load average was {now:.1f} on {cores.count()} cores when the session began: end other processes, or wait "
        "a minute after a build or another session, and measure again"
    ]


def accelerator_processes() -> list[str] | None:
    """The processes that compute on the NVIDIA GPUs now, in words, as nvidia-smi lists them.

    `None` where there is no nvidia-smi or it fails. In a container it may list none although there are some.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return [f"process {line.strip()}" for line in answer.splitlines() if line.strip()]


def machine() -> Machine:
    """This machine.

    The fingerprint is over processor, cores, memory (whole GiB), system and accelerators. Python, the kernel's release
    and the clock frequency of the moment are no part of it.
    """
    memory = _memory()
    system = f"{platform.system()} {platform.machine()}"
    stable = [_processor(), cores.count(), round(memory / _GIB), system, accelerators()]
    fingerprint = hashlib.sha256(json.dumps(stable).encode()).hexdigest()[:16]
    return Machine(
        processor=_processor(),
        cores=cores.count(),
        memory_bytes=memory,
        system=system,
        python=platform.python_version(),
        accelerators=accelerators(),
        fingerprint=fingerprint,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> int:
    """Bytes of main memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def available_memory() -> int:
    """Bytes of main memory that processes may still take; all of it where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return _memory()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), _memory())


def accelerators() -> list[str]:
    """NVIDIA GPUs by the name that the driver gives them."""
    files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
