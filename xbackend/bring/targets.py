"""What is named behind ``--from``: a name in a file of Python, or what a framework wrote to disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xbackend.bring.kinds import Kind


@dataclass(frozen=True, slots=True)
class Target:
    """``PATH:NAME``. A framework wrote what is ``stored``; then the name may be empty."""

    path: Path
    name: str
    stored: bool

    @property
    def label(self) -> str:
        """A name for reports."""
        return self.name if self.name.isidentifier() else self.path.absolute().stem


def target_of(text: str, kind: Kind) -> Target:
    """The parts of a target. Names of what a framework wrote may have colons, such as ``graph.pb:loss:0``."""
    for cut in [place for place, sign in enumerate(text) if sign == ":"] + [len(text)]:
        path = Path(text[:cut])
        if path.name.endswith(kind.files) or any((path / one).is_file() for one in kind.folders):
            return Target(path, text[cut + 1 :], True)
    path_, _, name = text.rpartition(":")
    return Target(Path(path_), name, False)
