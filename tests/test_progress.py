"""Progress: its place, ``(2 of 5)``, and seconds of what lasts."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_exit_codes import Here

from xbackend.cli import DONE, live, main
from xbackend.measure.standing import MEASURED, STARTING, Standing
from xbackend.scripting import progress
from xbackend.scripting.progress import Beating, Log
from xbackend.wording import placed


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path, monkeypatch)


def test_a_place_is_said_of_several() -> None:
    assert list(placed("ab")) == [("a", " (1 of 2)"), ("b", " (2 of 2)")] and list(placed("a")) == [("a", "")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "mine.py:twice", "--backends", "numpy,jax"], ["running on numpy (1 of 2)", "running on jax (2 of 2)"]),
        (["devices", "--backends", "numpy,jax"], ["starting numpy (1 of 2)", "starting jax (2 of 2)"]),
        (["doctor", "--backends", "numpy,jax"], ["looking at numpy (1 of 2)", "looking at jax (2 of 2)"]),
        (["train", "trained.py:line", "--backends", "numpy,jax"], ["numpy (1 of 2), one: starts", "jax (2 of 2), one"]),
    ],
)
def test_each_of_several_has_its_place(
    arguments: list[str], said: list[str], here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    here.looks("available")
    here.opens()
    main(arguments)
    lines = capsys.readouterr().err.splitlines()
    assert [any(line.startswith(words) for line in lines) for words in said] == [True] * len(said), lines


def test_reports_are_counted(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.reported()
    (here.folder / "reports" / "one").rename(here.folder / "reports" / "two")
    here.reported()
    assert main(["report"]) == DONE
    assert "writing reports/two (2 of 2)" in capsys.readouterr().err


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LONG", 0.05)
    monkeypatch.setattr(progress, "_TICK", 0.02)


@pytest.mark.usefixtures("quick")
def test_what_lasts_is_counted_in_seconds() -> None:
    lines: list[str] = []
    with Beating(lines.append) as say:
        say("compiles")
        time.sleep(0.3)
        count = len(lines)
    assert count > 2 and lines[0] == "compiles" and set(lines[1:]) == {"compiles, 0 s"}
    time.sleep(0.1)
    assert len(lines) <= count + 1  # nothing after the block


@pytest.mark.usefixtures("quick")
def test_the_seconds_are_those_of_compiling() -> None:
    lines: list[str] = []
    watched: list[str] = []
    with Beating(lines.append) as say:
        watch = say.watched(lambda task, rows: watched.append(task))
        say("a compiles")
        watch("case", [Standing("a", STARTING), Standing("b", MEASURED)])
        time.sleep(0.2)
        counted = len(lines)
        watch("case", [Standing("a", MEASURED), Standing("b", MEASURED)])
        time.sleep(0.1)
    assert 1 < counted <= len(lines) <= counted + 1 and watched == ["case", "case"]


@pytest.mark.usefixtures("quick")
def test_the_seconds_are_not_those_of_a_first_number(capsys: pytest.CaptureFixture[str]) -> None:
    with live.progress() as (say, watch):
        say("b compiles")
        watch("case", [Standing("a", MEASURED, 0.5), Standing("b", STARTING)])
        time.sleep(0.2)
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["b compiles", "first number of a: 500.0 ms"] and set(said[2:]) == {"b compiles, 0 s"}


@pytest.mark.parametrize(
    ("planned", "made", "share"),
    [(None, (0, 0), (0, 2)), (None, (1, 0), (1, 2)), (None, (1, 1), (2, 2)), (3, (0, 0), (0, 6)), (3, (4, 1), (4, 6))],
)
def test_a_bar_is_as_full_as_the_processes_are_made(
    planned: int | None, made: tuple[int, ...], share: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    display = SimpleNamespace(display=lambda *_, **__: SimpleNamespace(update=lambda *_, **__: None))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    bar = progress.Bar(planned)
    bar.show("case", [Standing("a", MEASURED, processes=each) for each in made])
    assert bar._share == share


def test_a_log_has_a_line_for_each_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    log = Log()
    log("theano | 1 device: starts and compiles")
    for now in range(101, 133):
        log(f"theano | 1 device: starts and compiles, {now - 100} s")
    assert [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()[1:]] == ["10 s", "20 s", "30 s"]
