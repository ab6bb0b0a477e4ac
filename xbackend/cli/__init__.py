"""The command ``xbackend``: each command is a file, found by its name, and leaves the work to another room.

A command is imported when it is typed or completed, so that ``xbackend --help`` imports neither NumPy nor a report.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cyclopts import App, CycloptsError, Parameter
from cyclopts import exceptions as wrong

from xbackend import __version__
from xbackend.errors import StoreError, XBackendError

if TYPE_CHECKING:
    from xbackend.cli.options import Printed

# Exit codes: everything asked for was done; something asked for could not be; the command line or input was wrong;
# stored results could not be read or written. Those of a gate are `xbackend.analysis.gate.GateOutcome`.
DONE, INCOMPLETE, WRONG, STORE = 0, 1, 2, 12
INTERRUPTED, _UNREAD = 130, 141  # 128 and the number of the signal, as a shell says it

_ABOUT = (
    "Trace an array program once, run it on TensorFlow, JAX and every generation of the Theano lineage, and say with "
    "proof where each op ran, whether the numbers agree and which is faster."
)

# The words of `--help` for each command: the first line in the list of all commands, the rest in its own help.
COMMANDS = {
    "compare": "run a workload on backends and write a report",
    "bench": (
        "pytest bench, with the options after it passed on\n\n"
        "xbackend's own are --backends, --devices, --quick, --full, --thorough, --processes, --minutes, --threads, "
        "--cores-per-device, --shared-cores, --baseline, --seed, --workload, --set, --allow-nan and --store. All "
        "others are those of pytest and pytest-benchmark: pytest --help."
    ),
    "report": "write the report of a stored run, or reports again from their data",
    "history": "write how the runs of the store compare over time",
    "devices": "the devices of each backend",
    "doctor": "which backends work here, which do not, why, and what to type",
    "runs": "list the runs of the store, or show one",
    "gate": (
        "fail where a run is slower than another one\n\n"
        "Judge the run HEAD by the run BASE: it passes where the interval of the ratio lies within the limit, and "
        "fails where it lies beyond.\n\n"
        "Exit codes: 0 passed, 10 beyond a limit, 11 incomplete (HEAD lacks a measurement of BASE, or one of them was "
        "cut off or is still being measured), 12 a run cannot be read (damaged files are set aside and named), 13 no "
        "measurement is in both, 14 no verdict (different machines, threads, variables or inputs, too few processes, "
        "or an interval that holds the limit); 2 wrong command line."
    ),
    "bisect": "name the release in which a time, a compile time or numbers changed",
    "env": "list, make or remove the frameworks' environments",
    "draw": "draw a program by device",
    "translate": "write a function, or a graph that exists, as a script of another framework",
    "run": "run your own function on backends and compare what it returns",
    "train": "train your own model on backends and devices, and compare what it becomes",
    "cluster": "run your own function as the step of every task of a cluster",
}

# A typical command line of each.
EXAMPLES = {
    "compare": "xbackend compare model.py:f --input 'float64[3]' --quick",
    "bench": "xbackend bench --quick --backends numpy,jax",
    "report": "xbackend report --run latest",
    "history": "xbackend history matpow",
    "devices": "xbackend devices --backends jax --virtual-devices 2",
    "doctor": "xbackend doctor --backends numpy,jax",
    "runs": "xbackend runs latest --wide",
    "gate": "xbackend gate before after --fail slower:5%",
    "bisect": "xbackend bisect 'pytensor>=2.30' matpow --quick",
    "env": "xbackend env sync jax",
    "draw": "xbackend draw matpow --form svg > matpow.svg",
    "translate": "xbackend translate matpow --to jax",
    "run": "xbackend run model.py:f --input 'float64[3]' --backends jax --shrink",
    "train": "xbackend train model.py --strategy one,mirrored",
    "cluster": "xbackend cluster run job.py:step --workers 2 --ps 1",
}


def application() -> App:
    """The command line; a command's module is imported when it is the one that was typed."""
    app = App("xbackend", help=_ABOUT, help_format="plaintext", version_format="plaintext", version=_version)
    app.default_parameter = Parameter(negative=())
    for place, (name, text) in enumerate(COMMANDS.items()):
        flags = () if name == "bench" else app.version_flags  # pytest has a --version of its own
        text = f"{text}\n\nExample: {EXAMPLES[name]}"
        app.command(
            f"xbackend.cli.{name}:{name}",
            name=name,
            help=text,
            sort_key=place,
            version_flags=flags,
            version_format="plaintext",
        )
    for verb, text in (
        ("install", "complete commands, options and names in this shell"),
        ("show", "print the script for that"),
    ):
        name = f"--{verb}-completion"
        app.command(f"xbackend.cli.completion:{verb}", name=name, help=text)
    return app


def _version() -> str:
    """The version, the Python, the number of cores, and which environments are ready."""
    import platform

    from xbackend import cores, environments
    from xbackend.wording import join

    states = {name: environments.get(name).state for name in environments.names()}
    ready = [name for name, state in states.items() if state == "ready"]
    others = join(f"{name} ({state})" for name, state in states.items() if state != "ready")
    lines = {
        f"xbackend {__version__}": "",
        "Python": f"{platform.python_version()}, {sys.executable}",
        "cores": str(cores.count()),
        "environments ready": join(ready) or "none",
        "others": f"{others}: xbackend doctor says what to type" if others else "",
    }
    return "\n".join(f"{name}: {words}" if words else name for name, words in lines.items() if words or " " in name)


