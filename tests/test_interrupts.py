"""Ctrl-C that must wait, in separate processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from xbackend.interrupts import put_off

# Interrupts itself in the middle of matplotlib's import, while a C++ extension makes its enums.
INTERRUPTED = """
import builtins, enum, os, signal
from xbackend.report.drawn.canvas import canvas
make = enum.EnumMeta.__call__
def interrupted(cls, *values, **options):
    if "_enums" in str(options.get("module")) or "ft2font" in str(options.get("module")):
        print("interrupted", flush=True)
        os.kill(os.getpid(), signal.SIGINT)
    return make(cls, *values, **options)
enum.EnumMeta.__call__ = interrupted
try:
    with canvas(1.0) as drawn:
        print("drawn")
except KeyboardInterrupt:
    print("told of it")
"""


def test_an_import_of_a_cpp_extension_is_not_interrupted() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    words = done.stdout.split("\n")
    assert "interrupted" in words and words[-2] == "told of it" and "drawn" not in words


def test_an_interrupt_is_told_after_it() -> None:
    seen = []
    with pytest.raises(KeyboardInterrupt), put_off():
        signal.raise_signal(signal.SIGINT)
        seen.append("went on")
    assert seen == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_import_as_they_are() -> None:
    def imported() -> None:
        with put_off():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=imported)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with put_off():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
