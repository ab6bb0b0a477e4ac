"""Environments are made whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from xbackend import environments, files
from xbackend.environments import contents, installer, places, recipes
from xbackend.errors import EnvironmentFailed

pytestmark = pytest.mark.tier("standard")

REPOSITORY = Path(environments.__file__).resolve().parents[2]
BIG = b"x" * 300_000


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """A test's environments lie in its own directory."""
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "home"))


class Tiny:
    """A recipe of one small package, installed from a directory: all is real but the network."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.monkeypatch = monkeypatch
        directory.mkdir()
        monkeypatch.setattr(recipes, "REQUIREMENTS", directory)
        monkeypatch.setattr(recipes, "RECIPES", {"tiny": recipes.Recipe("tiny", newest_python=sys.version_info[:2])})
        monkeypatch.setenv("UV_CACHE_DIR", str(directory / "cache"))
        monkeypatch.setenv("UV_NO_INDEX", "1")
        monkeypatch.setenv("UV_FIND_LINKS", str(directory))
        self.release("1.0")

    def release(self, version: str) -> None:
        """Write the wheel and its lock."""
        info = f"xbtiny-{version}.dist-info"
        files = {
            "xbtiny/__init__.py": f"version = {version!r}\n".encode(),
            "xbtiny/big.bin": BIG,
            f"xbtiny/__pycache__/__init__.{sys.implementation.cache_tag}.pyc": b"compiled by others, as in NumPy 1.26",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: xbtiny\nVersion: {version}\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
        files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
        wheel = self.directory / f"xbtiny-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        self.lock(version, hashlib.sha256(wheel.read_bytes()).hexdigest())

    def lock(self, version: str, digest: str) -> None:
        (self.directory / "tiny.txt").write_text(f"xbtiny=={version} --hash=sha256:{digest}\n")

    def process(
        self, callback: str = "lambda message: print(message, flush=True)", before: str = ""
    ) -> subprocess.Popen:
        """Another Python that syncs it."""
        code = (
            f"import os, resource, signal, sys; sys.path.insert(0, {str(REPOSITORY)!r})\n{before}\n"
            "from pathlib import Path\nfrom xbackend import environments\nfrom xbackend.environments import recipes\n"
            f"recipes.REQUIREMENTS = Path({str(self.directory)!r})\n"
            "recipes.RECIPES['tiny'] = recipes.Recipe('tiny', newest_python=sys.version_info[:2])\n"
            f"print('made', environments.sync('tiny', {callback}).state, flush=True)\n"
        )
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    return Tiny(tmp_path / "links", monkeypatch)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def leftovers() -> list[str]:
    """The content of the environments' directory, without locks."""
    root = environments.directory()
    return sorted(path.name for path in root.iterdir() if path.name != ".locks") if root.exists() else []


