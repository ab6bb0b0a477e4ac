"""NumPy's straight-line code: the same numbers with and without reusing the memory of dying operands, and no write to
other memory."""

from __future__ import annotations

import gc
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import Case, programs
from strategies import REDUCTIONS, TAKES, sample_of

import xbackend as xb
from xbackend.backends import codegen, registry
from xbackend.backends.contract import Backend, Executable, Settings
from xbackend.backends.numpy import adapter as numpy
from xbackend.backends.numpy import control_flow
from xbackend.errors import ArgumentError, BackendClosed, PlacementError
from xbackend.program import analyses
from xbackend.program.dtypes import DType
from xbackend.program.ops import OPS

X = np.arange(1.0, 7.0).reshape(2, 3)
MANY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with registry.get("numpy").load(Settings(virtual_devices=2)) as backend:
        yield backend


def reusing(run: Executable) -> dict[int, int]:
    """The nodes that reuse the memory of an operand, and that operand."""
    return numpy._reused(run.program, analyses.steps(run.program))


def arrays(run: Executable, values: Sequence[Any]) -> list[np.ndarray]:
    return [value.array for value in run.execute(*values)]


def check(backend: Backend, case: Case) -> None:
    """The promises of `Built`, and the program's results without reuse."""
    run = backend.compile(case.program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy, "_reused", lambda program, steps: {})
        plain = backend.compile(case.program)
    state = [backend.get_value(w) for w in case.shared]
    values = plain.put(*case.arguments)
    want = [np.array(a) for a in arrays(plain, values)]
    after = [backend.get_value(w) for w in case.shared]
    allowed = overlaps([*arrays(plain, values), *(v.array for v in values)])
    for w, array in zip(case.shared, state, strict=True):
        backend.set_value(w, array)
    values = run.put(*case.arguments)
    got = arrays(run, values)
    first = [np.array(a) for a in got]
    equal(first, want)
    equal([backend.get_value(w) for w in case.shared], after)
    equal([v.array for v in values], case.arguments)
    assert overlaps([*got, *(v.array for v in values)]) <= allowed
    arrays(run, values)
    equal(got, first)  # a later call does not overwrite earlier results


