"""Random graphs of a framework's own functions: `test_drawn_graphs` brings them in.

It runs in an environment of the framework and writes programs, inputs, results, gradients and the code of each graph.
Each line is computed while its graph is made, and left out unless its result depends on arithmetic only: nothing near a
jump (`MARGIN`), outside of a function's domain, or large. A difference is then a defect.
"""

from __future__ import annotations

import random
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import drawn_functions
import numpy as np
from bring_helpers import Brought, weights_of, write
from drawn_operands import CHOSEN, OPERANDS, Drawn, fits

MARGIN = 0.01  # how far numbers stay from a jump or a kink
LARGEST = {"f": 30.0, "i": 1000, "u": 1000, "b": 1}  # larger numbers are made smaller
ZERO = 1e-9  # the largest gradient that may be none
ELEMENTS = 60  # largest size of an array
SHAPES = [(), (3,), (2, 3), (3, 3), (1, 3), (2, 3, 3), (3, 1)]
ARGUMENTS = ("float64", "float32", "int32", "int64", "bool")  # dtypes that a value may have to become an argument
LETTER = r"\{(\w+)\}"


class Rejected(Exception):
    """There is no operand for a line, or its result depends on more than arithmetic."""


@dataclass(frozen=True)
class Graph:
    """A graph as code, with all of its numbers. ``smooth``: the values through which a gradient may pass; ``lengths``:
    the types of the arguments have their lengths, where a framework leaves the choice."""

    arguments: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]
    smooth: frozenset[str]
    lengths: bool = True

    @property
    def code(self) -> str:
        given = [f"# {name}: {self.arrays[name].dtype.name} {self.arrays[name].tolist()}" for name in self.arguments]
        body = [f"    {name} = {text}" for name, text in self.lines]
        head = f"def graph({', '.join(self.arguments)}):"
        return "\n".join([*given, head, *body, f"    return [{', '.join(self.outputs)}]\n"])

    def function(self, scope: Mapping[str, Any]) -> Callable[..., Any]:
        own = dict(scope)
        exec(compile(self.code, "<drawn graph>", "exec"), own)
        found: Callable[..., Any] = own["graph"]
        return found


class Framework:
    """How a framework computes a graph, and how it comes in."""

    names: ClassVar[Mapping[str, str]]  # modules by the names that the code has for them
    calm: ClassVar[Mapping[str, str]]  # code that makes large numbers smaller, by the kind of their dtype
    functions: ClassVar[Sequence[Drawn]]

    def __init__(self) -> None:
        self.scope = {"np": np, **{name: import_module(module) for name, module in self.names.items()}}

    def results(self, graph: Graph) -> list[np.ndarray]:
        raise NotImplementedError

    def whole(self, graph: Graph) -> None:
        """Raises the framework's error where it refuses what it computed line by line, as some lengths are unknown."""
        self.results(graph)

    def gradients(self, graph: Graph, weights: Sequence[Any], of: Sequence[int]) -> list[Any]:
        """Of the weighted sum of the results, for the arguments numbered ``of``; `None` where it does not depend on
        one."""
        raise NotImplementedError

    def program(self, graph: Graph, number: int) -> Any:
        raise NotImplementedError


