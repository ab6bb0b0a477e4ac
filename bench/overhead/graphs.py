"""The ops of a workload of the suite, ours beside those by hand, counted in the framework's graphs after its optimiser.

cd bench && python -m overhead.graphs tensorflow radon 919   # without a size: that of `handwritten.SUITE`
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from overhead import MODULES, handwritten
from overhead.calls import by_hand_of_suite
from xbackend import workloads
from xbackend.errors import UnsupportedOperation

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend


def counts(backend: Backend, job: dict[str, Any]) -> list[dict[str, int]]:
    """In a worker: the number of ops by name, ours and by hand. ``job``: ``workload``, ``parameters``. Raises
    `UnsupportedOperation` for a backend without a graph."""
    workload = workloads.get(job["workload"])
    given = workload.resolve(**job["parameters"])
    arrays = workload.arrays(0, **given)
    ours, theirs = Counter[str](), Counter[str]()
    with _noted(backend, ours.update):
        backend.compile(workload.traced(given, bool(workload.gradient)), *arrays)(*arrays)
    with _noted(backend, theirs.update) as note:
        by_hand = by_hand_of_suite(backend, job["workload"], given)
        note(by_hand.call, [by_hand.place(array) for array in arrays])
    return [dict(ours), dict(theirs)]


@contextmanager
def _noted(backend: Any, note: Callable[[Iterable[str]], None]) -> Iterator[Callable[[Any, Sequence[Any]], object]]:
    """A context that notes the ops of xbackend's compilations in it. Its value is a function of a call by hand and its
    arguments, which notes the ops of that call unless they were noted when it was made."""

    def of_hlo(text: str) -> None:
        note(re.findall(r" = (?:\(.*?\)|\S+) ([a-z][\w-]*)\(", text))

    def of_stage(function: Any, inputs: Sequence[Any], *_: Any) -> None:
        specs = [backend.jax.ShapeDtypeStruct(v.shape, v.dtype) for v in inputs]
        of_hlo(backend.jax.jit(function).lower(*specs).compile().as_text())

    def of_xla(function: Any) -> None:
        from tensorflow.python.eager.polymorphic_function import compiler_ir

        of_hlo(compiler_ir.from_concrete_function(function)(stage="optimized_hlo"))

    def of_partitions(metadata: Any) -> None:
        note(n.op for graph in metadata.function_graphs for part in graph.partition_graphs for n in part.node)

    def called(call: Any, values: Sequence[Any]) -> None:
        with backend.runtime.collected():
            call(*values)

    if hasattr(backend, "framework"):
        with _seen(backend.framework, "function", lambda made, *_: note(_of_lineage(made.maker.fgraph))):
            yield lambda call, values: None
    elif hasattr(backend, "jax"):
        with _seen(backend, "compiled", lambda made, *given: of_stage(*given)):
            yield lambda call, values: of_hlo(call.lower(*values).compile().as_text())
    elif backend.name == "tensorflow-xla":
        with _seen(backend, "launch", lambda made, function, *_: of_xla(function)):
            yield lambda call, values: of_xla(call.get_concrete_function(*values))
    elif backend.name == "tensorflow":
        with _seen(backend.runtime.context, "export_run_metadata", of_partitions):
            yield called
    else:
        raise UnsupportedOperation(f"backend {backend.name} has no graph: it runs op by op")


@contextmanager
def _seen(home: Any, name: str, see: Callable[..., object]) -> Iterator[None]:
    """A context in which ``see`` gets the result and the arguments of each call of a function of ``home``."""
    theirs = getattr(home, name)

    def watched(*given: Any, **options: Any) -> Any:
        made = theirs(*given, **options)
        see(made, *given)
        return made

    setattr(home, name, watched)
    try:
        yield
    finally:
        setattr(home, name, theirs)


def _of_lineage(graph: Any) -> Iterator[str]:
    """Names of the ops, those within loops and fused elementwise ops among them."""
    for node in graph.toposort():
        core = getattr(node.op, "core_op", node.op)
        scalar = getattr(core, "scalar_op", None)
        kind = type(core).__name__ if scalar is None else f"{type(core).__name__} {type(scalar).__name__}"
        yield kind
        inner = getattr(core if scalar is None else scalar, "fgraph", None)
        if inner is not None:
            yield from (f"{kind}: {name}" for name in _of_lineage(inner))


def main() -> None:
    from xbackend.measure.worker import open_worker

    backend, workload, *size = sys.argv[1:]
    parameters = {**handwritten.SUITE[workload], **({"size": int(size[0])} if size else {})}
    worker = open_worker(backend, modules=MODULES)
    with worker.backend:
        both = worker.call("overhead.graphs:counts", {"workload": workload, "parameters": parameters})
    print(f"ours  theirs  ops of {workload} {parameters} on {backend}")
    for name in sorted({*both[0], *both[1]}, key=lambda n: (both[0].get(n) == both[1].get(n), n)):
        print(f"{both[0].get(name, 0):4}  {both[1].get(name, 0):6}  {name}")


if __name__ == "__main__":
    main()
