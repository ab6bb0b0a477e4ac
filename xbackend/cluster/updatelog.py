"""The log of the servers' updates, on disk: the launcher's memory does not grow with the length of a job."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator

from xbackend.engines.record import Applied

_TABLE = """CREATE TABLE updates (server INTEGER, worker INTEGER, step INTEGER, version INTEGER, read TEXT,
    PRIMARY KEY (server, version)) WITHOUT ROWID"""


class UpdateLog:
    """The updates of all servers, by server and version. May be used from several threads."""

    def __init__(self) -> None:
        # SQLite keeps a database without a name in a private file, and deletes it when the process ends.
        self._base, self._lock = sqlite3.connect("", check_same_thread=False), threading.Lock()
        self._base.execute(_TABLE)

    def note(self, entries: Iterable[Applied]) -> None:
        """Log updates, each once."""
        rows = [(*one[:4], json.dumps(one.read)) for one in entries]
        with self._lock, self._base:
            self._base.executemany("INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?, ?)", rows)

    def forget(self, server: int, version: int) -> None:
        """Forget the updates of a server that came after a version."""
        with self._lock, self._base:
            self._base.execute("DELETE FROM updates WHERE server = ? AND version > ?", (server, version))

    def after(self, server: int, version: int) -> Iterator[Applied]:
        """The updates of a server that came after a version, in their order."""
        order = "SELECT * FROM updates WHERE server = ? AND version > ? ORDER BY version"
        for own, worker, step, made, read in self._base.execute(order, (server, version)):
            yield Applied(own, worker, step, made, tuple(json.loads(read)))
