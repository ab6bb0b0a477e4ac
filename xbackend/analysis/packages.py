"""The packages that were measured, and their versions."""

from __future__ import annotations

from xbackend.backends import registry
from xbackend.results.schema import Measurement
from xbackend.wording import plain


def versions(measurement: Measurement) -> dict[str, str]:
    """The packages of a measurement's environment and their versions, as they were read back."""
    packages = measurement.versions or measurement.description.versions
    return {plain(package): plain(version) for package, version in packages.items()}


def frameworks(measurement: Measurement) -> dict[str, str]:
    """The versions of the backend's own packages; of all packages for a backend that the registry does not know."""
    there = versions(measurement)
    entry = registry.REGISTRY.get(registry.base(measurement.backend))
    wanted = there if entry is None else entry.packages
    return {package: there[package] for package in wanted if package in there}


def words(packages: dict[str, str]) -> str:
    """As in ``pytensor 3.0.7, numba 0.65.1``."""
    return ", ".join(f"{package} {version}" for package, version in packages.items())
