"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The machine is shared: a slow moment is no fault of the code.
settings.register_profile(
    "xbackend", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("xbackend")
