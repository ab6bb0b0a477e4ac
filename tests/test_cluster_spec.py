"""Clusters: their rules, and reading them from files and from launchers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cluster_examples as examples
import hypothesis.strategies as st
import pytest
from hypothesis import given

from xbackend.engines.spec import FIRST_PORT, Announced, ClusterSpec, Task, expanded, found, read, split
from xbackend.errors import ClusterError

PORTS = st.integers(1, 65535)
HOSTS = st.sampled_from(["127.0.0.1", "[::1]", "node-1", "a.example", "10.0.0.7"])
ADDRESSES = st.builds(lambda host, port: f"{host}:{port}", HOSTS, PORTS)
CLUSTERS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True),
    st.lists(ADDRESSES, min_size=1, max_size=4),
    min_size=1,
    max_size=3,
).filter(lambda jobs: len({a for own in jobs.values() for a in own}) == sum(map(len, jobs.values())))


@given(CLUSTERS)
def test_a_cluster_is_read_as_it_was_written(tmp_path_factory: Any, jobs: dict[str, list[str]]) -> None:
    spec = ClusterSpec(jobs)  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("cluster") / "cluster.toml"
    path.write_text(examples.toml(spec))
    assert read(path) == spec
    for task in spec.tasks:
        assert found({"TF_CONFIG": spec.tf_config(task)}) == Announced(spec, task, ports=True)
        assert split(spec.address(task))[0] in spec.hosts()
    for told in (spec.tf_config, spec.address):
        with pytest.raises(ClusterError, match="is not of this cluster"):
            told(Task(task.job, task.count, task.count + 1))


@given(st.integers(0, 1000), st.integers(1, 20))
def test_the_shares_of_all_tasks_are_all_rows_once(rows: int, count: int) -> None:
    shares = [Task("worker", i, count).share(rows) for i in range(count)]
    assert [row for share in shares for row in share] == list(range(rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":1",
        "host:0",
        "host:65536",
        "host:1x",
        "::1:80",
        "[127.0.0.1]:80",
        "a b:80",
        "-a:80",
        None,
        7,
    ],
)
def test_what_is_no_address_is_refused(address: Any) -> None:
    with pytest.raises(ClusterError, match="is no address of a task"):
        ClusterSpec({"worker": (address,)})


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({}, "a cluster has jobs"),
        ({"worker": ()}, "it needs one"),
        ({"Worker": ("a:1",)}, "is no name of small letters"),
        ({"worker": ("a:1", "a:1")}, "task:1 and /job:worker/task:0 have the same address a:1"),
        ({"worker": ("a:1",), "ps": ("a:1",)}, "/job:ps/task:0 and /job:worker/task:0"),
    ],
)
def test_what_is_no_cluster_is_refused(jobs: Any, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        ClusterSpec(jobs)


def test_a_cluster_on_one_host() -> None:
    spec = ClusterSpec.of([f"127.0.0.1:{port}" for port in (4000, 4001, 4002)], servers=1)
    assert spec.jobs == {"ps": ("127.0.0.1:4000",), "worker": ("127.0.0.1:4001", "127.0.0.1:4002")}
    assert [*map(str, spec.tasks)] == ["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"]
    for job, index in (("worker", 2), ("chief", 0), ("worker", True), ("worker", -1)):
        with pytest.raises(ClusterError, match="the cluster has ps of 1 and worker of 2"):
            spec.task(job, index)
    with pytest.raises(ClusterError, match="not of this cluster"):
        spec.address(Task("worker", 0, 3))


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[01-03,7],login", ["n01", "n02", "n03", "n7", "login"]),
        ("a[1-2]-ib,b3", ["a1-ib", "a2-ib", "b3"]),
        ("r[1,3]n[08-09]", ["r1n08", "r1n09", "r3n08", "r3n09"]),
        ("r[1-2][5-6]x", ["r15x", "r16x", "r25x", "r26x"]),
        ("", []),
    ],
)
def test_slurms_lists_of_hosts(text: str, hosts: list[str]) -> None:
    assert expanded(text) == hosts


@pytest.mark.parametrize(
    "text", ["n[", "n[a]", "n[3-1]", "n[1-]", "n 1", "n[1-999999999]", "a[1-999]b[1-999]", "a_[1-2]"]
)
def test_what_is_no_list_of_hosts_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="as Slurm writes it"):
        expanded(text)


def test_what_slurm_says() -> None:
    environment = {
        **{"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_STEP_NODELIST": "n[1-2]"},
        **{"SLURM_STEP_TASKS_PER_NODE": "2,1"},
    }
    said = found(environment)
    assert said is not None and not said.ports
    assert said.spec.jobs == {"worker": (f"n1:{FIRST_PORT}", f"n1:{FIRST_PORT + 1}", f"n2:{FIRST_PORT}")}
    assert (said.task, said.host) == (Task("worker", 2, 3), "n2")
    for wrong in (
        {"SLURM_STEP_TASKS_PER_NODE": "1,1"},
        {"SLURM_PROCID": "3"},
        {"SLURM_PROCID": "x"},
        {"SLURM_NTASKS": "abc"},
    ):
        with pytest.raises(ClusterError):
            found({**environment, **wrong})


@pytest.mark.parametrize("names", [("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")])
def test_what_mpi_says(names: tuple[str, str]) -> None:
    said = found({names[0]: "1", names[1]: "2"})
    assert said is not None and (said.task, said.ports) == (Task("worker", 1, 2), False)
    with pytest.raises(ClusterError):
        found({names[0]: "2", names[1]: "2"})


def test_without_a_launcher_there_is_none() -> None:
    assert found({}) is None


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "text",
    ["{", "[]", DEEP, '{"cluster": {}}', json.dumps({"cluster": {"worker": "a:1"}, "task": {}})],
    ids=lambda text: text[:20],
)
def test_a_tf_config_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ClusterError):
        found({"TF_CONFIG": text})


@pytest.mark.parametrize(
    "text",
    ["", "[jobs", f"jobs = {DEEP}", "jobs = 1", '[jobs]\nworker = "a:1"', "[jobs]\nworker = [1]"],
    ids=lambda text: text[:20],
)
def test_a_file_that_is_no_cluster_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    with pytest.raises(ClusterError):
        read(path)
    with pytest.raises(ClusterError, match="cannot be read"):
        read(tmp_path / "none.toml")
