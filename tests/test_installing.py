"""``xbackend doctor --install`` shows missing packages, and installs them with apt-get or says that there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xbackend.backends import registry, system
from xbackend.cli import DONE, INCOMPLETE, doctor
from xbackend.environments import system_packages

pytestmark = pytest.mark.tier("standard")

ROOT = Path(__file__).parent.parent
BROWSER = system.BROWSER.name


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


class Machine:
    """A PATH, and the commands called in it."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.log = folder / "bin", folder / "log"
        self.bin.mkdir()
        for name in ("env", "sh"):
            os.symlink(f"/usr/bin/{name}", self.bin / name)

    def has(self, name: str, then: str = "") -> None:
        script(self.bin / name, f'echo {name} "$@" >> {self.log}\n{then}')

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": str(self.bin), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        command = [sys.executable, "-m", "xbackend", "doctor", "--backends", "numpy", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)

    @property
    def called(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


SSHD = Path("/usr/sbin/sshd")  # found wherever the PATH leads
OF_TESTS = [
    package.name
    for packages in system.TESTS.values()
    for package in packages
    if package.name != "openssh-server" or not SSHD.exists()
]


def test_a_server_that_the_path_of_users_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (server,) = (package for package in system.HOSTS if package.name == "openssh-server")
    assert system.missing([server]) == (() if SSHD.exists() else (server.name,))


INSTALL = f"install --yes --quiet --no-install-recommends {' '.join(OF_TESTS)}"


def test_what_is_missing_is_shown_and_installed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has("apt-get")
    done = machine.run("--install", "--tests")
    assert done.returncode == DONE, done.stderr
    assert BROWSER in done.stdout and "the tests of reports' pages" in done.stdout
    if os.geteuid() == 0:
        assert machine.called == ["apt-get update --quiet", f"apt-get {INSTALL}"]
    assert "numpy" in done.stdout and "ready" in done.stdout, "the environments are made too"
    for command in ("chromium", "sshd", "ssh", "ip"):
        machine.has(command)
    before = len(machine.called)
    assert "nothing is missing of the system" in machine.run("--install", "--tests").stdout
    assert len(machine.called) == before


def test_without_tests_a_browser_is_not_missed(machine: Machine) -> None:
    machine.has("apt-get")
    assert "nothing is missing of the system" in machine.run("--install").stdout
    assert "--tests says what to --install" in machine.run("--tests").stderr


def test_on_an_unknown_system_it_says_what_to_have_and_goes_on(machine: Machine) -> None:
    done = machine.run("--install", "--tests")
    assert done.returncode == DONE, "the tests that need it are left out by themselves"
    assert (
        f"this system has no apt-get: install what is called {', '.join(OF_TESTS)} on Debian by its own means"
        in done.stdout
    )


def test_an_installation_that_fails_is_told_with_its_exit_code(machine: Machine) -> None:
    machine.has("apt-get", "exit 100")
    machine.has("sudo", 'exec "$@"')
    done = machine.run("--install", "--tests")
    assert done.returncode == INCOMPLETE
    assert "apt-get update --quiet` ended with exit code 100" in done.stdout


def test_root_is_asked_for_only_where_something_is_missing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.has("apt-get")
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(system_packages, "missing", lambda name: ("g++",))
    assert doctor.installed(["numpy"], for_tests=False).exit_code == INCOMPLETE
    assert "that takes root, and there is no sudo here: as root, type `apt-get update" in capsys.readouterr().out
    assert machine.called == []
    machine.has("sudo")
    assert doctor.installed(["numpy"], for_tests=False).exit_code == DONE
    assert [line.split()[:2] for line in machine.called] == [["sudo", "apt-get"]] * 2
    monkeypatch.setattr(system_packages, "missing", lambda name: ())
    assert doctor.installed(["numpy"], for_tests=False).exit_code == DONE
    assert len(machine.called) == 2


def test_every_package_says_what_it_is_for() -> None:
    of_tests = [package for packages in system.TESTS.values() for package in packages]
    packages = {*of_tests, *(package for entry in registry.entries() for package in entry.system)}
    assert all(package.gives for package in packages)
    assert {system_packages.gives(package.name) for package in packages} == {package.gives for package in packages}
    assert system_packages.gives("python3.12-dev") == system.HEADERS.gives


def test_the_tests_need_environments_without_a_backend_too(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []
    monkeypatch.setattr(doctor, "_environments", lambda names: made.append([*names]) or [])
    monkeypatch.setattr(system, "missing", lambda *_: ())
    monkeypatch.setattr(system_packages, "missing", lambda _: ())
    ended = [doctor.doctor(install=True, tests=True), doctor.doctor(install=True)]
    ended.append(doctor.doctor(install=True, tests=True, backends=["numpy"]))
    assert [one.exit_code for one in ended] == [DONE] * 3
    everything, of_backends, one = map(set, made)
    assert (everything - of_backends, one) == ({"pymc", "onnx"}, {"numpy"})