class JAX(Framework):
    names: ClassVar = {
        **{"jax": "jax", "jnp": "jax.numpy", "lax": "jax.lax", "special": "jax.scipy.special"},
        **{"linalg": "jax.scipy.linalg"},
    }
    calm: ClassVar = {"f": "jnp.tanh(({}) / 30.0)", "i": "({}) % 10"}
    functions: ClassVar = drawn_functions.JAX

    def __init__(self) -> None:
        super().__init__()
        self.scope["jax"].config.update("jax_enable_x64", True)

    def _called(self, graph: Graph) -> tuple[Callable[..., Any], list[Any]]:
        asarray = self.scope["jnp"].asarray
        return graph.function(self.scope), [asarray(graph.arrays[name]) for name in graph.arguments]

    def results(self, graph: Graph) -> list[np.ndarray]:
        function, arrays = self._called(graph)
        return [np.asarray(one) for one in function(*arrays)]

    def gradients(self, graph: Graph, weights: Sequence[Any], of: Sequence[int]) -> list[Any]:
        function, arrays = self._called(graph)

        def loss(*chosen: Any) -> Any:
            given = [chosen[of.index(i)] if i in of else one for i, one in enumerate(arrays)]
            return sum((one * w).sum() for one, w in zip(function(*given), weights, strict=True) if w is not None)

        # Compiled as a whole: else each op is, for each shape.
        slopes = self.scope["jax"].jit(self.scope["jax"].grad(loss, argnums=tuple(range(len(of)))))
        return list(slopes(*(arrays[i] for i in of)))

    def program(self, graph: Graph, number: int) -> Any:
        function, arrays = self._called(graph)
        return import_module("xbackend.bring.jax.given").from_jax(function, *arrays)


class TensorFlow(Framework):
    names: ClassVar = {"tf": "tensorflow"}
    calm: ClassVar = {"f": "tf.tanh(({}) / 30.0)", "i": "({}) % 10"}
    functions: ClassVar = drawn_functions.TENSORFLOW

    def _called(self, graph: Graph) -> tuple[Callable[..., Any], list[Any]]:
        return graph.function(self.scope), [self.scope["tf"].constant(graph.arrays[name]) for name in graph.arguments]

    def results(self, graph: Graph) -> list[np.ndarray]:
        function, arrays = self._called(graph)
        return [np.asarray(one) for one in function(*arrays)]

    def gradients(self, graph: Graph, weights: Sequence[Any], of: Sequence[int]) -> list[Any]:
        function, arrays = self._called(graph)
        tf = self.scope["tf"]
        with tf.GradientTape() as tape:
            tape.watch([arrays[i] for i in of])
            pairs = zip(function(*arrays), weights, strict=True)
            loss = sum(tf.reduce_sum(one * w) for one, w in pairs if w is not None)
        slopes = tape.gradient(loss, [arrays[i] for i in of])
        return [one if one is None else tf.convert_to_tensor(one) for one in slopes]

    def program(self, graph: Graph, number: int) -> Any:
        function, arrays = self._called(graph)
        traced = self.scope["tf"].function(function, autograph=False)
        return import_module("xbackend.bring.tensorflow.given").from_tensorflow(traced, *arrays)

    def whole(self, graph: Graph) -> None:
        function, arrays = self._called(graph)
        self.scope["tf"].function(function, autograph=False).get_concrete_function(*arrays)


class PyTensor(Framework):
    """The graph as it was written is computed, op by op. Every other graph comes in with PyTensor's rewrites."""

    names: ClassVar = {"pytensor": "pytensor", "pt": "pytensor.tensor", "ops": "pytensor.ifelse"}
    calm: ClassVar = {"f": "pt.tanh(({}) / 30.0)", "i": "({}) % 10"}
    functions: ClassVar = drawn_functions.PYTENSOR

    def _made(self, graph: Graph) -> tuple[list[Any], list[Any]]:
        """Arguments and results. A length of 1 is always known: else it would not broadcast."""
        arrays, tensor = [graph.arrays[name] for name in graph.arguments], self.scope["pt"].tensor
        shapes = [tuple(n if n == 1 or graph.lengths else None for n in one.shape) for one in arrays]
        named = zip(graph.arguments, arrays, shapes, strict=True)
        arguments = [tensor(name, dtype=array.dtype.name, shape=shape) for name, array, shape in named]
        return arguments, [self.scope["pt"].as_tensor(one) for one in graph.function(self.scope)(*arguments)]

    def _computed(self, graph: Graph, arguments: list[Any], results: list[Any]) -> list[np.ndarray]:
        pytensor = self.scope["pytensor"]
        mode = pytensor.compile.mode.Mode("py", None)
        function = pytensor.function(arguments, results, mode=mode, on_unused_input="ignore")
        return [np.asarray(one) for one in function(*(graph.arrays[name] for name in graph.arguments))]

    def results(self, graph: Graph) -> list[np.ndarray]:
        return self._computed(graph, *self._made(graph))

    def gradients(self, graph: Graph, weights: Sequence[Any], of: Sequence[int]) -> list[Any]:
        arguments, results = self._made(graph)
        loss = sum((one * w).sum() for one, w in zip(results, weights, strict=True) if w is not None)
        wrt = [arguments[i] for i in of]
        try:
            slopes = self.scope["pytensor"].grad(loss, wrt, disconnected_inputs="ignore")
        except TypeError as error:
            # Of an argsort of integers: https://github.com/pymc-devs/pytensor/blob/main/pytensor/tensor/sort.py
            if "illegally  returned an integer-valued variable" not in str(error):
                raise
            return [None] * len(of)
        return list(self._computed(graph, arguments, slopes))

    def program(self, graph: Graph, number: int) -> Any:
        arguments, results = self._made(graph)
        given = {one: graph.arrays[one.name] for one in arguments}
        bring = import_module("xbackend.bring.lineage.given").from_graph
        return bring(results, given, rewrites="stabilize" if number % 2 else None)


