"""The clusters that run on this machine: each launcher keeps a folder locked while it runs."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xbackend.environments.folders import home
from xbackend.files import held, hold, make_own, write_whole

HEADERS = ("started", "job", "backend", "task", "process", "doing")
_FILE = "status.json"
_YOUNG = 5.0  # seconds
Told = Callable[[Mapping[str, Any]], None]


def folder() -> Path:
    """The folder of the launchers' folders."""
    return home() / "clusters"


@contextmanager
def told(job: str, backend: str) -> Iterator[Told]:
    """A function that writes down the tasks' processes in the block: ``{"tasks": [[task, id, doing], ...]}``."""
    own = folder() / f"{os.getpid()}-{secrets.token_hex(4)}"
    make_own(own)
    started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    descriptor = hold(own)

    def tell(more: Mapping[str, Any]) -> None:
        content = {"job": job, "backend": backend, "started": started, "process": os.getpid(), **more}
        write_whole(own / _FILE, json.dumps(content).encode())

    try:
        tell({"tasks": []})
        yield tell
    finally:
        shutil.rmtree(own, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def rows() -> list[list[str]]:
    """A row for each task of each running cluster, its launcher first. Folders of killed launchers are removed."""
    found: list[list[str]] = []
    for own in sorted(folder().glob("*-*")):
        if not held(own):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - own.stat().st_mtime < _YOUNG:
                    continue  # its launcher is about to lock it
            shutil.rmtree(own, ignore_errors=True)
            continue
        with contextlib.suppress(FileNotFoundError, ValueError):  # the launcher may be ending
            content = json.loads((own / _FILE).read_text())
            about = [content["started"], content["job"], content["backend"]]
            found.append([*about, "launcher", str(content["process"]), ""])
            found += [["", "", "", task, str(process), doing] for task, process, doing in content["tasks"]]
    return found
