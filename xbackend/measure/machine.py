"""The machine that is measured on, and a fingerprint of its lasting properties."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

from xbackend import cores, limits
from xbackend.measure.load import foreign_load
from xbackend.measure.memory_watch import told
from xbackend.results.schema import Machine
from xbackend.wording import counted

_DRIVER = "driver"
GPUS = Path("/proc/driver/nvidia/gpus")
LOADED = 0.5  # the load average for each core above which others may be at work
LOOK = 0.5  # seconds over which the cores are looked at


def load() -> float | None:
    """The load average of the last minute; `None` where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def load_warnings() -> list[str]:
    """Whether others are at work before anything is measured. It looks at the cores only after a busy minute: the load
    average counts that minute's work of this session, too, such as an installation."""
    now = load()
    if now is None or now <= LOADED * cores.count():
        return []
    with foreign_load() as others:
        time.sleep(LOOK)
    if others[0] <= cores.FOREIGN:
        return []
    return [
        f"other programs were busy when the session began (load average {now:.1f} on {cores.count()} cores): close "
        "them, or wait a minute, and measure again"
    ]


def quota_warnings(threads: int, devices: int = 1) -> list[str]:
    """Whether a control group allows less processor time than ``threads`` on each of these ``devices`` would use."""
    most, busy = limits.cores(), threads * devices
    if busy < most + 1:
        return []
    option, each = ("--threads", math.ceil(most)) if devices == 1 else ("--cores-per-device", int(most / devices) or 1)
    return [
        f"processes were held up: {counted(busy, 'thread')} shared the time of {most:.3g} cores "
        f"(cpu.max of the control group): give {option} {each}"
    ]


def nvidia_smi(query: str, form: str = "--format=csv,noheader") -> list[str] | None:
    """The lines that nvidia-smi answers; `None` where there is no nvidia-smi or it fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, query, *filter(None, [form])]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return [line.strip() for line in answer.splitlines() if line.strip()]


def accelerator_processes(own: Collection[int] = ()) -> list[str] | None:
    """The processes that compute on the NVIDIA GPUs now but for our ``own``, in words, as nvidia-smi lists them.

    `None` where there is no nvidia-smi or it fails. In a container it may list none although there are some.
    """
    lines = nvidia_smi("--query-compute-apps=pid,process_name,used_memory")
    ours = set(map(str, own))
    pids = {line: line.partition(",")[0].strip() for line in lines or ()}
    # Without a number it is a sentence, or [N/A], [Insufficient Permissions] and the like in the place of all.
    others = [f"process {line}" for line, pid in pids.items() if pid.isdecimal() and pid not in ours]
    return None if lines is None else others


def accelerator_memory() -> list[int]:
    """Bytes that are free on each NVIDIA GPU, where nvidia-smi tells."""
    lines = nvidia_smi("--query-gpu=memory.free") or []
    free = [line.removesuffix(" MiB") for line in lines]
    return [int(count) << 20 for count in free if count.isdecimal()]


def machine() -> Machine:
    """This machine.

    The fingerprint is over processor, cores, memory (whole GiB), system and accelerators. Python, the releases of the
    kernel and of the driver and the clock frequency of the moment are no part of it.
    """
    memory, gpus = limits.machine_memory(), accelerators()
    system = f"{platform.system()} {platform.machine()}"
    names = [gpu.partition(f" ({_DRIVER} ")[0] for gpu in gpus]
    stable = [_processor(), cores.count(), round(memory / (1 << 30)), system, names]
    fingerprint = hashlib.sha256(json.dumps(stable).encode()).hexdigest()[:16]
    return Machine(
        processor=_processor(),
        cores=cores.count(),
        memory_bytes=memory,
        system=system,
        python=platform.python_version(),
        accelerators=gpus,
        fingerprint=fingerprint,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def available_memory() -> int:
    """Bytes of main memory that processes may still take; all of it where the system does not tell."""
    available = told(Path("/proc/meminfo"), "MemAvailable")
    return int(min(limits.machine_memory() if available is None else available, limits.free_memory()))


def accelerators() -> list[str]:
    """NVIDIA GPUs by the name that the driver gives them, with its version where nvidia-smi tells."""
    told = [line.rpartition(", ") for line in nvidia_smi("--query-gpu=name,driver_version") or []]
    if known := [f"{name} ({_DRIVER} {version})" for name, comma, version in told if comma]:
        return known
    files = sorted(GPUS.glob("*/information"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
