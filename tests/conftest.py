"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from xbackend.backends import registry

# The machine is shared: a slow moment is no fault of the code.
settings.register_profile(
    "xbackend", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("xbackend")


def _group(item: pytest.Item) -> tuple[int, str]:
    """Where a test stands in the order, and the name of the group that one process runs (``pytest -n``).

    The contract suite of a backend is one group, since it shares a worker; the others go by file. The backends come
    first, the later of the registry before the earlier: they compile for longest, and nothing should wait for them.
    """
    backend = getattr(item, "callspec", None) and item.callspec.params.get("name")  # type: ignore[attr-defined]
    if item.path.parent.name == "contract" and backend in registry.REGISTRY:
        return -registry.names().index(backend) - 1, f"backend {backend}"
    return 0, f"file {item.path.stem}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = {item: _group(item) for item in items}
    for item, (_, name) in groups.items():
        item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=lambda item: groups[item][0])
