# ruff: noqa: PLW0108 (functions of the test itself, whose lines errors must name)
"""Tracing: the nodes of programs, the lines of errors, and a program's description."""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import Case, programs

import xbackend as xb
from xbackend.backends import registry
from xbackend.errors import (
    ArgumentError,
    DeviceSpellingError,
    DTypeError,
    GradientError,
    ShapeError,
    SharedVariableError,
    TraceError,
    UsageError,
    XBackendError,
)
from xbackend.program.program import Program

SPEC = xb.ArraySpec((2, 3))
VECTOR = xb.ArraySpec((3,))
SCALAR = xb.ArraySpec(())
FILE = __file__


def ops(program: Program) -> list[str]:
    return [n.op for n in program.values]


def run(function: Callable[..., Any], *arguments: Any, **static: Any) -> Any:
    """The result of the NumPy backend."""
    with registry.get("numpy").load() as backend:
        return backend.compile(function, *arguments, **static)(*arguments)


# --- what is written down --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [f"{Path(np.__file__).parent}ro", f"{Path(xb.__file__).parent / 'training'}_mine"])
def test_a_library_whose_name_begins_as_ours_or_numpys_is_the_users(beside: str) -> None:
    found: dict[str, Any] = {}
    exec(compile("def function(x):\n    return x * 2.0", f"{beside}/model.py", "exec"), found)
    assert xb.trace(found["function"], SPEC).values[-1].source == f"{beside}/model.py:2"


def test_a_function_is_called_once_and_each_op_is_a_node_with_its_line() -> None:
    calls = []

    def function(x: Any, y: Any) -> Any:
        calls.append(1)
        z = x * y
        return xb.sum(z, axis=0)

    line = inspect.getsourcelines(function)[1]
    program = xb.trace(function, SPEC, VECTOR)
    assert calls == [1]
    assert ops(program) == ["input", "input", "multiply", "sum"]
    assert [n.source for n in program.values[2:]] == [f"{FILE}:{line + 2}", f"{FILE}:{line + 3}"]
    assert [n.params["name"] for n in program.values[:2]] == ["x", "y"]
    assert program.values[3].shape == (3,) and program.values[3].dtype is xb.DType.float64
    assert program.name == "function"
    assert repr(program).startswith("<program function(x: float64[2,3], y: float64[3]) -> (float64[3]), 4 nodes, ")


def test_arguments_are_arrays_numbers_lists_or_specs_of_which_only_shape_and_dtype_count() -> None:
    values: list[Any] = [np.zeros((2, 3), np.float32), 1.5, 3, True, [[1, 2]], np.float32(2), xb.ArraySpec(4, "int32")]
    program = xb.trace(lambda *a: list(a), *values)
    found = [(n.shape, str(n.dtype)) for n in program.values]
    assert found == [
        ((2, 3), "float32"), ((), "float64"), ((), "int64"), ((), "bool"), ((1, 2), "int64"), ((), "float32"),
        ((4,), "int32"),
    ]  # fmt: skip
    assert [n.params["name"] for n in program.values] == [f"x{i}" for i in range(7)]


@pytest.mark.parametrize("shape", [-1, (2, -1), (2.0,), "ab", (None,), 1.5])
def test_a_spec_of_no_shape_is_refused(shape: Any) -> None:
    with pytest.raises(ShapeError):
        xb.ArraySpec(shape)


def test_keyword_arguments_are_passed_as_they_are() -> None:
    def function(x: Any, *, n: int, names: tuple[str, ...] = ()) -> Any:
        return [x * i for i in range(1, n + 1)], dict.fromkeys(names, x)

    first, second = run(function, np.ones(2), n=3, names=("a",))
    assert len(first) == 3 and list(second) == ["a"]
    np.testing.assert_array_equal(first[2], [3.0, 3.0])
    assert xb.trace(lambda x, function: x * function, SPEC, function=2.0).values


