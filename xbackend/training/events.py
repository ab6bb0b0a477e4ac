"""Event files for TensorBoard: scalars, histograms, and a program by device.

They are written with the tensorboard package (``pip install 'xbackend[events]'``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.errors import StoreError
from xbackend.files import refused
from xbackend.program.program import Program

_BINS = 30


class Events:
    """An event file in a folder, open until it is closed; a context manager.

    A ``scope`` (``train``, ``test``) is a subfolder, which TensorBoard shows as a separate run. Raises `StoreError`
    without the tensorboard package, or if the folder cannot be made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, xb.training.Events(folder, "train") as events:
    ...     events.scalars(1, {"loss": 0.5})
    ...     events.histograms(1, {"w": np.zeros(4)})
    ...     events.program(xb.trace(lambda x: x + 1.0, np.ones(2)))
    ...     events.close()
    """

    def __init__(self, folder: str | PathLike[str], scope: str = "") -> None:
        try:
            from tensorboard.compat.proto import event_pb2, graph_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise StoreError(
                f"event files are written with tensorboard: {error}; pip install 'xbackend[events]'"
            ) from None
        self._event, self._summary, self._graph = event_pb2.Event, summary_pb2.Summary, graph_pb2.GraphDef
        self._histogram = summary_pb2.HistogramProto
        where = Path(folder, scope)
        with refused(f"event files cannot be written to {where}"):
            self._writer = EventFileWriter(str(where))

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Add a step's numbers, by name."""
        self._add(step, [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()])

    def histograms(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Add a histogram of each array's elements at a step, by name."""
        self._add(step, [self._summary.Value(tag=name, histo=self._counted(array)) for name, array in arrays.items()])

    def program(self, program: Program) -> None:
        """Add the nodes of a program with their devices. The program of an executable has the devices of placement."""
        graph = self._graph()
        names = [f"{node.params.get('name', node.op)}_{node.outputs[0]}" for node in program.nodes]
        of = {
            i: f"{name}:{k}" if k else name
            for name, n in zip(names, program.nodes, strict=True)
            for k, i in enumerate(n.outputs)
        }
        for name, node in zip(names, program.nodes, strict=True):
            graph.node.add(name=name, op=node.op, input=[of[i] for i in node.inputs], device=node.device or "")
        self._writer.add_event(self._event(graph_def=graph.SerializeToString(), wall_time=time.time()))

    def close(self) -> None:
        """Write the remaining events, and wait until they are on disk."""
        self._writer.close()

    def _add(self, step: int, values: list[Any]) -> None:
        self._writer.add_event(self._event(summary=self._summary(value=values), step=step, wall_time=time.time()))

    def _counted(self, array: np.ndarray) -> Any:
        numbers = np.asarray(array, np.float64).ravel()
        numbers = numbers[np.isfinite(numbers)]
        counts, edges = np.histogram(numbers, bins=_BINS)
        return self._histogram(
            min=float(numbers.min()) if numbers.size else 0.0,
            max=float(numbers.max()) if numbers.size else 0.0,
            num=float(numbers.size),
            sum=float(numbers.sum()),
            sum_squares=float(np.sum(numbers**2)),
            bucket_limit=edges[1:].tolist(),
            bucket=counts.astype(float).tolist(),
        )
