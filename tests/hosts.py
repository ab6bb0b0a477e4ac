"""Hosts on one machine: network namespaces with their own addresses, joined by a bridge, each with an ssh server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PORT = 2222
_SERVER = """
Port {port}
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
"""
_CLIENT = """
Host *
 Port {port}
 IdentityFile {folder}/key
 IdentitiesOnly yes
 StrictHostKeyChecking yes
 UserKnownHostsFile {folder}/known
 GlobalKnownHostsFile /dev/null
"""


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{' '.join(words)}: {done.stderr}"


def _commands(name: str) -> Iterator[tuple[int, bytes]]:
    """The processes of a namespace with their command lines."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
    for pid in map(int, listed.split()):
        with suppress(OSError):
            if line := Path(f"/proc/{pid}/cmdline").read_bytes():
                yield pid, line


class Hosts:
    """Several hosts, and a namespace beside them that reaches them, in which `command` runs."""

    def __init__(self, folder: Path, count: int, number: int) -> None:
        self.folder = folder
        self.outside = f"xb{os.getpid()}-{number}"
        self.names = [f"{self.outside}-{k}" for k in range(1, count + 1)]
        self.net = f"10.{64 + os.getpid() % 128}.{number % 256}"
        self.addresses = [f"{self.net}.{k}" for k in range(1, count + 1)]

    def make(self) -> None:
        Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
        for name in ("host", "key"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        _run("ip", "netns", "add", self.outside)
        for words in (["link", "set", "lo", "up"], ["link", "add", "bridge0", "type", "bridge"]):
            _run("ip", "-n", self.outside, *words)
        _run("ip", "-n", self.outside, "addr", "add", f"{self.net}.254/24", "dev", "bridge0")
        _run("ip", "-n", self.outside, "link", "set", "bridge0", "up")
        key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        for k, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            _run("ip", "netns", "add", name)
            _run(
                *("ip", "-n", self.outside, "link", "add", f"port{k}", "type", "veth"),
                *("peer", "name", "eth0", "netns", name),
            )
            _run("ip", "-n", self.outside, "link", "set", f"port{k}", "master", "bridge0", "up")
            _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _run("ip", "-n", name, "link", "set", device, "up")
            server = self.folder / f"server{k}"
            server.write_text(_SERVER.format(port=PORT, address=address, folder=self.folder))
            with (self.folder / "known").open("a") as known:
                known.write(f"[{address}]:{PORT} {key}\n")
            self._serve(name, server)
        (self.folder / "client").write_text(_CLIENT.format(port=PORT, folder=self.folder))

    def _serve(self, name: str, configuration: Path) -> None:
        command = ["ip", "netns", "exec", name, "/usr/sbin/sshd", "-D", "-e", "-f", str(configuration)]
        with (self.folder / f"{name}.log").open("w") as log:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    @property
    def ssh(self) -> str:
        """The ssh command for a host."""
        return f"ssh -F {self.folder / 'client'}"

    def command(self, words: Sequence[str], host: int | None = None) -> list[str]:
        """A command that runs on a host (by number), or beside the hosts."""
        return ["ip", "netns", "exec", self.outside if host is None else self.names[host], *words]

    def known_but(self, host: int) -> Path:
        """A file with the keys of all hosts but one: ssh with it reaches only the others."""
        file = self.folder / f"known-but-{host}"
        lines = (self.folder / "known").read_text().splitlines()
        file.write_text("".join(f"{line}\n" for line in lines if f"[{self.addresses[host]}]" not in line))
        return file

    def cut(self, host: int) -> None:
        """Cut a host off from the others."""
        _run("ip", "-n", self.outside, "link", "set", f"port{host}", "down")

    def connect(self, host: int) -> None:
        _run("ip", "-n", self.outside, "link", "set", f"port{host}", "up")

    def processes(self) -> list[int]:
        """The processes on the hosts, without the ssh servers."""
        return [pid for name in self.names for pid, line in _commands(name) if b"sshd" not in line]

    def workers(self, host: int) -> list[int]:
        """The tasks' processes on a host, by its number."""
        return [pid for pid, line in _commands(self.names[host]) if b"bootstrap.py" in line]

    def remove(self) -> None:
        for name in (*self.names, self.outside):
            listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
            for pid in map(int, listed.split()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@contextmanager
def hosts(folder: Path, count: int = 2, number: int = 0) -> Iterator[Hosts]:
    """So many hosts for the block. Ssh lets this user into each."""
    made = Hosts(folder, count, number)
    try:
        made.make()
        end = time.monotonic() + 20
        for address in made.addresses:
            command = made.command([*made.ssh.split(), "-o", "BatchMode=yes", address, "true"])
            while subprocess.run(command, capture_output=True, check=False).returncode and time.monotonic() < end:
                time.sleep(0.1)
        yield made
    finally:
        made.remove()
