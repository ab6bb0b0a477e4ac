"""The committed reports: markdown, pictures and data, without pages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from xbackend.report import kinds
from xbackend.results import packing
from xbackend.results.schema import read

ROOT = Path(__file__).parent.parent
MOST, LINES = 3_000_000, 300  # bytes of all reports, lines of a report, which a comparison of devices may exceed


def committed(folder: Path) -> list[str]:
    """The files of a folder in git, by their names in it."""
    listed = subprocess.run(["git", "ls-files", "-z", "."], cwd=folder, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


# Without those that the reader has made here, as README's first command does.
WRITTEN = {name: there for name, there in kinds.there(ROOT / "reports").items() if committed(ROOT / "reports" / name)}


def too_heavy(folder: Path) -> list[str]:
    """The committed files of a folder that are too large."""
    names = committed(folder)
    weight = sum((folder / name).stat().st_size for name in names)
    pages = [name for name in names if name.endswith(".html")]
    return [*([f"{weight} bytes"] if weight > MOST else []), *pages]


def test_the_reports_carry_no_weight(tmp_path: Path) -> None:
    assert not too_heavy(ROOT / "reports")
    (tmp_path / "report.html").write_bytes(b"x" * (MOST + 1))  # the planted fault
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert too_heavy(tmp_path) == [f"{MOST + 1} bytes", "report.html"]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_committed_report_can_be_read_and_has_its_pictures(name: str) -> None:
    """It is short, its data are compressed, and its links lead to committed files."""
    folder = ROOT / "reports" / name
    there = committed(folder)
    for kind in WRITTEN[name]:
        told = read(folder / kind.file, kind.told)
        document = (folder / f"{kind.document}.md").read_text()
        assert len(document.splitlines()) <= max(LINES, 3 * len(getattr(told, "measurements", ())))
        shown = set(re.findall(r"\]\(([\w-]+\.svg)\)", document))
        assert {*there} == {kind.file, f"{kind.document}.md", *shown}


def test_packing_gives_the_same_bytes_and_takes_them_back(tmp_path: Path) -> None:
    data = b'{"a": 1}\n' * 1000
    packed = packing.packed(data)
    assert packed == packing.packed(data) and len(packed) < len(data) / 10
    assert packing.unpacked(packed, tmp_path) == data == packing.unpacked(data, tmp_path)
