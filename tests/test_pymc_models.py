"""The catalogue of PyMC's models: how each is brought."""

from __future__ import annotations

from pathlib import Path

from pymc_models.bringing import bring


def test_a_process_that_is_killed_is_a_model_that_did_not_come(tmp_path: Path) -> None:
    """Silently, as for want of memory. The others are brought."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "large.py").write_text("")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -KILL $$\n")
    python.chmod(0o755)
    bring(tmp_path / "models", tmp_path / "brought", str(python), 60.0)
    assert (tmp_path / "brought" / "large" / "said").read_text() == "its process ended with -9"
