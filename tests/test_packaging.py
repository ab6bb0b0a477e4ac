"""What is in the wheel and the source distribution, and what each way to install it brings."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packages import ROOT, built, call, fresh, tracked, wheel  # noqa: F401 (fixtures)
from packaging.requirements import Requirement
from uv import find_uv_bin

from xbackend import extras
from xbackend.environments import interpreters
from xbackend.version import VERSION

pytestmark = pytest.mark.tier("standard")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCHEMAS = {"xbackend.cli.output": "docs/output.schema.json", "xbackend.results.formats": "docs/stored.schema.json"}
BESIDE = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", *SCHEMAS.values()}
MADE = {"PKG-INFO", "setup.cfg", "MANIFEST.in", "pyproject.toml"}


def package() -> set[str]:
    return {name for name in tracked() if name.startswith("xbackend/")}


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:  # noqa: F811
    names = [name for name in ZipFile(built[".whl"]).namelist() if not name.endswith("/")]
    assert {name for name in names if ".dist-info/" not in name} == package()
    assert {"xbackend/report/written/templates/page.css", "xbackend/environments/requirements/numpy.txt"} < package()
    assert "xbackend/py.typed" in package()


def test_the_source_distribution_holds_no_tests_and_no_reports(built: dict[str, Path]) -> None:  # noqa: F811
    with tarfile.open(built[".gz"]) as archive:
        names = {file.name.partition("/")[2] for file in archive.getmembers() if file.isfile()}
    assert {name for name in names if not name.startswith("xbackend.egg-info/")} == package() | BESIDE | MADE


@pytest.mark.tier("exhaustive")
def test_twine_and_check_wheel_contents_find_nothing_wrong(built: dict[str, Path]) -> None:  # noqa: F811
    run = (find_uv_bin(), "tool", "run", "--no-config", "--quiet")
    said = call(*run, "twine", "check", "--strict", *built.values())
    assert said.count("PASSED") == 2 and "WARNING" not in said
    # W002: a file that is there twice, as empty __init__.py are.
    assert ": OK" in call(*run, "check-wheel-contents", "--ignore", "W002", built[".whl"])


def test_the_extra_has_what_is_named_where_it_is_missing() -> None:
    named = {Requirement(one).name for one in PROJECT["optional-dependencies"]["commands"]}
    assert named == set(extras.COMMANDS)
    assert not named & {Requirement(one).name for one in PROJECT["dependencies"]}


def test_the_release_has_one_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == VERSION and f"\n## {VERSION}" in (ROOT / "CHANGELOG.md").read_text()


# --- installed --------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy as np, xbackend as xb
with xb.open("numpy") as backend:
    run = backend.compile(lambda x: xb.linalg.det(x) + xb.erf(x[0, 0]), np.zeros((2, 2)))
    print(type(backend).__name__, run(np.zeros((2, 2))))
for name in xb.__all__:
    getattr(xb, name)
from xbackend.training.checkpoints import Checkpoint, write
for call in (lambda: xb.compare(lambda x: x, np.ones(2), backends="numpy"), lambda: xb.load_results("results"),
             lambda: write("folder", Checkpoint({}, "", 0, {}))):
    try:
        call()
    except xb.errors.UsageError as error:
        print(error)
"""


def test_scripts_need_little_and_what_needs_more_says_what_to_type(wheel: Path, tmp_path: Path) -> None:  # noqa: F811
    python = fresh(tmp_path / "venv", wheel)
    there = {one["name"] for one in json.loads(call(find_uv_bin(), "pip", "list", "--format=json", "--python", python))}
    assert there == {"xbackend", *(Requirement(one).name for one in PROJECT["dependencies"])}
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran, *refused = call(python, script, cwd=tmp_path).splitlines()
    assert ran == "RemoteBackend 0.0"
    every = ", ".join(extras.COMMANDS)
    install = "not installed here: pip install 'xbackend[commands]'"
    assert refused == [
        f"xb.compare takes {every}, {install}",
        f"xb.load_results takes {every}, {install}",
        f"a checkpoint takes safetensors, {install}",
    ]
    for command in ([tmp_path / "venv" / "bin" / "xbackend", "doctor"], [python, "-m", "xbackend", "doctor"]):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"xbackend: the command xbackend takes {every}, {install}\n"


def pythons() -> list[object]:
    return [*dict.fromkeys([sys.version_info[:2], (3, 12), (3, 13)])]


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("version", pythons(), ids=str)
def test_the_wheel_alone_passes_its_own_tests(version: tuple[int, int], wheel: Path, tmp_path: Path) -> None:  # noqa: F811
    """In an empty folder, with every command's help and a comparison; the schemas are the documented ones."""
    found = interpreters.find(version)
    assert found is not None, f"there is no Python {version} here"
    python = fresh(tmp_path / "venv", wheel, "[commands]", "pytest", python=found.path)
    work = tmp_path / "work"
    work.mkdir()
    said = call(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "xbackend", cwd=work)
    assert " passed" in said and "skipped" not in said and "warning" not in said, said
    assert call(python.with_name("xbackend"), "--version", cwd=work).startswith(f"xbackend {VERSION}\n")
    for module, documented in SCHEMAS.items():
        assert as_words(call(python, "-m", module, cwd=work)) == as_words((ROOT / documented).read_text())


def as_words(text: str) -> list[str]:
    """From 3.13 on docstrings are not indented."""
    return text.replace("\\n", " ").split()
