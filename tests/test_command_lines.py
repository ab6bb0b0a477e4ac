"""Mistyped command lines, and failing code of the user: a message, an exit code, no traceback of ours."""

from __future__ import annotations

import math
import os
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from xbackend import limits, workloads
from xbackend.cli import DONE, INCOMPLETE, WRONG, console, main, options
from xbackend.errors import ArgumentError, WorkloadError
from xbackend.measure import matrix
from xbackend.measure.patience import Patience
from xbackend.program import host

pytestmark = pytest.mark.tier("standard")

MINE = """
import json
import xbackend as xb

def inputs():
    return [xb.__version__ and 1.0]

def double(x, scale=2):
    return x * scale

def missing_key(x):
    table = {}
    return table["weights"]

def chained(x):
    try:
        json.loads("{")
    except ValueError as error:
        raise RuntimeError("no table") from error

def through_us(x):
    return xb.sum(x, axis=Axis())

class Stop(BaseException):
    pass

def stopping(x):
    raise Stop("no more")

class Axis:
    def __index__(self):
        raise OSError("the disk of the user")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine.py").write_text(MINE)
    yield tmp_path
    for name in ("mine", "own"):
        sys.modules.pop(name, None)


def ended(*arguments: str) -> int:
    """The exit code of a command line."""
    return main(arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "--backends", ","), "--backends: ',' names nothing: give a name, or leave the option out"),
        (("compare", "--backends", ""), "--backends: '' names nothing"),
        (("devices", "--backends", ","), "--backends: ',' names nothing"),
        (("doctor", "--backends", " "), "--backends: ' ' names nothing"),
        (("run", "mine.py:double", "--backends", ""), "--backends: '' names nothing"),
        (("compare", "--dtype", ","), "--dtype: ',' names nothing"),
        (("compare", "--size", ","), "--size: ',' names nothing"),
        (("compare", "--env", ","), "',' names no environment"),
        (("compare", "--name", ""), "--name: '' is no name for a folder"),
        (("compare", "--name", "../evil"), "--name: '../evil' is no name for a folder of reports: write letters"),
        (("compare", "--name", "a/b"), "--name: 'a/b' is no name for a folder"),
        (("compare", "--name", ".."), "--name: '..' is no name for a folder"),
        (("compare", "--name", "latest"), "'latest' is the newest run"),
        (("compare", "--name", "x" * 101), "is no name for a folder"),
        (("compare", "--name", "red\x1b[31m"), "--name: 'red\\x1b[31m' is no name for a folder"),
        (("report", "--run", "latest", "--name", "../evil"), "--name: '../evil' is no name for a folder"),
        (("compare", "--store", ""), "--store: it is empty"),
        (("compare", "--reports", " "), "--reports: it is empty"),
        (("run", "mine.py:double", "--drawings", ""), "--drawings: it is empty"),
        (("run", "mine.py:double", "--devices", "dev0=cpu:1"), "what devices are bound to is said with --devices-map"),
        (("run", "mine.py:double", "--devices-map", ","), "--devices-map: ',' binds nothing; write dev0=cpu:0"),
        (("runs", ""), "there is no run ''"),
        (("gate", "", "latest"), "there is no run ''"),
        (("compare", "--set", "n=2", "--set", "n=4"), "--set: n is set twice, to 2 and to 4"),
        (("compare", "--size", "2", "--set", "size=4"), "--size and --set size=4 say the same parameter"),
        (("compare", "--size", "2", "--size", "4"), "--size: given twice; give it once"),
        (("draw", "matpow", "--form", "dot", "--form", "svg"), "--form: given twice"),
        (("compare", "--seed", "-1"), "--seed: '-1' is not a whole number from 0 to 9223372036854775807"),
        (("run", "mine.py:double", "--seed", "1.5"), "--seed: '1.5' is not a whole number from 0"),
        (("compare", "--seed", "9" * 5000), "is not a whole number from 0"),
        (("compare", "--threads", "0"), "--threads: '0' is not a whole number from 1 to 1024"),
        (("compare", "--processes", "many"), "--processes: 'many' is not a whole number from 1 to 1024"),
        (("compare", "--devices", "1,1025"), "'1025' is not a whole number from 1 to 1024; write a list such as 1,2"),
        (("devices", "--virtual-devices", "3000000"), "'3000000' is not a whole number from 1 to 1024"),
        (("run", "mine.py:double", "--devices-map", "dev0=cpu:5000"), "cpu:5000 needs 5001 CPU devices"),
        (("compare", "--minutes", "nan"), "'nan' is not a number of minutes above 0"),
        (("run", "mine.py:double", "--tolerance", "nan"), "--tolerance: 'nan' is not a number from 0 up"),
        (("run", "mine.py:double", "--tolerance", "x"), "--tolerance: 'x' is not a number from 0 up"),
        (("draw", "matpow", "--set", "size=x"), "workload matpow: size='x' is no whole number from 0 to"),
        (("draw", "matpow", "--set", "size=-3"), "workload matpow: size=-3 is no whole number from 0 to"),
        (("compare", "--set", "n=2.5"), "workload matpow: n=2.5 is no whole number from 0 to 10000"),
        (("compare", "--set", "n=1000000000"), "workload matpow: n=1000000000 is no whole number from 0 to 10000"),
        (("compare", "--dtype", "int32"), "workload matpow: dtype='int32' is none of float32, float64"),
        (("compare", "--set", "method=3"), "workload matpow: method=3 is none of chain, squaring"),
        (("compare", "--size", "10000000"), "workload matpow with size=10000000 takes 1,490,116.1 GiB of memory"),
        (("draw", "matpow", "--set", "size=10000000"), "takes 1,490,116.1 GiB of memory, and there are"),
        (("draw", "mine.py:double", "--input", "float64[1000000,1000000]"), "takes 14,901.2 GiB of memory, and there"),
        (("draw", "mine.py:double", "--input", f"bool[{'9' * 40}]"), "GiB of memory, and there are"),
        (("draw", "mine.py:double", "--input", f"int32[0,{'9' * 40}]"), "--input int32[0,999"),
        (("draw", "mine.py:double", "--input", f"int32[{'1,' * 99}1]"), "--input int32[1,1"),
        (("draw", "mine.py:double", "--input", "9" * 30), "does not fit into int64; write"),
        (("draw", "mine.py:double", "--input", "none.npy"), "--input none.npy: No such file"),
        (("draw", "matpow", "--input", "3"), "--input is for a FILE.py:FUNCTION; matpow has its own"),
        (("draw", "mine.py:double", "--set", "scale=abc"), "double: scale='abc' is no number, as scale=2 is"),
        (("draw", "mine.py:double", "-o", "x.png"), "Unknown option: -o. What it prints goes to a file with > FILE"),
        (("draw", "matpow", "--size", "64"), "Unknown option: --size. A parameter of a workload or a function is given "
         "with --set size=512."),
        (("run", "mine.py:double", "--size", "64"), "with --set size=512."),
        (("draw", "matpow", "--devices", "2"), "are bound with --devices-map dev0=cpu:0,dev1=cpu:1."),
        (("doctor", "--size", "2"), "Unknown option: --size. There is --backends"),
        (("run", "mine.py:double", "--backend", "jax"), "Unknown option: --backend. Did you mean --backends?"),
        (("run", "mine.py:double", "--hosts", "a"), "Unknown option: --hosts. There is --input, --from, --rewrites"),
        (("run", "mine.py"), "'mine.py' is not FILE.py:FUNCTION; write mine.py:double"),
        (("run", "matpow"), "it is a workload; compare matpow measures it, draw matpow --backend jax"),
        (("run", "mine.double"), "is not FILE.py:FUNCTION; write mine.py:double"),
        (("run", "mine.py::double"), "is not FILE.py:FUNCTION; write mine.py:double"),
        (("backends",), "Unknown command: backends. Did you mean xbackend doctor? There is compare, bench"),
        (("comparre",), "Unknown command: comparre. Did you mean xbackend compare? There is"),
        (("frobnicate",), "Unknown command: frobnicate. There is compare, bench"),
        (("draw", "matpoww"), "is not FILE.py:FUNCTION; did you mean 'matpow'?"),
        (("draw", "mine.py:duoble"), "mine.py has no function 'duoble'"),
        (("draw", "mine.py:duoble"), "did you mean 'double'?"),
        (("compare", "--suite", "kernel"), "did you mean 'kernels'?"),
        (("compare", "..py"), "..py: '.' is no name for a folder of reports"),
        (("draw", "program.json", "--set", "n=3"), "--set is for a FILE.py:FUNCTION; program.json has its own"),
    ],
)  # fmt: skip
def test_what_is_not_meant_is_refused_with_words(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert ended(*arguments) in (WRONG, 12)
    found = capsys.readouterr()
    assert said in " ".join(found.err.split())
    assert found.out == ""
    assert [path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"] == []


HEADER = b"\x93NUMPY\x01\x00\x30\x00{'descr': 'zz', 'fortran_order': False,'shape':()} "
RED = "red\x1b[31m\u202e\x07"


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", RED),
        ("runs", "--store", RED),
        ("runs", "--" + RED),
        (RED,),
        ("history", "--store", RED),
        ("env", "sync", RED),
        ("compare", "--backends", RED),
        ("compare", "--backends", "numpy", "--processes", "1", "--store", f"file/{RED}"),
        ("compare", "--set", RED),
        ("report", RED),
        ("gate", RED, RED),
        ("draw", f"{RED}.py:f"),
        ("draw", f"mine.py:{RED}"),
        ("draw", "mine.py:red", "--input", "1.0"),
        ("draw", "mine.py:red_name", "--form", "dot"),
        ("draw", "mine.py:red_name"),
        ("draw", "mine.py:red_name", "--form", "svg"),
        ("run", "mine.py:double", "--input", f"{RED}.npy"),
        ("run", "mine.py:double", "--devices-map", RED),
    ],
)
def test_nothing_from_outside_steers_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    (folder / "file").touch()  # no store can lie below a file
    with (folder / "mine.py").open("a") as file:
        file.write(f"def red(x): raise ValueError({RED!r})\n")
        file.write(f"def red_name(x): return x + xb.shared(1.0, name={RED!r})\n")
    ended(*arguments)
    found = capsys.readouterr()
    said = found.out + found.err
    assert said and not {c for c in said if c != "\n" and (unicodedata.category(c) == "Cc" or c == "\u202e")}


def test_tables_and_progress_show_text_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    console.table([RED], [[f"{RED}\nsecond line"]], title=RED)
    with console.progress() as shown:
        shown(RED)
    found = capsys.readouterr()
    assert found.out.count("red\N{REPLACEMENT CHARACTER}[31m") == 3 and "second line" in found.out
    assert "red\N{REPLACEMENT CHARACTER}[31m" in found.err and "\x1b" not in found.out + found.err


@pytest.mark.parametrize("content", [b"", b"junk" * 99, b"PK\x03\x04" + bytes(50), HEADER, HEADER + bytes(50), None])
def test_a_file_that_holds_no_array_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = folder / "given.npy"
    if content is None:
        os.mkfifo(path)  # it has no writer
    else:
        path.write_bytes(content)
    assert ended("draw", "mine.py:double", "--input", "given.npy") == WRONG
    found = capsys.readouterr().err
    assert "--input given.npy" in found and "Traceback" not in found and "pickle" not in found


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("missing_key", ["mine.py:missing_key raised KeyError:", "return table[", "KeyError: 'weights'"]),
        ("chained", ["JSONDecodeError", "direct cause", 'raise RuntimeError("no table")', "RuntimeError: no table"]),
        ("stopping", ["mine.py:stopping raised Stop:", 'raise Stop("no more")', "mine.Stop: no more"]),
        ("through_us", ["mine.py:through_us raised OSError:", "xb.sum(x, axis=Axis())", "OSError: the disk of the"]),
    ],
)
def test_what_the_users_function_raises_is_shown_as_its_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], function: str, said: list[str]
) -> None:
    assert ended("draw", f"mine.py:{function}", "--input", "1.0") == WRONG
    found = capsys.readouterr().err
    places = [found.index(words) for words in said]
    assert places == sorted(places)
    assert str(Path(host.__file__).parent.parent) not in found and "Traceback" not in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import cv2\ndef f(x): return x\n", "has no cv2: pip install opencv-python"),
        ("import aesara\ndef f(x): return x\n", "runs aesara in another process: write the functions with xb"),
        ("1 / 0\ndef f(x): return x\n", "own.py raised ZeroDivisionError:\n  File"),
        ("def f(:\n", "own.py raised SyntaxError:"),
        ("import sys\nsys.exit(3)\n", "own.py raised SystemExit:"),
        (
            "def inputs(): raise RuntimeError('no data')\ndef f(x): return x\n",
            "inputs() of own.py raised RuntimeError:",
        ),
        ("def inputs(): return 3\ndef f(x): return x\n", "inputs() of own.py returns int: return a list or tuple"),
        ("def inputs(): return [[1], [2, 3]], 1\ndef f(x, y): return x\n", "argument 0 from inputs() of own.py is"),
        ("def f(x, n=0): return f(x, n)\n", "calls itself without end"),
    ],
)
def test_a_file_that_fails_is_shown_as_its_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (folder / "own.py").write_text(text)
    given = [] if "inputs" in text else ["--input", "1.0"]
    assert ended("draw", "own.py:f", *given) == WRONG
    found = capsys.readouterr().err
    assert said in found and str(Path(host.__file__).parent.parent) not in found


def test_a_file_named_like_a_module_does_not_take_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "json.py").write_text("def f(x): return x + 1\n")
    assert ended("draw", "json.py:f", "--input", "1.0") == DONE
    assert sys.modules["json"].loads("1") == 1


def test_a_file_larger_than_the_memory_is_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save("large.npy", np.zeros(1000))
    monkeypatch.setattr(limits, "memory", lambda: 5000)
    assert ended("draw", "mine.py:double", "--input", "large.npy") == WRONG
    assert "--input large.npy takes 0.0 GiB of memory, and there are 0.0 GiB: ask for less" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (
            ["float32[1000000000,1000000]"],
            "--input float32[1000000000,1000000] takes 11,175,870.9 GiB of memory, and there are 4.0 GiB: ask for at "
            "most 357,913,941 numbers",
        ),
        (
            ["float64[200000000]", "float64[400000000]"],
            "all of --input float64[200000000] and float64[400000000] takes 4.5 GiB of memory, and there are 4.0 GiB: "
            "ask for less",
        ),
    ],
)
def test_inputs_larger_than_the_memory_are_refused_before_they_are_drawn(
    inputs: list[str],
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "memory", lambda: 4 << 30)
    given = [word for text in inputs for word in ("--input", text)]
    assert ended("compare", "mine.py:double", *given, "--backends", "numpy") == WRONG
    assert said in capsys.readouterr().err


def test_what_no_memory_is_left_for_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process limit below the machine's memory shows only in NumPy's error."""
    monkeypatch.setattr(limits, "memory", lambda: math.inf)
    assert ended("draw", "matpow", "--set", "size=10000000") == WRONG
    assert "there is not enough memory: Unable to allocate 728. TiB" in capsys.readouterr().err


