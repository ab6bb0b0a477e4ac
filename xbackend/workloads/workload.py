"""A workload: a function to measure, its inputs, and the check of its results.

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
from operator import ne
from typing import Any, TypeVar, overload

import numpy as np

from xbackend.api.tracing.gradient import grad
from xbackend.errors import WorkloadError
from xbackend.habits import keywords
from xbackend.program.host import check_fits, check_whole, host_array
from xbackend.program.structure import flatten

Made = TypeVar("Made", bound=Callable[..., Any])
_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NO_ARRAY = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_REQUIRED = inspect.Parameter.empty


class Workload:
    """One function to compare, made by `workload` above it.

    The parameters are the arguments of the function that are keyword-only or have a default, and all arguments but the
    first of the function that makes the inputs. Each registered function gets the parameters that it names.

    Attributes:
        name, summary: the function's name and the first line of its docstring.
        function: takes the arrays, in the order of the inputs, and parameters by keyword.
        sweep: the default values of each parameter to measure, and the order of the parameters.
        quick: the values for ``--quick``.
        gradient: the names of arguments with respect to which the gradient is measured too.
        made_by: the function registered as `inputs`, if any.

    >>> @xb.workload(sweep={"n": [10, 100]}, quick={"n": 10})
    ... def norm(x, *, n):
    ...     return xb.sqrt(xb.sum(x * x) / n)
    >>> @norm.inputs
    ... def inputs(rng, *, n):
    ...     return [rng.normal(size=n)]
    >>> @norm.oracle
    ... def oracle(x, *, n):
    ...     return np.sqrt(np.mean(x * x))
    >>> @norm.tolerance
    ... def tolerance(*, n):
    ...     return 1e-7 * n
    >>> @norm.check
    ... def check(*, n):
    ...     if n < 1:
    ...         raise xb.errors.WorkloadError("n is 1 or more")
    >>> norm.arguments, list(norm.combinations({})), norm.resolve(n=10), norm.passes(n=10)
    (('x',), [{'n': 10}, {'n': 100}], {'n': 10}, 1e-06)
    >>> list(norm.parameters), norm.known, norm.check_numbers({"n": 10})
    (['n'], {'n': 10}, None)
    >>> arrays = norm.arrays(seed=0, n=10)
    >>> backend.compile(norm.traced({"n": 10}), *arrays)(*arrays).shape, len(norm.expected(arrays, n=10))
    ((), 1)
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
        self.made_by: Callable[..., Any] | None = None
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

    # Decorators that register a function.

    def inputs(self, make: Made) -> Made:
        """``make(rng, **parameters)`` returns a call's arrays, drawn from ``rng``, a `numpy.random.Generator`."""
        self.made_by = make
        return make

    def oracle(self, compute: Made) -> Made:
        """``compute(*arrays, **parameters)`` returns the expected result in float64, without a framework. By default
        the function itself is computed by NumPy in float64."""
        self._oracle = compute
        return compute

    def tolerance(self, of: Made) -> Made:
        """``of(**parameters)`` is the largest relative error that passes. For the default see `measure.oracle`."""
        self._tolerance = of
        return of

    def check(self, refuse: Made) -> Made:
        """``refuse(**parameters)`` raises `WorkloadError` for invalid values of parameters."""
        self._check = refuse
        return refuse

    # Queries.

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arrays: its arguments without a default that are not keyword-only."""
        return tuple(p.name for p in _signature(self.function) if _is_array(p))

    @property
    def parameters(self) -> dict[str, Any]:
        """The defaults by name; `inspect.Parameter.empty` if there is none."""
        found: dict[str, Any] = {}
        for call, first in ((self.function, len(self.arguments)), (self.made_by, 1)):
            for p in list(_signature(call))[first:] if call is not None else ():
                if p.kind in _BY_NAME and found.get(p.name, _REQUIRED) is _REQUIRED:
                    found[p.name] = p.default
        return {name: values[0] for name, values in self.sweep.items() if name in found} | {
            name: default for name, default in found.items() if name not in self.sweep
        }

    @property
    def known(self) -> dict[str, Any]:
        """The defaults by name, without parameters that have none."""
        return {name: value for name, value in self.parameters.items() if value is not _REQUIRED}

    def resolve(self, **given: Any) -> dict[str, Any]:
        """The parameters with the defaults filled in.

        Raises `WorkloadError` for an unknown or missing parameter, or an invalid value.
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
        """Raises `WorkloadError` for text as the value of a numeric parameter."""
        for name, value in given.items():
            default = (self.known[name],) if name in self.known else ()
            values = [*self.sweep.get(name, ()), *self.quick.get(name, ()), *default]
            if isinstance(value, str) and values and all(isinstance(v, int | float) for v in values):
                raise WorkloadError(f"{self.name}: {name}={value!r:.40} is no number, as {name}={values[0]} is")

    def combinations(self, asked: Mapping[str, Sequence[Any]], quick: bool = False) -> Iterator[dict[str, Any]]:
        """Every combination of the values in ``asked``, else in the sweep. Other defaults are left out."""
        lists = {**self.sweep, **(self.quick if quick else {}), **asked}
        for values in product(*lists.values()):
            yield dict(zip(lists, values, strict=True))

    def arrays(self, seed: int, **parameters: Any) -> list[np.ndarray]:
        """The inputs of a call with resolved parameters, the same for each seed.

        Raises `WorkloadError` if no function makes them, or a second call of it returns other arrays, and what
        `host_array` raises.
        """
        make = self.made_by
        if make is None:
            raise WorkloadError(
                f"workload {self.name} has no inputs: write @{self.name}.inputs above a function of rng that returns "
                "them, or give each with --input"
            )
        drawn = (make(np.random.default_rng(seed), **taken(make, parameters)) for _ in range(2))
        arrays, others = map(self._as_arrays, drawn)
        # The bytes of one array at a time: of all at once they would double the memory.
        once, again = (((a.dtype, a.shape, a.tobytes()) for a in each) for each in (arrays, others))
        if len(arrays) != len(others) or any(map(ne, once, again)):
            raise WorkloadError(
                f"the inputs of workload {self.name} are others when they are made again: draw them from rng alone"
            )
        return arrays

    def _as_arrays(self, made: Any) -> list[np.ndarray]:
        if not isinstance(made, tuple | list):
            made = (made,)
        return [host_array(array, f"input {i} of workload {self.name}") for i, array in enumerate(made)]

    def traced(self, parameters: Mapping[str, Any], gradient: bool = False) -> Callable[..., Any]:
        """The function of the arrays alone, for `xbackend.trace`, with its parameters bound.

        With ``gradient`` it returns its value and a tuple of gradients.
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
        """The result of its own oracle, as a flat list; `None` without one."""
        if self._oracle is None:
            return None
        return flatten(self._oracle(*arrays, **taken(self._oracle, parameters)), np.asarray)[0]

    def passes(self, **parameters: Any) -> float | None:
        """Its own tolerance, the largest relative error that passes; `None` without one. Raises `WorkloadError`."""
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
    """Make a `Workload` of the decorated function, with or without arguments.

    Args:
        sweep: values of parameters, a list of each or one: every combination is measured.
        quick: the values for ``--quick``.
        gradient: names of arguments with respect to which the gradient is measured too, in a separate row.
        tolerance: the largest relative error that passes.
        name: its name; by default the function's.

    >>> @xb.workload(sweep={"scale": [1.0, 2.0]}, gradient=("x",))
    ... def energy(x, *, scale):
    ...     "The energy of a vector."
    ...     return scale * xb.sum(x * x)
    >>> energy.name, energy.summary, list(energy.combinations({}))
    ('energy', 'The energy of a vector.', [{'scale': 1.0}, {'scale': 2.0}])
    """
    made = partial(Workload, sweep=sweep, quick=quick, gradient=gradient, tolerance=tolerance, name=name)
    return made if function is None else made(function)


def _listed(workload: str, sweep: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The values of each parameter, each once. A single value stands for a list."""
    lists = {
        name: (values,) if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
        for name, values in sweep.items()
    }
    for name, values in lists.items():
        if not values:
            raise WorkloadError(f"workload {workload}: its sweep has no value of {name}")
    own = {name: [*map(plain, values)] for name, values in lists.items()}
    return {name: tuple({repr(value): value for value in values}.values()) for name, values in own.items()}


