"""``devices``: the devices of each backend."""

from __future__ import annotations

from xbackend.cli import DONE, INCOMPLETE, options, output
from xbackend.cli.console import progress, table
from xbackend.cli.output import Output
from xbackend.errors import XBackendError
from xbackend.measure import matrix
from xbackend.results import naming
from xbackend.wording import counted, placed


def devices(
    *,
    backends: options.Backends = None,
    environments: options.Environments = (),
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    virtual_devices: options.Count = 1,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """List the devices of each backend and its default one."""
    selected = matrix.runs(backends, environments)
    rows = list[output.Devices]()
    with progress() as shown:
        failures = matrix.ready(selected, shown)
        for one, place in placed(selected):
            label = naming.label(*one)
            shown(f"starting {label}{place}")
            try:
                with matrix.opened(one, failures, virtual_devices) as backend:
                    there, default = [*map(str, backend.devices)], str(backend.default_device)
                    rows.append(output.Devices(backend=label, devices=there, default=default))
            except XBackendError as error:
                rows.append(output.Devices(backend=label, reason=str(error).split("\n")[0]))
    cells = [[r.backend, ", ".join(r.devices) or "-", r.reason or f"default {r.default}"] for r in rows]
    table(["backend", "devices", ""], cells)
    well = [row.backend for row in rows if not row.reason]
    answer = f"{len(well)} of {counted(len(rows), 'backend')} started"
    return output.DevicesOf(exit_code=DONE if len(well) == len(rows) else INCOMPLETE, answer=answer, rows=rows)
