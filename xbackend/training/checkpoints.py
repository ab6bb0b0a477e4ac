"""Checkpoints: the variables of a model in training, written whole, as safetensors that any framework reads.

A folder holds files ``step-00000100.safetensors``; other files are the user's. Tensors have the names of `Copy.named`.
The metadata have the model's fingerprint, the step, the order of the data, and the SHA-256 of all tensors, as
safetensors has no checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from xbackend import extras
from xbackend.errors import CheckpointError, DamagedStore
from xbackend.files import MOST_OF_ARRAYS, hold, read_file, refused, write_whole

FORMAT = "xbackend checkpoint"
VERSION = 1
KEPT = 3
_SUFFIX = ".safetensors"
_NAME = re.compile(rf"step-([0-9]+){re.escape(_SUFFIX)}")
_BEING_WRITTEN = re.compile(rf"\.{_NAME.pattern}\.[0-9a-f]+")
_LEFT = 60.0  # seconds after which an unfinished file counts as left by a killed process
_SAID = ("format", "version", "model", "step", "data")  # the metadata


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint: arrays by name, the model's fingerprint, the step, the order of the data."""

    arrays: Mapping[str, np.ndarray]
    model: str
    step: int
    data: Mapping[str, int]


def _digest(arrays: Mapping[str, np.ndarray], about: Mapping[str, str]) -> str:
    """SHA-256 of the arrays and the other metadata."""
    digest = hashlib.sha256(json.dumps([about[key] for key in _SAID]).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write(folder: str | PathLike[str], checkpoint: Checkpoint) -> Path:
    """Write a checkpoint whole: it is on disk on return. Then remove all but the newest `KEPT`.

    Raises `StoreError` where the system refuses, as with a full disk; earlier checkpoints are kept then.
    """
    extras.need("a checkpoint", ["safetensors"])
    from safetensors.numpy import save  # the processes of frameworks import this module without it

    arrays = {name: np.asarray(array, order="C") for name, array in checkpoint.arrays.items()}
    about = {
        "format": FORMAT,
        "version": str(VERSION),
        "model": checkpoint.model,
        "step": str(checkpoint.step),
        "data": json.dumps(dict(checkpoint.data), sort_keys=True),
    }
    about["checksum"] = _digest(arrays, about)
    folder = Path(folder)
    path = place(folder, checkpoint.step)
    with refused(f"checkpoint {path} cannot be written"):
        write_whole(path, save(arrays, metadata=about))
        for old in [one for one in files(folder) if one.is_file()][KEPT:]:
            if old != path:  # a longer training may have left newer ones
                old.unlink(missing_ok=True)
        for left in folder.iterdir():
            with suppress(FileNotFoundError):
                own = _BEING_WRITTEN.fullmatch(left.name) and left.is_file()
                if own and time.time() - left.stat().st_mtime > _LEFT:
                    left.unlink()
    return path


def place(folder: str | PathLike[str], step: int) -> Path:
    """The path of a step's checkpoint in a folder."""
    return Path(folder) / f"step-{step:08d}{_SUFFIX}"


def files(folder: str | PathLike[str]) -> list[Path]:
    """The paths in a folder that are named as checkpoints, the newest first."""
    found = [(int(name[1]), path) for path in Path(folder).glob("step-*") if (name := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


@contextmanager
def alone(folder: str | PathLike[str]) -> Iterator[None]:
    """Lock a folder of checkpoints, made if need be, for one training.

    Raises `CheckpointError` if another one holds it, and `StoreError` if it cannot be made.
    """
    extras.need("a checkpoint", ["safetensors"])
    with refused(f"checkpoints cannot be written to {folder}"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            descriptor = hold(Path(folder), wait=False)
        except BlockingIOError:
            raise CheckpointError(
                f"another training or job goes on in {folder}: wait until it has ended, or give another folder"
            ) from None
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def read(path: Path, model: str | None = None) -> Checkpoint:
    """Read a checkpoint.

    Raises `CheckpointError` for one that is damaged, of a newer version, or not of the fingerprint ``model``, and
    `StoreError` for a file that cannot be read.
    """
    extras.need("a checkpoint", ["safetensors"])
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with refused(f"checkpoint {path} cannot be read"):
        try:
            data = read_file(path, MOST_OF_ARRAYS)
        except IsADirectoryError:
            raise _damaged(path, "it is a folder") from None
        except DamagedStore as error:
            raise _Unreadable(str(error)) from None
    try:
        about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        if about["format"] != FORMAT:
            raise _Unreadable(f"{path} is no checkpoint of xbackend; give one that xbackend wrote")
        if (version := int(about["version"])) != VERSION:
            raise _Unreadable(
                f"{path} is a checkpoint of version {version}, and {VERSION} is read here: upgrade xbackend, or give "
                "another folder"
            )
        arrays = load(data)
        if about["checksum"] != _digest(arrays, about):
            raise _damaged(path, "its numbers are not those that were written")
        checkpoint = Checkpoint(arrays, about["model"], int(about["step"]), json.loads(about["data"]))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None
    if model is not None and checkpoint.model != model:
        raise CheckpointError(
            f"{path} is a checkpoint of another model, or of a job of other tasks: its fingerprint is "
            f"{checkpoint.model[:12]}, not {model[:12]}; give another folder, or what it is of"
        )
    return checkpoint


class _Unreadable(CheckpointError):
    """The content is unknown: the previous checkpoint is tried."""


def _damaged(path: Path, why: str) -> CheckpointError:
    return _Unreadable(f"checkpoint {path} is damaged ({why}); remove it, the one before is tried then")


def newest(folder: str | PathLike[str], model: str | None = None) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint of a folder, `None` without any; and messages about the damaged newer ones.

    Raises `CheckpointError` if none can be read, or if the newest readable one is of another model.
    """
    wrong: list[str] = []
    for path in files(folder):
        try:
            return read(path, model), wrong
        except _Unreadable as error:
            wrong.append(str(error))
    if wrong:
        raise CheckpointError("; ".join(wrong))
    return None, wrong
