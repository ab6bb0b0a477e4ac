"""A framework's option is a row by its name, ``pytensor-jax[rewrites=merge]``, wherever a backend is named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import expected_failures
import numpy as np
import pytest
from report_helpers import markdown_of, rows_of
from store_helpers import results, row

import xbackend as xb
from overhead import calls
from xbackend.analysis.gate import GateOutcome, Limit, judge
from xbackend.analysis.packages import frameworks
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.backends.registry import Option
from xbackend.cli import DONE, WRONG, main
from xbackend.errors import ArgumentError, UnknownBackend
from xbackend.measure import matrix
from xbackend.results.runs import Store
from xbackend.results.schema import load
from xbackend.wording import listed

ROOT = Path(__file__).resolve().parents[1]
MERGE, PLAIN = "pytensor-jax[rewrites=merge]", "pytensor-jax"
THERE = f"there is {PLAIN}, {PLAIN}[rewrites=fast_compile], {MERGE}, {PLAIN}[rewrites=None]"
UNKNOWN = (
    "[rewrites=o9]",
    "[rewritten=merge]",
    "[rewrites]",
    "[rewrites=merge,rewrites=None]",
    "[]",
    "[rewrites=merge",
)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend with two options."""
    options = (Option("b", {"1": "one"}), Option("a", {"x": "an x", "y": "a y"}))
    monkeypatch.setitem(registry.REGISTRY, "numpy", replace(registry.get("numpy"), options=options))
    return "numpy"


def test_a_name_says_options_and_is_otherwise_the_backend(two: str) -> None:
    entry = registry.get("numpy[b=1,a=y]")
    assert (entry.name, entry.chosen) == ("numpy[a=y,b=1]", {"a": "y", "b": "1"})
    assert (entry.adapter, entry.environment) == (registry.get(two).adapter, "numpy")
    assert registry.get(two).with_option == ["numpy[b=1]", "numpy[a=x]", "numpy[a=y]"]
    with entry.load(Settings(virtual_devices=2)) as backend:
        assert (str(backend), len(backend.devices)) == ("numpy[a=y,b=1]", 2)
        assert backend.settings.options == {"a": "y", "b": "1"}


@pytest.mark.parametrize("options", UNKNOWN)
def test_an_unknown_option_or_value_is_one_line_with_what_there_is(options: str) -> None:
    with pytest.raises(UnknownBackend) as error:
        xb.open(PLAIN + options)
    assert str(error.value) == f"there is no backend {PLAIN + options!r}; {THERE}"
    with pytest.raises(UnknownBackend, match=r"'jax\[rewrites=merge\]'; there is jax$"):
        registry.get("jax[rewrites=merge]")
    with pytest.raises(UnknownBackend, match=r"'torch\[rewrites=merge\]'; there is numpy, tensorflow"):
        registry.get("torch[rewrites=merge]")


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "--backends"),
        ("devices", "--backends"),
        ("doctor", "--backends"),
        ("run", "mine.py:f", "--backends"),
        ("draw", "matpow", "--backend"),
    ],
)
def test_a_command_with_an_unknown_option_is_wrong(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, f"{PLAIN}[rewrites=o9]"]) == WRONG
    assert capsys.readouterr().err == f"xbackend {command[0]}: there is no backend '{PLAIN}[rewrites=o9]'; {THERE}\n"


def test_a_list_of_names_keeps_what_is_in_brackets() -> None:
    assert listed("numpy, a[b=c,d=e] f[g=h],jax,jax") == ["numpy", "a[b=c,d=e]", "f[g=h]", "jax"]
    assert listed(" ,") == []


def test_every_value_says_what_it_means_in_one_line() -> None:
    options = [option for entry in registry.entries() for option in entry.options]
    assert len(options) > 5
    for option in options:
        assert option.name.isidentifier() and option.values
        assert all(value.isidentifier() and 10 < len(means) < 100 for value, means in option.values.items())


# --- results ----------------------------------------------------------------------------------------------------------


def test_a_comparison_has_a_row_for_each_version_of_it() -> None:
    old = "pytensor==2.38.3"
    assert matrix.runs([PLAIN, MERGE], ["pytensor", old]) == [(n, e) for n in (PLAIN, MERGE) for e in ("", old)]
    assert matrix.runs([MERGE, MERGE]) == [(MERGE, "")]
    assert (MERGE, "") not in matrix.runs(None)
    matrix.check_baseline(f"{MERGE} ({old})", matrix.runs([MERGE], [old]))
    with pytest.raises(ArgumentError, match="the baseline 'pytensor-jax' is not among what is measured"):
        matrix.check_baseline(PLAIN, matrix.runs([MERGE]))


def test_the_gate_and_the_report_tell_it_from_the_backend() -> None:
    versions = {"jax": "1.2", "pytensor": "3.4", "pip": "5"}
    rows = [row(name, versions=versions) for name in ("numpy", PLAIN, MERGE)]
    slower = row(MERGE, [2.0, 2.01, 2.02, 1.99, 1.98], versions=versions)
    judgement = judge(results(*rows), results(*rows[:2], slower), [Limit.parse("slower:5%")])
    assert [r.outcome for r in judgement.rows] == [GateOutcome.PASSED, GateOutcome.PASSED, GateOutcome.REGRESSION]
    assert MERGE in judgement.rows[2].label
    assert frameworks(slower) == {"pytensor": "3.4", "jax": "1.2"}
    gone = row(f"{PLAIN}[rewrites=of_an_older_version]")
    document = markdown_of(results(*rows, gone), baseline=MERGE)
    shown = {cell for cells in rows_of(document) for cell in cells}
    assert {PLAIN, MERGE, gone.backend} <= shown
    assert "the baseline" in document.lower() and rf"{PLAIN}\[rewrites=merge\]" in document


