"""The command line, written down once. Lists of backends and workloads come from their registries."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from xbackend import __version__, workloads
from xbackend.backends import registry
from xbackend.devices import DeviceMap
from xbackend.drawing.forms import FORMS
from xbackend.environments.interpreters import VARIABLE
from xbackend.errors import DeviceSpellingError
from xbackend.measure.plan import PRESETS, WIDTH
from xbackend.results import FOLDER
from xbackend.wording import listed, visible

MOST = 1024  # devices, threads, processes: beyond, a command line is a slip of the keyboard


class _Once(argparse.Action):
    """Stores the value of an option that is given once: of two the first would be lost in silence."""

    def __call__(self, reader: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        given = vars(namespace).setdefault("_given", set())
        if option is not None and self.dest in given:
            raise argparse.ArgumentError(self, "given twice; give it once")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Reader(argparse.ArgumentParser):
    """A parser whose options are given once, unless they say that they can be repeated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", None, _Once)

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))  # it holds what was typed, or pasted


class _Settings(argparse.Action):
    """``--set``, repeated: each name once."""

    def __call__(self, reader: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        name, value = values
        found = getattr(namespace, self.dest)
        if name in dict(found):
            raise argparse.ArgumentError(self, f"{name} is set twice, to {dict(found)[name]!r} and to {value!r}")
        setattr(namespace, self.dest, [*found, (name, value)])


def _names(text: str) -> list[str]:
    names = listed(text)
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing: give a name, or leave the option out")
    return names


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        # Twenty digits are more than any bound has; Python refuses to read thousands.
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else -1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return number

    return read


_count = _whole(1, MOST)
_seed = _whole(0, 2**63 - 1)


def _numbers(most: int) -> Callable[[str], list[int]]:
    one = _whole(1, most)

    def read(text: str) -> list[int]:
        try:
            return list(dict.fromkeys(map(one, _names(text))))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{error}; write a list such as 1,2") from None

    return read


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: give a name, or leave the option out")
    return text


def _name(text: str) -> str:
    """The name of a report, which is that of its folder, and of its run."""
    if not re.fullmatch(r"[\w+][\w.+ -]{0,98}[\w.+-]|\w", text) or text == "latest":
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name for a folder of reports: write letters, digits, '_', '-', '+', '.' and blanks, at "
            "most 100, a letter or digit first; 'latest' is the newest run"
        )
    return text


def _folder(text: str) -> Path:
    return Path(_text(text))