FRAMEWORKS = {"jax": JAX, "tensorflow": TensorFlow, "pytensor": PyTensor}


class Drawing:
    """A graph in the making."""

    def __init__(self, framework: Framework, number: int, again: int) -> None:
        self.framework, self.rng = framework, random.Random(f"{number} {again}")
        self.arrays: dict[str, np.ndarray] = {}
        self.lines: list[tuple[str, str]] = []
        self.rough: set[str] = set()
        floats = self.rng.choice([("float64",), ("float64",), ("float64",), ("float32",), ("float64", "float32")])
        numbers = np.random.default_rng(number)
        for i in range(self.rng.randint(2, 4)):
            dtype = self.rng.choice(floats) if i < 2 else self.rng.choice([*floats, "int32", "bool"])
            shape = self.rng.choice(SHAPES)
            array = numbers.normal(size=shape) * 1.5 if dtype in floats else numbers.integers(-5, 6, shape)
            self.arrays[f"x{i}"] = np.asarray(array > 0 if dtype == "bool" else array).astype(dtype)
        self.arguments = tuple(self.arrays)
        for _ in range(self.rng.randint(4, 14)):
            try:
                self._line(self.rng.choice(framework.functions))
            except Rejected:
                continue

    def graph(self) -> Graph:
        """The graph, whose results are the values that nothing uses."""
        used = {name for _, text in self.lines for name in names_in(text)}
        outputs = tuple(name for name, _ in self.lines if name not in used) or self.arguments[:1]
        smooth = frozenset(self.arrays).difference(self.rough)
        return Graph(self.arguments, tuple(self.lines), outputs, self.arrays, smooth, self.rng.random() < 0.5)

    def _line(self, drawn: Drawn) -> None:
        letters = dict.fromkeys(re.findall(LETTER, drawn.text))
        chosen: dict[str, str] = {}
        for letter in letters:
            if letter in OPERANDS:
                fitting = [n for n in self.arrays if fits(letter, n, chosen, self.arrays)]
                require(fitting)
                chosen[letter] = self.rng.choice(fitting[-4:] if self.rng.random() < 0.6 else fitting)
        first = self.arrays[next(iter(chosen.values()))]
        numbers = {n: CHOSEN[n](self.rng, first) for n in letters if n not in chosen}
        text = re.sub(LETTER, lambda found: str({**chosen, **numbers}[found[1]]), drawn.text)
        scope = {"np": np, "spread": spread, **numbers, **{letter: self.arrays[n] for letter, n in chosen.items()}}
        require(not drawn.far or (np.asarray(eval(drawn.far, scope)) > MARGIN).all())
        made = self._computed(text)
        if not (np.abs(made.astype("f8")) <= LARGEST[made.dtype.kind]).all():
            text = self.framework.calm[made.dtype.kind].format(text)
            made = self._computed(text)
        name = f"v{len(self.arrays)}"
        kinked = drawn.kink and not (np.asarray(eval(drawn.kink, scope)) > MARGIN).all()
        if made.dtype.kind == "f" and (kinked or not self.rough.isdisjoint(names_in(text))):
            self.rough.add(name)
        self.arrays[name] = made
        self.lines.append((name, text))

    def _computed(self, text: str) -> np.ndarray:
        used = tuple(names_in(text))
        graph = Graph(used, (("v", text),), ("v",), self.arrays, frozenset())
        (made,) = self.framework.results(graph)
        require(1 <= made.size <= ELEMENTS and made.dtype.kind in "fiub" and np.isfinite(made).all())
        return made


