"""Completion in a shell: commands, options and names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from store_helpers import results

from xbackend import environments
from xbackend.backends import registry
from xbackend.cli import COMMANDS, DONE, WRONG, main
from xbackend.results.runs import Store

pytestmark = pytest.mark.tier("standard")

ROOT = Path(__file__).parent.parent
# What bash does at Tab: it sets these variables and calls the script's function.
PRESS_TAB = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
name=$(complete -p xbackend | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$name" xbackend "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script, beside its command."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "xbackend").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m xbackend "$@"\n')
    (folder / "xbackend").chmod(0o755)
    shown = subprocess.run(
        [folder / "xbackend", "--show-completion", "bash"], capture_output=True, text=True, timeout=120, check=True
    )
    (folder / "script").write_text(shown.stdout)
    return folder / "script"


def completed(script: Path, *words: str) -> list[str]:
    """Bash's completions of the last word."""
    environment = {**os.environ, "PATH": f"{script.parent}:/usr/bin:/bin"}
    command = ["bash", "--norc", "-c", PRESS_TAB, "bash", str(script), "xbackend", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=script.parent, env=environment, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_and_options_are_completed(script: Path) -> None:
    assert completed(script, "com") == ["compare"]
    assert completed(script, "") == list(COMMANDS)
    assert completed(script, "compare", "--qu") == ["--quick", "--quiet"]
    assert completed(script, "draw", "--form", "d") == ["dot"]


def test_names_of_what_there_is_are_completed(script: Path) -> None:
    folders = (script.parent / ".xbackend" / "runs", script.parent / "mine")
    run, elsewhere = (Store(folder).create(results()) for folder in folders)
    some = [name for name in registry.names() if name.startswith("ten")]
    assert completed(script, "devices", "--backends", "ten") == some != []
    assert completed(script, "devices", "--backends", f"{some[0]},num") == [f"{some[0]}\\,numpy"]
    assert completed(script, "compare", "mat") == ["matpow"]
    assert completed(script, "env", "sync", "num") == ["numpy"] == [n for n in environments.names() if n[:3] == "num"]
    assert completed(script, "gate", "latest", "2") == [run.name]
    assert completed(script, "runs", "--store", "mine", "2") == [elsewhere.name]
    assert completed(script, "devices", "--backends", "nothing") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", shell]) == DONE
    said = capsys.readouterr().out
    assert all(command in said for command in COMMANDS) and "__complete" in said
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=said, text=True, timeout=60, check=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_installed(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert main(["--install-completion", shell]) == DONE
    path = Path(capsys.readouterr().out.removeprefix("the script is ").partition(";")[0])
    assert tmp_path in path.parents and "compare" in path.read_text()


def test_what_cannot_be_installed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    assert main(["--install-completion", "bash"]) == WRONG
    assert "xbackend: the script cannot be written to " in capsys.readouterr().err
    assert main(["--show-completion", "sh"]) == WRONG