# --- the tests themselves ---------------------------------------------------------------------------------------------


def test_what_is_expected_to_fail_of_a_backend_is_so_with_its_options() -> None:
    usual = expected_failures.of(PLAIN)
    assert [e.label for e in usual] == ["while_loop*", "looped*"]
    assert expected_failures.of(MERGE) == usual


@pytest.mark.tier("standard")
def test_the_contract_is_made_for_it_where_it_is_named() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--backends", MERGE]
    command.append("tests/contract/test_contract_devices.py")
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    ids = [line.partition("[")[2] for line in listing.stdout.splitlines()]
    assert sum(one.startswith((f"{MERGE}-", f"{MERGE}]")) for one in ids) > 5
    assert not [one for one in ids if one.startswith((f"{PLAIN}-", f"{PLAIN}]", "numpy-", "numpy]"))]


# --- the frameworks ---------------------------------------------------------------------------------------------------


def sea_water(size: int = 512) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.uniform(low, high, size) for low, high in ((0.1, 40.0), (-2.0, 30.0), (0.0, 5e3))]


def density(s: Any, t: Any, p: Any) -> Any:
    """The density and its gradient."""
    rho = calls.equation_of_state(s, t, p, sqrt=xb.sqrt)
    return [rho, *xb.grad(xb.sum(rho), [s, t, p])]


@pytest.fixture(scope="module")
def expected() -> list[np.ndarray]:
    with registry.get("numpy").load() as backend:
        computed: list[np.ndarray] = backend.compile(density, *sea_water())(*sea_water())
    return computed


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize(
    "name", [MERGE, f"{PLAIN}[rewrites=None]", "aesara-jax[rewrites=merge]", "theano[rewrites=merge]"]
)
def test_the_framework_rewrites_as_asked_and_computes_the_same(name: str, expected: list[np.ndarray]) -> None:
    with xb.open(name, isolated=True) as backend:
        run = backend.compile(density, *sea_water())
        for ours, theirs in zip(run(*sea_water()), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10)
        assert str(backend) == name
        assert f"rewrites={backend.describe().settings['rewrites']}" in name
        assert {record.status for record in run.placement.ops} <= {"as asked", "nothing to read", "folded", "fused"}
        assert {record.status for record in run.placement.backward} <= {"as asked", "nothing to read"}
        assert len(run.placement.backward) > 0


def constant_beside(x: Any) -> Any:
    return x + xb.exp(xb.full((3,), 0.5))


@pytest.mark.tier("standard")
@pytest.mark.parametrize(
    ("options", "status"), [("", "folded"), ("[rewrites=fast_compile]", "folded"), ("[rewrites=None]", "fused")]
)
def test_what_the_framework_does_not_fold_is_no_more_called_folded(options: str, status: str) -> None:
    with xb.open(f"pytensor-c{options}", isolated=True) as backend:
        x = np.ones(3)
        run = backend.compile(constant_beside, x)
        np.testing.assert_allclose(run(x), 1 + np.exp(np.full(3, 0.5)))
        assert {r.op: r.status for r in run.placement.ops if r.op in ("exp", "add")} == {
            "exp": status,
            "add": "nothing to read",
        }


@pytest.mark.tier("exhaustive")
def test_commands_measure_it_beside_the_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\ndef inputs():\n    return [np.ones(3)]\n\ndef f(x):\n    return x / x\n"
    )
    both = ("--backends", f"numpy,{MERGE}")
    assert main(["run", "mine.py:f", "--input", "float64[3]", *both, "--drawings", "drawn"]) == DONE
    assert MERGE in capsys.readouterr().out and (tmp_path / "drawn" / f"{MERGE}.svg").exists()
    small = ("--size", "8", "--quick", "--processes", "1")
    assert main(["compare", *both, *small, "--baseline", MERGE, "--name", "both"]) == DONE
    assert MERGE in capsys.readouterr().out
    stored = load(tmp_path / "reports" / "both" / "results.json.gz")
    assert [m.backend for m in stored.measurements] == ["numpy", MERGE]
    assert stored.measurements[1].description.settings["rewrites"] == "merge"
    assert "rewrites=merge" in (tmp_path / "reports" / "both" / "report.md").read_text()
    assert Store(tmp_path / ".xbackend" / "runs").load("latest").measurements[1].backend == MERGE
    assert main(["doctor", "--backends", MERGE]) == DONE
    assert f"compare --quick --backends '{MERGE}'" in capsys.readouterr().out


@pytest.mark.tier("exhaustive")
def test_a_benchmark_is_made_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import numpy as np\nimport xbackend as xb\n\ndef test_it(xbackend_benchmark):\n"
        "    xbackend_benchmark(lambda x: xb.grad(xb.sum(x / x), [x]), np.ones(3))\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--backends", f"{PLAIN},{MERGE}"]
    command += ["--processes", "1", "--baseline", MERGE, "--benchmark-json", "saved.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads((tmp_path / "saved.json").read_text())
    assert [b["name"] for b in saved["benchmarks"]] == [f"test_it[{PLAIN}]", f"test_it[{MERGE}]"]
