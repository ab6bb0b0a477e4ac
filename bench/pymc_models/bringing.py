"""Each model of a folder is brought once, by a process of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from xbackend.workers import once

BENCH = Path(__file__).resolve().parents[1]


def bring(models: Path, folder: Path, python: str | None, limit: float) -> None:
    """Bring each model of a folder that was not brought before."""
    if python is None:
        python = str(once.made("pymc", print))
    variables = {**os.environ, "PYTHONPATH": f"{BENCH}{os.pathsep}{BENCH.parent}", "OMP_NUM_THREADS": "1"}
    for file in sorted(models.glob("*.py")):
        place = folder / file.stem
        if (place / "said").is_file():
            continue
        place.mkdir(parents=True, exist_ok=True)
        command = [python, "-m", "pymc_models.own", str(file), str(place)]
        try:
            ended = subprocess.run(command, check=False, env=variables, capture_output=True, text=True, timeout=limit)
            # Without a line it was killed, as for want of memory.
            lines = ended.stderr.strip().splitlines() or [f"its process ended with {ended.returncode}"]
            said = lines[-1] if ended.returncode else ""
        except subprocess.TimeoutExpired:
            said = f"not there after {limit:g} s"
        (place / "said").write_text(said)
        print(file.stem, said or "came in", flush=True)