def _tolerance(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up such as 1e-4")
    return number


def _duration(unit: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not 0 < number < 1e6:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit} above 0 and below a million")
        return number

    return read


def _setting(text: str) -> tuple[str, Any]:
    """``name=value``, the value a number if it reads as one."""
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    for convert in (int, float):
        try:
            return name, convert(value)
        except ValueError:
            continue
    return name, {"True": True, "False": False}.get(value, value)


def _bindings(text: str) -> DeviceMap:
    try:
        bindings = DeviceMap.parse(text)
    except DeviceSpellingError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not bindings:
        raise argparse.ArgumentTypeError(f"{text!r} binds nothing; write dev0=cpu:0,dev1=cpu:1")
    return bindings


def _backends(command: argparse.ArgumentParser, default: str = "all") -> None:
    command.add_argument(
        "--backends",
        type=_names,
        metavar="NAME,...",
        help=f"which backends (default: {default}); there is {', '.join(registry.names())}; some with options in "
        "brackets, as in 'pytensor-jax[rewrites=merge]'",
    )


def _version(text: str) -> str:
    if not re.fullmatch(r"\d\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version of Python such as 3.12")
    return text


def _python(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--python",
        type=_version,
        metavar="X.Y",
        help="make and use environments with this Python where their packages are for it (default: the newest one "
        f"here that each is for); ${VARIABLE} says the same",
    )


def _function(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("target", metavar="FILE.py:FUNCTION", help=what)
    command.add_argument(
        "--input",
        dest="inputs",
        action="append",
        metavar="SPEC",
        help="an argument, once for each: 'float32[3,4]' (seeded random numbers), a number, or FILE.npy; without any, "
        "the file's own function inputs() is asked",
    )
    command.add_argument(
        "--set", dest="static", action=_Settings, type=_setting, default=[], metavar="NAME=VALUE",
        help="a keyword argument that the function is traced with",
    )  # fmt: skip
    command.add_argument(
        "--devices", type=_bindings, metavar="dev0=cpu:0,...", help="what the program's logical devices are bound to"
    )
    command.add_argument("--seed", type=_seed, default=0, help="of random inputs (default: 0)")


def _measuring(command: argparse.ArgumentParser) -> None:
    how = command.add_mutually_exclusive_group()
    quick, usual, thorough = (PRESETS[name] for name in ("quick", "default", "thorough"))
    how.add_argument(
        "--quick", action="store_true", help=f"{quick.processes} fresh processes for each candidate, small and short"
    )
    how.add_argument(
        "--thorough",
        action="store_true",
        help=f"{thorough.processes} processes and more, until the 95 %% interval of every time is within "
        f"{100 * WIDTH:g} %% on either side or {thorough.minutes:g} minutes (or --minutes) are used up",
    )
    command.add_argument(
        "--processes",
        type=_count,
        metavar="N",
        help=f"fresh processes for each candidate (default: {usual.processes}); with --thorough the fewest",
    )
    command.add_argument(
        "--minutes",
        type=_duration("minutes"),
        metavar="N",
        help="begin no more processes when they would end later than that",
    )
    command.add_argument(
        "--limit", type=_duration("seconds"), default=600.0, metavar="SECONDS",
        help="end a process that takes longer for one candidate (default: 600)",
    )  # fmt: skip
    command.add_argument("--devices", type=_numbers(MOST), metavar="N,...", help="how many devices to spread over")
    command.add_argument("--threads", type=_count, help="threads for each backend (default: one for each core)")
    command.add_argument("--seed", type=_seed, default=0, help="of the inputs and of the order (default: 0)")


def _compare(commands: Any) -> None:
    command = commands.add_parser("compare", help="run a workload on backends and write a report")
    command.set_defaults(handler="comparing:compare")
    command.add_argument(
        "workload", nargs="?", default="matpow", help=f"one of {', '.join(workloads.names())} (default: matpow)"
    )
    _backends(command, "all, or those of the environments named with --env")
    command.add_argument(
        "--env", dest="environments", action="append", default=[], metavar="FRAMEWORK==VERSION",
        help="measure in the environment of this version of a framework, once for each: --env pytensor==2.38.3; "
        "--env pytensor is the locked one",
    )  # fmt: skip
    _python(command)
    _measuring(command)
    command.add_argument("--size", type=_numbers(10**9), metavar="N,...", help="rows of its matrices")
    command.add_argument("--dtype", type=_names, metavar="NAME,...", help="float32, float64")
    command.add_argument(
        "--set", dest="static", action=_Settings, type=_setting, default=[], metavar="NAME=VALUE",
        help="another parameter of the workload, such as n=10 or method=squaring",
    )  # fmt: skip
    command.add_argument(
        "--baseline",
        metavar="BACKEND",
        help="what the ratios are taken to (default: numpy); it is measured against itself too, for the noise floor",
    )
    command.add_argument("--name", type=_name, help="name of the report (default: the workload's)")
    _reports(command)
    _store(command)


def _report(commands: Any) -> None:
    command = commands.add_parser("report", help="write the report of a stored run, or reports again from their data")
    command.set_defaults(handler="reporting:report")
    command.add_argument("names", nargs="*", help="which of the reports that are there (default: all)")
    command.add_argument("--run", metavar="RUN", help=f"write the report of {_RUN}")
    command.add_argument("--name", type=_name, help="name of the report of a --run (default: the run's)")
    command.add_argument("--baseline", metavar="BACKEND", help="what the ratios are taken to")
    _store(command)
    _reports(command)
    command = commands.add_parser("history", help="write how the runs of the store compare over time")
    command.set_defaults(handler="reporting:history")
    command.add_argument("workload", nargs="?", help="which workload (default: all)")
    _store(command)
    _reports(command)


def _reports(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--reports", type=_folder, default=Path("reports"), metavar="DIR", help="folder of reports (default: reports)"
    )


def _store(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--store",
        type=_folder,
        default=FOLDER,
        metavar="DIR",
        help=f"folder of runs (default: {FOLDER})",
    )


_RUN = (
    "a run: its name or the beginning of it, latest, latest~1, what compare --name called it (before~1: the one before "
    "the newest of that name), or the path of a results.json or of its folder"
)


def _gating(commands: Any) -> None:
    command = commands.add_parser("runs", help="list the runs of the store, or show one")
    command.set_defaults(handler="gating:runs")
    command.add_argument("run", nargs="?", metavar="RUN", help=_RUN)
    _store(command)
    command = commands.add_parser(
        "gate",
        help="fail where a run is slower than another one",
        description="Judge the run HEAD by the run BASE: the ratio of the medians over their processes, with its "
        "interval and the noise floor of both.",
        epilog="exit codes: 0 passed, 10 beyond a limit, 11 incomplete (HEAD lacks a measurement of BASE, or one of "
        "them was cut off or is still being measured), 12 a run cannot be read (damaged files are set aside and "
        "named), 13 no measurement is in both, 14 no verdict (different machines, threads or inputs, too few "
        "processes); 2 wrong command line",
    )
    command.set_defaults(handler="gating:gate")
    command.add_argument("base", metavar="BASE", help=_RUN)
    command.add_argument("head", metavar="HEAD", help=_RUN)
    command.add_argument(
        "--fail", action="append", metavar="LIMIT",
        help="slower:5%% (the default): more than 1.05 times the time of BASE and slower by the verdict; faster:5%%: "
        "less than 1/1.05 of it and faster; may be given several times",
    )  # fmt: skip
    _store(command)


def _environments(commands: Any) -> None:
    command = commands.add_parser("env", help="list, make or remove the frameworks' environments")
    command.set_defaults(handler="machines:env")
    command.add_argument("action", choices=("list", "sync", "remove"))
    command.add_argument("names", nargs="*", help="which environments (default for list and sync: all)")
    _python(command)


def parser() -> argparse.ArgumentParser:
    """The parser of ``xbackend``; the chosen command's function is ``options.handler``."""
    result = _Reader(
        prog="xbackend",
        description="Trace an array program once, run it on TensorFlow and on every generation of the Theano lineage, "
        "and say with proof where each op ran, whether the numbers agree and which is faster.",
    )
    result.add_argument("--version", action="version", version=f"xbackend {__version__}")
    result.set_defaults(passes_on=False)
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _compare(commands)
    command = commands.add_parser("bench", help="pytest bench, with the options after it passed on")
    command.set_defaults(handler="comparing:bench", passes_on=True)
    _report(commands)
    command = commands.add_parser("devices", help="the devices of each backend")
    command.set_defaults(handler="machines:devices")
    _backends(command)
    _python(command)
    command.add_argument("--virtual-devices", type=_count, default=1, help="CPU devices to make (default: 1)")
    command = commands.add_parser("doctor", help="which backends work here, which do not, why, and what to type")
    command.set_defaults(handler="machines:doctor")
    _backends(command)
    _python(command)
    command.add_argument(
        "--install",
        action="store_true",
        help="install what is missing of the system (with apt-get, as root or by sudo), and make the environments",
    )
    command.add_argument("--tests", action="store_true", help="with --install: what xbackend's own tests need too")
    command.add_argument(
        "--verify",
        action="store_true",
        help="read every file of the environments and compare it with what was installed",
    )
    _gating(commands)
    _environments(commands)
    command = commands.add_parser("draw", help="draw a program by device")
    command.set_defaults(handler="functions:draw")
    _function(command, "a function in a file, or a workload, or a program's JSON file")
    _python(command)
    command.add_argument("--form", choices=FORMS, default="mermaid", help="default: mermaid")
    command.add_argument(
        "--backend", metavar="NAME", help="run it once there and draw what was executed, where, with its transfers"
    )
    command = commands.add_parser("run", help="run your own function on backends and compare what it returns")
    command.set_defaults(handler="functions:run")
    _function(command, "a function in a file")
    _backends(command)
    _python(command)
    command.add_argument("--virtual-devices", type=_count, help="CPU devices to make (default: as needed)")
    command.add_argument(
        "--tolerance",
        type=_tolerance,
        help="largest relative difference that passes (default: by dtype, ops and longest axis)",
    )
    command.add_argument("--drawings", type=_folder, metavar="FOLDER", help="save what each backend executed, as SVG")
    return result
