"""Hooks of an adapter that only its framework can answer: what it compiled, and the words of an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batches import LIMIT_SECONDS

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.placement import adds_up
from xbackend.errors import TimingError
from xbackend.measure import profiles
from xbackend.workers.remote import RemoteBackend

PLANTED = {"planted_hooks": str(Path(__file__).parent / "planted_hooks.py")}


@pytest.fixture(scope="module")
def planted(name: str) -> Iterator[RemoteBackend]:
    with RemoteBackend(name, limit=LIMIT_SECONDS, modules=PLANTED) as backend:
        yield backend


def test_a_compilation_in_a_timed_round_is_found(planted: RemoteBackend) -> None:
    watched = planted.call("planted_hooks:rounds", False)
    assert watched == sorted(planted.compilations())
    if not watched:  # it compiles nothing
        assert planted.call("planted_hooks:rounds", True) == []
        return
    with pytest.raises(TimingError, match=f"compiled in timed rounds.*{watched[0]}"):
        planted.call("planted_hooks:rounds", True)


def test_the_words_of_a_framework_without_memory_are_known(planted: RemoteBackend, name: str) -> None:
    """XLA has no error class of its own for it, only a text."""
    said = "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"
    of_xla = bool({"jax", "tensorflow"} & set(registry.get(name).packages))
    assert planted.call("planted_hooks:out_of_memory", said) is of_xla
    assert not planted.call("planted_hooks:out_of_memory", "another")


def test_a_row_says_what_is_added_to_its_framework(planted: RemoteBackend) -> None:
    """A row is the framework as its users get it. Changes to it are in the row."""
    assert ";" in planted.describe().notes["added"] or "remainder" in planted.describe().notes["added"]


def products(a: Any, b: Any) -> Any:
    with xb.device("dev0"):
        x = xb.linalg.matrix_power(a, 3)
    with xb.device("dev1"):
        y = xb.linalg.matrix_power(b, 3)
    return x, y


def test_the_parts_of_a_profiled_call_are_all_of_it(planted: RemoteBackend) -> None:
    """It refuses parts that miss the whole by more than 5 %."""
    a = np.random.default_rng(0).random((200, 200))
    run = planted.compile(products, a, a, devices={"dev0": "cpu:0", "dev1": "cpu:0"})
    values = run.put(a, a)
    planted.synchronize(run.execute(*values))
    profile, reason = profiles.take(run, values, 60.0)
    if profile is None:
        assert reason == "this backend does not tell what its devices did when"
        return
    parts = [profile[part] for part in ("compute", "exposed", "wait", "launch")]
    assert adds_up(parts, profile["call"]) and profile["compute"] > 0
