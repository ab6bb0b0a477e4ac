"""The documents are true: their code runs, their commands and options exist, and the site is built of them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from xbackend import environments, pytest_plugin
from xbackend.cli import COMMANDS, main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
COMING_FROM = {
    "theano": "theano",
    "tensorflow1": "tensorflow",
    "tf_distribute": "tensorflow",
    "pytensor": "pytensor",
    "aesara": "aesara",
    "jax": "jax",
    "keras": "tensorflow",
}

TIERS = dict.fromkeys(("aesara", "tf_distribute", "keras"), "exhaustive")  # much like another one


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def said(python: Path | str, code: str, folder: Path, **variables: str) -> str:
    """What a script prints."""
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.tier("standard")
@pytest.mark.parametrize("code", blocks((DOCS / "programs.md").read_text(), "python"))
def test_code_runs_as_printed(code: str, tmp_path: Path) -> None:
    printed = said(sys.executable, code, tmp_path)
    for name in ("numpy", "tensorflow", "pytensor-jax"):
        assert f"{name} trace" in printed


@pytest.mark.tier("standard")
@pytest.mark.parametrize(
    "page",
    [pytest.param(name, marks=[pytest.mark.tier(TIERS.get(name, "standard"))]) for name in COMING_FROM],
)
def test_the_old_lines_and_the_new_ones_print_the_same(page: str, tmp_path: Path) -> None:
    """Both scripts of a page run: the first in the framework's environment, the second one with xbackend."""
    old, new = blocks((DOCS / "coming_from" / f"{page}.md").read_text(), "python")
    framework = environments.sync(COMING_FROM[page])
    # Theano asks numpy.distutils for a BLAS, which the NumPy of today does not name.
    before = said(framework.python, old, tmp_path, THEANO_FLAGS="blas.ldflags=")
    assert before and before == said(sys.executable, new, tmp_path)


START = (DOCS / "start.md").read_text()
VERDICTS = {"not", "told", "apart", "faster", "slower", "fast", "fastest", "times", "next", "and", "the", "are"}
TYPED = [line for block in blocks(START, "sh") for line in block.splitlines() if line.startswith("xbackend ")]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.tier("exhaustive" if " compare " in f" {line} " else "standard")])
        for line in TYPED
    ],
)
def test_the_lines_of_the_start_do_what_is_shown_below_them(line: str, tmp_path: Path) -> None:
    """What is printed has the words that are shown, whatever the figures are."""
    for name, code in zip(("model.py", "two.py"), blocks(START, "python"), strict=True):
        (tmp_path / name).write_text(code)
    few = ["--processes", "1", "--wait", "0"] if " compare " in f" {line} " else []
    program = [Path(sys.executable).with_name("xbackend"), *shlex.split(line)[1:], *few]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    shown = re.search(rf"^{re.escape(line)}$.*?```text\n(.*?)```", START, re.DOTALL | re.MULTILINE)
    assert shown is not None
    left = words(shown[1]) - words(done.stdout) - VERDICTS
    assert not left, f"shown, and not printed: {left}"


def words(text: str) -> set[str]:
    return set(re.findall("[a-z]{3,}", text))


def test_each_framework_that_one_comes_from_has_a_page_that_is_tested() -> None:
    assert {path.stem for path in (DOCS / "coming_from").glob("*.md")} == {"index", *COMING_FROM}


def test_every_command_that_is_named_exists_and_has_a_row() -> None:
    texts = {path: path.read_text() for path in (ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("[!m]*/*.md"))}
    for path, text in texts.items():
        typed = "\n".join(blocks(text, "sh"))
        named = set(re.findall(r"`xbackend ([a-z]+)", text)) | set(
            re.findall(r"^xbackend ([a-z]+)", typed, re.MULTILINE)
        )
        assert named <= set(COMMANDS), path
    rows = texts[DOCS / "commands.md"]
    assert {c for c in COMMANDS if f"| `xbackend {c}" not in rows} == set()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = next(line for block in blocks(README, "sh") for line in block.splitlines() if "python -m pytest" in line)
    first = next(line for line in README.splitlines() if "python -m pytest" in line)
    assert command == first, "the first line that .ci/run finds is not the command of the code block"
    assert "grep -m1 -F 'python -m pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_options_of_the_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], *([command] for command in COMMANDS)):
        main([*words, "--help"])
    help_text = capsys.readouterr().out + " ".join(f"--{name}" for name in pytest_plugin._OPTIONS)
    for page in ("commands", "pytest_plugin", "gate", "start"):
        for option in re.findall(r"`(--[a-z-]+)", (DOCS / f"{page}.md").read_text()):
            assert option in help_text or option.startswith("--benchmark-"), f"{page}: {option}"
