"""``--from`` and what goes with it: ``FILE.py:NAME`` is a graph of a framework, which becomes a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from xbackend.bring.kinds import KINDS
from xbackend.bring.origin import Origin
from xbackend.cli import neighbours
from xbackend.cli.options import flag, option
from xbackend.errors import UsageError
from xbackend.workers.bringing import bring

_KIND = option(
    str,
    "KIND",
    f"what FILE.py:NAME is a graph of, which becomes a program: {', '.join(KINDS)}; KIND=PATH imports the file "
    "with your own interpreter, or that of your virtual environment",
    lambda _: KINDS,
)
_REWRITES = (
    "PyTensor's or Aesara's own rewrites of the graph before it becomes a program: none, canonicalize, or stabilize "
    "for both (default: stabilize for pymc, else none)"
)
_DRAWS = "each random variable of PyTensor's or Aesara's graph becomes an input, which is drawn once"


@Parameter(name="*")
@dataclass(frozen=True)
class Graph:
    """The kind of graph, `None` for a function or a workload of xbackend, and what is chosen of how it comes in."""

    kind: Annotated[str | None, _KIND, Parameter(name="--from")] = None
    rewrites: Annotated[
        Literal["none", "canonicalize", "stabilize"] | None, Parameter(help=_REWRITES, show_default=False)
    ] = None
    draws: Annotated[bool, flag(_DRAWS)] = False

    def chosen(self, settings: object = None) -> bool:
        """Whether there is one. Raises `UsageError` for an option that goes with the other one only."""
        if self.kind is None and self != NONE:
            raise UsageError("--rewrites and --draws are for a graph: give --from, too")
        if self.kind is not None and settings:
            raise UsageError("--set is for functions and workloads of xbackend: a graph that is brought has none of it")
        return self.kind is not None

    def brought(
        self,
        target: str,
        inputs: Sequence[str] | None,
        *,
        seed: int,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> Origin:
        """The graph that ``FILE.py:NAME`` is, as `bring`; its file imports from where the user's code does."""
        options = {name: value for name, value in vars(self).items() if name != "kind" and value}
        folders = neighbours.folders()
        return bring(self.kind or "", target, inputs, options, seed=seed, folders=folders, on_progress=on_progress)


NONE = Graph()
