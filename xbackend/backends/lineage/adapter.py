"""The adapter shared by all generations and modes of the Theano lineage. A program becomes one graph of the framework,
with gradients by its own ``grad``; `staged` cuts it into stages, which the mode compiles. A generation (`pytensor.py`,
`aesara.py`) has the names of its modules and its differences; a mode (`host_modes.py`, `jax_mode.py`, `mlx_mode.py`)
defines values. A backend is a class of both."""

from __future__ import annotations

import abc
import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.contract import Built
from xbackend.backends.lineage import control_flow, gradient_rules, rewrites
from xbackend.backends.lineage.generation import Generation
from xbackend.backends.lineage.indices import READ, in_range_op, known_inside
from xbackend.backends.lineage.ops import TABLE, behind, is_filled, is_shuffled
from xbackend.backends.lineage.shapes import find_lengths, lengths, shape_of
from xbackend.backends.rows import LoweringRow
from xbackend.backends.special_numbers import QUOTIENTS, ROOTS, SIGNS
from xbackend.backends.staged.assembly import LARGE, Assembly, FrameworkGraph
from xbackend.backends.staged.backend import CompiledStage
from xbackend.backends.staged.graph import toposort, transfer_op
from xbackend.backends.threads import Pool, limit_blas
from xbackend.devices import Device
from xbackend.errors import UnsupportedOperation
from xbackend.program import analyses
from xbackend.program.aval import Aval
from xbackend.program.evaluation import evaluate
from xbackend.program.ops import GENERATORS, OPS
from xbackend.program.program import Node, Program
from xbackend.program.stages import Stage, Variable

_REWRITING = ("total_graph_rewrite_time", "total_graph_opt_time")  # its names in the generations
# The recursion limit, the flags and the rules of gradients that a compilation changes are the interpreter's, which
# backends of a generation share.
_alone = threading.RLock()
# By class of backend: the op for transfers, and the op that checks indices.
_prepared: dict[type, tuple[type, type]] = {}


