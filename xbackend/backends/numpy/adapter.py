"""NumPy as a backend: the oracle, on any number of pretend devices, which are tags on values. A program that lacks a
transfer is refused. Gradients are autograd's (https://github.com/HIPS/autograd)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from xbackend.backends import threads
from xbackend.backends.codegen import FunctionSource
from xbackend.backends.contract import Backend, Built, Value
from xbackend.backends.description import IN_TURN, Description, versions
from xbackend.backends.numpy import control_flow
from xbackend.backends.numpy.gradients import UNTOLD, Gradients
from xbackend.backends.numpy.ops import SPECIAL_FUNCTIONS, function, results
from xbackend.backends.placement import NOTHING_TO_READ, Executed, Execution, ProfiledCall, Span, Transferred
from xbackend.backends.special_numbers import ROOTS
from xbackend.devices import Device, choose_visible
from xbackend.errors import ArgumentError, PlacementError
from xbackend.program import analyses
from xbackend.program.host import native
from xbackend.program.ops import GENERATORS, OPS
from xbackend.program.program import Node, Program, generate

# The functions of ops that are not NumPy's.
_NAMES = {
    **{"grad": "autograd.make_vjp", "solve_triangular": "scipy.linalg.solve_triangular", **control_flow.NAMES},
    **{name: f"scipy.special.{name}" for name in SPECIAL_FUNCTIONS},
}
_COPIED = "a copy was made; NumPy has no devices, and both ends are as asked"


class DeviceArray(NamedTuple):
    """An array and its pretend device."""

    array: np.ndarray
    device: Device

    @property
    def is_device_value(self) -> bool:
        return True


def _own(value: Value) -> DeviceArray:
    """The value. Raises `ArgumentError` if it is not of this backend."""
    if isinstance(value, DeviceArray):
        return value
    raise ArgumentError(f"{value!r:.80} cannot be used on backend 'numpy': get it to the host and put it there")


class NumPyBackend(Backend):
    """NumPy, op by op in program order: the calls that a user would write."""

    added: tuple[str, ...] = (ROOTS, "results in the memory of operands that nothing else uses")

    def start(self) -> Iterable[Device]:
        self._xp = self.needed("autograd.numpy")
        self._limited = threads.limit_blas(self, self.settings.threads)
        every = [Device("cpu", i) for i in range(self.settings.virtual_devices)]
        return choose_visible(every, self.settings.visible)

    def shut(self) -> None:
        self._limited()

    def put(self, array: np.ndarray, device: Device) -> Value:
        return DeviceArray(np.array(native(array)), device)

    def get(self, value: Value) -> np.ndarray:
        return np.array(_own(value).array)

    def device_of(self, value: Value) -> Device:
        return _own(value).device

    def synchronize(self, values: Iterable[Value]) -> None:
        """Nothing: NumPy computes synchronously."""

    def compilations(self) -> dict[str, int]:
        return {}

    def build(self, program: Program) -> Built:
        storages = {i: self.storage(v) for i, v in program.shared.items()}
        return Linker(program, self._xp, storages).built()

    def describe(self) -> Description:
        blas = threads.pools()
        return Description(
            versions=versions("autograd"),
            devices=[str(d) for d in self.devices],
            threads={pool.library: pool.threads for pool in blas},
            blas=blas,
            notes={"stages": f"{IN_TURN}NumPy computes one op after the other", "added": "; ".join(self.added)},
        )


class Linker:
    """A placed program as straight-line Python: a call of NumPy for each node, in a dead operand's memory if that
    fits."""

    def __init__(self, program: Program, xp: Any, storages: Mapping[int, Any]) -> None:
        self.program, self.storages, self.xp = program, storages, xp
        self.devices = devices = [self.place(i) for i in range(len(program.values))]
        for i, node in enumerate(program.values):
            for j in node.inputs if node.op not in ("transfer", "grad") else ():
                if devices[j] != devices[i]:
                    where = f"runs on {devices[i]} but its input, node {j}, is on {devices[j]}"
                    raise PlacementError(f"{node.op} (node {i}) {where}: a transfer is missing")
        self.constants = {i: generate(n) for i, n in enumerate(program.values) if n.op in GENERATORS}
        self.gradients = Gradients(program, self.devices, xp)
        self.steps = analyses.steps(program)
        self.reused = _reused(program, self.steps)
        self.numbers = False  # whether arrays of rank 0 are NumPy scalars
        self.ran = False
        self.begun: list[float] = []  # times at which each step of a profile began, and the last one ended

    def place(self, i: int) -> Device:
        return Device.parse(self.program.values[i].device or "")

    def built(self) -> Built:
        return Built(self.source().compile(), self._executed, self.profile)

    def body(self, program: Program) -> Callable[..., Sequence[Any]]:
        return Linker(program, self.xp, {}).function()

    def _loop(self, node: Node) -> Callable[..., Sequence[Any]]:
        """A scan as a function of arrays."""
        p = node.params
        return Linker(p["body"], self.xp, {}).loop(p["carries"], p["sequences"], p["length"], p["reverse"])

    def function(self) -> Callable[..., Sequence[Any]]:
        """The program without devices: from arrays to arrays; arrays of rank 0 are NumPy scalars."""
        self._with_numbers()
        source, names = self._begin([f"v{i}" for i in self.program.inputs])
        self._write(source, names)
        source.line(f"return [{', '.join(names[i] for i in self.program.outputs)}]")
        return source.compile()

    def loop(self, carries: int, sequences: int, length: int, reverse: bool) -> Callable[..., Sequence[Any]]:
        """The program as the body of a scan, inlined in a loop of Python."""
        self._with_numbers()
        program = self.program
        inputs, results = [f"v{i}" for i in program.inputs], program.outputs[carries:]
        carried, given, closed = inputs[:carries], inputs[carries:][:sequences], inputs[carries + sequences :]
        rows = [f"rows_{name}" for name in given]
        source, names = self._begin([*carried, *rows, *closed])
        source.objects |= {"order": range(length)[::-1] if reverse else range(length), "empty": np.empty}
        for name in (*carried, *closed):
            source.line(f"{name} = {name}[()]")
        for k, node in enumerate(program.values[i] for i in results):
            source.line(f"all_{k} = empty({(length, *node.shape)}, {node.dtype.value!r})")
        source.block("for i in order:")
        for name, row in zip(given, rows, strict=True):
            source.line(f"{name} = {row}[i]")
        self._write(source, names, kept=closed)
        for k, i in enumerate(results):
            source.line(f"all_{k}[i] = {names[i]}")
        if carried:
            source.line(f"{', '.join(carried)} = {', '.join(names[i] for i in program.outputs[:carries])}")
        source.end()
        made = [*(f"asarray({name})" for name in carried), *(f"all_{k}" for k in range(len(results)))]
        source.line(f"return [{', '.join(made)}]")
        return source.compile()

    def _with_numbers(self) -> None:
        """Compute arrays of rank 0 as NumPy scalars of the same dtype, which is several times as fast."""
        self.numbers = True
        self.reused = {i: j for i, j in self.reused.items() if self.program.values[i].shape}
        self.constants = {i: constant[()] for i, constant in self.constants.items()}

    def source(self, timed: bool = False) -> FunctionSource:
        program = self.program
        source, names = self._begin([f"a{i}" for i in program.inputs])
        kept = [*program.outputs, *program.updates.values()]
        source.objects |= {f"cell{i}": storage for i, storage in self.storages.items()}
        source.objects |= {f"d{i}": self.devices[i] for i in (*program.inputs, *kept)}
        source.objects |= {"linker": self, "errstate": np.errstate, "DeviceArray": DeviceArray}
        source.objects |= {"began": lambda: self.begun.append(time.perf_counter())}
        for i in program.inputs:
            source.line(f"if a{i}.device != d{i}: linker.misplaced({i}, a{i})")
            source.line(f"v{i} = a{i}.array")
        for i in self.storages:
            source.line(f"v{i} = cell{i}.value.array")
        source.block("with errstate(all='ignore'):")
        self._write(source, names, timed)
        if timed:
            source.line("began()")
        source.line("linker.ran = True")
        values = {i: f"DeviceArray({names[i]}, d{i})" for i in kept}
        for target, i in program.updates.items():
            source.line(f"cell{target}.value = {values[i]}")
        source.line(f"return [{', '.join(values[i] for i in program.outputs)}]")
        return source

    def _begin(self, parameters: Sequence[str]) -> tuple[FunctionSource, list[str]]:
        """A function with these parameters, and the names of the program's values in it."""
        source = FunctionSource(self.program.name, parameters)
        names = [f"{'c' if i in self.constants else 'v'}{i}" for i in range(len(self.program.values))]
        source.objects |= {names[i]: constant for i, constant in self.constants.items()}
        source.objects["asarray"] = np.asarray
        return source, names

    def _write(
        self, source: FunctionSource, names: Sequence[str], timed: bool = False, kept: Sequence[str] = ()
    ) -> None:
        """Write the lines that compute the nodes. Names in ``kept`` are not dropped."""
        for step in self.steps:
            if timed:
                source.line("began()")
            node, made = self.program.values[step.makes[0]], ", ".join(names[i] for i in step.makes)
            last = [names[i] for i in step.last if i not in self.constants and names[i] not in kept]
            where = f"{node.op} (node {step.makes[0]}), {node.source}"
            call = self._call(step, names, source.objects)
            source.step(f"[{made}]" if OPS[node.op].several else made, call, last, where)

    def _call(self, step: analyses.Step, names: Sequence[str], objects: dict[str, Any]) -> str:
        """The expression that computes a step. Its functions are added to ``objects``."""
        i = step.makes[0]
        node = self.program.values[i].node
        if node.op == "grad":
            objects[f"gradients{i}"] = partial(self.gradients, node)
            return f"gradients{i}({{{', '.join(f'{j}: {names[j]}' for j in step.reads)}}})"
        if OPS[node.op].several:
            objects[f"{node.op}{i}"] = self._loop(node) if node.op == "scan" else results(np, node, self.body)
            return f"{node.op}{i}({', '.join(names[j] for j in node.inputs)})"
        if self.numbers and not node.shape and node.op in _OPERATORS:
            return _OPERATORS[node.op].format(*(names[j] for j in node.inputs))
        call, inputs = _function(self.program, i)
        ufunc = isinstance(call, np.ufunc)
        name = call.__name__ if ufunc else f"{node.op}{i}"
        objects[name] = call
        out = f", out={names[self.reused[i]]}" if i in self.reused else ""
        text = f"{name}({', '.join(names[j] for j in inputs)}{out})"
        if out or (node.shape and (ufunc or node.op in _EXACT)) or (self.numbers and ufunc):
            return text
        # NumPy returns scalars for rank 0, and other dtypes for sums.
        objects[node.dtype.value] = np.dtype(node.dtype.value)
        return f"asarray({text}, {node.dtype.value})"

    def misplaced(self, i: int, given: Value) -> None:
        what = f"argument {self.program.values[i].params['name']!r} of {self.program.name}"
        raise PlacementError(f"{what} is to be on {self.devices[i]} and is on {_own(given).device}")

    def _executed(self) -> Execution:
        if not self.ran:
            return Execution({})
        ops, transfers = dict[int, Executed](), list[Transferred]()
        for step in self.steps:
            for i in step.makes:
                node, device = self.program.values[i], self.devices[i]
                ops[i] = Executed(None, _NAMES.get(node.op, f"numpy.{node.op}"), UNTOLD, NOTHING_TO_READ)
                if node.op == "transfer":
                    source, size = self.devices[node.inputs[0]], node.aval.nbytes
                    transfers.append(Transferred(source, device, size, i, False, "numpy.array", _COPIED))
        transfers += chain(*self.gradients.transfers.values())
        return Execution(ops, tuple(transfers), tuple(chain(*self.gradients.backward.values())))

    @cached_property
    def _timed(self) -> Callable[..., Sequence[Value]]:
        return self.source(timed=True).compile()

    def profile(self, *values: Value) -> ProfiledCall:
        """A span for each node; a backward pass is one span, on the device of its loss."""
        timed = self._timed
        self.begun.clear()
        start = time.perf_counter()
        timed(*values)
        seconds = time.perf_counter() - start
        spans, times = list[Span](), [moment - start for moment in self.begun]
        for step, begun, end in zip(self.steps, times, times[1:], strict=False):
            i = step.makes[0]
            node = self.program.values[i]
            device = self.devices[node.inputs[0] if node.op == "grad" else i]
            what = "compute", f"{node.op} (node {i})"
            if node.op == "transfer":
                what = "transfer", f"{self.devices[node.inputs[0]]} to {device}"
            spans.append(Span(device, begun, end, *what))
        return ProfiledCall(spans, seconds)


