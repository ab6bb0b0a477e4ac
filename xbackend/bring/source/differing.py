"""Scripts that show that a program's result differs: of a framework alone, or of xbackend."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xbackend.bring.source.dialect import literal
from xbackend.bring.source.names import NameScope, escaped, identifier
from xbackend.bring.source.script import Source, to_source
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Program
from xbackend.program.serialization import to_json
from xbackend.program.structure import LEAF

_STANDARD = ("import platform", "from importlib.metadata import version")
_OF_XBACKEND = ("np", "xb", "platform", "version", "PROGRAM", "backend", "compiled", "came", "expected")
INLINE = 64  # elements of the largest argument in the text
_MAIN = '\n\nif __name__ == "__main__":\n'
_DECLARED = re.compile(r"^    (\w+) = (?:rng|np\.asarray\(rng)\.", re.MULTILINE)


@dataclass(frozen=True)
class Differing:
    """A program whose results differ: its arguments, the ``expected`` results, the results that ``came``, the largest
    absolute difference ``allowed`` for each, and the versions by package."""

    program: Program
    arrays: Sequence[np.ndarray]
    expected: Sequence[np.ndarray]
    came: Sequence[np.ndarray]
    allowed: Sequence[float]
    versions: Mapping[str, str]
    backend: str

    @property
    def flat(self) -> Program:
        """The program, with its results in no dictionary or list."""
        count = len(self.program.outputs)
        return replace(self.program, structure=LEAF if count == 1 else {"tuple": [LEAF] * count})


def in_framework(found: Differing, framework: str, changed: tuple[str, str], before: str) -> Source:
    """The script of a framework alone. ``changed``: a text in it and its replacement. ``before``: a statement before
    the call. Both may be empty.

    Raises `UnsupportedOperation` for ops without a row in the framework's code, and for state.
    """
    if found.program.shared or found.program.updates:
        raise UnsupportedOperation("it differs only with its shared variables, which such a script has not")
    source = to_source(found.flat, framework)
    head, _, main = source.text.partition(_MAIN)
    if changed[0]:
        head = head.replace(*changed)
    names = _DECLARED.findall(main)
    call = main[main.rindex("    print(") + len("    print(") :].rstrip()[:-1].strip()
    call = re.sub(r"\s*\n\s*", " ", call)
    docstring, rest = head.split('"""', 2)[1:]
    first = f"{docstring.partition(',')[0]}: not NumPy's result. Written by xbackend."
    text = f'"""{_told(found, first)}"""{rest}'
    more = "" if "\nimport numpy as np\n" in text else "import numpy as np\n"
    text = text.replace('"""\n\n', "\n".join(['"""', "", *_STANDARD, "", more]), 1)
    constants = dict(source.constants)
    body = [
        *([before] if before else []),
        *_given(found, names, constants),
        f"came = {_arrays(call, len(found.expected))}",
    ]
    text += _MAIN + _indented([*body, *_shown(found, [name for name in found.versions if name != "python"], constants)])
    return Source(text, constants, source.function)


def in_xbackend(found: Differing, devices: Mapping[str, str], count: int) -> Source:
    """The script of xbackend: the program as JSON, compiled by the backend with ``count`` virtual devices."""
    program, constants = found.flat, dict[str, np.ndarray]()
    taken = NameScope(_OF_XBACKEND)
    names = [taken.new(program.values[i].params["name"]) for i in program.inputs]
    joined = ", ".join(names)
    told = _told(found, f"{escaped(program.name)} by xbackend: not NumPy's result.")
    reads = _listing(program)
    more = f", virtual_devices={count}" if count > 1 else ""
    bound = f", devices={dict(devices)!r}" if program.logical_devices else ""
    body = [
        *_given(found, names, constants),
        f"with xb.open({found.backend!r}{more}) as backend:",
        f"    compiled = backend.compile(xb.Program.from_json(PROGRAM){bound})",
        f"    came = {_arrays(f'compiled({joined})', len(found.expected))}",
        *_shown(found, ["numpy", "xbackend"], constants),
    ]
    lines = [
        f'"""{told}"""',
        "",
        "import platform",
        "from importlib.metadata import version",
        "",
        "import numpy as np",
        "import xbackend as xb",
        "",
        *reads,
    ]
    text = "\n".join([*lines, f"PROGRAM = r'''{to_json(_anonymous(program))}'''"]) + "\n" + _MAIN + _indented(body)
    return Source(text, constants, program.name)


