"""``train``: a model of the user's file, trained on backends and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from xbackend.analysis.outcomes import trained
from xbackend.cli import DONE, INCOMPLETE, configured, options, output
from xbackend.cli.console import progress, say, say_lines, width
from xbackend.cli.output import Output
from xbackend.cli.users import calling, model
from xbackend.devices import DeviceMap, numbers_and_kinds
from xbackend.errors import UsageError
from xbackend.measure import matrix
from xbackend.report import write
from xbackend.report.said.training import said
from xbackend.report.written.terminal import outcomes
from xbackend.strategies.named import NAMES, named
from xbackend.training.model import Model

_TARGET = Parameter(help="a model in a file, under @xb.model", metavar="FILE.py:MODEL")
_STRATEGY = options.option(
    options.names, "NAME,...", f"how it is spread over devices: {', '.join(NAMES)} (default: one)", lambda _: NAMES
)
_DEVICES = options.option(
    options.device_count,
    "[KIND,]N",
    "how many devices, and of which kind: gpu,2 (default: 1, and 2 for what needs several; accelerators where a "
    "backend has some)",
)
_EPOCHS = options.option(options.whole(1, 10**9), "N", "how often the data are seen (default: the model's)")
_BATCH = options.option(options.whole(1, 10**9), "N", "rows of a batch (default: the model's)")
_FOLDER = options.option(
    options.folder, "DIR", "write checkpoints there, by backend and strategy, and go on from those that lie there"
)
_EVENTS = options.option(options.folder, "DIR", "write event files for TensorBoard there, by backend and strategy")
_MEMORY = options.option(
    options.amount, "BYTES", "refuse a step whose arrays take more on a device at once: 1000000, 64MiB, 2GiB"
)


def train(
    target: Annotated[str, _TARGET],
    /,
    *,
    strategy: Annotated[list[str] | None, _STRATEGY] = None,
    devices: Annotated[list[int | str] | None, _DEVICES] = None,
    devices_map: options.DevicesMap = None,
    environments: options.Environments = (),
    epochs: Annotated[int | None, _EPOCHS] = None,
    batch: Annotated[int | None, _BATCH] = None,
    seed: options.Seed = 0,
    backends: options.Backends = None,
    allow_nan: options.AllowNaN = False,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    device_memory: Annotated[int | None, _MEMORY] = None,
    checkpoints: Annotated[Path | None, _FOLDER] = None,
    events: Annotated[Path | None, _EVENTS] = None,
    name: options.Name = None,
    reports: options.Reports = Path("reports"),
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Train a model on backends; print losses, differences of weights, and the time of a step; write a report."""
    from xbackend.measure import training as measure  # slow imports would keep a shell waiting

    chosen = model(target)
    asked_for = next((word for word in devices or () if isinstance(word, int)), None)
    spreads = _spreads(strategy or ["one"], asked_for, chosen)
    folder = reports / (name or chosen.name)
    options.check_places(folder, checkpoints, events)
    notices: list[str] = []
    runs = matrix.runs(backends, environments)
    with progress() as shown:
        asked = measure.Asked(
            model=chosen,
            epochs=epochs or chosen.epochs,
            batch=batch,
            seed=seed,
            checkpoints=checkpoints,
            events=events,
            guard=calling,
            on_notice=notices.append,
            on_progress=shown,
            device_memory=device_memory,
            devices_map=devices_map or DeviceMap(),
            kinds=numbers_and_kinds(devices or [1])[1],
            allow_nan=allow_nan,
        )
        done = replace(measure.trainings(asked, runs, spreads), configured=dict(configured.taken))
    for notice in notices:
        say(notice, error=True)
    told = said(done)
    say_lines(outcomes(told, width()))
    failed = told.ended.failures
    files = [str(write(done, folder))] if len(failed) < len(done.runs) else []
    say_lines(f"report: {file}" for file in files)
    code = INCOMPLETE if failed or told.ended.apart else DONE
    rows = [*map(trained, done.runs)]
    return output.Train(exit_code=code, answer=told.answer, rows=rows, notes=[*failed, *notices], files=files)


def _spreads(names: list[str], devices: int | None, chosen: Model) -> list[tuple[str, int]]:
    """The strategies, each with its number of devices. Raises `UsageError`, `ArgumentError`."""
    if set(names) == {"one"} and devices not in (None, 1):
        raise UsageError(f"--devices {devices}: strategy one has 1; take towers, mirrored or model")
    parts = len({*chosen.places.values()})
    counts = {"one": 1, "model": devices or max(2, parts)}
    spreads = [(name, counts.get(name, devices or 2)) for name in dict.fromkeys(names)]
    for name, count in spreads:
        named(name, [f"dev{i}" for i in range(count)], chosen.places)
    return spreads
