"""A worker for each backend of the registry, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import expected_failures
import pytest
import tiers
from batches import Host

from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.workers.remote import ready_environment


@pytest.hookimpl(tryfirst=True)  # the backend comes first in the names of the tests
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each backend, and for backends with options named on the command line."""
    if "name" in metafunc.fixturenames:
        asked = [name for name in metafunc.config.getoption("--backends") if registry.get(name).chosen]
        metafunc.parametrize("name", [*registry.names(), *asked], indirect=True, scope="session")


@pytest.fixture(scope="session")
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a backend. Its environment is made if it is missing, before any of its tests."""
    found: str = request.param
    ready_environment(found)
    with pytest.MonkeyPatch.context() as patch:
        if tiers.chosen == tiers.TIERS[-1]:
            for variable, value in tiers.optimisation(found).items():
                patch.delenv(variable) if value is None else patch.setenv(variable, value)
        yield found


@pytest.fixture(scope="session")
def host(name: str, request: pytest.FixtureRequest) -> Iterator[Host]:
    host = Host(name, request.config.getoption("--tier"))
    yield host
    host.close()


@pytest.fixture(scope="session")
def placed_host(name: str, request: pytest.FixtureRequest) -> Iterator[Host]:
    """The backend with three virtual devices."""
    host = Host(name, request.config.getoption("--tier"), devices=3)
    yield host
    host.close()


@pytest.fixture
def three(placed_host: Host) -> Backend:
    """The backend with three virtual devices, opened once for all tests."""
    return placed_host.backend


@pytest.fixture
def backend(host: Host) -> Backend:
    """The backend, opened once for all tests."""
    return host.backend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An expected failure still runs, and must fail."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or registry.base(str(callspec.params.get("name"))) not in registry.REGISTRY:
            continue  # in another folder `name` has another meaning
        backend, test = callspec.params["name"], getattr(item, "originalname", item.name)
        label = callspec.id.removeprefix(backend).lstrip("-")
        for expected in expected_failures.of(backend):
            if expected.matches(test, label):
                said = f"{expected.reason} ({expected.link})"
                item.add_marker(pytest.mark.xfail(reason=said, raises=expected.raises, strict=True))
