"""The checks of loops and choices: each is a function, and the result of Python's own loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from batches import Batch, Check, in_turns
from gradients import weighted
from tolerances import CHAIN, Rule

import xbackend as xb

V = np.array([0.3, -0.7, 1.1])
W = np.array([[0.2, 0.5, -0.1], [0.4, -0.3, 0.6], [0.1, 0.2, 0.3]])
XS = np.array([[0.1, 0.2, 0.3], [-0.4, 0.5, 0.6], [0.7, -0.8, 0.9], [1.0, 1.1, -1.2], [0.4, 0.3, 0.2]])
TRUE, FALSE = np.array(True), np.array(False)
N = np.array(7)

_CUBE = xb.trace(lambda a: xb.grad(xb.sum(a**3), a), V)


def _rows(v: Any, w: Any, xs: Any, reverse: bool = False) -> Any:
    """A recurrence that closes over a matrix, with an output at each step."""

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        after = xb.tanh(w @ carry + x)
        return after, xb.sum(after * x)

    return xb.scan(step, v, xs, reverse=reverse)


def _pair(v: Any, xs: Any) -> Any:
    """Nested structures as carry and as outputs."""

    def step(carry: Any, x: Any) -> Any:
        state, count = carry["state"], carry["count"]
        row, number = x
        return {"state": state * 0.5 + row, "count": count + 1}, (state, {"n": number * xb.astype(count, xb.float64)})

    given = (xs, xb.arange(5, dtype=xb.float64))
    carry, (states, rest) = xb.scan(step, {"state": v, "count": xb.asarray(0)}, given)
    return carry["state"], carry["count"], states, rest["n"]


def _views(v: Any, xs: Any) -> Any:
    """The parts of the carry are outputs, and then swapped: each may be a view of the memory written next."""

    def step(carry: Any, x: Any) -> Any:
        a, b = carry
        return (b, a), (a + x, b[::-1])

    (a, b), (_, last) = xb.scan(step, (v, v * 2.0), xs)
    return xb.stack([a, b, last[-1]])


def _two(v: Any, xs: Any) -> Any:
    """Two carried arrays, each computed from both."""

    def step(carry: Any, x: Any) -> Any:
        a, b = carry
        return (b * x, a + xb.sin(b)), a * b

    return xb.scan(step, (v, v * 2.0), xs)[1]


def _without_xs(v: Any, c: Any) -> Any:
    """A closed-over scalar, no xs and no ys."""
    carry, _ = xb.scan(lambda carry, _: (xb.sin(carry) * c + 0.1, None), v, length=6)
    return carry


def _nested(v: Any, xs: Any) -> Any:
    def outer(carry: Any, x: Any) -> Any:
        inner, _ = xb.scan(lambda c, e: (c * 0.9 + e * carry, None), xb.zeros_like(carry), x)
        return carry + inner, inner

    return xb.scan(outer, v, xs)


def _gradient_inside(v: Any, w: Any) -> Any:
    """Gradient descent, with a gradient at each step."""

    def step(x: Any, _: Any) -> Any:
        loss = xb.sum((w @ x - 1.0) ** 2)
        return x - 0.05 * xb.grad(loss, x), loss

    return xb.scan(step, v, length=4)


def _program_inside(x: Any) -> Any:
    """A program that takes a gradient with respect to its own input, called at each step."""
    return xb.scan(lambda c, _: (c + 0.1 * _CUBE(c), None), x, length=3)[0]


def _gradients_in_choices(x: Any) -> Any:
    """Gradients by an input from which another one was computed, and by one of two inputs that are the same."""
    square = x * x
    one = xb.cond(xb.sum(x) > 0.0, lambda: xb.grad(xb.sum(x * square), x), lambda: x)
    return one + xb.cond(xb.sum(x) > 0.0, lambda a, b: xb.grad(xb.sum(a * b), a), lambda a, b: a, x, x)


def _gradients_in_loops(x: Any) -> Any:
    """The same in loops, where the carry depends on a closed-over array, too."""
    square = x * x
    one, _ = xb.scan(lambda c, _: (c + xb.grad(xb.sum(x * square), x), None), xb.zeros_like(x), length=3)
    (two, _), _ = xb.scan(lambda c, _: ((xb.grad(xb.sum(c[0] * c[1]), c[0]), c[1] * 2.0), None), (x, x), length=2)
    _, each = xb.scan(lambda c, _: (c * x, xb.grad(xb.sum(c * x), x)), x, length=3)
    return one + two + xb.sum(each, axis=0)


def _same_added(x: Any) -> Any:
    """A loop and a choice whose results are x + x once they are simplified."""
    loop, _ = xb.scan(lambda c, _: (c + 1.0 * c, None), x, length=2)
    return loop + xb.cond(xb.sum(x) > 0.0, lambda a: a + xb.reshape(a, a.shape) / 1.0, lambda a: a, x)


def _same_added_behind(x: Any) -> Any:
    """The same behind another op: it is the gradient whose sums come to x + x."""

    def doubled(c: Any) -> Any:
        wave = xb.sin(c)
        return wave + xb.reshape(wave, wave.shape)

    loop, _ = xb.scan(lambda c, _: (doubled(c), None), x, length=2)
    return loop * xb.cond(xb.sum(x) > 0.0, doubled, lambda a: a, x)


def _collatz(n: Any) -> Any:
    def body(state: Any) -> Any:
        value, steps = state
        return xb.where(value % 2 == 0, value // 2, 3 * value + 1), steps + 1

    return xb.while_loop(lambda state: state[0] != 1, body, (n, xb.asarray(0)))


def _root(x: Any) -> Any:
    """Newton's square root of each element, until the steps are small."""

    def body(state: Any) -> Any:
        guess, _ = state
        after = 0.5 * (guess + x / guess)
        return after, xb.max(xb.abs(after - guess))

    guess, _ = xb.while_loop(lambda state: state[1] > 1e-9, body, (x, xb.asarray(1.0)))
    return guess


