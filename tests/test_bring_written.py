"""What `xbackend translate` writes stands whole under its name, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from bring_helpers import REPOSITORY

from xbackend.files import whole

pytestmark = pytest.mark.tier("standard")

LARGEST = 60_000  # bytes of a file: as on a full disk, a write fails when the rest is on disk
MODEL = """
    import numpy as np
    import xbackend as xb

    TABLE = np.random.default_rng(0).normal(size=20_000)

    def stored(x):
        return x + xb.asarray(TABLE)

    def made(x):
        return x + xb.eye(150)
"""
LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({LARGEST}, resource.RLIM_INFINITY))
from xbackend.cli import main
sys.exit(main(sys.argv[1:]))
"""
EXHAUSTIVE = pytest.mark.tier("exhaustive")
KINDS = [
    pytest.param("jax", "stored", "new.py"),
    pytest.param("onnx", "made", "new.onnx", marks=pytest.mark.needs("onnx")),
    pytest.param("jax-export", "stored", "new.jaxexport", marks=pytest.mark.needs("jax")),
    pytest.param("stablehlo", "stored", "new.mlir", marks=[pytest.mark.needs("jax"), EXHAUSTIVE]),
    pytest.param("savedmodel", "stored", "new", marks=[pytest.mark.needs("tensorflow"), EXHAUSTIVE]),
]


@pytest.mark.parametrize(("kind", "name", "path"), KINDS)
def test_a_failing_write_leaves_nothing(kind: str, name: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(dedent(MODEL))
    shape = "20000" if name == "stored" else "150,150"
    target = ["translate", f"model.py:{name}", "--input", f"float64[{shape}]", "--to", kind, "--write", path]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", LIMITED, *target]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode and "File too large" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["model.py"]


def test_what_is_killed_while_it_writes_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    target = tmp_path / "new.txt"
    killed = (
        "import os, pathlib, sys\nfrom xbackend.files import whole\n"
        "with whole(pathlib.Path(sys.argv[1])) as place:\n    place.write_text('half')\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", killed, str(target)], cwd=REPOSITORY, check=False)
    assert not target.exists()
    with whole(target) as place:
        place.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
