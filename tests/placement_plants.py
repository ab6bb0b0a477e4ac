"""Wrong placements that the tests plant in an adapter, inside of its worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xbackend.devices import Device

_undo: list[Callable[[], None]] = []


def _replace(owner: Any, name: str, planted: Any) -> None:
    original = getattr(owner, name)
    _undo.append(lambda: setattr(owner, name, original))
    setattr(owner, name, planted)


def clean(backend: Any) -> None:
    """Take back all that was planted."""
    while _undo:
        _undo.pop()()


def misplace(backend: Any, op: str, device: str) -> None:
    """From now on nodes of that op are lowered on that device, wherever they are bound."""
    from xbackend.backends.tensorflow.graph import Lowering

    place, wrong = Lowering.place, Device.parse(device)

    @contextmanager
    def elsewhere(self: Any, i: int, kind: str = "n") -> Iterator[None]:
        bound = self.devices[i]
        self.devices[i] = wrong if self.program.values[i].op == op else bound
        try:
            with place(self, i, kind):
                yield
        finally:
            self.devices[i] = bound

    _replace(Lowering, "place", elsewhere)


def launch_on(backend: Any, device: str) -> None:
    """From now on whole functions run on that device."""
    cls, launch = type(backend), type(backend).launch

    def elsewhere(self: Any, function: Any, asked: str | None, *rest: Any) -> Any:
        return launch(self, function, self.names[Device.parse(device)], *rest)

    _replace(cls, "launch", elsewhere)


def scatter_gradients(backend: Any) -> None:
    """From now on backward ops are not placed with their forward ops."""
    v1 = backend.tf.compat.v1
    gradients = v1.gradients

    def scattered(*arguments: Any, **options: Any) -> Any:
        return gradients(*arguments, **{**options, "colocate_gradients_with_ops": False})

    _replace(v1, "gradients", scattered)


def misplace_in_numpy(backend: Any, op: str, device: str) -> None:
    """From now on nodes of that op are lowered on that device, wherever they are bound."""
    from xbackend.backends.numpy import adapter as numpy

    place, wrong = numpy.Linker.place, Device.parse(device)

    def elsewhere(self: Any, i: int) -> Device:
        return wrong if self.program.values[i].op == op else place(self, i)

    _replace(numpy.Linker, "place", elsewhere)


def let_merge_across_devices(backend: Any) -> None:
    """From now on TensorFlow's optimiser may remove the identity between two devices."""
    from xbackend.backends.tensorflow import graph

    _replace(graph, "_crossing", lambda tf, value, source: tf.identity(value))


def waiting_between_devices(backend: Any) -> list[tuple[str, str, int]]:
    """The transfers of a graph in which an op on cpu:1 waits for one on cpu:0 without taking its value."""
    from types import SimpleNamespace

    from xbackend.backends.tensorflow.reading import read_partitions

    tf = backend.tf
    with tf.device("/cpu:1"):
        variable = tf.Variable(1.0)

    def body(x: Any) -> Any:
        with tf.device("/cpu:0"):
            y = tf.square(x, name="waiting_y")
        with tf.device("/cpu:1"), tf.control_dependencies([y.op]):
            assigned = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.constant(3.0))
        tf.compat.v1.get_default_graph().control_outputs.append(assigned)
        with tf.device("/cpu:2"):
            return y + 1.0

    function = tf.compat.v1.wrap_function(body, [tf.TensorSpec((), tf.float32, name="waiting_x")])
    with backend.runtime.collected() as collected:
        function(tf.constant(2.0))
    assert variable.numpy() == 3.0
    stub: Any = SimpleNamespace(prefix="waiting_", tf=tf)
    observed = read_partitions(stub, function.graph, collected, backend.by_name)
    return [(str(r.source), str(r.target), r.bytes) for r in observed.received]


def misread_replicas(backend: Any, device: str) -> None:
    """From now on JAX says that the last replica's part of each result is on that device."""
    from xbackend.backends.jax.over_mesh import DeviceMesh

    places, wrong = DeviceMesh.places, backend.theirs[Device.parse(device)]
    _replace(DeviceMesh, "places", lambda self, value: [*places(self, value)[:-1], wrong])


def ended_replicas(backend: Any) -> None:
    """From now on a step of replicas fails when it has consumed its state."""
    from xbackend.backends.jax.over_mesh import DeviceMesh

    compiled = DeviceMesh.compiled

    def ends(self: Any, *given: Any) -> Any:
        call = compiled(self, *given)

        def run(*values: Any) -> Any:
            call(*values)
            raise RuntimeError("ended")

        return run

    _replace(DeviceMesh, "compiled", ends)


def moved_replicas(backend: Any) -> None:
    """From now on a mesh has its devices in the reverse order."""
    from xbackend.backends.jax.over_mesh import DeviceMesh

    made = DeviceMesh.__init__
    _replace(DeviceMesh, "__init__", lambda self, jax, theirs: made(self, jax, theirs[::-1]))
