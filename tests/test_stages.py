"""The stages and transfers of a graph, their schedule, and the threads of devices, without a framework."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from xbackend.backends.staged.device_threads import AHEAD, DeviceThreads
from xbackend.backends.staged.graph import cut, transfer_op
from xbackend.backends.staged.schedule import StageSchedule, State, straight_line
from xbackend.devices import Device
from xbackend.errors import DeviceUnavailable, PlacementError

D = tuple(Device("cpu", i) for i in range(64))
WAIT = 20.0  # seconds after which a hanging test fails


class Variable:
    """A variable, as in the lineage's frameworks."""

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner

    def type(self) -> Variable:
        return Variable()


class Apply:
    """The application of an op."""

    def __init__(self, op: Any, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        self.op, self.inputs, self.outputs = op, list(inputs), list(outputs)
        for variable in outputs:
            variable.owner = self

    def __str__(self) -> str:
        return str(self.op)


class Op:
    """An op, called with variables."""

    def make_node(self, *inputs: Variable) -> Apply:
        return Apply(self, inputs, [Variable()])

    def __call__(self, *inputs: Variable) -> Variable:
        return self.make_node(*inputs).outputs[0]  # type: ignore[no-any-return]


Transfer: Any = transfer_op(Op, Apply)


def evaluate(outputs: Sequence[Variable], given: dict[Variable, Any]) -> tuple[Any, ...]:
    """The outputs of a stage. Every op is a sum."""
    values = dict(given)

    def value(variable: Variable) -> Any:
        if variable not in values:
            values[variable] = sum(value(v) for v in variable.owner.inputs)
        return values[variable]

    return tuple(value(v) for v in outputs)


def compiled(plan: Any) -> list[Callable[..., Any]]:
    def call(stage: Any) -> Callable[..., Any]:
        return lambda *values: evaluate(stage.outputs, dict(zip(stage.inputs, values, strict=True)))

    return [call(stage) for stage in plan.stages]


def test_stages_are_cut_at_transfers_and_run_in_straight_line() -> None:
    add = Op()
    a, b, w = Variable(), Variable(), Variable()
    left, right = add(a, a), add(b, w)
    moved = Transfer(D[1], D[0])(right)
    total = add(left, moved)
    back = Transfer(D[0], D[1])(total)
    plan = cut({a: D[0], b: D[1], w: D[1]}, [(total, D[0]), (back, D[1]), (add(right, back), D[1])], Transfer)
    assert [(s.depth, s.device) for s in plan.stages] == [(0, D[1]), (0, D[0]), (1, D[0]), (2, D[1])]

    class Cell:
        value: Any = 10

    moves, cell, confirmed = list[Device](), Cell(), list[Any]()

    def mover(device: Device) -> Callable[[Any], Any]:
        def move(value: Any) -> Any:
            moves.append(device)
            return value

        return move

    schedule = StageSchedule(plan, [a, b, w], [total, back, plan.stages[-1].outputs[0]])
    state = State([cell], [], [cell], confirmed.append)
    run = straight_line(schedule, compiled(plan), {D[0]: mover(D[0]), D[1]: mover(D[1])}, state)
    assert run(1, 2) == [14, 14]
    assert moves == [D[0], D[1]] and confirmed == [[14, 14, 26]] and cell.value == 26
    assert run(1, 2) == [30, 30] and cell.value == 58
    # Dead values are dropped at once; outputs are kept.
    dropped = {slot for step in schedule.steps for slot in step.last}
    assert dropped | set(schedule.outputs) == set(schedule.slots.values())
    assert not dropped & set(schedule.outputs)


def test_what_another_device_waits_for_does_not_wait_for_the_rest() -> None:
    """One device splits rows and computes with its own: the other must get its part first."""
    add = Op()
    x, w = Variable(), Variable()
    first, second = add(x), add(x, x)  # its own part of the rows, and the other device's
    mine, theirs = add(add(first, w), w), add(Transfer(D[0], D[1])(second))
    plan = cut({x: D[0], w: D[0]}, [(mine, D[0]), (theirs, D[1])], Transfer)
    assert [(s.depth, s.device, s.outputs) for s in plan.stages] == [
        (0, D[0], [second]),
        (0, D[0], [mine]),
        (1, D[1], [theirs]),
    ]
    schedule = StageSchedule(plan, [x, w], [mine, theirs])
    assert [step.stage for step in schedule.steps] == [0, None, 1, 2]
    moves = dict.fromkeys(D[:2], lambda value: value)
    assert straight_line(schedule, compiled(plan), moves, State())(1, 10) == [21, 2]
    # A value used by both is computed once, and transferred.
    shared = add(x)
    plan = cut({x: D[0]}, [(add(shared), D[0]), (Transfer(D[0], D[1])(shared), D[1])], Transfer)
    assert [(s.inputs, s.outputs) for s in plan.stages] == [([x], [shared]), ([shared], plan.stages[1].outputs)]


def test_a_part_of_constants_is_transferred() -> None:
    """As in the gradient of what is concatenated of parts on several devices: a constant is split."""
    parts = Apply(Op(), [Variable()], [Variable(), Variable()]).outputs
    moved = Transfer(D[0], D[1])(parts[1])
    plan = cut({}, [(moved, D[1])], Transfer)
    assert [(s.device, s.outputs) for s in plan.stages] == [(D[0], [parts[1]])]


def test_an_op_with_inputs_on_two_devices_lacks_a_transfer() -> None:
    a, b = Variable(), Variable()
    with pytest.raises(PlacementError, match=r"inputs on cpu:[01], cpu:[01]: a transfer is missing"):
        cut({a: D[0], b: D[1]}, [(Op()(a, b), D[0])], Transfer)


def test_a_transfer_that_is_compiled_says_so() -> None:
    with pytest.raises(PlacementError, match="compiled into a stage"):
        Transfer(D[0], D[1]).perform(None, None, None)


def test_the_gradient_of_a_transfer_goes_back() -> None:
    (back,) = Transfer(D[0], D[1]).pullback([Variable()], [Variable()], [Variable()])
    assert (back.owner.op.source, back.owner.op.target) == (D[1], D[0])


def chain(length: int) -> tuple[Variable, Any]:
    source = variable = Variable()
    for k in range(length):
        variable = Transfer(D[k % 64], D[(k + 1) % 64])(Op()(variable))
    return source, cut({source: D[0]}, [(variable, D[length % 64])], Transfer)


def test_cutting_grows_linearly_with_the_stages() -> None:
    def seconds(length: int) -> float:
        start = time.process_time()
        source, plan = chain(length)
        schedule = StageSchedule(plan, [source], [plan.between[-1].outputs[0]])
        assert len(plan.stages) == len(plan.between) == length and len(schedule.steps) == 2 * length
        straight_line(schedule, compiled(plan), dict.fromkeys(D, lambda value: value), State())
        return time.process_time() - start

    seconds(100)
    # Quadratic would be 16; the rest is noise.
    assert min(seconds(2000) for _ in range(3)) < 9 * min(seconds(500) for _ in range(3))


def test_sixty_four_devices_in_straight_line() -> None:
    source, plan = chain(640)
    run = straight_line(
        StageSchedule(plan, [source], [plan.between[-1].outputs[0]]),
        compiled(plan),
        dict.fromkeys(D, lambda v: v + 1),
        State(),
    )
    assert run(0) == [640]


@pytest.fixture
def threads() -> Any:
    with DeviceThreads(D[:2]) as found:
        yield found


def test_work_on_two_devices_runs_at_the_same_time(threads: DeviceThreads) -> None:
    met = threading.Barrier(2, timeout=WAIT)  # broken unless both arrive
    one, two = (threads.submit(d, lambda: (met.wait(), threading.current_thread().name), [], 2) for d in D[:2])
    assert one[1].wait() == "xbackend cpu:0" and two[1].wait() == "xbackend cpu:1"
    assert (one[0].device, two[0].device) == D[:2]


def test_work_starts_when_its_inputs_are_there_and_not_in_the_order_of_submission(threads: DeviceThreads) -> None:
    gate, order = threading.Event(), list[str]()

    def work(name: str) -> Callable[..., Any]:
        def call(*values: int) -> tuple[int]:
            order.append(name)
            return (sum(values) + 1,)

        return call

    def slow() -> tuple[int]:
        assert gate.wait(WAIT)
        return (1,)

    (first,) = threads.submit(D[1], slow, [], 1)
    (later,) = threads.submit(D[0], work("waits"), [first, first, threads.hold(5, D[0])], 1)
    (sooner,) = threads.submit(D[0], work("does not"), [], 1)
    assert sooner.wait() == 1
    gate.set()
    assert later.wait() == 8
    assert order == ["does not", "waits"]


def test_an_error_reaches_whoever_waits_for_what_depends_on_it(threads: DeviceThreads) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("in a stage")

    one, two = threads.submit(D[0], broken, [], 2)
    (dependent,) = threads.submit(D[1], lambda x: (x,), [two], 1)
    for value in (one, two, dependent, dependent):
        with pytest.raises(ZeroDivisionError, match="in a stage"):
            value.wait()
    (wrong,) = threads.submit(D[0], lambda: (1, 2), [], 1)
    with pytest.raises(ValueError):
        wrong.wait()
    assert threads.submit(D[0], lambda: (3,), [], 1)[0].wait() == 3


def test_what_waits_for_room_while_the_threads_are_closed_is_refused() -> None:
    threads, go, ended = DeviceThreads(D[:1]), threading.Event(), list[str]()

    def wait() -> list[bool]:
        return [go.wait(WAIT)]

    def one_more() -> None:
        try:
            threads.submit(D[0], wait, [], 1)[0].wait()
        except DeviceUnavailable as error:
            ended.append(str(error))

    started = [threads.submit(D[0], wait, [], 1) for _ in range(AHEAD)]
    late, closing = threading.Thread(target=one_more, daemon=True), threading.Thread(target=threads.close, daemon=True)
    for thread in (late, closing):
        thread.start()
        time.sleep(0.05)
    go.set()
    for thread in (late, closing):
        thread.join(WAIT)
    assert not late.is_alive() and not closing.is_alive()
    assert len(ended) == 1 and "has ended" in ended[0]
    assert all(value.wait() for (value,) in started)


def test_what_is_started_ahead_is_bounded(threads: DeviceThreads) -> None:
    gate, started = threading.Event(), list[int]()

    def caller() -> None:
        for k in range(3 * AHEAD):
            threads.submit(D[0], lambda: (gate.wait(WAIT),), [], 1)
            started.append(k)

    thread = threading.Thread(target=caller)
    thread.start()
    deadline = time.monotonic() + WAIT
    while len(started) < 2 * AHEAD and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(started) == 2 * AHEAD
    gate.set()
    thread.join(WAIT)
    assert len(started) == 3 * AHEAD


def test_closing_finishes_what_is_under_way_and_ends_the_threads() -> None:
    threads = DeviceThreads(D[:3])
    names = {f"xbackend cpu:{i}" for i in range(3)}
    assert names <= {t.name for t in threading.enumerate()}
    value = threads.hold(0, D[0])
    for k in range(20):
        (value,) = threads.submit(D[k % 3], lambda x: (time.sleep(0.002), (x + 1,))[1], [value], 1)
    threads.close()
    threads.close()
    assert value.wait() == 20
    assert not names & {t.name for t in threading.enumerate()}
    with pytest.raises(DeviceUnavailable, match="the thread of cpu:1 has ended"):
        threads.submit(D[1], lambda: (1,), [], 1)


def test_threads_that_nobody_uses_any_more_end() -> None:
    threads = DeviceThreads([Device("cpu", 77)])
    (thread,) = (t for t in threading.enumerate() if t.name == "xbackend cpu:77")
    assert threads.submit(Device("cpu", 77), lambda: (1,), [], 1)[0].wait() == 1
    del threads
    thread.join(WAIT)
    assert not thread.is_alive()
