"""``[tool.xbackend]`` in pyproject.toml: defaults of the commands' options. The command line wins.

``[tool.xbackend]`` is for every command that has the option, ``[tool.xbackend.compare]`` for one. The file is the
nearest one, from the current folder upwards, that has the table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App, Token

from xbackend.errors import UsageError

FILE = "pyproject.toml"
# Without --rev the gate measures nothing, and refuses what says how.
_OF_RUNS = {"--fail", "--store", "--wide", "--json", "--quiet", "--python", "--accelerator"}
_NO = "--no-"  # before the name of a switch that the file sets
taken: dict[str, str] = {}  # the options of this command line that came from the file, and their words


def applied(
    words: Sequence[str], commands: Sequence[str], options_of: Callable[[str], set[str]]
) -> tuple[list[str], tuple[Callable[..., None]]]:
    """The words of a command line without its ``--no-SWITCH``, and the function that cyclopts calls with the arguments
    of the rest; it raises `UsageError`.

    ``commands`` are the names of all commands, ``options_of`` gives the options of one.
    """
    taken.clear()
    off = {f"--{word.removeprefix(_NO)}" for word in words if word.startswith(_NO)}

    def config(_: App, path: Sequence[str], arguments: Any) -> None:
        if not path or path[0] not in commands:
            return
        command, (file, table) = path[0], _found()
        there = {argument.name: argument for argument in arguments if argument.name.startswith("--")}
        typed = {name for name, argument in there.items() if argument.tokens}
        if unknown := [name for name in off if name not in there or not there[name].is_flag()]:
            raise UsageError(f"Unknown option: {_NO}{unknown[0].removeprefix('--')}: it is for a switch of {command}")
        # `devices` is a command, and an option of others.
        tables = {key: value for key, value in table.items() if key in commands and isinstance(value, dict)}
        general = {key: value for key, value in table.items() if key not in tables}
        for own, where in ((False, general), (True, tables.get(command, {}))):
            place = f"[tool.xbackend{f'.{command}' if own else ''}] in {file}"
            for key, value in where.items():
                option = f"--{key.replace('_', '-')}"
                if option not in there:
                    _refuse(key, place, there if own else set().union(*map(options_of, commands)))
                elif option not in typed | off and _goes(command, there, option, typed):
                    there[option].tokens[:] = tokens = _tokens(there[option], option, value, place)
                    taken[option] = " ".join(token.value for token in tokens)
                    if not tokens:
                        del taken[option]

    return [word for word in words if not word.startswith(_NO)], (config,)


def _found() -> tuple[Path, dict[str, Any]]:
    """The nearest file with the table, and the table; an empty one where there is none. Raises `UsageError`."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / FILE
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from None
        tool = content.get("tool")
        table = tool.get("xbackend") if isinstance(tool, dict) else None
        if table is not None:
            if not isinstance(table, dict):
                raise UsageError(f"[tool.xbackend] in {path} is a table of options, not {table!r}")
            return path, table
    return here, {}


def _goes(command: str, there: Mapping[str, Any], option: str, typed: set[str]) -> bool:
    """Whether an option goes with those that were typed."""
    if command == "gate" and option not in _OF_RUNS and "--rev" not in typed:
        return False
    groups = [group for group in there[option].parameter.group or () if group.validator]
    return not any(group in (there[name].parameter.group or ()) for name in typed for group in groups)


def _tokens(argument: Any, option: str, value: Any, place: str) -> list[Token]:
    """A value as the words that would be typed. Raises `UsageError` with what to write."""
    key = option.removeprefix("--")
    if argument.is_flag():
        if not isinstance(value, bool):
            raise UsageError(f"{place}: {key} = {value!r}: write {key} = true or {key} = false")
        return [Token(keyword=option, source=place, implicit_value=True)] if value else []
    repeats = argument.parameter.allow_repeating is not False
    words = list(_words(value, option in ("--set", "--devices-map")))
    if not words or not all(words):
        metavar = argument.parameter.metavar or "VALUE"
        raise UsageError(
            f"{place}: {key} = {value!r}: write {key} = what follows {option} {metavar}, a text or a number"
        )
    if not repeats:
        words = [",".join(words)]
    return [Token(keyword=option, source=place, value=word, index=i) for i, word in enumerate(words)]


def _words(value: Any, assigns: bool) -> Iterator[str]:
    """The words of a value; an empty word for an item that is no text and no number."""
    if isinstance(value, dict) and assigns:
        for name, each in value.items():
            yield f"{name}={','.join(map(str, each if isinstance(each, list) else [each]))}"
    elif isinstance(value, list):
        yield from ("" if isinstance(each, list | dict | bool) else str(each) for each in value)
    else:
        yield str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _refuse(key: str, place: str, known: set[str] | Mapping[str, Any]) -> None:
    """Raises `UsageError` for a key that no command has."""
    from xbackend.wording import suggested

    names = sorted(name.removeprefix("--") for name in known)
    if key.replace("_", "-") not in names:
        there = suggested(key, names) or f"; there is {', '.join(names)}"
        raise UsageError(f"{place}: there is no option {key}{there}")


def said() -> str:
    """The options that came from the file, in words."""
    return f"{FILE} sets {' '.join(f'{option} {words}'.strip() for option, words in taken.items())}"