def equal(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def overlaps(found: Sequence[np.ndarray]) -> set[tuple[int, int]]:
    return {(i, j) for i, a in enumerate(found) for j, b in enumerate(found) if i < j and np.may_share_memory(a, b)}


@pytest.mark.tier("standard")
def test_random_programs_give_the_same_with_and_without_reuse(backend: Backend) -> None:
    @MANY
    @given(programs(grads=True, largest=25))
    def same(case: Case) -> None:
        check(backend, case)

    same()


@st.composite
def tangles(draw: st.DrawFn) -> Case:
    """Temporaries and their views, all of like shapes, so that nearly each op could reuse memory."""
    unary: list[Callable[[Any], Any]] = [xb.negative, xb.tanh, xb.positive, xb.matrix_transpose, lambda a: a[::-1]]
    binary: list[Callable[[Any, Any], Any]] = [xb.add, xb.subtract, xb.minimum]
    recent = st.integers(1, 4)

    def function(x: Any, y: Any) -> Any:
        pool = [x, y]
        for op in draw(st.lists(st.sampled_from([*unary, *binary, *binary, "grad"]), min_size=3, max_size=14)):
            a, b = pool[-min(draw(recent), len(pool))], pool[-min(draw(recent), len(pool))]
            if op == "grad":
                pool.append(xb.grad(xb.sum(xb.tanh(x * a)), x))
            else:
                pool.append(op(a, b) if op in binary else op(a))
        return [pool[-min(draw(recent), len(pool))] for _ in range(draw(st.integers(1, 3)))]

    given = (X[:, :2] - 3.0, X[:, 1:] / 7.0)
    return Case(xb.trace(function, *given), given, ())


def test_tangled_temporaries_and_views_give_the_same_with_and_without_reuse(backend: Backend) -> None:
    @MANY
    @given(tangles())
    def same(case: Case) -> None:
        check(backend, case)

    same()


def chains(x: Any, y: Any) -> Any:
    """Every way in which a temporary's memory may be shared, beside chains without sharing."""
    t = x * 2.0
    view = xb.reshape(t, (3, 2))
    u = t + y  # t lives on in its view
    v = xb.permute_dims(view, (1, 0)) * y
    kept = y - 1.0
    w = kept * 3.0  # kept is an output
    narrow = x[:, :1] * 1.0
    z = (narrow + u) * xb.sqrt(v * v)  # narrow has another shape
    mask = xb.logical_not(x > y)
    twice = xb.negative(z)
    return kept, w, z, xb.reshape(twice, (6,)), xb.astype(mask, "float64") + 1.0, x, twice * twice


def test_a_temporary_whose_view_lives_is_not_overwritten(backend: Backend) -> None:
    program = xb.trace(chains, X, X)
    check(backend, Case(program, (X, X + 0.5), ()))
    found = reusing(backend.compile(program))
    assert found
    ops = [node.op for node in program.values]
    first = ops.index("multiply")
    assert first not in found.values() and ops.index("reshape") not in found.values()
    assert not set(found.values()) & {*program.outputs, *program.inputs}


def test_what_a_loop_reads_at_a_number_is_not_overwritten(backend: Backend) -> None:
    """An element, and a row that is a view of the array."""

    def function(x: Any) -> Any:
        def squared(c: Any, i: Any) -> Any:
            return c + x[i] * x[i], xb.at(x)[i].set(-xb.take(x, i, axis=0))

        def body(s: Any) -> Any:
            return xb.tanh(xb.negative(x[s[1]])) + s[0], s[1] + 1

        whole = xb.scan(squared, xb.zeros((3,)), xb.arange(2))
        choice = xb.cond(x[0, 0] > 0.0, lambda i: xb.negative(x[i]), lambda i: x[i], xb.asarray(1))
        return *whole, xb.while_loop(lambda s: s[1] < 2, body, (x[0], xb.asarray(0)))[0], choice, x * 1.0

    check(backend, Case(xb.trace(function, X), (X,), ()))


PLANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "views are taken for memory of their own": lambda patch: patch.setattr(
        numpy, "OPS", {name: replace(op, view=False) for name, op in OPS.items()}
    ),
    "outputs are read for the last time": lambda patch: patch.setattr(
        analyses, "last_uses", lambda used, kept, found=analyses.last_uses: found(used, ())
    ),
    "sources are the program's own": lambda patch: patch.setattr(
        numpy, "_reused", lambda program, steps: {s.makes[0]: s.reads[0] for s in steps if fits(program, s)}
    ),
}


def fits(program: xb.Program, step: analyses.Step) -> bool:
    i, reads = step.makes[0], step.reads
    call, _ = numpy._function(program, i)
    alike = bool(reads) and program.values[reads[0]].aval == program.values[i].aval
    return alike and isinstance(call, np.ufunc) and call.signature is None and program.values[reads[0]].op != "constant"


@pytest.mark.parametrize("plant", PLANTS)
def test_memory_of_somebody_else_would_be_seen(backend: Backend, plant: str) -> None:
    program = xb.trace(chains, X, X)
    want = [np.array(a) for a in backend.compile(program)(X, X + 0.5)]
    with pytest.MonkeyPatch.context() as patch:
        PLANTS[plant](patch)
        run = backend.compile(program)
        values = run.put(X, X + 0.5)
        try:
            got = arrays(run, values)
        except (ValueError, TypeError):  # an operand was dropped
            return
    same = all(
        np.array_equal(a, b) for a, b in zip([*got, *(v.array for v in values)], [*want, X, X + 0.5], strict=True)
    )
    assert not same


