"""Replicas that are alike as one function under `jax.shard_map`, over a mesh of their devices. An all-reduce is a
`psum`. The root's values go by an `all_to_all`, or by a `psum` if they are the same for all: other devices have zeros.
The updated variables stay arrays over the mesh from call to call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from xbackend.backends.codegen import FunctionSource
from xbackend.backends.contract import Built, Value
from xbackend.backends.jax.devices import JAXDevices
from xbackend.backends.jax.over_mesh import AXIS, DeviceMesh, Join, MeshArray, parts
from xbackend.backends.jax.tracing import DevicePut, JaxprVariable, Tracing, function_of, is_large
from xbackend.backends.lowered import EVIDENCE as LOWERED
from xbackend.backends.lowered import LoweredOnly, LoweringReport, Part, refuse
from xbackend.backends.placement import Backward, Executed, Execution, ProfiledCall, Span, Transferred
from xbackend.backends.staged.assembly import Assembly, FrameworkGraph
from xbackend.devices import Device
from xbackend.errors import PlacementError
from xbackend.program.evaluation import evaluate
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate
from xbackend.program.replicas import Replicas
from xbackend.program.stages import Stage

FIRST = (0, 12)  # JAX before this may wait for itself on CPU devices, if calls with collectives are ahead


def why_not(jax: Any, replicas: Replicas) -> str:
    """The reason why this JAX has no mesh of these devices; empty if it has."""
    if tuple(map(int, jax.__version__.split(".")[:2])) < FIRST:
        return f"JAX {jax.__version__} may wait for itself on CPU devices"
    if len({device.kind for device in replicas.devices}) > 1:
        return "the devices are of several kinds"
    return "JAX has several processes" if jax.process_count() > 1 else ""


class _TracingReplicas(Tracing):
    """The trace of one replica, after the slices that the root sends to all."""

    def __init__(self, backend: JAXDevices, replicas: Replicas) -> None:
        super().__init__(backend, replicas.one)
        self.replicas = replicas
        self.sent = {i: each for i, each in replicas.given.items() if replicas.prior.keys() >= {*each}}
        self.first: list[JaxprVariable] = []  # the variables of `Replicas.before`

    def call(self, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
        if node.op == "all_reduce":
            return [self.jax.lax.psum(inputs[0], AXIS)]
        return super().call(node, inputs)

    def received(self, sent: Sequence[Sequence[Any]]) -> list[Any]:
        """The arrays that the root sends to this device. Arrays of one item size travel in one message."""
        jnp, lax, count = self.jax.numpy, self.jax.lax, len(self.replicas.devices)
        got: list[Any] = [each[0] for each in sent]
        bits = [[self._as(np.dtype(f"uint{8 * a.itemsize}"), a) for a in each] for each in sent]
        own: dict[int, list[int]] = {}
        for k, each in enumerate(sent):
            if all(a is each[0] for a in each):  # the same for all
                got[k] = lax.psum(bits[k][0], AXIS)
            else:
                own.setdefault(bits[k][0].itemsize, []).append(k)
        for numbers in own.values():
            flat = [jnp.reshape(jnp.stack(bits[k]), (count, -1)) for k in numbers]
            message = lax.all_to_all(jnp.concatenate(flat, axis=1), AXIS, 0, 0)[0]
            ends = np.cumsum([a.shape[1] for a in flat])[:-1]
            for k, part in zip(numbers, jnp.split(message, ends), strict=True):
                got[k] = jnp.reshape(part, sent[k][0].shape)
        return [self._as(each[0].dtype, a) for each, a in zip(sent, got, strict=True)]

    def _as(self, dtype: Any, value: Any) -> Any:
        """The elements as numbers of another dtype of the same size."""
        booleans = bool in (dtype, value.dtype)
        return value.astype(dtype) if booleans else self.jax.lax.bitcast_convert_type(value, dtype)

    def traced(self) -> FrameworkGraph:
        graph, replicas, one, before = FrameworkGraph(self.program), self.replicas, self.program, self.replicas.before
        arguments = {i: JaxprVariable(before.values[i]) for i in before.inputs}
        outside = {i: n for i, n in enumerate(one.values) if n.op in ("input", "shared") or is_large(n)}
        given = {i: JaxprVariable(n) for i, n in outside.items() if i not in self.sent}
        graph.arguments = [*arguments.values(), *(given[i] for i in one.inputs if i not in self.sent)]
        graph.shared = {i: variable for i, variable in given.items() if one.values[i].op == "shared"}
        graph.resident = {i: variable for i, variable in given.items() if is_large(one.values[i])}
        graph.sources = dict.fromkeys((*arguments.values(), *given.values()), replicas.devices[0])

        def every(*values: Any) -> list[Any]:
            first = dict(zip(arguments, values[: len(arguments)], strict=True))
            evaluate(before.nodes, first, self.call, self.gradients)
            env = dict(zip(given, values[len(arguments) :], strict=True))
            sent = [[first[replicas.prior[j]] for j in each] for each in self.sent.values()]
            env.update(zip(self.sent, self.received(sent), strict=True))
            evaluate(one.nodes, env, self.call, self.gradients)
            return [*(first[i] for i in range(len(before.values))), *(env[i] for i in range(len(one.values)))]

        sources = [*arguments.values(), *given.values()]
        specs = [self.jax.ShapeDtypeStruct(v.shape, v.dtype) for v in sources]
        jaxpr = self.jax.make_jaxpr(every, axis_env=[(AXIS, len(replicas.devices))])(*specs)
        variables = self.inlined(jaxpr, sources)
        self.first, graph.variables = variables[: len(before.values)], variables[len(before.values) :]
        return graph


class Replicated:
    """A program of replicas, compiled once for all of them."""

    def __init__(self, backend: JAXDevices, program: Program, replicas: Replicas) -> None:
        self.backend, self.program, self.replicas = backend, program, replicas
        self.mesh = DeviceMesh(backend.jax, [backend.theirs[device] for device in replicas.devices])
        tracing = _TracingReplicas(backend, replicas)
        self.graph, self.first, self.sent = tracing.traced(), tracing.first, tracing.sent
        self.one = Assembly(backend, self.graph, DevicePut)
        stage = Stage(0, replicas.devices[0], self.one.sources, self.one.distinct())
        mutable = {self.graph.shared[i] for i in replicas.one.updates}
        donated = [k for k, v in enumerate(stage.inputs) if v in mutable]
        try:
            function = function_of(backend.jax, stage)
            absent = replicas.devices if backend.settings.lower_for else ()
            self.call = self.mesh.compiled(function, stage.inputs, stage.outputs, donated, absent)
        except Exception as error:
            raise backend.unsupported(program.name, None, error) from error
        self.read: list[Device] = []  # the device of each replica, once it was executed
        program_of = f"one program of {len(replicas.devices)} replicas, "
        self.evidence = f"{program_of}device of this one's part of each result, as JAX says"
        self.of_all = f"{program_of}which all their devices execute; this one's result is used"
        self.objects, self.given, self.wholes = dict[str, Any](), list[str](), dict[int, str]()
        self._arguments()
        self.run = self._straight_line(self.call)

    def built(self) -> Built:
        if isinstance(self.call, LoweredOnly):
            return Built(refuse, lambda: Execution({}), refuse, partial(self.lowered, self.call.part))
        return Built(self.execute, self.executed, self.profile)

    def lowered(self, part: Part) -> LoweringReport:
        """The one program, lowered for devices that are not there, and the records of its nodes."""
        self.read, self.evidence, self.of_all = list(part.devices), LOWERED, LOWERED
        self.one.devices = {v: part.devices[0] for stage in self.one.plan.stages for v in stage.outputs}
        return LoweringReport((replace(part, name=self.program.name),), self.executed())

    def _arguments(self) -> None:
        """Fill ``given``: the function's arguments as Python expressions of ``objects`` and the program's arguments."""
        backend, replicas, program, one = self.backend, self.replicas, self.program, self.replicas.one
        devices, of_prior = replicas.devices, {first: i for i, first in replicas.prior.items()}

        def name(kind: str, made: Any) -> str:
            self.objects[f"{kind}{len(self.objects)}"] = made
            return f"{kind}{len(self.objects) - 1}"

        def joiner(variable: JaxprVariable) -> Join:
            return self.mesh.joiner(variable.shape, variable.dtype)

        for i in replicas.before.inputs:
            empty = np.zeros(self.first[i].shape, self.first[i].dtype)
            rest = name("rest", [backend.put(empty, device) for device in devices[1:]])
            self.given.append(f"{name('join', joiner(self.first[i]))}([v{of_prior[i]}, *{rest}])")
        for i in one.inputs:
            if i not in self.sent:
                own = ", ".join(f"v{j}" for j in replicas.given[i])
                self.given.append(f"{name('join', joiner(self.graph.variables[i]))}([{own}])")
        for i, variable in self.graph.shared.items():
            cells = [backend.storage(program.shared[j]) for j in replicas.given[i]]
            name("cells", cells)
            self.wholes[i] = name("whole", MeshArray(cells, self.mesh, joiner(variable)))
            self.given.append(f"{self.wholes[i]}.joined()")
        for i, variable in self.graph.resident.items():
            value = np.array(generate(one.values[i]))
            self.given.append(name("constant", joiner(variable)([backend.put(value, device) for device in devices])))

    def _straight_line(self, call: Callable[..., Sequence[Value]]) -> Callable[..., Sequence[Value]]:
        """A call as straight-line Python: arguments are joined to arrays, and results are parts of arrays."""
        one, program = self.replicas.one, self.program
        source = FunctionSource(program.name, [f"v{i}" for i in program.inputs])
        source.objects.update(self.objects, call=call)
        source.line(f"results = call({', '.join(self.given)})")
        for k, i in enumerate(one.updates, len(one.outputs)):
            source.line(f"{self.wholes[i]}.array = results[{k}]")
        # To JAX all parts of an array without axes are one number, and ``addressable_data`` has the first.
        axes = [len(one.values[j].shape) for j in one.outputs]
        places = [(one.outputs.index(j), k) for j, k in (self.replicas.place[i] for i in program.outputs)]
        taken = [
            f"results[{j}].addressable_{f'data({k})' if not k or axes[j] else f'shards[{k}].data'}" for j, k in places
        ]
        source.line(f"return [{', '.join(taken)}]")
        return source.compile()

    def execute(self, *values: Value) -> Sequence[Value]:
        """One execution; the first one reads the devices. Raises `PlacementError` if the first one's
        arguments are on wrong devices: JAX would give each to the replica of its device."""
        if self.read:
            return self.run(*values)
        asked = [Device.parse(self.program.values[i].device or "") for i in self.program.inputs]
        there = [self.backend.device_of(value) for value in values]
        if there != asked:
            raise PlacementError(
                f"{self.program.name} on backend {self.backend.name} takes values on {', '.join(map(str, asked))}, and "
                f"was given values on {', '.join(map(str, there))}: put them with the executable's own put"
            )
        return self._straight_line(self._watched)(*values)

    def _watched(self, *given: Value) -> Sequence[Value]:
        results = self.call(*given)
        places = zip(*map(self.mesh.places, results), strict=True)
        # One result on another device is one too many.
        found = [[self.backend.ours[theirs] for theirs in each] for each in places]
        asked = self.replicas.devices
        self.read = [next((d for d in own if d != device), device) for own, device in zip(found, asked, strict=True)]
        self.one.devices = {v: asked[0] for stage in self.one.plan.stages for v in stage.outputs}
        return results

    def executed(self) -> Execution:
        """The records of one replica, for each replica with its own device, and of the root's transfers."""
        if not self.read:
            return Execution({})
        transfers = [self._transfer(n) for n in self.program.nodes if n.op == "transfer"]
        return Execution(self._ops(), tuple(transfers), tuple(self._backward()))

    def _home(self, value: int) -> Device:
        """The executed device of a value: its replica's, or the root's."""
        return self.read[self.replicas.place.get(value, (0, 0))[1]]

    def _ops(self) -> dict[int, Executed]:
        ops, records = self.one.ops(), dict[int, Executed]()
        for i, node in enumerate(self.program.values):
            if node.op in ("input", "shared") or node.op in GENERATORS:
                continue
            if i in self.replicas.prior:
                owner = self.first[self.replicas.prior[i]].owner
                records[i] = Executed(self._home(i), str(owner.op) if owner else node.op, self.of_all)
            elif i in self.replicas.place:
                if (one := ops.get(self.replicas.place[i][0])) is not None:
                    here = replace(one, device=self._home(i), evidence=self.evidence)
                    records[i] = here if one.device else one
            else:
                records[i] = Executed(self._target(i), self._by(node.node), self.evidence)
        return records

    def _by(self, transfer: Node) -> str:
        for_each = any(transfer.inputs[0] in each and len({*each}) > 1 for each in self.sent.values())
        return "all_to_all" if for_each else "psum"

    def _target(self, transfer: int) -> Device:
        return self.read[self.replicas.devices.index(Device.parse(self.program.values[transfer].device or ""))]

    def _transfer(self, node: Node) -> Transferred:
        (source,), (target,) = node.inputs, node.outputs
        home = self._home(target) if target in self.replicas.place else self._target(target)
        return Transferred(self._home(source), home, node.aval.nbytes, target, False, self._by(node), self.evidence)

    def _backward(self) -> Iterator[Backward]:
        number = {place: i for i, place in self.replicas.place.items() if self.program.values[i].op == "grad"}
        for op in self.one.backward():
            for k, device in enumerate(self.replicas.devices):
                ran = None if op.device is None else self.read[k]
                evidence = op.evidence if ran is None else self.evidence
                yield replace(op, gradient=number[op.gradient, k], bound=device, device=ran, evidence=evidence)

    def profile(self, *values: Value) -> ProfiledCall:
        """One execution, in which each device computes until its last part of a result is there."""
        jax, spans = self.backend.jax, list[Span]()
        results: list[Value] = []

        def kept(*given: Value) -> Sequence[Value]:
            results[:] = self.call(*given)
            return results

        run = self._straight_line(kept)
        self.backend.synchronize([*values, *(self.objects[name].joined() for name in self.wholes.values())])
        start = time.perf_counter()
        run(*values)
        for number, device in enumerate(self.replicas.devices):
            jax.block_until_ready([parts(result)[number] for result in results])
            spans.append(Span(device, 0.0, time.perf_counter() - start, "compute", self.program.name))
        return ProfiledCall(spans, time.perf_counter() - start)