def _options_of(command: str) -> set[str]:
    return {argument.name for argument in application()[command].assemble_argument_collection()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code, as docs/commands.md has them."""
    from xbackend.cli import configured

    typed = list(sys.argv[1:] if argv is None else argv)
    own = typed[:1] != ["bench"]  # the options of pytest are its own
    command = " ".join(["xbackend", *(word for word in typed[:1] if word in COMMANDS)])
    try:
        if not typed:
            raise CycloptsError(msg=f"name a command: {', '.join(COMMANDS)}")
        app = application()
        if own:
            typed, app.config = configured.applied(typed, [*COMMANDS], _options_of)
        function, bound, _ = app.parse_args(typed, exit_on_error=False, print_error=False)
        for option, variable in _OF_ENVIRONMENTS.items():
            if bound.arguments.get(option):
                os.environ[variable] = bound.arguments[option]
        return _ended(lambda: function(*bound.args, **bound.kwargs), bound.arguments.get("printed"))
    except CycloptsError as error:
        why, code = _words(error), WRONG
    except XBackendError as error:
        why, code = str(error), STORE if isinstance(error, StoreError) else WRONG
    except MemoryError as error:  # where a limit of this process is below what the machine has
        why, code = f"there is not enough memory: {error}; ask for less", WRONG
    except KeyboardInterrupt:
        why, code = "interrupted", INTERRUPTED
    except BrokenPipeError:  # `| head` has read enough; what Python still writes at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNREAD
    return _refused(command, why, code, own and "--json" in typed)


def _ended(call: Callable[[], Any], printed: Printed | None) -> int:
    """Call a command; returns its exit code. With ``printed`` its output is written as JSON, or in short."""
    from xbackend.cli import configured
    from xbackend.cli.console import say, showing

    if printed is None:
        if configured.taken:
            say(configured.said(), error=True)
        told = call()
    else:
        with showing(text=False, progress=not printed.quiet):
            told = call()
        if told is not None and not isinstance(told, int):
            from xbackend.cli.output import short, written

            told.configured = dict(configured.taken)
            say(written(told) if printed.json else short(told))
    return int(getattr(told, "exit_code", told or DONE))


def _refused(command: str, why: str, code: int, as_json: bool) -> int:
    from xbackend.cli.console import say

    say(f"{command}: {why}", error=True)
    name = command.partition(" ")[2]
    if as_json:
        from xbackend.cli.output import KINDS, written

        if name in KINDS:
            say(written(KINDS[name](exit_code=code, error=why)))
    return code


# Options of environments, and the variables that pass them on to the processes that this one starts.
_OF_ENVIRONMENTS = {"python": "XBACKEND_PYTHON", "accelerator": "XBACKEND_ACCELERATOR"}
# Options that are typed by habit, and the hint for each: in commands that have the named option, if one is named.
_FILE = ("What it prints goes to a file with > FILE; reports to --reports DIR", "")
_INSTEAD = {
    **dict.fromkeys(("-o", "--output", "--out"), _FILE),
    "--size": ("A parameter of a workload or a function is given with --set size=512", "--set"),
    "--devices": ("The program's devices are bound with --devices-map dev0=cpu:0,dev1=cpu:1", "--devices-map"),
    "--gpu": ("Visible GPUs are used; logical devices are bound to them, as in run --devices-map dev0=gpu:0", ""),
}
# Commands that are not there -> the one to type.
_COMMANDS_INSTEAD = {
    **dict.fromkeys(("backends", "info", "versions", "status"), "doctor"),
    "install": "doctor --install",
    **dict.fromkeys(("gpu", "gpus"), "devices"),
    "list": "runs",
    "workloads": "compare --help",
    "help": "--help",
}


def _unknown(error: wrong.UnknownOptionError) -> str:
    """The words for an unknown option, with the one that is meant or those that there are."""
    from xbackend.wording import meant

    typed = error.token.keyword or error.token.value
    there = [name for argument in error.argument_collection for name in argument.names if name.startswith("--")]
    alike, (words, option) = meant(typed, there), _INSTEAD.get(typed, ("", ""))
    if words and (not option or option in there):
        hint = f"{words}."
    else:
        hint = f"Did you mean {alike}?" if alike else f"There is {', '.join(there) or 'none'}"
    return f"Unknown option: {typed}. {hint}"


def _unknown_command(typed: str) -> str:
    from xbackend.wording import meant

    alike = _COMMANDS_INSTEAD.get(typed) or meant(typed, COMMANDS)
    said = f"Did you mean xbackend {alike}? " if alike else ""
    return f"Unknown command: {typed}. {said}There is {', '.join(COMMANDS)}"


def _words(error: CycloptsError) -> str:
    """The fault of a command line in words, which begin with the option."""
    if isinstance(error, wrong.UnknownOptionError):
        return _unknown(error)
    if isinstance(error, wrong.RepeatArgumentError):
        return f"{error.token.keyword}: given twice; give it once"
    if isinstance(error, wrong.UnknownCommandError):
        return _unknown_command((error.unused_tokens or [""])[0])
    if isinstance(error, wrong.MissingArgumentError) and error.argument:
        name, metavar = error.argument.name, error.argument.parameter.metavar
        return f"{name}: give it a value, {metavar}" if name.startswith("--") else f"give {metavar or name}"
    if isinstance(error, wrong.UnusedCliTokensError):
        return f"it does not take {' '.join(error.unused_tokens or ())}"
    if isinstance(error, wrong.CoercionError) and error.msg and error.argument:
        sources = [token.source for token in error.argument.tokens if token.source != "cli"]
        return f"{''.join(f'{source}: ' for source in sources[:1])}{error.argument.name}: {error.msg}"
    return str(error)
