"""Loops and choices that the framework executes: `scan`, `while_loop`, `cond`.

Each function given to them is traced once, to a separate program: the body of the framework's own loop. It may use
(capture) arrays of the enclosing function, which become its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from xbackend.api.functions.creation import zeros
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import copied, integer
from xbackend.api.tracing.pruning import pruned
from xbackend.api.tracing.scopes import place
from xbackend.api.tracing.tracer import Tracer, at_work, current, returned
from xbackend.errors import ArgumentError, DeviceError, DTypeError, ShapeError, TraceError
from xbackend.program import structure
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Program
from xbackend.program.shared import SharedVariable

# Constants and other generators with more elements are made once, outside of the loop.
LARGE = 64

__all__ = ["cond", "scan", "while_loop"]


class _Body(Tracer):
    """The tracer of one function of a loop or a choice; ``captured`` are the outer arrays that its functions use."""

    def __init__(self, name: str, outer: Tracer, captured: dict[int, Array]) -> None:
        super().__init__()
        self.body, self.outer, self.captured, self.source = name, outer, captured, outer.source
        self.inputs: list[int] = []
        self.taken: dict[int, Array] = {}  # a captured value of the enclosing program -> the input for it

    def emit(self, op: str, inputs: Sequence[Array], params: Mapping[str, Any], device: str | None = None) -> Array:
        if op in GENERATORS and place(device) is None and _is_large(op, params):  # `program` refuses any place
            return self.own(self.outer.emit(op, inputs, params, device))
        return super().emit(op, inputs, params, device)

    def own(self, array: Array) -> Array:
        if array._tracer is self or not array._tracer.open:
            return super().own(array)
        outer = self.outer.own(array)
        if outer.node not in self.taken:
            self.captured.setdefault(outer.node, outer)
            self.taken[outer.node] = self.input(outer)
        return self.taken[outer.node]

    def input(self, like: Array | Aval) -> Array:
        """One more argument of the body."""
        aval = Aval(like.shape, like.dtype)
        params = {"name": f"x{len(self.inputs)}", "shape": aval.shape, "dtype": aval.dtype}
        (position,) = self.written.add("input", (), params, [aval])
        self.inputs.append(position)
        return Array(self, position, aval.shape, aval.dtype)

    def shared(self, variable: SharedVariable) -> Array:
        return self.own(self.outer.shared(variable))

    def count_constant(self, size: int) -> None:
        self.outer.count_constant(size)

    def traced(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Array | Aval],
        take: Callable[[list[Array]], Sequence[Any]],
        parts: Callable[[Any], Sequence[Any]] = lambda made: (made,),
    ) -> list[Leaves]:
        """The ``parts`` of the function's result for ``take(inputs)``; inputs have the avals of the arguments."""
        if not callable(function):
            raise ArgumentError(f"xb.{self.body} was given {function!r:.60} in the place of a function")
        with at_work(self):
            made = function(*take([self.input(a) for a in arguments]))
            return [_leaves(part, partial(returned, self)) for part in parts(made)]

    def program(self, outputs: Sequence[Array]) -> Program:
        """The body as a program. Its inputs are the arguments, then all captured arrays."""
        count = len(self.inputs) - len(self.taken)
        for outer in self.captured.values():
            if outer.node not in self.taken:
                self.taken[outer.node] = self.input(outer)
        for node in self.written.nodes:
            if node.device is not None:
                raise DeviceError(
                    f"xb.{self.body} runs on one device, and {node.op} (at {node.source}) asks for {node.device} "
                    f"inside of it; call xb.{self.body} in `with xb.device(...)`, and move arrays before or after"
                )
        inputs = [*self.inputs[:count], *(self.taken[i].node for i in self.captured)]
        results = [array.node for array in outputs]
        left, position = pruned(self.written, (*inputs, *results), results)
        takes, gives = (tuple([position[i] for i in numbers]) for numbers in (inputs, results))
        return left.program(self.body, takes, gives, {"tuple": [structure.LEAF] * len(results)})


def _is_large(op: str, params: Mapping[str, Any]) -> bool:
    shape: tuple[int, ...] = params["value"].shape if op == "constant" else params["shape"]
    return prod(shape) > LARGE


Leaves = tuple[list[Array], Any]  # arrays and their structure; for `None` no arrays and `None`


def _leaves(value: Any, leaf: Callable[[Any], Array]) -> Leaves:
    return structure.flatten(value, leaf) if value is not None else ([], None)


