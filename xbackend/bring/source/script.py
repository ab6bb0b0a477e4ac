"""`to_source`: the script as a whole, its devices and the constants beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np

from xbackend.bring.source.dialect import Dialect
from xbackend.bring.source.layout import Block, Statement, written
from xbackend.bring.source.names import escaped, identifier
from xbackend.devices import Device, DeviceMap, is_device
from xbackend.errors import UsageError
from xbackend.files import whole
from xbackend.program.binding import bind
from xbackend.program.program import Program

# One file each.
FRAMEWORKS = tuple(sorted(path.stem for path in (Path(__file__).parent / "frameworks").glob("[!_]*.py")))
HERE = Device("cpu", 0)


@dataclass(frozen=True)
class Source:
    """A script. It reads constants without elements, or with more than 64, from an ``.npz`` file beside it.

    Attributes:
        text: the script.
        constants: the arrays of that file, by name.
        function: the name of the script's function.
    """

    text: str
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    function: str = ""

    def __str__(self) -> str:
        return self.text

    def write(self, path: str | Path) -> list[Path]:
        """Write the script, and the constants to the same name with ``.npz``: whole or not at all. Returns the paths.
        Raises `OSError`."""
        script = Path(path)
        beside = script.with_suffix(".npz")
        with whole(script) as text:
            text.write_text(self.text, encoding="utf-8")
            if not self.constants:
                return [script]
            with whole(beside) as arrays:
                np.savez(arrays, **dict(self.constants))  # type: ignore[arg-type]
        return [script, beside]


def to_source(program: Program, framework: str) -> Source:
    """The program as a script of one of the `FRAMEWORKS`.

    Raises `UsageError` for another framework. Raises `UnsupportedOperation` for ops without a row in the framework's
    code, all of them in one error, and for gradients in NumPy.

    >>> program = xb.trace(lambda x: xb.sum(x * x), np.ones(3))
    >>> script = xb.to_source(program, "numpy")
    >>> "def " in script.text, sorted(script.constants)
    (True, [])
    """
    if not isinstance(program, Program):
        raise UsageError(f"{program!r:.60} is no program: write xb.to_source(xb.trace(f, *arrays), {framework!r})")
    return written_as(program, framework)


def written_as(program: Program, framework: str, *, loads: bool = True) -> Source:
    """`to_source`. Without ``loads`` the script does not read the file, and the caller has to define ``CONSTANTS``."""
    if framework not in FRAMEWORKS:
        raise UsageError(f"there is no source code of {framework!r}; there is {', '.join(FRAMEWORKS)}")
    kind: type[Dialect] = import_module(f"xbackend.bring.source.frameworks.{framework}").DIALECT
    placed, devices = _placed(program)
    dialect = kind(placed, devices)
    dialect.check()
    lines = _assembled(dialect, _origin(program), dialect.script(), loads)
    return Source("\n".join(lines) + "\n", dict(dialect.constants), dialect.function)


def _placed(program: Program) -> tuple[Program, dict[str, str]]:
    """The bound program, and the names of its devices in the script; no names if the program names no device."""
    asked = [node.device for node in program.nodes if node.device is not None]
    fixed = [Device.parse(name) for name in dict.fromkeys(asked) if is_device(name)]
    free = iter(Device("cpu", i) for i in range(len(asked) + len(fixed) + 1) if Device("cpu", i) not in (HERE, *fixed))
    logical = {name: next(free) for name in program.logical_devices}
    every = list(dict.fromkeys([HERE, *fixed, *logical.values()]))
    placed = bind(program, DeviceMap(logical), every, HERE)
    if not asked:
        return placed.program, {}
    names = {str(device): name.upper() for name, device in logical.items()}
    used = [str(device) for device in every if device in placed.devices]
    return placed.program, {device: identifier(names.get(device, device).upper()) for device in used}


def _origin(program: Program) -> str:
    """The program's origin: the file and line of its first op."""
    for node in program.nodes:
        file, _, line = node.source.rpartition(":")
        if file and node.op not in ("input", "shared"):
            return f"{escaped(Path(file).name)}, line {line}"
    return ""


def _assembled(dialect: Dialect, origin: str, statements: list[Statement | Block], loads: bool) -> list[str]:
    program = dialect.program
    load = Statement('CONSTANTS = dict(np.load(Path(__file__).with_suffix(".npz")))')
    loaded = [load] if loads and dialect.constants else []
    above = written([*loaded, *dialect.preamble(), *dialect.top])
    text = "\n".join([*above, *written(statements)])
    imports = {line for word, line in dialect.imports.items() if re.search(rf"(?<![.\w]){word}[.(]", text)}
    told = f'"""{escaped(program.name)} in {dialect.spoken}, written by xbackend.'
    lines = [told, "", f"From the program {program.fingerprint[:12]}{f' ({origin})' if origin else ''}.", '"""', ""]
    if loaded:
        lines += ["from pathlib import Path", ""]
    lines += sorted({*imports, dialect.head}, key=lambda line: (line.startswith("from"), line))
    lines += ["", *above] if above else []
    for statement in statements:
        lines += [*([] if lines[-1].startswith("@") else ["", ""]), *written([statement])]
    return lines