MATRICES = ("cholesky", "inv", "det", "slogdet", "eigh", "eigvalsh", "qr", "svd", "svdvals")
SPECIAL: dict[str, Callable[[Any], Any]] = {
    **{op: lambda x, op=op: getattr(xb, op)(x, axis=()) for op in REDUCTIONS},
    **{
        op: lambda x, op=op: getattr(xb, op)(x, axis=0)
        for op in ("argmax", "argmin", "cumulative_sum", "cumulative_prod")
    },
    **{op: lambda x, op=op: getattr(xb.linalg, op)(x * x + 1.0) for op in MATRICES},
    **{op: lambda x, op=op: getattr(xb.linalg, op)(x, x) for op in ("solve", "solve_triangular")},
    "searchsorted": lambda x: xb.searchsorted(x[0], x),
    "conv2d": lambda x: xb.conv2d(x[None, ..., None], x[..., None, None]),
    "where": lambda x: xb.where(xb.full((), True, dtype=xb.bool), x, x),
    "concat": lambda x: xb.concat([x]),
    "stack": lambda x: xb.stack([x]),
    "astype": lambda x: xb.astype(x, "float64"),
    "take": lambda x: xb.take(x, [0], axis=0),
    "take_along_axis": lambda x: xb.take_along_axis(x, [[0]]),
    "slice_set": lambda x: xb.at(x)[0].set(2.0),
    "slice_add": lambda x: xb.at(x)[0].add(2.0),
    "take_set": lambda x: xb.at(x)[[0]].set(2.0),
    "take_add": lambda x: xb.at(x)[[0]].add(2.0),
    "transfer": lambda x: (xb.to_device(x, "cpu:0") * 1.0, xb.to_device(x, "cpu:1")),
}


@pytest.mark.parametrize(
    "op",
    sorted(
        op for op in OPS if not OPS[op].view and op not in {*control_flow.ROWS, "all_reduce", "grad"} and OPS[op].arity
    ),
)
def test_what_is_no_view_has_memory_of_its_own(op: str, backend: Backend) -> None:
    """Reductions along no axis, a concatenation of one array, a product with an array of one row: all of them."""
    array = sample_of(TAKES.get(op, (DType.float32,))[-1], (1, 1))
    call = SPECIAL.get(op, lambda x: getattr(xb, op)(*[x] * OPS[op].arity))
    run = backend.compile(call, array)
    assert op in {node.op for node in run.program.values}
    values = run.put(array)
    assert not any(np.may_share_memory(made, values[0].array) for made in arrays(run, values))


def test_memory_is_free_as_soon_as_in_a_users_code(backend: Backend) -> None:
    program = xb.trace(lambda x: xb.sum(xb.matmul(xb.exp(x * 2.0) + 1.0, x)), np.eye(2))
    steps = analyses.steps(program)
    made = [i for step in steps for i in step.makes]
    last = [i for step in steps for i in step.last]
    assert sorted(last) == sorted({*range(len(program.values))} - {*program.outputs})
    assert {i for step in steps for i in step.last if i in made} == {*made} - {*program.outputs}
    for step in steps:
        assert set(step.last) <= {*step.makes, *step.reads}


def test_a_backward_pass_reads_what_it_computes_again_from_and_nothing_else(backend: Backend) -> None:
    def function(x: Any, y: Any) -> Any:
        big = xb.exp(y)
        loss = xb.sum(xb.square(x * big) + x)
        return xb.grad(loss, x), xb.grad(xb.sum(xb.square(xb.grad(loss, x))), x)

    program = xb.trace(function, X, X)
    by_op = {node.op: i for i, node in enumerate(program.values)}
    first, second = (step for step in analyses.steps(program) if program.values[step.makes[0]].op == "grad")
    assert set(first.reads) == {0, by_op["exp"]} <= set(second.reads)
    assert "multiply" not in {program.values[i].op for i in second.reads}
    check(backend, Case(program, (X, X / 9), ()))


