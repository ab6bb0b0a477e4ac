"""The clusters that run on this machine: each launcher keeps a folder locked while it runs."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

from xbackend.environments.folders import home
from xbackend.files import held, make_own, new_folder, write_whole

HEADERS = ("started", "job", "backend", "task", "process", "doing")
_FILE = "status.json"
Tell = Callable[[Mapping[str, Any]], None]


def folder() -> Path:
    """The folder of the launchers' folders."""
    return home() / "clusters"


@contextmanager
def told(job: str, backend: str) -> Iterator[Tell]:
    """A function that writes down the tasks' processes in the block: ``{"tasks": [[task, id, doing], ...]}``."""
    started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    make_own(folder())
    with new_folder(folder() / "cluster") as own:

        def tell(more: Mapping[str, Any]) -> None:
            content = {"job": job, "backend": backend, "started": started, "process": os.getpid(), **more}
            write_whole(own / _FILE, json.dumps(content).encode())

        tell({"tasks": []})
        yield tell


def rows() -> list[list[str]]:
    """A row for each task of each running cluster, its launcher first; the cluster that started first comes first."""
    told, found = list[dict[str, Any]](), list[list[str]]()
    for own in filter(held, folder().glob(".*")):  # others are of killed launchers: the next one removes them
        with contextlib.suppress(FileNotFoundError, ValueError):  # the launcher may be ending
            told.append(json.loads((own / _FILE).read_text()))
    for content in sorted(told, key=itemgetter("started", "process")):
        about = [content["started"], content["job"], content["backend"]]
        found.append([*about, "launcher", str(content["process"]), ""])
        found += [["", "", "", task, str(process), doing] for task, process, doing in content["tasks"]]
    return found