def drawn(framework: Framework, number: int) -> Graph:
    """A graph that the framework takes as a whole."""
    for again in count():
        graph = Drawing(framework, number, again).graph()
        try:
            framework.whole(graph)
        except (ValueError, IndexError, TypeError):
            continue
        return graph
    raise AssertionError


def names_in(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\b[xv]\d+\b", text)))


def require(holds: Any) -> None:
    """Raises `Rejected` unless it holds."""
    if not holds:
        raise Rejected


def spread(array: np.ndarray, *others: np.ndarray) -> float:
    """The smallest difference of two numbers; that of whole numbers is known anyway."""
    joined = np.sort(np.concatenate([np.ravel(one) for one in (array, *others)]).astype("f8"))
    return float(np.diff(joined).min(initial=1.0)) if array.dtype.kind == "f" else 1.0


def brought(framework: Framework, graph: Graph, number: int) -> Brought:
    """The graph as it came in, or the traceback of the importer."""
    inputs = [graph.arrays[name] for name in graph.arguments]
    results = [_held(one) for one in framework.results(graph)]
    weighted = zip(graph.outputs, weights_of(results), strict=True)
    weights = [weight if name in graph.smooth else None for name, weight in weighted]
    of = [i for i, one in enumerate(inputs) if one.dtype == np.float64]
    single = any(one.dtype == np.float32 for one in graph.arrays.values())
    if single or not of or all(one is None for one in weights):
        of = []
    slopes = framework.gradients(graph, weights, of) if of else []
    # The loss may not depend on an input whose gradient is zero, but for rounding, which is an error of `xb.grad`.
    pairs = [(i, np.asarray(one)) for i, one in zip(of, slopes, strict=True) if one is not None]
    found = {i: one for i, one in pairs if np.abs(one).max() > ZERO}
    try:
        program = framework.program(graph, number).to_json()
    except Exception:  # a defect of the importer, or a refusal
        return Brought("", [], [], [], [], [], traceback.format_exc()[-2000:])
    return Brought(program, inputs, results, weights, list(found.values()), list(found))


def _held(array: np.ndarray) -> np.ndarray:
    return array.astype("int32") if array.dtype.name in ("int8", "int16", "uint16") else array


def parts(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Smaller graphs that may be wrong as the whole is, the smallest first: each line alone, then the last lines, with
    what they need as arguments."""
    lines = graph.lines
    for length in range(1, len(lines)):
        for begin in range(len(lines)) if length == 1 else [len(lines) - length]:
            part = lines[begin : begin + length]
            made = {name for name, _ in part}
            needed = dict.fromkeys(n for _, text in part for n in names_in(text) if n not in made)
            outputs = tuple(n for n in graph.outputs if n in made) if length > 1 else tuple(made)
            if outputs and all(graph.arrays[n].dtype.name in ARGUMENTS for n in needed):
                yield f"{length:02}_{begin:02}", replace(graph, arguments=tuple(needed), lines=part, outputs=outputs)


def main(folder: Path, name: str, first: int, end: int, how: str = "") -> None:
    framework = FRAMEWORKS[name]()
    for number in range(first, end):
        graph = drawn(framework, number)
        for label, one in parts(graph) if how == "--parts" else [(f"{number}", graph)]:
            (folder / f"{label}.txt").write_text(one.code)
            write(folder, label, brought(framework, one, number))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