def test_results_come_back_nested_as_they_were_returned() -> None:
    def function(x: Any) -> Any:
        return {"a": (x, [x + 1.0]), "b": {}, "c": (), "d": 2.5, "e": np.arange(2)}

    found = run(function, np.ones(2))
    assert list(found) == ["a", "b", "c", "d", "e"]
    assert found["b"] == {} and found["c"] == () and found["d"] == 2.5
    assert isinstance(found["a"], tuple) and isinstance(found["a"][1], list)
    np.testing.assert_array_equal(found["a"][1][0], [2.0, 2.0])
    with pytest.raises(TraceError, match="key 1; keys must be text"):
        xb.trace(lambda x: {1: x}, SPEC)


def test_what_nothing_needs_is_left_out_but_arguments_stay() -> None:
    def function(x: Any, y: Any) -> Any:
        xb.exp(x)
        return x + 1.0

    assert ops(xb.trace(function, SPEC, SPEC)) == ["input", "input", "constant", "add"]


def test_what_changes_nothing_is_an_op_only_where_a_gradient_is_taken_with_respect_to_it() -> None:
    def function(x: Any, with_gradient: bool) -> Any:
        y = xb.reshape(+xb.astype(x[...], x.dtype), x.shape)
        loss = xb.sum(y * x)
        return xb.grad(loss, y) if with_gradient else loss

    assert ops(xb.trace(function, SPEC, with_gradient=False)) == ["input", "multiply", "sum"]
    assert ops(xb.trace(function, SPEC, with_gradient=True)) == ["input", "reshape", "multiply", "sum", "grad"]


def test_numpy_functions_and_arrays_on_the_left_are_traced() -> None:
    a = np.array([1.0, 2.0, 3.0])

    def function(x: Any) -> Any:
        return np.exp(x), np.arctan2(a, x), a - x, np.power(x, 2), np.float64(2.0) * x, a @ x, a < x, np.maximum(x, a)

    x = np.array([0.5, 4.0, -1.0])
    wanted = (np.exp(x), np.arctan2(a, x), a - x, x**2, 2 * x, a @ x, a < x, np.maximum(x, a))
    for got, want in zip(run(function, x), wanted, strict=True):
        np.testing.assert_allclose(got, want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.add.reduce(x), lambda x: np.sum(x), lambda x: np.mean(x), lambda x: np.add(x, x, out=np.ones(3)),
        lambda x: np.spacing(x), lambda x: np.linalg.norm(x), lambda x: np.asarray(x), lambda x: float(x[0]),
        lambda x: int(x[0]), lambda x: range(x[0]), lambda x: [1, 2][x[0]], lambda x: x if x[0] else -x,
        lambda x: np.array([x[0], x[1]]), lambda x: 0.0 < x[0] < 1.0,
    ],
)  # fmt: skip
def test_what_needs_the_elements_is_refused_with_the_users_line(function: Callable[..., Any]) -> None:
    line = function.__code__.co_firstlineno
    with pytest.raises(TraceError, match=rf"{re.escape(FILE)}:{line}\b"):
        xb.trace(function, VECTOR)


def test_python_numbers_beside_arrays_take_the_arrays_dtype() -> None:
    program = xb.trace(lambda x: (x + 1, 2 * x, x / 3.0, x**0.5, x > 1), xb.ArraySpec(3, "float32"))
    assert {str(program.values[o].dtype) for o in program.outputs} == {"float32", "bool"}
    assert {str(n.dtype) for n in program.values if n.op == "constant"} == {"float32"}


def test_functions_of_numbers_alone_make_constants() -> None:
    assert run(lambda x: (xb.sin(0.5), xb.add(1, 2), xb.matmul([1, 2], [3, 4])), 0.0)[1:] == (3, 11)


