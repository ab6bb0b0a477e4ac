"""A workload: a function to measure, what makes its inputs, and what is said of its results.

@xb.workload(sweep={"n": [1_000, 100_000]}, gradient="theta")
def logp(theta, x, *, n):
    return xb.sum((x @ theta) ** 2) / n

@logp.inputs
def inputs(rng, *, n):
    return rng.normal(size=3), rng.normal(size=(n, 3))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, TypeVar, overload

import numpy as np

from xbackend.api.tracing.gradient import grad
from xbackend.errors import WorkloadError
from xbackend.habits import keywords
from xbackend.program.host import check_fits, host_array
from xbackend.program.structure import flatten

Made = TypeVar("Made", bound=Callable[..., Any])
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NO_ARRAY = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_REQUIRED = inspect.Parameter.empty


class Workload:
    """One thing to compare; made by `workload`, above its function.

    The parameters are the arguments of the function that are keyword-only or have a default, and those of what makes
    the inputs, but for its first; whatever is registered gets the ones that it names.

    Attributes:
        name, summary: of the function, its name and the first line of its docstring.
        function: takes the arrays, in the order of the inputs, and parameters by keyword.
        sweep: the values of a parameter that are measured where nobody says which, and in which order parameters stand.
        quick: those that are instead measured by ``--quick``.
        gradient: the arguments (their names) with respect to which the gradient of the result is measured too.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        sweep: Mapping[str, Any] | None = None,
        quick: Mapping[str, Any] | None = None,
        gradient: str | Iterable[str] = (),
        tolerance: float | Callable[..., float] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or str(getattr(function, "__name__", ""))
        if not self.name.isidentifier():
            raise WorkloadError(f"a workload has the name of its function; {function!r:.60} has none: give it name=")
        self.function = function
        self.summary = (inspect.getdoc(function) or "").partition("\n")[0]
        self.sweep = _listed(self.name, sweep or {})
        self.quick = _listed(self.name, quick or {})
        self.gradient = (gradient,) if isinstance(gradient, str) else tuple(gradient)
        self._inputs: Callable[..., Any] | None = None
        self._oracle: Callable[..., Any] | None = None
        self._check: Callable[..., None] | None = None
        self._tolerance = tolerance
        self.__doc__ = inspect.getdoc(function)
        unknown = [argument for argument in self.gradient if argument not in self.arguments]
        if unknown:
            raise WorkloadError(
                f"workload {self.name}: gradient={', '.join(unknown)!r} names no array of {self.name}, which takes "
                f"{', '.join(self.arguments) or 'none'}"
            )

    def __call__(self, *arrays: Any, **parameters: Any) -> Any:
        """The function itself."""
        return self.function(*arrays, **parameters)

    def __repr__(self) -> str:
        return f"<workload {self.name}>"

    # What is registered with it, each as a decorator.

    def inputs(self, make: Made) -> Made:
        """``make(rng, **parameters)`` returns the arrays of a call, drawn from ``rng``, a `numpy.random.Generator`."""
        self._inputs = make
        return make

    def oracle(self, compute: Made) -> Made:
        """``compute(*arrays, **parameters)`` returns what the function does, in float64, without a framework; without
        one the function itself is computed on NumPy in float64."""
        self._oracle = compute
        return compute

    def tolerance(self, of: Made) -> Made:
        """``of(**parameters)`` is the largest relative error that passes; see `measure.oracle` for that without one."""
        self._tolerance = of
        return of

    def check(self, refuse: Made) -> Made:
        """``refuse(**parameters)`` raises `WorkloadError` for values that the parameters cannot have."""
        self._check = refuse
        return refuse

    # What is asked of it.

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arrays that the function takes: what has no default and is not keyword-only."""
        return tuple(p.name for p in _signature(self.function) if _is_array(p))

    @property
    def parameters(self) -> dict[str, Any]:
        """The defaults by name; `inspect.Parameter.empty` of a parameter without one."""
        found: dict[str, Any] = {}
        for call, first in ((self.function, len(self.arguments)), (self._inputs, 1)):
            for p in list(_signature(call))[first:] if call is not None else ():
                if p.kind in _BY_NAME and found.get(p.name, _REQUIRED) is _REQUIRED:
                    found[p.name] = p.default
        return {name: values[0] for name, values in self.sweep.items() if name in found} | {
            name: default for name, default in found.items() if name not in self.sweep
        }

    @property
    def known(self) -> dict[str, Any]:
        """The defaults by name, of the parameters that have one."""
        return {name: value for name, value in self.parameters.items() if value is not _REQUIRED}

    @property
    def made_by(self) -> Callable[..., Any] | None:
        """What was registered as `inputs`."""
        return self._inputs

    def resolve(self, **given: Any) -> dict[str, Any]:
        """The parameters with the defaults filled in.

        Raises `WorkloadError` for one that it does not take, that is missing or has a value that it cannot have.
        """
        known = self.parameters
        unknown = sorted({*given, *self.sweep} - set(known))
        if unknown:
            raise WorkloadError(
                f"workload {self.name} has no parameter {', '.join(unknown)}; it takes {', '.join(known) or 'none'}"
            )
        resolved = {**known, **given}
        missing = [name for name, value in resolved.items() if value is _REQUIRED]
        if missing:
            raise WorkloadError(
                f"workload {self.name}: {', '.join(missing)} has no value; write --set {missing[0]}=..., a default, or "
                f"@xb.workload(sweep={{{missing[0]!r}: [...]}})"
            )
        if self._check is not None:
            self._check(**taken(self._check, resolved))
        self.check_numbers(given)
        return resolved

    def check_numbers(self, given: Mapping[str, Any]) -> None:
        """Raises `WorkloadError` for text as the value of a parameter whose known values are numbers."""
        for name, value in given.items():
            default = (self.known[name],) if name in self.known else ()
            values = [*self.sweep.get(name, ()), *self.quick.get(name, ()), *default]
            if isinstance(value, str) and values and all(isinstance(v, int | float) for v in values):
                raise WorkloadError(f"{self.name}: {name}={value!r:.40} is no number, as {name}={values[0]} is")

    def combinations(self, asked: Mapping[str, Sequence[Any]], quick: bool = False) -> Iterator[dict[str, Any]]:
        """Every combination of the values asked for, and of the sweep where nothing is; other defaults are left out."""
        lists = {**self.sweep, **(self.quick if quick else {}), **asked}
        for values in product(*lists.values()):
            yield dict(zip(lists, values, strict=True))

    def arrays(self, seed: int, **parameters: Any) -> list[np.ndarray]:
        """The inputs of a call with resolved parameters, the same for a seed.

        Raises `WorkloadError` where there is nothing that makes them, it returns something else, or other arrays when
        it is asked again.
        """
        make = self._inputs
        if make is None:
            raise WorkloadError(
                f"workload {self.name} has no inputs: write @{self.name}.inputs above a function of rng that returns "
                "them, or give each with --input"
            )
        once, again = (make(np.random.default_rng(seed), **taken(make, parameters)) for _ in range(2))
        arrays, others = (self._as_arrays(made) for made in (once, again))
        same = len(arrays) == len(others) and all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in zip(arrays, others, strict=True)
        )
        if not same:
            raise WorkloadError(
                f"the inputs of workload {self.name} are others when they are made again: draw them from rng alone"
            )
        return arrays

    def _as_arrays(self, made: Any) -> list[np.ndarray]:
        if not isinstance(made, tuple | list):
            made = (made,)
        return [host_array(array, f"input {i} of workload {self.name}") for i, array in enumerate(made)]

    def traced(self, parameters: Mapping[str, Any], gradient: bool = False) -> Callable[..., Any]:
        """The function of the arrays alone, for `xbackend.trace`, with its parameters.

        With ``gradient`` it returns its value and a tuple of the gradients of that.
        """
        value = partial(self.function, **taken(self.function, parameters))
        if not gradient:
            return _named(value, self.function, self.name)
        wrt = [self.arguments.index(argument) for argument in self.gradient]

        def value_and_gradient(*arrays: Any) -> Any:
            loss = value(*arrays)
            return loss, grad(loss, tuple(arrays[i] for i in wrt))

        return _named(value_and_gradient, self.function, self.name)

    def expected(self, arrays: Sequence[np.ndarray], **parameters: Any) -> list[np.ndarray] | None:
        """What its own oracle says that the result is, as a flat list; `None` without one."""
        if self._oracle is None:
            return None
        return flatten(self._oracle(*arrays, **taken(self._oracle, parameters)), np.asarray)[0]

    def passes(self, **parameters: Any) -> float | None:
        """The largest relative error that it says passes; `None` where it says none. Raises `WorkloadError`."""
        said = self._tolerance
        value = said(**taken(said, parameters)) if callable(said) else said
        if value is None:
            return None
        if not (isinstance(value, int | float | np.floating) and 0 <= value < float("inf")):
            raise WorkloadError(f"workload {self.name}: its tolerance is {value!r:.40}, which is no number from 0 up")
        return float(value)


@overload
def workload(function: Callable[..., Any], /) -> Workload: ...


@overload
def workload(
    *,
    sweep: Mapping[str, Any] | None = None,
    quick: Mapping[str, Any] | None = None,
    gradient: str | Iterable[str] = (),
    tolerance: float | Callable[..., float] | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Workload]: ...


@keywords
def workload(
    function: Callable[..., Any] | None = None,
    /,
    *,
    sweep: Mapping[str, Any] | None = None,
    quick: Mapping[str, Any] | None = None,
    gradient: str | Iterable[str] = (),
    tolerance: float | Callable[..., float] | None = None,
    name: str | None = None,
) -> Any:
    """Make a `Workload` of the function below, alone or with what its arguments say.

    Args:
        sweep: values of parameters, a list of each or one: every combination is measured.
        quick: those instead for ``--quick``.
        gradient: the arguments, by name, with respect to which the gradient is measured too, as a row of its own.
        tolerance: the largest relative error that passes.
        name: what it is called; the function's name if left out.
    """
    if function is not None:
        return Workload(function)
    return partial(Workload, sweep=sweep, quick=quick, gradient=gradient, tolerance=tolerance, name=name)


def _listed(workload: str, sweep: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The values of each parameter, each once; one alone stands for a list of it."""
    lists = {
        name: (values,) if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
        for name, values in sweep.items()
    }
    for name, values in lists.items():
        if not values:
            raise WorkloadError(f"workload {workload}: its sweep has no value of {name}")
    plain = {name: [*map(_plain, values)] for name, values in lists.items()}
    return {name: tuple({repr(value): value for value in values}.values()) for name, values in plain.items()}


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python's: what is neither would decide the dtype of what it is multiplied with."""
    return value.item() if isinstance(value, np.generic) else value


