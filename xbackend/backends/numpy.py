"""NumPy as a backend: the oracle, on as many pretend devices as asked for.

A pretend device is a tag that every value carries. Each step checks the tags of what it is given, so that a program in
which a transfer is missing fails here. Gradients are autograd's (https://github.com/HIPS/autograd).
"""

from __future__ import annotations

import math
import platform
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xbackend.backends import threads
from xbackend.backends.base import Backend, Built, Value
from xbackend.backends.placement import Backward, Executed, Execution, Span, Transferred, with_folded
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendUnavailable, PlacementError
from xbackend.program import analyses
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate

if TYPE_CHECKING:
    from xbackend.program.shared import SharedVariable

Function = Callable[..., Any]


class DeviceArray(NamedTuple):
    """An array and the pretend device that it is on."""

    array: np.ndarray
    device: Device


_EVIDENCE = "tag of the result"
_WENT_BACK = "autograd went back through the node"
Env = dict[int, DeviceArray]  # by node


def _slices(params: Mapping[str, Any]) -> tuple[slice, ...]:
    return tuple(map(slice, params["starts"], params["stops"], params["steps"]))


def _integer_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Negative exponents give an unspecified number, as in the standard; NumPy would raise."""
    result: np.ndarray = np.power(x, np.maximum(y, 0))
    return result


def _power(xp: Any) -> Function:
    """``power``, which takes the square root where the exponent is one number, 0.5: that of -inf differs."""

    def power(x: Any, y: Any) -> Any:
        if y.ndim == 0 and y == 0.5:
            x = xp.where(x == -np.inf, np.inf, x + 0.0)
        return xp.power(x, y)

    return power


# Ops whose name in NumPy is another than the standard's.
_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "round": "rint",
    "transfer": "array",
}


def _product(xp: Any, x: Any, axes: Sequence[int]) -> Any:
    """A product as a tree of products of two: autograd's own gradient divides by the factors, which may be 0."""
    kept = [a for a in range(x.ndim) if a not in axes]
    count, shape = math.prod(x.shape[a] for a in axes), tuple(x.shape[a] for a in kept)
    if not count:
        return xp.ones(shape, x.dtype)
    factors = xp.reshape(xp.transpose(x, (*axes, *kept)), (count, *shape))
    while count > 1:
        half, odd = divmod(count, 2)
        products = factors[:half] * factors[half : 2 * half]
        factors, count = xp.concatenate([products, factors[2 * half :]]) if odd else products, half + odd
    return factors[0]


def _function(xp: Any, node: Node) -> Function:
    """The function of ``xp`` (numpy or autograd.numpy) that computes a node from its inputs."""
    p = node.params
    special: dict[str, Callable[[], Function]] = {
        "astype": lambda: lambda x: x.astype(p["dtype"].value if hasattr(p["dtype"], "value") else p["dtype"]),
        "reshape": lambda: lambda x: xp.reshape(x, p["shape"]),
        "permute_dims": lambda: lambda x: xp.transpose(x, p["axes"]),
        # autograd's gradient takes no new axes, so they are made before.
        "broadcast_to": lambda: (
            lambda x: xp.broadcast_to(xp.reshape(x, (1,) * (len(node.shape) - x.ndim) + x.shape), p["shape"])
        ),
        "concat": lambda: lambda *x: xp.concatenate(x, axis=p["axis"]),
        "slice": lambda: lambda x: x[_slices(p)],
        "cumulative_sum": lambda: lambda x: xp.cumsum(x, axis=p["axis"]),
        "argmax": lambda: lambda x: np.asarray(xp.argmax(x, axis=p["axis"])),
        "argmin": lambda: lambda x: np.asarray(xp.argmin(x, axis=p["axis"])),
        # NumPy warns of the mean of nothing, which is NaN as the standard says.
        "mean": lambda: lambda x: xp.mean(x, axis=p["axis"]) if x.size else np.full(node.shape, np.nan),
        "prod": lambda: lambda x: np.prod(x, axis=p["axis"]) if xp is np else _product(xp, x, p["axis"]),
        "pow": lambda: _power(xp) if node.dtype.is_floating else _integer_power,
    }
    if node.op in special:
        return special[node.op]()
    function: Function = getattr(xp, _NAMES.get(node.op, node.op))
    if "axis" in p:
        axis = p["axis"]
        return lambda x: function(x, axis=axis)
    return function


