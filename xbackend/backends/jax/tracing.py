"""JAX's trace of a program: the equations of its jaxpr, gradients by JAX's own `jax.vjp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xbackend.backends.jax import control_flow
from xbackend.backends.jax.devices import JAXDevices
from xbackend.backends.jax.ops import TABLE
from xbackend.backends.staged.assembly import LARGE, FrameworkGraph
from xbackend.backends.staged.graph import toposort
from xbackend.devices import Device
from xbackend.program import analyses
from xbackend.program.evaluation import Values, evaluate, nodes_of
from xbackend.program.ops import GENERATORS, OPS
from xbackend.program.program import Node, Program, Value, generate
from xbackend.program.stages import Stage

MADE_HERE = GENERATORS - {"full", "eye"}  # by NumPy; XLA makes the others where they are used
# Equations that call a jaxpr, and the parameter that has it.
INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


def is_large(node: Node | Value) -> bool:
    return node.op in MADE_HERE and node.aval.size > LARGE


class JaxprVariable:
    """An input or output of an equation. ``owner`` is the equation that makes it; a constant has its ``value``."""

    __slots__ = ("dtype", "owner", "shape", "value")

    def __init__(self, aval: Any, owner: Equation | Copied | None = None, value: Any = None) -> None:
        self.shape, self.dtype, self.owner, self.value = aval.shape, np.dtype(aval.dtype), owner, value


class Equation:
    """A primitive of JAX applied to variables. A transfer has a `DevicePut` as its ``op``."""

    __slots__ = ("inputs", "op", "outputs", "params", "primitive")

    def __init__(self, eqn: Any, inputs: Sequence[JaxprVariable], op: Any) -> None:
        self.primitive, self.params, self.inputs, self.op = eqn.primitive, eqn.params, inputs, op
        self.outputs = [JaxprVariable(v.aval, self) for v in eqn.outvars]

    def results(self, values: Sequence[Any]) -> Sequence[Any]:
        params = self.primitive.get_bind_params(self.params)
        functions, params = params if isinstance(params, tuple) else ((), params)  # a pair before JAX 0.12
        results = self.primitive.bind(*functions, *values, **params)
        return results if self.primitive.multiple_results else [results]


class Copied:
    """An equation for a copy of its input, which is not in the jaxpr."""

    __slots__ = ("inputs", "op", "outputs")

    def __init__(self, variable: JaxprVariable) -> None:
        self.inputs, self.op = [variable], "copy"
        self.outputs = [JaxprVariable(variable, self)]

    def results(self, values: Sequence[Any]) -> Sequence[Any]:
        from jax import numpy

        return [numpy.array(value, copy=True) for value in values]


def function_of(jax: Any, stage: Stage) -> Callable[..., tuple[Any, ...]]:
    """The function of a stage, for JAX to compile."""
    equations = toposort(stage.outputs, stage.inputs)

    def function(*values: Any) -> tuple[Any, ...]:
        known = dict(zip(stage.inputs, values, strict=True))
        for equation in equations:
            results = equation.results([known.get(v, v.value) for v in equation.inputs])
            known.update(zip(equation.outputs, results, strict=True))
        return tuple([known[v] if v in known else jax.numpy.asarray(v.value) for v in stage.outputs])

    return function


class DevicePut(NamedTuple):
    source: Device
    target: Device

    def __str__(self) -> str:
        return "device_put"


class Steps:
    """Lowering of a program, or of a body of it, to calls that JAX traces."""

    def __init__(self, backend: JAXDevices, program: Program) -> None:
        import jax

        self.jax, self.backend, self.program = jax, backend, program
        self.differentiated = 0  # the number of gradients around the current trace
        # The identity of its first argument. Both arguments get the cotangent: the second one shows a node's gradient.
        self.seen_at = jax.custom_vjp(lambda x, leaf: x)
        self.seen_at.defvjp(lambda x, leaf: (x, None), lambda _, gradient: (gradient, gradient))

    def body(self, program: Program) -> Callable[..., Sequence[Any]]:
        """The body of a loop or a choice as a function for JAX to trace."""
        steps = Steps(self.backend, program)

        def function(*given: Any) -> list[Any]:
            values = dict(zip(program.inputs, given, strict=True))
            evaluate(program.nodes, values, steps.call, steps.gradients)
            return [self.jax.numpy.asarray(values[i]) for i in program.outputs]

        return function

    def call(self, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
        if node.op == "transfer":
            ends = (self.program.values[i].device or "" for i in (*node.inputs, *node.outputs))
            source, target = (self.backend.theirs[Device.parse(end)] for end in ends)
            return [self.jax.device_put(inputs[0], target, src=source)]
        if node.op in MADE_HERE:
            return [generate(node)]
        try:
            if node.bodies:
                return control_flow.ROWS[node.op](self.jax, node, inputs, self.body)
            made = TABLE[node.op](self.jax.numpy, node, inputs)
            return made if OPS[node.op].several else [made]
        except Exception as error:
            raise self.backend.unsupported(node.op, node, error) from error

    def gradients(self, node: Node, values: Values) -> Sequence[Any]:
        """The gradients of a node. `jax.vjp` traces the nodes between targets and loss again; the new values replace
        the earlier ones."""
        program, (loss, *each) = self.program, node.inputs
        wrt = set(each)
        between, dependent = analyses.between(program, loss, wrt)
        changed = {j for j in between if j not in wrt or j in dependent}
        nodes = nodes_of(program, changed)

        def again(leaves: Values) -> tuple[Any, Values]:
            def seen_at(j: int, value: Any) -> Any:
                return self.seen_at(value, leaves[j]) if j in wrt else value

            own = {j: value for j, value in values.items() if j not in changed}
            own |= {j: seen_at(j, own[j]) for j in wrt - dependent}
            self.differentiated += 1
            evaluate(nodes, own, self.call, self.gradients, seen_at)
            self.differentiated -= 1
            return own[loss], {j: own[j] for j in changed}

        avals = {j: program.values[j].aval for j in wrt}
        leaves = {j: self.jax.numpy.zeros(shape, dtype.value) for j, (shape, dtype) in avals.items()}
        value, pullback, seen = self.jax.vjp(again, leaves, has_aux=True)
        (gradients,) = pullback(self.jax.numpy.ones_like(value))
        if not self.differentiated:  # inside of another gradient, the outer trace keeps its values
            values.update(seen)
        return [gradients[j] for j in each]


class Tracing(Steps):
    def traced(self) -> FrameworkGraph:
        """The program as the equations of its jaxpr. XLA merges equal ones of a stage."""
        graph, nodes = FrameworkGraph(self.program), self.program.values
        given = {i: JaxprVariable(n) for i, n in enumerate(nodes) if n.op in ("input", "shared") or is_large(n)}
        graph.sources = {variable: graph.device(i) for i, variable in given.items()}
        graph.arguments = [given[i] for i in self.program.inputs]
        graph.shared = {i: variable for i, variable in given.items() if nodes[i].op == "shared"}
        graph.resident = {i: variable for i, variable in given.items() if is_large(nodes[i])}

        def every(*values: Any) -> list[Any]:
            env = dict(zip(given, values, strict=True))
            evaluate(self.program.nodes, env, self.call, self.gradients)
            return [env[i] for i in range(len(nodes))]

        specs = [self.jax.ShapeDtypeStruct(v.shape, v.dtype) for v in given.values()]
        graph.variables = self.inlined(self.jax.make_jaxpr(every)(*specs), [*given.values()])
        return graph

    def inlined(self, closed: Any, inputs: Sequence[JaxprVariable]) -> list[JaxprVariable]:
        """The results of a jaxpr, with the jaxprs that it calls inlined."""
        known = dict(zip(closed.jaxpr.invars, inputs, strict=True))
        for v, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            known[v] = JaxprVariable(v.aval, None, value)

        def read(v: Any) -> JaxprVariable:
            return JaxprVariable(v.aval, None, v.val) if hasattr(v, "val") else known[v]

        for eqn in closed.jaxpr.eqns:
            given, name = [read(v) for v in eqn.invars], eqn.primitive.name
            inner = eqn.params[INLINED[name]] if name in INLINED else None
            outputs = self.inlined(inner, given) if inner is not None else self.noted(eqn, given).outputs
            known.update(zip(eqn.outvars, outputs, strict=True))
        return [read(v) for v in closed.jaxpr.outvars]

    def noted(self, eqn: Any, inputs: Sequence[JaxprVariable]) -> Equation:
        """The equation for the graph. A ``device_put`` without a device only makes an array and is no transfer."""
        op: Any = eqn.primitive
        if eqn.primitive.name == "device_put" and eqn.params["devices"][0] is not None:
            source, target = (self.backend.ours[eqn.params[k][0]] for k in ("srcs", "devices"))
            op = DevicePut(source, target)
        return Equation(eqn, inputs, op)