def _never(x: Any) -> Any:
    return xb.while_loop(lambda state: xb.max(state) > 100.0, lambda state: state * 2.0, x)


def _choice(p: Any, x: Any, y: Any) -> Any:
    return xb.cond(p, lambda a: (a @ y, xb.sum(a)), lambda a: (y - 1.0, xb.prod(a)), x)


def _choices_in_a_loop(xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        after = xb.cond(xb.sum(x) > 0.75, lambda c: c + x, lambda c: c * 0.5, carry)
        return after, after[0]

    return xb.scan(step, xb.zeros(3), xs)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], Rule]] = {
    "scan": (_rows, (V, W, XS), "array"),
    "scan_reverse": (lambda *a: _rows(*a, reverse=True), (V, W, XS), "array"),
    "scan_of_forms": (_pair, (V, XS), "array"),
    "scan_without_xs": (_without_xs, (V, np.array(0.7)), "array"),
    "scan_of_one_step": (lambda v, xs: xb.scan(lambda c, x: (c + x, c), v, xs[:1]), (V, XS), "array"),
    "scan_of_nothing": (lambda v, xs: xb.scan(lambda c, x: (c + x, c * 2.0), v, xs[:0]), (V, XS), "bits"),
    "scan_float32": (
        lambda v, xs: xb.scan(lambda c, x: (c * x, c + x), v, xs),
        (V.astype("f4"), XS.astype("f4")),
        "array",
    ),
    "scan_of_integers": (lambda n: xb.scan(lambda c, x: (c * 3 + x, c), n, xb.arange(6)), (N,), "bits"),
    "scan_of_integers_from_constants": (
        lambda xs: xb.scan(lambda c, x: ((c[1], (c[0] * 3 + x) % 17), c[0]), (xb.zeros((), dtype="int32"),) * 2, xs),
        (np.array([9, 1, 5], "i4"),),
        "bits",
    ),
    "scan_of_booleans": (
        lambda p, v: xb.scan(lambda c, x: (xb.logical_xor(c, x), xb.logical_or(c, x)), p, v > 0.0),
        (TRUE, V),
        "bits",
    ),
    "scan_of_indices": (
        lambda v, xs: xb.scan(lambda c, i: (xb.at(c)[i % 2].add(xs[i, 0]), c), v, xb.arange(xs.shape[0])),
        (V, XS),
        "array",
    ),
    "scan_in_a_scan": (_nested, (V, XS), "array"),
    "scan_of_views": (_views, (V, XS), "bits"),
    "scan_last_only": (lambda v, xs: xb.scan(lambda c, x: (xb.sin(c) + x, c), v, xs)[0], (V, XS), "array"),
    "scan_ys_only": (lambda v, xs: xb.scan(lambda c, x: (xb.sin(c) + x, c), v, xs)[1], (V, XS), "array"),
    "program_in_a_scan": (_program_inside, (V,), "array"),
    "gradient_in_a_scan": (_gradient_inside, (V, W), "array"),
    "gradients_in_choices": (_gradients_in_choices, (V,), "array"),
    "gradients_in_loops": (_gradients_in_loops, (V,), "array"),
    "same_added": (_same_added, (V,), "array"),
    "while_loop_of_integers": (_collatz, (N,), "bits"),
    "while_loop": (_root, (np.abs(XS) + 0.1,), "array"),
    "while_loop_never": (_never, (XS,), "bits"),
    "cond_true": (_choice, (TRUE, W, V), "array"),
    "cond_false": (_choice, (FALSE, W, V), "array"),
    "cond_in_a_scan": (_choices_in_a_loop, (XS,), "array"),
}
VARIANTS = frozenset(
    {
        "scan_of_one_step",
        "scan_float32",
        "scan_of_booleans",
        "scan_last_only",
        "scan_ys_only",
        "scan_of_views",
        "cond_false",
        "scan_of_nothing",
    }
)


def _kept_after(c: Any, x: Any) -> Any:
    after = xb.tanh(c * 0.6 + xb.square(x))
    return after, after


def _kept_beside(c: Any, e: Any) -> Any:
    """Something of the state is kept that the loss does not use."""
    return c - 0.2 * (xb.sin(c) - e) * xb.cos(c), xb.sin(c)


