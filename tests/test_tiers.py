"""The tests of each tier. No test is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import system_needs
import tiers

from xbackend.backends import registry

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests" / "contract"))
import control_flow  # noqa: E402
import core  # noqa: E402
import gradients  # noqa: E402
import operations  # noqa: E402
import test_contract_state  # noqa: E402
from test_contract_random_programs import CHUNKS, PLACED  # noqa: E402

CHECKS = [check for batch in (*operations.BATCHES, *gradients.BATCHES) for check in batch.checks]
OTHERS = [name for name in registry.names() if name not in tiers.QUICK]
FAST = [name for name in registry.names() if name not in tiers.COMPILED]


@pytest.fixture(autouse=True)
def none_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever backends the command line of this session names."""
    monkeypatch.setattr(tiers, "named", ())


class Item:
    """A test's facts for tiers: its parameters and marks."""

    def __init__(self, backend: str = "", check: Any = None, number: int | None = 0, **marks: tuple[Any, ...]) -> None:
        parameters = {**({"name": backend} if backend else {}), **({"check": check} if check else {}), "number": number}
        self.callspec = type("Spec", (), {"params": parameters})
        self.marks = marks
        self.nodeid = f"tests/contract/test_it.py::test_it[{backend}]"

    def iter_markers(self, name: str) -> list[Any]:
        return [
            type("Mark", (), {"args": each if type(each) is tuple else (each,)}) for each in self.marks.get(name, ())
        ]

    def get_closest_marker(self, name: str) -> Any:
        return type("Mark", (), {"args": self.marks[name]}) if name in self.marks else None


def found(item: Item) -> list[str]:
    return [tier for tier in tiers.TIERS if tiers.wanted(item, tier)]  # type: ignore[arg-type]


def test_the_quick_ones_are_the_oracle_and_two_compiled_backends() -> None:
    assert tiers.QUICK[0] == "numpy"
    assert len({registry.get(name).environment for name in tiers.QUICK}) == 3


def test_a_test_is_in_every_tier_from_its_lowest_on() -> None:
    assert found(Item()) == list(tiers.TIERS)
    assert found(Item(tier=("standard",))) == ["standard", "exhaustive"]
    assert found(Item(tier=("exhaustive",))) == found(Item(tier=("standard", "exhaustive"))) == ["exhaustive"]
    assert found(Item(tiers.QUICK[1])) == list(tiers.TIERS)
    assert found(Item(OTHERS[0])) == ["standard", "exhaustive"]
    assert found(Item(tiers.QUICK[1], tier=("standard",))) == ["standard", "exhaustive"]
    assert found(Item(tiers.QUICK[1], tier=(("exhaustive", "other", tiers.QUICK[1]),))) == ["exhaustive"]
    assert found(Item(tiers.QUICK[1], tier=(("exhaustive", "other"),))) == list(tiers.TIERS)


def test_only_the_backends_that_are_chosen() -> None:
    chosen = (OTHERS[0],)
    assert tiers.wanted(Item(OTHERS[0]), "quick", chosen)  # type: ignore[arg-type]
    assert not tiers.wanted(Item(OTHERS[1]), "exhaustive", chosen)  # type: ignore[arg-type]
    assert tiers.wanted(Item(), "quick", chosen)  # type: ignore[arg-type]


def test_what_the_parent_refuses_is_tried_once() -> None:
    assert found(Item("numpy", parent_decides=())) == list(tiers.TIERS)
    assert not any(found(Item(name, parent_decides=())) for name in registry.names()[1:])
    asked = Item("theano", parent_decides=())
    assert tiers.wanted(asked, "exhaustive", ("theano",))  # type: ignore[arg-type]


def test_variants_are_made_below_the_exhaustive_tier_by_the_first_backends_and_in_it_by_one_of_each_environment() -> (
    None
):
    """Of an environment without a fast compiler they are made in part."""
    variants = [Item(check=check) for check in CHECKS if not check.core] + [Item(variant=())]
    made = dict.fromkeys(registry.names(), 0)
    for item in variants:
        of = {name: found(Item(name, item.callspec.params.get("check"), **item.marks)) for name in registry.names()}
        assert [name for name, tier in of.items() if "standard" in tier] == list(tiers.whole())
        by = [registry.get(name).environment for name, tier in of.items() if "exhaustive" in tier]
        assert len({*by}) == len(by) and {*by} >= {registry.get(name).environment for name in FAST}
        made = {name: count + ("exhaustive" in of[name]) for name, count in made.items()}
    assert all(count > len(variants) / 25 for count in made.values())
    for name in tiers.LONGEST:  # those of their environment that compile faster make more
        others = [n for n in OTHERS if registry.get(n).environment == registry.get(name).environment]
        assert all(made[name] < made[other] for other in others if other not in tiers.LONGEST)


