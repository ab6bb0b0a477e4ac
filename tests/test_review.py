"""Where a change is reviewed: the gate's comment, and the lines of action and workflows, run in local repositories."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from report_helpers import READER, flat, rows_of
from store_helpers import STEADY, finished, results, row
from test_gate import store  # noqa: F401 (a fixture)
from test_revisions import commits, git, term

from xbackend.analysis.gate import Limit, judge
from xbackend.cli import main
from xbackend.report.said import review
from xbackend.report.written import markdown
from xbackend.results.runs import Store

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOWS = {
    parsed["name"]: parsed
    for text in re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "gate.md").read_text(), re.DOTALL)
    for parsed in [yaml.safe_load(text)]
}
LIMITS = [Limit.parse("slower:5%")]
SLOW = [1.2 * median for median in STEADY]


def written(base: Any, head: Any, *notes: str) -> str:
    return markdown.write(review.build(judge(base, head, LIMITS), LIMITS, notes))


def test_the_first_line_decides_and_the_worst_row_comes_first() -> None:
    text = written(results(), results(row(), row("other", SLOW)), "BASE is main")
    assert text.startswith(
        "**Regression: 1 of 2 measurements beyond the limit: other with 1.20 times the time (1.17 to "
    )
    headers, first, second = rows_of(text)
    assert headers[:2] == ["workload", "backend"] and headers[-1] == "gate"
    assert (first[1], first[-1], second[1], second[-1]) == ("other", "regression", "numpy", "passed")
    assert text.count("\n| --- |") == 1 and "<details><summary>3 notes</summary>" in text


def test_foreign_names_stay_text_in_the_comment() -> None:
    name = "`|`<b>@me owner/name#1 [x](y) **"
    text = written(results(row(name)), results(row(name, SLOW)), f"BASE is {name}")
    assert rows_of(text)[1][1] == name
    kinds = {token.type for token in flat(READER.parse(text))}
    assert not kinds & {"html_inline", "link_open", "em_open", "s_open"}
    assert not re.search(r"<(?!/?(details|summary)>)", text)


@pytest.mark.tier("exhaustive")
def test_a_comment_is_no_longer_than_a_forge_takes() -> None:
    many = results(*(row("b" * 60, parameters={"size": size, "name": "<" * 9000}) for size in range(100)))
    text = written(many, results(many.measurements[0], row("third")))
    assert len(text) < 65_536 and "50 rows more: xbackend gate prints all" in text and "notes more" in text


def test_the_command_prints_it(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    finished(store)
    finished(store, results(row(), row("other", SLOW)))
    words = ["gate", "latest~1", "latest", "--store", str(tmp_path / ".xbackend" / "runs"), "--markdown"]
    assert main(words) == 10
    assert capsys.readouterr().out.startswith("**Regression: 1 of 2 ")
    assert main([*words, "--quiet"]) == 10
    assert capsys.readouterr().out.startswith("Regression: 1 of 2 ")


# --- the action -------------------------------------------------------------------------------------------------------


def lines_of(step: dict[str, Any], folder: Path, *path: Path, **values: str) -> subprocess.CompletedProcess[str]:
    """Run the lines of a step as the forge's runner does, with the environment that its expressions would have."""
    places = os.pathsep.join(map(str, (*path, Path(sys.executable).parent, os.environ["PATH"])))
    environment = {**os.environ, "PATH": places, "PYTHONPATH": str(ROOT), **values}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def gate_step() -> dict[str, Any]:
    (step,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == "gate")
    return step


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of depth 2 at a merge commit, as the forge's checkout makes it."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    model = "import numpy\ndef inputs(): return [numpy.ones(8)]\n"
    commits(origin, "one", model=model + term(1))
    git(origin, "checkout", "-q", "-b", "change")
    commits(origin, "two", model=model + term(3))
    git(origin, "checkout", "-q", "main")
    commits(origin, "elsewhere", other="")
    git(origin, "merge", "-q", "--no-ff", "-m", "merged", "change")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{origin}", "clone")
    return tmp_path / "clone"