def test_the_memory_is_that_of_the_machine() -> None:
    assert 2**28 < limits.memory() < 2**50
    host.check_fits(1000, "a little")
    with pytest.raises(ArgumentError, match=r"everything takes .* GiB of memory, and there are"):
        host.check_fits(10**1000, "everything")


def test_no_backend_is_not_all_of_them() -> None:
    with pytest.raises(ArgumentError, match="no backend is named"):
        matrix.runs([])


def test_parameters_that_a_workload_has_are_accepted() -> None:
    given = {"size": 0, "n": 10**12, "dtype": "float64", "method": "squaring"}
    assert workloads.get("matpow").resolve(**given) == given
    with pytest.raises(WorkloadError, match="size=True is no whole number"):
        workloads.get("matpow").resolve(size=True)


def test_what_can_be_refused_is_refused_before_anything_is_computed_or_waited_for(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home open to others, a report that cannot be written; and no process waits for an environment."""
    slow = "import xbackend as xb\n@xb.workload\ndef f(x): return x\n@f.inputs\ndef _(rng): raise OSError('computed')\n"
    (folder / "slow.py").write_text(slow)
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "taken").write_text("")
    assert ended("compare", "slow.py", "--backends", "numpy", "--reports", "taken") == 12
    assert "the report cannot be written to taken" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setenv("XBACKEND_HOME", str(folder / "open"))
        for command in ("compare", "run", "draw", "gate"):
            words = {"draw": ["--backend", "numpy"], "gate": ["--rev", "A", "--rev", "B", "--backends", "numpy"]}
            target = "slow.py:f" if command in ("draw", "run", "gate") else "slow.py"
            assert ended(command, target, *words.get(command, ["--backends", "numpy"])) == WRONG
            said = capsys.readouterr().err
            assert "everybody can write to it" in said and "computed" not in said

    def waits(*_: object) -> bool:
        raise AssertionError("it waited")

    monkeypatch.setattr(Patience, "wait", waits)
    monkeypatch.setattr(matrix, "ready", lambda runs, say: {("numpy", ""): "no room"})
    assert ended("compare", "mine.py:double", "--input", "2.0", "--backends", "numpy", "--quick") == INCOMPLETE
    assert "missing: numpy on 1 device: no room" in capsys.readouterr().out


_OLD = """
import numpy as np
import xbackend as xb

def old(x):
    with xb.device("/gpu:1"):
        y = x * 2.0
    return xb.sum(y + 1.0)

def inputs():
    return (np.arange(4.0),)

@xb.job(steps=2)
def step(task):
    w = xb.shared(np.ones(2), "w")
    with xb.device("/gpu:1"):
        xb.update(w, w * 2.0)
    return w

@xb.model(epochs=1)
def fitted(weights, x):
    with xb.device("/gpu:1"):
        return xb.mean((x * weights["w"]) ** 2)

@fitted.weights
def weights(rng):
    return {"w": np.ones(2)}

@fitted.data
def data(rng):
    return (np.ones((8, 2)),)
"""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run old.py:old --backends numpy", "agree with the oracle: numpy"),
        ("draw old.py:old", "cpu:1"),
        ("compare old.py:old --devices 2 --backends numpy --quick --processes 1 --wait 0", "devices_map=gpu:1=cpu:1"),
        ("train old.py:fitted --devices 2 --strategy towers --backends numpy", "as asked for: gpu:1=cpu:1"),
        ("cluster run old.py:step --devices 2 --workers 1", "/job:worker/task:0/w"),
    ],
)
def test_old_code_keeps_the_lines_that_name_a_device_that_is_not_there(
    line: str, says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that runs a program binds it by the option that the error names."""
    (folder / "old.py").write_text(_OLD)
    if line.startswith("run"):  # the others have the same error
        assert ended(*line.split()) == INCOMPLETE
        assert "--devices-map gpu:1=cpu:0" in capsys.readouterr().out
    assert ended(*line.split(), "--devices-map", "/gpu:1=cpu:1") == DONE
    assert says in "".join(capsys.readouterr())


def test_values_of_a_sweep_that_are_equal_in_python_are_several() -> None:
    found = options.lists(["flag=1,True", "x=1,1.0,1", "s=a,a"])
    assert {name: [*map(repr, values)] for name, values in found.items()} == {
        "flag": ["1", "True"], "x": ["1", "1.0"], "s": ["'a'"]
    }  # fmt: skip