class LineageBackend(Generation):
    """A generation (``package``) in a mode, which sets ``linker_name`` and, when it starts, ``compile_mode``."""

    configuration: ClassVar[Mapping[str, Any]] = {}  # additional flags while a program is compiled
    digamma_dtypes: ClassVar[Sequence[str]] = ("float32", "float64")  # dtypes in which it is written out
    rows: ClassVar[Mapping[str, LoweringRow]] = {}  # lowerings that differ in this generation and mode
    unrolled: ClassVar[bool] = False  # whether the mode has no loops
    # The highest order of right gradients through a loop with one carry, one less for several carries; `None`: any.
    most_orders: ClassVar[int | None] = None
    # Whether a loop overwrites the array behind a specified shape, which is a view: then no gradient has one.
    overwrites_views: ClassVar[bool] = False
    moves_out: ClassVar[str] = ""  # the rewrite that moves ops out of a loop, after which a second gradient failed
    keeps_steps: ClassVar[bool] = False  # whether a while loop allocates memory for its maximum number of steps
    left_out: ClassVar[tuple[str, ...]] = ()  # wrong rewrites of the generation
    unchecked: ClassVar[frozenset[str]] = READ  # ops whose indices the framework does not check
    folds_lengths: ClassVar[bool] = True  # whether a graph may hold known lengths as constants
    finds_lengths: ClassVar[bool] = False  # whether the mode compiles for known lengths only
    folds = False  # unless the compiler below the framework folds constants
    linker_name: ClassVar[str]
    differentiated = False  # whether the program being lowered has gradients
    compile_mode: Any
    behind = staticmethod(behind)
    transfer = staticmethod(transfer_op)  # the op for transfers, made of the framework's classes
    added: tuple[str, ...] = (
        QUOTIENTS,
        ROOTS,
        SIGNS,
        "constants 0.0 and -0.0 told apart",
        "products of integer constants in integers",
        "absolute values of products of integers that overflow",
        gradient_rules.MENDED,
    )

    def start(self) -> Iterable[Device]:
        self.import_framework()
        known = _prepared.get(type(self))
        op, apply = self.module("graph.op").Op, self.module("graph.basic").Apply
        self.Transfer, self.InRange = known or (self.transfer(op, apply), in_range_op(op, apply))
        devices = self.start_mode()
        if known is None:
            self.prepare()
            _prepared[type(self)] = self.Transfer, self.InRange
        rewrites.multiply_integers_exactly(self.module("tensor.rewriting.math"))
        rewrites.leave_integers(self.module("tensor.rewriting.math"))
        if rewrites.count_along_axes(self.module("tensor.rewriting.math")):
            self.added = (*self.added, "products along an axis of what is multiplied by a number")
        zeros = self.T.constant(0.0), self.module("scalar.basic").constant(0.0)
        rewrites.tell_zeros_apart(*{type(zero.signature()) for zero in zeros} - {tuple})
        mode = self.compile_mode
        if "rewrites" in self.settings.options:  # as in ``Mode(optimizer="merge")``
            mode = mode.clone(optimizer=self.settings.options["rewrites"])
        self.counted: Counter[str] = Counter()
        feature = rewrites.counting(self.module("graph.features").Feature, self.counted)
        # Generations call the base class Optimizer or GraphRewriter.
        rewriter = self.module("compile.mode").AddDestroyHandler.__base__
        count = rewrites.attaching(rewriter, "xbackend_count", feature)
        self.compile_mode = mode.excluding(*self.left_out).register((count, 0))
        self.added = (*self.added, *(f"without the rewrite {name}" for name in self.left_out))
        self.folds = self.folds or not {"fast_run", "fast_compile"}.isdisjoint(mode.provided_optimizer.include)
        self._limited = limit_blas(self, None if self.blas is None else self.settings.threads)
        return devices

    def shut(self) -> None:
        super().shut()
        self._limited()

    @abc.abstractmethod
    def start_mode(self) -> Iterable[Device]:
        """Set ``compile_mode``; return the visible devices."""

    def prepare(self) -> None:
        """Patch the gaps and faults of the framework in this mode, once in an interpreter, where patches stay."""

    @abc.abstractmethod
    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> CompiledStage:
        """The innermost callable of a compiled function of the framework, for inputs of the given types."""

    def products(self) -> Pool:
        return self.blas.describe() if self.blas is not None else Pool("the framework's own choice")

    def compiler_settings(self) -> dict[str, Any]:
        own = {"compiler": str(self.framework.config.cxx), "linker": self.linker_name}
        included = ", ".join(sorted(self.compile_mode.provided_optimizer.include)) or "None"
        return super().compiler_settings() | own | {"rewrites": included}

    def rewriting(self) -> tuple[float, int]:
        profiling = vars(sys.modules[self.module("compile").ProfileStats.__module__])
        return float(next(profiling[name] for name in _REWRITING if name in profiling)), self.counted["replaced"]

    def build(self, program: Program) -> Built:
        self.differentiated = analyses.has_gradients(program)
        orders = analyses.orders_through_loops(program) if self.differentiated and not self.unrolled else []
        self._refuse(program, orders)
        self.second = max(orders, default=0) > 1
        # With floatX at float32, the framework's gradients would round Python numbers to float32.
        flags = {"floatX": "float64", **self.configuration}
        with _alone, self._deep(self._written(program)), self.changed_flags(**flags):
            return self._compile(self._lower(program))

    def _refuse(self, program: Program, orders: Sequence[int]) -> None:
        """Raise `UnsupportedOperation` for gradients through loops of an order that the framework computes wrongly."""
        several = analyses.most_carried(program) > 1
        for node, order in zip(program.values, orders, strict=False):
            if self.most_orders is not None and order > self.most_orders - several:
                raise UnsupportedOperation(
                    f"backend {self.name} cannot do gradient number {order}, one of another, through xb.scan (at "
                    f"{node.source}): {self.package} gives wrong numbers; take another backend, or write the steps as "
                    "a `for` of Python"
                )

    def _compile(self, graph: FrameworkGraph) -> Built:
        if self.folds_lengths:
            self._fold_lengths(graph)
        return Assembly(self, graph, self.Transfer).built()

    def changed_flags(self, **flags: Any) -> Any:
        return self.framework.config.change_flags(**flags)

    def variable(self, node: Node, name: str) -> Variable:
        return self.T.TensorType(node.dtype.value, shape=node.shape)(name=name)

    def _written(self, program: Program) -> int:
        """The number of nodes to lower; an unrolled loop counts those of each step."""
        return sum(
            1 + sum(map(self._written, node.bodies.values())) * (node.params.get("length", 1) if self.unrolled else 1)
            for node in program.nodes
        )

    @contextlib.contextmanager
    def _deep(self, nodes: int) -> Iterator[None]:
        """Raise the recursion limit: the lineage's gradient and rewrites recurse along the graph."""
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, 1000 + 50 * nodes))
        try:
            yield
        finally:
            sys.setrecursionlimit(before)

    def _body(self, program: Program, inputs: Sequence[Variable]) -> list[Variable]:
        graph = self._lower(program, dict(zip(program.inputs, inputs, strict=True)))
        return [graph.variables[i] for i in program.outputs]

    def _lower(self, program: Program, given: Mapping[int, Variable] = MappingProxyType({})) -> FrameworkGraph:
        """Lower the nodes of a program, except the ``given`` values."""
        graph = FrameworkGraph(program)
        targets = {i for n in program.nodes if n.op == "grad" for i in n.inputs[1:]}
        known: set[Variable] = set()

        def made(i: int, result: Variable) -> Variable:
            variable = self._exact(result, program.values[i].aval)
            # A target needs its own variable: a trivial op returns its input, a product takes the vector behind a row,
            # and an input of a body may be a predecessor of another input.
            if i in targets and (i in given or variable in known or is_shuffled(variable)):
                variable = self._exact(self.T.tensor_copy(variable), program.values[i].aval)
            known.add(variable)
            return variable

        def call(node: Node, inputs: Sequence[Variable]) -> Sequence[Variable]:
            if OPS[node.op].several:
                return self._call(node, inputs)  # type: ignore[no-any-return]
            return [self._lower_node(graph, node, inputs)]

        values = {i: made(i, variable) for i, variable in given.items()}
        evaluate(program.nodes, values, call, self._gradients, made)
        graph.variables = [values[i] for i in range(len(program.values))]
        return graph

    def _call(self, node: Node, inputs: Sequence[Variable]) -> Any:
        """The result of an op, or all results if it has several. Raises `UnsupportedOperation`."""
        try:
            if node.bodies:
                return control_flow.ROWS[node.op](self, node, inputs, self._body)
            return (self.rows.get(node.op) or TABLE[node.op])(self.T, node, inputs)
        except Exception as error:
            raise self.unsupported(f"{node.op} of {', '.join(str(v.type) for v in inputs)}", node, error) from error

    def asserted(self, variable: Variable, condition: Variable, message: str) -> Variable:
        """The variable; computing it raises an error unless the condition is true."""
        return self.module("raise_op").Assert(message)(variable, condition)

    def in_range(self, indices: Variable, length: int) -> Variable:
        """The indices of an axis; `IndexError` is raised for one out of range. A mode that cannot raise clips them."""
        checked = self.InRange(length)(indices)
        checked.tag.lengths = lengths(indices)
        return checked

    def if_else(self, condition: Variable, then: Variable, otherwise: Variable) -> Variable:
        """One of two variables by a condition; the other one is not computed, if the mode can avoid it."""
        return self.module("ifelse").ifelse(condition, then, otherwise)

    def _lower_node(self, graph: FrameworkGraph, node: Node, inputs: Sequence[Variable]) -> Variable:
        (i,) = node.outputs
        if node.op in ("input", "shared") or (node.op in GENERATORS and node.aval.size > LARGE and not is_filled(node)):
            variable = self.variable(node, f"{node.op}_{i}")
            graph.sources[variable] = graph.device(i)
            if node.op == "input":
                graph.arguments.append(variable)
            else:
                (graph.shared if node.op == "shared" else graph.resident)[i] = variable
            return variable
        if node.op == "transfer":
            return self.Transfer(graph.device(node.inputs[0]), graph.device(i))(*inputs)
        if node.op in self.unchecked:
            length = lengths(inputs[0])[node.params["axis"]]
            if not known_inside(graph.program.values[node.inputs[1]], length):
                inputs = [inputs[0], self.in_range(inputs[1], length), *inputs[2:]]
        return self._call(node, inputs)

    def _exact(self, variable: Variable, aval: Aval) -> Variable:
        """The variable with the dtype and static shape of its value, if the framework lost one of them."""
        if variable.dtype != aval.dtype.value:
            variable = self.T.cast(variable, aval.dtype.value)
        if tuple(variable.type.shape) != aval.shape:
            variable = self.T.specify_shape(variable, aval.shape)
        return variable

    def _gradients(self, node: Node, values: Mapping[int, Variable]) -> Sequence[Variable]:
        loss, *each = (values[i] for i in node.inputs)
        wrt = list(dict.fromkeys(each))
        try:
            with gradient_rules.mended(self):
                gradients = self.framework.grad(loss, wrt, disconnected_inputs="ignore")
        except Exception as error:
            raise self.unsupported("the gradient", node, error) from error
        by_target = dict(zip(wrt, gradients, strict=True))
        return [by_target[variable] for variable in each]

    def _fold_lengths(self, graph: FrameworkGraph) -> None:
        """Replace known shapes by constants, which JAX and Numba need; from another stage they would be values."""
        shape_op = self.module("tensor.shape").Shape
        for node in toposort(variable for variable, _ in graph.results()):
            for i, variable in enumerate(node.inputs):
                is_shape = variable.owner is not None and isinstance(variable.owner.op, shape_op)
                if is_shape and (known := shape_of(variable.owner.inputs[0])) is not None:
                    node.inputs[i] = self.T.constant(np.array(known, "int64"))
            if self.finds_lengths:
                find_lengths(node, self.inferred_shapes)

    def inferred_shapes(self, node: Any) -> Sequence[tuple[int, ...] | None]:
        """The shapes of an apply node's results, inferred from its inputs where the framework does not."""
        return ()

    def compile_stage(self, label: str, stage: Stage, mutable: Collection[Variable] = ()) -> CompiledStage:
        wrapped = [self.framework.In(v, mutable=v in mutable) for v in stage.inputs]
        mode = self.compile_mode.excluding(self.moves_out) if self.second and self.moves_out else self.compile_mode
        try:
            function = self.framework.function(wrapped, stage.outputs, mode=mode, on_unused_input="ignore")
            return self.innermost(function, [v.type for v in stage.inputs], stage.device)
        except Exception as error:
            raise self.unsupported(label, None, error) from error
