"""Changes that a backend leaves in the interpreter that opened it; here a worker's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xbackend.backends import registry
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")
ASKED = """
import importlib
import os
import sys

import numpy as np

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Settings


def registered(backend, name, place):
    module, _, attribute = place.partition(":")
    registry_of = getattr(importlib.import_module(module), attribute).registry
    before = dict(registry_of)
    for _ in range(3):
        registry.get(name).load(Settings()).close()
    return [str(op) for op in registry_of if registry_of[op] is not before.get(op)]


def again(backend, name):
    backend.close()
    found = []
    for _ in range(2):
        with registry.get(name).load(Settings()) as opened:
            found.append(float(opened.compile(xb.sum, np.ones(3))(np.ones(3))))
    return found


def x64(backend, name):
    import jax

    said = [jax.config.jax_enable_x64]
    first, second = (registry.get(name).load(Settings()) for _ in range(2))
    for one in (first, backend, second):
        one.close()
        said.append(jax.config.jax_enable_x64)
    del first, second
    with registry.get(name).load(Settings()):
        said.append(jax.config.jax_enable_x64)
    said.append(jax.config.jax_enable_x64)
    return said


def mpi(backend, name):
    memory = f"/dev/shm/mpich_shm_{os.getpid():x}_0"  # of a process alone
    def mapped():  # a file alone may be what a process of the same number left
        with open("/proc/self/maps") as maps:
            return memory in maps.read()
    found = ["mpi4py" in sys.modules, mapped()]
    importlib.import_module("mpi4py.MPI")
    found.append(mapped())
    if found[-1]:
        os.unlink(memory)
    return found
"""
PLACES = {
    "pytensor": "pytensor.link.numba.dispatch.basic:numba_funcify_and_cache_key",
    "pytensor-jax": "pytensor.link.jax.dispatch.basic:jax_funcify",
    "aesara-numba": "aesara.link.numba.dispatch.basic:_numba_funcify",
    "aesara-jax": "aesara.link.jax.dispatch.basic:jax_funcify",
}


def ask(tmp_path: Path, name: str, function: str, *arguments: Any) -> Any:
    (tmp_path / "asked.py").write_text(ASKED)
    with RemoteBackend(name, modules={"asked": str(tmp_path / "asked.py")}) as backend:
        return backend.call(f"asked:{function}", name, *arguments)


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("name", registry.names())
def test_what_was_closed_is_opened_again(name: str, tmp_path: Path) -> None:
    assert ask(tmp_path, name, "again") == [3.0, 3.0]


@pytest.mark.takes_turns
@pytest.mark.parametrize("name", PLACES)
def test_what_is_put_into_a_framework_is_put_there_once(name: str, tmp_path: Path) -> None:
    assert ask(tmp_path, name, "registered", PLACES[name]) == []


@pytest.mark.takes_turns
@pytest.mark.parametrize(("name", "own"), [("jax", False), ("pytensor-jax", True)])
def test_jax_is_as_it_was_when_the_last_backend_is_closed(name: str, own: bool, tmp_path: Path) -> None:
    """PyTensor itself sets 64 bits in JAX."""
    assert ask(tmp_path, name, "x64") == [True, True, True, own, True, own]


@pytest.mark.parametrize("name", ["aesara", "theano"])
def test_an_import_starts_no_mpi(name: str, tmp_path: Path) -> None:
    """It once left a megabyte in /dev/shm for each worker. The user's own import of it is unchanged."""
    assert ask(tmp_path, name, "mpi") == [False, False, True]