def _signature(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(function).parameters.values()


def taken(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the parameters that a function names, or all if it takes any."""
    own = list(_signature(function))
    if any(p.kind is p.VAR_KEYWORD for p in own):
        return dict(parameters)
    names = {p.name for p in own if p.kind in _BY_NAME}
    return {name: value for name, value in parameters.items() if name in names}


def _is_array(p: inspect.Parameter) -> bool:
    return p.kind not in _NO_ARRAY and p.default is _REQUIRED


def _named(call: Callable[..., Any], of: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A partial call with a name, and with the signature that is left of it."""

    def function(*arrays: Any) -> Any:
        return call(*arrays)

    function.__name__ = name
    function.__dict__["__signature__"] = inspect.Signature([p for p in _signature(of) if _is_array(p)])
    return function


def check_whole(workload: str, name: str, value: Any, least: int, most: int) -> None:
    """A parameter is a whole number within bounds. Raises `WorkloadError`."""
    if type(value) is not int or not least <= value <= most:
        raise WorkloadError(f"workload {workload}: {name}={value!r:.40} is no whole number from {least} to {most}")


def check_choice(workload: str, name: str, value: Any, choices: Sequence[str]) -> None:
    """A parameter is one of a few words. Raises `WorkloadError`."""
    if value not in choices:
        raise WorkloadError(f"workload {workload}: {name}={value!r:.40} is none of {', '.join(choices)}")


FLOATING = ("float32", "float64")


def check_drawn(workload: str, size: Any, dtype: Any, numbers: Callable[[int], int]) -> None:
    """``size`` is a whole number from 1 up, ``dtype`` one of `FLOATING`, and ``numbers(size)`` numbers, drawn as
    float64, fit into the memory. Raises `WorkloadError`, `ArgumentError`."""
    check_whole(workload, "size", size, 1, 10**9)
    check_choice(workload, "dtype", dtype, FLOATING)
    check_fits(8 * numbers(size), f"workload {workload} with size={size}")
