"""The user's own code: loaded from its file, given its arguments, and called. Its errors show its own lines only."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xbackend import errors, workloads
from xbackend.api.tracing.repeated import noticing_kept, trace_twice
from xbackend.api.tracing.trace import trace
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.backends import registry
from xbackend.bring.kinds import KINDS
from xbackend.bring.origin import Origin
from xbackend.cli import graphs, neighbours
from xbackend.cli.console import say
from xbackend.cli.graphs import GraphChoice
from xbackend.cli.options import Assignments
from xbackend.cluster.job import Job
from xbackend.errors import ArgumentError, UsageError, XBackendError
from xbackend.habits import PACKAGES
from xbackend.measure import candidates, session
from xbackend.measure.candidates import Case, of_file
from xbackend.measure.oracle import Expected, expected
from xbackend.program.host import check_fits, host_array
from xbackend.program.program import Program
from xbackend.program.spelling import size, spelled
from xbackend.results.naming import GRADIENT
from xbackend.training.model import Model
from xbackend.training.workload import step_of
from xbackend.wording import few, join, suggested
from xbackend.workloads.brought import apart, workload_of
from xbackend.workloads.workload import Workload

N = TypeVar("N", Model, Job)
_OURS = (f"{Path(errors.__file__).resolve().parent}{os.sep}", "<frozen importlib")
_HEADER = "Traceback (most recent call last):\n"


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn errors of the user's code in the block into a `UsageError` that ends with the user's lines.

    Errors of xbackend name the user's line already and pass, as does Ctrl-C.
    """
    try:
        yield
    except (XBackendError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, too, and errors that are no Exception
        raise UsageError(f"{what} raised {type(error).__name__}:\n{_lines(error)}{_missing(error)}") from None


def _lines(error: BaseException) -> str:
    """The traceback of an error without xbackend's frames, and without a heading that would look like a crash."""
    lines = traceback.TracebackException.from_exception(error)
    _strip(lines)
    return "".join(line for line in lines.format() if line.strip(" |+") != _HEADER).rstrip()


def _missing(error: BaseException) -> str:
    """What to do about a missing module that the user's code imports; empty for another error."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name is None or "." in name:
        return ""
    if name in KINDS or any(name in entry.packages for entry in registry.entries()):
        brought = f"; a graph of {name} itself is named with --from {name}" if name in KINDS else ""
        return (
            f"\nxbackend imports this file where it is installed itself, and runs {name} in another process: write the "
            f"functions with xb, and import {name} in a file of its own{brought}"
        )
    return (
        f"\n{sys.executable} has no {name}: pip install {PACKAGES.get(name, name)}; a module of your own lies beside "
        "the file that imports it"
    )


def _strip(lines: traceback.TracebackException | None) -> None:
    if lines is None:
        return
    users = [frame for frame in lines.stack if not frame.filename.startswith(_OURS)]
    lines.stack = traceback.StackSummary.from_list(users)
    for other in (lines.__cause__, lines.__context__, *(lines.exceptions or ())):
        _strip(other)


@dataclass(frozen=True)
class Traced:
    """The program of a function or workload, the arrays that it was traced with, and how it was asked for; the
    ``origin`` of a graph."""

    program: Program
    arrays: list[np.ndarray]
    workload: Workload
    parameters: dict[str, Any]
    gradient: bool = False
    origin: Origin | None = None

    def apart(self, right: Expected | str) -> list[str]:
        """A warning where the expected results of a graph are not the framework's own."""
        if self.origin is None or isinstance(right, str):
            return []
        found = apart(self.origin, list(right.expected), self.program)
        return [f"NumPy in float64 is {found}"] if found else []

    def expected(self) -> Expected:
        """The expected results; raises as `oracle.expected` does."""
        with calling(self.workload.name):
            return expected(self.workload, self.program, self.arrays, self.parameters, gradient=self.gradient)


def traced(
    target: str, inputs: Sequence[str] | None, settings: Assignments, seed: int, graph: GraphChoice = graphs.NONE
) -> Traced:
    """The program of the function that ``FILE.py:FUNCTION`` names.

    ``inputs`` are its arguments as they are typed; by default a workload makes its own, and another function gets those
    of the file's ``inputs()``. Raises `UsageError` for anything missing, not understood or failing, and what
    `xbackend.trace` raises.
    """
    if graph.chosen(settings):
        return _brought_traced(graph, target, inputs, seed)
    workload, module = _weighed(target.removesuffix(GRADIENT))
    static, gradient = dict(settings or ()), target.endswith(GRADIENT)
    _derived([workload], gradient)
    if module is None and not inputs:
        with calling(target):
            static = workload.resolve(**static)
            arrays = workload.arrays(seed, **static)
    else:
        arrays = _arrays(target, module, inputs, seed)
    with _asking(target, arrays):
        if module is None:
            program = trace_twice(workload.traced(static, gradient), *arrays)
        else:
            workload.check_numbers(static)
            program = trace_twice(workload.function, *arrays, **static)
    return Traced(program, arrays, workload, static, gradient)


def program(
    target: str, inputs: Sequence[str] | None, settings: Assignments, seed: int, graph: GraphChoice
) -> tuple[Program, list[np.ndarray]]:
    """The program of a function, a workload or a program's JSON file, and its arguments: none for such a file. Raises
    `UsageError`."""
    is_workload, is_file = target in workloads.names(), target.endswith(".json")
    for option, given, refused in (("--input", inputs, is_workload or is_file), ("--set", settings, is_file)):
        if given and refused:
            raise UsageError(f"{option} is for a FILE.py:FUNCTION; {target} has its own")
    if is_workload:
        workload = workloads.get(target)
        parameters = workload.resolve(**{"size": 8, **dict(settings or ())})
        arrays = workload.arrays(seed, **parameters)
        return trace(workload.traced(parameters), *arrays), arrays
    if is_file:
        if not Path(target).is_file():
            raise missing(Path(target))
        return TracedProgram.from_json(Path(target).read_bytes()), []
    made = traced(target, inputs, settings, seed, graph)
    return made.program, made.arrays


def _brought_traced(graph: GraphChoice, target: str, inputs: Sequence[str] | None, seed: int) -> Traced:
    """As `traced`, of a graph that is brought."""
    plain, gradient = target.removesuffix(GRADIENT), target.endswith(GRADIENT)
    origin = graph.brought(plain, inputs, seed=seed)
    workload, arrays = workload_of(origin, graph.named(plain).rpartition(":")[2]), list(origin.inputs)
    _derived([workload], gradient)
    return Traced(trace_twice(workload.traced({}, gradient), *arrays), arrays, workload, {}, gradient, origin)


def cases(
    target: str,
    inputs: Sequence[str] | None,
    asked: Mapping[str, Sequence[Any]],
    *,
    suite: str | None = None,
    quick: bool = False,
    seed: int = 0,
    gradient: bool | None = None,
    folder: Path = Path(),
    graph: GraphChoice = graphs.NONE,
    on_progress: Callable[[str], None] = lambda _: None,
    on_modules: Callable[[Mapping[str, str]], None] = lambda _: None,
) -> list[Case]:
    """The cases of a target: a workload of xbackend, ``FILE.py`` for all workloads of that file, or
    ``FILE.py:FUNCTION`` for one of them or any other function; or in its place all workloads of a ``suite``.

    The value and, where there is one, the gradient are measured; only one where ``gradient`` says which, or the target
    ends with ``+gradient``. ``graph`` says what kind of graph ``FILE.py:NAME`` is; ``on_modules`` gets the files of the
    modules that its process imported, by name. Each combination of the values ``asked`` for is a case. ``inputs`` are
    the arguments as they are typed. A function without any gets those of the file's ``inputs()``. File names are
    relative to ``folder``.

    Raises `UsageError` for anything missing, not understood or failing, and what `session.cases_of` raises.
    """
    if target.endswith(GRADIENT):
        target, gradient = target.removesuffix(GRADIENT), True
    file = "" if suite is not None else graphs.file_of(target, folder)
    if graph.chosen(asked):
        return graph.cases(target, inputs, gradient, folder, seed=seed, on_progress=on_progress, on_modules=on_modules)
    if suite is not None:
        chosen = workloads.of_suite(suite)
    elif ":" not in target and not target.endswith(".py"):
        chosen = [workloads.get(target)]
    elif target.endswith(".py"):
        chosen = _all_of(target)
    else:
        workload, module = _weighed(target)
        chosen = [workload]
        if inputs or module is not None:
            _derived(chosen, gradient)
            static = _single(asked)
            arrays = _arrays(target, module, inputs, seed)
            with _asking(target, arrays):
                derived = candidates.derivatives(workload, gradient)
                return [of_file(candidates.given(workload, arrays, static, gradient=one), file) for one in derived]
    if inputs:
        raise UsageError(f"--input is for a function: {target} makes its own, see --set")
    combinations = {workload: workload.combinations(_own(workload, asked, chosen), quick) for workload in chosen}
    each = [(workload, combinations[workload]) for workload in _derived(chosen, gradient)]
    with noticing_kept(partial(say, error=True)):
        made = session.cases_of(each, seed=seed, gradient=gradient, guard=calling, on_progress=on_progress)
    return [of_file(one, file) for one in made] if file else made


def _all_of(target: str) -> list[Workload]:
    """The workloads of ``FILE.py``, models as steps of their training. Raises `UsageError`."""
    chosen = [_workload(one) for one in _own_of(target, (Workload, Model))]
    twice = [name for name, count in Counter(one.name for one in chosen).items() if count > 1]
    if twice:
        raise UsageError(f"{target} has several workloads called {join(twice)}: give each a name of its own, name=...")
    if not chosen:
        raise UsageError(
            f"{target} has no workload: write @xb.workload above a function (@xb.model above a loss), or name one, "
            f"{target}:FUNCTION"
        )
    return chosen


def case(
    target: str,
    inputs: Sequence[str] | None,
    settings: Assignments,
    *,
    quick: bool = False,
    seed: int = 0,
    graph: GraphChoice = graphs.NONE,
) -> Case:
    """The one case of a target, as `cases`; the value only of a named workload. Raises `UsageError` where there are
    several, with what to write for each."""
    asked = {name: [value] for name, value in settings or ()}
    gradient = None if target.endswith((".py", GRADIENT)) else False
    made = cases(target, inputs, asked, quick=quick, seed=seed, gradient=gradient, graph=graph)
    if len(made) > 1:
        raise UsageError(f"{target} is several, choose one: {'; '.join(_each(target, made))}")
    return made[0]


def _each(target: str, made: Sequence[Case]) -> Iterator[str]:
    """The words to type for each case of a target."""
    of_file = target.endswith(".py")
    several = [name for name in made[0].parameters if len({repr(one.parameters.get(name)) for one in made}) > 1]
    for one in made:
        words = [f"--set {name}={one.parameters[name]}" for name in several if name in one.parameters]
        yield " ".join([f"{target}:{one.workload}" if of_file else target, *words])


def _derived(chosen: Sequence[Workload], gradient: bool | None) -> Sequence[Workload]:
    """The workloads to measure; with ``gradient`` those that have one. Raises `UsageError` where none has."""
    having = [workload for workload in chosen if workload.gradient or not gradient]
    if not having:
        name = chosen[0].name
        raise UsageError(
            f'{name} has no gradient: write @xb.workload(gradient="{next(iter(chosen[0].arguments), "x")}")'
        )
    return having


def _workload(one: Workload | Model) -> Workload:
    """A model's workload is a step of its training."""
    return step_of(one) if isinstance(one, Model) else one


def _weighed(target: str) -> tuple[Workload, Any]:
    """The workload (of a model, that of its step) that ``FILE.py:FUNCTION`` names, and `None`; or one made of a
    function, and the module that gives it arrays."""
    function, module = _load(target)
    if isinstance(function, Workload | Model):
        return _workload(function), None
    return Workload(function, name=target.rpartition(":")[2]), module


def model(target: str) -> Model:
    """The model that ``FILE.py:MODEL`` names, or the only one of ``FILE.py``. Raises `UsageError`."""
    if target.endswith(".py"):
        return _only(target, Model, "model", f"write @xb.model(...) above a loss, and name it, {target}:MODEL")
    found, _ = _load(target)
    if not isinstance(found, Model):
        raise UsageError(f"{target} is no model: write @xb.model(...) above it")
    return found


def job(target: str) -> Job:
    """The job that ``FILE.py:FUNCTION`` names, or one made of a function; or the only one of ``FILE.py``. Raises
    `UsageError`."""
    if target.endswith(".py"):
        return _only(target, Job, "job", f"write @xb.job above a function of a task, or name it, {target}:FUNCTION")
    found, _ = _load(target)
    return found if isinstance(found, Job) else Job(found)


def _only(target: str, kind: type[N], called: str, advice: str) -> N:
    own: list[N] = _own_of(target, kind)
    if len(own) != 1:
        raise UsageError(f"{target} has {join([one.name for one in own]) or f'no {called}'}: {advice}")
    return own[0]


def _own_of(target: str, kind: type | tuple[type, ...]) -> list[Any]:
    return list(dict.fromkeys(one for one in vars(_module(Path(target))).values() if isinstance(one, kind)))


def _own(
    workload: Workload, asked: Mapping[str, Sequence[Any]], chosen: Sequence[Workload]
) -> dict[str, Sequence[Any]]:
    """The values asked for the workload's own parameters, and for those that no workload has."""
    known = {name for one in chosen for name in one.parameters}
    return {name: values for name, values in asked.items() if name in workload.parameters or name not in known}


def _single(asked: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The keyword arguments of a function with arrays from elsewhere. Raises `UsageError` for several values."""
    for name, values in asked.items():
        if len(values) > 1:
            raise UsageError(f"--set {name}: several values are for a workload, which makes its inputs itself")
    return {name: values[0] for name, values in asked.items()}


def _arrays(target: str, module: Any, inputs: Sequence[str] | None, seed: int) -> list[np.ndarray]:
    if not inputs:
        return _own_inputs(module, target)
    if len(inputs) > 1:
        check_fits(sum(size(i, f"--input {i}") for i in inputs), f"all of --input {' and '.join(inputs)}")
    generator = np.random.default_rng(seed)
    return [spelled(i, f"--input {i}", generator) for i in inputs]


@contextmanager
def _asking(target: str, arrays: Sequence[np.ndarray]) -> Iterator[None]:
    """`calling`; where needed arrays are missing, the error says how to give them."""
    try:
        with calling(target), noticing_kept(partial(say, error=True)):
            yield
    except ArgumentError as error:
        if arrays:
            raise
        raise UsageError(f"{error}; give each array with --input: float32[2,3], FILE.npy or a number") from None


def _load(target: str) -> tuple[Callable[..., Any], Any]:
    """The function that ``FILE.py:FUNCTION`` names, and its module. Raises `UsageError`."""
    file, separator, name = target.rpartition(":")
    path = Path(file)
    if not separator or path.suffix != ".py" or not name.isidentifier():
        raise UsageError(f"{target!r} is not FILE.py:FUNCTION{_written(target)}")
    module = _module(path)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        there = ", ".join(sorted(functions)) or "none"
        raise UsageError(f"{path} has no function {name!r}; it has {there}{suggested(name, functions)}")
    return function, module


def _written(target: str) -> str:
    """A suggestion for a target that is none: a file alone, a module's function, a workload."""
    file = Path(target.rstrip(":"))
    if file.suffix == ".py" and file.is_file():
        module = _module(file)
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        return f"; write {file}:{next((name for name in own if name != 'inputs'), 'FUNCTION')}"
    dotted, _, name = target.replace("::", ".").rpartition(".")
    if name.isidentifier() and Path(f"{dotted.removesuffix('.py')}.py").is_file():
        return f"; write {dotted.removesuffix('.py')}.py:{name}"
    if target in workloads.names():
        return f": it is a workload; compare {target} measures it, draw {target} --backend jax runs it once"
    return suggested(target, workloads.names())


def missing(path: Path) -> UsageError:
    """The error for a missing file: where it was looked for, and what lies there."""
    folder = path.parent.resolve()
    there = sorted(file.name for file in folder.glob(f"*{path.suffix}"))
    has = few(there) if there else f"no {path.suffix} file: write the path of yours"
    return UsageError(f"there is no file {path.name} in {folder}, which has {has}{suggested(path.name, there)}")


def _module(path: Path) -> Any:
    """A file of the user's, imported. Raises `UsageError`."""
    if not path.is_file():
        raise missing(path)
    folder = path.parent.resolve()
    name = f"{path.stem}_py" if neighbours.is_taken(path.stem) else path.stem
    spec = importlib.util.spec_from_file_location(name, folder / path.name)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)  # as an import of it would find it, but never in the place of another
    with neighbours.beside(folder), calling(str(path)):
        spec.loader.exec_module(module)
    return module


def _own_inputs(module: Any, target: str) -> list[np.ndarray]:
    make = getattr(module, "inputs", None)
    of_workloads = [one.made_by for one in vars(module).values() if isinstance(one, Workload)]
    if not callable(make) or make in of_workloads:
        return []
    file = target.rpartition(":")[0]
    with calling(f"inputs() of {file}"):
        made = make()
    if not isinstance(made, list | tuple):
        raise UsageError(
            f"inputs() of {file} returns {type(made).__name__}: return a list or tuple with one array for each argument"
        )
    return [host_array(a, f"argument {i} from inputs() of {file}") for i, a in enumerate(made)]
