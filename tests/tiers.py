"""Which tests run: ``pytest --tier quick``, ``--tier exhaustive``, or by default *standard*, before a change lands.

Compiling dominates the tests' cost, so the tiers differ in how often the same is compiled:

- *quick*, to wait for: no command, no test of many seconds; the core of the contract on the oracle and two backends.
- *standard*: all of the contract on two of these (`whole`). All other backends take turns with its core: one of them
  makes each check of the core.
- *exhaustive*: the core on every backend that compiles fast. The backends of one compiler in `COMPILERS` take turns
  with it; one that is alone with its compiler makes a quarter of it. The backends of one environment share one
  lowering and one derivation of gradients. They take turns with the variants, with derived checks and with whole
  programs (`TURNS`: those that compile for long take fewer); those of `COMPILED` take turns with random programs. The
  backends of `OPTIMISED` compile as users' do, the others optimise little. A backend named on the command line makes
  all, as users' do. Of what is drawn at random this tier takes a quarter, and those below a tenth (`share`); all, if a
  backend is named.

A test is in every tier, except by these marks:

- ``@pytest.mark.tier("standard")``: its lowest tier. ``@pytest.mark.tier("exhaustive", "jax", ...)``: only of the
  cases whose id has one of these words. A test of two seconds and more is exhaustive if it reaches no line of xbackend
  that other tests do not reach, and checks nothing that a user would miss first. Coverage was measured once for that.
- ``@pytest.mark.parent_decides``: xbackend refuses before it calls a backend. Only the registry's first one runs it.
- ``@pytest.mark.one_each(number, count)``: below the exhaustive tier the backends run it whose places in the registry
  are ``number`` modulo ``count``.
- ``@pytest.mark.takes_turns``: backends take turns with these tests like with the checks of the core.
- ``@pytest.mark.heavy``: a program compiled for tens of seconds by the backends of `LONGEST`, which make it in the
  exhaustive tier only, and one that is ``shared_out`` only if they are named.
- ``@pytest.mark.shared_out``: in the exhaustive tier the backends of each environment take turns with these tests.
  With those that have a ``number`` all backends of `COMPILED` take turns: all tests on one backend take hours.
  A backend also makes those of the standard tier: its turn of ``one_each``, and what it has for itself (`OWN`).
- A parameter ``check`` that is ``derived``: of a loss that asks how a gradient is derived, and not how it is computed.
  It is in the standard tier like the rest of the core, and shared out in the exhaustive one.
- ``@pytest.mark.variant``, or a parameter ``check`` whose ``core`` is false: much like another test. The quick tier has
  none of them, the standard one those on the backends of `whole`. In the exhaustive tier one backend of each
  environment makes it, and so do those on which it is expected to fail. An environment without a fast compiler makes
  a share of them: Theano and Aesara derive and lower alike.

Of the tests for each backend ``--backends NAME,...`` leaves only those of the named ones, in any tier. It also adds the
contract suite for a name with options, ``--backends "pytensor-jax[rewrites=merge]"``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from zlib import crc32

import precompiled
import pytest

from xbackend.backends import registry

TIERS = ("quick", "standard", "exhaustive")
QUICK = ("numpy", "tensorflow", "pytensor-jax")  # the oracle, and the fastest compilers of two other environments
# Seconds for each program, by compiler: Numba, OpenCL's, loops written out for MLX, and gcc.
COMPILERS = (("pytensor", "aesara-numba"), ("theano-gpuarray",), ("pytensor-mlx",), ("pytensor-c", "aesara", "theano"))
COMPILED = tuple(name for names in COMPILERS for name in names)
LONGEST = tuple(name for names in COMPILERS[:-1] for name in names)  # a minute for large programs
SLOW = LONGEST[1:]  # of small ones, too
# The rows that an adapter has for itself are checked on it, whoever's turn it is: labels of checks, and names of tests.
# They are those without which lines of an adapter were not reached by this tier, and were by a larger one.
OWN = {
    "jax": ("floor_divide-int64", "floor_divide-float64", "searchsorted-float64"),
    "aesara-numba": ("while_loop_never-0",),
    "aesara-jax": ("argmax-flat-float64", "grad-concat-float64", "slogdet_both_of_stack-float64", "grad-eigh-float64"),
    "aesara": ("prod-of_a_multiple-float64",),
    "theano": ("matmul_of_nothing-float64", "prod-of_a_multiple-float64"),
    "theano-gpuarray": (
        *("mean-all_axes-float64", "matmul_stacks-float64", "take-float64", "cond_true-0"),
        "test_updates_take_effect_once_after_the_outputs",
    ),
    "pytensor-c": ("pow-int64", "while_loop_of_integers-0"),
    "pytensor-mlx": ("while_loop_never-0", "sin-float64", "cos-float64"),
}
# The turns of a backend within its environment: of `LONGEST`, of the rest of `COMPILED`, and of the others.
TURNS = (1, 4, 12)
# The compilers optimise little, unless the user says otherwise: a third of XLA's time, half of Numba's.
LITTLE_OPTIMISED = "--xla_backend_optimization_level=0"
LITTLE = {"XLA_FLAGS": LITTLE_OPTIMISED, precompiled.LEVEL: "-O1", "NUMBA_OPT": "1"}
# In the exhaustive tier these, and those named on the command line, have all of XLA's and gcc's optimisation.
OPTIMISED = ("jax", "tensorflow-xla", "pytensor-c")
# There Numba optimises least where it takes longest: a quarter less time. `pytensor` has the code of `LITTLE`.
LEAST = {"aesara-numba": {"NUMBA_OPT": "0"}}
# Set before the modules of the tests are imported: the tier, and the backends that are named on the command line.
chosen, named = TIERS[-1], tuple[str, ...]()


def share(whole: int) -> int:
    """The number of random examples to take of ``whole``."""
    if chosen != TIERS[-1]:
        return max(1, whole // 10)
    return whole if named else max(1, whole // 4)


def optimisation(backend: str) -> dict[str, str | None]:
    """What differs from `LITTLE` for a backend in the exhaustive tier: variables with their values, `None` for without.
    What the user set stays."""
    base = registry.base(backend)
    ours = [variable for variable, little in LITTLE.items() if os.environ.get(variable) == little]
    other: dict[str, str | None] = {**LEAST.get(base, {})}
    if base in OPTIMISED or backend in named:
        other = {"XLA_FLAGS": None, precompiled.LEVEL: None}
    return {variable: value for variable, value in other.items() if variable in ours}


def whole() -> tuple[str, ...]:
    """The backends with the whole contract in the standard tier: the oracle and a fast compiler."""
    return QUICK[:2]


def backend_of(item: pytest.Item) -> str | None:
    """The backend of a test that is made for each backend; else `None`."""
    parameters = getattr(item, "callspec", None)
    values = () if parameters is None else parameters.params.values()
    return next((v for v in values if isinstance(v, str) and registry.base(v) in registry.REGISTRY), None)


def its_turn(backend: str, number: int) -> bool:
    """Whether a backend makes the check of this number. Those of `QUICK` make all, and one of the others does."""
    base, others = registry.base(backend), in_turn()
    return base in QUICK or base == others[number % len(others)]


def in_turn() -> list[str]:
    """The backends that take turns, in their order."""
    others = [name for name in registry.names() if name not in QUICK]
    return [*others, *(2 * [name for name in others if name not in COMPILED])]


def makes(tier: str, backend: str, number: int) -> bool:
    """Whether a backend makes the check of the core of this number."""
    base = registry.base(backend)
    if its_turn(backend, number):
        return True
    if tier != TIERS[-1]:
        return False
    # One that is alone with its compiler makes every fourth one.
    same = next(([*names, "", "", ""] if len(names) == 1 else names for names in COMPILERS if base in names), [base])
    return backend in named or _by_turns(base, number, same)


def compiled(tier: str, backend: str, core: bool, turn: int, *, label: str = "", derived: bool = False) -> bool:
    """Whether a check of the contract is made on a backend; ``turn`` is its number."""
    if not core:
        return variants(tier, backend, turn)
    if label in OWN.get(registry.base(backend), ()):
        return True
    if derived and tier == TIERS[-1]:
        return its_turn(backend, turn) or variants(tier, backend, turn)
    return makes(tier, backend, turn)


def variants(tier: str, backend: str, number: int) -> bool:
    """Whether a backend makes the variant of this number."""
    if tier == TIERS[-1]:
        base = registry.base(backend)
        every = _of_environment(base)
        if all(name in COMPILED for name in every):
            every += [""] * TURNS[-1]  # nobody's
        return backend in named or _by_turns(base, number, every)
    return tier == "standard" and backend in whole()


def _of_environment(backend: str, without: Sequence[str] = ()) -> list[str]:
    """The backends of this one's environment, as often as they have turns; those of ``without`` have none."""
    own = [n for n in registry.names() if _environment(n) == _environment(backend) and n not in without]
    return [name for name in own for _ in range(turns(name))]


