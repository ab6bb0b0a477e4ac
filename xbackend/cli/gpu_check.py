"""``doctor --gpu-check``: runs other commands once on a machine with GPUs, and packs their results into one file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import xbackend
from xbackend import environments
from xbackend.backends import registry
from xbackend.cli import DONE, INCOMPLETE, INTERRUPTED, compare, devices, gpu_limits, options, output, train
from xbackend.cli.console import progress, say
from xbackend.cli.output import Output
from xbackend.devices import DeviceMap
from xbackend.errors import StoreError, UsageError, XBackendError
from xbackend.files import refused, write_whole
from xbackend.measure import machine, matrix
from xbackend.results import naming
from xbackend.wording import counted, join

EXAMPLES = Path(xbackend.__file__).parent.parent / "examples"  # of a clone; an installed package has none
SIZES, SMALL = [1024, 4096], [64]  # rows of matpow's matrices: 4096 fill an H200 (docs/gpus.md)
_CHECK = (
    "all that is to be run once on a machine with GPUs: what is there, P1 to P6 placed, matpow on one and on two, a "
    "training, the suite; and one file of it that can be sent"
)
_QUICK = "with --gpu-check: small and short, to see that all of it runs"
_KINDS, _VISIBLE = ("gpu", "cpu"), "CUDA_VISIBLE_DEVICES"
_THERE = "what is there"  # the first step


def _kind(text: str) -> str:
    if text not in _KINDS:
        raise ValueError(f"{text!r} is no kind of devices to check: write gpu, or cpu")
    return text


_DEVICES = options.option(_kind, "KIND", "with --gpu-check: gpu, or cpu for two CPU devices in their place")
_MINUTES = options.option(options.duration("minutes"), "N", "with --gpu-check: how long the suite is measured")
_CUPY = options.option(
    gpu_limits.interpreter,
    "PATH",
    "with --gpu-check: the interpreter or virtual environment that has CuPy, which measures the GPUs themselves",
)


@Parameter(name="*")
@dataclass(frozen=True)
class Checking:
    """Whether all is run, and what of it."""

    gpu_check: Annotated[bool, options.flag(_CHECK)] = False
    quick: Annotated[bool, options.flag(_QUICK)] = False
    devices: Annotated[str, _DEVICES] = "gpu"
    minutes: Annotated[float, _MINUTES] = 20.0
    environments: options.Environments = ()
    cupy: Annotated[Path | None, _CUPY] = None
    reports: options.Reports = Path("gpu-check")

    def check(self) -> None:
        """Raises `UsageError` where an option is given that goes with ``--gpu-check`` alone."""
        given = [name for name, value in vars(self).items() if value != getattr(USUALLY, name)]
        if given and not self.gpu_check:
            option = {"environments": "env"}.get(given[0], given[0])
            raise UsageError(f"--{option} says what to --gpu-check: type both")
        if self.cupy and self.devices == "cpu":
            raise UsageError("--cupy measures GPUs: leave it out, or --devices cpu")

    def of(self, backends: Iterable[str]) -> list[str]:
        """The named environments that some of the backends run in."""
        frameworks = {registry.get(name).environment for name in backends}
        return [place for place in self.environments if environments.get(place).framework in frameworks]


USUALLY = Checking()
CheckStep = Callable[[], Output]


def run(backends: Sequence[str], asked: Checking, doctor: CheckStep) -> output.Doctor:
    """Run the steps, the first of which is ``doctor``, and write the file: their JSON, and the reports.

    After a step that fails the next one is run. Raises `StoreError` where nothing can be written.
    """
    options.check_places(asked.reports, None)
    asked.of(backends)  # an environment that is none is refused before anything runs
    done: dict[str, Output] = {}
    try:
        for name, step in _steps(backends, asked, doctor, done):
            say(f"\n--- {name}")
            done[name] = _ended(step, asked.devices == "cpu" and name != _THERE)
            if done[name].exit_code == INTERRUPTED:
                raise KeyboardInterrupt
        ended = ""
    except KeyboardInterrupt:
        ended = "interrupted"
    file = asked.reports.with_name(f"{asked.reports.name}.zip")
    with refused(f"{file} cannot be written"):
        write_whole(file, bundle(done, asked.reports))
    needed = [name for name in done if name != _THERE or asked.devices == "gpu"]
    failed = [name for name in needed if done[name].exit_code != DONE]
    if not ended and "matpow" not in done:
        ended = f"no backend computes on a {asked.devices} here: see what is missing; --devices cpu runs all on CPUs"
    answer = f"{len(done) - len(failed)} of {counted(len(done), 'step')} went well"
    answer += f", not {join(failed)}" if failed else ""
    notes = [f"{name}: {told.answer or told.error}" for name, told in done.items()]
    say("\n".join(["", *notes, answer, *filter(None, [ended]), f"to send: {file}"]))
    code = INTERRUPTED if ended == "interrupted" else INCOMPLETE if failed or ended else DONE
    files = [str(file), *(path for told in done.values() for path in told.files)]
    return output.Doctor(exit_code=code, answer=answer, error=ended, notes=notes, files=files)


@contextmanager
def _hidden(hidden: bool) -> Iterator[None]:
    """In the block, no process that is started sees a GPU, if they are ``hidden``."""
    before = os.environ.get(_VISIBLE)
    if hidden:
        os.environ[_VISIBLE] = ""
    try:
        yield
    finally:
        if hidden and before is None:
            del os.environ[_VISIBLE]
        elif hidden and before is not None:
            os.environ[_VISIBLE] = before


def _ended(step: CheckStep, hidden: bool) -> Output:
    """The output of a step. One that could not be done says why."""
    try:
        with _hidden(hidden):
            return step()
    except StoreError:
        raise
    except XBackendError as error:
        say(error, error=True)
        return output.Doctor(exit_code=INCOMPLETE, error=str(error))


def _steps(
    backends: Sequence[str], asked: Checking, doctor: CheckStep, done: Mapping[str, Any]
) -> Iterator[tuple[str, CheckStep]]:
    """Each step by its name, in their order, as far as there are devices for it."""
    kind, folder = asked.devices, asked.reports
    every: dict[str, Any] = {"backends": [*backends], "environments": asked.of(backends)}
    yield _THERE, doctor
    if kind == "gpu" and not machine.accelerators():
        return
    yield "devices", lambda: devices.devices(**every, virtual_devices=2)
    own = {row.backend: [d for d in row.devices if d.startswith(kind)] for row in getattr(done["devices"], "rows", ())}
    names = [*dict.fromkeys(name for name, place in matrix.runs(**every) if own.get(naming.label(name, place)))]
    count = min(2, max(map(len, own.values()), default=0))
    if not names:
        return
    yield "P1 to P6", lambda: _placed(names, [f"{kind}:0", f"{kind}:1" if count > 1 else "cpu:0"], asked)
    with_gpus: dict[str, Any] = {"backends": names, "environments": asked.of(names)}
    how: dict[str, Any] = {"quick": True, "processes": 1, "wait": 0.0} if asked.quick else {}
    # Else the way to the CPU, where the program sums, is measured.
    home = DeviceMap({"cpu:0": "gpu:0"}) if kind == "gpu" else None
    numbers: list[int | str] = [kind, 1, 2]
    matpow = compare.Measuring(**with_gpus, devices=numbers[: count + 1], devices_map=home, **how)
    size = SMALL if asked.quick else SIZES
    yield "matpow", lambda: compare.compare(measuring=matpow, size=size, name="matpow", reports=folder)
    if cupy := asked.cupy:
        yield "limits", lambda: gpu_limits.limits(cupy, size, done["matpow"], folder)
    elif kind == "gpu":
        say(f"\n{gpu_limits.LEFT_OUT}")
    model = f"{EXAMPLES / 'wide_network.py'}:{'narrow' if asked.quick else 'wide'}"
    strategy = ["one", "mirrored"][:count]
    yield "training", lambda: train.train(model, strategy=strategy, **with_gpus, name="training", reports=folder)
    beside = [*dict.fromkeys(["numpy", *names])]
    # Of all sizes one process each takes 16 minutes on an H200: no intervals. Of one size three do.
    each = {"backends": beside, "environments": asked.of(beside), "devices": [kind, 1], "minutes": asked.minutes}
    suite = compare.Measuring(**{"quick": True, **how, **each})
    which = "kernels" if asked.quick else "all"
    yield "suite", lambda: compare.compare(suite=which, measuring=suite, name="suite", reports=folder)


def default() -> list[str]:
    """The backends that compute on GPUs where there are some."""
    return [entry.name for entry in registry.entries() if entry.accelerated]


def _placed(names: Sequence[str], where: Sequence[str], asked: Checking) -> Output:
    """P1 to P6 on these devices."""
    program, file = EXAMPLES / "on_devices.py", asked.reports / "p1_to_p6.txt"
    if not program.is_file():
        raise UsageError(
            f"there is no {program}: run this in a clone of the repository, where the programs P1 to P6 are"
        )
    with progress() as shown:
        shown(f"P1 to P6 on {' and '.join(where)}")
        command = [sys.executable, str(program), "--devices", ",".join(where), *names]
        command += [part for place in asked.of(names) for part in ("--env", place)]
        command += ["--size", str(SMALL[0])] if asked.quick else []
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    say(ended.stdout)
    with refused(f"{file} cannot be written"):
        write_whole(file, ended.stdout.encode())
    failed = [line.partition(": ")[0] for line in ended.stdout.splitlines() if " FAILED" in line]
    said = f"not as published or placed: {join(dict.fromkeys(failed))}" if failed else f"as published on {join(names)}"
    code = INCOMPLETE if ended.returncode else DONE
    return output.Doctor(exit_code=code, answer=f"P1 to P6 on {' and '.join(where)}: {said}", files=[str(file)])


def bundle(done: Mapping[str, Output], folder: Path) -> bytes:
    """A zip file of the steps' outputs as JSON, and of the reports."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        told = {name: json.loads(output.written(each)) for name, each in done.items()}
        file.writestr("steps.json", json.dumps(told, indent=1))
        for path in map(Path, (path for each in done.values() for path in each.files)):
            beside = [path] if path.parent == folder else sorted(path.parent.iterdir())
            for one in beside:
                file.write(one, one.relative_to(folder))
    return whole.getvalue()