def _kept_before(c: Any, x: Any) -> Any:
    return xb.tanh(c * 0.6 + xb.square(x)), c


SQUARE = np.array([[0.1, -0.4], [0.7, 0.9]])


def _transposed(c: Any, _: None) -> Any:
    return xb.tanh(c.T * 0.5 + c @ c), None


def _shifted(c: Any, x: Any) -> Any:
    before, now = c
    return (now, xb.tanh(before * now + x)), before


def _of_shifted(v: Any, xs: Any) -> Any:
    (before, now), each = xb.scan(_shifted, (v, xb.sin(v)), xs)
    return before * now + xb.sum(xb.sin(each), axis=0)


# Losses of one argument each. The other arguments are bound.
GRADIENTS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "scan_carry": (lambda v: _rows(v, W, XS)[0], V),
    "scan_xs": (lambda xs: _rows(V, W, xs)[1], XS),
    "scan_closed": (lambda w: _rows(V, w, XS, reverse=True)[1], W),
    "scan_both": (lambda w: xb.sum(_rows(V, w, XS)[0]) * _rows(V, w, XS)[1], W),
    "scan_of_two": (lambda v: _two(v, XS), V),
    "scan_states": (lambda xs: xb.sin(xb.scan(_kept_after, V, xs)[1]), XS),
    "scan_states_before": (lambda xs: xb.sin(xb.scan(_kept_before, V, xs, reverse=True)[1]), XS),
    "scan_elements": (lambda xs: xb.sin(xb.scan(_kept_beside, V, xs)[0]), XS),
    "scan_shifted": (lambda v: _of_shifted(v, XS), V),
    "scan_transposed": (lambda w: xb.scan(_transposed, w, length=2)[0], SQUARE),
    "scan_in_a_scan": (lambda xs: _nested(V, xs)[0], XS),
    "same_added": (_same_added_behind, V),
    "cond_true": (lambda w: _choice(xb.sum(w) > 0.0, w, V)[0] ** 2, W),
    "cond_false": (lambda w: xb.cond(xb.sum(w) < 0.0, xb.sin, lambda a: a * a * a, w), W),
    "cond_in_a_scan": (lambda xs: _choices_in_a_loop(xs)[0] ** 2, XS),
}
SECOND = (
    "scan_carry",
    "scan_closed",
    "scan_of_two",
    "scan_states",
    "scan_states_before",
    "scan_elements",
    "scan_shifted",
    "scan_transposed",
    "same_added",
)
THIRD = ("scan_carry",)


def _gradient(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        total = weighted(loss(x))
        return total, xb.grad(total, x)

    return function


def _second(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: xb.grad(weighted(xb.grad(weighted(loss(x)), x) ** 2), x)


def _third(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: xb.grad(weighted(_second(loss)(x)), x)


def _part(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """One of the results, as a check has one."""

    def part(*arrays: Any) -> Any:
        leaves: list[Any] = []
        todo = [function(*arrays)]
        while todo:
            value = todo.pop(0)
            if isinstance(value, tuple):
                todo = [*value, *todo]
            elif value is not None:
                leaves.append(value)
        return leaves[number]

    return part


RESULTS = {
    "scan": 2, "scan_reverse": 2, "scan_of_forms": 4, "scan_of_one_step": 2, "scan_of_nothing": 2, "scan_float32": 2,
    "scan_of_integers": 2, "scan_of_booleans": 2, "scan_in_a_scan": 2, "gradient_in_a_scan": 2,
    "while_loop_of_integers": 2, "cond_true": 2, "cond_false": 2, "cond_in_a_scan": 2,
}  # fmt: skip


def _values() -> Batch:
    checks = [
        Check(f"{label}-{number}", _part(f, number), arrays, rule, CHAIN, label not in VARIANTS)
        for label, (f, arrays, rule) in FUNCTIONS.items()
        for number in range(RESULTS.get(label, 1))
    ]
    return Batch("control_flow", tuple(checks))


def _gradients() -> Batch:
    checks = [
        Check(f"{what}-of-{label}", _part(_gradient(loss), number), (x,), "array", CHAIN, number == 1, derived=True)
        for label, (loss, x) in GRADIENTS.items()
        for number, what in enumerate(("value", "grad"))
    ]
    return Batch("control_flow-gradients", tuple(checks))


def _higher() -> Batch:
    checks = [
        Check(
            f"grad-grad-of-{label}",
            _second(GRADIENTS[label][0]),
            (GRADIENTS[label][1],),
            "array",
            CHAIN,
            label != "scan_states_before",  # Numba compiles it for minutes
            derived=True,
        )
        for label in SECOND
    ]
    checks += [
        Check(
            f"grad-grad-grad-of-{label}",
            _third(GRADIENTS[label][0]),
            (GRADIENTS[label][1],),
            "array",
            CHAIN,
            derived=True,
        )
        for label in THIRD
    ]
    return Batch("control_flow-higher-gradients", tuple(checks))


BATCHES = in_turns([_values(), _gradients(), _higher()])
