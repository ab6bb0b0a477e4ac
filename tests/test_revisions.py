"""Two commits of the user's repository: each runs its own code, in one session, with a verdict."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_helpers import results, row
from test_sessions import Answer, answer, saying

from xbackend.analysis.gate import GateOutcome
from xbackend.backends.contract import Settings
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.cli import WRONG, main
from xbackend.errors import UsageError
from xbackend.measure import revisions, session
from xbackend.measure.worker import Worker
from xbackend.results.runs import Store

pytestmark = pytest.mark.tier("standard")

MODEL = "import numpy\nfrom parts import term\ndef inputs(): return [numpy.ones(8)]\ndef step(x): return term(x)\n"


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commits(folder: Path, message: str, **files: str) -> str:
    """Write files (``.py``) and commit all. Returns the commit."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def term(count: int) -> str:
    """The source of a function with so many additions."""
    return f"def term(x):\n    for _ in range({count}):\n        x = x + 1\n    return x\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose helper module differs between two commits, in a subfolder."""
    folder = tmp_path / "repository"
    (folder / "below").mkdir(parents=True)
    git(folder, "init", "-q")
    commits(folder / "below", "one", model=MODEL, parts=term(1))
    commits(folder / "below", "two", parts=term(3))
    monkeypatch.chdir(folder / "below")
    return folder


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Plan a program's time by its number of ops, and further results. Returns the labels of measurements in their
    order."""
    compare, found = session.compare, []

    def plan(of: Callable[[int], float], **more: Any) -> list[str]:
        def opener(name: str, **options: Any) -> Any:
            def says(job: dict[str, Any]) -> Answer:
                found.append(job["label"])
                additions = job["program"].count('"op":"add"') or job["program"].count('"add"')
                return answer(of(additions), **more)

            return Worker(NumPyBackend(name, Settings(1)), saying(says))

        monkeypatch.setattr(session, "compare", lambda *a, **o: compare(*a, **{**o, "opener": opener, "wait": 0}))
        return found

    return plan


GATE = ["gate", "--rev", "HEAD~1", "--rev", "HEAD", "model.py:step", "--backends", "numpy", "--processes", "5"]


def test_two_commits_are_measured_interleaved_and_the_slower_one_fails(
    repository: Path, seconds: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each commit has its own helper module: one addition, and three."""
    order = seconds(lambda additions: 0.01 * additions)
    assert main(GATE) == GateOutcome.REGRESSION
    said = capsys.readouterr().out
    assert said.startswith("Regression: 1 of 1 measurement beyond the limit: numpy with 3.00 times the time")
    assert "BASE is HEAD~1, HEAD is HEAD, measured in one session, run " in said
    assert "slower" in said and "1 of 1 measurement beyond the limit" in said
    assert "how much sessions differ" not in said  # both are of one session
    first, second = (revisions.commit(one)[:12] for one in ("HEAD~1", "HEAD"))
    sides = [second in label for label in order]
    assert sides.count(True) == sides.count(False) == 5
    assert sides != sorted(sides)
    (run,) = Store(Path(".xbackend") / "runs").names()
    kept = Store(Path(".xbackend") / "runs").load(run)
    assert [row.parameters["revision"] for row in kept.measurements] == [first, second]


