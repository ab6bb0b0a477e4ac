"""Which tests run: ``pytest --tier quick``, without the option what runs before a change lands, ``--tier exhaustive``.

Compiling is what tests cost, so the tiers differ in how often the same is compiled:

- *quick* is the answer to wait for: what needs no minutes, and the core of the contract on the oracle and two other
  backends.
- *standard*: all of the contract on two of these (`whole`); all others take turns with its core, so that each check of
  the core is made by one or two of them.
- *exhaustive*: the core on every backend. The backends of one environment share one lowering, and take turns with the
  variants, and those of `COMPILED` with random programs. A backend that is named on the command line makes all.

A test is in every tier unless something of this says otherwise:

- ``@pytest.mark.tier("standard")``: the lowest tier that it is in.
- ``@pytest.mark.parent_decides``: xbackend refuses before a backend is asked. It runs on the first backend of the
  registry only.
- ``@pytest.mark.one_each(number)``: below the exhaustive tier every backend runs one of the tests with this mark, and
  every test is run by some backend.
- ``@pytest.mark.takes_turns``: below the exhaustive tier all but the backends of `QUICK` take turns with these tests.
- ``@pytest.mark.shared_out``: in the exhaustive tier the backends of `COMPILED` take turns with the ``number`` of these
  tests, and of the others those of one environment: all of them on one take hours.
- ``@pytest.mark.variant``, or a parameter ``check`` whose ``core`` is false: much like another test. The quick tier has
  none of them, the standard one those on the backends of `whole`; in the exhaustive tier one backend of each
  environment makes it, and those on which it is expected to fail.

``--backends NAME,...`` leaves only these of the tests that are made for each backend, whatever the tier; the contract
suite is also made for a name with options, ``--backends "pytensor-jax[rewrites=merge]"``.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import pytest

from xbackend.backends import registry

TIERS = ("quick", "standard", "exhaustive")
QUICK = ("numpy", "tensorflow", "pytensor-jax")  # the oracle and, of two other environments, what compiles fastest
TURNS = 6  # a check of the core is made by those, and by one in so many of the others
SLOW = ("aesara-numba", "theano-gpuarray")  # compile for longest, and take every third of their turns
COMPILED = ("pytensor", "pytensor-c", "aesara", *SLOW, "theano")  # by gcc or Numba: seconds for each program
# Set before the modules of the tests are imported: the tier, and the backends that are named on the command line.
chosen, named = TIERS[-1], tuple[str, ...]()


def share(whole: int) -> int:
    """How many of so many random examples to take: all in the exhaustive tier, else a tenth."""
    return whole if chosen == TIERS[-1] else max(1, whole // 10)


def whole() -> tuple[str, ...]:
    """Those of which the standard tier makes the whole contract: the oracle and one that compiles fast."""
    return QUICK[:2]


def backend_of(item: pytest.Item) -> str | None:
    """The backend that a test is run on, where it is made for each of them."""
    parameters = getattr(item, "callspec", None)
    values = () if parameters is None else parameters.params.values()
    return next((v for v in values if isinstance(v, str) and registry.base(v) in registry.REGISTRY), None)


def its_turn(backend: str, number: int) -> bool:
    """Whether a backend makes the check with this number: those of `QUICK` make all."""
    others = [name for name in registry.names() if name not in QUICK]
    base = registry.base(backend)
    if base in SLOW and number // TURNS % 3:
        return False
    return base not in others or others.index(base) % TURNS == number % TURNS


def compiled(tier: str, backend: str, core: bool, turn: int) -> bool:
    """Whether a check of the contract is made on a backend; ``turn`` is its number."""
    if not core:
        return variants(tier, backend, turn)
    return tier == "exhaustive" or its_turn(backend, turn)


def variants(tier: str, backend: str, number: int) -> bool:
    """Whether a backend makes a test of this number that is much like another one."""
    if tier == "exhaustive":
        base = registry.base(backend)
        return backend in named or _by_turns(base, number, lambda name: _environment(name) == _environment(base))
    return tier == "standard" and backend in whole()


def _environment(backend: str) -> str:
    return registry.get(backend).environment


def _by_turns(backend: str, number: int, among: Callable[[str], bool]) -> bool:
    """Whether it is the turn of this backend among those of which this is true."""
    own = list(filter(among, registry.names()))
    # By a step of its own after each round: what comes again after as many tests is not always the same backend's.
    return own.index(backend) == (number + number // len(own)) % len(own)


def wanted(item: pytest.Item, tier: str, backends: tuple[str, ...] = ()) -> bool:
    """Whether a test is in a tier, and for one of these backends, if some were chosen."""
    lowest = item.get_closest_marker("tier")
    if lowest is not None and TIERS.index(lowest.args[0]) > TIERS.index(tier):
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
    turn = item.get_closest_marker("one_each")
    place = registry.names().index(registry.base(backend))
    if turn is not None and not exhaustive and (place - turn.args[0]) % turn.args[1]:
        return False
    check = item.callspec.params.get("check")  # type: ignore[attr-defined]  # it has parameters, or no backend
    if check is not None:
        return compiled(tier, backend, check.core, check.turn)
    if exhaustive and item.get_closest_marker("shared_out") is not None:
        return _shares(backend, item.callspec.params["number"])  # type: ignore[attr-defined]
    number = crc32(item.nodeid.replace(f"[{backend}", "[").encode())
    if item.get_closest_marker("variant") is not None:
        return variants(tier, backend, number)
    return exhaustive or item.get_closest_marker("takes_turns") is None or its_turn(backend, number)


def _shares(backend: str, number: int) -> bool:
    """Whether a backend makes the random programs of this number in the exhaustive tier."""
    if backend in COMPILED:
        return _by_turns(backend, number, COMPILED.__contains__)
    quick = [name for name in registry.names() if name not in COMPILED]
    return _by_turns(backend, number, lambda name: name in quick and _environment(name) == _environment(backend))


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the tier; the others are counted as deselected."""
    tier, backends = config.getoption("--tier"), tuple(config.getoption("--backends"))
    for name in backends:
        registry.get(name)  # an unknown name is an error that lists those that there are
    out = [item for item in items if not wanted(item, tier, backends)]
    if out:
        left = set(map(id, out))
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if id(item) not in left]
