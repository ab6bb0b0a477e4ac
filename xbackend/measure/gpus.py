"""The needs of programs on NVIDIA GPUs: which are met, and what to type for the others (``xbackend doctor --gpu``)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xbackend import environments
from xbackend.backends import registry
from xbackend.environments import accelerators, recipes
from xbackend.measure.machine import accelerators as accelerators_there
from xbackend.measure.machine import nvidia_smi
from xbackend.wording import counted

NODES = Path("/dev")
SCARCE = 0.1  # of a GPU's memory: with less of it free, a session cannot be expected to run
KERNEL = Path("/proc/driver/nvidia/version")
VISIBLE = "CUDA_VISIBLE_DEVICES"
_QUERY = "index,name,memory.total,memory.free,compute_mode,mig.mode.current"


@dataclass(frozen=True)
class Looked:
    """A need: ``what`` it is, what was ``found``, and the ``remedy``, to type or do; empty if it is met."""

    what: str
    found: str
    remedy: str = ""


def look(named: Iterable[str] = ()) -> list[Looked]:
    """All needs, in the order in which a program meets them. ``named`` environments replace those that are made for the
    same frameworks."""
    return [_driver(), _cuda(), *_devices(), _nodes(), _visible(), *_environments(named)]


def _driver() -> Looked:
    lines = nvidia_smi("--query-gpu=driver_version")
    if lines:
        return Looked("driver", f"{lines[0]}, {counted(len(lines), 'GPU')}")
    if KERNEL.exists():
        kernel = KERNEL.read_text().splitlines()[0]
        return Looked("driver", f"{kernel}, but nvidia-smi is missing or fails", "nvidia-smi, and read what it says")
    return Looked("driver", "none", "install NVIDIA's driver; in a container, start it with --gpus all")


def _cuda() -> Looked:
    major, minor = accelerators.driver()
    kind = accelerators.chosen()
    if os.environ.get(accelerators.VARIABLE, "").strip():
        said = f"environments are made for {kind}, as --accelerator or {accelerators.VARIABLE} says"
    else:
        said = f"environments are made for {'CPUs' if kind == accelerators.NONE else kind}"
    if not major:
        return Looked("CUDA", f"{accelerators.LIBRARY} cannot be loaded: {said}", "install NVIDIA's driver")
    if major < accelerators.KINDS.get(kind, 0):
        needed = f"a driver that runs CUDA {accelerators.KINDS[kind]}, or another --accelerator"
        return Looked("CUDA", f"the driver runs CUDA {major}.{minor}, which is too old: {said}", needed)
    oldest = min(accelerators.KINDS.values())
    if major < oldest:
        return Looked("CUDA", f"the driver runs CUDA {major}.{minor}: {said}", f"a driver that runs CUDA {oldest}")
    newest = max(accelerators.KINDS.values())
    newer = f"; a driver that runs CUDA {newest} takes newer wheels" if major < newest else ""
    return Looked("CUDA", f"the driver runs CUDA {major}.{minor}: {said}{newer}")


def _devices() -> Iterator[Looked]:
    for line in nvidia_smi(f"--query-gpu={_QUERY}") or ():
        told = [part.strip() for part in line.split(",")]
        if len(told) != 6:
            yield Looked("GPU", line)
            continue
        index, name, total, free, mode, mig = told
        said, remedy = f"{name}, {free} of {total} free", ""
        if (left := _mib(free)) is not None and left < SCARCE * (_mib(total) or 0):
            remedy = "end the processes that nvidia-smi lists with its memory"
        if mig == "Enabled":
            said += ", MIG"
            if not os.environ.get(VISIBLE, "").startswith("MIG-"):
                remedy = f"name one instance: {VISIBLE}=MIG-..., as nvidia-smi -L lists them"
        if mode == "Prohibited":
            said += ", compute mode Prohibited"
            remedy = f"as root: nvidia-smi -i {index} -c DEFAULT"
        elif mode == "Exclusive_Process":
            said += ", compute mode Exclusive_Process: one process at a time, and a session has several"
            remedy = f"as root: nvidia-smi -i {index} -c DEFAULT"
        yield Looked(f"GPU {index}", said, remedy)


def _mib(text: str) -> int | None:
    number = text.removesuffix(" MiB")
    return int(number) if number.isdecimal() else None


def _nodes() -> Looked:
    nodes = sorted(path for path in NODES.glob("nvidia*") if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", path.name))
    closed = [str(path) for path in nodes if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        return Looked("permissions", f"you may not use {', '.join(closed)}", f"as root: chmod a+rw {' '.join(closed)}")
    return Looked("permissions", f"you may use {', '.join(map(str, nodes))}" if nodes else f"no {NODES}/nvidia*")


def hidden() -> list[str]:
    """A warning where CUDA_VISIBLE_DEVICES hides GPUs of this machine: rows may then be of the CPU."""
    looked = _visible() if VISIBLE in os.environ else None
    if looked is None or not looked.remedy or not accelerators_there():
        return []
    return [f"{looked.what}: {looked.found}: {looked.remedy}"]


def _visible() -> Looked:
    """The effect of CUDA_VISIBLE_DEVICES: a list of numbers, of UUIDs and of beginnings of UUIDs, which ends at the
    first invalid one. A process has one instance of MIG.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
    https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#cuda-visible-devices
    """
    value = os.environ.get(VISIBLE)
    if value is None:
        return Looked(VISIBLE, "not set: all GPUs are visible")
    if not value.strip():
        return Looked(VISIBLE, "empty: no GPU is visible", f"unset {VISIBLE}")
    words = [word.strip() for word in value.split(",")]
    count, lines = len(nvidia_smi("--query-gpu=index") or ()), nvidia_smi("-L", "") or ()
    # Of all GPUs and of all instances of MIG.
    uuids = [uuid for line in lines for uuid in re.findall(r"\(UUID: ([^)]+)\)", line)]
    for place, word in enumerate(words):
        named = word.startswith(("GPU-", "MIG-")) and (not uuids or any(uuid.startswith(word) for uuid in uuids))
        if not named and not (word.isdecimal() and int(word) < count):
            hides = "and hides those behind it" if place else "so that none is visible"
            there = ", as nvidia-smi -L lists them" if word.startswith(("GPU-", "MIG-")) else ""
            return Looked(VISIBLE, f"{value}: {word} is no GPU here{there}, {hides}", f"unset {VISIBLE}")
    if len(words) > 1 and any(word.startswith("MIG-") for word in words):
        return Looked(VISIBLE, f"{value}: a process has one instance of MIG, the first", f"{VISIBLE}={words[0]}")
    return Looked(VISIBLE, value)


def _environments(named: Iterable[str]) -> Iterator[Looked]:
    given = {place.framework: place for place in map(environments.get, named)}
    for name in dict.fromkeys(entry.environment for entry in registry.entries()):
        kinds = [recipe.accelerator for recipe in recipes.every() if recipe.framework == name and recipe.accelerator]
        present = given.get(name) or environments.get(name)
        if name in given:
            yield Looked(name, f"{present.name} is {present.state}", present.reason)
        elif not kinds:
            yield Looked(name, "computes on CPUs: there are no wheels of it for CUDA")
        elif not recipes.recipe(name).accelerator:
            yield Looked(name, f"{present.state}, for CPUs; with a driver it is made for {' or '.join(kinds)}")
        else:
            remedy = "" if present.state == "ready" else recipes.recipe(name).command
            yield Looked(name, f"{present.name} is {present.state}", remedy)
