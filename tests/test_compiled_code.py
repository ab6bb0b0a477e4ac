"""The cache of compiled code of the backends that compile C."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xbackend.backends.gpuarray import contexts
from xbackend.backends.lineage import compiled_code
from xbackend.errors import BackendUnavailable
from xbackend.files import held
from xbackend.workers.remote import RemoteBackend

ASKED = """
import pickle, threading


def twice(backend):
    cmodule = backend.module("link.c.cmodule")
    data = cmodule.KeyData({"known"}, "hash", "", "entry")
    data.add_key("known", save_pkl=False)
    data.add_key("new", save_pkl=False)
    return sorted(data.keys)


def cut_off(backend, path):
    # How often keys that are written again and again are found cut off by who reads them meanwhile.
    data = backend.module("link.c.cmodule").KeyData({"key" * 10**6}, "hash", path, "entry")
    data.save_pkl()
    done, found = threading.Event(), []

    def read():
        while not done.is_set():
            with open(path, "rb") as file:
                keys = file.read()
            found.append(not keys.endswith(pickle.STOP))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        data.save_pkl()
    done.set()
    reader.join()
    return sum(found)
"""


@pytest.mark.tier("standard")
@pytest.mark.parametrize("name", ["theano", "aesara", "pytensor-c"])
def test_several_processes_fill_the_cache_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(ASKED)
    with RemoteBackend(name, modules={"asking": str(tmp_path / "asking.py")}) as backend:
        assert backend.call("asking:twice") == ["known", "new"]
        assert backend.call("asking:cut_off", str(tmp_path / "keys.pkl")) == 0


@pytest.mark.parametrize("which", ["home", "home/compiled", "home/compiled/it", "."])
def test_a_cache_that_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path / "home"))
    folder = compiled_code.folder("theano", "it")
    (tmp_path / which).chmod(0o777)
    try:
        with pytest.raises(BackendUnavailable, match=r"backend theano .*everybody can write to it.*chmod go-w"):
            compiled_code.folder("theano", "it")
        monkeypatch.setenv("XBACKEND_SHARED_HOME", "1")
        assert compiled_code.folder("theano", "it") == folder
    finally:
        (tmp_path / which).chmod(0o755)


def test_what_can_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("XBACKEND_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BackendUnavailable, match=r"file/xbackend/compiled/it, which cannot be made: File exists"):
        compiled_code.folder("aesara", "it")


@pytest.mark.tier("standard")
@pytest.mark.parametrize("name", ["pytensor-c", "aesara", "theano-gpuarray"])
def test_a_backend_loads_nothing_that_others_could_have_put_there(name: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(BackendUnavailable, match=rf"backend {name} keeps .*everybody can write to it"):
        RemoteBackend(name, environment={"XBACKEND_HOME": str(tmp_path)})


def test_pocl_is_begun_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock must not lie in a temporary folder: each worker has its own, and another user may own a common one."""
    monkeypatch.setattr(contexts, "_start", lambda *_: held(tmp_path))
    assert contexts.start("theano-gpuarray", os, 1, tmp_path) is True
    assert not held(tmp_path)
