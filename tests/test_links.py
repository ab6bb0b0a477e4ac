"""Two hosts and their link: nothing is left behind, nothing hangs, and the files are complete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from links import document, measured, namespaces, predictions
from links.namespaces import NotPermitted
from links.scaling import all_reduce
from links.shared import GRADIENTS
from xbackend.results.schema import Machine

BENCH = Path(namespaces.__file__).parent.parent


def gone(pid: int) -> bool:
    """Whether a process ends within a moment."""
    for _ in range(200):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def hosts() -> Iterator[namespaces.Hosts]:
    try:
        with namespaces.linked(1e-3, 1e7) as made:
            yield made
    except NotPermitted as why:
        pytest.skip(f"two hosts need network namespaces: {why}")


@pytest.fixture
def permitted() -> None:
    """Skip the test unless the system permits hosts."""
    try:
        with namespaces.linked(1e-3, 1e7):
            pass
    except NotPermitted as why:
        pytest.skip(f"two hosts need network namespaces: {why}")


def dead() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_hosts_reach_each_other_and_nothing_else(hosts: namespaces.Hosts) -> None:
    code = (
        "import socket, sys, time\n"
        "server = socket.create_server(('10.77.0.2', 4000)) if sys.argv[1] == '1' else None\n"
        "if server: print('up', flush=True); server.accept()[0].sendall(b'here'); sys.exit()\n"
        "begin = time.monotonic(); one = socket.create_connection(('10.77.0.2', 4000), 10)\n"
        "print(one.recv(4).decode(), time.monotonic() - begin, len(socket.if_nameindex()))\n"
    )
    serving = hosts.start(1, [sys.executable, "-c", code, "1"], stdout=subprocess.PIPE)
    asking = None
    try:
        assert serving.stdout is not None and serving.stdout.readline() == "up\n"
        asking = hosts.start(0, [sys.executable, "-c", code, "0"], stdout=subprocess.PIPE)
        said, seconds, interfaces = asking.communicate(timeout=60)[0].split()
    finally:
        namespaces.end([one for one in (serving, asking) if one is not None])
    assert said == "here" and float(seconds) >= 3e-3  # three times over the link
    assert int(interfaces) == 2


def test_what_is_left_of_a_dead_process_is_removed(hosts: namespaces.Hosts) -> None:
    name = f"{namespaces.PREFIX}-{dead()}-a"
    subprocess.run(["ip", "netns", "add", name], check=True)
    inside = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "1000"])
    time.sleep(0.2)
    try:
        assert name in namespaces.remove_left_over()
        assert inside.wait(10) == -signal.SIGKILL
        assert name not in namespaces.there() and set(hosts.names) <= set(namespaces.there())
    finally:
        inside.kill()
        namespaces.remove(name)


def test_the_relay_ends_with_who_started_it(permitted: None) -> None:
    code = (
        f"import sys; sys.path[:0] = [{str(BENCH)!r}]\n"
        "import subprocess, time; from links import namespaces as n\n"
        "with n.linked(1e-3, 1e7) as hosts:\n"
        "    command = ['ip', 'netns', 'pids', hosts.names[0][:-1] + 'r']\n"
        "    print(subprocess.check_output(command, text=True).split()[0], flush=True); time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        relay = int(maker.stdout.readline())
        assert maker.pid in namespaces.there().values()
        maker.kill()
    assert gone(relay)
    namespaces.remove_left_over()
    assert maker.pid not in namespaces.there().values()


@pytest.mark.parametrize(("script", "said"), [("sleep 1000", "more than"), ("echo no >&2; exit 3", "no")])
def test_ranks_that_do_not_measure_are_ended(script: str, said: str, tmp_path: Path, permitted: None) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(measured.Failed, match=said):
        measured.measure(python, 1e-3, 1e7, predictions.asked(quick=True), limit=2.0)
    assert os.getpid() not in namespaces.there().values()


def test_where_it_is_not_permitted_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPermitted, match="ip netns list"), namespaces.linked(1e-3, 1e7):
        pass
    (tmp_path / "ip").write_text("#!/bin/sh\necho 'Operation not permitted' >&2; exit 1\n")
    (tmp_path / "ip").chmod(0o755)
    with pytest.raises(NotPermitted, match="Operation not permitted"), namespaces.linked(1e-3, 1e7):
        pass


def made_up() -> predictions.Found:
    """Results of a link of 2 ms and 10 MB/s that agrees with predictions, except for a step twice as long."""
    plan = predictions.asked(quick=True)
    rounds: list[measured.Rounds] = [[[4e-3] * 3] * 2, [[0.1], [2.62144e-2]], [[0.1, 0.1], [0.1, 0.1]]]
    link = predictions.Link(2e-3, 1e7)
    rounds += [[[all_reduce(2, one.nbytes, link)] * 3] * 2 for one in plan[3:-1]]
    step = 2 * (0.1 + all_reduce(2, GRADIENTS, link))
    return predictions.read(2e-3, 1e7, plan, [*rounds, [[step], [step]]])


def test_predictions_are_of_the_link_as_measured() -> None:
    found = made_up()
    assert (found.link.latency, found.link.bandwidth) == pytest.approx((2e-3, 1e7))
    assert found.compute == predictions.Compute(0.1, 0.0)
    *reduced, step = found.rows
    assert [row.miss for row in reduced] == pytest.approx([0.0] * len(reduced)) and step.miss == pytest.approx(-0.5)
    good, bad = predictions.figures(found)
    assert good.reached is True and bad.reached is False and bad.value == pytest.approx(0.5)


def test_what_is_written_is_the_same_for_the_same_data(tmp_path: Path) -> None:
    machine = Machine(processor="p", cores=2, memory_bytes=1, system="s", python="3", accelerators=[], fingerprint="f")
    for name in ("a", "b"):
        document.write(tmp_path / name, [made_up()], machine, "2026-01-01T00:00:00+00:00")
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert files == ["data-centre.svg", "measured.svg", "report.md", "scaling.json"]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    data = json.loads((tmp_path / "a" / "scaling.json").read_text())
    assert data["links"][0]["rows"][-1]["miss"] == pytest.approx(-0.5)
    assert data["curves"]["measured"]["points"][-1]["workers"] == 1000
    text = (tmp_path / "a" / "report.md").read_text()
    assert "4 of 5 predictions are within 15 % of what was measured" in text and "(measured.svg)" in text