def test_what_is_expected_to_fail_is_made_wherever_it_is() -> None:
    """A strict expected failure that does not run proves nothing."""
    variant = next(check for check in CHECKS if not check.core)
    assert all("exhaustive" in found(Item(name, variant, xfail=())) for name in registry.names())


def test_a_backend_that_is_named_makes_all_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [check for check in CHECKS if not check.core]
    assert not all(tiers.compiled("exhaustive", "theano", False, check.turn) for check in variants)
    monkeypatch.setattr(tiers, "named", ("theano",))
    assert all(tiers.compiled("exhaustive", "theano", False, check.turn) for check in variants)


def test_backends_take_turns_with_the_core_and_each_check_is_made_by_some_of_them() -> None:
    for check in (c for c in CHECKS if c.core):
        made_by = [name for name in registry.names() if "standard" in found(Item(name, check))]
        own = {name for name, labels in tiers.OWN.items() if check.label in labels}
        assert set(made_by) > set(tiers.QUICK) and len({*made_by} - own) <= len(tiers.QUICK) + 1
        every = {name for name in registry.names() if "exhaustive" in found(Item(name, check))}
        assert every >= {*made_by}
        assert {registry.get(name).environment for name in every} >= {registry.get(name).environment for name in FAST}
        if not check.derived:
            assert every >= {*FAST} and all(every & {*names} for names in tiers.COMPILERS if len(names) > 1)
    for name in tiers.COMPILED:  # a quarter of the core at least
        mine = [c for c in CHECKS if c.core and "exhaustive" in found(Item(name, c))]
        assert len(mine) > sum(c.core for c in CHECKS) / 4
    for name in OTHERS:  # each file numbers its checks from 0
        mine = [c for c in CHECKS if c.core and "standard" in found(Item(name, c))]
        share = tiers.in_turn().count(name) / len(tiers.in_turn())
        assert len(mine) == pytest.approx(sum(c.core for c in CHECKS) * share, abs=3 + len(tiers.OWN.get(name, ())))
    assert {name for name in registry.names() if "standard" in found(Item(name, takes_turns=()))} < {*registry.names()}


def test_what_is_heavy_is_left_to_those_that_compile_it_fast() -> None:
    made = [name for name in registry.names() if "standard" in found(Item(name, heavy=()))]
    assert set(made) == set(registry.names()) - set(tiers.LONGEST)
    assert all(found(Item(name, heavy=())) == ["exhaustive"] for name in tiers.LONGEST)
    shared = [
        name for name in registry.names() if "exhaustive" in found(Item(name, heavy=(), shared_out=(), number=None))
    ]
    assert not {*shared} & {*tiers.LONGEST}
    assert sorted(registry.get(name).environment for name in shared) == sorted(
        {e.environment for e in registry.entries()}
    )
    asked = Item("aesara-numba", heavy=(), shared_out=(), number=None)
    assert tiers.wanted(asked, "exhaustive", ("aesara-numba",))  # type: ignore[arg-type]


def test_what_an_adapter_has_for_itself_is_checked_on_it() -> None:
    every = [*CHECKS, *(check for batch in control_flow.BATCHES for check in batch.checks)]
    for name, labels in tiers.OWN.items():
        made = {check.label for check in every if check.core and "standard" in found(Item(name, check))}
        tests = {label for label in labels if label.startswith("test_")}
        assert made >= set(labels) - tests
        for test in tests:
            item = Item(name, takes_turns=())
            item.nodeid = f"tests/contract/test_contract_state.py::{test}[{name}]"
            assert found(item) == ["standard", "exhaustive"]
            assert hasattr(test_contract_state, test)


def test_random_programs_are_shared_out_among_those_that_compile_for_long() -> None:
    """Each program runs on one slow compiler, and each of these runs some on one device and some on several; and on one
    fast backend of each environment."""
    made = {
        name: [i for i in CHUNKS if "exhaustive" in found(Item(name, number=i, shared_out=()))]
        for name in registry.names()
    }
    assert sorted(i for name in tiers.COMPILED for i in made[name]) == list(CHUNKS)
    assert all({i % PLACED == 1 for i in made[name]} == {True, False} for name in tiers.COMPILED)
    for environment in {registry.get(name).environment for name in FAST}:
        own = [made[name] for name in FAST if registry.get(name).environment == environment]
        assert sorted(i for numbers in own for i in numbers) == list(CHUNKS)
        assert all({i % PLACED == 1 for i in numbers} == {True, False} for numbers in own)
    asked = Item("theano", number=1, shared_out=())
    assert "exhaustive" not in found(asked) and tiers.wanted(asked, "exhaustive", ("theano",))  # type: ignore[arg-type]


