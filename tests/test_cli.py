"""The commands as processes, typed as a user does."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from xbackend import cores, environments, pytest_plugin
from xbackend.analysis.gate import GateOutcome
from xbackend.backends import registry
from xbackend.cli import COMMANDS, DONE, EXAMPLES, INCOMPLETE, application, console, main
from xbackend.version import VERSION

pytestmark = pytest.mark.tier("standard")

FUNCTIONS = """
import numpy as np
import xbackend as xb

def inputs():
    return [np.arange(6, dtype=np.float32).reshape(2, 3)]

def gram(a):
    with xb.device("dev1"):
        return {"product": a @ a.T, "largest": xb.max(a)}

def unplaced(a, scale=2):
    return a * scale

def nothing(a):
    pass
"""


def xbackend(*arguments: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command line. Its exit code must be ``code``."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "xbackend", *map(str, arguments)],
        capture_output=True, text=True, timeout=600, cwd=cwd, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    return tmp_path


def helped(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The output of ``--help``."""
    assert main([*command, "--help"]) == DONE
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = helped(capsys, command)
    assert said.startswith(f"Usage: xbackend {command}") and COMMANDS[command].split("\n")[0] in said
    assert f"{command} " in helped(capsys)
    assert not re.search(r"--\w+\.\w|default: (None|\()", said), (
        "an option is called as in the documents, and a default as typed"
    )


def test_every_example_of_help_is_a_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {*EXAMPLES} == {*COMMANDS}
    for command, example in EXAMPLES.items():
        program, *words = shlex.split(example.partition(" > ")[0])
        assert (program, words[0]) == ("xbackend", command)
        application().parse_args(words, exit_on_error=False, print_error=False)
        assert f"Example: {example}"[:60] in helped(capsys, command)


def test_help_of_bench_has_the_options_that_it_passes_on(capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(helped(capsys, "bench").split())
    assert [name for name in pytest_plugin._OPTIONS if f"--{name}" not in said] == []


def test_the_version_says_what_is_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    states = dict.fromkeys(environments.names(), "ready") | {"theano": "absent"}
    monkeypatch.setattr(environments, "get", lambda name: SimpleNamespace(state=states[name]))
    for words in (["--version"], ["compare", "--version"]):
        assert main(words) == DONE
        first, *rest = capsys.readouterr().out.splitlines()
        said = " ".join(rest)
        assert first == f"xbackend {VERSION}" and f"Python: {platform.python_version()}" in said
        assert f"cores: {cores.count()}" in said and "environments ready: numpy," in said
        assert "others: theano (absent): xbackend doctor" in said


def test_colours_are_left_out_where_nobody_wants_them(folder: Path) -> None:
    code = "from xbackend.cli.console import *; table(['a'], [['b']], 'c')\nwith progress() as shown: shown('d')"
    command = [sys.executable, "-c", code]

    def coloured(**variables: str) -> bool:
        environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|9[0-7])m", done.stdout + done.stderr) is not None

    assert coloured() and not coloured(NO_COLOR="1")


def imported(*arguments: str) -> set[str]:
    """The packages that a command line imports."""
    code = f"import sys; from xbackend.cli import main; main({[*arguments]}); print('\\n', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return {name.split(".")[0] for name in done.stdout.split("\n")[-2].split()}


def test_help_imports_nothing_heavy() -> None:
    assert not imported("--help") & {"numpy", "scipy", "matplotlib", "execnet", "msgspec"}
    assert "numpy" in imported("compare", "--help")  # the test can fail


def test_every_command_has_a_file_of_its_name() -> None:
    files = {path.stem for path in Path(console.__file__).parent.glob("[!_]*.py")}
    assert files == {
        *COMMANDS,
        "completion",
        "configured",
        "console",
        "gpu_check",
        "gpu_limits",
        "graphs",
        "live",
        "neighbours",
        "options",
        "output",
        "users",
    }


def test_compare_prints_its_table_and_writes_the_report(folder: Path) -> None:
    done = xbackend(
        "compare", "--quick", "--size", 64, "--backends", "numpy", "--devices", "1,2", "--processes", 1, cwd=folder
    )
    assert "report: reports/matpow/report.md" in done.stdout
    first, *rest = done.stdout.split("\n")
    # Beside other tests the doubt comes first.
    assert "two devices against one (simulated by cores): too few processes on numpy (" in first.lower(), first
    assert any(line.startswith("numpy on 2 ") for line in rest)
    results = json.loads(gzip.decompress((folder / "reports/matpow/results.json.gz").read_bytes()))
    assert [(m["backend"], m["devices"], m["status"]) for m in results["measurements"]] == [
        ("numpy", 1, "ok"),
        ("numpy", 2, "ok"),
    ]
    before = (folder / "reports/matpow/report.md").read_bytes()
    assert "report: reports/matpow/report.md" in xbackend("report", cwd=folder).stdout
    assert (folder / "reports/matpow/report.md").read_bytes() == before


