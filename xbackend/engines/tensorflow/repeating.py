"""One process in place of TensorFlow's servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xbackend.engines.alone import Alone
from xbackend.engines.contract import HostUpdate
from xbackend.engines.record import Layout
from xbackend.engines.tensorflow.updates import Update

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend


class Repeating(Alone):
    """Repeats updates in this process, by the same graphs in plain sessions as on a server."""

    def updates(self, backend: Backend, applies: Sequence[Mapping[str, Any]]) -> list[HostUpdate]:
        return [_on_host(layout, apply) for layout, apply in zip(self.layouts, applies, strict=True)]


def _on_host(layout: Layout, apply: Mapping[str, Any]) -> HostUpdate:
    import tensorflow as tf

    update, device = Update.of(layout, 0, apply), "/device:CPU:0"
    if update.program is None:
        return HostUpdate(None, (), ())
    nodes = [update.program.values[i] for i in update.program.inputs]
    with tf.Graph().as_default() as graph, tf.device(device):
        given = [tf.compat.v1.placeholder(node.dtype.value, node.shape) for node in nodes]
        results = update.lowered(tf, device, given)
        config = tf.compat.v1.ConfigProto(allow_soft_placement=False)
        run = tf.compat.v1.Session(graph=graph, config=config).make_callable(list(results), given)
    return HostUpdate(lambda arrays: run(*arrays), update.reads, update.writes)
