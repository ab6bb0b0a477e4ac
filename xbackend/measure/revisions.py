"""Two commits of the user's own git repository, measured interleaved in one session, and its results as those of two.

Each commit is checked out as a worktree in a temporary folder, which is gone at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from xbackend.errors import UsageError
from xbackend.measure import session
from xbackend.measure.candidates import Task
from xbackend.results.schema import Results

PARAMETER = "revision"  # under which the commit of a measurement stands in the results of both
_SHORT = 12  # digits of a commit


def commit(revision: str) -> str:
    """The commit that a revision (a branch, a tag, ``HEAD~1``) names, as git writes it in full. Raises `UsageError`."""
    return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", of=revision)


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The folder that is, in a worktree of that commit, what the current folder is in the repository.

    Raises `UsageError`: there is no repository, no such commit, or the commit has no such folder.
    """
    here = _git("rev-parse", "--show-prefix")
    with tempfile.TemporaryDirectory(prefix="xbackend-revision-") as made:
        root = Path(made).resolve() / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(root), commit(revision), of=revision)
        try:
            if not (root / here).is_dir():
                raise UsageError(f"{revision} has no folder {here}: go to one that both revisions have")
            yield root / here
        finally:
            _git("worktree", "remove", "--force", str(root))


def tracked(module: str) -> bool:
    """Whether a module was imported from a file of the repository that the current folder is in."""
    file = getattr(sys.modules[module], "__file__", None)
    top = Path(_git("rev-parse", "--show-toplevel")).resolve()
    if not file or not Path(file).resolve().is_relative_to(top):
        return False
    return bool(_git("ls-files", "--", f":(top){Path(file).resolve().relative_to(top)}"))


def compare(tasks: Sequence[Task], revisions: Sequence[str], **options: Any) -> tuple[Results, Results]:
    """Measure the tasks of two revisions in one session: the results of the first and of the second.

    ``options`` are those of `session.compare`, and it raises as that does. What is kept in the store is one run, in
    which the commit is a parameter.
    """
    commits = [commit(revision)[:_SHORT] for revision in revisions]
    marked = [
        replace(task, revision=one, parameters={**task.parameters, PARAMETER: one})
        for task, one in zip(tasks, commits, strict=True)
    ]
    results = session.compare(marked, **options)
    base, head = (of_revision(results, one) for one in commits)
    return base, head


def of_revision(results: Results, one: str) -> Results:
    """The results of one commit, with the noise floor of all of them."""
    rows = [_unmarked(row) for row in results.measurements if row.parameters.get(PARAMETER) == one]
    return msgspec.structs.replace(results, measurements=rows, pairs=[_unmarked(pair) for pair in results.pairs])


def _unmarked(row: Any) -> Any:
    """A measurement or a pair without its commit."""
    parameters = {name: value for name, value in row.parameters.items() if name != PARAMETER}
    return msgspec.structs.replace(row, parameters=parameters)


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