def test_a_step_of_a_loop_of_numbers_calls_nothing(backend: Backend) -> None:
    """Such a loop uses NumPy's numbers and Python's operators. A call takes longer than its computation."""

    def calls(length: int) -> int:
        x, seen = np.linspace(0.0, 1.0, length), list[str]()
        run = backend.compile(
            lambda x: xb.scan(lambda c, e: (xb.where(e > 0.5, c * 0.9 + e, -c), c / 3.0), xb.asarray(1.0), x), x
        )
        values = run.put(x)
        run.execute(*values)
        sys.setprofile(lambda frame, event, argument: seen.append(event))
        try:
            run.execute(*values)
        finally:
            sys.setprofile(None)
        return len(seen)

    assert calls(3) == calls(30)


def test_an_error_in_a_step_shows_the_users_line(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arrays: Any) -> Any:
        raise MemoryError("no memory")

    monkeypatch.setattr(np, "where", broken)
    run = backend.compile(lambda x: xb.where(x > 0.0, x, 1.0) * 2.0, X)
    with pytest.raises(MemoryError) as caught:
        run(X)
    text = "".join(traceback.format_exception(caught.value))
    line = run.program.values[-1].source
    assert __file__ in line and f"# where (node 4), {line}" in text and "<xbackend" in text


def test_a_value_of_another_device_is_refused(backend: Backend) -> None:
    run = backend.compile(lambda x: x * 2.0, X)
    with pytest.raises(PlacementError, match=r"argument 'x' .* is to be on cpu:0 and is on cpu:1"):
        run.execute(backend.put(X, xb.Device("cpu", 1)))


def test_what_is_no_value_of_this_backend_is_refused(backend: Backend) -> None:
    run = backend.compile(lambda x: x * 2.0, X)
    with xb.open("numpy", isolated=True) as other:
        for given in (other.put(X, other.devices[0]), X):
            for use in (run.execute, backend.get, backend.device_of):
                with pytest.raises(ArgumentError, match="cannot be used on backend 'numpy': get it to the host"):
                    use(given)


def test_in_this_process_too_what_is_used_after_the_end_says_so() -> None:
    backend = xb.open("numpy")
    run = backend.compile(lambda x: x * 2.0, X)
    (value,) = run.put(X)
    backend.close()
    for use in (run.execute, backend.get, backend.device_of, lambda v: backend.synchronize([v]), run):
        with pytest.raises(BackendClosed, match=r"numpy was closed; open it again with xb.open\('numpy'\)"):
            use(value)
    for ask in (lambda: backend.put(X, backend.devices[0]), backend.describe, backend.compilations):
        with pytest.raises(BackendClosed):
            ask()


def test_nothing_is_known_to_have_executed_before_the_first_call(backend: Backend) -> None:
    run = backend.compile(lambda x: x * 2.0, X)
    assert [r.status for r in run.placement.ops if r.op == "multiply"] == ["not read"]
    run(X)
    assert [r.status for r in run.placement.ops if r.op == "multiply"] == ["nothing to read"]


def test_an_infinite_factor_makes_no_nan_of_a_running_product(backend: Backend) -> None:
    x = np.array([2.0, 3.0, 4.0, np.inf])
    run = backend.compile(lambda x: xb.grad(xb.sum(xb.cumulative_prod(x)), x), x)
    np.testing.assert_array_equal(run(x), [np.inf, np.inf, np.inf, 24.0])


def test_nothing_from_outside_becomes_code() -> None:
    source = codegen.FunctionSource("a title\n\0 of two lines", ["x"])
    source.line("y = x", "a comment\n    y = 0\r    y = 0\x0c")
    source.step("z", "y", ["x", "y"], "another\n    z = 0")
    source.line("return x, y, z")
    assert source.compile()(3) == (None, None, 3)


def test_the_lines_of_generated_code_go_with_it() -> None:
    source = codegen.FunctionSource("short-lived", [])
    source.line("return 1 / 0  # for nobody")
    function = source.compile()
    file = function.__code__.co_filename
    assert "short-lived" in file and linecache.getline(file, 2) == "    return 1 / 0  # for nobody\n"
    linecache.checkcache()
    assert linecache.getline(file, 2)
    del function
    gc.collect()
    assert not linecache.getline(file, 2)