def _anonymous(program: Program) -> Program:
    """The program with names of files in place of paths, which are private."""
    nodes = []
    for node in program.nodes:
        bodies = {name: _anonymous(body) for name, body in node.bodies.items()}
        nodes.append(replace(node, source=Path(node.source).name, params={**node.params, **bodies}))
    return replace(program, nodes=tuple(nodes), name=identifier(program.name))


def _told(found: Differing, first: str) -> str:
    """The script's docstring: the expected results, the results that came, and the versions."""
    lines = [first, "", "Expected (NumPy in float64):", *_block(found.expected), "Came:", *_block(found.came)]
    said = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    return "\n".join([*lines, "", f"Versions: {said}.", ""])


def _block(arrays: Sequence[np.ndarray]) -> list[str]:
    with np.printoptions(threshold=40, precision=17):
        return [f"    {line}" for array in arrays for line in str(np.asarray(array)).splitlines()]


def _listing(program: Program) -> list[str]:
    """The program as comments in NumPy's words; nothing if NumPy's code lacks an op."""
    try:
        text = to_source(program, "numpy").text.partition(_MAIN)[0]
    except UnsupportedOperation:
        return []
    function = text[text.index("def ") :].rstrip().splitlines()
    return ["# The program, in NumPy's words:", *(f"# {line}".rstrip() for line in function)]


def _given(found: Differing, names: Sequence[str], constants: dict[str, np.ndarray]) -> list[str]:
    """Statements that assign the arguments."""
    return [
        f"{name} = {_array(array, f'argument_{name}', constants)}"
        for name, array in zip(names, found.arrays, strict=True)
    ]


def _array(array: np.ndarray, name: str, constants: dict[str, np.ndarray]) -> str:
    """An array as code; a large one is in the file beside the script."""
    if array.size > INLINE:
        constants[name] = array
        return f'np.load(__file__.removesuffix(".py") + ".npz")["{name}"]'
    if not array.size:
        return f'np.zeros({array.shape}, dtype="{array.dtype.name}")'
    return f'np.array({literal(array)}, dtype="{array.dtype.name}")'


def _shown(found: Differing, packages: Sequence[str], constants: dict[str, np.ndarray]) -> list[str]:
    """Statements that print versions, the expected results and those that came, and raise an error if they differ."""
    several = len(found.expected) > 1
    right = [_array(one, f"expected_{i}", constants) for i, one in enumerate(found.expected)]
    lines = [f"expected = [{', '.join(right)}]" if several else f"expected = {right[0]}"]
    lines.append('print("Python", platform.python_version(), platform.platform())')
    lines += [f'print("{name}", version("{name}"))' for name in packages]
    lines += ['print("expected (NumPy):", expected)', f'print("came ({found.backend}):", came)']
    if several:
        lines.append(f"for one, right, allowed in zip(came, expected, {[*map(float, found.allowed)]!r}):")
        return [*lines, "    np.testing.assert_allclose(one, right, rtol=0, atol=allowed)"]
    return [*lines, f"np.testing.assert_allclose(came, expected, rtol=0, atol={float(found.allowed[0])!r})"]


def _arrays(call: str, count: int) -> str:
    return f"np.asarray({call})" if count == 1 else f"[np.asarray(one) for one in {call}]"


def _indented(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in lines)