# Operators for NumPy scalars, far faster than the functions.
_OPERATORS = {
    **{"add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}", "divide": "{} / {}", "negative": "-{}"},
    **{"less": "{} < {}", "less_equal": "{} <= {}", "greater": "{} > {}", "greater_equal": "{} >= {}"},
    **{"equal": "{} == {}", "not_equal": "{} != {}", "where": "{1} if {0} else {2}"},
}
# Ops without a ufunc whose result is an array of the node's dtype, unless its rank is 0.
_EXACT = {"astype", "concat", "stack", "transfer", "where", *(name for name, op in OPS.items() if op.view)}


def _function(program: Program, i: int) -> tuple[Callable[..., Any], tuple[int, ...]]:
    node = program.values[i].node
    if node.op == "pow":
        exponent = program.values[node.inputs[1]]
        # As Python's operator for NumPy arrays: it is far faster.
        if exponent.op == "constant" and exponent.shape == () and exponent.params["value"] == 2:
            return np.square, node.inputs[:1]
    return function(np, node), node.inputs


def _reused(program: Program, steps: Sequence[analyses.Step]) -> dict[int, int]:
    """By elementwise result the operand whose memory it may take: of the same shape and dtype, its memory shared by no
    value that is read later."""
    nodes = program.values
    views = [[i] for i in range(len(nodes))]  # by value: all values that may share its memory, their maker first
    # `take` gives a view for a NumPy scalar, as indices of rank 0 are in a loop.
    view = [OPS[n.op].view or (n.op == "take" and not nodes[n.inputs[1]].shape) for n in nodes]
    for i, node in enumerate(nodes):
        if view[i]:
            views[i] = views[node.inputs[0]]
            views[i].append(i)
    # The result of a loop or a choice may be its input.
    lent = {views[j][0] for n in nodes if n.bodies for j in n.inputs}
    made = {i for step in steps for i in step.makes if not view[i]}
    own = {i for i in made if nodes[i].op != "grad" and not nodes[i].bodies} - lent
    last = {i: k for k, step in enumerate(steps) for i in step.last}
    operands: dict[int, int] = {}
    for k, step in enumerate(steps):
        i = step.makes[0]
        call = None if OPS[nodes[i].op].several else _function(program, i)[0]
        if not isinstance(call, np.ufunc) or call.signature is not None:
            continue
        for j in nodes[i].inputs:
            unused = all(last.get(v, len(steps)) < k + (v == j) for v in views[j])
            if j in own and unused and nodes[j].aval == nodes[i].aval:
                operands[i] = j
                break
    return operands
