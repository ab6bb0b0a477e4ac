"""Make and remove environments: under a lock, whole, by way of a staging directory."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from xbackend.environments import contents, folders, patched, places, versions
from xbackend.environments.installer import HEARTBEAT, Progress, run_uv, silent
from xbackend.environments.places import Environment
from xbackend.environments.recipes import Recipe
from xbackend.errors import EnvironmentFailed
from xbackend.files import MADE, being_made, make_own, new_folder, write_whole


def sync(name: str, on_progress: Progress = silent, *, hashes: bool = False) -> Environment:
    """Return the environment of a name; make it first if it is missing or damaged.

    Two processes may do this at once: one makes it, the other waits and uses it. After a failure, a crash or Ctrl-C
    there is the earlier environment or none.

    Args:
        name: one of `names()`, or such a name with a version: ``pytensor==2.38.3``.
        on_progress: called with one line of text at least every two seconds during a wait.
        hashes: look for damage in the contents of files, as `problems` does; else only at their sizes.

    Raises:
        EnvironmentFailed: it could not be made; the message says what failed, uv's last lines and what to do.
    """
    say, wanted = on_progress, versions.find(name)
    name = wanted.name
    present = places.inspect(wanted)
    if present.state == "ready" and not _problems(wanted, present, hashes, say):
        return present
    if present.installed is not None:
        raise EnvironmentFailed(present.reason)
    root = folders.directory()
    with _writing(name, root):
        make_own(root)
        with _lock(wanted.directory_name(), f"environment {name}", say):
            present = places.inspect(wanted)  # another process may have made it while we waited
            damage = _problems(wanted, present, hashes, say) if present.state in ("ready", "broken") else []
            if present.state == "ready" and not damage:
                return present
            _sweep(root, wanted.directory_name())
            if damage:
                say(f"environment {name}: damaged ({damage[0]}), making it again")
                _discard(present.path)
            prepared = wanted.prepare(say)
            if prepared == wanted:
                _make(wanted, present.path, say)
                return places.inspect(wanted)
    # It was resolved for another Python: from now on `find` gives the recipe with that Python.
    return sync(name, on_progress, hashes=hashes)


def problems(name: str, on_progress: Progress = silent) -> list[str]:
    """The problems of the environment of a name: a Python that does not run, packages that differ from the lock, files
    that are missing or have changed. Reads all of its files.

    Raises:
        EnvironmentFailed: there is no such name.
    """
    wanted = versions.find(name)
    return _problems(wanted, places.inspect(wanted), True, on_progress)


def _problems(wanted: Recipe, present: Environment, hashes: bool, say: Progress) -> list[str]:
    if present.state != "ready":
        return [present.reason]
    if present.installed is not None:
        return []  # all of it is the user's
    try:
        facts = contents.facts(present.python)
    except EnvironmentFailed as error:
        return [str(error)]
    lock = wanted.read(wanted.lock)
    damage = present.damage(hashes, lambda text: say(f"environment {wanted.name}: {text}"))
    return [*contents.unlocked(present.versions(), lock, facts), *map(str, damage)]


def remove(name: str, on_progress: Progress = silent) -> list[Path]:
    """Delete every environment of a name, those for older requirements included. For a framework without a version also
    delete its unpacked wheels and source distributions, and the code that quick sessions compiled. Returns the deleted
    paths.

    On Linux and macOS processes that run in one of them keep their open files.

    Raises:
        EnvironmentFailed: there is no such name, or something could not be deleted.
    """
    wanted = versions.find(name)
    if wanted.folder or wanted.interpreter:
        raise EnvironmentFailed(
            f"{name!r} has no environment of its own, and what is there is yours. xbackend env remove "
            f"{wanted.framework} removes the locked one, and what was unpacked of wheels and source distributions"
        )
    removed = []
    with _writing(wanted.name, folders.directory()):
        for environment in [places.inspect(wanted), *places.others(wanted)]:
            if environment.path.is_dir():
                with _lock(environment.path.name, f"environment {wanted.name}", on_progress):
                    _sweep(environment.path.parent, environment.path.name)
                    _discard(environment.path)
                removed.append(environment.path)
        wanted.forget()
        unpacked = patched.unpacked_of(wanted.framework) if "=" not in wanted.name else []
        for path in filter(Path.is_dir, [*unpacked, folders.compiled() / wanted.name]):
            _discard(path)
            removed.append(path)
    return removed


def _make(wanted: Recipe, path: Path, say: Progress) -> None:
    """Build beside `path` and rename when complete. The caller holds the lock."""
    what = f"environment {wanted.name}"
    where = f" of {wanted.python.path}" if wanted.python.path else ", which uv looks for"
    say(f"{what}: making it with Python {wanted.python_version}{where} in {path}")
    with new_folder(path) as staging:
        # Relocatable, as it is moved when complete. The working directory keeps a user's project file out.
        python = wanted.python.path or wanted.python_version  # uv downloads a version that is not on this machine
        venv = ["venv", "--quiet", "--no-project", "--relocatable", "--python", python, str(staging)]
        run_uv(venv, what, say, path.parent)
        _install(wanted, staging, say)
        marker = {
            "format": places.FORMAT,
            "name": wanted.name,
            "python": wanted.python_version,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "packages": contents.packages_in(staging),
            "records": contents.records_in(staging),
        }
        write_whole(staging / places.MARKER, json.dumps(marker, indent=1).encode() + b"\n")
        os.rename(staging, path)
    say(f"{what}: ready in {path}")


def _install(wanted: Recipe, path: Path, say: Progress) -> None:
    """Install the locked packages in a fresh environment, and verify them. Raises `EnvironmentFailed`."""
    what, python = f"environment {wanted.name}", places.python_in(path)
    # Bytecode is compiled now, not in the first measured import. No unlocked build dependency runs: packages come as
    # wheels, or are built with locked tools.
    options = ["--require-hashes", *wanted.building, "--build-constraints", str(wanted.lock), "--compile-bytecode"]
    command = ["pip", "sync", "--python", str(python), *options, str(wanted.lock)]
    run_uv(command, what, say, path.parent)
    missed = contents.unlocked(contents.packages_in(path), wanted.read(wanted.lock), contents.facts(python))
    if missed:
        raise EnvironmentFailed(
            f"{what}: what uv installed is not what is locked ({'; '.join(missed[:3])}). Look for `target` or `prefix` "
            "in uv.toml (yours, the system's, or what UV_CONFIG_FILE names) and in variables that begin with UV_."
        )
    say(f"{what}: comparing the files with those of the packages")
    look = partial(contents.damage, path, True, {}, lambda text: say(f"{what}: {text}"))
    if damaged := look():
        # Files are links into uv's cache, or copies of it: a damaged one returns until it is removed there.
        names = sorted({damage.package for damage in damaged})
        say(f"{what}: damaged in uv's cache ({damaged[0]}), getting it again")
        run_uv(["cache", "clean", *names], what, say, path.parent)
        run_uv([*command, *(word for name in names for word in ("--reinstall-package", name))], what, say, path.parent)
        damaged = look()
    if damaged:
        raise EnvironmentFailed(f"{what}: damaged as soon as it was installed ({damaged[0]}). Is the disk in order?")


@contextlib.contextmanager
def _writing(name: str, root: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFailed(
            f"environment {name}: {error}. It is kept in {root}; "
            "set XBACKEND_HOME to a directory that can be written and has room."
        ) from error


@contextlib.contextmanager
def _lock(directory_name: str, what: str, say: Progress) -> Iterator[None]:
    """Hold the lock of one environment. While another process has it, say so and wait."""
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
    make_own(folder)
    return folder / f"{directory_name}.lock"


def _sweep(root: Path, held: str) -> None:
    """Delete the staging directories of killed processes. Who makes a live one holds its environment's lock."""
    for leftover in root.glob(f".*{MADE}*"):
        owner = leftover.name[1:].rpartition(MADE)[0]
        if owner == held:
            shutil.rmtree(leftover)
            continue
        with contextlib.suppress(Timeout), FileLock(_lock_file(owner), timeout=0):  # else its maker is alive
            shutil.rmtree(leftover)


def _discard(path: Path) -> None:
    """Delete an environment. It is renamed first, as deletion takes a while."""
    trash = being_made(path)
    os.rename(path, trash)
    shutil.rmtree(trash)
