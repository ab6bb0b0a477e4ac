"""What the README says is so: its code, its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from xbackend import pytest_plugin
from xbackend.cli.parser import parser

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
    actions = [a for a in parser()._actions if a.dest == "command"]
    commands = set(actions[0].choices)  # type: ignore[arg-type]
    named = set(re.findall(r"`xbackend (\w+)", README)) | set(re.findall(r"xbackend (\w+)$", README, re.MULTILINE))
    assert named <= commands
    assert {c for c in commands if f"`xbackend {c}" not in README} == set()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = next(line for block in blocks("sh") for line in block.splitlines() if "python -m pytest" in line)
    first = next(line for line in README.splitlines() if "python -m pytest" in line)
    assert command == first, "the first line that .ci/run finds is not the command of the code block"
    assert "grep -m1 -F 'python -m pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_options_of_the_readme_exist() -> None:
    help_text = "".join(c.format_help() for a in parser()._actions if a.dest == "command" for c in a.choices.values())  # type: ignore[union-attr]
    help_text += " ".join(f"--{name}" for name in pytest_plugin._OPTIONS)
    for option in re.findall(r"`(--[a-z-]+)", README):
        assert option in help_text, option