@pytest.mark.tier("exhaustive")
@pytest.mark.needs("jax")
def test_a_graph_of_a_framework_is_brought_from_each_commit(
    repository: Path, seconds: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The process that imports the file has the helper module of its commit, from a file in another folder, too."""
    (repository / "below" / "src").mkdir()
    commits(repository / "below", "three", **{"src/kept": "from parts import term"})
    commits(repository / "below", "four", parts=term(3), model=MODEL.replace("parts", "kept"))
    commits(repository / "below", "five", parts=term(6))
    seconds(lambda additions: 0.01 * additions)
    assert main([*GATE, "--from", "jax"]) == GateOutcome.REGRESSION
    assert "2.00 times the time" in capsys.readouterr().out
    kept = Store(Path(".xbackend") / "runs").load("latest")
    assert {row.parameters["from"] for row in kept.measurements} == {"model.py"}
    assert all(row.parameters["graph"].startswith("JAX ") for row in kept.measurements)


@pytest.mark.tier("exhaustive")
def test_the_same_passes_and_the_limit_is_the_gates(repository: Path, seconds: Callable[..., list[str]]) -> None:
    seconds(lambda additions: 0.01)
    assert main(GATE) == GateOutcome.PASSED
    seconds(lambda additions: 0.01 + 0.001 * additions)
    assert main([*GATE, "--fail", "slower:50%"]) == GateOutcome.PASSED
    assert main([*GATE, "--fail", "slower:5%"]) == GateOutcome.REGRESSION


@pytest.mark.tier("exhaustive")
def test_a_gradient_and_several_sizes_are_judged_each(
    repository: Path, seconds: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    workload = (
        "import xbackend as xb\nfrom parts import term\n"
        "@xb.workload(sweep={'n': 9}, quick={'n': [4, 5]}, gradient='x')\n"
        "def step(x): return xb.sum(term(x))\n@step.inputs\ndef _(rng, n): return rng.random(n)\n"
    )
    commits(repository, "three", **{"below/model": workload})
    commits(repository, "four", **{"below/parts": term(2)})
    seconds(lambda additions: 0.01)
    assert main([*GATE, "--quick"]) == GateOutcome.PASSED
    said = capsys.readouterr().out
    assert all(f"step{kind} from=model.py, n={n}" in said for kind in ("", "+gradient") for n in (4, 5))


@pytest.mark.tier("exhaustive")
def test_modules_from_above_the_folder_are_those_of_each_commit(
    repository: Path, seconds: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that the first commit imported from its worktree is not used by the second."""
    above = "import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parents[1]))\n"
    model = above + MODEL.replace("from parts", "from shared_above")
    commits(repository, "three", **{"below/model": model, "shared_above": term(1)})
    commits(repository, "four", shared_above=term(3))
    seconds(lambda additions: 0.01 * additions)
    assert main(GATE) == GateOutcome.REGRESSION
    assert "shared_above" not in sys.modules


def test_what_others_disturbed_is_counted_of_both_commits(
    repository: Path, seconds: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    seconds(lambda additions: 0.01, foreign=[0.8])
    main(GATE)
    assert "during 300 of 300 visits" in capsys.readouterr().out


def test_the_results_of_a_commit_are_its_rows_without_the_commit() -> None:
    def marked(commit: str) -> dict[str, Any]:
        return {"size": 8, "dtype": "float32", revisions.PARAMETER: commit}

    found = results(row(parameters=marked("a")), row("other", parameters=marked("b")))
    for commit, backend in (("a", "numpy"), ("b", "other")):
        own = revisions.of_commit(found, commit)
        (measurement,) = own.measurements
        assert measurement.backend == backend and measurement.times
        assert measurement.parameters == {"size": 8, "dtype": "float32"}


def test_only_what_git_keeps_is_of_a_commit(repository: Path, tmp_path: Path) -> None:
    places = {"tracked": repository / "below", "untracked": repository / "below", "outside": tmp_path}
    for name, folder in places.items():
        if name == "tracked":
            commits(folder, "three", kept=term(1))
        else:
            (folder / f"{name}.py").write_text("")
        file = folder / ("kept.py" if name == "tracked" else f"{name}.py")
        places[name] = file
    assert revisions.tracked({name: str(file) for name, file in places.items()}) == ["tracked"]


def test_a_commit_is_checked_out_as_the_folder_that_the_user_is_in(repository: Path) -> None:
    with revisions.checked_out("HEAD~1") as (_, folder):
        assert sorted(path.name for path in folder.glob("*.py")) == ["model.py", "parts.py"]
        assert (folder / "parts.py").read_text() == term(1)
    assert not folder.exists()


def test_a_commit_without_the_folder_that_the_user_is_in_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "new").mkdir()
    commits(repository / "new", "three", model=MODEL)
    monkeypatch.chdir(repository / "new")
    with (
        pytest.raises(UsageError, match="HEAD~1 has no folder new/: go to one that both revisions have"),
        revisions.checked_out("HEAD~1"),
    ):
        pass
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_nothing_of_it_is_left(repository: Path, seconds: Callable[..., list[str]]) -> None:
    modules, path = set(sys.modules), list(sys.path)
    seconds(lambda additions: 0.01)
    main(GATE)
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "status", "--porcelain", "--untracked-files=all", "--", "below/model.py") == ""
    assert {"model", "parts"}.isdisjoint(set(sys.modules) - modules) and sys.path == path


