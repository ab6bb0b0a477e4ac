"""The options that commands share: how each is read, its words in ``--help``, and its completion by a shell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xbackend import environments, wording
from xbackend.backends import registry
from xbackend.devices import DeviceMap, numbers_and_kinds
from xbackend.environments import accelerators, interpreters
from xbackend.errors import ArgumentError
from xbackend.files import check_place
from xbackend.measure.patience import LONGEST, VARIABLE
from xbackend.measure.plan import QUICK_WAIT, WAIT
from xbackend.program.binding import MOST
from xbackend.results import FOLDER
from xbackend.results.runs import Store as StoreOfRuns

Assignments = list[tuple[str, Any]] | None  # of names and values, each name once
Lists = list[tuple[str, list[Any]]] | None  # of names and values, each name once
Names = Callable[[Any], Iterable[str]]  # the names that can be typed, given the other words of the command line


def option(read: Callable[[str], Any], metavar: str | None, text: str, complete: Names | None = None) -> Parameter:
    """An option with one value, given at most once: the first of two would be lost in silence.

    ``read`` turns the word into the value and raises `ValueError` with what would be right.
    """

    def convert(_: Any, tokens: Sequence[Any]) -> Any:
        return read(tokens[0].value)

    return Parameter(
        converter=convert,
        metavar=metavar,
        help=text,
        completer=complete,
        n_tokens=1,
        allow_repeating=False,
        accepts_keys=False,
        show_default=False if "(default: " in text else None,
    )


def listed(complete: Names) -> Names:
    """Completes the last name of a list with commas."""

    def names(context: Any) -> Iterator[str]:
        before, comma, _ = context.incomplete.rpartition(",")
        if "\\" in before:  # bash has quoted the comma that it inserted, and would quote it again
            return iter(())
        return (f"{before}{comma}{name}" for name in complete(context) if name not in before.split(","))

    return names


def names(text: str) -> list[str]:
    """Names with commas or blanks between them, each once."""
    each = wording.listed(text)
    if not each:
        raise ValueError(f"{text!r} names nothing: give a name, or leave the option out")
    return each


def whole(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number within bounds."""

    def read(text: str) -> int:
        # Twenty digits are more than any bound has; Python refuses to read thousands.
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else -1
        if not least <= number <= most:
            binds = "; what devices are bound to is said with --devices-map" if "=" in text else ""
            raise ValueError(f"{text!r} is not a whole number from {least} to {most}{binds}")
        return number

    return read


count = whole(1, MOST)  # of devices, threads and processes alike


def numbers(most: int) -> Callable[[str], list[int]]:
    """Reads whole numbers from 1 up with commas between them."""
    one = whole(1, most)

    def read(text: str) -> list[int]:
        each = names(text)
        try:
            return list(dict.fromkeys(map(one, each)))
        except ValueError as error:
            raise ValueError(f"{error}; write a list such as 1,2") from None

    return read


def devices(text: str) -> list[int | str]:
    """Reads numbers of devices, and the kinds that they are to be of, with commas between them: ``gpu,1,2``."""
    try:
        read = [word if word.isalpha() else count(word) for word in names(text)]
    except ValueError as error:
        named = "; a device is named with --devices-map dev0=gpu:1" if ":" in text and "=" not in text else ""
        raise ValueError(f"{error}; write a list such as 1,2 or gpu,1,2{named}") from None
    try:
        numbers_and_kinds(read)
    except ArgumentError as error:
        raise ValueError(f"{text!r}: {str(error).partition(': ')[2]}") from None
    return read


def device_count(text: str) -> list[int | str]:
    """Reads one number of devices, and the kinds that they are to be of: ``gpu,2``."""
    read = devices(text)
    if sum(not isinstance(word, str) for word in read) > 1:
        raise ValueError(f"{text!r} has several numbers of devices: write one, such as 2 or gpu,2")
    return read


