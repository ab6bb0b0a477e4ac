"""JAX as its users write it: gradients of functions, loops of `jax.lax`, state as arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from xbackend.bring.source import functions
from xbackend.bring.source.dialect import Dialect
from xbackend.bring.source.expressions import ATOM, Expr, call, indexed, method, tupled
from xbackend.bring.source.layout import Block, Statement
from xbackend.bring.source.rows import WRITING, SourceRow, along, as_numpy, of_arrays, sided, transposed, written_place
from xbackend.bring.source.traits import dtypes
from xbackend.bring.source.writer import Scope, Targets, Use, inside, nested, reads
from xbackend.program import analyses
from xbackend.program.dtypes import DType
from xbackend.program.program import Node


def _written(use: Use) -> Expr:
    at = indexed(Expr(f"{use.arrays[0].at(ATOM)}.at"), *(written_place(use) or ["..."]))
    return call(f"{at.text}.{use.node.op.rpartition('_')[2]}", use.operands[-1])


def _conv2d(use: Use) -> Expr:
    above, below, left, right = use.params["padding"]
    return call(
        "lax.conv_general_dilated",
        *use.arrays,
        window_strides=tupled(use.params["strides"]),
        padding=f"[({above}, {below}), ({left}, {right})]",
        dimension_numbers='("NHWC", "HWIO", "NHWC")',
    )


_TABLE: dict[str, SourceRow] = {
    **as_numpy("jnp", "jnp.int32", "special", "jax.scipy.linalg.solve_triangular"),
    "argsort": along("jnp.argsort"),
    "searchsorted": lambda use: method(sided("jnp.searchsorted")(use), "astype", "jnp.int64"),
    "permute_dims": transposed(lambda x, axes: method(x, "transpose", *axes)),
    **dict.fromkeys(WRITING, _written),
    "conv2d": _conv2d,
    "transfer": of_arrays("jax.device_put"),  # with a device: `JAXDialect.row`
}


class JAXDialect(Dialect):
    spoken = "JAX"
    module = "jnp"
    head = "import jax"
    imports: ClassVar[Mapping[str, str]] = {
        "jnp": "import jax.numpy as jnp",
        "np": "import numpy as np",
        "lax": "from jax import lax",
        "special": "from jax.scipy import special",
    }
    rows: ClassVar[Mapping[str, SourceRow]] = _TABLE
    gradients_of_functions = True

    def row(self, use: Use) -> Expr:
        if use.node.op == "transfer":
            return call("jax.device_put", use.arrays[0], self.devices[use.node.device or ""])
        return super().row(use)

    def number(self, value: Any, dtype: DType) -> Expr:
        """Left in 32 bits, JAX reads a Python integer as int32: one that int32 has not gets its dtype."""
        made = super().number(value, dtype)
        large = dtype is DType.uint32 and value > DType.int32.most
        return replace(made, text=made.typed) if large else made

    def begin(self, scope: Scope) -> None:
        """Put each input on its device."""
        for i in self.arguments:
            device = self.program.values[i].device
            if device and device in self.devices:
                name = scope.exprs[i].text
                scope.say(f"{name} = jax.device_put({name}, {self.devices[device]})")

    def gradient(self, scope: Scope, node: Node) -> None:
        """The gradient of an inner function, which computes the path from the targets to the loss."""
        program, (loss, *each) = scope.program, node.inputs
        wrt = list(dict.fromkeys(each))
        _, dependent = analyses.between(program, loss, wrt)
        way = inside(program, node)
        given = scope.beside.get(node.outputs[0], [])
        valued, beside = loss in given, [i for i in given if i != loss]
        inner = scope.child()
        for i in sorted(reads(program, node, True) - set(wrt)):
            inner.exprs[i] = scope.known(i)
        inner.exprs |= {i: e for i, e in scope.exprs.items() if i not in way and i not in inner.exprs and e.number}
        parameters, arguments = [], []
        for i in wrt:
            if i in dependent:
                parameters.append(inner.names.new(f"{scope.hint(i)}_change"))
                aval = program.values[i].aval
                arguments.append(f"jnp.zeros({tupled(aval.shape)}, dtype={self.dtype(aval.dtype)})")
                inner.shifts[i] = parameters[-1]
            else:
                parameters.append(scope.name(i))
                arguments.append(parameters[-1])
                inner.exprs[i] = Expr(parameters[-1])
        inner.hints.update({i: scope.hint(i) for i in (loss, *beside)})
        nodes = [n for n in program.nodes if any(i in way for i in n.outputs)]
        inner.run(nodes, [loss, *beside])
        name = scope.names.new(f"{scope.hint(loss)}_fn")

        def build(exprs: list[Expr]) -> Expr:
            others = [Expr(functions.group(exprs[1:]))] if beside else []
            return functions.several_results([exprs[0], *others])

        inner.returns([loss, *beside], build)
        scope.define(name, parameters, inner)
        numbers = tuple(range(len(wrt))) if len(wrt) > 1 else None
        transform = "jax.value_and_grad" if valued else "jax.grad"
        function = call(transform, name, argnums=numbers, has_aux="True" if beside else None).text
        targets = dict[int, str]()
        for target, i in zip(each, node.outputs, strict=True):
            if target in targets:
                scope.exprs[i] = Expr(targets[target])
                continue
            text = scope.exprs[target].text if target in scope.exprs else scope.hint(target)
            scope.uses[i] = scope.uses[i] or 1
            targets[target] = scope.claim(i, f"{text if text.isidentifier() else 'x'}_grad")
        gradients = nested([targets[i] for i in wrt])
        others = nested([scope.claim(i) for i in beside])
        left: Targets = [gradients, others] if beside else gradients
        if valued:
            value = scope.claim(loss)
            left = [[value, others] if beside else value, gradients]
        scope.bind(left, call(function, *arguments))

    def scan(self, scope: Scope, node: Node) -> None:
        body, (init, xs, _) = node.params["body"], functions.parts(node)
        name, inner, carried, rows = functions.step(scope, node)
        carry = functions.packed(inner, carried, "carry") if carried else "_"
        row = functions.packed(inner, rows, "x") if rows else ("_" if carried else "_x")
        inner.run(body.nodes, body.outputs)
        count = len(init)

        def build(exprs: list[Expr]) -> Expr:
            return functions.several_results([Expr(functions.group(part)) for part in (exprs[:count], exprs[count:])])

        inner.returns(body.outputs, build)
        scope.define(name, [carry, row], inner)
        last, each = functions.names_of_results(scope, node, carried)
        left = [nested(last), nested(each)]

        def loop(exprs: list[Expr]) -> Expr:
            begin, over = functions.group(exprs[:count]), functions.group(exprs[count:])
            length, backwards = None if xs else node.params["length"], "True" if node.params["reverse"] else None
            return call("lax.scan", name, begin, over if xs else None, length=length, reverse=backwards)

        scope.bind(left, scope.fitting([*init, *xs], loop))

    def while_loop(self, scope: Scope, node: Node) -> None:
        init, _, closed = functions.parts(node)
        stopped = analyses.has_gradients(self.program)
        captured = [scope.known(i) for i in closed]
        if stopped:
            captured = [one if one.number else call("lax.stop_gradient", one) for one in captured]
        made, carried = functions.loop(scope, node, captured, listed_state=False)
        names, _ = functions.names_of_results(scope, node, carried)

        def loop(exprs: list[Expr]) -> Expr:
            state = functions.group(exprs)
            return call("lax.while_loop", *made, f"lax.stop_gradient({state})" if stopped else state)

        scope.bind(nested(names), scope.fitting(init, loop))

    def cond(self, scope: Scope, node: Node) -> None:
        functions.choice(scope, node, "lax.cond")

    def script(self) -> list[Statement | Block]:
        return [*([] if self.devices else [Statement("@jax.jit")]), *super().script()]

    def preamble(self) -> list[Statement | Block]:
        wide = dtypes(self.program) & {DType.int64, DType.float64}
        lines: list[Statement | Block] = [Statement('jax.config.update("jax_enable_x64", True)')] if wide else []
        if self.devices:
            lines.append(Statement('CPUS = jax.devices("cpu")  # as many as JAX_NUM_CPU_DEVICES says'))
        for number, (device, name) in enumerate(self.devices.items()):
            kind, _, index = device.partition(":")
            chosen = f"CPUS[{number} % len(CPUS)]" if kind == "cpu" else f'jax.devices("{kind}")[{index}]'
            lines.append(Statement(f"{name} = {chosen}"))
        return lines


DIALECT = JAXDialect
