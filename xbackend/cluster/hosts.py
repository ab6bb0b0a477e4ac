"""Tasks on other hosts: their processes are started by ssh.

Every host has xbackend, its environments and the interpreter at the same paths as this one. It lets this user in
without a question. ``XBACKEND_SSH`` replaces ``ssh``: a command with its options. This file is also a script, of the
standard library alone, that runs on the other host for MPI:

    python -I -S hosts.py meet SOCKET DESCRIPTOR COMMAND...     become COMMAND, with the connection as that descriptor
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

VARIABLE = "XBACKEND_SSH"
_CONNECT = 5  # seconds
# The connection to a host that is silent for three seconds is closed.
_OPTIONS = ("-oBatchMode=yes", "-oServerAliveInterval=1", "-oServerAliveCountMax=3", f"-oConnectTimeout={_CONNECT}")
_OPTIONS_OF_SOCKETS = ("-oStreamLocalBindUnlink=yes", "-oExitOnForwardFailure=yes")
DESCRIPTOR = 64  # number of the connection that a process on another host inherits


def there(host: str, command: Sequence[str], forward: tuple[str, str] | None = None) -> list[str]:
    """A command that runs ``command`` on a host, with input and output connected to this process. ``forward``: a
    socket's path on the host, and the local path that it leads to."""
    options = list(_OPTIONS)
    if forward is not None:
        options += [*_OPTIONS_OF_SOCKETS, "-R", ":".join(forward)]
    return [*shlex.split(os.environ.get(VARIABLE) or "ssh"), *options, host, shlex.join(command)]


def await_hosts(hosts: Sequence[str], limit: float) -> None:
    """Wait until all hosts let this user in. Raises `ClusterError` with ssh's message after ``limit`` seconds."""
    from xbackend.errors import ClusterError  # the script runs without xbackend

    end = time.monotonic() + limit
    for host in hosts:
        while said := away(host, max(1.0, end - time.monotonic())):
            if time.monotonic() > end:
                raise ClusterError(
                    f"host {host} cannot be reached within {limit:g} s: {said}; this has to work without a question: "
                    + shlex.join(there(host, ["true"]))
                )
            time.sleep(0.5)


def away(host: str, limit: float = 2.0 * _CONNECT) -> str:
    """Ssh's message where a host does not let this user in within ``limit`` seconds; else empty."""
    command = there(host, ["true"])
    try:
        tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return "it lets this user in and does nothing"
    except OSError as error:
        return f"{command[0]} cannot be started: {error}"
    said = tried.stderr.decode("utf-8", "replace").strip() or f"exit code {tried.returncode}"
    return said if tried.returncode else ""


def via_socket(path: str, command: Sequence[str]) -> list[str]:
    """A command that connects to a socket's path on its host, and then becomes ``command`` with the connection."""
    script = os.path.abspath(__file__)
    return [command[0], "-I", "-S", script, "meet", path, str(DESCRIPTOR), *command]


def _main(words: Sequence[str]) -> None:
    _, path, descriptor, *command = words
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(path)
        os.dup2(own.fileno(), int(descriptor), inheritable=True)
    os.unlink(path)
    os.execv(command[0], command)


if __name__ == "__main__":
    _main(sys.argv[1:])