class NumPyBackend(Backend):
    """NumPy, op by op in the order of the program."""

    def start(self) -> Iterable[Device]:
        try:
            import autograd.numpy
        except ImportError as error:
            raise BackendUnavailable(
                f"backend numpy takes its gradients from autograd, which cannot be imported: {error}; "
                "pip install autograd"
            ) from error
        self._xp = autograd.numpy
        if self.settings.threads is not None:
            from threadpoolctl import threadpool_limits

            threadpool_limits(self.settings.threads, user_api="blas")
        every = [Device("cpu", i) for i in range(self.settings.virtual_devices)]
        return choose_visible(every, self.settings.visible)

    def put(self, array: np.ndarray, device: Device) -> Value:
        return DeviceArray(np.array(array), device)

    def get(self, value: Value) -> np.ndarray:
        return np.array(value.array)

    def device_of(self, value: Value) -> Device:
        device: Device = value.device
        return device

    def synchronize(self, values: Iterable[Value]) -> None:
        """NumPy has computed before it returns."""

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        return [DeviceArray(np.array(array), device)]

    def read_storage(self, storage: Any) -> np.ndarray:
        return np.array(storage[0].array)

    def write_storage(self, storage: Any, array: np.ndarray) -> None:
        storage[0] = DeviceArray(np.array(array), storage[0].device)

    def build(self, program: Program) -> Built:
        storages = {i: self.storage(v) for i, v in program.shared.items()}
        return _Interpreter(program, self._xp, storages).built()

    def describe(self) -> dict[str, Any]:
        from importlib.metadata import version

        return {
            "blas": threads.pools(),
            "devices": [str(d) for d in self.devices],
            "threads": {p["library"]: p["threads"] for p in threads.pools()},
            "versions": {"python": platform.python_version(), "numpy": np.__version__, "autograd": version("autograd")},
        }


