"""The README is true: its code and its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from xbackend import pytest_plugin
from xbackend.cli import COMMANDS, main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.tier("standard")
@pytest.mark.parametrize("code", blocks("python"))
def test_code_runs_as_printed(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in ("numpy", "tensorflow", "pytensor-jax"):
        assert f"{name} trace" in done.stdout


def test_every_command_of_the_readme_exists() -> None:
    named = set(re.findall(r"`xbackend (\w+)", README)) | set(re.findall(r"xbackend (\w+)$", README, re.MULTILINE))
    assert named <= set(COMMANDS)
    assert {c for c in COMMANDS if f"`xbackend {c}" not in README} == set()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = next(line for block in blocks("sh") for line in block.splitlines() if "python -m pytest" in line)
    first = next(line for line in README.splitlines() if "python -m pytest" in line)
    assert command == first, "the first line that .ci/run finds is not the command of the code block"
    assert "grep -m1 -F 'python -m pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_options_of_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], *([command] for command in COMMANDS)):
        main([*words, "--help"])
    help_text = capsys.readouterr().out + " ".join(f"--{name}" for name in pytest_plugin._OPTIONS)
    for option in re.findall(r"`(--[a-z-]+)", README):
        assert option in help_text, option