def number(right: Callable[[float], bool], what: str) -> Callable[[str], float]:
    """Reads a number that is ``right``; ``what`` says which are."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not right(value):
            raise ValueError(f"{text!r} is not a number {what}")
        return value

    return read


def tolerance(text: str) -> Parameter:
    """By how much numbers may differ."""
    return option(number(lambda value: 0 <= value < float("inf"), "from 0 up such as 1e-4"), "NUMBER", text)


def duration(unit: str) -> Callable[[str], float]:
    """Reads a time."""
    return number(lambda value: 0 < value < 1e6, f"of {unit} above 0 and below a million")


def amount(text: str) -> int:
    """Reads a number of bytes: 1000000, 64MiB."""
    found = re.fullmatch(r"(\d{1,15})(KiB|MiB|GiB|TiB)?", text)
    if found is None or not int(found[1]):
        raise ValueError(f"{text!r} is no number of bytes: write 1000000, or 64MiB, 2GiB")
    powers = {None: 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}
    return int(found[1]) << 10 * powers[found[2]]


def folder(text: str) -> Path:
    """Reads the path of a folder, which need not be there."""
    if not text.strip():
        raise ValueError("it is empty: give a name, or leave the option out")
    return Path(text)


def report_name(text: str) -> str:
    """The name of a report, also of its folder and its run."""
    if not re.fullmatch(r"[\w+][\w.+ -]{0,98}[\w.+-]|\w", text) or text == "latest":
        raise ValueError(
            f"{text!r} is no name for a folder of reports: write letters, digits, '_', '-', '+', '.' and blanks, at "
            "most 100, a letter or digit first; 'latest' is the newest run"
        )
    return text


def _version(text: str) -> str:
    interpreters.version(text)
    return text


def _accelerator(text: str) -> str:
    kinds = (*accelerators.KINDS, accelerators.NONE)
    if text not in kinds:
        raise ValueError(f"{text!r} is no kind of accelerator: write {', '.join(kinds)}")
    return text


def _bindings(text: str) -> DeviceMap:
    bindings = DeviceMap.parse(text)
    if not bindings:
        raise ValueError(f"{text!r} binds nothing; write dev0=cpu:0,dev1=cpu:1")
    return bindings


def _settings(_: Any, tokens: Sequence[Any]) -> list[tuple[str, Any]]:
    """``name=value`` of each ``--set``, the value a number if it reads as one; each name once."""
    settings: dict[str, Any] = {}
    for name, value in _assigned(token.value for token in tokens):
        if name in settings:
            raise ValueError(f"{name} is set twice, to {settings[name]!r} and to {_value(value)!r}")
        settings[name] = _value(value)
    return [*settings.items()]


def _assigned(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in words:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier():
            raise ValueError(f"{text!r} is not NAME=VALUE")
        yield name, value


def lists(words: Iterable[str]) -> dict[str, list[Any]]:
    """``name=value,...`` of each word: the values, numbers if they read as such. Raises `ValueError`."""
    found: dict[str, list[Any]] = {}
    for name, text in _assigned(words):
        if name in found:
            before = ",".join(map(str, found[name]))
            raise ValueError(f"{name} is set twice, to {before} and to {text}: write {name}={before},{text} for both")
        if not all(part.strip() for part in text.split(",")):
            raise ValueError(f"{name}={text} has an empty value")
        values = [_value(part.strip()) for part in text.split(",")]
        found[name] = [*{(type(value), value): value for value in values}.values()]  # True, 1 and 1.0 are equal
    return found


def _value(text: str) -> int | float | bool | str:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)
    # 1e5 is how a large whole number is written.
    return int(value) if "e" in text.lower() and value.is_integer() and abs(value) < 2**63 else value


def _backends(_: Any) -> Iterable[str]:
    return registry.names()


def _runs(context: Any) -> Iterable[str]:
    store = context["store"].value
    return "latest", *reversed(StoreOfRuns(store or FOLDER).names())


def setting(text: str) -> Parameter:
    """``--set``, repeated."""
    return Parameter("--set", converter=_settings, metavar="NAME=VALUE", help=text, n_tokens=1)


def sweep(text: str) -> Parameter:
    """``--set``, repeated, each with one value or several."""

    def convert(_: Any, tokens: Sequence[Any]) -> list[tuple[str, list[Any]]]:
        return [*lists(token.value for token in tokens).items()]

    return Parameter("--set", converter=convert, metavar="NAME=VALUE,...", help=text, n_tokens=1)


def repeated(name: str, metavar: str, text: str, complete: Names | None = None) -> Parameter:
    """An option that may be given several times, with one word each."""
    return Parameter(name, metavar=metavar, help=text, completer=complete, show_default=False)


def flag(text: str, **more: Any) -> Parameter:
    """An option without a value."""
    return Parameter(help=text, show_default=False, **more)


def backends_of(default: str = "all") -> Parameter:
    """``--backends``; ``default`` describes the default ones."""
    text = (
        f"which backends (default: {default}); there is {', '.join(registry.names())}; some with options in brackets, "
        "as in 'pytensor-jax[rewrites=merge]'"
    )
    return option(names, "NAME,...", text, listed(_backends))


def backend(text: str) -> Parameter:
    """One backend."""
    return option(str, "BACKEND", text, _backends)


def run_of(text: str = "") -> Parameter:
    """One run."""
    return option(str, "RUN", f"{text}{_RUN}", _runs)


_RUN = (
    "a run: its name or the beginning of it, latest, latest~1, what compare --name called it (before~1: the one before "
    "the newest of that name), or the path of a report's folder or results.json.gz"
)
_PYTHON = (
    "make and use environments with this Python where their packages are for it (default: the newest one here that "
    f"each is for); ${interpreters.VARIABLE} says the same"
)
_ACCELERATOR = (
    "make and use environments with the wheels for these GPUs, "
    f"{' or '.join(accelerators.KINDS)}, or for none (default: what the driver runs); ${accelerators.VARIABLE} says "
    "the same"
)
_INPUT = (
    "an argument, once for each: 'float32[3,4]' (seeded random numbers), a number, or FILE.npy; without any, the "
    "file's own function inputs() is asked"
)
_ENVIRONMENTS = (
    "run in the environment of this version of a framework, once for each: --env pytensor==2.38.3; --env pytensor is "
    "the locked one, --env pytensor=PATH that with the package of a checkout, a wheel or a source distribution, or "
    "what your own interpreter has, or the virtual environment that it is of"
)
_ENVIRONMENT = "which environments (default for list and sync: all)"
_WAIT = (
    f"wait at most so long in all, {LONGEST:g} s at once, until other processes leave the cores alone; 0 for not at "
    f"all (default: ${VARIABLE}, else {WAIT:g}, with --quick {QUICK_WAIT:g})"
)

AllowNaN = Annotated[bool, flag("NaN that the right result, or another one, has too is no doubt")]
Backends = Annotated[list[str] | None, backends_of()]
Backend = Annotated[str | None, backend("run it once there and draw what was executed, where, with its transfers")]
Baseline = Annotated[str | None, backend("what the ratios are taken to")]
DevicesMap = Annotated[
    DeviceMap | None,
    option(
        _bindings,
        "dev0=cpu:0,...",
        "what devices that the program names are bound to: logical ones (default: spread over those that there are), "
        "or others than there are: /gpu:1=cpu:1",
    ),
]
Count = Annotated[int, option(count, "N", "CPU devices to make")]
Environment = Annotated[str, Parameter(metavar="NAME", help=_ENVIRONMENT, completer=lambda _: environments.names())]
Environments = Annotated[
    Sequence[str], repeated("--env", "FRAMEWORK==VERSION", _ENVIRONMENTS, lambda _: environments.names())
]
Inputs = Annotated[list[str] | None, repeated("--input", "SPEC", _INPUT)]
Limit = Annotated[float, option(duration("seconds"), "SECONDS", "end a process that takes longer for one candidate")]
Name = Annotated[str | None, option(report_name, "NAME", "name of the report (default: the workload's, or the run's)")]
Accelerator = Annotated[str | None, option(_accelerator, "KIND", _ACCELERATOR)]
Python = Annotated[str | None, option(_version, "X.Y", _PYTHON)]
Reports = Annotated[Path, option(folder, "DIR", "folder of reports")]
Run = Annotated[str, option(str, None, _RUN, _runs)]
Seed = Annotated[int, option(whole(0, 2**63 - 1), "N", "of the inputs and of the order in which they are measured")]
Settings = Annotated[Assignments, setting("a keyword argument that the function is traced with")]
Store = Annotated[Path, option(folder, "DIR", "folder of runs")]
Threads = Annotated[int | None, option(count, "N", "threads for each backend (default: one for each core)")]
Wait = Annotated[
    float | None,
    option(number(lambda value: 0 <= value < 1e6, "of seconds from 0 up"), "SECONDS", _WAIT),
]
Wide = Annotated[bool, flag("tables with all columns, as wide as they are, in place of one that fits 80 columns")]


@Parameter(name="*")
@dataclass(frozen=True)
class Printed:
    """What is printed; `xbackend.cli.main` does it."""

    json: Annotated[bool, flag("print the result as JSON (docs/commands.md), in place of text")] = False
    quiet: Annotated[bool, flag("print the answer alone, without tables and progress")] = False


PRINTED = Printed()


def check_places(report: Path, checkpoints: Path | None, events: Path | None = None) -> None:
    """Raises `StoreError`, before any long work, where one of these folders cannot be written to."""
    check_place(report, f"the report cannot be written to {report}")
    if checkpoints is not None:
        check_place(checkpoints, f"checkpoints cannot be kept in {checkpoints}")
    if events is not None:
        check_place(events, f"event files cannot be written to {events}")
