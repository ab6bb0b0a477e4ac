"""Import and configuration of a generation of the Theano lineage, and the choice of its BLAS."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from xbackend.backends import own_cache
from xbackend.backends.lineage import blas, compiled_code
from xbackend.backends.staged.assembly import StagedBackend
from xbackend.errors import BackendUnavailable

_COMPILED = re.compile(r"(^|,)\s*(base_)?compiledir\s*=[^,]*")  # the user's folder in a configuration


def _is_right(record: logging.LogRecord) -> bool:
    """Filter out a warning: the frameworks look for lib<name>.so, but wheels name their library otherwise."""
    return not str(record.msg).startswith("We did not find a dynamic library")


@contextmanager
def _without_mpi() -> Iterator[None]:
    """Hide mpi4py, which Theano and Aesara import (tensor/io.py): MPI's memory stays in /dev/shm when a worker ends."""
    hidden = "mpi4py" not in sys.modules
    if hidden:
        sys.modules["mpi4py"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["mpi4py"]


class Generation(StagedBackend):
    """The part common to all modes: the framework, ``T`` (its tensors) and ``blas``."""

    package: ClassVar[str]
    flags: ClassVar[str]  # the environment variable with the generation's configuration
    modules: ClassVar[Mapping[str, str]] = {}  # module names of the later generations -> names in this one
    separator: ClassVar[str] = "__"  # between the parts of a configuration's name
    machine: ClassVar[str] = "vm"  # the attribute of a compiled function with its innermost callable
    compiles: ClassVar[str] = ""  # the folder of compiled code, if not named by the package

    def module(self, name: str = "") -> ModuleType:
        """A module of the framework, by its name in the later generations."""
        return import_module(".".join(filter(None, (self.package, self.modules.get(name, name)))))

    def import_framework(self) -> None:
        self.packages = (self.package, *self.packages)
        self.limit_threads()
        self.blas = blas.choose()
        self._configure()
        try:
            with _without_mpi():
                self.framework = self.module()
                self.T = self.module("tensor")
        except Exception as error:  # these imports fail in many ways: a missing name, a compiler, a lock
            version = self._version()
            here = f"version {version} is here, and does not work with what else is: take another version, or "
            raise BackendUnavailable(
                f"backend {self.name} needs {self.package}, which cannot be imported: {type(error).__name__}: {error}; "
                f"{here if version else ''}pip install 'xbackend[{self.package}]', or let xbackend make its locked "
                f"environment: xbackend env sync {self.package}"
            ) from error
        if self.cache is not None:
            compiled_code.share_extensions(self.cache.folder, self.compiled_folder())
        self._configure_imported()
        logging.getLogger(f"{self.package}.tensor.blas").addFilter(_is_right)

    def _wanted(self) -> dict[str, str]:
        wanted = {}
        if self.blas is not None:
            wanted[f"blas{self.separator}ldflags"] = self.blas.ldflags
            if self.blas.cxxflags:
                wanted[f"gcc{self.separator}cxxflags"] = self.blas.cxxflags
        return wanted

    def _configure(self) -> None:
        """Set the configuration before the import. The user's own comes after it and wins."""
        if self.package in sys.modules:
            return
        theirs, wanted = os.environ.get(self.flags, ""), self._wanted()
        if self.settings.own_cache:
            theirs = _COMPILED.sub("", theirs)
            self.cache = compiled_code.own_cache(self.compiled_folder(), self._forget)
            wanted["base_compiledir"] = str(self.cache.folder)
        if not _COMPILED.search(theirs):
            wanted.setdefault("base_compiledir", str(self.compiled_folder()))
        own = ",".join(f"{k}={v}" for k, v in wanted.items())
        os.environ[self.flags] = ",".join(filter(None, [own, theirs]))

    def compiled_folder(self) -> Path:
        """The persistent folder of compiled code, one for each version and Numba's settings, shared by processes under
        the framework's lock. Raises `BackendUnavailable`."""
        name = f"{self.compiles or self.package}-{self._version() or 'missing'}"
        if apart := [*filter(None, [self._elsewhere()]), *own_cache.settings().items()]:
            name += f"-{hashlib.sha256(repr(apart).encode()).hexdigest()[:12]}"
        return compiled_code.folder(self.name, name)

    def _elsewhere(self) -> str:
        """The file of a framework that is not the installed distribution's (``--env pytensor=PATH``), else empty."""
        found = importlib.util.find_spec(self.package)
        if found is None or found.origin is None:
            return ""
        installed = importlib.metadata.distribution(self.package).locate_file(f"{self.package}/__init__.py")
        return "" if Path(found.origin).resolve() == Path(str(installed)).resolve() else found.origin

    def _forget(self) -> None:
        """Reload the list of compiled modules from the cache."""
        vars(self.module("link.c.cmodule"))["_module_cache"] = None
        self.module("link.c.basic").get_module_cache()

    def _version(self) -> str:
        return importlib.metadata.version(self.package) if importlib.util.find_spec(self.package) else ""

    def _configure_imported(self) -> None:
        """Configure a framework that the user's script imported before."""
        for full, value in self._wanted().items():
            *groups, name = full.split(".")
            config = functools.reduce(getattr, groups, self.framework.config)
            present = getattr(config, name)
            if name.endswith("cxxflags"):
                if value not in present:
                    setattr(config, name, f"{present} {value}".strip())
            elif not present:
                setattr(config, name, value)
