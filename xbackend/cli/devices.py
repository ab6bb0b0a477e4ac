"""``devices``: the devices of each backend."""

from __future__ import annotations

from xbackend.cli import DONE, INCOMPLETE, options
from xbackend.cli.console import progress, table
from xbackend.errors import XBackendError
from xbackend.measure import matrix
from xbackend.results import naming


def devices(
    *,
    backends: options.Backends = None,
    environments: options.Environments = (),
    python: options.Python = None,
    virtual_devices: options.Count = 1,
) -> int:
    """List the devices of each backend and its default one."""
    selected = matrix.runs(backends, environments)
    rows, well = [], True
    with progress() as shown:
        failures = matrix.ready(selected, shown)
        for one in selected:
            label = naming.label(*one)
            shown(f"starting {label}")
            try:
                with matrix.opened(one, failures, virtual_devices) as backend:
                    rows.append([label, ", ".join(map(str, backend.devices)), f"default {backend.default_device}"])
            except XBackendError as error:
                rows.append([label, "-", str(error).split("\n")[0]])
                well = False
    table(["backend", "devices", ""], rows)
    return DONE if well else INCOMPLETE
