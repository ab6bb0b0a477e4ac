"""The command line, written down once. Lists of backends and workloads come from their registries."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from xbackend import __version__, workloads
from xbackend.backends import registry
from xbackend.program.drawing import FORMS


def _names(text: str) -> list[str]:
    return [name for name in text.replace(",", " ").split() if name]


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(n) for n in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2") from None
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: numbers from 1 up are needed")
    return numbers


def _positive(text: str) -> int:
    (number,) = _numbers(text) if len(_names(text)) == 1 else (0,)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not one whole number from 1 up")
    return number


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


def _backends(command: argparse.ArgumentParser, default: str = "all") -> None:
    command.add_argument(
        "--backends",
        type=_names,
        metavar="NAME,...",
        help=f"which backends (default: {default}); there is {', '.join(registry.names())}",
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
        "--set", dest="static", action="append", type=_setting, default=[], metavar="NAME=VALUE",
        help="a keyword argument that the function is traced with",
    )  # fmt: skip
    command.add_argument("--devices", metavar="dev0=cpu:0,...", help="what the program's logical devices are bound to")
    command.add_argument("--seed", type=int, default=0, help="of random inputs (default: 0)")


def _measuring(command: argparse.ArgumentParser) -> None:
    command.add_argument("--quick", action="store_true", help="small and short: to see that it works")
    command.add_argument("--devices", type=_numbers, metavar="N,...", help="how many devices to spread over")
    command.add_argument("--threads", type=_positive, help="threads for each backend (default: one for each core)")
    command.add_argument("--processes", type=_positive, help="fresh processes for each candidate")
    command.add_argument("--seed", type=int, default=0, help="of the inputs and of the order (default: 0)")


def _compare(commands: Any) -> None:
    command = commands.add_parser("compare", help="run a workload on backends and write a report")
    command.set_defaults(handler="comparing:compare")
    command.add_argument(
        "workload", nargs="?", default="matpow", help=f"one of {', '.join(workloads.names())} (default: matpow)"
    )
    _backends(command)
    _measuring(command)
    command.add_argument("--size", type=_numbers, metavar="N,...", help="rows of its matrices")
    command.add_argument("--dtype", type=_names, metavar="NAME,...", help="float32, float64")
    command.add_argument(
        "--set", dest="static", action="append", type=_setting, default=[], metavar="NAME=VALUE",
        help="another parameter of the workload, such as n=10 or method=squaring",
    )  # fmt: skip
    command.add_argument("--baseline", metavar="BACKEND", help="what the ratios are taken to (default: numpy)")
    command.add_argument("--figures", action="store_true", help="measure the project's own figures too")
    command.add_argument("--name", help="name of the report (default: the workload's)")
    command.add_argument("--reports", type=Path, default=Path("reports"), help="folder of reports (default: reports)")


def _report(commands: Any) -> None:
    command = commands.add_parser("report", help="write reports again from their stored results")
    command.set_defaults(handler="comparing:report")
    command.add_argument("names", nargs="*", help="which (default: all)")
    command.add_argument("--baseline", metavar="BACKEND", help="what the ratios are taken to")
    command.add_argument("--reports", type=Path, default=Path("reports"), help="folder of reports (default: reports)")


def _environments(commands: Any) -> None:
    command = commands.add_parser("env", help="list, make or remove the frameworks' environments")
    command.set_defaults(handler="machines:env")
    command.add_argument("action", choices=("list", "sync", "remove"))
    command.add_argument("names", nargs="*", help="which environments (default for list and sync: all)")


def parser() -> argparse.ArgumentParser:
    """The parser of ``xbackend``; the chosen command's function is ``options.handler``."""
    result = argparse.ArgumentParser(
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
    command.add_argument("--virtual-devices", type=_positive, default=1, help="CPU devices to make (default: 1)")
    command = commands.add_parser("doctor", help="which backends work here, which do not, why, and what to type")
    command.set_defaults(handler="machines:doctor")
    _backends(command)
    _environments(commands)
    command = commands.add_parser("draw", help="draw a program by device")
    command.set_defaults(handler="functions:draw")
    _function(command, "a function in a file, or a workload, or a program's JSON file")
    command.add_argument("--form", choices=FORMS, default="mermaid", help="default: mermaid")
    command.add_argument(
        "--backend", metavar="NAME", help="run it once there and draw what was executed, where, with its transfers"
    )
    command = commands.add_parser("run", help="run your own function on backends and compare what it returns")
    command.set_defaults(handler="functions:run")
    _function(command, "a function in a file")
    _backends(command)
    command.add_argument("--virtual-devices", type=_positive, help="CPU devices to make (default: as needed)")
    command.add_argument("--tolerance", type=float, help="largest relative difference that passes (default: by dtype)")
    command.add_argument("--drawings", type=Path, metavar="FOLDER", help="save what each backend executed, as SVG")
    return result
