"""Devices that compute alike have one compiled function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from alike_stages import X

from xbackend.backends.contract import Settings
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")


@pytest.fixture(scope="module", params=["pytensor", "aesara-numba"])
def backend(request: pytest.FixtureRequest) -> Iterator[RemoteBackend]:
    modules = {"alike_stages": str(Path(__file__).parent / "alike_stages.py")}
    with RemoteBackend(request.param, Settings(virtual_devices=4), modules=modules) as opened:
        yield opened


def test_each_device_has_its_own_constants(backend: RemoteBackend) -> None:
    """Zeros are told apart by their signs."""
    with np.errstate(divide="ignore"):
        for constants in ([2.0, 3.0, 2.0, 5.0], [0.0, -0.0, 0.0, 0.0]):
            expected = [(1.0 / (np.tanh(X) * constant)).tolist() for constant in constants]
            np.testing.assert_allclose(backend.call("alike_stages:results", constants), expected, rtol=1e-12)


def test_what_is_alike_is_compiled_once(backend: RemoteBackend) -> None:
    alike, different = (
        backend.call("alike_stages:compilations", constants) for constants in ([7.0] * 4, [7.1, 7.2, 7.3, 7.4])
    )
    # The first device has its argument, and the others have what is copied to them.
    assert alike < 0.6 * different
