"""What is there for programs on NVIDIA GPUs, what is missing, and what to type: ``xbackend doctor --gpu``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xbackend import environments
from xbackend.backends import registry
from xbackend.environments import accelerators, recipes
from xbackend.measure.machine import nvidia_smi
from xbackend.wording import counted

NODES = Path("/dev")
KERNEL = Path("/proc/driver/nvidia/version")
_QUERY = "index,name,memory.total,memory.free,compute_mode,mig.mode.current"


@dataclass(frozen=True)
class Looked:
    """One thing that was looked at. ``found`` says what is there, ``remedy`` what to type or do, if there is a need."""

    what: str
    found: str
    remedy: str = ""


def look() -> list[Looked]:
    """All that programs on GPUs need, in the order in which they need it."""
    return [_driver(), _cuda(), *_devices(), _nodes(), _visible(), *_environments()]


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
    oldest = min(accelerators.KINDS.values())
    if major < oldest:
        return Looked("CUDA", f"the driver runs CUDA {major}.{minor}: {said}", f"a driver that runs CUDA {oldest}")
    newest = max(accelerators.KINDS.values())
    newer = f"a driver that runs CUDA {newest} takes newer wheels" if major < newest else ""
    return Looked("CUDA", f"the driver runs CUDA {major}.{minor}: {said}", newer)


def _devices() -> Iterator[Looked]:
    for line in nvidia_smi(f"--query-gpu={_QUERY}") or ():
        told = [part.strip() for part in line.split(",")]
        if len(told) != 6:
            yield Looked("GPU", line)
            continue
        index, name, total, free, mode, mig = told
        said, remedy = f"{name}, {free} of {total} free", ""
        if mig == "Enabled":
            said += ", MIG"
            remedy = "name one instance: CUDA_VISIBLE_DEVICES=MIG-..., as nvidia-smi -L lists them"
        if mode == "Prohibited":
            said += ", compute mode Prohibited"
            remedy = f"as root: nvidia-smi -i {index} -c DEFAULT"
        elif mode == "Exclusive_Process":
            said += ", compute mode Exclusive_Process: one process at a time, and a session has several"
            remedy = f"as root: nvidia-smi -i {index} -c DEFAULT"
        yield Looked(f"GPU {index}", said, remedy)


def _nodes() -> Looked:
    nodes = sorted(path for path in NODES.glob("nvidia*") if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", path.name))
    closed = [str(path) for path in nodes if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        return Looked("permissions", f"you may not use {', '.join(closed)}", f"as root: chmod a+rw {' '.join(closed)}")
    return Looked("permissions", f"you may use {', '.join(map(str, nodes))}" if nodes else f"no {NODES}/nvidia*")


def _visible() -> Looked:
    """What CUDA_VISIBLE_DEVICES hides: it is a list of numbers and of UUIDs, which ends at the first invalid one.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
    """
    what, value = "CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return Looked(what, "not set: all GPUs are visible")
    if not value.strip():
        return Looked(what, "empty: no GPU is visible", f"unset {what}")
    there = len(nvidia_smi("--query-gpu=index") or ())
    for word in map(str.strip, value.split(",")):
        known = (word.isdecimal() and int(word) < there) or word.startswith(("GPU-", "MIG-"))
        if not known:
            return Looked(what, f"{value}: {word} is no GPU here, and hides those behind it", f"unset {what}")
    return Looked(what, value)


def _environments() -> Iterator[Looked]:
    for name in dict.fromkeys(entry.environment for entry in registry.entries()):
        kinds = [recipe.accelerator for recipe in recipes.every() if recipe.framework == name and recipe.accelerator]
        present = environments.get(name)
        if not kinds:
            yield Looked(name, "computes on CPUs: there are no wheels of it for CUDA")
        elif not recipes.recipe(name).accelerator:
            yield Looked(name, f"{present.state}, for CPUs; with a driver it is made for {' or '.join(kinds)}")
        else:
            remedy = "" if present.state == "ready" else recipes.recipe(name).command
            yield Looked(name, f"{present.name} is {present.state}", remedy)