def test_tests_that_take_turns_are_made_by_a_backend_of_each_environment() -> None:
    for number in range(20):
        items = [Item(name, shared_out=()) for name in registry.names()]
        for name, item in zip(registry.names(), items, strict=True):
            del item.callspec.params["number"]  # type: ignore[attr-defined]
            item.nodeid = f"tests/contract/test_of.py::test_any[{name}-{number}]"
        made = [name for name, item in zip(registry.names(), items, strict=True) if "exhaustive" in found(item)]
        assert len(made) == len({registry.get(name).environment for name in made}) < len(registry.names())
        assert {registry.get(n).environment for n in made} == {registry.get(n).environment for n in registry.names()}


def test_what_is_compiled_as_by_users_is_one_backend_of_each_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the user set stays."""
    for variable, little in tiers.LITTLE.items():
        monkeypatch.setenv(variable, little)
    assert set(tiers.OPTIMISED) | tiers.LEAST.keys() < set(registry.names())
    for name in registry.names():
        full = {"XLA_FLAGS": None, tiers.precompiled.LEVEL: None}
        expected = full if name in tiers.OPTIMISED else tiers.LEAST.get(name, {})
        assert tiers.optimisation(name) == expected
        assert tiers.optimisation(f"{name}[x=1]") == expected
        with monkeypatch.context() as patch:
            patch.setattr(tiers, "named", (name,))
            assert tiers.optimisation(name) == full
    monkeypatch.setenv("XLA_FLAGS", "--xla_of_the_user")
    monkeypatch.setenv("NUMBA_OPT", "3")
    assert "XLA_FLAGS" not in tiers.optimisation("jax")
    assert not tiers.optimisation("aesara-numba")


def test_the_core_has_every_op_and_every_name_in_its_lists_is_one() -> None:
    import xbackend as xb

    def ops(checks: Any) -> set[str]:
        return {node.op for check in checks for node in xb.trace(check.function, *check.arguments).values}

    assert ops(c for c in CHECKS if c.core) == ops(CHECKS)
    kept = {check.label for check in CHECKS if check.core}
    for labels in core.ELSEWHERE.values():
        assert {f"{label}-{dtype}" for dtype, some in labels.items() for label in some} <= kept
    for label in (label for labels in core.ACROSS.values() for label in labels):
        assert any(name.startswith(label) for name in kept), f"{label} names no check"
    for label in gradients.CORE | gradients.CORE_OF_SECOND | gradients.CORE_IN_FLOAT32:
        assert any(f"grad-{label}" in name for name in kept), f"{label} names no check"
    for family, labels in core.IN_FLOAT64.items():
        of_family = {c.label for b in operations.BATCHES if b.name == f"{family}-float64" for c in b.checks} - kept
        assert all(any(label in name for name in of_family) for label in labels)


@pytest.mark.tier("standard")
def test_every_example_is_run_before_a_change_lands() -> None:
    collect = ["pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/test_examples.py"]
    command = [sys.executable, "-m", *collect]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    every = re.findall(r"^def (test_\w+)", (ROOT / "tests" / "test_examples.py").read_text(), re.MULTILINE)
    assert set(every) == set(re.findall(r"::(test_\w+)", done.stdout)), done.stdout


def collected(*arguments: str) -> tuple[int, int]:
    """The numbers of tests that pytest collects and deselects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    said = re.search(r"^(\d+)(?:/\d+)? tests collected(?: \((\d+) deselected\))?", done.stdout, re.MULTILINE)
    assert said, done.stdout + done.stderr
    return int(said[1]), int(said[2] or 0)


@pytest.mark.tier("exhaustive")
def test_all_backends_named_are_everything() -> None:
    files = ("tests/contract", "tests/test_examples.py", "tests/workers")
    kept, left = collected(*files, "--tier", "exhaustive", "--backends", ",".join(registry.names()))
    assert kept > 10_000 and left == 0


@pytest.mark.tier("exhaustive")
def test_without_packages_that_are_known_tests_are_skipped_and_the_last_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "env").symlink_to("/usr/bin/env")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_report_pages.py"]
    bare = {**os.environ, "PATH": str(tmp_path)}
    for extra in ((), ("-n", "2")):
        done = subprocess.run(
            [*command, *extra], capture_output=True, text=True, timeout=300, cwd=ROOT, env=bare, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.strip().splitlines()
        assert lines[-1].startswith("not tested, because xbackend knows no packages of this system: "), done.stdout
        assert lines[-1].endswith("tests without chromium-headless-shell")
        assert " skipped" in done.stdout and " passed" not in done.stdout


def test_here_what_is_missing_fails() -> None:
    assert "skip" not in {mark.name for mark in getattr(test_here_what_is_missing_fails, "pytestmark", [])}
    assert system_needs.missing_for("numpy") == ()


@pytest.mark.parametrize("name", registry.names())
def test_a_backend_lacks_what_its_registry_entry_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    lacking = system_needs.missing_for.__wrapped__(name)
    assert ("g++" in lacking) == any(package.name == "g++" for package in registry.get(name).system)
