"""A graph of a user's file, brought by a process in an interpreter that has its framework."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.kinds import KINDS, kind, target_of
from xbackend.bring.origin import Origin
from xbackend.bring.serving import ARRAYS, PROGRAM, SAID
from xbackend.environments import interpreters
from xbackend.errors import GraphError, UsageError
from xbackend.workers import once


def bring(
    said: str,
    target: str,
    inputs: Sequence[str] | None,
    options: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    folders: Sequence[str] = (),
    on_progress: Callable[[str], None] = lambda _: None,
) -> Origin:
    """The graph that ``FILE.py:NAME`` is, or that its framework wrote to disk.

    ``said`` is its kind, ``pymc``, or with the interpreter (or the folder of its virtual environment) that has the
    framework: ``pymc=PATH``. ``options`` are those of its kind (`Kind.options`). The file imports modules from its own
    folder, and from ``folders``.

    Raises `UsageError`, `GraphError`, `EnvironmentFailed`.
    """
    of, _, place = said.partition("=")
    chosen = kind(of)
    asked_for, given = target_of(target, chosen), dict(options or {})
    path, name = asked_for.path.resolve(), asked_for.name
    for option in given:
        if option not in chosen.options:
            having = [one.name for one in KINDS.values() if option in one.options]
            raise UsageError(f"--{option} is for --from {', '.join(having)}: no graph of {of} has it")
    if not asked_for.stored and (path.suffix != ".py" or not name.isidentifier()):
        raise UsageError(f"{target!r} is not FILE.py:NAME, where NAME is {chosen.what}")
    if not path.is_file() and not (asked_for.stored and path.is_dir()):
        raise UsageError(f"there is no file {asked_for.path}")
    python = _python(place) if place else once.made(chosen.name, on_progress)
    on_progress(f"{target}: brought from {of}, by {python}")
    with tempfile.TemporaryDirectory(prefix="xbackend-bring-") as folder:
        asked = {
            "kind": of,
            "file": str(path),
            "name": name,
            "stored": asked_for.stored,
            "inputs": list(inputs or ()),
            "options": {**chosen.options, **given},
            "seed": seed,
            "folders": list(folders),
            "folder": folder,
        }
        variable, flags = chosen.flags
        variables = {variable: ",".join(filter(None, (flags, os.environ.get(variable))))} if variable else {}
        once.run(python, "xbackend.bring.serving", asked, variables)
        return _read(Path(folder), target)


def _python(place: str) -> Path:
    """The user's interpreter. Raises `UsageError`."""
    path = interpreters.at(place)
    if path is None:
        raise UsageError(
            f"--from ...={place}: there is no interpreter; give that of your virtual environment, or its folder"
        )
    return path


def _read(folder: Path, target: str) -> Origin:
    if not (folder / SAID).is_file():
        raise GraphError(f"{target}: its process ended before it was brought: look for os._exit in the file")
    said = json.loads((folder / SAID).read_text())
    if "error" in said:
        raise GraphError(f"{target}: {said['error']}")
    program = TracedProgram.from_json((folder / PROGRAM).read_text())
    with np.load(folder / ARRAYS) as held:
        each = {name: held[name] for name in held.files}

    def named(prefix: str) -> list[np.ndarray]:
        return [each[f"{prefix}{k}"] for k in range(sum(name.startswith(prefix) for name in each))]

    return Origin(
        program,
        named("inputs"),
        said["gradient"],
        named("results"),
        named("slopes"),
        said["facts"],
        said["modules"],
        said["drawn"],
    )
