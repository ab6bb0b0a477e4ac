"""The pictures of a report by file name."""

from __future__ import annotations

import re


class Pictures(dict[str, bytes]):
    """File names to SVG. A name is safe everywhere; its number keeps workloads of similar names apart."""

    def add(self, kind: str, workload: str, data: bytes, number: int | None = None) -> str:
        """Keep a picture and return its file name; without a ``number`` it gets the next one of its kind."""
        if number is None:
            number = 1 + sum(name.startswith(f"{kind}-") for name in self)
        name = re.sub(r"[^a-z0-9]+", "-", workload.lower()).strip("-")[:40]
        file = "-".join(part for part in (kind, f"{number:02}", name) if part) + ".svg"
        self[file] = data
        return file
