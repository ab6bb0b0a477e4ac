"""Two commits of the user's own git repository, measured interleaved in one session, and the results of each.

Each commit is checked out as a worktree in a temporary folder, which is gone at the end.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from xbackend.errors import UsageError
from xbackend.measure import session
from xbackend.measure.candidates import Case
from xbackend.results.schema import Results

PARAMETER = "revision"  # the name of the commit in the parameters of a row


def commit(revision: str) -> str:
    """The commit that a revision (a branch, a tag, ``HEAD~1``) names, in 12 digits or more. Raises `UsageError`."""
    named = f"{revision}^{{commit}}"
    return _git("rev-parse", "--verify", "--quiet", "--short=12", "--end-of-options", named, of=revision)


@contextmanager
def checked_out(revision: str) -> Iterator[tuple[Path, Path]]:
    """A worktree of that commit, and its folder that corresponds to the current one.

    Raises `UsageError`: there is no repository, no such commit, or the commit has no such folder.
    """
    here = _git("rev-parse", "--show-prefix")
    with tempfile.TemporaryDirectory(prefix="xbackend-revision-") as made:
        root = Path(made).resolve() / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(root), commit(revision), of=revision)
        try:
            if not (root / here).is_dir():
                raise UsageError(f"{revision} has no folder {here}: go to one that both revisions have")
            yield root, root / here
        finally:
            _git("worktree", "remove", "--force", str(root))


def tracked(modules: Mapping[str, str]) -> list[str]:
    """The names of the modules (name to file) whose files the repository of the current folder tracks."""
    top = Path(_git("rev-parse", "--show-toplevel")).resolve()
    there = {top / name for name in _git("ls-files", "-z", "--full-name", "--", ":/").split("\0")}
    return sorted(name for name, file in modules.items() if Path(file).resolve() in there)


def compare(cases: Mapping[str, Sequence[Case]], **options: Any) -> Results:
    """Measure the cases of each of two commits in one session; `of_commit` has the results of each.

    ``options`` and errors are those of `session.compare`. The results, stored ones too, have the commit as a parameter.
    """
    marked: list[Case] = []
    for one, own in cases.items():
        marked += [replace(case, parameters={**case.parameters, PARAMETER: one}, revision=one) for case in own]
    return session.compare(marked, **options)


def of_commit(results: Results, one: str) -> Results:
    """The results of one commit."""
    rows = [
        msgspec.structs.replace(row, parameters={k: v for k, v in row.parameters.items() if k != PARAMETER})
        for row in results.measurements
        if row.parameters.get(PARAMETER) == one
    ]
    return msgspec.structs.replace(results, measurements=rows)


def _git(*arguments: str, of: str = "") -> str:
    """What git prints. Raises `UsageError`."""
    # No hook of the repository runs: it would run in a folder that is not the user's.
    command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise UsageError(f"git cannot be run: {error}; install it, or leave --rev out") from error
    if done.returncode:
        words = done.stderr.strip() or f"there is no commit {of!r} in the repository of this folder"
        raise UsageError(f"git {arguments[0]}: {words}")
    return done.stdout.strip()
