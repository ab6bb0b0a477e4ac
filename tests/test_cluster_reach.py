"""Who can reach the tasks of a cluster on one machine: their addresses, tried from outside while they run."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cluster_examples import asked

import xbackend as xb
from xbackend.cluster import running, starting
from xbackend.cluster.job import Job

pytestmark = pytest.mark.tier("standard")


def own_addresses() -> list[str]:
    """This machine's addresses beside the loopback, as others reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # TEST-NET-1 (RFC 5737): nothing is sent
        except OSError:
            return []
        return [one.getsockname()[0]]


def reached(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.settimeout(2.0)
        return one.connect_ex((host, port)) == 0


def summing(task: Any, x: Any) -> Any:
    own = xb.shared(np.float64(0.0), "own")
    xb.update(own, own + xb.all_reduce([xb.sum(x)], "sum", across=task)[0])
    return own


def ran(backend: str, engine: str = "") -> tuple[Any, dict[str, list[str]], list[str]]:
    """Run a job. Returns the results, the addresses at which each task was reached meanwhile, and the output."""
    specs: list[Any] = []
    found: dict[str, list[str]] = {}
    lines: list[str] = []

    def data(task: Any, number: int) -> list[np.ndarray]:
        if number == 2:  # called in this process, once all tasks have taken steps
            address = specs[-1].address(specs[-1].task(task.job, task.index))
            port = int(address.rpartition(":")[2])
            found[str(task)] = [host for host in ("127.0.0.1", *own_addresses()) if reached(host, port)]
        return [np.ones(2)]

    def cluster() -> Any:
        specs.append(question.cluster())
        return specs[-1]

    job = Job(summing)
    job.data(data)
    question = asked(job, backend, 2, steps=4, engine=engine, on_line=lines.append)
    return running.run(replace(question, cluster=cluster)), found, lines


def hosts(done: Any) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses that its tasks listen on."""
    names = {address.rpartition(":")[0].strip("[]") for own in done.listens.values() for address in own}
    every = map(ipaddress.ip_address, names)
    return {getattr(one, "ipv4_mapped", None) or one for one in every}


@pytest.mark.needs("numpy")
def test_mpi_listens_on_nothing() -> None:
    done, _, _ = ran("numpy")
    assert len(done.listens) == 2 and hosts(done) == set()


@pytest.mark.needs("jax")
def test_jax_listens_on_the_loopback() -> None:
    done, found, _ = ran("jax")
    assert len(done.listens) == 2
    assert hosts(done) == {ipaddress.ip_address("127.0.0.1")}, done.listens
    assert found["/job:worker/task:0"] == ["127.0.0.1"], "its coordinator, and not by the machine's own address"


@pytest.mark.tier("exhaustive")
@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize("engine", ["tensorflow", "multi-worker-mirrored"])
def test_tensorflows_servers_are_reached_by_nobody(engine: str) -> None:
    """They listen on every interface of their own network namespace."""
    done, found, _ = ran("tensorflow", engine)
    assert hosts(done) == {ipaddress.ip_address("::")}
    assert found == {"/job:worker/task:0": [], "/job:worker/task:1": []}


@pytest.mark.tier("exhaustive")
@pytest.mark.needs("tensorflow")
def test_who_is_reached_by_everybody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a permitted namespace: here the test above would find something."""

    @contextmanager
    def none() -> Iterator[int]:
        raise PermissionError("not here")
        yield 0

    monkeypatch.setattr(starting, "held", none)
    _, found, lines = ran("tensorflow")
    assert all("127.0.0.1" in one for one in found.values()) and len(found) == 2, found
    assert any("this system permits none (not here); use a network that you trust" in line for line in lines), lines
