"""TensorFlow's `MultiWorkerMirroredStrategy`: workers in step, with the strategy's all-reduce
(https://www.tensorflow.org/tutorials/distribute/multi_worker_with_ctl).

The strategy reads the cluster from ``TF_CONFIG`` and is made before the task uses the framework. Sums are reduced in
its replica context, by its ring, as it reduces gradients. A mirrored variable of the strategy is a copy in each worker;
here each task's own variables are these copies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from xbackend.backends.tensorflow.settings import configure
from xbackend.engines.contract import Engine
from xbackend.engines.tensorflow.meeting import EXPOSED, summed
from xbackend.errors import ClusterError


class MultiWorkerMirrored(Engine):
    """A worker of the strategy, one replica."""

    name, summary = "multi-worker-mirrored", "MultiWorkerMirroredStrategy, ring"
    no_servers = (
        "MultiWorkerMirroredStrategy keeps a copy of every variable in each worker; take --engine tensorflow or "
        "--engine coordinator"
    )
    exposed = EXPOSED

    def join(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        os.environ["TF_CONFIG"] = self.spec.tf_config(self.task)
        import tensorflow as tf

        self.tf = tf
        configure(tf, self.settings, "of this task")
        ring = tf.distribute.experimental.CommunicationImplementation.RING
        how = tf.distribute.experimental.CommunicationOptions(implementation=ring, timeout_seconds=self.limit)
        # TensorFlow waits for a missing worker without a limit.
        meeting = ThreadPoolExecutor(1, "xbackend-strategy")
        made = meeting.submit(tf.distribute.MultiWorkerMirroredStrategy, communication_options=how)
        try:
            self.strategy = made.result(timeout=self.limit)
        except TimeoutError:
            raise ClusterError(f"{self.task} waited {self.limit:g} s (--limit) for the other workers") from None
        except (tf.errors.OpError, RuntimeError) as error:
            raise ClusterError(
                f"{self.task} cannot meet the others at {self.spec.address(self.task)}, another process may have that "
                f"port: {str(error)[:500]}"
            ) from error
        if self.strategy.num_replicas_in_sync != self.task.count:
            raise ClusterError(
                f"MultiWorkerMirroredStrategy has {self.strategy.num_replicas_in_sync} replicas of {self.task.count} "
                "workers, and one of each is needed here: let each see one GPU, or none"
            )
        self._sum = tf.function(self._summed, reduce_retracing=False)

    def _summed(self, *values: Any) -> Any:
        tf = self.tf

        def replica(*own: Any) -> Any:
            placed = [tf.identity(one) for one in own]  # all_reduce needs a device, and an argument has none
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, placed)

        return self.strategy.run(replica, args=values)

    def summed(self, messages: Sequence[np.ndarray]) -> list[np.ndarray]:
        return summed(self, self.tf, self._sum, messages)