def _environment(backend: str) -> str:
    return registry.get(backend).environment


def turns(backend: str) -> int:
    """The turns of a backend within its environment."""
    return TURNS[(backend not in LONGEST) + (backend not in COMPILED)]


def _by_turns(backend: str, number: int, every: Sequence[str]) -> bool:
    """Whether it is the turn of this backend."""
    # Shifted back by one after each round: tests with this period do not always go to the same backend.
    return every[(number - number // len(every)) % len(every)] == backend


def wanted(item: pytest.Item, tier: str, backends: tuple[str, ...] = ()) -> bool:
    """Whether a test is in a tier, and for one of ``backends``, if given."""
    # A parameter's mark is not the closest one where its test has a mark, too.
    case = item.nodeid.partition("[")[2]
    for lowest, *cases in (mark.args for mark in item.iter_markers("tier")):
        if TIERS.index(lowest) > TIERS.index(tier) and (not cases or any(word in case for word in cases)):
            return False
    backend = backend_of(item)
    if backend is None:
        return True
    if backends and backend not in backends:
        return False
    exhaustive = tier == "exhaustive"
    if exhaustive and (backends or item.get_closest_marker("xfail")):
        return True
    if tier == "quick" and backend not in (backends or QUICK):
        return False
    if item.get_closest_marker("parent_decides") and backend != registry.names()[0]:
        return False
    heavy = registry.base(backend) in LONGEST and item.get_closest_marker("heavy") is not None
    if heavy and not exhaustive and backend not in backends:
        return False
    turn = item.get_closest_marker("one_each")
    place = registry.names().index(registry.base(backend))
    its_one = turn is not None and not heavy and not (place - turn.args[0]) % turn.args[1]
    if turn is not None and not exhaustive and not its_one:
        return False
    check = item.callspec.params.get("check")  # type: ignore[attr-defined]  # it has parameters, or no backend
    if check is not None:
        return compiled(tier, backend, check.core, check.turn, label=check.label, derived=check.derived)
    number = crc32(item.nodeid.replace(f"[{backend}", "[").encode())
    own = item.nodeid.rpartition("::")[2].partition("[")[0] in OWN.get(registry.base(backend), ())
    variant = item.get_closest_marker("variant") is not None
    if exhaustive and item.get_closest_marker("shared_out") is not None:
        counted = item.callspec.params.get("number")  # type: ignore[attr-defined]
        without = LONGEST if item.get_closest_marker("heavy") else ()
        every = _of_environment(backend, without)
        made = _by_turns(backend, number, every) if counted is None else _shares(backend, counted)
        return made or own or (its_one and not variant)
    if variant:
        return variants(tier, backend, number)
    return item.get_closest_marker("takes_turns") is None or own or makes(tier, backend, number)


def _shares(backend: str, number: int) -> bool:
    """Whether a backend makes the random programs of this number in the exhaustive tier."""
    if backend in COMPILED:
        return _by_turns(backend, number, [name for name in registry.names() if name in COMPILED])
    quick = [name for name in registry.names() if name not in COMPILED]
    return _by_turns(backend, number, [name for name in quick if _environment(name) == _environment(backend)])


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier. The others count as deselected."""
    tier, backends = config.getoption("--tier"), tuple(config.getoption("--backends"))
    for name in backends:
        registry.get(name)  # an unknown name is an error that lists the backends
    out = [item for item in items if not wanted(item, tier, backends)]
    if out:
        left = set(map(id, out))
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if id(item) not in left]
