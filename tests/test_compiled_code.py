"""The cache of compiled code of the backends that compile C."""

from __future__ import annotations

from pathlib import Path

import pytest

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
