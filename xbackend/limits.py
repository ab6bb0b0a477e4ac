"""The limits of the control groups that this process is in, such as a container's: memory and processor time.

Version 2 of control groups alone is read: https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from pathlib import Path

ROOT = Path("/")  # has the system's files


def groups(root: Path = ROOT) -> list[Path]:
    """The folders of the process's control group and of those around it, which limit it too."""
    folder, own = root / "sys/fs/cgroup", ""
    with suppress(OSError):  # not Linux
        said = os.fsdecode((root / "proc/self/cgroup").read_bytes())
        own = next((line[len("0::/") :] for line in said.splitlines() if line.startswith("0::/")), "")
    return [folder / own, *(folder / own).parents]


def memory(root: Path = ROOT) -> float:
    """Bytes of memory that the groups allow; infinite without a limit."""
    return min((_number(group, "memory.max") for group in groups(root)), default=inf)


def free_memory(root: Path = ROOT) -> float:
    """Bytes of memory that the groups still allow; files' pages that the kernel can drop count as free."""
    return min((_free(group) for group in groups(root)), default=inf)


def cores(root: Path = ROOT) -> float:
    """Processor seconds in a second that the groups allow; infinite without a limit."""
    return min((_cores(group) for group in groups(root)), default=inf)


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
