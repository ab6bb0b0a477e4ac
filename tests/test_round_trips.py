"""Programs go out as scripts and come in again.

The framework's own graph has broadcasts, casts and gradients of its own, so that the program that comes in is another
one in most cases, with the same results. From then on it stays: out and in again it has the same fingerprint.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tiers
from source_cases import of_examples, of_workloads
from source_scripts import FLAGS, Case, differs, flat, write

import xbackend as xb
from xbackend.workers.remote import ready_environment

pytestmark = pytest.mark.tier("standard")

SCRIPT = Path(__file__).with_name("round_trips.py")
REPOSITORY = Path(__file__).parent.parent
EACH = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("jax", "pytensor", "tensorflow")]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with xb.open("numpy", virtual_devices=4) as backend:
        yield backend


def trip(cases: Mapping[str, Case], framework: str, folder: Path) -> dict[str, Any]:
    """The programs of cases as scripts, and in again; for one that did not come in the error."""
    folder.mkdir()
    for name, one in cases.items():
        write(folder / name, one, framework)
    command = [str(ready_environment(framework).python), str(SCRIPT), framework, *(str(folder / n) for n in cases)]
    subprocess.run(command, env={**os.environ, **FLAGS, "PYTHONPATH": str(REPOSITORY)}, check=True, timeout=900)
    found: dict[str, Any] = {}
    for name in cases:
        path = folder / name / "program.json"
        found[name] = xb.Program.from_json(path.read_text()) if path.exists() else (folder / name / "error").read_text()
    return found
