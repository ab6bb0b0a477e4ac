"""The memory and the processor time that this process may use: the machine's, or the limit of a control group, such as
a container's, if that is less.

Only version 2 of control groups is read: https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from pathlib import Path

ROOT = Path("/")  # has the system's files


def groups(root: Path = ROOT) -> list[Path]:
    """The folders of the process's control group and of its ancestors, whose limits hold too."""
    folder, own = root / "sys/fs/cgroup", ""
    with suppress(OSError):  # not Linux
        said = os.fsdecode((root / "proc/self/cgroup").read_bytes())
        own = next((line[len("0::/") :] for line in said.splitlines() if line.startswith("0::/")), "")
    return [folder / own, *(folder / own).parents]


def machine_memory() -> int:
    """Bytes of the machine's main memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def memory(root: Path = ROOT) -> float:
    """Bytes of memory that this process may use; infinite where the system does not tell."""
    return min(machine_memory() or inf, *(_number(group, "memory.max") for group in groups(root)))


def free_memory(root: Path = ROOT) -> float:
    """Bytes of memory that the control groups still allow; infinite without a limit.

    Cached pages of files that the kernel can drop count as free.
    """
    return min(map(_free, groups(root)))


def cores(root: Path = ROOT) -> float:
    """Processor seconds per second that the control groups allow; infinite without a limit."""
    return min(map(_cores, groups(root)))


def _number(group: Path, file: str) -> float:
    # There may be no such group, as the path in a container may be the host's, and "max" is no limit.
    with suppress(OSError, ValueError):
        return int((group / file).read_text(encoding="ascii"))
    return inf


def _free(group: Path) -> float:
    most, used = _number(group, "memory.max"), _number(group, "memory.current")
    if inf in (most, used):
        return inf
    with suppress(OSError):
        lines = (line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        used -= sum(int(count) for name, count in lines if name == "inactive_file")
    return max(0, most - used)


def _cores(group: Path) -> float:
    with suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        return int(quota) / int(period)
    return inf
