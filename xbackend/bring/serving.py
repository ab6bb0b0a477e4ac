"""The importer's process, in an interpreter that has the framework: it loads the user's file and imports a name.

`xbackend.workers.bringing` starts it with a request as JSON. It writes the program, arrays and facts, or an error, to a
folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring import kinds
from xbackend.bring.kinds import KINDS
from xbackend.bring.origin import Origin
from xbackend.errors import UsageError, XBackendError
from xbackend.program.spelling import spelled

SAID, PROGRAM, ARRAYS = "said.json", "program.json", "arrays.npz"


def main(asked: str) -> None:
    """Import the requested graph, and write the result or the error to the folder."""
    told = json.loads(asked)
    folder = Path(told["folder"])
    try:
        origin = _origin(told)
    except XBackendError as error:
        said: dict[str, Any] = {"error": str(error)}
    except SystemExit:
        said = {"error": f'{told["file"]} exits when it is imported: put that below if __name__ == "__main__":'}
    except Exception as error:  # the user's code
        remedies = KINDS[told["kind"]].remedies.items()
        lines = [_lines(error, told["file"]), *(remedy for words, remedy in remedies if words in str(error))]
        said = {"error": "\n".join([f"{told['file']} raised {type(error).__name__}:", *lines])}
    else:
        said = {"gradient": list(origin.gradient), "facts": origin.facts, "modules": _modules(), "drawn": origin.drawn}
        (folder / PROGRAM).write_text(origin.program.to_json())
        named = ("inputs", "results", "slopes")
        arrays: dict[str, Any] = {f"{n}{k}": value for n in named for k, value in enumerate(getattr(origin, n))}
        np.savez(folder / ARRAYS, **arrays)
    (folder / SAID).write_text(json.dumps(said))


def _origin(told: dict[str, Any]) -> Origin:
    kind = KINDS[told["kind"]]
    if kind.prepared:
        import_module(f"xbackend.bring.{kind.prepared}").prepare()
    found: Any = Path(told["file"])
    module = None if told["stored"] else _loaded(found, told["folders"])
    if module is not None:
        found = getattr(module, told["name"], None)
    if found is None:
        there = sorted(name for name in vars(module) if not name.startswith("_"))
        raise UsageError(f"{told['file']} has no {told['name']}; it has {', '.join(there)}")
    generator = np.random.default_rng(told["seed"])
    given: Any = [spelled(text, f"--input {text}", generator) for text in told["inputs"] or ()]
    if not given and callable(own := getattr(module, "inputs", None)):
        given = own()
    bring = import_module(f"xbackend.bring.{kind.module}").brought
    before = generator.bit_generator.state
    origin: Origin = bring(found, given, told["name"], generator, **told["options"])
    return replace(origin, drawn=generator.bit_generator.state != before)


def _loaded(path: Path, folders: Sequence[str]) -> Any:
    sys.path[:0] = [str(path.parent), *folders]
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _modules() -> dict[str, str]:
    """By name, the files of the imported modules that are not of Python, the environment or xbackend."""
    paths = sysconfig.get_paths()
    others = [*map(paths.__getitem__, ("stdlib", "purelib", "platlib")), str(Path(kinds.__file__).parents[1])]
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return {name: file for name, file in files.items() if file and not file.startswith(tuple(f"{p}/" for p in others))}


def _lines(error: BaseException, file: str) -> str:
    """The traceback from the user's file on."""
    lines = traceback.TracebackException.from_exception(error)
    kept = [k for k, frame in enumerate(lines.stack) if os.path.realpath(frame.filename) == os.path.realpath(file)]
    if kept:
        lines.stack = traceback.StackSummary.from_list(lines.stack[kept[0] :])
    return "".join(lines.format()).rstrip()