def plain(value: Any) -> Any:
    """A NumPy number as Python's: NumPy's would decide the dtype of its products with arrays."""
    return value.item() if isinstance(value, np.generic) else value


def _signature(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(function).parameters.values()


def taken(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a function names; all if it takes ``**``."""
    own = list(_signature(function))
    if any(p.kind is p.VAR_KEYWORD for p in own):
        return dict(parameters)
    names = {p.name for p in own if p.kind in _BY_NAME}
    return {name: value for name, value in parameters.items() if name in names}


def _is_array(p: inspect.Parameter) -> bool:
    return p.kind not in _NO_ARRAY and p.default is _REQUIRED


def _named(call: Callable[..., Any], of: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A partial call with a name, and the signature of its remaining arguments."""

    def function(*arrays: Any) -> Any:
        return call(*arrays)

    function.__name__ = name
    function.__dict__["__signature__"] = inspect.Signature([p for p in _signature(of) if _is_array(p)])
    return function


def check_count(workload: str, name: str, value: Any, least: int, most: int) -> None:
    """Raises `WorkloadError` unless a parameter is a whole number within bounds."""
    check_whole(value, f"workload {workload}: {name}={value!r:.40}", least, most, WorkloadError)


def check_choice(workload: str, name: str, value: Any, choices: Sequence[str]) -> None:
    """Raises `WorkloadError` unless a parameter is one of these words."""
    if value not in choices:
        raise WorkloadError(f"workload {workload}: {name}={value!r:.40} is none of {', '.join(choices)}")


FLOATING = ("float32", "float64")


def check_drawn(workload: Workload, numbers: Callable[[int], int], **bounds: tuple[int, int]) -> None:
    """Let a workload check its parameters.

    It raises `WorkloadError` for a ``size`` that is no whole number from 1 up, a ``dtype`` that is none of `FLOATING`,
    and parameters beyond their ``bounds``, and `ArgumentError` for a size whose ``numbers(size)`` numbers, drawn as
    float64, do not fit into memory."""

    @workload.check
    def check(**given: Any) -> None:
        for name, (least, most) in {"size": (1, 10**9), **bounds}.items():
            check_count(workload.name, name, given[name], least, most)
        check_choice(workload.name, "dtype", given["dtype"], FLOATING)
        check_fits(8 * numbers(given["size"]), f"workload {workload.name} with size={given['size']}")
