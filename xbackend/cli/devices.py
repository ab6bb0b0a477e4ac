"""``devices``: the devices of each backend."""

from __future__ import annotations

import xbackend as xb
from xbackend.cli import DONE, INCOMPLETE, options
from xbackend.cli.console import progress, table
from xbackend.errors import XBackendError
from xbackend.measure import matrix


def devices(
    *, backends: options.Backends = None, python: options.Python = None, virtual_devices: options.Count = 1
) -> int:
    """List the devices of each backend and its default one."""
    selected = matrix.runs(backends)
    rows, well = [], True
    with progress() as shown:
        matrix.ready(selected, shown)
        for name, _ in selected:
            shown(f"starting {name}")
            try:
                with xb.open(name, virtual_devices=virtual_devices, isolated=True) as backend:
                    rows.append([name, ", ".join(map(str, backend.devices)), f"default {backend.default_device}"])
            except XBackendError as error:
                rows.append([name, "-", str(error).split("\n")[0]])
                well = False
    table(["backend", "devices", ""], rows)
    return DONE if well else INCOMPLETE
