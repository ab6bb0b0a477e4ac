"""Random programs for hypothesis, as lines of code over values with known shapes, dtypes and numbers.

The code is run, and printed after a failure. In ``tame`` programs each line is computed while the program is made, and
left out unless its result depends on arithmetic only: nothing outside of a function's domain, near a jump or a kink
(`MARGIN`), or large; matrices are well conditioned by construction. A difference between backends is then a defect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import hypothesis.strategies as st
import numpy as np
import random_lines
from strategies import DTYPES, FLOATING, shapes, values

import xbackend as xb
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.backends import registry
from xbackend.errors import GradientError
from xbackend.program.dtypes import DType
from xbackend.program.program import Program
from xbackend.program.shared import SharedVariable

LARGEST = {"f": 30.0, "i": 1000, "u": 255}  # larger numbers are made smaller
ELEMENTS = 60  # largest size of an array
NAME = r"\b[xsv]\d+\b"


def literal(array: np.ndarray) -> str:
    """An array as code."""
    text = f"np.array({array.tolist()!r}, {array.dtype.name!r})"
    return text if array.size else f"np.zeros({array.shape}, {array.dtype.name!r})"


def leaves(result: Any) -> list[Any]:
    """The arrays of a result of any structure."""
    if isinstance(result, dict):
        return [leaf for part in result.values() for leaf in leaves(part)]
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


@dataclass(frozen=True)
class Value:
    """A name in a program and its known facts. ``array``: its numbers in a tame program, else any of its shape and
    dtype. ``smooth``: a gradient may pass through it."""

    name: str
    array: np.ndarray
    smooth: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> DType:
        return DType(self.array.dtype.name)


@dataclass(frozen=True)
class Line:
    """``targets = text``, on a device."""

    targets: tuple[str, ...]
    text: str
    device: str | None = None

    def __str__(self) -> str:
        scope = f"with xb.device({self.device!r}):\n        " if self.device else ""
        return f"    {scope}{', '.join(self.targets)} = {self.text}"


@dataclass(frozen=True)
class Source:
    """A program as code. The gradient is of the last output with respect to ``wrt``. ``state`` has the first values of
    shared variables and their devices."""

    arguments: Mapping[str, np.ndarray]
    state: Mapping[str, tuple[np.ndarray, str | None]]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    updates: Mapping[str, str] = field(default_factory=dict)
    wrt: tuple[str, ...] = ()
    form: str = "({},)"

    @cached_property
    def code(self) -> str:
        """The code of the arguments and of ``program``."""
        head = ["import numpy as np", "import xbackend as xb", ""]
        head += [f"{name} = {literal(array)}" for name, array in self.arguments.items()]
        head.append(f"\n\ndef program({', '.join(self.arguments)}):")
        for name, (array, device) in self.state.items():
            on = f", device={device!r}" if device else ""
            head.append(f"    {name}_ = xb.shared({literal(array)}, name={name!r}{on})")
            head.append(f"    {name} = xb.asarray({name}_)")
        body = [str(line) for line in self.lines]
        body += [f"    xb.update({name}_, {value})" for name, value in self.updates.items()]
        gradient = f", *xb.grad({self.outputs[-1]}, [{', '.join(self.wrt)}])" if self.wrt else ""
        return "\n".join([*head, *body, f"    return {self.form.format(', '.join(self.outputs) + gradient)}\n"])

    def function(self) -> Callable[..., Any]:
        """The program."""
        scope: dict[str, Any] = {}
        exec(compile(self.code, "<random program>", "exec"), scope)
        function: Callable[..., Any] = scope["program"]
        return function

    def pruned(self) -> Source:
        """The program without unused lines and state."""
        needed, kept = {*self.outputs, *self.updates.values(), *self.wrt}, []
        for line in reversed(self.lines):
            if not needed.isdisjoint(line.targets):
                kept.append(line)
                needed |= set(re.findall(NAME, line.text))
        state = {name: s for name, s in self.state.items() if name in needed or name in self.updates}
        return replace(self, lines=tuple(reversed(kept)), state=state)


@dataclass(frozen=True)
class Case:
    """A program, its arguments and its shared variables; a random one also has its code."""

    program: TracedProgram
    arguments: tuple[np.ndarray, ...]
    shared: tuple[SharedVariable, ...]
    source: Source | None = None

    def __repr__(self) -> str:
        return f"Case(\n{self.source.code if self.source else self.program}\n)"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis prints this


def case_of(source: Source) -> Case:
    arguments = tuple(source.arguments.values())
    program = xb.trace(source.function(), *arguments)
    return Case(program, arguments, tuple(program.shared.values()), source)


def ops_of(program: Program) -> set[str]:
    """The ops of a program and of its bodies."""
    bodies = [body for node in program.values for body in node.bodies.values()]
    return {node.op for node in program.values}.union(*map(ops_of, bodies))


class RejectedError(Exception):
    """There is no operand for a line, or its result would not be tame."""


@dataclass(frozen=True)
class Kinds:
    """Kinds of programs: ``tame`` ones, with devices of these ``names``, with gradients if ``grads``, from ``least`` to
    ``largest`` tried lines, ``without`` some ops."""

    names: tuple[str, ...] = ()
    tame: bool = False
    grads: bool = False
    least: int = 1
    largest: int = 12
    without: frozenset[str] = frozenset()


class Builder:
    """Adds random lines to a program."""

    def __init__(self, draw: st.DrawFn, inputs: Iterable[Value], dtypes: tuple[DType, ...], kinds: Kinds) -> None:
        self.draw, self.dtypes = draw, dtypes
        self.tame, self.names, self.without = kinds.tame, kinds.names, kinds.without
        self.values = list(inputs)
        self.lines: list[Line] = []
        self.device: str | None = None

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, accept: Callable[[Value], Any] = lambda x: True) -> Value:
        """One of the values. Raises `RejectedError` if none is accepted."""
        found = [x for x in self.values if accept(x)]
        self.require(found)
        value: Value = self.one(*found)
        return value

    def of(self, dtypes: Iterable[DType], accept: Callable[[Value], Any] = lambda x: True) -> Value:
        """A value of one of the dtypes, made if there is none."""
        wanted = tuple(d for d in dtypes if d in self.dtypes)
        found = [x for x in self.values if x.dtype in wanted and accept(x)]
        if found:
            value: Value = self.one(*found)
            return value
        rng = np.random.default_rng(self.number(0, 999))
        made = self.let(f"xb.asarray({literal(values(rng, self.one((), (3,), (2, 3)), self.one(*wanted)))})")
        self.require(accept(made))
        return made

    def require(self, holds: Any) -> None:
        """Raises `RejectedError` unless it holds."""
        if not holds:
            raise RejectedError

    def let(self, text: str, count: int = 1, smooth: bool = True) -> Value:
        """Add a line, and return its first result. Raises `RejectedError` if that is not tame."""
        used = [x for x in self.values if re.search(rf"\b{x.name}\b", text)]
        arrays = self._computed(text, used)[:count]
        self.require(all(a.size <= ELEMENTS for a in arrays))
        kind = arrays[0].dtype.kind
        if self.tame and not all(_moderate(a) for a in arrays):
            self.require(count == 1 and kind in "fi" and np.isfinite(arrays[0]).all())
            text = f"xb.tanh(({text}) / 30.0)" if kind == "f" else f"xb.remainder({text}, 10)"
            arrays = self._computed(text, used)
        smooth = smooth and all(x.smooth for x in used)
        names = tuple(f"v{len(self.values) + i}" for i in range(len(arrays)))
        made = [Value(n, a, smooth or a.dtype.kind != "f") for n, a in zip(names, arrays, strict=True)]
        self.lines.append(Line(names, text, self.device))
        self.values += made
        return made[0]

    def _computed(self, text: str, used: list[Value]) -> list[np.ndarray]:
        function = eval(f"lambda {', '.join(x.name for x in used)}: {text}", {"xb": xb, "np": np})
        arrays = [x.array for x in used]
        program = xb.trace(function, *arrays)
        self.require(self.without.isdisjoint(ops_of(program)))
        if self.tame:
            return leaves(ORACLE.compile(program, devices=dict.fromkeys(self.names, "cpu:0"))(*arrays))
        return [np.zeros(program.values[i].shape, program.values[i].dtype.value) for i in program.outputs]

    @contextmanager
    def on(self, device: str | None) -> Iterator[None]:
        """Lines are on the device."""
        self.device = device
        try:
            yield
        finally:
            self.device = None


ORACLE = registry.get("numpy").load()


def _moderate(array: np.ndarray) -> bool:
    limit = LARGEST.get(array.dtype.kind)
    return limit is None or bool((np.abs(array.astype("f8")) <= limit).all())


def programs(names: tuple[str, ...] = (), **kinds: Any) -> st.SearchStrategy[Case]:
    """Random programs over the whole op set: see `Kinds`."""
    return _programs(Kinds(names, **kinds))


@st.composite
def _programs(draw: st.DrawFn, kinds: Kinds) -> Case:
    names, tame, grads = kinds.names, kinds.tame, kinds.grads
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    place = st.none() | st.sampled_from(names) if names else st.none()
    floats = draw(st.sampled_from([FLOATING, *((dtype,) for dtype in FLOATING)])) if tame else FLOATING
    dtypes = (*floats, *(d for d in DTYPES if not d.is_floating))
    specs = draw(st.lists(st.tuples(shapes(), st.sampled_from(dtypes)), min_size=1, max_size=3))
    if tame and grads:
        specs[0] = (specs[0][0], draw(st.sampled_from(floats)))  # the variable of differentiation
    arguments = {f"x{i}": values(rng, shape, dtype) for i, (shape, dtype) in enumerate(specs)}
    specs = draw(st.lists(st.tuples(shapes(), st.sampled_from(dtypes)), max_size=2))
    state = {f"s{i}": (values(rng, shape, dtype), draw(place)) for i, (shape, dtype) in enumerate(specs)}
    inputs = [Value(n, a) for n, a in arguments.items()] + [Value(n, a) for n, (a, _) in state.items()]
    builder = Builder(draw, inputs, dtypes, kinds)
    for _ in range(draw(st.integers(kinds.least, kinds.largest))):
        make = draw(st.sampled_from(random_lines.families(grads, bool(names))))
        with builder.on(draw(place)):
            try:
                make(builder)
            except RejectedError:
                continue
    updates = {}
    for name, (array, _) in state.items():
        fitting = [x.name for x in builder.values if (x.shape, x.array.dtype) == (array.shape, array.dtype)]
        updates[name] = draw(st.sampled_from(fitting))
    outputs = _ends(builder) if tame else draw(st.lists(st.sampled_from([x.name for x in builder.values]), min_size=1))
    form = draw(st.sampled_from(["({},)", "[{}]", "{{'all': [{}]}}"]))
    source = Source(arguments, state, tuple(builder.lines), tuple(outputs), updates, form=form)
    return case_of((_with_gradient(builder, source) if grads else source).pruned())


def _ends(builder: Builder) -> list[str]:
    """The values without a successor: with them as results every line counts."""
    used = {name for line in builder.lines for name in re.findall(NAME, line.text)}
    return [x.name for x in builder.values if x.name not in used]


def _with_gradient(builder: Builder, source: Source) -> Source:
    """The program with a loss of its smooth results, and its gradient; sometimes a gradient of a gradient."""
    smooth = [x for x in builder.values if x.name in source.outputs and x.smooth and x.dtype.is_floating]
    if not smooth:
        return source
    builder.let(" + ".join(f"xb.sum(xb.sin({x} + 0.3))" for x in smooth))
    source = replace(source, lines=tuple(builder.lines), outputs=(*source.outputs, builder.values[-1].name))
    found = _reached(source, [x.name for x in builder.values if x.dtype.is_floating and x.name[0] in "xs"])
    if found and builder.number(0, 5) == 0:
        name = f"v{len(builder.values)}"
        line = Line((name,), f"xb.sum(xb.sin(xb.grad({source.outputs[-1]}, {found[0]}) + 0.3))")
        second = replace(source, lines=(*source.lines, line), outputs=(*source.outputs, name))
        again = _reached(second, found)
        if again:
            return replace(second, wrt=tuple(again))
    return replace(source, wrt=tuple(found))


def _reached(source: Source, names: list[str]) -> list[str]:
    """The names on which the last output depends through floating-point numbers."""
    found = []
    for name in names:
        one = replace(source, wrt=(name,))
        try:
            xb.trace(one.function(), *one.arguments.values())
        except GradientError:
            continue
        found.append(name)
    return found
