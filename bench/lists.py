"""`python bench/lists.py` writes the lists of backends in docs/backends.md and pyproject.toml from the registry.

A list is a block between two comments: ``begin`` with its name, and ``end``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from xbackend.backends import registry

COMMAND = "python bench/lists.py"
ROOT = Path(__file__).resolve().parents[1]
FILES = ("docs/backends.md", "pyproject.toml")


def _table() -> str:
    """The table of backends."""
    head = "\n| backend | what it is | environment | in your own interpreter |\n|---|---|---|---|\n"
    rows = [
        f"| `{e.name}` | {e.summary} | `{e.environment}` | {', '.join(f'`{p}`' for p in e.packages)} |\n"
        for e in registry.entries()
    ]
    return "".join((head, *rows, "\n"))


def _options() -> str:
    """The table of the options, which stand in brackets behind a backend's name."""
    of: dict[tuple[str, str], list[str]] = {}
    for entry in registry.entries():
        for option in entry.options:
            for value, means in option.values.items():
                of.setdefault((f"{option.name}={value}", means), []).append(f"`{entry.name}`")
    head = "\n| option | what it means | of |\n|---|---|---|\n"
    rows = [f"| `{option}` | {means} | {', '.join(names)} |\n" for (option, means), names in of.items()]
    return "".join((head, *rows, "\n"))


def _extras() -> str:
    """The packages of each extra: ``pip install 'xbackend[name]'``."""
    environments = registry.ENVIRONMENTS.values()
    rows = [f"{e.name} = {json.dumps(e.extra)}\n" for e in environments]
    together = ",".join(e.name for e in environments if e.together)
    rows += ["# The set that shares one interpreter; it is still one process for each backend.\n"]
    return "".join((*rows, f'all = ["xbackend[{together}]"]\n'))


def _untyped() -> str:
    """The frameworks, which mypy skips."""
    packages = dict.fromkeys(f"{p}.*" for e in registry.entries() for p in e.packages if p != "numpy")
    modules = json.dumps([*packages])
    return f'[[tool.mypy.overrides]]\nmodule = {modules}\nignore_missing_imports = true\nfollow_imports = "skip"\n'


BLOCKS: dict[str, Callable[[], str]] = {"table": _table, "options": _options, "extras": _extras, "untyped": _untyped}


_BLOCK = re.compile(r"(?m)(?P<begin>^(#|<!--) begin (?P<name>\w+), .*\n)[\s\S]*?(?P<end>^(#|<!--) end( -->)?$)")


def blocks(text: str) -> list[str]:
    """The names of the blocks of a file."""
    return [block["name"] for block in _BLOCK.finditer(text)]


def written(text: str) -> str:
    """The text of a file, with its blocks as the registry has them. Raises `KeyError` for a block without a list."""
    return _BLOCK.sub(lambda block: f"{block['begin']}{BLOCKS[block['name']]()}{block['end']}", text)


if __name__ == "__main__":
    for name in FILES:
        (ROOT / name).write_text(written((ROOT / name).read_text()))
