"""``bench``: pytest's benchmarks of the project that lies here."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from xbackend.errors import UsageError


def bench(*rest: Annotated[str, Parameter(allow_leading_hyphen=True, help="what pytest takes")]) -> int:
    """Call ``pytest bench`` with the given options, in the project that lies here."""
    if not Path("bench").is_dir():
        raise UsageError(
            "there is no folder bench here: run this at the root of a project that has one; xbackend compare works "
            "everywhere"
        )
    lacking = [package for package in ("pytest", "pytest_benchmark") if find_spec(package) is None]
    if lacking:
        raise UsageError(f"{sys.executable} has no {' and no '.join(lacking)}: pip install 'xbackend[bench]'")
    # pytest-benchmark takes the next word as the value of --benchmark-compare, so the folder comes first.
    return subprocess.call([sys.executable, "-m", "pytest", "bench", *rest])