def gated(clone: Path, **values: str) -> tuple[subprocess.CompletedProcess[str], str, str]:
    """The action's step with its defaults; returns it, the comment and what is written for other steps."""
    given = {name: str(ACTION["inputs"][name].get("default", "")) for name in ACTION["inputs"]}
    step = gate_step()
    inputs = {
        name: given[expression[1]]
        for name, text in step["env"].items()
        if (expression := re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text))
    }
    out, said = clone.parent / "out", clone.parent / "said"
    more = {"TARGET": "model.py:term", "NUMBER": "7", "OUT": str(out), "GITHUB_OUTPUT": str(said), **values}
    done = lines_of(step, clone, **{**inputs, "GITHUB_ACTION_PATH": str(ROOT), **more})
    assert (out / "number").read_text() == "7\n"
    return done, (out / "comment.md").read_text(), said.read_text()


QUICKLY = "--backends numpy --quick --processes 1 --wait 0"


@pytest.mark.tier("standard")
def test_the_action_measures_a_merge_and_what_it_is_merged_into(clone: Path) -> None:
    """One process a side gives no verdict: a warning, and a failure where that is asked for."""
    base = git(clone, "rev-parse", "--short=12", "HEAD^1")
    done, comment, said = gated(clone, OPTIONS=QUICKLY)
    assert (done.returncode, said) == (0, "exit-code=14\n"), done.stderr
    assert re.match(r"\*\*(In doubt, .*: )?no verdict: 1 of 1 measurement cannot be judged: numpy with ", comment, re.I)
    assert f"BASE is `{base}`, HEAD is " in comment or f"BASE is {base}, HEAD is " in comment
    assert "| no verdict |" in comment
    assert done.stdout.startswith("::warning::**") and "\n" not in done.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("values", "code", "words"),
    [
        ({"TARGET": "gone.py:term"}, 2, "no file gone.py"),
        ({"BASE": "HEAD~9"}, 2, "there is no commit HEAD~9 here: give actions/checkout 'fetch-depth: 2'"),
        ({"OPTIONS": "--fail nothing"}, 2, "'nothing' is no limit"),
    ],
)
def test_what_cannot_be_judged_is_a_comment_with_the_reason(
    clone: Path, values: dict[str, str], code: int, words: str
) -> None:
    done, comment, said = gated(clone, **values)
    assert (done.returncode, said) == (code, f"exit-code={code}\n"), done.stderr
    first, _, *reason = comment.splitlines()
    assert first == f"**Not judged: `xbackend gate` ended with exit code {code}.**"
    assert words in comment and all(line.startswith("    ") for line in reason)


@pytest.mark.parametrize(
    ("code", "asked", "ends"), [(10, "warn", 10), (14, "warn", 0), (14, "fail", 14), (0, "fail", 0)]
)
def test_the_action_ends_as_the_gate_but_for_no_verdict(clone: Path, code: int, asked: str, ends: int) -> None:
    """With a stand-in for xbackend, which says what it was asked."""
    planted = clone.parent / "planted"
    planted.mkdir()
    (planted / "xbackend").write_text(f'#!/bin/sh\necho "**Said: 5 %** $*"\nexit {code}\n')
    (planted / "xbackend").chmod(0o755)
    summary = clone.parent / "summary"
    script = {"run": f'export PATH="{planted}:$PATH"\n{gate_step()["run"]}'}
    values = {"NO_VERDICT": asked, "OUT": str(clone.parent / "out"), "GITHUB_STEP_SUMMARY": str(summary)}
    more = {
        "TARGET": "a b.py:f",
        "BASE": "HEAD^1",
        "HEAD": "HEAD",
        "OPTIONS": "--seed 1",
        "GITHUB_ACTION_PATH": str(ROOT),
    }
    done = lines_of(script, clone, **values, **more)
    assert done.returncode == ends, done.stderr
    assert (
        summary.read_text().startswith("**Said: 5 %** gate --rev ")
        and "a b.py:f --markdown --seed 1" in summary.read_text()
    )
    assert done.stdout.startswith("::warning::**Said: 5 %25**") == (ends != code)


