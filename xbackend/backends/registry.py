"""The one list of backends, for tests, documents, commands and reports. Nothing is imported before it is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xbackend.backends import system
from xbackend.backends.system import SystemPackage
from xbackend.errors import UnknownBackend
from xbackend.wording import suggested

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Settings


@dataclass(frozen=True, slots=True)
class Packaging:
    """The installation of a framework: in its own environment, or beside xbackend as an extra. ``newest_python``: the
    newest (major, minor) for which every locked package has a wheel. ``extra``: the packages of ``pip install
    'xbackend[name]'``. ``sources``: packages without a wheel. ``together``: whether it can share an interpreter with
    others that are ``together``."""

    name: str
    newest_python: tuple[int, int]
    extra: tuple[str, ...]
    sources: tuple[str, ...] = ()
    together: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """A user's choice in a framework: a value other than the default makes a separate backend,
    ``pytensor-jax[rewrites=merge]``. ``values``: the framework's names of these values, with their meaning."""

    name: str
    values: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Script:
    """How a script of the framework alone computes as the backend does: the ``framework`` of `xbackend.bring.source`,
    the text that is ``written`` otherwise (a text, its replacement), and a statement ``before`` the call."""

    framework: str
    written: tuple[str, str] = ("", "")
    before: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered backend, or one with options. ``adapter`` is ``module:class``, ``environment`` the framework's,
    ``packages`` the modules that it needs in the current interpreter. ``exclusive``: it needs an interpreter for
    itself, as its framework fixes devices and threads when it starts, or cannot be loaded beside others. ``engines``:
    names in `xbackend.engines.registry` that join several processes of it, the default first. ``system``: the system
    packages that it needs. ``options``: the available ones, ``chosen``: the values in this name. ``pymc``: PyTensor's
    mode for the same, as PyMC's users name it. ``script``: how a script computes the same. ``accelerated``: it computes
    on GPUs where there are some."""

    name: str
    adapter: str
    environment: str
    packages: tuple[str, ...]
    summary: str
    exclusive: bool = True
    engines: tuple[str, ...] = ("mpi",)
    system: tuple[SystemPackage, ...] = ()
    options: tuple[Option, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict, hash=False)
    pymc: str = ""
    script: Script | None = None
    accelerated: bool = False

    @property
    def alone(self) -> Script | None:
        """How a script of the framework alone computes the same; `None` where none is written, or options change it."""
        if self.chosen:
            return None
        mode = f'pytensor.config.mode = "{self.pymc}"'
        return self.script or (Script("pytensor", before=mode) if self.pymc else None)

    @property
    def with_option(self) -> list[str]:
        """The names of this backend with one option, for each value."""
        return [f"{self.name}[{option.name}={value}]" for option in self.options for value in option.values]

    def load(self, settings: Settings | None = None) -> Backend:
        """Start the backend in this interpreter. Raises the errors of `Backend.start`."""
        module, _, name = self.adapter.partition(":")
        return getattr(import_module(module), name)(self.name, self.settings(settings))  # type: ignore[no-any-return]

    def settings(self, given: Settings | None = None) -> Settings:
        """The settings to start the backend with: the given ones, and the options in its name."""
        from xbackend.backends.contract import Settings

        return replace(given or Settings(), options=dict(self.chosen))


_BRACKETS = re.compile(r"\[([^\[\]]+)\]")


def _entry(name: str, adapter: str, environment: str, packages: str, summary: str, **more: Any) -> Entry:
    return Entry(name, f"xbackend.backends.{adapter}", environment, tuple(packages.split()), summary, **more)


def _tensorflow(name: str, adapter: str, summary: str, *engines: str, compiled: str = "@tf.function\n") -> Entry:
    joined = ("tensorflow", "multi-worker-mirrored", *engines)
    script = Script("tensorflow", ("@tf.function\n", compiled))
    return _entry(
        *(name, f"tensorflow.{adapter}", "tensorflow", "tensorflow", summary),
        engines=joined,
        script=script,
        accelerated=True,
    )


def _lineage(name: str, adapter: str, *rest: str, **more: Any) -> Entry:
    return _entry(name, f"lineage.{adapter}", *rest, options=(_REWRITES,), **more)


_C = system.C_LINKER
_REWRITES = Option(
    "rewrites",
    {
        "fast_compile": "few of the framework's rewrites, for short compilation",
        "merge": "equal parts of the graph become one, and nothing else is rewritten",
        "None": "the graph is compiled as it was written",
    },
)
_AESARA = "aesara==2.9.4 numba==0.58.1 jax==0.7.1 jaxlib==0.7.1 numpy<2 scipy<1.13 setuptools<74"
_THEANO = "theano==1.0.5 numpy==1.23.5 scipy<1.10 setuptools==65.7.0 mako>=1.2"

_MLX = "mlx[cpu]>=0.32; sys_platform == 'linux'"

_ENVIRONMENTS = (
    Packaging("numpy", (3, 14), ("autograd>=1.8", "scipy>=1.9.3"), together=True),
    Packaging("tensorflow", (3, 13), ("tensorflow>=2.21",), together=True),
    Packaging("jax", (3, 14), ("jax>=0.10",), together=True),
    Packaging("pytensor", (3, 14), ("pytensor>=3.0.7", "jax>=0.10", "numba>=0.65", _MLX), together=True),
    Packaging("pymc", (3, 14), ("pymc>=6.3",)),
    Packaging("onnx", (3, 14), ("onnx>=1.21",)),
    Packaging("aesara", (3, 11), tuple(_AESARA.split())),
    Packaging("theano", (3, 11), tuple(_THEANO.split()), sources=("theano",)),
)

_ENTRIES = (
    _entry(
        *("numpy", "numpy.adapter:NumPyBackend", "numpy", "numpy autograd", "the oracle, with pretend devices"),
        exclusive=False,
        script=Script("numpy"),
    ),
    _tensorflow("tensorflow", "adapter:TensorFlowGraph", "graphs of tf.function", "coordinator"),
    _tensorflow(
        *("tensorflow-xla", "adapter:TensorFlowXLA", "tf.function compiled by XLA"),
        compiled="@tf.function(jit_compile=True)\n",
    ),
    _tensorflow("tensorflow-eager", "eager:TensorFlowEager", "op by op", compiled=""),
    _entry(
        *("jax", "jax.adapter:JAXBackend", "jax", "jax", "JAX itself: a jitted function for each device's part"),
        engines=("jax",),
        script=Script("jax"),
        accelerated=True,
    ),
    _lineage(
        "pytensor", "pytensor:PyTensorNumba", "pytensor", "pytensor numba", "Numba, PyTensor's default", pymc="NUMBA"
    ),
    _lineage("pytensor-c", "pytensor:PyTensorC", "pytensor", "pytensor", "the C linker", system=_C, pymc="CVM"),
    _lineage(
        *("pytensor-jax", "pytensor:PyTensorJAX", "pytensor", "pytensor jax", "compiled by JAX"),
        engines=("jax",),
        pymc="JAX",
        accelerated=True,
    ),
    _lineage("aesara", "aesara:AesaraC", "aesara", "aesara", "the C linker, Aesara's default", system=_C),
    _lineage("aesara-numba", "aesara:AesaraNumba", "aesara", "aesara numba", "Numba"),
    _lineage("aesara-jax", "aesara:AesaraJAX", "aesara", "aesara jax", "compiled by JAX", engines=("jax",)),
    _lineage("theano", "theano:TheanoC", "theano", "theano", "the original of 2020, the C linker", system=_C),
    _entry(
        *("theano-gpuarray", "gpuarray.adapter:TheanoGpuArray", "theano", "theano pygpu"),
        "the original's contexts: CUDA, or OpenCL through PoCL",
        system=system.GPUARRAY,
        accelerated=True,
    ),
    _lineage(
        *("pytensor-mlx", "pytensor:PyTensorMLX", "pytensor", "pytensor mlx", "PyTensor compiled by MLX"),
        system=(system.COMPILER,),
        pymc="MLX",
    ),
)
ENVIRONMENTS: dict[str, Packaging] = {packaging.name: packaging for packaging in _ENVIRONMENTS}
REGISTRY: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def names() -> tuple[str, ...]:
    """The names of all backends, in their order.

    >>> xb.backend_names()[0], "jax" in xb.backend_names()
    ('numpy', True)
    """
    return tuple(REGISTRY)


backend_names = names  # its public name, xbackend.backend_names


def base(name: str) -> str:
    """The name of a backend without its options."""
    return name.partition("[")[0]


def get(name: str) -> Entry:
    """The entry of a backend, perhaps with options: ``pytensor-jax[rewrites=merge]``. Raises `UnknownBackend`, with the
    existing ones."""
    entry = REGISTRY.get(base(name)) if isinstance(name, str) else None
    if entry is None:
        alike = suggested(str(name), REGISTRY)
        raise UnknownBackend(f"there is no backend {name!r}; there is {', '.join(REGISTRY)}{alike}")
    if name == entry.name:
        return entry
    written = _BRACKETS.fullmatch(name.removeprefix(entry.name))
    pairs = sorted(part.partition("=")[::2] for part in written[1].split(",")) if written else []
    chosen, there = dict(pairs), {option.name: option.values for option in entry.options}
    if not chosen or len(chosen) != len(pairs) or any(value not in there.get(o, ()) for o, value in pairs):
        raise UnknownBackend(f"there is no backend {name!r}; there is {', '.join([entry.name, *entry.with_option])}")
    return replace(entry, name=f"{entry.name}[{','.join(map('='.join, pairs))}]", chosen=chosen)


def entries() -> Iterator[Entry]:
    """All entries, in their order."""
    return iter(REGISTRY.values())
