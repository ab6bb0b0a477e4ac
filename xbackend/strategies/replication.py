"""In-graph replication: a function on several devices at once, each with a share of the rows."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import integer
from xbackend.api.tracing.scopes import device, on, renamed
from xbackend.api.tracing.trace import ArraySpec, trace
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.api.tracing.tracer import Tracer, current
from xbackend.devices import Device, canonical
from xbackend.errors import ArgumentError, ShapeError
from xbackend.program import structure
from xbackend.program.program import Value
from xbackend.strategies.merging import check_merge, merge_results


@dataclass(frozen=True)
class Replica:
    """Where one replica computes: the device outside of its scopes, and the meaning of the device names in them.

    >>> replica = xb.strategies.Replica.of({"dev0": "gpu:2", "dev1": "gpu:3"})
    >>> replica.place, replica.meant("dev1")
    ('gpu:2', 'gpu:3')
    >>> def f(x):
    ...     with replica.scopes(), xb.device("dev1"):
    ...         return x + 1.0
    >>> xb.trace(f, np.ones(2)).nodes[-1].device
    'gpu:3'
    """

    place: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: str | Device | Mapping[str, str]) -> Replica:
        """From a device, or a mapping of the names in the loss to devices; all else is on the first one."""
        if not isinstance(entry, Mapping):
            return cls(canonical(entry))
        names = {canonical(name): canonical(other) for name, other in entry.items()}
        if not names:
            raise ArgumentError("devices has an empty mapping; write {'dev0': 'dev2', 'dev1': 'dev3'}")
        return cls(next(iter(names.values())), names)

    def meant(self, name: str | None) -> str | None:
        """The device that a name in the loss stands for; `None` stands for the replica's."""
        return self.place if name is None else self.names.get(canonical(name), canonical(name))

    @contextmanager
    def scopes(self) -> Iterator[None]:
        """The device scopes of its ops."""
        with on(self.place), renamed(self.names):
            yield


def replicas_of(devices: Any) -> tuple[Replica, ...]:
    """A replica for each entry. Raises `ArgumentError` for no entry, and for a value without entries or order."""
    if isinstance(devices, str | Device | Mapping | set | frozenset) or not isinstance(devices, Iterable):
        raise ArgumentError(f"devices={devices!r:.80}: it has one entry for each replica; write ('dev0', 'dev1')")
    if not (replicas := tuple(map(Replica.of, devices))):
        raise ArgumentError(
            "devices is empty: there are no replicas; it has one entry for each replica, ('dev0', 'dev1')"
        )
    return replicas


def bounds(rows: int, count: int) -> list[tuple[int, int]]:
    """Each replica's first row and the row after its last. A remainder goes to the first replicas."""
    least, more = divmod(rows, count)
    return list(itertools.pairwise(i * least + min(i, more) for i in range(count + 1)))


@dataclass(frozen=True, slots=True)
class _Strategy:
    """How a function is replicated; ``split`` maps arguments to the axes along which they are split."""

    name: str
    signature: inspect.Signature
    replicas: tuple[Replica, ...]
    split: Mapping[str, int]
    axis: int
    merge: Any
    on: str

    def run(self, function: Callable[..., Any], arguments: Sequence[Any], static: Mapping[str, Any]) -> Any:
        """Call the function once for each replica, inside of the program being traced."""
        tracer = current(f"replicated {self.name}")
        try:
            bound = self.signature.bind(*arguments, **static)
        except TypeError as error:
            raise ArgumentError(f"replicated {self.name}{self.signature}: {error}") from None
        with device(self.on):
            sizes, parts = self.parts(tracer, bound.arguments)
        pure = (
            f"a replica of {self.name}, once for each device; return what the update needs (a gradient, say), merge "
            "it, and call xb.update outside"
        )
        results = []
        for replica, part in zip(self.replicas, parts, strict=True):
            bound.arguments.update(part)
            with replica.scopes(), tracer.without_updates(pure):
                results.append(function(*bound.args, **bound.kwargs))
        with device(self.on):
            return merge_results(tracer, results, sizes, self.merge, self.axis)

    def parts(self, tracer: Tracer, given: Mapping[str, Any]) -> tuple[list[int], list[dict[str, Any]]]:
        """For each replica, its number of rows and its share of the split arguments."""
        parts: list[dict[str, Any]] = [{} for _ in self.replicas]
        count, total, first = len(self.replicas), -1, ""
        for name, axis in self.split.items():
            if name not in given:
                raise ArgumentError(f"argument {name!r} of {self.name} is to be split and was not given")
            leaves, form = structure.flatten(given[name], tracer.array)
            shares: list[list[Array]] = [[] for _ in self.replicas]
            for array in leaves:
                if not -array.ndim <= axis < array.ndim:
                    raise ShapeError(
                        f"argument {name!r} of {self.name} cannot be split along axis {axis}: its shape is "
                        f"{array.shape}"
                    )
                rows = array.shape[axis]
                if total < 0:
                    total, first = rows, name
                if rows != total:
                    raise ShapeError(
                        f"arguments of {self.name} are split together and have different lengths: {first!r} has "
                        f"{total} rows, {name!r} has {rows} along axis {axis}"
                    )
                if rows < count:
                    raise ShapeError(
                        f"argument {name!r} of {self.name} has {rows} rows, too few for {count} replicas: every "
                        "replica needs one; give fewer devices or more rows"
                    )
                for share, (start, stop) in zip(shares, bounds(rows, count), strict=True):
                    share.append(array[(*[slice(None)] * (axis % array.ndim), slice(start, stop))])
            for part, share in zip(parts, shares, strict=True):
                part[name] = structure.unflatten(form, share)
        if total < 0:
            raise ArgumentError(f"the arguments of {self.name} that are to be split hold no array")
        return [stop - start for start, stop in bounds(total, count)], parts

    def whole(self, node: Value) -> ArraySpec:
        """All rows of an argument; the node has those of one replica."""
        shape, axis = list(node.shape), self.split.get(node.params["name"])
        if axis is not None and -len(shape) <= axis < len(shape):
            shape[axis] *= len(self.replicas)
        return ArraySpec(shape, node.dtype)