def _value(form: Any, leaves: Sequence[Array]) -> Any:
    return structure.unflatten(form, leaves) if form is not None else None


def _check_kept(name: str, before: Leaves, after: Leaves, what: str) -> None:
    """Raises `TraceError`, `ShapeError` or `DTypeError` unless structure, shapes and dtypes stay the same."""
    (old, old_form), (new, new_form) = before, after
    if old_form != new_form:
        raise TraceError(f"xb.{name}: {what} {_form(old_form)}, then {_form(new_form)}; both are of one form")
    for number, (a, b) in enumerate(zip(old, new, strict=True)):
        which = f" (array {number})" if len(old) > 1 else ""
        if a.shape != b.shape:
            raise ShapeError(f"xb.{name}: {what} of shape {a.shape}, then of shape {b.shape}{which}; shapes stay")
        if a.dtype is not b.dtype:
            raise DTypeError(
                f"xb.{name}: {what} of dtype {a.dtype}, then of dtype {b.dtype}{which}; dtypes stay: convert one of "
                "them with xb.astype, or begin with xb.asarray(value, dtype=...)"
            )


def _form(form: Any) -> str:
    if form is None:
        return "None"
    if form == structure.LEAF:
        return "one array"
    kind, parts = next(iter(form.items()))
    return f"a {kind} of {len(parts)}"