def run_in(environment: environments.Environment, code: str) -> str:
    return subprocess.run(
        [environment.python, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


# --- the locks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", environments.names())
def test_the_lock_has_everything_asked_for_with_hashes_and_no_address(name):
    recipe = recipes.recipe(name)
    wanted = set(re.findall(r"^([A-Za-z0-9_-]+)", recipe.source.read_text(), re.MULTILINE))
    lock = recipe.lock.read_text()
    entries = re.split(r"\n(?=[a-z0-9])", lock)[1:] if lock.startswith("#") else re.split(r"\n(?=[a-z0-9])", lock)
    assert wanted <= {re.match(r"[a-z0-9-]+", entry).group() for entry in entries}
    assert all("--hash=sha256:" in entry for entry in entries), "a requirement without a hash"
    for forbidden in ("://", "--index", "--find-links", " @ ", str(REPOSITORY)):
        assert forbidden not in lock


@pytest.mark.tier("exhaustive")
def test_the_real_numpy_environment_works_where_it_was_moved_to(monkeypatch):
    messages: list[str] = []
    made = environments.sync("numpy", messages.append)
    assert made.state == "ready"
    assert made == environments.get("numpy")
    assert {"numpy", "autograd", "threadpoolctl"} <= made.versions().keys()
    assert run_in(made, "import numpy, autograd; print(numpy.__version__)") == made.versions()["numpy"]
    assert run_in(made, "import sys; print(sys.prefix)") == str(made.path)
    assert ".new-" not in run_in(made, "import numpy; print(numpy.__file__, numpy.array.__module__)")
    for script in (made.path / "bin").iterdir():
        assert b".new-" not in script.read_bytes(), f"{script} names the directory that it was made in"
    assert leftovers() == [made.path.name]
    assert messages[-1].endswith(f"ready in {made.path}")


# --- made once ---------------------------------------------------------------------------------------------------


def test_an_environment_that_is_there_is_used(tiny, monkeypatch):
    assert environments.get("tiny").state == "absent"
    first = environments.sync("tiny")
    monkeypatch.setattr(installer, "_uv", lambda: pytest.fail("uv was run again"))
    assert environments.sync("tiny", pytest.fail) == first
    assert first.versions() == {"xbtiny": "1.0"}


def test_two_processes_make_it_once(tiny):
    processes = [tiny.process() for _ in range(3)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert sum(out.count("making it") for out, _ in outputs) == 1
    assert all(out.endswith("made ready\n") for out, _ in outputs)
    assert leftovers() == [environments.get("tiny").path.name]


def test_the_second_process_says_that_it_waits(tiny):
    environments.directory().mkdir(parents=True)
    (environments.directory() / ".locks").mkdir()
    name = recipes.recipe("tiny").directory_name()
    with FileLock(environments.directory() / ".locks" / f"{name}.lock"):
        process = tiny.process()
        assert "another process is working on it" in process.stdout.readline()
        assert leftovers() == []
    out, _ = process.communicate(timeout=60)
    assert out.endswith("made ready\n")


def test_new_requirements_make_a_new_environment_and_remove_takes_both(tiny):
    old = environments.sync("tiny")
    tiny.release("2.0")
    assert environments.get("tiny").state == "stale"
    assert "xbackend env sync tiny" in environments.get("tiny").reason
    assert [(e.path, e.state) for e in environments.list()] == [(old.path, "stale")]
    new = environments.sync("tiny")
    assert (old.path.exists(), new.versions()["xbtiny"]) == (True, "2.0")
    assert [(e.path, e.state) for e in environments.list()] == [(new.path, "ready"), (old.path, "stale")]
    assert sorted(environments.remove("tiny")) == sorted([old.path, new.path])
    assert leftovers() == []
    assert environments.get("tiny").state == "absent"
    assert environments.remove("tiny") == []


# --- what can go wrong -------------------------------------------------------------------------------------------


def test_killed_at_every_step_it_leaves_no_environment_and_the_next_sync_cleans_up(tiny):
    steps = 0
    while True:
        kill = f"lambda message, seen=[]: (seen.append(message), len(seen) > {steps} and os.kill(os.getpid(), 9))"
        process = tiny.process(kill)
        _, err = process.communicate(timeout=60)
        if process.returncode == 0 or environments.get("tiny").state == "ready":
            break
        assert process.returncode == -signal.SIGKILL, err
        assert environments.get("tiny").state == "absent"
        steps += 1
    assert steps >= 4, "it was to be killed while uv was at work"
    assert environments.sync("tiny").state == "ready"
    assert leftovers() == [environments.get("tiny").path.name]


def test_uv_ends_with_the_process_that_started_it(tiny, tmp_path):
    script = tmp_path / "uv"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    script.chmod(0o755)
    process = tiny.process(
        before=f"from xbackend.environments import installer\ninstaller._uv = lambda: {str(script)!r}"
    )
    pid = int(_wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    process.kill()
    process.wait()
    assert _wait_for(lambda: not _alive(pid))


def test_a_file_with_another_hash_is_refused(tiny):
    tiny.lock("1.0", "0" * 64)
    with pytest.raises(EnvironmentFailed, match=r"(?s)is not the one that was locked.*Hash mismatch.*Do not use"):
        environments.sync("tiny")
    assert leftovers() == []


@pytest.mark.parametrize("how", ["closed port", "offline"])
def test_without_the_index(tiny, monkeypatch, how):
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.delenv("UV_FIND_LINKS")
    if how == "offline":
        monkeypatch.setenv("UV_OFFLINE", "1")
    else:
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/")
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EnvironmentFailed, match=r"(?s)tiny: the package index could not be reached.*Check the network"):
        environments.sync("tiny")
    assert leftovers() == []
    assert environments.get("tiny").state == "absent"


def test_without_the_python_and_without_its_server(tmp_path, monkeypatch):
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-managed")
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "pythons"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EnvironmentFailed, match=r"(?s)tiny: its Python is not on this machine.*Install that version"):
        installer.run_uv(["venv", "--python", "3.13", str(tmp_path / "tiny")], "tiny", installer.silent)


@pytest.mark.parametrize("handled", [True, False], ids=["an error from the system", "a signal from the kernel"])
def test_a_disk_that_takes_no_more(tiny, handled):
    before = "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    if handled:
        before += "\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    process = tiny.process(before=before)
    _, err = process.communicate(timeout=60)
    assert "EnvironmentFailed: environment tiny: the disk is full, or a limit on file sizes was reached" in err
    assert "set XBACKEND_HOME" in err
    assert leftovers() == []


def test_a_home_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(EnvironmentFailed, match=r"Not a directory.*Set XBACKEND_HOME"):
        environments.sync("tiny")


def test_interrupted_it_leaves_nothing(tiny):
    def interrupt(message: str) -> None:
        if "Resolved" in message:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        environments.sync("tiny", interrupt)
    assert leftovers() == []


def test_interrupted_it_ends_uv_and_what_uv_started(tiny, tmp_path, monkeypatch):
    script = tmp_path / "uv"
    script.write_text("#!/bin/sh\nsleep 60 &\necho pids $$ $!\nwait\n")
    script.chmod(0o755)
    monkeypatch.setattr(installer, "_uv", lambda: str(script))
    seen: list[str] = []

    def interrupt(message: str) -> None:
        seen.append(message)
        if "pids" in message:
            raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        environments.sync("tiny", interrupt)
    assert time.monotonic() - start < 10
    _, *pids = seen[-1].split(": ")[1].split()
    assert len(pids) == 2
    assert _wait_for(lambda: not any(_alive(int(pid)) for pid in pids))


@pytest.mark.parametrize("damage", ["a file is gone", "a file is short", "its Python is gone", "the marker is cut"])
def test_a_damaged_environment_is_made_again(tiny, damage):
    made = environments.sync("tiny")
    big = next(made.path.glob("lib/python*/site-packages/xbtiny/big.bin"))
    if damage == "its Python is gone":
        made.python.unlink()
    elif damage == "the marker is cut":
        (made.path / places.MARKER).write_text('{"format": 1, "na')
    else:
        big.unlink()  # not in place: it may be a hard link into uv's cache
        if damage == "a file is short":
            big.write_bytes(BIG[:-1])
    assert environments.get("tiny").damage()
    messages: list[str] = []
    assert environments.sync("tiny", messages.append).damage() == []
    assert any("damaged" in message for message in messages)
    assert run_in(made, "import xbtiny; print(xbtiny.version)") == "1.0"


def test_a_broken_environment_says_what_to_type(tiny):
    made = environments.sync("tiny")
    made.python.unlink()
    broken = environments.get("tiny")
    assert broken.state == "broken"
    assert "xbackend env sync tiny" in broken.reason
    with pytest.raises(EnvironmentFailed, match="xbackend env sync tiny"):
        broken.versions()


def test_progress_is_heard_while_uv_is_silent(tiny, tmp_path, monkeypatch):
    script = tmp_path / "uv"
    script.write_text("#!/bin/sh\nsleep 3.5\necho no more >&2\nexit 7\n")
    script.chmod(0o755)
    monkeypatch.setattr(installer, "_uv", lambda: str(script))
    times = [time.monotonic()]
    with pytest.raises(EnvironmentFailed, match=r"(?s)exited with status 7.*no more"):
        environments.sync("tiny", lambda message: times.append(time.monotonic()))
    times.append(time.monotonic())
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 2


def test_in_one_process_threads_make_it_once(tiny):
    messages: list[str] = []
    threads = [threading.Thread(target=environments.sync, args=("tiny", messages.append)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum("making it" in message for message in messages) == 1
    assert environments.get("tiny").state == "ready"


def test_without_uv_the_error_says_how_to_get_it(tiny, monkeypatch):
    def missing() -> str:
        raise FileNotFoundError("no uv")

    monkeypatch.setattr(installer.uv, "find_uv_bin", missing)
    with pytest.raises(EnvironmentFailed, match="pip install uv"):
        environments.sync("tiny")


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(EnvironmentFailed, match="no environment 'nunpy'; there are numpy, tensorflow"):
        environments.get("nunpy")


def test_the_index_that_pip_uses_is_used(monkeypatch):
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://mirror.invalid/simple")
    assert installer._environment()["UV_DEFAULT_INDEX"] == "http://mirror.invalid/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://other.invalid/simple")
    assert installer._environment()["UV_DEFAULT_INDEX"] == "http://other.invalid/simple"


# --- what configures uv, and who can write to the home -----------------------------------------------------------


def configure(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def sdist(tiny):
    """The same version as source, in the lock too; its build leaves a file."""
    ran = tiny.directory / "ran"
    setup = f"open({str(ran)!r}, 'w'); from setuptools import setup; setup(name='xbtiny', version='1.0', py_modules=[])"
    source = tiny.directory / "xbtiny-1.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        for name, text in (("setup.py", setup), ("PKG-INFO", "Metadata-Version: 2.1\nName: xbtiny\nVersion: 1.0\n")):
            member = tarfile.TarInfo(f"xbtiny-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    lock = tiny.directory / "tiny.txt"
    lock.write_text(f"{lock.read_text().strip()} --hash=sha256:{hashlib.sha256(source.read_bytes()).hexdigest()}\n")
    return ran


@pytest.mark.parametrize("text", ['[pip]\nno-binary = ["xbtiny"]', '[pip]\ntarget = "elsewhere"', "this is no TOML"])
def test_a_configuration_of_uv_above_the_home_counts_for_nothing(tiny, sdist, tmp_path, text):
    for where in ("uv.toml", "home/uv.toml", "home/environments/uv.toml"):
        configure(tmp_path / where, text)
    configure(tmp_path / "pyproject.toml", text.replace("[pip]", "[tool.uv.pip]"))
    made = environments.sync("tiny")
    assert made.versions() == {"xbtiny": "1.0"}
    assert run_in(made, "import xbtiny; print(xbtiny.version)") == "1.0"
    assert not sdist.exists(), "it was built"


@pytest.mark.parametrize("where", ["the user's", "the system's", "UV_CONFIG_FILE", "UV_FIND_LINKS"])
def test_the_users_own_configuration_of_uv_counts(tiny, tmp_path, monkeypatch, where):
    """A mirror that only the configuration names."""
    text = f'no-index = true\nfind-links = ["{tiny.directory}"]\n'
    if where != "UV_FIND_LINKS":
        monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "system"))
    if where == "the user's":
        configure(tmp_path / "config" / "uv" / "uv.toml", text)
    elif where == "the system's":
        configure(tmp_path / "system" / "uv" / "uv.toml", text)
    elif where == "UV_CONFIG_FILE":
        configure(tmp_path / "mine.toml", text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("UV_CONFIG_FILE", "mine.toml")
    assert environments.sync("tiny").versions() == {"xbtiny": "1.0"}


def test_what_uv_installed_elsewhere_is_no_environment(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "mine.toml"))
    configure(tmp_path / "mine.toml", f'[pip]\ntarget = "{tmp_path}/elsewhere"')
    with pytest.raises(EnvironmentFailed, match=r"nothing is installed, 1\.0 is locked.*`target`.*UV_CONFIG_FILE"):
        environments.sync("tiny")
    assert leftovers() == []


def test_what_is_installed_is_what_is_locked():
    facts = contents.facts(Path(sys.executable))
    lock = "# made by\na==1.0 ; python_version < '3' \\\n    --hash=sha256:0\nB_b==2.0+x \\\n    --hash=sha256:0\n"
    assert contents.unlocked({"b-b": "2.0+x"}, lock, facts) == []
    assert contents.unlocked({"b.b": "2.0", "c": "1"}, lock, facts) == [
        "b-b: 2.0 is installed, 2.0+x is locked",
        "c: 1 is installed, nothing is locked",
    ]
    assert contents.unlocked({}, lock, facts) == ["b-b: nothing is installed, 2.0+x is locked"]


@pytest.mark.parametrize("which", ["home", "home/environments", "."], ids=["home", "below", "above"])
def test_a_home_that_others_can_write_to_is_refused(tiny, tmp_path, monkeypatch, which):
    (tmp_path / "home" / "environments").mkdir(parents=True)
    folder = tmp_path / which
    folder.chmod(0o777)
    try:
        for use in (environments.get, environments.sync, environments.remove):
            with pytest.raises(EnvironmentFailed, match=r"everybody can write.*chmod go-w .*XBACKEND_SHARED_HOME=1"):
                use("tiny")
        monkeypatch.setenv("XBACKEND_SHARED_HOME", "1")
        assert environments.sync("tiny").state == "ready"
    finally:
        folder.chmod(0o755)


def test_a_sticky_folder_above_the_home_is_as_good_as_ones_own(tiny, tmp_path):
    tmp_path.chmod(0o1777)
    assert environments.sync("tiny").state == "ready"


def test_who_can_write_to_a_folder(tmp_path, monkeypatch):
    assert files.writers(tmp_path) == ""
    tmp_path.chmod(0o775)
    own, foreign = SimpleNamespace(gr_name="me", gr_mem=[]), SimpleNamespace(gr_name="me", gr_mem=["other"])
    monkeypatch.setattr(files.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me"))
    for group, words in ((own, ""), (foreign, "the group me can write to it")):
        monkeypatch.setattr(files.grp, "getgrgid", lambda gid, group=group: group)
        assert files.writers(tmp_path) == words
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    if tmp_path.stat().st_uid:
        assert files.writers(tmp_path) == "it belongs to me"


def test_with_any_umask_others_cannot_write_to_what_is_made(tiny):
    before = os.umask(0)
    try:
        made = environments.sync("tiny")
    finally:
        os.umask(before)
    open_to_others = [p for p in environments.home().rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o022]
    assert {path.suffix or path.name for path in open_to_others} <= {".lock"}, "they are empty, and never read"
    assert environments.get("tiny").state == "ready"
    made.path.chmod(0o777)
    assert "everybody can write" in environments.get("tiny").reason
    assert environments.sync("tiny").path.stat().st_mode & 0o022 == 0


# --- contents ------------------------------------------------------------------------------------------------------


def overwrite(file: Path) -> None:
    """Write other bytes into the same file. Uv's cache has them too if it is a hard link."""
    with file.open("r+b") as stream:
        stream.write(b"damaged")


def test_contents_that_changed_are_found_and_do_not_come_back_from_uvs_cache(tiny):
    made = environments.sync("tiny")
    (big,) = made.path.glob("lib/python*/site-packages/xbtiny/big.bin")
    assert environments.problems("tiny") == []
    for file in [big, *(tiny.directory / "cache").rglob("big.bin")]:  # for hard links and copies
        overwrite(file)
    assert environments.sync("tiny", pytest.fail) == made, "sizes only"
    assert environments.problems("tiny") == ["xbtiny: xbtiny/big.bin has other contents than were installed"]
    messages: list[str] = []
    made = environments.sync("tiny", messages.append, hashes=True)
    assert any("damaged in uv's cache" in message for message in messages)
    assert big.read_bytes() == BIG
    assert environments.problems("tiny") == []


def test_a_damaged_cache_of_uv_is_found_at_the_first_installation(tiny):
    environments.sync("tiny")
    environments.remove("tiny")
    for file in (tiny.directory / "cache").rglob("big.bin"):
        overwrite(file)
    made = environments.sync("tiny")
    assert (environments.problems("tiny"), made.state) == ([], "ready")


@pytest.mark.parametrize("record", ["", "xbtiny/__init__.py,sha256=x,many\n", "\xff", None])
def test_a_damaged_list_of_files_is_damage(tiny, record):
    made = environments.sync("tiny")
    (file,) = made.path.glob("lib/python*/site-packages/xbtiny-1.0.dist-info/RECORD")
    file.unlink()
    if record is not None:
        file.write_text(record, encoding="latin-1")
    assert environments.problems("tiny") == ["xbtiny: its list of files is missing or damaged"]
    assert environments.sync("tiny").damage() == []


@pytest.mark.parametrize("how", ["exits", "hangs up", "is a folder"])
def test_a_python_that_does_not_run_is_not_ready(tiny, how):
    made = environments.sync("tiny")
    made.python.unlink()
    if how == "is a folder":
        made.python.mkdir()
    else:
        made.python.write_text("#!/bin/sh\nexit 3\n" if how == "exits" else "#!/bin/sh\nkill -9 $$\n")
        made.python.chmod(0o755)
    messages: list[str] = []
    assert environments.problems("tiny")
    made = environments.sync("tiny", messages.append)
    assert any("does not run" in message or "cannot be run" in message for message in messages)
    assert run_in(made, "import xbtiny; print(xbtiny.version)") == "1.0"


def _wait_for(condition, seconds: float = 10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    return pytest.fail(f"not within {seconds} s")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
