"""The step ``limits`` of ``doctor --gpu-check``: the speed of the GPUs themselves, beside the times of backends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import xbackend
from xbackend.cli import DONE, INCOMPLETE, output
from xbackend.cli.console import progress, say_lines
from xbackend.cli.output import Output
from xbackend.environments import interpreters
from xbackend.errors import EnvironmentFailed, UsageError
from xbackend.files import refused, write_whole
from xbackend.report.said import text
from xbackend.results import naming

PROGRAM = Path(xbackend.__file__).parent.parent / "bench" / "gpu_limits.py"  # of a clone
LONGEST = 600.0  # seconds; it takes some 40, and a part that hangs is left after 90
LEFT_OUT = (
    "what the GPUs themselves can do is not measured: --cupy PATH, an interpreter or virtual environment that has "
    "CuPy, measures it (python3 -m venv /opt/cupy && /opt/cupy/bin/pip install 'cupy-cuda13x[ctk]' nvidia-nccl-cu13)"
)
_WORDS = ("name", "dtype", "products", "cupy")  # in what the program prints; another text is a reason for no figure


def interpreter(place: str) -> Path:
    """The interpreter at a path, or in the virtual environment there. Raises `ValueError`."""
    path = interpreters.at(place)
    if path is None:
        raise ValueError(f"there is no interpreter {place}: give one that has CuPy, or its virtual environment")
    return path


def limits(python: Path, sizes: Sequence[int], matpow: Output, folder: Path) -> Output:
    """Run the program, keep its output in ``folder``, and print the times of cuBLAS beside the rows of ``matpow``.

    Raises `UsageError` without a clone, `EnvironmentFailed` where the interpreter does not run it, `StoreError`.
    """
    if not PROGRAM.is_file():
        raise UsageError(f"there is no {PROGRAM}: run this in a clone of the repository, where that program is")
    command = [str(python), str(PROGRAM), "--size", ",".join(map(str, sizes))]
    with progress() as shown:
        shown(f"what the GPUs themselves can do, by CuPy of {python}")
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
            told: dict[str, Any] = json.loads(ended.stdout)
        except subprocess.TimeoutExpired:
            raise EnvironmentFailed(f"{PROGRAM.name} of {python} did not end within {LONGEST:.0f} s") from None
        except OSError as error:
            raise EnvironmentFailed(f"{python} cannot be run: {error}") from None
        except ValueError:
            raise EnvironmentFailed(f"{python} printed no JSON of {PROGRAM.name}: {ended.stderr[-500:]}") from None
    file = folder / "limits.json"
    with refused(f"{file} cannot be written"):
        write_whole(file, ended.stdout.encode())
    rows = matpow.rows if isinstance(matpow, output.Compare) else []
    lines, reasons = [*_beside(told, rows)], [*_reasons(told)]
    say_lines([*lines, *reasons])
    answer = lines[-1] if lines else "nothing of the library itself was measured"
    code = INCOMPLETE if reasons else DONE
    return output.Doctor(exit_code=code, answer=answer, notes=[*lines[:-1], *reasons], files=[str(file)])


def _beside(told: dict[str, Any], rows: Sequence[Any]) -> Iterator[str]:
    """One line for each time of the library. Lines with times of backends come last; the very last one is the largest
    size on one GPU."""
    found = told.get("matpow")
    measured = [row for row in found["rows"] if isinstance(row["seconds"], dict)] if isinstance(found, dict) else []
    lines: list[tuple[tuple[bool, bool, int], str]] = []
    for row in measured:
        own = row["seconds"]["median"]
        words = f"{row['size']}, {row['dtype']}{', on two GPUs' if row['devices'] == 2 else ''}: {text.time(own)}"
        same = [each for each in rows if each.seconds and each.devices == row["devices"] and _is_of(each, row)]
        for each in same:
            taken = f"{text.time(each.seconds)}, {each.seconds / own:.2f} times"
            words += f"; {naming.label(each.backend, each.environment)} takes {taken}"
        lines.append(((bool(same), row["devices"] == 1, row["size"]), f"the library itself (cuBLAS): {words}"))
    yield from (line for _, line in sorted(lines, key=lambda each: each[0]))


def _is_of(figures: Any, row: dict[str, Any]) -> bool:
    return all(figures.parameters.get(name) == row[name] for name in ("size", "dtype"))


def _reasons(value: Any, at: str = "") -> Iterator[str]:
    """The reasons that stand in place of figures, each with the place where it stands."""
    if isinstance(value, str):
        yield f"{at}: {value}"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _reasons(each, f"{at} {number}")
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in _WORDS:
                yield from _reasons(each, f"{at} {name}".strip())
