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

TWICE = """
def twice(backend):
    cmodule = backend.module("link.c.cmodule")
    data = cmodule.KeyData({"known"}, "hash", "", "entry")
    data.add_key("known", save_pkl=False)
    data.add_key("new", save_pkl=False)
    return sorted(data.keys)
"""


@pytest.mark.tier("standard")
@pytest.mark.parametrize("name", ["theano", "aesara", "pytensor-c"])
def test_a_key_that_another_process_made_is_no_failure(name: str, tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(TWICE)
    with RemoteBackend(name, modules={"asking": str(tmp_path / "asking.py")}) as backend:
        assert backend.call("asking:twice") == ["known", "new"]


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
    """The lock is no file of a temporary folder, which each worker has for itself and another user may have before."""
    monkeypatch.setattr(contexts, "_start", lambda *_: held(tmp_path))
    assert contexts.start("theano-gpuarray", os, 1, tmp_path) is True
    assert not held(tmp_path)
