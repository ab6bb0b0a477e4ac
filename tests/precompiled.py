"""A ``g++`` for the tests, with precompiled headers for Theano's, Aesara's and PyTensor's modules.

The frameworks compile a module for every op and dtype, some three thousand in a run of all tests, and half of the time
goes into reading Python's and NumPy's headers. This script passes everything on to the real compiler with the same
options. For a module it adds a header compiled with these options (GCC's manual: Using Precompiled Headers). GCC uses
it only if that makes no difference, and else reads the header itself.

Compiled modules are kept, by the content of the source and all options, in a folder outside of every home
(``XBACKEND_TEST_MODULES``, by default ``/var/tmp/xbackend-modules-<user>``): a run in a fresh home copies the modules
of an earlier one. A module linked to a library of an environment holds that library's path, and is found again in the
same home only.

``XBACKEND_TEST_OPTIMISED=-O1`` takes the place of the frameworks' ``-O3`` for modules.

Only the tests use it, first in their ``PATH``. Benchmarks time the frameworks' own compiling.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

# The modules' first includes, in their order. The second has the framework's name.
HEADER = """#include <Python.h>
#include <iostream>
#if __has_include("theano_mod_helper.h")
#include "theano_mod_helper.h"
#elif __has_include("aesara_mod_helper.h")
#include "aesara_mod_helper.h"
#elif __has_include("pytensor_mod_helper.h")
#include "pytensor_mod_helper.h"
#endif
#include <math.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <algorithm>
#include <vector>
"""
NAME, REAL = "module.h", "compiler"
KEPT, LEVEL = "XBACKEND_TEST_MODULES", "XBACKEND_TEST_OPTIMISED"
MOST = 2 << 30  # bytes of kept modules


def install(folder: Path) -> None:
    """Put a ``g++`` into a folder that passes on to the one in the ``PATH``; nothing if there is none."""
    import shutil

    real = shutil.which("g++")
    if real is None:
        return
    if (Path(real).parent / REAL).exists():
        real = (Path(real).parent / REAL).read_text()  # this g++ is such a script itself
    (folder / REAL).write_text(real)
    script = folder / "g++"
    # -I -S: it starts in a hundredth of a second, and imports nothing from the caller's folder.
    script.write_text(f"#!{sys.executable} -IS\n{Path(__file__).read_text()}")
    script.chmod(0o755)


def kept() -> Path | None:
    """The folder of kept modules; `None` if it is another user's, or others may write to it."""
    folder = Path(os.environ.get(KEPT) or f"/var/tmp/xbackend-modules-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    return folder if found.st_uid == os.getuid() and not found.st_mode & 0o022 else None


def make_room(most: int = MOST) -> None:
    """Delete the modules unused for longest until the rest fits in ``most`` bytes."""
    folder = kept()
    files = sorted(folder.glob("*.so"), key=lambda file: file.stat().st_mtime, reverse=True) if folder else []
    together = 0
    for file in files:
        together += file.stat().st_size
        if together > most:
            file.unlink(missing_ok=True)


def identity(compiler: str, arguments: list[str], source: str) -> str:
    """All that a module depends on, in 64 hexadecimal digits.

    Headers count by the folders named in the arguments: Python's, and those of an environment, whose name changes with
    its content, wherever it lies.
    """
    import re

    binary = os.stat(compiler)
    said = [compiler, str(binary.st_size), str(binary.st_mtime_ns)]
    for argument in options(arguments):
        said.append(re.sub(r"^-I.*/environments/", "-I/environments/", argument))
    said += [
        argument for argument in arguments if argument not in options(arguments) and argument[:2] in ("-l", "-L", "-W")
    ]
    with open("/proc/cpuinfo") as file:
        said += sorted({line for line in file if line.startswith("flags")})  # of -march=native
    with open(source, "rb") as code:
        return hashlib.sha256("\0".join(said).encode() + b"\0" + code.read()).hexdigest()


def module(compiler: str, folder: Path, arguments: list[str]) -> int:
    """Compile a module, or copy a kept one. Returns the exit code."""
    import shutil
    import subprocess

    source = next(argument for argument in arguments if os.path.basename(argument) == "mod.cpp")
    output = arguments[arguments.index("-o") + 1] if "-o" in arguments[:-1] else ""
    place = kept() if output else None
    known = place / f"{identity(compiler, arguments, source)}.so" if place else None
    if known is not None and known.exists():
        shutil.copyfile(known, output)
        os.utime(known)
        return 0
    found = header(compiler, folder, arguments)
    command = [compiler, *(["-include", str(found)] if found else []), *arguments]
    status = subprocess.run(command, check=False).returncode
    if known is not None and not status:
        fresh = known.with_suffix(f".{os.getpid()}")
        shutil.copyfile(output, fresh)
        os.replace(fresh, known)
    return status


def options(arguments: list[str]) -> list[str]:
    """The options that a precompiled header depends on: all but sources, output and linker options."""
    kept, previous = [], ""
    for argument in arguments:
        linked = argument == "-shared" or argument.startswith(("-l", "-L", "-Wl,"))
        if not linked and not argument.endswith(".cpp") and "-o" not in (argument, previous):
            kept.append(argument)
        previous = argument
    return kept


def header(compiler: str, folder: Path, arguments: list[str]) -> Path | None:
    """The header for these arguments, compiled at its second use; `None` before, and if it cannot be compiled."""
    wanted = options(arguments)
    own = folder / hashlib.sha256("\0".join(wanted).encode()).hexdigest()[:16]
    try:
        own.mkdir()
        return None  # most options are used again, and compiling the header takes as long as two modules
    except FileExistsError:
        pass
    import subprocess
    import tempfile

    found, failed = own / NAME, own / "failed"
    if failed.exists():
        return None
    if not found.exists():
        with tempfile.TemporaryDirectory(dir=own) as made:
            source = Path(made) / NAME
            source.write_text(HEADER)
            command = [compiler, *wanted, "-x", "c++-header", str(source), "-o", f"{source}.gch"]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                failed.touch()
                return None
            os.replace(f"{source}.gch", f"{found}.gch")  # before the header, which announces it
            os.replace(source, found)
    return found


def main(folder: Path, arguments: list[str]) -> None:
    """Become the compiler."""
    compiler = (folder / REAL).read_text()
    if any(os.path.basename(argument) == "mod.cpp" for argument in arguments):
        level = os.environ.get(LEVEL, "-O3")
        sys.exit(module(compiler, folder, [level if argument == "-O3" else argument for argument in arguments]))
    os.execv(compiler, [compiler, *arguments])


if __name__ == "__main__":
    main(Path(__file__).resolve().parent, sys.argv[1:])
