"""Real ``xbackend compare`` commands that something happens to, and what is left of them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "xbackend"
MARK = "XBACKEND_FAULTS_MARK"  # every process of a command has it in its environment
PATIENCE = 10.0  # seconds that the processes of a command that was killed may take to end


def new_mark() -> str:
    """A mark that says which process of the tests gave it: others run beside it, with processes of their own."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


@cache
def slowness() -> float:
    """How much slower than usual a process starts here and now: limits are of a machine that has time."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
    return max(1.0, (time.monotonic() - begin) / 0.05)


@dataclass
class Command:
    """``xbackend ...`` in a folder of its own; all its processes carry a mark."""

    folder: Path
    arguments: tuple[object, ...]
    environment: dict[str, str] = field(default_factory=dict)
    package: Path = PACKAGE
    mark: str = field(default_factory=new_mark)

    @property
    def store(self) -> Path:
        return self.folder / ".xbackend" / "runs"

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    @property
    def output(self) -> str:
        """What it wrote so far."""
        return (self.folder / "output").read_text()

    @property
    def errors(self) -> str:
        """What it wrote to its error output so far."""
        return (self.folder / "errors").read_text()

    def start(self, before: str = "") -> subprocess.Popen[bytes]:
        """Start it, in a process group of its own as a shell does; ``before`` is Python that it runs first.

        It writes into files: a pipe would be held open by processes that it left.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        code = f"{before}\nimport sys; from xbackend.cli import main; sys.exit(main(sys.argv[1:]))"
        with (self.folder / "output").open("w") as output, (self.folder / "errors").open("w") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", code, *map(str, self.arguments)],
                stdout=output,
                stderr=errors,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(self.package.parent), MARK: self.mark, **self.environment},
                process_group=0,
            )

    def run(self, before: str = "") -> int:
        """Run it to its end; its exit code."""
        return self.start(before).wait(timeout=300)


def marked() -> list[tuple[str, str]]:
    """All processes of this machine that carry a mark, with their command lines; zombies have neither."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is not ours
            variables = (entry / "environ").read_bytes().split(b"\0")
            marks = [v.partition(b"=")[2].decode() for v in variables if v.startswith(f"{MARK}=".encode())]
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [(mark, f"{entry.name}: {line}") for mark in marks]
    return found


def mine() -> list[str]:
    """The lines of `marked` of processes that this process of the tests started."""
    return [line for mark, line in marked() if mark.startswith(f"{os.getpid()}-")]


def left_over(commands: list[Command], patience: float = PATIENCE) -> list[str]:
    """The processes of these commands that have not ended after a while; those are ended here."""
    marks = {command.mark for command in commands}
    end = time.monotonic() + patience
    while (rest := [line for mark, line in marked() if mark in marks]) and time.monotonic() < end:
        time.sleep(0.05)
    end_all(rest)
    return rest


def end_all(lines: Iterable[str]) -> None:
    """End the processes of these lines of `marked`."""
    for line in lines:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.partition(":")[0]), signal.SIGKILL)


def planted(folder: Path) -> Path:
    """A copy of the package in which the faults of `fault_plants` happen."""
    copy = folder / "xbackend"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    loop = copy / "measure" / "loop.py"
    plants = (Path(__file__).parent / "fault_plants.py").read_text().replace("from __future__ import annotations\n", "")
    loop.write_text(f"{loop.read_text()}\n\n{plants}")
    return copy