def test_a_scope_may_be_entered_again_and_ends_with_its_block() -> None:
    scope = xb.device("dev1")

    def function(x: Any) -> Any:
        with scope:
            a = x + 1.0
        b = a + 1.0
        with scope, pytest.raises(ZeroDivisionError), xb.device("dev2"):
            1 / 0
        with scope:
            return a, b, b + 1.0

    program = xb.trace(function, SPEC)
    assert [n.device for n in program.values if n.op == "add"] == ["dev1", None, "dev1"]
    assert program.logical_devices == ("dev1",)
    with xb.device("dev9"):
        assert xb.trace(lambda x: x + 1.0, SPEC).logical_devices == (), "a scope outside of the function is not its own"


def test_threads_trace_programs_of_their_own() -> None:
    found: dict[int, str] = {}

    def work(n: int) -> None:
        def function(x: Any) -> Any:
            with xb.device(f"dev{n}"):
                for _ in range(200):
                    x = x + float(n)
            return x

        found[n] = "|".join(xb.trace(function, SPEC).logical_devices)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: "dev0", 1: "dev1", 2: "dev2", 3: "dev3"}


# --- errors, and the line that they name -----------------------------------------------------------------------------


def outer(x: Any) -> Any:
    return x + np.ones(7)


WRONG: dict[str, tuple[Callable[..., Any], type[XBackendError], str]] = {
    "shapes": (lambda x: x + xb.ones((5,)), ShapeError, r"shapes \(2, 3\) and \(5,\) do not broadcast"),
    "integer_and_float": (lambda x: x + np.arange(3), DTypeError, "add of float64 and int64 is undefined"),
    "bool_and_number": (lambda x: (x > 0) + 1, DTypeError, "add of a bool array and the Python int 1"),
    "sum_of_bool": (lambda x: xb.sum(x > 0), DTypeError, "sum takes numeric arrays, not bool"),
    "divide_integers": (lambda x: xb.arange(3) / 2, DTypeError, "floating-point"),
    "sin_of_integers": (lambda x: xb.sin(xb.arange(3)), DTypeError, "sin takes floating-point arrays, not int64"),
    "too_large": (lambda x: xb.astype(x, xb.int32) + 2**40, DTypeError, "does not fit into int32"),
    "axis": (lambda x: xb.sum(x, axis=2), ShapeError, "axis 2 does not exist in an array of rank 2"),
    "axis_twice": (lambda x: xb.sum(x, axis=(0, -2)), ShapeError, "names an axis twice"),
    "axis_text": (lambda x: xb.sum(x, axis="0"), ShapeError, "axis '0' is not an integer"),
    "reshape": (lambda x: xb.reshape(x, (4, 2)), ShapeError, r"\(2, 3\) \(6 elements\) to \(4, 2\) \(8\)"),
    "reshape_two_unknown": (lambda x: xb.reshape(x, (-1, -1)), ShapeError, "non-negative"),
    "reshape_text": (lambda x: xb.reshape(x, "ab"), ShapeError, "not a tuple of integers"),
    "squeeze": (lambda x: xb.squeeze(x, axis=0), ShapeError, "its length is 2"),
    "permutation": (lambda x: xb.permute_dims(x, (0, 0)), ShapeError, "no permutation"),
    "broadcast": (lambda x: xb.broadcast_to(x, (3, 2)), ShapeError, "does not broadcast"),
    "concat": (lambda x: xb.concat([x, x.T]), ShapeError, "differ beside axis 0"),
    "concat_nothing": (lambda x: xb.concat([]), ShapeError, "no arrays"),
    "stack": (lambda x: xb.stack([x, x[0]]), ShapeError, "different shapes"),
    "index": (lambda x: x[2], ShapeError, "index 2 is out of range for axis 0"),
    "too_many_indices": (lambda x: x[0, 0, 0], ShapeError, "3 indices for an array of rank 2"),
    "two_ellipses": (lambda x: x[..., ...], ShapeError, "two ellipses"),
    "zero_step": (lambda x: x[::0], ShapeError, "slice step cannot be zero"),
    "mask": (lambda x: x[x > 0], TraceError, "not indexed with a mask"),
    "text_index": (lambda x: x["a"], TraceError, "integers, slices"),
    "iterate_scalar": (lambda x: list(xb.sum(x)), ShapeError, "0-dimensional"),
    "matmul": (lambda x: x @ x, ShapeError, "3 columns on the left, 2 rows"),
    "matmul_scalar": (lambda x: xb.matmul(x, 2.0), ShapeError, r"a number is no matrix; use \*"),
    "max_of_nothing": (lambda x: xb.max(x[:0], axis=0), ShapeError, "no elements"),
    "argmax_of_nothing": (lambda x: xb.argmax(x[:0]), ShapeError, "no elements"),
    "where_condition": (lambda x: xb.where(x, x, x), DTypeError, "where takes bool arrays"),
    "astype": (lambda x: xb.astype(x, "float16"), DTypeError, "float16 is not supported; the dtypes are bool, uint8"),
    "ragged": (lambda x: xb.add(x, [[1.0], [2.0, 3.0]]), ShapeError, "no array"),
    "complex": (lambda x: x + 1j, DTypeError, "complex128"),
    "full_fraction": (lambda x: xb.full((2,), 1.5, dtype=xb.int32), DTypeError, "1.5 is no int32"),
    "full_nan": (lambda x: xb.full((2,), float("nan"), dtype=xb.int64), DTypeError, "nan is no int64"),
    "full_large": (lambda x: xb.full((2,), 2**31, dtype=xb.int32), DTypeError, "2147483648 is no int32"),
    "full_array": (lambda x: xb.full((2,), x), DTypeError, "takes a Python number"),
    "full_shape": (lambda x: xb.full((2.5,), 1.0), ShapeError, "not a tuple of integers"),
    "arange_for_ever": (lambda x: xb.arange(0, 5, 0), ShapeError, "has no end"),
    "arange_infinite": (lambda x: xb.arange(0.0, float("inf")), ShapeError, "has no end"),
    "arange_nan": (lambda x: xb.arange(float("nan")), ShapeError, "has no end"),
    "arange_array": (lambda x: xb.arange(x[0, 0]), DTypeError, "takes Python numbers"),
    "arange_large": (lambda x: xb.arange(2**40, 2**40 + 2, dtype=xb.int32), DTypeError, "is no int32"),
    "linspace": (lambda x: xb.linspace(0.0, 1.0, -3), ShapeError, "non-negative"),
    "scope": (lambda x: xb.device("no device"), DeviceSpellingError, "neither a device"),
    "to_device": (lambda x: x.to_device(7), DeviceSpellingError, "neither a device"),
    "update_of_array": (lambda x: xb.update(x, x), SharedVariableError, "make one with xb.shared"),
    "update_of_text": (lambda x: xb.update("w", x), SharedVariableError, "'w', which is not a shared variable"),
    "grad_of_vector": (lambda x: xb.grad(x[0], x), ShapeError, "xb.sum or xb.mean"),
    "grad_of_integer": (lambda x: xb.grad(xb.argmax(x), x), ShapeError, "floating-point scalar"),
    "grad_by_integer": (lambda x: xb.grad(xb.sum(x), xb.arange(3)), DTypeError, "only floating-point"),
    "grad_unrelated": (lambda x: xb.grad(xb.sum(x), [x, xb.ones((2,))]), GradientError, "number 1 of the arrays"),
    "grad_through_integers": (
        lambda x: xb.grad(xb.sum(xb.astype(xb.astype(x, xb.int32), xb.float64)), x), GradientError, "does not depend"),
    "in_a_helper": (outer, ShapeError, "do not broadcast"),
}  # fmt: skip


