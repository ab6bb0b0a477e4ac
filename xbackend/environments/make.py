"""Making and removing environments: under a lock, in a staging directory, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from xbackend.environments import folders, places, versions
from xbackend.environments.installer import HEARTBEAT, Progress, run_uv, silent
from xbackend.environments.places import Environment
from xbackend.environments.recipes import Recipe
from xbackend.errors import EnvironmentFailed

_STAGING = ".staging-"
_TRASH = ".trash-"


def sync(name: str, on_progress: Progress | None = None) -> Environment:
    """Make the environment of that name if it is not there, or is damaged, and return it.

    Two processes may do this at once: one makes it, the other waits and uses it. After a failure, a crash or Ctrl-C
    there is either no environment or the one that was there before.

    Args:
        name: one of `names()`, or such a name with a version: ``pytensor==2.38.3``.
        on_progress: called with one line of text at least every two seconds while there is something to wait for.

    Raises:
        EnvironmentFailed: it could not be made; the message says what failed, uv's last lines and what to do.
    """
    say = on_progress or silent
    wanted = versions.find(name)
    name = wanted.name
    found = places.inspect(wanted)
    if found.state == "ready" and not found.damage():
        return found
    root = folders.directory()
    with _writing(name, root):
        root.mkdir(parents=True, exist_ok=True)
        with _lock(wanted.directory_name(), f"environment {name}", say):
            found = places.inspect(wanted)  # another process may have made it while we waited
            damage = found.damage() if found.state in ("ready", "broken") else []
            if found.state == "ready" and not damage:
                return found
            _sweep(root, wanted.directory_name())
            if damage:
                say(f"environment {name}: damaged ({damage[0]}), making it again")
                _discard(found.path)
            prepared = wanted.prepare(say)
            if prepared == wanted:
                _make(wanted, found.path, say)
                return places.inspect(wanted)
    return sync(name, on_progress)  # it was resolved for another Python, under whose name it is found from now on


def remove(name: str, on_progress: Progress | None = None) -> list[Path]:
    """Delete every environment of that name, also those made for older requirements; return what was deleted.

    Processes that run in one of them on Linux and macOS go on with the files that they have open.

    Raises:
        EnvironmentFailed: there is no such name, or something could not be deleted.
    """
    say = on_progress or silent
    wanted = versions.find(name)
    name = wanted.name
    removed = []
    with _writing(name, folders.directory()):
        for environment in [places.inspect(wanted), *places.others(wanted)]:
            if environment.path.is_dir():
                with _lock(environment.path.name, f"environment {name}", say):
                    _sweep(environment.path.parent, environment.path.name)
                    _discard(environment.path)
                removed.append(environment.path)
        wanted.forget()
    return removed


def _make(wanted: Recipe, path: Path, say: Progress) -> None:
    """Build beside `path` and rename when all is there; the lock is held."""
    what = f"environment {wanted.name}"
    root = path.parent
    staging = root / f"{_STAGING}{path.name}-{secrets.token_hex(4)}"
    where = f" of {wanted.python.path}" if wanted.python.path else ", which uv looks for"
    say(f"{what}: making it with Python {wanted.python_version}{where} in {path}")
    try:
        # Relocatable: it is moved once it is complete. The working directory keeps a user's project file out of it.
        run_uv(
            ["venv", "--quiet", "--no-project", "--relocatable", "--python", wanted.python_request, str(staging)],
            what,
            say,
            root,
        )
        python = places.python_in(staging)
        # Compiled here, so that the first measured import does not pay for it. No unlocked build dependency is run:
        # from wheels only, or built with what the lock pins.
        options = ["--require-hashes", *wanted.building, "--build-constraints", str(wanted.lock), "--compile-bytecode"]
        run_uv(["pip", "sync", "--python", str(python), *options, str(wanted.lock)], what, say, root)
        marker = {
            "format": places.FORMAT,
            "name": wanted.name,
            "python": wanted.python_version,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "packages": places.packages_in(staging),
        }
        (staging / places.MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
        os.rename(staging, path)
    finally:
        if staging.exists():
            shutil.rmtree(staging)
    say(f"{what}: ready in {path}")


@contextlib.contextmanager
def _writing(name: str, root: Path) -> Iterator[None]:
    """Turn the operating system's refusals into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFailed(
            f"environment {name}: {error}. It is kept in {root}; "
            "set XBACKEND_HOME to a directory that can be written and has room."
        ) from error


@contextlib.contextmanager
def _lock(directory_name: str, what: str, say: Progress) -> Iterator[None]:
    """Hold the lock of one environment; while another process has it, say so and wait."""
    lock = FileLock(_lock_file(directory_name))
    start = time.monotonic()
    while True:
        try:
            lock.acquire(timeout=HEARTBEAT, poll_interval=0.1)
            break
        except Timeout:
            say(f"{what}: another process is working on it, waiting, {time.monotonic() - start:.0f} s")
    try:
        yield
    finally:
        lock.release()


def _lock_file(directory_name: str) -> Path:
    folder = folders.directory() / ".locks"
    folder.mkdir(exist_ok=True)
    return folder / f"{directory_name}.lock"


def _sweep(root: Path, held: str) -> None:
    """Delete what killed processes left behind. Only the holder of an environment's lock has a live one."""
    for leftover in [*root.glob(f"{_STAGING}*"), *root.glob(f"{_TRASH}*")]:
        owner = leftover.name.removeprefix(_STAGING).removeprefix(_TRASH).rsplit("-", 1)[0]
        if owner == held:
            shutil.rmtree(leftover)
            continue
        with contextlib.suppress(Timeout), FileLock(_lock_file(owner), timeout=0):  # else its maker is alive
            shutil.rmtree(leftover)


def _discard(path: Path) -> None:
    """Delete an environment; it disappears at once, before the deletion that takes a while."""
    trash = path.parent / f"{_TRASH}{path.name}-{secrets.token_hex(4)}"
    os.rename(path, trash)
    shutil.rmtree(trash)
