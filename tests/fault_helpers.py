"""Real ``xbackend compare`` commands that meet faults, and their remains."""

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
MARK = "XBACKEND_FAULTS_MARK"  # in the environment of every process of a command
PATIENCE = 10.0  # seconds that the processes of a killed command may take to end


def new_mark() -> str:
    """A mark of this process of the tests: others run beside it, with their own processes."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


@cache
def slowness() -> float:
    """How much slower than usual a process starts now. Limits are for an idle machine."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)
    return max(1.0, (time.monotonic() - begin) / 0.05)


@dataclass
class Command:
    """``xbackend ...`` in its own folder; all its processes have a mark."""

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
        """Start it in its own process group, as a shell does; ``before`` is Python code to run first.

        It writes into files: remaining processes would hold a pipe open.
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
        """Run it to its end. Returns its exit code."""
        return self.start(before).wait(timeout=300)


def marked() -> list[tuple[str, str]]:
    """All processes of this machine with a mark, and their command lines. Zombies have neither."""
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
    """The lines of `marked` for processes started by this process of the tests."""
    return [line for mark, line in marked() if mark.startswith(f"{os.getpid()}-")]


def left_over(commands: list[Command], patience: float = PATIENCE) -> list[str]:
    """The processes of these commands that have not ended in time. They are ended here."""
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
    """A copy of the package with the faults of `fault_plants`."""
    copy = folder / "xbackend"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    loop = copy / "measure" / "loop.py"
    plants = (Path(__file__).parent / "fault_plants.py").read_text().replace("from __future__ import annotations\n", "")
    loop.write_text(f"{loop.read_text()}\n\n{plants}")
    return copy
