"""``--from`` and its options: graphs that become programs. They are ``FILE.py:NAME``, the ``NAME`` of each file in a
folder, or the files of a framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from xbackend.bring.kinds import KINDS, Target, kind, target_of
from xbackend.bring.origin import Origin
from xbackend.cli import neighbours
from xbackend.cli.console import say
from xbackend.cli.options import flag, option
from xbackend.errors import UsageError, XBackendError
from xbackend.measure import candidates
from xbackend.measure.candidates import Case
from xbackend.results.naming import FILE
from xbackend.workers.bringing import bring
from xbackend.workloads.brought import apart, workload_of

MODEL = "model"  # the graph of each file of a folder, unless FOLDER:NAME says another name

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
class GraphChoice:
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
            raise UsageError("--set is for functions and workloads of xbackend; a graph has none: leave it out")
        return self.kind is not None

    def _stored(self, target: str) -> Target | None:
        """The target, where a framework wrote it to disk."""
        parts = target_of(target, kind(self.kind.partition("=")[0])) if self.kind else None
        return parts if parts and parts.stored else None

    def named(self, target: str) -> str:
        """``PATH:NAME`` for a framework's file, with a name for reports; another target as it is."""
        stored = self._stored(target)
        return f"{stored.path}:{stored.label}" if stored else target

    def place(self, target: str) -> str:
        """The file of a target, as `file_of`, or the folder of its files."""
        path, _ = _folder(target) if self.kind and not self._stored(target) else (None, "")
        return file_of(f"{path}:" if path else self.named(target))

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
        found = bring(self.kind or "", target, inputs, options, seed=seed, folders=folders, on_progress=on_progress)
        if found.drawn:
            say(f"{target}: inputs are drawn at random; a function inputs() in the file returns yours", error=True)
        return found

    def cases(
        self,
        target: str,
        inputs: Sequence[str] | None,
        gradient: bool | None,
        folder: Path,
        *,
        seed: int,
        on_progress: Callable[[str], None],
        on_modules: Callable[[Mapping[str, str]], None],
    ) -> list[Case]:
        """The cases of a graph, or with a folder as the target, of the `MODEL` in each of its files: the value, and the
        gradient where there is one; only one of the two where ``gradient`` says which.

        A file of a folder that does not come in is a refused case with the reason. Raises `UsageError` and what `bring`
        raises; for a folder only where no file comes in.
        """

        def cases(one: str, name: str) -> Iterator[Case]:
            origin = self.brought(one, inputs, seed=seed, on_progress=on_progress)
            on_modules(origin.modules)
            workload = workload_of(origin, name)
            if gradient and not origin.gradient:
                raise UsageError(f"{one} has no gradient: it is no scalar of floating-point inputs, or compiled")
            for derived in candidates.derivatives(workload, gradient):
                made = candidates.given(workload, origin.inputs, {}, gradient=derived)
                if said := apart(origin, list(made.expected), made.program):
                    say(f"{made.workload}: NumPy in float64 is {said}", error=True)
                described = replace(made, parameters={**origin.facts, **made.parameters})
                yield candidates.of_file(described, file_of(self.named(one), folder))

        files = None if self._stored(target) else _files(target)
        if files is None:
            return [*cases(target, self.named(target).rpartition(":")[2])]
        if inputs:
            raise UsageError(f"--input is for one graph: each file of {target} has its own inputs()")
        made, errors = list[Case](), list[XBackendError]()
        for one, name in files:
            try:
                made += [*cases(one, name)]
            except XBackendError as error:
                errors.append(error)
                made.append(Case(workload=name, parameters={FILE: file_of(one, folder)}, refused=str(error)))
        if len(errors) == len(made):
            raise errors[0]
        return made


def _files(target: str) -> list[tuple[str, str]] | None:
    """``FILE.py:NAME`` and the file's name for each file of a folder; `None` of no folder. Raises `UsageError`."""
    path, name = _folder(target)
    if path is None:
        return None
    found = [(f"{file}:{name}", file.stem) for file in sorted(path.glob("*.py")) if not file.name.startswith("_")]
    if not found:
        raise UsageError(f"the folder {path} has no FILE.py: name one whose files have a {MODEL}, or FOLDER:NAME")
    return found


def _folder(target: str) -> tuple[Path | None, str]:
    """The folder and the name that ``FOLDER`` or ``FOLDER:NAME`` gives; no folder for another target."""
    if Path(target).is_dir():
        return Path(target), MODEL
    before, _, name = target.rpartition(":")
    return (Path(before) if before and Path(before).is_dir() and name.isidentifier() else None), name


def file_of(target: str, folder: Path = Path()) -> str:
    """The path of a target's file, relative to a folder if it lies below, else absolute; empty for xbackend's
    workloads."""
    name = target if target.endswith(".py") else target.rpartition(":")[0]
    return candidates.seen_from(folder, Path(name)) if name else ""


NONE = GraphChoice()