def scan(
    step: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a value through a loop: ``carry, y = step(carry, x)`` for each ``x`` along the first axes of ``xs``.

    ``init``, the carry, ``xs`` and ``y`` are an array or nested tuples, lists and dictionaries of arrays. The carry
    keeps its shapes and dtypes. The first axes of ``xs`` have the same length; ``xs`` may be `None` with a ``length``,
    and ``y`` `None`. Returns the last carry and all ``y``, stacked along a new first axis; ``reverse`` begins at the
    end, and the ``y`` of ``xs[i]`` is still at i. As ``jax.lax.scan``:
    https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html

    ``step`` is traced once. Gradients go through it. Raises `ShapeError`, `DTypeError`, `TraceError` where the carry
    does not keep its form, `ArgumentError` without a length.

    >>> def step(total, x):
    ...     return total + x, total * x
    >>> run = backend.compile(lambda xs: xb.scan(step, 0.0, xs), np.arange(4.0))
    >>> run(np.arange(4.0))
    (array(6.), array([0., 0., 2., 9.]))
    """
    tracer = current("xb.scan")
    carry, form = before = _leaves(init, partial(_given, tracer))
    sequences, xs_form = _leaves(xs, partial(_given, tracer))
    count = _length(sequences, length)
    captured: dict[int, Array] = {}
    body = _Body("scan", tracer, captured)
    slices = [Aval(x.shape[1:], x.dtype) for x in sequences]

    def take(inputs: list[Array]) -> tuple[Any, Any]:
        return _value(form, inputs[: len(carry)]), _value(xs_form, inputs[len(carry) :])

    after, (ys, ys_form) = body.traced(step, [*carry, *slices], take, _carry_and_y)
    _check_kept("scan", before, after, "the carry is first")
    if count == 0:
        empty = [zeros((0, *y.shape), dtype=y.dtype) for y in ys]
        return _value(form, [copied(a) for a in carry]), _value(ys_form, empty)
    own = body.program([*after[0], *ys])
    numbers = {"carries": len(carry), "sequences": len(sequences), "length": count}
    params = {"body": own, **numbers, "reverse": bool(reverse)}
    results = tracer.emit_all("scan", [*carry, *sequences, *captured.values()], params)
    return _value(form, results[: len(carry)]), _value(ys_form, results[len(carry) :])


def _carry_and_y(made: Any) -> tuple[Any, Any]:
    if not (isinstance(made, tuple) and len(made) == 2):
        raise TraceError(f"the step of xb.scan returns (carry, y), with None for no y; it returned {made!r:.80}")
    return made


def _given(tracer: Tracer, value: Any) -> Array:
    if value is None:
        raise TraceError("a loop was given None in the place of an array; leave it out of what it carries")
    return tracer.array(value)


def _length(xs: Sequence[Array], length: Any) -> int:
    for x in xs:
        if not x.shape:
            raise ShapeError(f"xb.scan goes along the first axis of its xs, and {x!r} has none")
    lengths = {x.shape[0] for x in xs}
    if length is not None:
        given = integer(length)
        if given is None or given < 0:
            raise ArgumentError(f"xb.scan: length={length!r:.60} is not a number of steps")
        lengths.add(given)
    if not lengths:
        raise ArgumentError("xb.scan has neither xs nor a length; write length=... for the number of steps")
    if len(lengths) > 1:
        raise ShapeError(f"xb.scan: the first axes of xs, and length, are {', '.join(map(str, sorted(lengths)))}")
    return lengths.pop()


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """Begin with ``init`` and repeat ``state = body(state)`` while ``cond(state)``, one bool, is true.

    The state is an array or nested tuples, lists and dictionaries of arrays, whose shapes and dtypes stay the same.
    No gradient goes through it, as the number of steps is unknown: use `scan`. As ``jax.lax.while_loop``:
    https://docs.jax.dev/en/latest/_autosummary/jax.lax.while_loop.html

    Raises `ShapeError`, `DTypeError`, `TraceError` where the state does not keep its form, or ``cond`` gives no bool.

    >>> run = backend.compile(lambda x: xb.while_loop(lambda n: n < 100.0, lambda n: 2.0 * n, x), np.float64(3.0))
    >>> run(np.float64(3.0))
    array(192.)
    """
    tracer = current("xb.while_loop")
    state, form = before = _leaves(init, partial(_given, tracer))
    if not state:
        raise ArgumentError("xb.while_loop has no state: give the arrays that it begins with")
    captured: dict[int, Array] = {}
    condition, step = (_Body("while_loop", tracer, captured) for _ in range(2))

    def take(inputs: list[Array]) -> tuple[Any]:
        return (_value(form, inputs),)

    ((asked, asked_form),) = condition.traced(cond, state, take)
    if asked_form != structure.LEAF or (asked[0].shape, asked[0].dtype) != ((), DType.bool):
        found = repr(asked[0]) if asked_form == structure.LEAF else _form(asked_form)
        raise TraceError(
            f"the condition of xb.while_loop is one bool of shape (), not {found}; xb.all makes one of many"
        )
    (after,) = step.traced(body, state, take)
    _check_kept("while_loop", before, after, "the state is first")
    params = {"condition": condition.program(asked), "body": step.program(after[0]), "carries": len(state)}
    return _value(form, tracer.emit_all("while_loop", [*state, *captured.values()], params))


def cond(p: Any, f: Callable[..., Any], g: Callable[..., Any], *x: Any) -> Any:
    """``f(*x)`` if ``p`` (one bool) is true, else ``g(*x)``. Only this branch is computed, if the framework can.

    Each ``x`` and the results are arrays, or nested tuples, lists and dictionaries of arrays; both functions return the
    same form, shapes and dtypes. Gradients go through it. As ``jax.lax.cond``:
    https://docs.jax.dev/en/latest/_autosummary/jax.lax.cond.html

    Raises `ShapeError`, `DTypeError`, `TraceError`.

    >>> run = backend.compile(lambda x: xb.cond(xb.sum(x) > 0.0, xb.sqrt, xb.abs, x), np.ones(2))
    >>> run(np.asarray([4.0, 9.0])), run(np.asarray([-4.0, -9.0]))
    (array([2., 3.]), array([4., 9.]))
    """
    tracer = current("xb.cond")
    predicate = _given(tracer, p)
    if (predicate.shape, predicate.dtype) != ((), DType.bool):
        raise TraceError(
            f"xb.cond chooses by one bool of shape (), not by {predicate!r}; xb.where chooses for each element"
        )
    operands, form = structure.flatten(tuple(x), partial(_given, tracer))
    captured: dict[int, Array] = {}
    bodies = [_Body("cond", tracer, captured) for _ in range(2)]
    take = partial(structure.unflatten, form)
    made = [body.traced(function, operands, take)[0] for body, function in zip(bodies, (f, g), strict=True)]
    _check_kept("cond", made[0], made[1], "the first function returns arrays")
    if not made[0][0]:
        raise TraceError("the functions of xb.cond return nothing; return the arrays that they compute")
    then, otherwise = (body.program(leaves) for body, (leaves, _) in zip(bodies, made, strict=True))
    inputs = [predicate, *operands, *captured.values()]
    return _value(made[0][1], tracer.emit_all("cond", inputs, {"then": then, "otherwise": otherwise}))