def test_no_hook_of_the_repository_runs(repository: Path, seconds: Callable[..., list[str]], tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)
    seconds(lambda additions: 0.01)
    main(GATE)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("graph", [[], pytest.param(["--from", "jax"], marks=pytest.mark.needs("jax"))])
def test_what_comes_from_the_folder_that_the_user_works_in_is_refused(
    repository: Path, graph: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commits would be measured with the same module."""
    (repository / "lib").mkdir()
    commits(repository / "lib", "three", lent=term(2))
    model = MODEL.replace("from parts import term", "from lent import term")
    commits(repository / "below", "four", model=model)
    monkeypatch.syspath_prepend(str(repository / "lib"))
    monkeypatch.setenv("PYTHONPATH", str(repository / "lib"))
    assert main([*GATE, *graph]) == WRONG
    assert "model.py:step of HEAD imports lent from the folder that you work in" in capsys.readouterr().err
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    sys.modules.pop("lent", None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gate"], "give two runs, BASE and HEAD, or two revisions"),
        (["gate", "latest"], "give two runs, BASE and HEAD, or two revisions"),
        (["gate", "--rev", "HEAD", "model.py:step"], "write --rev BASE --rev HEAD FILE.py:FUNCTION"),
        (["gate", "--rev", "HEAD", "--rev", "HEAD~1"], "write --rev BASE --rev HEAD FILE.py:FUNCTION"),
        (["gate", "a", "b", "--quick"], "how to measure is asked of --rev"),
        (["gate", "a", "b", "--from", "jax"], "how to measure is asked of --rev"),
        (["gate", *GATE[1:5], "model.py:step", "--rewrites", "none"], "are for a graph: give --from, too"),
        (
            ["gate", *GATE[1:5], "model.py:step", "--from", "jax", "--rewrites", "none"],
            "--rewrites is for --from pymc, pytensor, aesara, theano",
        ),
        (["gate", *GATE[1:5], "model.py:step", "--from", "jax", "--set", "n=1"], "a graph has none: leave it out"),
        (["gate", "--rev", "gone", "--rev", "HEAD", "model.py:step"], "there is no commit 'gone'"),
        (["gate", "--rev=-x", "--rev", "HEAD", "model.py:step"], "there is no commit '-x'"),
        (["gate", "--rev", "HEAD~1", "--rev", "HEAD", "model.py:new"], "model.py:new of HEAD~1: "),
        (["gate", "--rev", "main", "--rev", "HEAD", "model.py:step"], "main and HEAD are both the commit "),
        (["gate", "--rev", "HEAD~1", "--rev", "HEAD", f"{__file__}:term"], "is the same for both revisions"),
        (
            ["gate", "--rev", "HEAD~1", "--rev", "HEAD", "model.py:step", "--backends", "nothing"],
            "no backend 'nothing'",
        ),
    ],
)
def test_what_is_wrong_is_said(
    repository: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == WRONG
    assert said in capsys.readouterr().err
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_outside_of_a_repository_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main(GATE) == WRONG
    assert "not a git repository" in capsys.readouterr().err


@pytest.mark.tier("exhaustive")
def test_two_commits_on_a_real_backend(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GATE[:-2], "--quick", "--wait", "0"]) in {
        GateOutcome.PASSED,
        GateOutcome.REGRESSION,
        GateOutcome.NO_VERDICT,
    }
    assert "step from=model.py, inputs=float64[8] | numpy | 1 device" in capsys.readouterr().out
