"""Sets up the network of a host, from within its namespace: TCP as a cluster has it, frames no larger than the link's.

    python host.py INTERFACE

The buffers hold a message and there is no slow start, so that what is measured is the link. Standard library only.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from array import array
from pathlib import Path

_SETTINGS = {
    "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "0",
    "tcp_no_metrics_save": "1",
    "tcp_rmem": "4096 8388608 33554432",
    "tcp_wmem": "4096 8388608 33554432",
}
_ETHTOOL = 0x8946  # SIOCETHTOOL
_OFF = (0x1F, 0x24, 0x17)  # ETHTOOL_STSO, _SGSO, _STXCSUM: the relay takes frames as they are on a wire


def main(interface: str) -> None:
    for key, value in _SETTINGS.items():
        Path(f"/proc/sys/net/ipv4/{key}").write_text(value)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for command in _OFF:
            setting = array("B", struct.pack("II", command, 0))
            fcntl.ioctl(one, _ETHTOOL, struct.pack("16sP16x", interface.encode(), setting.buffer_info()[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
