"""`python lineage_edges.py FOLDER KIND` imports small graphs of PyTensor, Aesara or Theano, and writes each, or its
error, for `test_bring_lineage.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from bring_helpers import Brought, weights_of, write

KIND = sys.argv[2]
if KIND == "theano":
    import_module("xbackend.bring.lineage.theano").prepare()
framework, T = import_module(KIND), import_module(f"{KIND}.tensor")
found, given = import_module("xbackend.bring.lineage.found"), import_module("xbackend.bring.lineage.given")
until = import_module({"theano": "theano.scan_module"}.get(KIND, f"{KIND}.scan.utils")).until
ifelse, OpFromGraph = import_module(f"{KIND}.ifelse").ifelse, import_module(f"{KIND}.compile.builders").OpFromGraph
x, v, n = T.dvector("x"), T.dvector("v"), T.dscalar("n")
ROWS, ONE = np.array([0.5, 2.0, -1.5]), np.array([2.0])
GRAPHS: dict[str, Callable[[], tuple[Any, ...]]] = {}  # outputs, arrays by variable, and options


def graph(function: Callable[[], tuple[Any, ...]]) -> None:
    GRAPHS[function.__name__] = function


@graph
def short_sequence() -> tuple[Any, ...]:
    return framework.scan(lambda row, s: s + row, sequences=x, outputs_info=T.zeros(()), n_steps=10)[0], {x: ROWS}


@graph
def short_sequence_with_until() -> tuple[Any, ...]:
    def step(row: Any, s: Any) -> Any:
        return s + row, until(T.gt(s, 99.0))

    made = framework.scan(step, sequences=x, outputs_info=T.zeros(()), n_steps=10)[0][-1]
    return made, {x: ROWS}, {"gradients": False}


@graph
def branches_of_two_lengths() -> tuple[Any, ...]:
    return ifelse(T.gt(n, 0.0), x, v), {n: np.float64(-1.0), x: ROWS, v: ONE}


@graph
def split_without_a_row() -> tuple[Any, ...]:
    return T.split(x, [1, 1], n_splits=2, axis=0)[0], {x: ROWS}


@graph
def short_mask() -> tuple[Any, ...]:
    return x[np.array([True, False])], {x: ROWS}


@graph
def short_mask_of_values() -> tuple[Any, ...]:
    return T.set_subtensor(x[T.gt(v, 0.0)], 0.0), {x: ROWS, v: ONE}


@graph
def subclass_with_a_rule() -> tuple[Any, ...]:
    class Own(OpFromGraph):  # type: ignore[misc,valid-type]
        def L_op(self, inputs: Any, outputs: Any, slopes: Any) -> Any:
            return [100.0 * slopes[0]]

        pullback = L_op

    return Own([v], [v * 2.0])(x).sum(), {x: ROWS}


@graph
def subclass_with_an_override() -> tuple[Any, ...]:
    class Own(OpFromGraph):  # type: ignore[misc,valid-type]
        pass

    return Own([v], [v * 2.0], lop_overrides=lambda inputs, outputs, slopes: [100.0 * slopes[0]])(x), {x: ROWS}


@graph
def subclass_without() -> tuple[Any, ...]:
    class Own(OpFromGraph):  # type: ignore[misc,valid-type]
        pass

    return Own([v], [v * 2.0])(x), {x: ROWS}


@graph
def update_of_an_input() -> tuple[Any, ...]:
    return x.sum(), {x: ROWS}, {"updates": {x: x * 2.0}}


@graph
def draws_of_another_kind() -> tuple[Any, ...]:
    return x.sum(), {x: ROWS}, {"draws": "output"}


@graph
def draws() -> tuple[Any, ...]:
    return x.sum(), {x: ROWS}, {"draws": "inputs"}


@graph
def given_node() -> tuple[Any, ...]:
    doubled = x * 2.0
    return (doubled + x).sum(), {doubled: ROWS, x: np.zeros(3)}


@graph
def given_node_beside_draws() -> tuple[Any, ...]:
    doubled = x * 2.0
    return doubled.sum(), {doubled: ROWS}, {} if KIND == "theano" else {"draws": "inputs"}


@graph
def given_node_in_a_branch() -> tuple[Any, ...]:
    log = T.log(x)
    return T.switch(T.gt(log, 0.0), log * 2.0, 0.0), {log: ROWS}


@graph
def given_node_in_a_branch_beside_its_input() -> tuple[Any, ...]:
    log = T.log(x)
    return T.switch(T.gt(log, 0.0), log * 2.0, 0.0), {log: ROWS, x: np.full(3, 7.0)}


@graph
def large_of_small() -> tuple[Any, ...]:
    counted = T.arange(x.shape[0] * 100)
    return T.switch(T.gt(counted[:, None], counted), x[0], 2.0), {x: ROWS}


@graph
def gamma_at_poles() -> tuple[Any, ...]:
    return T.gamma(x), {x: np.array([-1.0, -0.0, 0.0, np.inf, -np.inf, -2.5])}


# Gradients are those of the framework after its rewrites.
@graph
def poles_in_branches() -> tuple[Any, ...]:
    ends = [T.switch(T.lt(abs(x), 1.0), of(x), 0.0) for of in (T.arcsin, T.arccos, T.arctanh)]
    ends += [T.switch(T.gt(x, 1.0), T.arccosh(x), 0.0), T.switch(T.eq(x, 0.0), 0.0, T.arctan2(x, x * x))]
    if hasattr(T, "log1mexp"):
        ends += [T.switch(T.lt(x, 0.0), T.log1mexp(x), 0.0), T.switch(T.lt(abs(x), 1.0), T.erfinv(x), 0.0)]
        ends += [T.switch(T.eq(x, 0.0), 0.0, T.erfcinv(x + 0.5)), T.switch(T.eq(x, 0.0), 0.0, T.gamma(x))]
    return sum(one.sum() for one in ends), {x: np.array([1.0, 0.5, 0.0])}, {}, [x]


COMPILED: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "one_loss": (lambda: framework.function([x], T.exp(x).sum()), [ROWS]),
    "updates_only": (lambda: framework.function([x], [], updates=[(_shared, _shared + x)]), [ROWS]),
    "writes_in_place": (lambda: framework.function([x], _both_of_one(), mode="FAST_RUN"), [ROWS]),
}
_shared = framework.shared(np.zeros(3), "w")


def _both_of_one() -> list[Any]:
    known = T.cast(T.arange(x.shape[0]), "float64")
    return [(T.set_subtensor(known[0], 5.0) * x).sum(), (x * known).sum()]


def _graph(outputs: Any, arrays: Any, options: Any = None, by: Any = ()) -> Brought:
    program = given.from_graph(outputs, arrays, **(options or {}))
    mode = framework.compile.mode.get_mode("FAST_COMPILE")
    mode = mode.including("canonicalize") if by else mode
    slopes = [framework.tensor.grad(outputs, one) for one in by]
    function = framework.function(list(arrays), [outputs, *slopes], mode=mode, on_unused_input="ignore")
    result, *slopes = map(np.asarray, function(*arrays.values()))
    of = [list(arrays).index(one) for one in by]
    weights = [np.ones(())] if by else weights_of([result])
    return Brought(program.to_json(), list(map(np.asarray, arrays.values())), [result], weights, slopes, of)


def _compiled(function: Any, arrays: Any) -> Brought:
    origin = found.brought(function, arrays, "f", np.random.default_rng(0), rewrites="none")
    of = [0] if origin.gradient else []
    weights = [np.ones(())] * len(of)
    return Brought(origin.program.to_json(), arrays, list(origin.results), weights, list(origin.slopes), of)


def main(folder: Path) -> None:
    each: dict[str, Callable[[], Brought]] = {name: lambda made=made: _graph(*made()) for name, made in GRAPHS.items()}
    each |= {name: lambda of=of, arrays=arrays: _compiled(of(), arrays) for name, (of, arrays) in COMPILED.items()}
    for name, made in each.items():
        try:
            one = made()
        except Exception as error:  # the test says which it expects
            one = Brought("", [], [], [], [], [], f"{type(error).__name__}: {error}")
        write(folder, name, one)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