def replicate(
    function: Callable[..., Any] | TracedProgram,
    /,
    *,
    devices: Iterable[str | Device | Mapping[str, str]],
    split: str | Iterable[str] | Mapping[str, int],
    merge: Any = "concat",
    axis: int = 0,
    on: str | Device = "cpu:0",
) -> Any:
    """The function spread over devices (data parallel): each computes on its share of the rows; results are merged.

    Given a function, it returns a function with the same arguments, to be traced or compiled, or called in another one.
    Given a `Program`, it returns a `Program`. Arguments in ``split`` are split on the device ``on``, and each replica
    gets its own rows; a remainder goes to the first replicas, one row each. All replicas use the other arguments and
    the shared variables, which are transferred once to each device. A `Program` has fixed shapes, those of one replica:
    the replicated one has as many times its rows as there are replicas.

    Args:
        devices: one entry for each replica: a device (``gpu:1``) or logical device (``dev1``). For a function that
            uses several devices itself (model parallel): a mapping of the names in it to those of this replica,
            ``{"dev0": "dev2", "dev1": "dev3"}``; a missing name means the same in all replicas. Ops outside of every
            scope in the function run on the device, or on the first one of the mapping.
        split: the name of the argument to split, or several, or a mapping of names to their axes.
        merge: ``concat`` (along ``axis``, in the order of the replicas), ``sum``, or ``mean``, weighted by rows: with
            n_i of n rows in replica i the mean of its results r_i is sum(r_i * n_i / n). So a mean over rows, and its
            gradient, equals that of one device on all rows, to rounding. One word for all results, or words in the
            structure of the function's results: ``("mean", "concat")``.
        axis: the axis along which arguments are split and results concatenated.
        on: the device, or logical device, that splits and merges.

    A gradient of a merged mean, ``xb.grad(replicated(x), w)``, and the merged mean of gradients taken in the function
    are the same to rounding. Updates belong outside of the function: there each happens once.

    Raises:
        ArgumentError, DeviceSpellingError: at once, for an invalid argument.
        ShapeError: while tracing, for more replicas than rows, a missing axis, or results whose shapes cannot be
            merged. DTypeError: for a mean or sum of results that have none. SharedVariableError: for an update in the
            function. TraceError: for replicas with results of different structures.

    >>> spread = xb.strategies.replicate(lambda x: x * x, devices=("cpu:0", "cpu:1"), split="x")
    >>> run = backend.compile(spread, np.arange(4.0))
    >>> run(np.arange(4.0))
    array([0., 1., 4., 9.])
    >>> [op.bound for op in run.placement.ops if op.op == "multiply"]
    ['cpu:0', 'cpu:1']
    """
    check_merge(merge)
    if integer(axis) is None:
        raise ArgumentError(f"axis={axis!r:.60} is not an integer")
    name = function.name if isinstance(function, TracedProgram) else getattr(function, "__name__", "the function")
    signature = _signature(function, name)
    strategy = _Strategy(
        name, signature, replicas_of(devices), _split(split, axis, signature, name), axis, merge, canonical(on)
    )

    def replicated(*arguments: Any, **static: Any) -> Any:
        return strategy.run(function, arguments, static)

    if not isinstance(function, TracedProgram):
        return functools.update_wrapper(replicated, function)
    replicated.__name__ = name
    replicated.__dict__["__signature__"] = signature
    return trace(replicated, *[strategy.whole(function.values[i]) for i in function.inputs])


def _signature(function: Any, name: str) -> inspect.Signature:
    try:
        if isinstance(function, TracedProgram):
            kind = inspect.Parameter.POSITIONAL_ONLY
            names = [function.values[i].params["name"] for i in function.inputs]
            return inspect.Signature([inspect.Parameter(n, kind) for n in names])
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name} cannot be replicated: its arguments have no names to split by ({error}); give a function or a "
            "program with named arguments"
        ) from None


def _split(split: Any, axis: int, signature: inspect.Signature, name: str) -> dict[str, int]:
    if isinstance(split, Mapping):
        chosen = dict(split)
    elif isinstance(split, str):
        chosen = {split: axis}
    elif isinstance(split, Iterable):
        chosen = dict.fromkeys(split, axis)
    else:
        raise ArgumentError(f"split={split!r:.80}: give the name of an argument, or several")
    listing = ", ".join(signature.parameters) or "none"
    if not chosen:
        raise ArgumentError(f"there is nothing to split; name arguments of {name}, which has {listing}")
    for argument, number in chosen.items():
        parameter = signature.parameters.get(argument)
        if parameter is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ArgumentError(f"{name} has no argument {argument!r} to split; it has {listing}")
        if integer(number) is None:
            raise ArgumentError(f"argument {argument!r} is to be split along axis {number!r:.60}, which is no integer")
    return chosen
