"""TensorFlow as its users write it: `tf.function`, `tf.Variable`, `tf.GradientTape`, `tf.scan`, `tf.device`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from xbackend.bring.source import functions, rows
from xbackend.bring.source.dialect import Dialect
from xbackend.bring.source.expressions import Expr, call, indexed, infix, listed, tupled
from xbackend.bring.source.layout import Block, Statement
from xbackend.bring.source.names import escaped
from xbackend.bring.source.rows import SourceRow
from xbackend.bring.source.traits import connected
from xbackend.bring.source.writer import Scope, Tape, Use, inside, nested
from xbackend.program import analyses
from xbackend.program.dtypes import DType
from xbackend.program.program import Node
from xbackend.program.shapes import slice_lengths


def _numbers(values: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _transposed(use: Use) -> Expr:
    axes = tuple(use.params["axes"])
    return call("tf.transpose", use.arrays[0], None if axes == (1, 0) else _numbers(axes))


def _indices(use: Use) -> Expr:
    """Indices from the beginning: TensorFlow takes no negative ones."""
    index, n = use.operands[1], use.avals[0].shape[use.params["axis"]]
    return Expr(str(int(index.text) % n)) if index.number else infix("%", index, Expr(str(n)))


def _take_written(use: Use) -> Expr:
    """`take_set` and `take_add`. TensorFlow writes along the first axis: another one is moved there. It refuses to
    write into an array without elements."""
    x, _, value = use.arrays
    if 0 in use.shape:
        return x
    axis, rank, inner = use.params["axis"], len(use.shape), len(use.avals[1].shape)
    first = [axis, *(a for a in range(rank) if a != axis)]
    moved = range(axis, axis + inner)
    index = _indices(use)
    places = Expr(f"[[{index.text}]]") if not inner else indexed(index, "...", "None")
    if not inner:
        value = indexed(value, "None")
    elif axis:
        others = (a for a in range(rank - 1 + inner) if a not in moved)
        value = call("tf.transpose", value, _numbers([*moved, *others]))
    name = "update" if use.node.op == "take_set" else "add"
    x = call("tf.transpose", x, _numbers(first)) if axis else x
    written = call(f"tf.tensor_scatter_nd_{name}", x, places, value)
    return call("tf.transpose", written, _numbers([first.index(a) for a in range(rank)])) if axis else written


def _slice_add(use: Use) -> Expr:
    """A sum with the padded value. Floats are padded with -0.0, which changes no number, as 0.0 changes -0.0."""
    (x, value), params = use.arrays, use.params
    if set(params["steps"]) <= {1}:
        each = zip(params["starts"], use.shape, slice_lengths(params), strict=True)
        around = [f"[{start}, {n - start - m}]" for start, n, m in each]
        zero = f"tf.constant(-0.0, tf.{use.node.dtype.value})" if use.node.dtype.is_floating else None
        return call("tf.add", x, call("tf.pad", value, listed(around), constant_values=zero) if around else value)
    return _update(use, infix("+", indexed(x, *rows.slices(use, ())), value))


def _update(use: Use, value: Expr) -> Expr:
    """Write at the positions of elements: TensorFlow has no assignment to a part of a tensor."""
    if not use.shape:
        return value
    size = int(np.prod(use.shape))
    positions = f"tf.reshape(tf.range({size}), {_numbers(use.shape)})[{', '.join(rows.slices(use, ()))}]"
    flat = call("tf.reshape", use.arrays[0], "[-1]")
    places = call("tf.reshape", positions, "[-1, 1]")
    written = call("tf.tensor_scatter_nd_update", flat, places, call("tf.reshape", value, "[-1]"))
    return call("tf.reshape", written, _numbers(use.shape))


def _astype(use: Use) -> Expr:
    if use.node.dtype is DType.bool:
        return call("tf.not_equal", use.arrays[0], 0)
    return call("tf.cast", use.arrays[0], f"tf.{use.node.dtype.value}")


def _logarithm(use: Use) -> Expr:
    base = f"np.log({use.node.op.removeprefix('log')}.0)"
    divisor = f'{base}.astype("float32")' if use.node.dtype is DType.float32 else base
    return infix("/", call("tf.math.log", use.arrays[0]), Expr(divisor))


def _trunc(use: Use) -> Expr:
    x = use.arrays[0]
    return infix("*", call("tf.sign", x), call("tf.floor", call("tf.abs", x)))


def _conv2d(use: Use) -> Expr:
    above, below, left, right = use.params["padding"]
    padding = f"[[0, 0], [{above}, {below}], [{left}, {right}], [0, 0]]" if any(use.params["padding"]) else '"VALID"'
    return call("tf.nn.conv2d", *use.arrays, strides=_numbers(use.params["strides"]), padding=padding)


def _searchsorted(use: Use) -> Expr:
    values = use.arrays[1] if len(use.shape) == 1 else call("tf.reshape", use.arrays[1], "[-1]")
    side = '"right"' if use.params["right"] else None
    found = call("tf.searchsorted", use.arrays[0], values, side=side, out_type="tf.int64")
    return found if len(use.shape) == 1 else call("tf.reshape", found, _numbers(use.shape))


def _of_two(name: str) -> SourceRow:
    """A call whose first operand has a dtype: a number takes its dtype from the first operand only."""
    return lambda use: call(name, use.arrays[0], *use.operands[1:])


def _diagonal(use: Use) -> Expr:
    """TensorFlow refuses a diagonal outside of the matrices, which is empty."""
    if 0 in use.shape:
        return call("tf.zeros", tupled(use.shape), dtype=f"tf.{use.node.dtype.value}")
    return call("tf.linalg.diag_part", use.arrays[0], k=use.params["offset"] or None)


_MATH = ("log", "log1p", "expm1", "erf", "erfc", "erfinv", "digamma")
_PLAIN = {
    **{"isnan": "tf.math.is_nan", "isinf": "tf.math.is_inf", "isfinite": "tf.math.is_finite"},
    **{"gammaln": "tf.math.lgamma", "expit": "tf.sigmoid", "ceil": "tf.math.ceil"},
    **{name: f"tf.{name}" for name in ("atan2", "pow", "maximum", "minimum")},
}
_TABLE: dict[str, SourceRow] = {
    **{name: rows.function(f"tf.{name}") for name in (*rows.UNARY, *rows.ARCS)},
    **{name: rows.function(f"tf.math.{name}") for name in _MATH},
    **{name: _of_two(theirs) for name, theirs in _PLAIN.items()},
    **dict.fromkeys(("log2", "log10"), _logarithm),
    "trunc": _trunc,
    **rows.OPERATORS,
    "floor_divide": rows.floor_divide(lambda quotient: call("tf.round", quotient)),
    "bitwise_invert": rows.of_arrays("tf.bitwise.invert"),
    "where": lambda use: call("tf.where", use.arrays[0], use.operands[1].array, use.operands[2]),
    **{name: rows.reduction(f"tf.reduce_{name}") for name in ("sum", "prod", "max", "min", "mean", "any", "all")},
    **{name: rows.along(f"tf.{name}") for name in ("argmax", "argmin", "sort")},
    "argsort": lambda use: call(
        "tf.cast", call("tf.argsort", use.arrays[0], axis=use.params["axis"], stable="True"), "tf.int64"
    ),
    "cumulative_sum": rows.along("tf.cumsum"),
    "cumulative_prod": rows.along("tf.math.cumprod"),
    "searchsorted": _searchsorted,
    "reshape": rows.reshaped("tf.squeeze", lambda x, shape: call("tf.reshape", x, _numbers(shape))),
    "permute_dims": _transposed,
    "broadcast_to": lambda use: call("tf.broadcast_to", use.arrays[0], _numbers(use.shape)),
    "diagonal": _diagonal,
    "slice": rows.sliced,
    "slice_set": lambda use: _update(use, use.arrays[1]),
    "slice_add": _slice_add,
    "take": lambda use: call("tf.gather", use.arrays[0], _indices(use), axis=use.params["axis"] or None),
    **dict.fromkeys(("take_set", "take_add"), _take_written),
    "take_along_axis": lambda use: call("tf.experimental.numpy.take_along_axis", *use.arrays, axis=use.params["axis"]),
    "concat": rows.joined("tf.concat"),
    "stack": rows.joined("tf.stack"),
    "astype": _astype,
    "matmul": rows.product(  # the operator takes matrices only; functions take vectors
        lambda a, x: call("tf.linalg.matvec", a, x),
        lambda x, b: call("tf.linalg.matvec", b, x, transpose_a="True"),
        lambda x, y: call("tf.tensordot", x, y, 1),
    ),
    "conv2d": _conv2d,
    **{name: rows.of_arrays(f"tf.linalg.{name}") for name in rows.FACTORS},
    "solve_triangular": lambda use: call(
        "tf.linalg.triangular_solve", *use.arrays, lower=None if use.params["lower"] else "False"
    ),
    "svdvals": lambda use: call("tf.linalg.svd", use.arrays[0], compute_uv="False"),
    "transfer": rows.of_arrays("tf.identity"),
    "svd": rows.of_arrays("tf.linalg.svd"),  # statements: `TensorFlowDialect.stated`
    "qr": lambda use: call("tf.linalg.qr", use.arrays[0], full_matrices="True" if use.params["full"] else None),
}


class TensorFlowDialect(Dialect):
    spoken = "TensorFlow"
    module = "tf"
    head = "import tensorflow as tf"
    counting, making = "range", "constant"
    imports: ClassVar[Mapping[str, str]] = {"np": "import numpy as np"}
    rows: ClassVar[Mapping[str, SourceRow]] = _TABLE
    repeated = frozenset({"floor_divide", "trunc", "slice_add"})

    def dtype(self, dtype: DType) -> str:
        return f"tf.{dtype.value}"

    def typed(self, text: str, dtype: DType) -> str:
        return f"tf.constant({text}, dtype={self.dtype(dtype)})"

    def from_file(self, text: str) -> Expr:
        return call("tf.constant", text)

    def generated(self, scope: Scope, node: Node) -> Expr:
        """TensorFlow has no identities beside the diagonal and no ranges of unsigned integers: they are constants, as
        are ranges with fractions, and empty ones."""
        start, step = node.params.get("start"), node.params.get("step")
        counts = isinstance(start, int) and isinstance(step, int) and step and not node.dtype.is_unsigned
        other = (node.op == "eye" and node.params["k"]) or (node.op == "arange" and not (counts and node.shape[0]))
        return self.constant(scope, node) if other else super().generated(scope, node)

    def filled(self, node: Node) -> Expr:
        made = super().filled(node)
        if not made.text.startswith("tf.full"):
            return made
        return call("tf.fill", tupled(node.shape), self.number(node.params["fill_value"], node.dtype).typed)

    def same(self, scope: Scope, node: Node) -> int | None:
        """A transfer is its operand: TensorFlow moves operands to the device of an op."""
        if node.op == "transfer":
            scope.name(node.inputs[0])
            return node.inputs[0]
        return super().same(scope, node)

    def place(self, device: str | None) -> str:
        return self.devices.get(device or "", "")

    def stated(self, scope: Scope, node: Node) -> bool:
        """`svd`: TensorFlow gives the singular values first, and the right vectors as columns."""
        if node.op != "svd":
            return False
        left, values, right = (scope.claim(i) for i in node.outputs)
        columns = scope.names.new("v") if right != "_" else "_"
        full = "True" if node.params["full"] else None
        made = call("tf.linalg.svd", scope.name(node.inputs[0]), full_matrices=full)
        scope.bind([values, left, columns], made, scope.device(node.outputs[0]))
        if right != "_":
            scope.say(f"{right} = tf.linalg.matrix_transpose({columns})", device=scope.device(node.outputs[2]))
        return True

    def before(self, scope: Scope, node: Node) -> None:
        """Open the tapes of all gradients before the first node on a path to a loss, the first gradient's innermost."""
        if scope.tapes:
            return
        left = [n for n in scope.nodes if n.op == "grad" and n.outputs[0] not in scope.exprs]
        ways = {i for n in left for i in inside(scope.program, n)}
        if node not in left and ways.isdisjoint(node.outputs):
            return
        for gradient in reversed(left):
            tape = Tape(scope.names.new("tape"), gradient, scope.statements)
            block = Block(Statement(f"with tf.GradientTape() as {tape.name}:"))
            scope.statements.append(block)
            scope.statements, scope.depth = block.body, scope.depth + 1
            scope.tapes.append(tape)
            known = [i for i in dict.fromkeys(gradient.inputs[1:]) if i in scope.exprs and not self._variable(scope, i)]
            self._watch(scope, tape, known)

    def _variable(self, scope: Scope, i: int) -> bool:
        return scope.program is self.program and i in self.program.shared

    def _watch(self, scope: Scope, tape: Tape, values: Sequence[int]) -> None:
        names = [scope.name(i) for i in values]
        if names:
            scope.say(f"{tape.name}.watch({names[0] if len(names) == 1 else _numbers(names)})")

    def after(self, scope: Scope, node: Node) -> None:
        for tape in scope.tapes:
            self._watch(scope, tape, [i for i in node.outputs if i in tape.node.inputs[1:]])

    def gradient(self, scope: Scope, node: Node) -> None:
        loss, *wrt = node.inputs
        name = scope.name(loss)
        tape = scope.tapes.pop()
        scope.statements, scope.depth = tape.around, scope.depth - 1
        over = [scope.name(i) for i in wrt]
        targets = scope.claim_gradients(node, over)
        ignored = None if connected(scope.program, loss, wrt) else "tf.UnconnectedGradients.ZERO"
        sources = listed(over) if len(over) > 1 else over[0]
        made = call(f"{tape.name}.gradient", name, sources, unconnected_gradients=ignored)
        scope.bind(nested(targets), made)
        if any(n.op == "take" for n in scope.program.nodes):  # the gradient of `tf.gather` is `tf.IndexedSlices`
            for target in targets:
                scope.say(f"{target} = tf.convert_to_tensor({target})")

    def scan(self, scope: Scope, node: Node) -> None:
        """`tf.scan` stacks carries, and nothing else: the results of the steps are carries that begin with zeros."""
        body, (init, xs, _) = node.params["body"], functions.parts(node)
        name, inner, carried, elements = functions.step(scope, node)
        ys = [body.values[i].aval for i in body.outputs[len(init) :]]
        whole = len(carried) + len(ys)
        state = inner.names.new("state") if whole > 1 else (carried[0] if carried else "_state")
        if carried and whole > 1:
            unused = ["_" if len(ys) == 1 else "*_"] if ys else []
            inner.say(f"{', '.join([*carried, *unused])} = {state}")
        row = functions.packed(inner, elements, "x") if elements else "_"
        inner.run(body.nodes, body.outputs)
        inner.returns(body.outputs, functions.several_results)
        scope.define(name, [state, row], inner)
        packed = [scope.names.new(f"{one}_steps") for one in carried]
        each = [scope.claim(i, "each") for i in node.outputs[len(init) :]]
        zeros = [Expr(f"tf.zeros({tupled(a.shape)}, {self.dtype(a.dtype)})") for a in ys]

        def loop(exprs: list[Expr]) -> Expr:
            over = functions.group(exprs[len(init) :]) if xs else f"tf.range({node.params['length']})"
            begin = functions.group([*(e.array for e in exprs[: len(init)]), *zeros])
            return call("tf.scan", name, over, initializer=begin, reverse="True" if node.params["reverse"] else None)

        left = [*packed, *each]
        made = scope.fitting([*init, *xs], loop)
        scope.bind(left if len(left) > 1 else left[0], made, scope.device(node.outputs[0]))
        place = 0 if node.params["reverse"] else -1
        for i, one, carry in zip(node.outputs, packed, carried, strict=False):
            if scope.uses[i] or i in scope.targets:
                scope.say(f"{scope.claim(i, f'last_{carry}')} = {one}[{place}]", device=scope.device(i))

    def while_loop(self, scope: Scope, node: Node) -> None:
        init, _, closed = functions.parts(node)
        made, carried = functions.loop(scope, node, [scope.known(i) for i in closed], listed_state=True)
        names, _ = functions.names_of_results(scope, node, carried)
        loop = scope.fitting(init, lambda e: call("tf.while_loop", *made, listed([x.array for x in e])))
        scope.bind(names if len(names) > 1 else f"({names[0]},)", loop, scope.device(node.outputs[0]))
        if analyses.has_gradients(self.program):
            for name in names:
                if name != "_":
                    scope.say(f"{name} = tf.stop_gradient({name})")

    def cond(self, scope: Scope, node: Node) -> None:
        functions.choice(scope, node, "tf.cond")

    def preamble(self) -> list[Statement | Block]:
        lines: list[Statement | Block] = (
            [Statement('CPUS = tf.config.list_logical_devices("CPU")')] if self.devices else []
        )
        for place, (device, name) in enumerate(self.devices.items()):
            kind, _, number = device.partition(":")
            chosen = f"CPUS[{place} % len(CPUS)].name" if kind == "cpu" else f'"/{kind.upper()}:{number}"'
            lines.append(Statement(f"{name} = {chosen}"))
        return lines

    def variable(self, i: int) -> Expr:
        return call("tf.Variable", self.initial(i), name=f'"{escaped(self.program.shared[i].name)}"')

    def script(self) -> list[Statement | Block]:
        self.write_variables()
        self.top = grouped(self.top)
        scope = self.begun()
        if self.program.updates:
            self._assign(scope)
        scope.returns(self.program.outputs, self.structured)
        scope.statements = grouped(scope.statements)
        return [Statement("@tf.function"), *self.defined(scope)]

    def _assign(self, scope: Scope) -> None:
        """Assign the variables' new values, after all reads of the old ones."""
        variables = set(self.above.values())
        for i in (*self.program.outputs, *self.program.updates.values()):
            if i in scope.pending:
                scope.name(i)
            elif scope.exprs[i].text in variables:
                name = scope.names.new(f"old_{scope.exprs[i].text}")
                scope.say(f"{name} = tf.identity({scope.exprs[i].text})")
                scope.exprs[i] = Expr(name)
        for target, new in self.program.updates.items():
            scope.say("", call(f"{self.above[target]}.assign", scope.exprs[new].array))


def grouped(statements: Sequence[Statement | Block]) -> list[Statement | Block]:
    """The statements, those with a device in its scope."""
    found: list[Statement | Block] = []
    open_on = ""
    for one in statements:
        if isinstance(one, Block):
            found.append(Block(one.head, grouped(one.body), one.function))
            open_on = ""
        elif one.device and one.device == open_on:
            last = found[-1]
            assert isinstance(last, Block)
            last.body.append(one)
        elif one.device:
            found.append(Block(Statement(f"with tf.device({one.device}):"), [one]))
            open_on = one.device
        else:
            found.append(one)
            open_on = ""
    return found


DIALECT = TensorFlowDialect
