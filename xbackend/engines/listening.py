"""The addresses that this process listens on."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path


def listening() -> list[str]:
    """The TCP addresses that this process listens on, read from /proc (Linux)."""
    inodes = set()
    with contextlib.suppress(OSError):
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(link.readlink()))
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                    found.append(_address(words[1], family))
    return sorted(found)


def _address(text: str, family: socket.AddressFamily) -> str:
    host, port = text.split(":")
    words = [bytes.fromhex(host[k : k + 8])[::-1] for k in range(0, len(host), 8)]
    name = socket.inet_ntop(family, b"".join(words))
    return f"[{name}]:{int(port, 16)}" if family == socket.AF_INET6 else f"{name}:{int(port, 16)}"
