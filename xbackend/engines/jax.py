"""`jax.distributed`: processes of JAX, or of a framework that compiles with it, joined with gloo."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.engines.contract import Engine
from xbackend.engines.spec import WORKER, split
from xbackend.errors import ClusterError

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Value

HEARTBEAT = 5  # seconds after which JAX gives up a silent process


class JAXDistributed(Engine):
    """One process of `jax.distributed`; the first worker is the coordinator."""

    name, summary = "jax", "jax.distributed with gloo"
    no_servers = (
        "jax.distributed has collectives only, in which all processes take part: no process can read or update what "
        "another one holds; take --backend tensorflow, or one that MPI joins, such as pytensor"
    )

    def join(self) -> None:
        import jax
        from jaxlib import _jax

        self.jax = jax
        coordinator = self.spec.jobs[WORKER][0]
        host, port = split(coordinator)
        if self.task.index == 0:
            _free(host, port, self.task)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # Gloo binds the address that the host's name resolves to. JAX has no option for another.
        own, make = split(self.spec.address(self.task))[0], _jax.make_gloo_tcp_collectives
        _jax.make_gloo_tcp_collectives = lambda distributed_client: make(
            distributed_client=distributed_client, hostname=own
        )
        options: dict[str, Any] = {
            "heartbeat_timeout_seconds": HEARTBEAT,
            "initialization_timeout": max(1, int(self.limit)),
            "cluster_detection_method": "deactivate",
        }
        if self.task.index == 0:
            options["coordinator_bind_address"] = coordinator
        if jax.__version_info__ > (0, 7, 1):
            options["shutdown_timeout_seconds"] = HEARTBEAT
        jax.distributed.initialize(coordinator, self.task.count, self.task.index, **options)

    def started(self, backend: Backend) -> None:
        jax = self.jax
        first: dict[int, Any] = {}
        for device in jax.devices():  # of all processes; take one of each: a process is one rank of gloo
            first.setdefault(device.process_index, device)
        self.own = jax.local_devices()[0]
        mesh = jax.sharding.Mesh(np.array([first[k] for k in sorted(first)]), ("tasks",))
        spec = jax.sharding.PartitionSpec()
        self.sharding = jax.sharding.NamedSharding(mesh, spec)
        summed = jax.shard_map(self._summed, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        self._sum: Callable[..., Any] = jax.jit(summed)
        # JAX waits for a missing worker without a limit, and already in the call.
        self._apart = ThreadPoolExecutor(1, "xbackend-jax")

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        jax = self.jax
        places = [next(iter(value.devices())) for value in values]
        # Each value keeps its shape: to JAX the workers' values are copies of one replicated array.
        whole = tuple(
            jax.make_array_from_single_device_arrays(
                value.shape, self.sharding, [value if place == self.own else jax.device_put(value, self.own)]
            )
            for value, place in zip(values, places, strict=True)
        )
        try:
            sums = self._apart.submit(self._summed_with_others, whole).result(timeout=self.limit)
        except TimeoutError:
            raise ClusterError(
                f"{self.task} waited {self.limit:g} s (--limit) for the other workers in an all-reduce"
            ) from None
        except RuntimeError as error:  # jaxlib's own, under another name in each version
            raise ClusterError(f"{self.task} could not reduce with the other workers: {str(error)[:500]}") from error
        return [
            total if place == self.own else jax.device_put(total, place)
            for total, place in zip(sums, places, strict=True)
        ]

    def _summed_with_others(self, whole: Sequence[Any]) -> list[Any]:
        return self.jax.block_until_ready([total.addressable_data(0) for total in self._sum(whole)])  # type: ignore[no-any-return]

    def _summed(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The sums of all arrays. Arrays of one dtype travel in one message."""
        jnp, sums = self.jax.numpy, list(values)
        for dtype in dict.fromkeys(value.dtype for value in values):
            own = [k for k, value in enumerate(values) if value.dtype == dtype]
            flat = jnp.concatenate([values[k].ravel() for k in own]) if len(own) > 1 else values[own[0]].ravel()
            total, begin = self.jax.lax.psum(flat, "tasks"), 0
            for k in own:
                sums[k] = total[begin : begin + values[k].size].reshape(values[k].shape)
                begin += values[k].size
        return tuple(sums)


def _free(host: str, port: int, task: Any) -> None:
    """JAX's coordinator crashes where its port is taken."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind((host, port))
        except OSError as error:
            raise ClusterError(
                f"{task} cannot listen on {host}:{port}: {error}; free the port, or name another: --port, or in the "
                "cluster's file"
            ) from None
