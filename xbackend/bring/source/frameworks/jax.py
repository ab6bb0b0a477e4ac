"""JAX as its users write it: gradients of functions, loops of `jax.lax`, state as arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xbackend.bring.source import functions
from xbackend.bring.source.dialect import Dialect
from xbackend.bring.source.expressions import Expr, call, indexed, method, named, tupled
from xbackend.bring.source.layout import Block, Bracket, Line
from xbackend.bring.source.rows import Row, along, as_numpy, of_arrays, place, shape_text, sided, slices, transposed
from xbackend.bring.source.traits import dtypes
from xbackend.bring.source.writer import Scope, Use, inside, nested, reads
from xbackend.program import analyses
from xbackend.program.dtypes import DType
from xbackend.program.program import Node


def _dtype(dtype: DType) -> str:
    return "jnp.bool_" if dtype is DType.bool else f"jnp.{dtype.value}"


def _written(name: str, indexed_by_take: bool) -> Row:
    def row(use: Use) -> Expr:
        index = place(use) if indexed_by_take else slices(use, ())
        at = indexed(Expr(f"{use.arrays[0].at(9)}.at"), *(index or ["..."]))
        return call(f"{at.text}.{name}", use.operands[-1])

    return row


def _conv2d(use: Use) -> Expr:
    above, below, left, right = use.params["padding"]
    return call(
        "lax.conv_general_dilated",
        *use.arrays,
        window_strides=tupled(list(map(str, use.params["strides"]))),
        padding=f"[({above}, {below}), ({left}, {right})]",
        dimension_numbers='("NHWC", "HWIO", "NHWC")',
    )


_TABLE: dict[str, Row] = {
    **as_numpy("jnp", "jnp.int32", "special", "jax.scipy.linalg.solve_triangular"),
    "argsort": along("jnp.argsort"),
    "searchsorted": lambda use: method(sided("jnp.searchsorted")(use), "astype", "jnp.int64"),
    "permute_dims": transposed(lambda x, axes: method(x, "transpose", *axes)),
    "slice_set": _written("set", False),
    "slice_add": _written("add", False),
    "take_set": _written("set", True),
    "take_add": _written("add", True),
    "astype": lambda use: method(use.arrays[0], "astype", _dtype(use.node.dtype)),
    "conv2d": _conv2d,
}


class JAX(Dialect):
    spoken = "JAX"
    module = "jnp"
    head = "import jax"
    imports: ClassVar[Mapping[str, str]] = {
        "jnp": "import jax.numpy as jnp",
        "np": "import numpy as np",
        "lax": "from jax import lax",
        "special": "from jax.scipy import special",
    }
    rows: ClassVar[Mapping[str, Row]] = {**_TABLE, "transfer": of_arrays("jax.device_put")}
    gradients_of_functions = True

    def dtype(self, dtype: DType) -> str:
        return _dtype(dtype)

    def row(self, use: Use) -> Expr:
        if use.node.op == "transfer":
            return call("jax.device_put", use.arrays[0], self.devices[use.node.device or ""])
        return super().row(use)

    def begin(self, scope: Scope) -> None:
        """Inputs go to the devices that they are on."""
        if not self.devices or scope.depth or scope.program is not self.program:
            return
        for i in (*self.program.inputs, *self.program.shared):
            device = self.program.values[i].device
            if device and device in self.devices:
                name = scope.exprs[i].text
                scope.say(f"{name} = jax.device_put({name}, {self.devices[device]})")

    def gradient(self, scope: Scope, node: Node) -> None:
        """The way from the targets to the loss is a function, whose gradient is taken."""
        program, (loss, *each) = scope.program, node.inputs
        wrt = list(dict.fromkeys(each))
        _, dependent = analyses.between(program, loss, wrt)
        way = inside(program, node)
        beside = [i for i in scope.plan.beside.get(node.outputs[0], ()) if i != loss]
        valued = loss in scope.plan.beside.get(node.outputs[0], ())
        inner = scope.child()
        read = reads(program, node, True)
        for i in sorted(read - set(wrt)):
            inner.exprs[i] = scope.known(i)
        inner.exprs |= {i: e for i, e in scope.exprs.items() if i not in way and i not in inner.exprs and e.number}
        parameters, arguments = [], []
        for i in wrt:
            if i in dependent:
                parameters.append(inner.names.new(f"{scope.hint(i)}_change"))
                aval = program.values[i].aval
                arguments.append(f"jnp.zeros({shape_text(aval.shape)}, dtype={_dtype(aval.dtype)})")
                inner.shifts[i] = parameters[-1]
            else:
                parameters.append(scope.name(i))
                arguments.append(parameters[-1])
                inner.exprs[i] = named(parameters[-1])
        for i in (loss, *beside):
            inner.hints[i] = scope.hint(i)
        nodes = [n for n in program.nodes if any(i in way for i in n.outputs)]
        inner.run(nodes, [loss, *beside])
        name = scope.names.new(f"{scope.hint(loss)}_fn")

        def build(exprs: list[Expr]) -> Expr:
            if not beside:
                return exprs[0].array
            return functions.several_results([exprs[0], Expr(functions.group(exprs[1:]))])

        inner.returns([loss, *beside], build)
        scope.define(name, parameters, inner)
        self._call(scope, node, name, arguments, (wrt, valued, beside))

    def _call(
        self, scope: Scope, node: Node, name: str, arguments: Sequence[str], given: tuple[list[int], bool, list[int]]
    ) -> None:
        """The statement that calls the gradient of a function. ``given``: its targets, whether it gives the loss too,
        and the values that it gives beside it."""
        wrt, valued, beside = given
        options = [f"argnums={tuple(range(len(wrt)))}"] if len(wrt) > 1 else []
        options += ["has_aux=True"] if beside else []
        transform = "jax.value_and_grad" if valued else "jax.grad"
        function = f"{transform}({', '.join([name, *options])})"
        targets = dict[int, str]()
        for target, i in zip(node.inputs[1:], node.outputs, strict=True):
            if target in targets:
                scope.exprs[i] = named(targets[target])
                continue
            text = scope.exprs[target].text if target in scope.exprs else scope.hint(target)
            scope.uses[i] += 0 if scope.uses[i] else 1
            targets[target] = scope.claim(i, f"{text if text.isidentifier() else 'x'}_grad")
        gradients = nested([targets[i] for i in wrt])
        others = nested([scope.claim(i) for i in beside])
        value = scope.claim(node.inputs[0]) if valued else "_"
        left = gradients
        if valued and beside:
            left = [[value, others], gradients]
        elif valued:
            left = [value, gradients]
        elif beside:
            left = [gradients, others]
        end = Bracket(f"{function}(", tuple(arguments), ")")
        scope.bind(left, Expr(str(end), 9, end))

    def scan(self, scope: Scope, node: Node) -> None:
        body, (init, xs, _) = node.params["body"], functions.parts(node)
        name, inner, carried, rows = functions.step(scope, node)
        carry = functions.loop_names(carried, "carry") if carried else "_"
        row = functions.loop_names(rows, "x") if rows else ("_" if carried else "_x")
        functions.unpacked(inner, carried, "carry")
        functions.unpacked(inner, rows, "x")
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
            length = None if xs else node.params["length"]
            return call(
                "lax.scan",
                name,
                begin,
                over if xs else None,
                length=length,
                reverse="True" if node.params["reverse"] else None,
            )

        scope.bind(left, scope.fitting([*init, *xs], loop))
        scope.shifted(node.outputs)

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
        scope.shifted(node.outputs)

    def cond(self, scope: Scope, node: Node) -> None:
        functions.choice(scope, node, "lax.cond")

    def script(self) -> list[Line | Block]:
        return [*([] if self.devices else [Line("@jax.jit")]), *self.stateful()]

    def preamble(self) -> list[Line | Block]:
        wide = dtypes(self.program) & {DType.int64, DType.float64}
        lines: list[Line | Block] = [Line('jax.config.update("jax_enable_x64", True)')] if wide else []
        if self.devices:
            lines.append(Line('CPUS = jax.devices("cpu")'))
        for number, (device, name) in enumerate(self.devices.items()):
            kind, _, index = device.partition(":")
            chosen = f"CPUS[{number} % len(CPUS)]" if kind == "cpu" else f'jax.devices("{kind}")[{index}]'
            lines.append(Line(f"{name} = {chosen}"))
        return lines


DIALECT = JAX
