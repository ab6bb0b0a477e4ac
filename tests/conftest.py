"""Fixtures and options of all tests."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import precompiled
import pytest
import system_needs
import tiers
from hypothesis import HealthCheck, settings

from xbackend.backends import registry
from xbackend.measure.patience import VARIABLE
from xbackend.wording import listed

# The machine is shared: slowness is no failure.
settings.register_profile(
    "xbackend", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("xbackend")


# Files whose tests of each backend take minutes.
BY_BACKEND = ("test_examples.py", "test_drawn_graphs.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.TIERS, default="standard", help="which tests: see tests/tiers.py")
    parser.addoption(
        "--backends",
        type=listed,
        default=[],
        help="of the tests made for each backend only those of these: --backends numpy,pytensor-c",
    )


def pytest_report_header(config: pytest.Config) -> str:
    return f"tier: {config.getoption('--tier')} (of {', '.join(tiers.TIERS)})"


def pytest_configure(config: pytest.Config) -> None:
    """Give signals their meaning in the tests: a job in the background starts with Ctrl-C ignored, and ``nohup``
    ignores the end of the terminal; child processes inherit that. Also make the C++ compiler with precompiled headers,
    for all processes of ``pytest -n``."""
    tiers.chosen, tiers.named = config.getoption("--tier"), tuple(config.getoption("--backends"))
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="xbackend-tests-")
        config.add_cleanup(folder.cleanup)
        precompiled.install(Path(folder.name))
        precompiled.make_room()
        os.environ["PATH"] = os.pathsep.join([folder.name, os.environ.get("PATH", os.defpath)])
    for variable, little in tiers.LITTLE.items():
        os.environ.setdefault(variable, little)
    os.environ.setdefault(VARIABLE, "0")  # tests of `pytest -n` disturb each other: no session waits for quiet
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)
    for mark in (
        "tier(name, *cases): the lowest tier that runs it, or those of its cases whose names have one of these words",
        "parent_decides: refused before a backend is asked",
        "variant: much like another test",
        "takes_turns: backends take turns with these tests like with the checks of the core",
        "heavy: below the exhaustive tier not on the backends that compile large programs for longest",
        "shared_out: in the exhaustive tier backends take turns with these tests",
        "one_each(number, count): below the exhaustive tier on the backends whose places are number modulo count",
        "needs(name, ...): a backend that it runs, or 'browser', where its parameters do not say so",
    ):
        config.addinivalue_line("markers", mark)


@pytest.fixture(scope="session", autouse=True)
def no_xdist() -> Iterator[None]:
    """A pytest started by a test is no process of ``pytest -n``, in which pytest-benchmark does not measure."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("PYTEST_XDIST")]:
            patch.delenv(name)
        yield


def group(nodeid: str) -> str:
    """The tests that one process of ``pytest -n`` runs: a backend's contract suite or its tests in a file of
    `BY_BACKEND`, or else a file.

    The tests of a backend share a worker and the programs compiled in it.
    """
    file, parameters = nodeid.partition("::")[0], nodeid.partition("[")[2]
    found = [n for n in registry.names() if re.match(rf"{n}[-\[\]]", parameters)]
    if "/contract/" in nodeid and found:
        return max(found, key=len)
    return f"{file} {max(found, key=len)}" if file.endswith(BY_BACKEND) and found else file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of the tier. The backends that compile longest come first, so that no process waits for them."""
    tiers.select(config, items)
    system_needs.leave_out(items)
    names = list(registry.names())

    def rank(item: pytest.Item) -> tuple[int, int]:
        name = group(item.nodeid).rpartition(" ")[2]
        return (tiers.turns(name), -names.index(name)) if name in names else (max(tiers.TURNS) + 1, 0)

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    config.option.loadscopereorder = False  # keep our order, not that by the number of tests
    return ByGroup(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say in the last line what was not tested."""
    if not hasattr(config, "workerinput"):
        said = system_needs.not_tested(config)
        if said:
            print(f"\n{said}")