@pytest.mark.parametrize("label", WRONG)
def test_an_error_says_what_and_names_the_users_file_and_line(label: str) -> None:
    function, kind, said = WRONG[label]
    code = function.__code__
    line = code.co_firstlineno + (1 if function is outer else 0)
    with pytest.raises(kind, match=said) as caught:
        xb.trace(function, SPEC)
    assert type(caught.value) is kind
    assert str(caught.value).endswith(f"(at {FILE}:{line})"), str(caught.value)


def test_an_error_in_a_helper_names_the_innermost_line_of_the_user() -> None:
    def function(x: Any) -> Any:
        y = x * 2.0
        return outer(y)

    line = inspect.getsourcelines(outer)[1] + 1
    with pytest.raises(ShapeError, match=rf":{line}\)$"):
        xb.trace(function, SPEC)


def test_the_users_own_error_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        xb.trace(lambda x: 1 / 0, SPEC)
    with pytest.raises(TraceError, match="call it inside"):
        xb.sin(1.0)  # the tracer of the failed function is gone


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((), "missing"), ((1.0, 2.0, 3.0), "too many"), ((xb.shared(1.0), 1.0), "use it inside of the function")],
)
def test_wrong_numbers_and_kinds_of_arguments(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        xb.trace(lambda a, b: a + b, *arguments)


@pytest.mark.parametrize("value", ["text", None, object(), {"a": 1}, np.array(["a"]), 1j, np.float16(1), b"x"])
def test_an_argument_without_a_supported_dtype(value: Any) -> None:
    with pytest.raises(DTypeError, match=r"argument 'x': dtype .* is not supported; the dtypes are bool, uint8"):
        xb.trace(lambda x: x, value)


def test_what_is_no_function_is_refused() -> None:
    for wrong in (None, 3, "f", np.ones(3)):
        with pytest.raises(ArgumentError, match="is not a function"):
            xb.trace(wrong)  # type: ignore[arg-type]


def test_outside_of_a_function_there_is_nothing_to_trace() -> None:
    for call in (lambda: xb.ones((2,)), lambda: xb.shared(1.0) + 1.0, lambda: xb.shared([1.0])[0]):
        with pytest.raises(TraceError, match="works on traced arrays"):
            call()


def test_arrays_do_not_outlive_their_program() -> None:
    kept: list[Any] = []
    xb.trace(lambda x: kept.append(x * 2.0) or x, SPEC)
    uses: list[Callable[[Any], Any]] = [
        lambda x: x + kept[0], lambda x: kept[0], lambda x: kept[0] + 1.0, lambda x: (x, [kept[0]]),
        lambda x: xb.positive(kept[0]), lambda x: xb.grad(xb.sum(x), kept[0]), lambda x: kept[0][0],
        lambda x: xb.where(x > 0, kept[0], x), lambda x: xb.update(xb.shared(np.ones((2, 3))), kept[0]),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(TraceError, match="already traced was used again"):
            xb.trace(use, SPEC)


def test_arrays_of_an_outer_program_are_no_arrays_of_the_inner_one() -> None:
    def outer_function(x: Any) -> Any:
        with pytest.raises(TraceError, match="another program"):
            xb.trace(lambda y: x, SPEC)
        with pytest.raises(TraceError, match="another program"):
            xb.trace(lambda y: y + x, SPEC)
        return x + 1.0

    assert ops(xb.trace(outer_function, SPEC)) == ["input", "constant", "add"]


# --- shared variables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda: xb.shared("text"), DTypeError, "shared variable 'shared_.*dtype <U4"),
        (lambda: xb.shared(np.float16(1), name="w"), DTypeError, "shared variable 'w': .*float16"),
        (lambda: xb.shared(None), DTypeError, "object"),
        (lambda: xb.shared([[1], [1, 2]]), ShapeError, "no array"),
        (lambda: xb.shared(1.0, name=""), SharedVariableError, "name of a shared variable is text"),
        (lambda: xb.shared(1.0, name=3), SharedVariableError, "not 3"),  # type: ignore[arg-type]
        (lambda: xb.shared(1.0, device="a b"), DeviceSpellingError, "neither a device"),
    ],
)
def test_a_shared_variable_that_cannot_be(make: Callable[[], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        make()


def test_updates_that_do_not_fit_are_refused() -> None:
    w = xb.shared(np.ones((2,), np.float32), name="w")
    cases: list[tuple[Callable[..., Any], type[Exception], str]] = [
        (lambda: xb.update(w, np.ones(3, np.float32)), ShapeError, r"shared w.*cannot take a value of shape \(3,\)"),
        (lambda: xb.update(w, np.ones(2)), DTypeError, "cannot take a value of dtype float64; convert it"),
        (lambda: (xb.update(w, w), xb.update(w, w)), SharedVariableError, "updated twice"),
        (lambda: xb.update(3, w), SharedVariableError, "3, which is not a shared variable"),
    ]
    for function, kind, said in cases:
        with pytest.raises(kind, match=said):
            xb.trace(function)
    with pytest.raises(TraceError, match=r"xb\.update works on traced arrays"):
        xb.update(w, w)


def test_a_number_of_numpys_is_an_array_of_an_update() -> None:
    count, w = xb.shared(0.0), xb.shared(np.ones(2))
    assert xb.trace(lambda: xb.update(count, np.sqrt(2.0))).updates
    with pytest.raises(ShapeError, match=r"cannot take a value of shape \(\)"):
        xb.trace(lambda: xb.update(w, np.float64(0.0)))


def test_a_shared_variable_is_one_node_and_a_copy_of_its_value() -> None:
    start = np.ones(2)
    w = xb.shared(start, name="w", device="dev1")
    start[:] = 7
    program = xb.trace(lambda: (w + w, w[0], w))
    assert ops(program).count("shared") == 1 and list(program.shared.values()) == [w]
    assert program.values[0].device == "dev1"
    np.testing.assert_array_equal(w.value, [1.0, 1.0])
    with pytest.raises(ValueError, match="read-only"):
        w.value[0] = 3.0


def test_shapes_and_dtypes_are_not_assigned() -> None:
    def flat(x: Any) -> Any:
        x.shape = (6,)
        return xb.sum(x, axis=0)

    w: Any = xb.shared(np.ones(2))
    with pytest.raises(AttributeError):
        xb.trace(flat, SPEC)
    with pytest.raises(AttributeError):
        w.dtype = xb.float32


# --- what a program says of itself -----------------------------------------------------------------------------------


def test_operations_are_counted() -> None:
    def function(a: Any, b: Any) -> Any:
        c = a @ b
        return xb.sum(xb.exp(c) + 1.0), xb.reshape(c, (-1,)), xb.grad(xb.sum(c), a)

    count = xb.trace(function, xb.ArraySpec((2, 3)), xb.ArraySpec((3, 4))).operations
    assert count.by_op == {"matmul": 2 * 2 * 3 * 4, "exp": 8, "add": 8, "sum": 8 + 8}
    assert count.total == 48 + 8 + 8 + 16 and count.uncounted == ("grad",)


@pytest.mark.parametrize(("n", "method", "products"), [(10, "chain", 9), (10, "squaring", 4), (1, "chain", 0)])
def test_operations_of_a_matrix_power(n: int, method: str, products: int) -> None:
    program = xb.trace(lambda a: xb.linalg.matrix_power(a, n, method=method), xb.ArraySpec((5, 5)))
    assert program.operations.total == products * 2 * 5**3


def test_tracing_takes_a_number_of_steps_that_grows_as_the_program_does() -> None:
    """Counted in executed lines of xbackend, which do not depend on the machine."""
    import sys

    def steps(length: int) -> tuple[int, int]:
        def function(x: Any) -> Any:
            for _ in range(length):
                x = x + x
            return x

        count = 0

        def tracer(frame: Any, event: str, argument: Any) -> Any:
            nonlocal count
            count += event == "line"
            return tracer

        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            program = xb.trace(function, SPEC)
        finally:
            sys.settrace(before)
        return count, len(program.values)

    (few, n), (many, m) = steps(100), steps(800)
    assert (n, m) == (101, 801)
    assert many < 8.2 * few


def test_the_drawing_is_well_formed_and_grouped_by_device() -> None:
    w = xb.shared(np.ones(3), name='w "]; drop', device="dev1")

    def function(x: Any) -> Any:
        with xb.device("dev0"):
            y = xb.to_device(x @ w, "dev1")
        xb.update(w, w + y)
        return y, xb.sum(x)

    program = xb.trace(function, SPEC.__class__((3, 3)))
    program = xb.trace(lambda x: function(x[:3, :3]), xb.ArraySpec((3, 3)))
    check_mermaid(program.draw(), program)
    check_dot(program.draw("dot"), program)
    assert '["dev1"]' in program.draw() and "24 bytes" in program.draw()
    with pytest.raises(UsageError, match="mermaid, dot or svg, not as 'png'"):
        program.draw("png")
    with pytest.raises(UsageError, match="402 nodes"):
        xb.trace(lambda x: [x := x + x for _ in range(401)][-1], SPEC).draw()


def check_mermaid(text: str, program: Program) -> None:
    lines = text.rstrip("\n").split("\n")
    assert lines[0] == "flowchart TD"
    forms = (
        r'  subgraph d\d+\["[^"\[\]]*"\]', r"  end", r"  direction TB", r'    n\d+\["[\w .,:\-\[\]()/=#;]*"\]',
        r'    n\d+\(\["result \d+"\]\)', r"  n\d+ --> n\d+", r"  n\d+ ==>\|\d+ bytes\| n\d+",
        r"  n\d+ -\.->\|update\| n\d+", r"  class n\d+(,n\d+)* c\d+",
        r"  style d\d+ fill:none,stroke:#[0-9a-f]{6}",
        r"  classDef c\d+ fill:#[0-9a-f]{6},stroke:#[0-9a-f]{6},color:#[0-9a-f]{6}",
    )  # fmt: skip
    for line in lines[1:]:
        assert any(re.fullmatch(form, line) for form in forms), line
    assert [line.startswith("  subgraph") for line in lines].count(True) == lines.count("  end")
    defined = set(re.findall(r'^ +(\w+)[\[(]', text, re.MULTILINE))  # fmt: skip
    used = set(re.findall(r"^  (n\d+) [-=]", text, re.MULTILINE)) | set(re.findall(r" (n\d+)$", text, re.MULTILINE))
    assert {f"n{i}" for i in range(len(program.nodes) + len(program.outputs))} == defined
    assert used <= defined
    coloured = [name for line in lines if line.startswith("  class n") for name in line.split()[1].split(",")]
    assert sorted(coloured) == sorted(defined)


def check_dot(text: str, program: Program) -> None:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    assert bare.count("{") == bare.count("}") and '"' not in bare.replace('""', "")
    assert len(re.findall(r"^    n\d+ \[label=", text, re.MULTILINE)) == len(program.nodes) + len(program.outputs)
    edges = sum(len(n.inputs) for n in program.nodes) + len(program.outputs) + len(program.updates)
    assert len(re.findall(r" -> ", bare)) == edges


@settings(max_examples=100)
@given(programs(("dev0", "gpu:1"), grads=True))
def test_every_program_can_be_drawn(case: Case) -> None:
    check_mermaid(case.program.draw("mermaid"), case.program)
    check_dot(case.program.draw("dot"), case.program)


@settings(max_examples=100)
@given(programs(grads=True))
def test_a_program_is_plain_data_in_order(case: Case) -> None:
    program = case.program
    assert all(j < i for i, n in enumerate(program.values) for j in n.inputs)
    assert all(re.fullmatch(r"<random program>:\d+", n.source) for n in program.values if n.inputs)
    json.dumps([[n.op, n.inputs, n.shape, n.dtype, n.device] for n in program.values])