class _Interpreter:
    """A program as a list of steps, each computing one node (or all gradients of one loss)."""

    def __init__(self, program: Program, xp: Any, storages: Mapping[int, Any]) -> None:
        self.program = program
        self.alone = threading.Lock()  # the records are those of one call
        self.xp = xp
        self.storages = storages
        self.devices = [Device.parse(n.device or "") for n in program.nodes]
        self.ran: dict[int, Executed] = {}
        self.transfers: list[Transferred] = []
        self.backward: dict[int, list[Backward]] = {}  # by loss
        self.constants: dict[int, DeviceArray] = {}
        self.handed_on = self._primitive()
        self.going_back = False  # whether autograd is in a backward pass, whose values are new
        self.gradients = analyses.gradients(program)
        self.steps = self._steps()

    def _primitive(self) -> Function:
        """What autograd sees of a transfer: ``f(x, i, back)`` hands a value on through node i, or its gradient back."""
        from autograd.extend import defvjp, primitive

        mine = weakref.proxy(self)  # autograd keeps every function that it knows a gradient of

        @primitive  # type: ignore[untyped-decorator]
        def handed_on(x: np.ndarray, i: int, back: bool) -> np.ndarray:
            if mine.going_back:
                ends = (mine.devices[mine.program.nodes[i].inputs[0]], mine.devices[i])
                source, target = ends[::-1] if back else ends
                evidence = f"autograd went through node {i}"
                made = Transferred(source, target, x.nbytes, None, True, "autograd.make_vjp", evidence)
                mine.transfers.append(made)
            return x

        defvjp(handed_on, lambda result, x, i, back: lambda g: handed_on(g, i, not back), argnums=(0,))
        function: Function = handed_on
        return function

    def _steps(self) -> list[tuple[int, Callable[[Env], None], tuple[int, ...]]]:
        """What computes the nodes, in their order: the node, the call, and the nodes that nothing reads after it: their
        memory is free as soon as in a user's code."""
        program, steps = self.program, list[tuple[int, Callable[[Env], None]]]()
        first = {group[0]: loss for loss, group in self.gradients.items()}
        for i, node in enumerate(program.nodes):
            if i in first:
                steps.append((i, partial(self._differentiate, first[i])))
            elif node.op in GENERATORS:
                self.constants[i] = DeviceArray(generate(node), self.devices[i])
            elif node.op not in ("input", "shared", "grad"):
                steps.append((i, partial(self._step, i, _function(np, node))))
        # A backward pass reads whatever the loss was made from.
        kept = set(range(len(program.nodes))) if self.gradients else {*program.outputs, *program.updates.values()}
        found: list[tuple[int, Callable[[Env], None], tuple[int, ...]]] = []
        for i, step in reversed(steps):
            used = {i, *program.nodes[i].inputs}
            found.append((i, step, tuple(used - kept)))
            kept |= used
        return found[::-1]

    def built(self) -> Built:
        return Built(self.execute, self._executed, self.profile)

    def _executed(self) -> Execution:
        if self.gradients and not self.backward:
            return Execution(dict(self.ran), tuple(self.transfers))
        backward = with_folded(self.program, [b for found in self.backward.values() for b in found])
        return Execution(dict(self.ran), tuple(self.transfers), backward)

    def execute(self, *values: Value) -> Sequence[Value]:
        with self.alone:
            env = self._begin(values)
            for _, step, last in self.steps:
                step(env)
                for i in last:
                    del env[i]
            return self._end(env)

    def profile(self, *values: Value) -> Sequence[Span]:
        """A span for each node; a backward pass is one, on the device of its loss."""
        env, spans = self._begin(values), list[Span]()
        start = time.perf_counter()
        for i, step, last in self.steps:
            node, begun = self.program.nodes[i], time.perf_counter() - start
            step(env)
            end = time.perf_counter() - start
            device = self.devices[node.inputs[0]] if node.op == "grad" else env[i].device
            if node.op == "transfer":
                spans.append(Span(device, begun, end, "transfer", f"{self.devices[node.inputs[0]]} to {device}"))
            else:
                spans.append(Span(device, begun, end, "compute", f"{node.op} (node {i})"))
            for j in last:
                del env[j]
        self._end(env)
        return spans

    def _begin(self, values: Sequence[Value]) -> Env:
        self.transfers.clear()
        env: Env = dict(self.constants)
        env.update(zip(self.program.inputs, values, strict=True))
        env.update((i, storage[0]) for i, storage in self.storages.items())
        return env

    def _end(self, env: Env) -> Sequence[Value]:
        program = self.program
        for target, expression in [(t, env[e]) for t, e in program.updates.items()]:
            self.storages[target][0] = expression
        return tuple([env[i] for i in program.outputs])

    def _step(self, i: int, function: Function, env: Env) -> None:
        node, device = self.program.nodes[i], self.devices[i]
        arrays = []
        for j in node.inputs:
            value = env[j]
            if value.device != device and node.op != "transfer":
                raise PlacementError(
                    f"{node.op} (node {i}) runs on {device} but its input, node {j}, is on {value.device}: "
                    "a transfer is missing"
                )
            arrays.append(value.array)
        with np.errstate(all="ignore"):
            result = np.asarray(function(*arrays), dtype=node.dtype.value)
        env[i] = DeviceArray(result, device)
        self.ran[i] = Executed(env[i].device, f"numpy.{node.op}", _EVIDENCE)
        if node.op == "transfer":
            self.transfers.append(
                Transferred(value.device, env[i].device, result.nbytes, i, False, "numpy.array", _EVIDENCE)
            )

    def _differentiate(self, loss: int, env: Env) -> None:
        """All gradients of one loss, in one backward pass of autograd over the nodes between them."""
        from autograd import make_vjp

        group = self.gradients[loss]
        wrt = list(dict.fromkeys(self.program.nodes[i].inputs[1] for i in group))
        _, dependent = analyses.between(self.program, loss, set(wrt))
        leaves = tuple(np.zeros_like(env[i].array) if i in dependent else env[i].array for i in wrt)
        with np.errstate(all="ignore"):
            pullback, value = make_vjp(lambda leaves: self._replay(loss, wrt, leaves, env))(leaves)
            self.going_back = True
            try:
                cotangents = dict(zip(wrt, pullback(np.ones_like(value)), strict=True))
            finally:
                self.going_back = False
        for i in group:
            node = self.program.nodes[i]
            result = np.asarray(cotangents[node.inputs[1]], dtype=node.dtype.value)
            env[i] = DeviceArray(result, self.devices[i])
            self.ran[i] = Executed(env[i].device, "autograd.make_vjp", _EVIDENCE)
        if loss not in self.backward:
            self.backward[loss] = [self._went_back(i, group[0]) for i in self._way_back(loss, set(wrt))]

    def _way_back(self, loss: int, wrt: set[int]) -> list[int]:
        """The nodes that autograd goes back through, from the loss on: a gradient goes through floating point only."""
        nodes = self.program.nodes
        between, dependent = analyses.between(self.program, loss, wrt)
        inside = {i for i in between if nodes[i].dtype.is_floating and (i not in wrt or i in dependent)}
        found, todo = set[int](), [loss]
        while todo:
            i = todo.pop()
            if i in inside and i not in found:
                found.add(i)
                todo.extend(nodes[i].inputs)
        return sorted(found, reverse=True)

    def _went_back(self, i: int, gradient: int) -> Backward:
        node = self.program.nodes[i]
        where = self.devices[node.inputs[0] if node.op == "transfer" else i]
        return Backward(gradient, i, None, where, f"autograd of {node.op}", _WENT_BACK)

    def _replay(self, loss: int, wrt: Sequence[int], leaves: Sequence[Any], env: Mapping[int, DeviceArray]) -> Any:
        """The loss as a function of ``wrt``, with everything that does not depend on them as it is.

        The leaf of one of them that depends on others is a zero that is added to it, so that its gradient is seen
        beside those of what it is made of.
        """
        nodes, given, values = self.program.nodes, dict(zip(wrt, leaves, strict=True)), {}
        needed, dependent = analyses.between(self.program, loss, set(wrt))
        first: dict[tuple[int, ...], dict[int, Any]] = {}
        for i in needed:
            node = nodes[i]
            if i in given and i not in dependent:
                values[i] = given[i]
                continue
            arguments = [values[j] if j in values else env[j].array for j in node.inputs]
            if node.op == "grad":
                values[i] = self._inner_gradient(i, values, env, first)
            else:
                handed_on = partial(self.handed_on, i=i, back=False)
                values[i] = (handed_on if node.op == "transfer" else _function(self.xp, node))(*arguments)
            if i in dependent:
                values[i] = values[i] + given[i]
        return values[loss]

    def _inner_gradient(
        self, i: int, values: Mapping[int, Any], env: Mapping[int, DeviceArray], done: dict[Any, Any]
    ) -> Any:
        """A gradient inside of a function that is being differentiated."""
        from autograd import make_vjp

        loss, wrt = self.program.nodes[i].inputs
        if (loss, wrt) not in done:
            outer = {**{j: v.array for j, v in env.items()}, **values}
            mixed = {j: DeviceArray(v, self.devices[j]) for j, v in outer.items()}
            pullback, value = make_vjp(lambda leaf: self._replay(loss, [wrt], [leaf], mixed))(outer[wrt])
            done[loss, wrt] = pullback(self.xp.ones_like(value))
        return done[loss, wrt]