def test_the_action_and_the_workflows_hold_together() -> None:
    workflow = WORKFLOWS["gate"]
    (uses,) = (step for step in workflow["jobs"]["gate"]["steps"] if step["uses"].startswith("OWNER/"))
    assert set(uses["with"]) <= set(ACTION["inputs"])
    assert {name for name, one in ACTION["inputs"].items() if one.get("required")} <= set(uses["with"])
    assert WORKFLOWS["gate comment"][True]["workflow_run"]["workflows"] == [workflow["name"]]  # YAML reads `on` as true
    # What runs the code of a pull request has no right to write; what has it, checks out nothing.
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("uses" in step for step in WORKFLOWS["gate comment"]["jobs"]["comment"]["steps"])
    uploaded = next(step["with"] for step in ACTION["runs"]["steps"] if "upload" in step.get("uses", ""))
    assert f"--name {uploaded['name']} " in WORKFLOWS["gate comment"]["jobs"]["comment"]["steps"][0]["run"]
    assert uploaded["path"] == gate_step()["env"]["OUT"]
    for step in [step for each in (ACTION["runs"], *_jobs()) for step in each["steps"]]:
        assert "${{" not in step.get("run", ""), "an expression in a script is read by the shell as code"


def _jobs() -> list[dict[str, Any]]:
    return [job for workflow in WORKFLOWS.values() for job in workflow["jobs"].values()]


# --- the workflows ----------------------------------------------------------------------------------------------------

GH = """#!/bin/sh
echo "$@" >>calls
case "$1 $2" in
"run download") mkdir gate; echo "$NUMBER" >gate/number; echo "**Passed**" >gate/comment.md ;;
"pr view") echo "$HEAD_OF_IT" ;;
"api --paginate") echo "$OLD" ;;
esac
"""


@pytest.mark.parametrize(
    ("number", "head", "old", "call"),
    [
        ("7", "abc", "", "api repos/o/n/issues/7/comments --field body=@body.md"),
        ("7", "abc", "31", "api --method PATCH repos/o/n/issues/comments/31 --field body=@body.md"),
        ("7", "other", "", "pr view 7 --json headRefOid --jq .headRefOid"),
        ("7; x", "abc", "", "api repos/o/n/issues/7/comments --field body=@body.md"),
    ],
)
def test_one_comment_is_made_or_replaced(tmp_path: Path, number: str, head: str, old: str, call: str) -> None:
    """A number of another pull request, which has another commit, gets no comment."""
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "gh").write_text(GH)
    (planted / "gh").chmod(0o755)
    (step,) = WORKFLOWS["gate comment"]["jobs"]["comment"]["steps"]
    values = {"GH_REPO": "o/n", "RUN": "5", "COMMIT": "abc", "NUMBER": number, "HEAD_OF_IT": head, "OLD": old}
    done = lines_of(step, tmp_path, planted, **values)
    assert (done.returncode == 0) == (head == "abc"), done.stderr
    assert (tmp_path / "calls").read_text().splitlines()[-1] == call
    if head == "abc":
        assert (tmp_path / "body.md").read_text() == "<!-- xbackend gate -->\n**Passed**\n"


@pytest.mark.tier("exhaustive")
def test_the_history_is_one_commit_on_a_branch_of_its_own(clone: Path, tmp_path: Path) -> None:
    """Two pushes, by two runners that share nothing but the repository."""
    step = WORKFLOWS["history"]["jobs"]["history"]["steps"][-1]
    origin = tmp_path / "origin"
    quickly = step["run"].replace("model.py:step --backends numpy", f"model.py:term {QUICKLY}")
    assert quickly != step["run"]
    for count in (1, 2):
        if count == 2:
            commits(clone, "more", more="")
        sha = git(clone, "rev-parse", "HEAD")
        (tmp_path / f"runner{count}").mkdir()
        values = {"GITHUB_SHA": sha, "RUNNER_TEMP": str(tmp_path / f"runner{count}")}
        done = lines_of({"run": quickly}, clone, **values)
        assert done.returncode == 0, done.stdout + done.stderr
        assert git(origin, "rev-list", "--count", "xbackend-history") == "1"
        files = git(origin, "ls-tree", "-r", "--name-only", "xbackend-history").splitlines()
        assert "runs/runs.sqlite" in files and "reports/history.md" in files
        assert not [file for file in files if file.endswith(".py")], files
    git(tmp_path, "clone", "-q", "--branch", "xbackend-history", str(origin), "kept")
    runs, damaged = Store(tmp_path / "kept" / "runs").readable()
    assert len(runs) == 2 and not damaged and runs[-1].name == sha[:12]