@pytest.mark.tier("standard")
def test_a_report_with_times_is_not_replaced_by_one_without(folder: Path) -> None:
    def compare(*options: str, code: int = 0) -> str:
        arguments = ("compare", "--quick", "--size", 16, "--processes", 1, "--backends", "numpy")
        return xbackend(*arguments, *options, cwd=folder, code=code).stdout

    report = folder / "reports/matpow/report.md"
    assert "report: reports/matpow/report.md" in compare("--limit", "0.001", code=INCOMPLETE)  # the first report
    empty = report.read_bytes()
    said = compare()  # the second
    assert re.search(
        r"\(replaces the one of 20[-0-9]+ [0-9:]+ UTC; xbackend report --run 20\S+ writes that one again\)", said
    )
    measured = report.read_bytes()
    assert measured != empty
    said = compare("--limit", "0.001", code=INCOMPLETE)
    assert "gave no time: the report that was in reports/matpow stays; xbackend report --run" in said
    assert report.read_bytes() == measured
    assert xbackend("runs", cwd=folder).stdout.count("complete") == 3  # none of the three is lost


@pytest.mark.tier("exhaustive")
def test_the_gate_finds_runs_by_the_names_that_compare_gave_them(folder: Path) -> None:
    for name in ("before", "after"):
        arguments = ("compare", "--quick", "--size", 16, "--processes", 1, "--backends", "numpy", "--name", name)
        assert f"report: reports/{name}/report.md" in xbackend(*arguments, cwd=folder).stdout
    told = xbackend("gate", "before", "after", "--fail", "slower:5%", cwd=folder, code=GateOutcome.NO_VERDICT).stdout
    assert "numpy" in told and "too few processes" in told
    assert "before" in xbackend("runs", cwd=folder).stdout
    assert "numpy" in xbackend("runs", "before", cwd=folder).stdout


def test_run_compares_a_users_function(folder: Path) -> None:
    done = xbackend("run", "mine.py:gram", "--backends", "numpy,tensorflow", cwd=folder)
    assert done.stdout.startswith("agree with the oracle: numpy and tensorflow\n")
    assert re.search(
        r"^placement on numpy: of 3 ops none is read back: NumPy has no devices", done.stdout, re.MULTILINE
    )
    assert re.search(r"^placement on tensorflow: all 3 ops as asked", done.stdout, re.MULTILINE), done.stdout
    assert "result 0 of the oracle: float64[2, 2]" in done.stdout
    # One process each gives no winner. The tolerance stands beside the error of every row, and its reason below.
    assert len(re.findall(r"agrees +\S+ / 1\.\de-05 ", done.stdout)) == 2, done.stdout
    assert re.search(r"within a relative 1\.\de-05 of the oracle", done.stdout), done.stdout
    assert "another one with --tolerance" in done.stdout
    assert "which is faster, xbackend compare says" in done.stdout and "us (" in done.stdout


def test_run_lists_the_placement_where_it_is_asked_for(folder: Path) -> None:
    asked = ("run", "mine.py:gram", "--backends", "numpy")
    assert "asked dev1 = cpu:0" not in xbackend(*asked, cwd=folder).stdout
    told = xbackend(*asked, "--placement", cwd=folder).stdout
    assert re.search(r"matmul \(node \d, \S*mine.py:10\): asked dev1 = cpu:0, executed \?, nothing to read", told), told


def test_run_takes_another_tolerance(folder: Path) -> None:
    asked = ("run", "mine.py:gram", "--backends", "numpy", "--tolerance", "0.5")
    assert "within a relative 5.0e-01 of the oracle" in xbackend(*asked, cwd=folder).stdout


def test_run_says_why_an_environment_cannot_be_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(folder / "mine.py" / "home"))
    done = xbackend(
        "run", "mine.py:unplaced", "--input", "float64[3]", "--backends", "numpy", cwd=folder, code=INCOMPLETE
    )
    assert "Not a directory" in done.stdout and "XBACKEND_HOME" in done.stdout


def test_run_takes_inputs_and_settings_from_the_command_line(folder: Path) -> None:
    done = xbackend(
        "run", "mine.py:unplaced", "--input", "int64[2]", "--set", "scale=3", "--backends", "numpy", cwd=folder
    )
    assert "int64[2]" in done.stdout


def test_draw_prints_mermaid_and_dot(folder: Path) -> None:
    mermaid = xbackend("draw", "mine.py:gram", "--devices-map", "dev1=cpu:1", cwd=folder).stdout
    assert mermaid.startswith("flowchart TD")
    assert "cpu:1" in mermaid
    assert xbackend("draw", "matpow", "--form", "dot", cwd=folder).stdout.startswith("digraph")


def test_draw_prints_svg_and_what_a_backend_executed(folder: Path) -> None:
    assert xbackend("draw", "matpow", "--form", "svg", cwd=folder).stdout.startswith("<svg ")
    executed = xbackend("draw", "matpow", "--backend", "numpy", "--set", "n=2", cwd=folder).stdout
    assert executed.startswith("flowchart TD") and "==>|256 bytes, crossing|" in executed
    assert "(nothing to read)" in executed
    assert "cpu:1" in executed and "dev1" not in executed
    one = xbackend("draw", "matpow", "--backend", "numpy", "--devices-map", "dev0=cpu:0,dev1=cpu:0", cwd=folder).stdout
    assert "crossing" not in one
    told = xbackend("draw", "matpow", "--backend", "numpy", "--set", "n=2", cwd=folder).stderr
    assert "placement on numpy: of 3 ops none is read back: NumPy has no devices, 1 transfer (256 bytes)" in told


