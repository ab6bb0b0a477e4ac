"""What notebooks show of programs, executables, placements and arrays: small, escaped, and each picture by itself."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import xbackend as xb
from xbackend.backends.placement import OPS, Placement, TransferRecord

EVIL = "<script>alert('x')</script>"
X = np.ones((2, 3), np.float32)


def two_devices(x: Any) -> Any:
    with xb.device("dev0"):
        y = xb.exp(x)
    with xb.device("dev1"):
        return xb.sum(y * 2)


def check(page: str) -> str:
    """Well-formed, without a script, a style sheet or an address; returns it."""
    tree = ElementTree.fromstring(f"<page>{page}</page>")
    names = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert not names & {"script", "style", "a", "link", "img", "foreignObject"}
    assert not re.search(r"(https?://(?!www\.w3\.org)|javascript:)", page)
    return page


def test_a_program_is_shown_with_its_drawing() -> None:
    program = xb.trace(two_devices, X)
    page = check(program._repr_html_())
    assert "program two_devices" in page and "x: float32[2, 3]" in page.replace("[2,3]", "[2, 3]")
    assert "dev0 and dev1" in page and page.count("<svg") == 1 and len(page) < 20_000
    other = check(xb.trace(lambda x: x + 1, X)._repr_html_())
    ids = [set(re.findall(r'\bid="([^"]+)"', one)) for one in (page, other)]
    assert not ids[0] & ids[1]


def test_a_large_program_is_not_drawn() -> None:
    def chain(x: Any) -> Any:
        for _ in range(50):
            x = xb.sin(x)
        return x

    page = check(xb.trace(chain, X)._repr_html_())
    assert "<svg" not in page and "nodes" in page and len(page) < 3000


def test_an_executable_and_its_placement_are_shown() -> None:
    with xb.open("numpy", virtual_devices=2) as backend:
        run = backend.compile(two_devices, X, devices={"dev0": "cpu:0", "dev1": "cpu:1"})
        run(X)
        page, placed = check(run._repr_html_()), check(run.placement._repr_html_())
    assert "two_devices on numpy" in page and page.count("<svg") == 1 and "first_call" in page
    assert "transfer" in placed and "<svg" not in placed
    assert "closed" in check(run._repr_html_())


def test_a_placement_is_a_table_of_what_ran_where() -> None:
    moved = TransferRecord(1, "cpu:0", EVIL, 8, "framework", "copy", "")
    placement = Placement((), (moved,))
    page = check(placement._repr_html_())
    assert ("&lt;script&gt;" in page and "8 bytes" in page) or "8 B" in page
    assert all(f">{name}</th>" not in page for name in OPS[:1])  # there is no op


@pytest.mark.parametrize("name", ["w", EVIL])
def test_arrays_are_shown_as_they_are_printed(name: str) -> None:
    shown: list[str] = []
    w = xb.shared(X, name=name)
    xb.trace(lambda x: shown.append(x._repr_html_()) or x, X)
    assert shown[0] == "<pre>&lt;traced float32[2, 3]&gt;</pre>"
    assert "float32[2, 3]" in check(w._repr_html_()) and "<script" not in w._repr_html_()
    with xb.open("numpy") as backend:
        array = backend.namespace.asarray(X)
        assert "[1., 1., 1.]], dtype=float32" in check(array._repr_html_())
        assert len(backend.namespace.ones(100_000)._repr_html_()) < 300
