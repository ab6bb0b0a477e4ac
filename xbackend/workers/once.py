"""A process for one call, in an interpreter that has packages which this one lacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from xbackend import environments
from xbackend.environments.installer import dying_with_us
from xbackend.errors import GraphError
from xbackend.workers.process import PACKAGE

LIMIT = 3600.0  # seconds: PyTensor compiles some models for minutes
_START = (
    "import sys\n"
    "if not getattr(sys.flags, 'safe_path', False):\n"  # Python 3.11 has it
    "    del sys.path[0]\n"  # the current folder: it must not shadow modules
    "import runpy\n"
    "from importlib import import_module\n"
    "made = runpy.run_path(sys.argv[1])\n"
    "sys.meta_path.insert(0, made['Exposed']({'xbackend': sys.argv[2]}))\n"
    "import_module(sys.argv[3]).main(sys.argv[4])\n"
)


def made(name: str, on_progress: Callable[[str], None]) -> Path:
    """The interpreter of an environment, which is made if it is missing. Raises `EnvironmentFailed`."""
    found = environments.get(name)
    return (found if found.state == "ready" else environments.sync(name, on_progress)).python


def run(python: Path, module: str, asked: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> None:
    """Call ``main`` of a module of xbackend with ``asked`` as JSON, in a new process. It has a session of its own,
    which ends with this call, or with this process. Raises `GraphError`."""
    bootstrap = PACKAGE / "workers" / "bootstrap.py"
    with tempfile.TemporaryFile() as printed:  # a pipe would stay open as long as a process of the user's has it
        process = subprocess.Popen(
            dying_with_us([str(python), "-c", _START, str(bootstrap), str(PACKAGE), module, json.dumps(asked)]),
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise GraphError(f"its process was ended after {LIMIT:g} s") from None
        finally:
            with suppress(ProcessLookupError):  # nothing of it is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode:
            printed.seek(max(printed.seek(0, os.SEEK_END) - 4000, 0))
            raise GraphError(
                f"its process ended with {process.returncode}:\n{printed.read(4000).decode(errors='replace')}"
            )