def test_run_saves_what_each_backend_executed(folder: Path) -> None:
    xbackend("run", "mine.py:gram", "--backends", "numpy", "--drawings", "pictures", cwd=folder)
    assert "matmul float32[2,2]" in (folder / "pictures" / "numpy.svg").read_text()
    (folder / "file").write_text("")
    done = xbackend("run", "mine.py:gram", "--backends", "numpy", "--drawings", "file", cwd=folder, code=1)
    assert "the drawing cannot be written to file/numpy.svg" in done.stdout


def test_devices_lists_them(folder: Path) -> None:
    done = xbackend("devices", "--backends", "numpy", "--virtual-devices", 3, cwd=folder)
    assert "cpu:0, cpu:1, cpu:2" in done.stdout


def test_doctor_says_what_works(folder: Path) -> None:
    assert "available" in xbackend("doctor", "--backends", "numpy", cwd=folder).stdout


def test_doctor_says_what_is_missing_and_what_to_type(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(folder / "empty"))
    done = xbackend("doctor", cwd=folder, code=1)
    for entry in registry.entries():
        assert entry.name in done.stdout
    assert "missing" in done.stdout
    assert "xbackend env sync tensorflow" in done.stdout


def test_env_lists_every_environment(folder: Path) -> None:
    done = xbackend("env", "list", cwd=folder)
    for name in {entry.environment for entry in registry.entries()}:
        assert name in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "--backends", "torch"), "there is no backend 'torch'; there is numpy, tensorflow"),
        (("compare", "sorting"), "there is no workload 'sorting'; there is attention"),
        (("compare", "--set", "power=3"), "workload matpow has no parameter power; it takes size, n, dtype, method"),
        (("compare", "--baseline", "cupy"), "the baseline 'cupy' is not among what is measured; there is numpy"),
        (("report",), "there is no report at all in reports"),
        (("report", "speed"), "there is no report speed in reports"),
        (("run", "mine.py"), "'mine.py' is not FILE.py:FUNCTION"),
        (("run", "yours.py:f"), "there is no file yours.py"),
        (("run", "mine.py:f"), "mine.py has no function 'f'; it has gram, inputs, nothing, unplaced"),
        (("run", "mine.py:nothing"), "the function returns nothing and updates nothing"),
        (("run", "mine.py:unplaced", "--input", "complex64[2]"), "dtype complex64 is not supported"),
        (("run", "mine.py:unplaced", "--input", "float32(2)"), "is no number, no FILE.npy and not like float32[3,4]"),
        (("draw", "mine.py:gram", "--backend", "cupy"), "there is no backend 'cupy'"),
        (("draw", "mine.py:gram", "--devices-map", "dev9=cpu:0"), "logical device 'dev1' is not bound"),
        (("draw", "mine.py:gram", "--devices-map", "dev1=gpu:x"), "'gpu:x' names no device"),
        (("env", "remove"), "name the environments to remove"),
        (("env", "sync", "theana"), "there is no environment 'theana'"),
        (("bench", "--quick"), "there is no folder bench here"),
    ],
)  # fmt: skip
def test_bad_input_says_what_would_be_right(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in " ".join(xbackend(*arguments, cwd=folder, code=2).stderr.split())


def test_a_program_file_has_no_arguments_to_run_it_with(folder: Path) -> None:
    import xbackend as xb

    (folder / "program.json").write_text(xb.trace(lambda a: a + a, xb.ArraySpec((2,))).to_json())
    said = xbackend("draw", "program.json", "--backend", "numpy", cwd=folder, code=2).stderr
    assert "program.json holds no arguments to run it with; draw a FILE.py:FUNCTION or a workload" in said


def test_a_damaged_program_file_is_named_as_one(folder: Path) -> None:
    (folder / "program.json").write_text('{"format": "xbackend.program", "version": 2, "nodes": 3}')
    assert "the program is damaged" in xbackend("draw", "program.json", cwd=folder, code=2).stderr


def test_a_function_without_its_arrays_says_how_to_give_them(folder: Path) -> None:
    (folder / "bare.py").write_text("def double(x):\n    return x + x\n")
    said = xbackend("run", "bare.py:double", cwd=folder, code=2).stderr
    assert "double(x) was given 0 arrays" in said and "give each array with --input: float32[2,3]" in said


def test_doctor_verify_names_the_environments_whose_files_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def problems(name: str, say: object) -> list[str]:
        return ["numpy: numpy/version.py has other contents than were installed"] if name == "numpy" else []

    monkeypatch.setattr(environments, "problems", problems)
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["doctor", "--verify", "--backends", "numpy"]) == INCOMPLETE
    printed = capsys.readouterr().out
    assert "damaged" in printed and "numpy/version.py has other contents" in printed and "env sync numpy" in printed
