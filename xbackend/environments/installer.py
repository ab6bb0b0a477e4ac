"""Run uv: report its progress, quote it when it fails, and never leave it an orphan."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import uv

from xbackend.errors import EnvironmentFailed
from xbackend.files import write_whole

Progress = Callable[[str], None]

HEARTBEAT = 1.5  # seconds of silence from uv after which a line of our own is shown
_KEPT_LINES = 15
# The kernel sends the signal when the thread that started the process ends; that thread waits for the process. The test
# of the parent covers the time before prctl.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit('the process that started this one is gone')\n"
    "os.umask(os.umask(0o022) | 0o022)\n"  # what is run must not be open to others, whatever the user's umask
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)
_NO_FILES = ("no wheels with a matching", "no usable wheels", "no matching platform")
_NO_VERSION = "there is no version of"
_NO_SOLUTION = "no solution found"
# (what uv says, in lower case; what that means; what to do)
_CAUSES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("hash mismatch", "do not match", "--require-hashes"),
        "a downloaded file is not the one that was locked",
        "Do not use that file. If a mirror or a proxy stands between, ask who runs it; if the cache is damaged, "
        "`uv cache clean` and try again.",
    ),
    (
        ("no space left", "file too large", "os error 28", "os error 27", "os error 122", "quota exceeded"),
        "the disk is full, or a limit on file sizes was reached",
        "Free some space, or set XBACKEND_HOME (the environments) and UV_CACHE_DIR (the downloads) to a larger disk.",
    ),
    (
        ("no interpreter found", "no python at", "interpreter not found"),
        "the Python that this environment needs was not found",
        "Install that version of Python and put it on PATH (or `uv python install VERSION`), then try again.",
    ),
    (
        ("python-build-standalone", "install_only"),  # in the address of a Python
        "its Python is not on this machine, and could not be downloaded",
        "Install that version of Python and put it on PATH, or check the network (behind a proxy set HTTPS_PROXY, with "
        "a mirror UV_PYTHON_INSTALL_MIRROR), then try again.",
    ),
    (
        (
            "network was disabled",
            "network connectivity is disabled",
            "error sending request",
            "failed to fetch",
            "connection refused",
            "dns error",
            "timed out",
            "could not connect",
            "failed to download",
            "client error",
        ),
        "the package index could not be reached",
        "Check the network (behind a mirror set UV_DEFAULT_INDEX, behind a proxy HTTPS_PROXY), then try again.",
    ),
    (
        _NO_FILES,
        "a version that was asked for has no files for this Python and machine",
        "Choose a version whose authors made such files (PyPI's page of it lists them), or run xbackend with a Python "
        "that they are for.",
    ),
    (
        (_NO_VERSION,),
        "a version that was asked for does not exist, or is not in the package index",
        "Choose one that PyPI lists.",
    ),
    (
        (_NO_SOLUTION,),
        "what was asked for excludes other requirements of this environment",
        "Choose another version: uv's words above name what excludes what.",
    ),
    (
        ("permission denied", "os error 13", "read-only file system", "os error 30"),
        "a directory cannot be written",
        "Make it writable, or set XBACKEND_HOME (the environments) and UV_CACHE_DIR (the downloads) to one that is.",
    ),
)


class Unresolvable(EnvironmentFailed):
    """The requirements exclude each other on this Python; another one may resolve them."""


def silent(message: str) -> None:
    """A progress callback that shows nothing."""


def dying_with_us(command: Sequence[str]) -> list[str]:
    """The command of a process that is killed when this one ends, however that is. On Linux; elsewhere the command."""
    if sys.platform != "linux":
        return [*command]
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def run_uv(arguments: Sequence[str], what: str, on_progress: Progress, directory: Path | None = None) -> None:
    """Run uv.

    Args:
        arguments: the command line after `uv`.
        what: the start of every progress message, and of the error's: 'environment numpy'.
        on_progress: called with uv's lines, and at least every two seconds.
        directory: working directory. Files there and above do not configure uv.

    Raises:
        EnvironmentFailed: uv is missing or failed; the message holds uv's last lines and what to do.
    """
    # By default uv obeys a `uv.toml` or `pyproject.toml` in the working directory and above. Others may have put it
    # there, and it can make uv build or install elsewhere.
    # uv must not go on writing into a staging directory whose maker was killed.
    command = dying_with_us([_uv(), "--project", "/", *arguments])
    try:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentFailed(f"{what}: uv could not be started: {error}") from error
    lines: deque[str] = deque(maxlen=200)
    try:
        _follow(process, lines, what, on_progress)
    finally:  # Ctrl-C, or a callback that raises
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended between the question and the signal
                os.killpg(process.pid, signal.SIGKILL)  # with the interpreters that it started
        process.wait()
    if process.returncode:
        words = "\n".join(lines).lower()
        unmet = any(needle in words for needle in (*_NO_FILES, _NO_SOLUTION))
        kind = Unresolvable if unmet and _NO_VERSION not in words else EnvironmentFailed
        raise kind(_explain(what, process.returncode, arguments, list(lines)))


def resolve(
    source: Path, output: Path, options: Sequence[str], what: str, on_progress: Progress, *, like: Path | None = None
) -> None:
    """Resolve the requirements in ``source`` to ``output``, with a hash for every file and no index address.

    ``output`` is written whole. ``like`` are resolved requirements whose versions are kept if possible.

    Raises:
        EnvironmentFailed: the requirements exclude each other, or the index cannot be reached.
    """
    arguments = ["pip", "compile", "--quiet", "--generate-hashes", "--no-emit-index-url", *options]
    fresh = output.with_suffix(".new")
    try:
        if like is not None:
            shutil.copyfile(like, fresh)  # uv keeps the versions of an existing output if possible
        run_uv([*arguments, source.name, "--output-file", fresh.name], what, on_progress, output.parent)
        write_whole(output, fresh.read_bytes())
    finally:
        fresh.unlink(missing_ok=True)


def _follow(process: subprocess.Popen[bytes], lines: deque[str], what: str, on_progress: Progress) -> None:
    """Pass on uv's lines until it ends. When it is silent, report that it still works."""
    assert process.stdout is not None
    start, latest, data, rest = time.monotonic(), "working", b" ", b""
    with process.stdout as stream, selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while data:
            if not selector.select(HEARTBEAT):
                on_progress(f"{what}: {latest} ({time.monotonic() - start:.0f} s so far)")
                continue
            data = os.read(stream.fileno(), 1 << 16)
            *whole, rest = (rest + data).split(b"\n") if data or not rest else (rest, b"")
            for line in whole:
                lines.append(line.decode(errors="replace").rstrip())
                text = lines[-1].strip()
                if text and not text.startswith(("+ ", "- ")):  # the final list of packages is not shown
                    latest = text
                    on_progress(f"{what}: {latest}")


