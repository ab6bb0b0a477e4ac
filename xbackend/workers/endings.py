"""How a worker ended, in words."""

from __future__ import annotations

import signal
from dataclasses import dataclass

ENDED_BY_XBACKEND = "xbackend ended it"  # as the guard writes it
LINES = 20  # of its last output
MOST = 300  # characters of a framework's error
DAMAGED = (
    "If the environment is damaged, `xbackend doctor --verify` names it and `xbackend env sync NAME` makes it again."
)
_CRASHES = {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"}


def exhausted(operation: str, error: str, accelerated: bool) -> str:
    """The words for a worker that ran out of memory, its own or a device's, and what to do: one line for a table."""
    of_others = "see in nvidia-smi who has the memory of the GPU, and end what is not needed" if accelerated else ""
    return (
        f"its worker ran out of memory while it did {operation!r} and was ended. {_short(error)} Use smaller inputs, "
        f"or leave it more memory{f' ({of_others})' if of_others else ''}; then open the backend again."
    )


def lost(operation: str, error: str, _: bool) -> str:
    """The words for a worker whose GPU failed, and what to do."""
    return (
        f"the driver of its GPU failed while its worker did {operation!r}, which was ended. {_short(error)} See "
        "whether nvidia-smi still lists the GPU, and what the kernel says of it (sudo dmesg | grep Xid); then open the "
        "backend again."
    )


def _short(error: str) -> str:
    """The first sentences of an error, on one line: XLA's go on with pages about buffers."""
    line = next(filter(None, map(str.strip, error.splitlines())), "")
    return f"{line[:MOST]}{'...' if len(line) > MOST else '' if line.endswith('.') else '.'}"


@dataclass(frozen=True)
class Ending:
    """The report of a worker's guard (see `guard.py`); unknown if the guard was ended too."""

    known: bool = False
    worker: int = 0
    signal: int | None = None
    status: int | None = None
    why: str = ""
    peak_bytes: int = 0
    oom_kills: int = 0  # by the kernel, on the whole machine, while the worker ran
    stderr: str = ""

    @property
    def by_xbackend(self) -> bool:
        """Whether xbackend ended it; its signal then means nothing."""
        return self.why == ENDED_BY_XBACKEND

    @property
    def signal_name(self) -> str:
        """'SIGSEGV'; empty if it was no signal."""
        if self.signal is None:
            return ""
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"

    def how(self) -> str:
        """'(process 12) was ended by SIGSEGV'."""
        if not self.known:
            return "and the process that watches it were ended from outside"
        if self.by_xbackend:
            return f"(process {self.worker}) was no longer to be reached, and was ended,"
        if self.signal is None:
            return f"(process {self.worker}) exited by itself with status {self.status}"
        return f"(process {self.worker}) was ended by {self.signal_name}"

    def meaning(self) -> str:
        """A sentence about SIGKILL, which has several senders; empty for other signals."""
        if self.signal_name != "SIGKILL" or self.by_xbackend:
            return ""
        return (
            " The kernel's out-of-memory killer sends this signal "
            f"({'it struck' if self.oom_kills else 'it did not strike'} meanwhile), and so does `kill -9`; "
            f"the process had used {self.peak_bytes / 2**30:.2f} GiB at its peak."
        )

    def words(self) -> str:
        """The last lines of its output, indented; empty if there are none."""
        lines = [line for line in self.stderr.splitlines() if line.strip()][-LINES:]
        return "".join(["\nThe last lines that it wrote:", *(f"\n    {line}" for line in lines)]) if lines else ""

    def advice(self) -> str:
        """What to do."""
        if self.by_xbackend:
            return "Open the backend again."
        if self.status == 1:  # Python's, if the serving code cannot be imported or is broken
            return DAMAGED
        if self.signal_name in _CRASHES:
            return (
                "The framework crashed. Open the backend again; if it crashes again, try another mode of it, or report "
                "the lines above to its authors."
            )
        if self.signal_name == "SIGKILL":
            return "If it was out of memory use smaller inputs, or close other programs; then open the backend again."
        return "Open the backend again."