def _uv() -> str:
    try:
        return os.fspath(uv.find_uv_bin())
    except FileNotFoundError as error:
        raise EnvironmentFailed(
            f"uv, which makes the environments, is not installed beside xbackend ({error}): type `pip install uv`"
        ) from error


def _environment() -> dict[str, str]:
    """This process's environment variables, with pip's index and certificates: a machine may be set up for pip only."""
    variables = dict(os.environ)
    if "PIP_INDEX_URL" in variables and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & variables.keys():
        variables["UV_DEFAULT_INDEX"] = variables["PIP_INDEX_URL"]
    if "PIP_CERT" in variables:
        variables.setdefault("SSL_CERT_FILE", variables["PIP_CERT"])
    # Leave the user's active virtual environment or project alone.
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME"):
        variables.pop(name, None)
    if variables.get("UV_CONFIG_FILE"):
        variables["UV_CONFIG_FILE"] = os.path.abspath(variables["UV_CONFIG_FILE"])  # uv works in another directory
    return variables


def _explain(what: str, status: int, arguments: Sequence[str], lines: list[str]) -> str:
    ending = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
    # The kernel ends a program by SIGXFSZ at the limit on file sizes.
    text = "\n".join([*lines, "file too large" if "SIGXFSZ" in ending else ""]).lower()
    causes = [cause for needles, *cause in _CAUSES if any(needle in text for needle in needles)]
    cause, advice = [*causes, ("uv failed", "Read uv's words above, then try again.")][0]
    words = "\n".join(f"    {line}" for line in lines[-_KEPT_LINES:]) or "    (nothing)"
    return f"{what}: {cause}. `uv {' '.join(arguments[:2])}` {ending}; it said:\n{words}\n{advice}"
