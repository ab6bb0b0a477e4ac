"""Workloads: decorators above a function, what is measured of it, and the errors."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import xbackend as xb
from xbackend import limits, workloads
from xbackend.cli import INCOMPLETE, main, users
from xbackend.errors import ArgumentError, UsageError, WorkloadError
from xbackend.measure import candidates, oracle, session
from xbackend.workloads.agreement import Agreement, apart, not_finite, of_roundings, relative_error, verified
from xbackend.workloads.workload import Workload

MODEL = '''
import numpy as np
import xbackend as xb


@xb.workload(sweep={"n": [10, 20]}, gradient="theta", quick={"n": 5})
def logp(theta, x, y, *, n):
    """A linear model's log density."""
    return -xb.sum((y - x @ theta) ** 2) / n


@logp.inputs
def inputs(rng, *, n, dtype="float64"):
    return [rng.normal(size=shape).astype(dtype) for shape in ((3,), (n, 3), (n,))]


@xb.workload
def doubled(a, *, times=2):
    return a * times


@doubled.inputs
def _(rng):
    return rng.random(4)


def plain(a, scale=3.0):
    return a * scale
'''


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def squares() -> Workload:
    @xb.workload(sweep={"n": [3, 4]}, gradient="a")
    def squares(a: Any, *, n: int, power: int = 2) -> Any:
        """The sum of powers."""
        return xb.sum(a**power) / n

    @squares.inputs
    def inputs(rng: np.random.Generator, *, n: int, dtype: str = "float64") -> np.ndarray:
        return rng.random(n).astype(dtype)

    made: Workload = squares
    return made


# --- parameters -------------------------------------------------------------------------------------------------------


def test_its_parameters_are_those_that_its_functions_name() -> None:
    workload = squares()
    assert workload.parameters == {"n": 3, "power": 2, "dtype": "float64"}
    assert (workload.name, workload.summary, workload.arguments) == ("squares", "The sum of powers.", ("a",))
    assert workload.resolve(n=7) == {"n": 7, "power": 2, "dtype": "float64"}
    assert [dict(c) for c in workload.combinations({"power": [2, 3]})] == [
        {"n": n, "power": p} for n in (3, 4) for p in (2, 3)
    ]


def test_it_can_be_called_as_the_function_that_it_is_of() -> None:
    assert xb.trace(squares().traced({"n": 2, "power": 3}), np.ones(2)).name == "squares"

    def direct(a: Any) -> Any:
        return squares()(a, n=2)

    assert xb.trace(direct, np.ones(2)).values[-1].shape == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gradient": "b"}, "names no array of f, which takes a"),
        ({"sweep": {"n": []}}, "its sweep has no value of n"),
    ],
)
def test_what_is_wrong_above_a_function_is_an_error_there(options: dict[str, Any], words: str) -> None:
    def f(a: Any, *, n: int = 1) -> Any:
        return a * n

    with pytest.raises(WorkloadError, match=words):
        xb.workload(**options)(f)


def test_a_parameter_that_nobody_names_or_that_has_no_value_is_an_error() -> None:
    @xb.workload(sweep={"m": [1]})
    def f(a: Any, *, n: int) -> Any:
        return a * n

    with pytest.raises(WorkloadError, match="workload f has no parameter m; it takes n"):
        f.resolve(n=1)

    @xb.workload
    def g(a: Any, *, n: int) -> Any:
        return a * n

    with pytest.raises(WorkloadError, match=r"n has no value; write --set n=\.\.\."):
        g.resolve()
    with pytest.raises(WorkloadError, match="workload g has no parameter o"):
        g.resolve(o=1)


# --- inputs -----------------------------------------------------------------------------------------------------------


def test_options_beside_a_function_are_its_workloads() -> None:
    assert xb.workload(lambda x: x, name="mine", sweep={"n": 2}).name == "mine"  # type: ignore[call-overload]


def test_inputs_are_the_same_for_a_seed() -> None:
    workload = squares()
    same = [workload.arrays(seed, **workload.resolve())[0] for seed in (1, 1, 2)]
    assert np.array_equal(same[0], same[1]) and not np.array_equal(same[0], same[2])


def test_inputs_that_differ_between_calls_are_refused() -> None:
    workload = squares()
    elsewhere = np.random.default_rng(0)
    workload.inputs(lambda rng, *, n: elsewhere.random(n))
    with pytest.raises(WorkloadError, match="others when they are made again: draw them from rng alone"):
        workload.arrays(0, n=3)


def test_inputs_are_compared_in_less_memory_than_they_take() -> None:
    workload, count, size = squares(), 8, 1 << 17
    workload.inputs(lambda rng, *, n: [rng.random(n) for _ in range(count)])
    tracemalloc.start()
    try:
        workload.arrays(0, n=size)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (2 * count + 4) * 8 * size, "the inputs twice, and little more"


@pytest.mark.parametrize(
    ("own", "limit"),
    [("0::/user.slice/run.scope", 3), ("1:cpu:/\n0::/user.slice/other", 5), ("0::/", 7), ("0::/../host", 7), ("", 7)],
)
def test_the_memory_is_that_of_the_control_group_and_of_those_around_it(tmp_path: Path, own: str, limit: int) -> None:
    """Outside of a container, such as under `systemd-run -p MemoryMax=1G`, the limit is not at the root."""
    most_of = {"": "7", "user.slice": "5", "user.slice/run.scope": "3", "user.slice/other": "max"}
    for group, most in most_of.items():
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{most}\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{own}\n")
    assert limits.memory(tmp_path) == limit
    assert limits.memory(tmp_path / "nothing") == limits.machine_memory() > 7


@pytest.mark.parametrize("other", [[0.0], [0.0, 0.0, 0.0], [0.0, -0.0], [0.0, np.float32(0.0)], [0.0, [0.0]]])
def test_inputs_of_another_number_dtype_or_shape_are_others(other: Any) -> None:
    workload, made = squares(), iter([[0.0, 0.0], other])
    workload.inputs(lambda rng, *, n: [np.asarray(each) for each in next(made)])
    with pytest.raises(WorkloadError, match="others when they are made again"):
        workload.arrays(0, n=3)


def test_a_workload_without_inputs_says_what_to_write() -> None:
    bare = Workload(lambda a: a, name="bare")
    with pytest.raises(WorkloadError, match=r"has no inputs: write @bare\.inputs above"):
        candidates.made(bare, {})


# --- what it has to return --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tolerance_that_nobody_gave_is_derived_and_said(dtype: str) -> None:
    case = candidates.made(squares(), {"dtype": dtype})
    eps = float(np.finfo(dtype).eps)
    assert oracle.FACTOR * eps <= case.tolerance <= 100 * oracle.FACTOR * eps
    assert case.derived.startswith(f"{oracle.FACTOR:g} times ")
    assert case.expected[0].dtype == np.float64


def test_where_small_changes_of_the_inputs_move_the_result_far_more_passes() -> None:
    def cancels(a: Any) -> Any:
        return xb.sum(a) - 3.0

    ill = Workload(cancels)
    ill.inputs(lambda rng: np.array([1.0, 1.0, 1.0 + 1e-9]))
    case = candidates.made(ill, {})
    assert "by a unit in the last place" in case.derived
    assert case.tolerance > 1e-6


def test_where_inputs_stand_on_a_jump_less_does_not_pass_for_it() -> None:
    def chosen(a: Any, label: Any) -> Any:
        return xb.where(label == 1.0, xb.log(a), xb.where(a > 0.5, 1.0, 2.0))

    case = candidates.given(Workload(chosen), [np.float32([0.5, 0.25]), np.float32([0, 1])], {})
    assert case.tolerance < 1e-4 and not case.undetermined


def test_float32_is_judged_by_a_good_algorithm_and_not_by_what_numpy_loses() -> None:
    """NumPy adds rows one after the other: its means of many rows are inaccurate, and so are some frameworks'."""
    many = np.random.default_rng(0).normal(285.0, 1.0, (300_000, 2)).astype(np.float32)
    case = candidates.given(Workload(xb.mean, name="means"), [many], {"axis": 0})
    assert case.tolerance < 1e-4 and not case.undetermined
    said = [verified([each], case.expected, case.tolerance) for each in (many.mean(0), many.mean(0, np.float64))]
    assert [one.agreement for one in said] == [Agreement.DIFFERS, Agreement.AGREES]


HILBERT = 1 / (np.arange(1, 9)[:, None] + np.arange(8.0)[None])
UNKNOWN: dict[str, tuple[Any, list[np.ndarray], str]] = {
    "inputs that do not determine it": (
        xb.linalg.inv,
        [HILBERT.astype(np.float32)],
        "when each input changes by a unit",
    ),
    "roundings that cancel": (
        lambda x: xb.mean(x * x) - xb.mean(x) ** 2,
        [np.random.default_rng(0).normal(285.0, 1.0, 1000).astype(np.float32)],
        "the result of each op is rounded to float32",
    ),
    "numbers that float32 does not have": (
        lambda x: xb.log(xb.sum(xb.exp(x))),
        [np.full(3, 100, np.float32)],
        "rounded to float32 is beyond all numbers",
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_determined_in_its_precision_has_no_verdict(case: str) -> None:
    function, arrays, why = UNKNOWN[case]
    case = candidates.given(Workload(function, name="f"), arrays, {})
    assert why in case.undetermined
    for result in case.expected, [2 * np.asarray(each) for each in case.expected]:
        said = verified(result, case.expected, case.tolerance, undetermined=case.undetermined)
        assert said.agreement is Agreement.UNDETERMINED and said.error is not None
    wide = candidates.given(Workload(function, name="f"), [array.astype(np.float64) for array in arrays], {})
    assert not wide.undetermined


def test_weights_that_overflow_have_no_number_and_a_difference_that_results_can_hold() -> None:
    """The difference of NaN and a number was infinite, stored as null, and read as the reference's."""
    assert not_finite([np.array([1.0, np.inf, np.nan], np.float32), np.array([1, 2])]) == 2
    for lost in (np.nan, np.inf):
        difference = apart([(np.array([1.0, lost]), np.array([1.0, 2.0]))])
        assert msgspec.json.decode(msgspec.json.encode(difference)) == difference
        assert difference > of_roundings(["float32"])
    assert apart([]) == 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.int64([2**53 + 1]), np.int64([2**53])),
        (np.int64([-(2**63)]), np.int64([2**63 - 1])),
        (np.int64([2**62 - 1]), np.uint32([0])),
        (np.bool_([True]), np.bool_([False])),
    ],
)
def test_integers_are_compared_exactly(one: np.ndarray, other: np.ndarray) -> None:
    """float64 has 53 bits, so that it does not see the low ones of int64."""
    assert verified([one], [other], 0.0).agreement is Agreement.DIFFERS
    assert verified([other], [one], 0.0).agreement is Agreement.DIFFERS
    assert verified([one], [one], 0.0).agreement is Agreement.AGREES
    distance, largest = abs(int(one[0]) - int(other[0])), abs(int(other[0])) or 1
    assert relative_error(one, other) == distance / largest


def test_no_number_is_no_agreement() -> None:
    nan, number = np.array([np.nan, 1.0]), np.array([0.0, 1.0])
    assert verified([nan], [nan], 1.0).agreement is Agreement.UNVERIFIED
    assert verified([nan], [nan], 1.0, allow_nan=True).agreement is Agreement.AGREES
    assert verified([nan], [number], 1.0, allow_nan=True).agreement is Agreement.DIFFERS
    assert verified([number], [nan], 1.0, allow_nan=True).agreement is Agreement.DIFFERS
    assert verified([np.array(-np.inf)], [np.array(-np.inf)], 0.0).agreement is Agreement.AGREES


def test_an_oracle_of_its_own_says_that_nan_is_right() -> None:
    logs = Workload(xb.log, name="logs")
    logs.inputs(lambda rng: np.array([-1.0, 1.0]))
    assert not candidates.made(logs, {}).allow_nan
    with np.errstate(invalid="ignore"):
        logs.oracle(np.log)
        assert candidates.made(logs, {}).allow_nan


def test_state_and_loops_and_devices_have_an_oracle_in_float64() -> None:
    """The oracle is the program in float64: its casts to float32 do not round."""
    w = xb.shared(np.float32(0.1), name="w", device="gpu:7")

    def f(x: Any) -> Any:
        xb.update(w, w + 1)
        (total,) = xb.scan(lambda carry, row: ((carry[0] + xb.astype(row, "float32") * w,), ()), (xb.sum(x) * 0,), x)[0]
        return total

    case = candidates.given(Workload(f), [np.float32([0.1, 0.2])], {})
    x = np.float32([0.1, 0.2]).astype(np.float64)
    assert float(case.expected[0]) == pytest.approx(x.sum() * float(np.float32(0.1)), rel=1e-15)


def test_its_own_oracle_and_tolerance_count() -> None:
    workload = squares()
    workload.oracle(lambda a, *, n: np.sum(a**2) / n + 1.0)
    workload.tolerance(lambda n: 0.25 * n)
    case = candidates.made(workload, {"n": 4})
    assert (case.tolerance, case.derived) == (1.0, "said by the workload")
    assert case.expected[0] == pytest.approx(1.0 + np.sum(case.inputs[0] ** 2) / 4)


@pytest.mark.parametrize("tolerance", [float("nan"), -1.0, float("inf"), "much"])
def test_a_tolerance_that_is_none_is_refused(tolerance: Any) -> None:
    workload = squares()
    workload.tolerance(lambda: tolerance)
    with pytest.raises(WorkloadError, match=r"its tolerance is .*, which is no number from 0 up"):
        candidates.made(workload, {})


def test_an_oracle_of_another_shape_is_refused() -> None:
    workload = squares()
    workload.oracle(lambda a, *, n: a)
    with pytest.raises(WorkloadError, match=r"its oracle returns the shapes \(3,\), it itself \(\)"):
        candidates.made(workload, {})


def test_integers_have_to_be_exact() -> None:
    counts = Workload(xb.sum, name="counts")
    counts.inputs(lambda rng: rng.integers(0, 9, 5))
    case = candidates.made(counts, {})
    assert (case.tolerance, case.derived) == (0.0, "no output is floating-point")


# --- gradients --------------------------------------------------------------------------------------------------------


def test_value_and_gradient_are_two_tasks() -> None:
    cases = session.cases_of([(squares(), [{"n": 3}])])
    assert [case.workload for case in cases] == ["squares", "squares+gradient"]
    value, gradient = cases[1].expected
    a = cases[1].inputs[0]
    assert float(value) == pytest.approx(np.sum(a**2) / 3)
    np.testing.assert_allclose(gradient, 2 * a / 3)


@example([2.1674083475993677e-98], 4)  # its values are zero, its gradients are not
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=5), st.integers(2, 4))
def test_gradients_of_polynomials_are_found_right(numbers: list[float], power: int) -> None:
    workload = squares()
    workload.inputs(lambda rng, *, n: np.array(numbers))
    case = candidates.made(workload, {"n": 1, "power": power}, gradient=True)
    assert relative_error(case.expected[1], power * np.array(numbers) ** (power - 1)) < 1e-12


def test_what_has_no_gradient_where_it_is_asked_is_refused() -> None:
    """The value's derivative is 2, the program's 1: rounding has none."""

    def steps(a: Any) -> Any:
        return xb.sum(a + xb.floor(1e9 * a) / 1e9)

    rough = Workload(steps, gradient="a")
    rough.inputs(lambda rng: rng.random(4))
    with pytest.raises(WorkloadError, match="it is no gradient there"):
        candidates.made(rough, {}, gradient=True)


# --- files of users ---------------------------------------------------------------------------------------------------


def test_all_workloads_of_a_file_are_measured(model: Path) -> None:
    cases = users.cases(str(model), None, {})
    assert [(case.workload, case.parameters.get("n")) for case in cases] == [
        ("logp", 10), ("logp+gradient", 10), ("logp", 20), ("logp+gradient", 20), ("doubled", None),
    ]  # fmt: skip
    quick = users.cases(f"{model}:logp", None, {"dtype": ["float32", "float64"]}, quick=True)
    assert [(t.parameters["n"], t.parameters["dtype"]) for t in quick] == [
        (5, "float32"), (5, "float32"), (5, "float64"), (5, "float64"),
    ]  # fmt: skip


def test_any_function_is_measured_with_inputs(model: Path) -> None:
    (case,) = users.cases(f"{model}:plain", ["float32[3]"], {"scale": [2.0]})
    assert case.parameters == {"from": str(model), "inputs": "float32[3]", "scale": 2.0}
    np.testing.assert_array_equal(case.expected[0], 2.0 * case.inputs[0].astype(np.float64))


def test_the_inputs_of_a_workload_are_not_those_of_other_functions(model: Path) -> None:
    with pytest.raises(UsageError, match="give each array with --input"):
        users.cases(f"{model}:plain", None, {})


def test_a_bad_value_of_a_sweep_is_its_row_only(model: Path) -> None:
    cases = users.cases(f"{model}:logp", None, {"n": [4, -1]})
    assert [bool(case.refused) for case in cases] == [False, False, True, True]
    assert cases[2].parameters["n"] == -1
    reason = cases[2].refused
    assert "negative dimensions" in reason and "model.py" in reason and "xbackend/" not in reason


@pytest.mark.parametrize(
    ("target", "inputs", "asked", "words"),
    [
        ("{}:nobody", None, {}, "has no function 'nobody'; it has"),
        ("{}", ["float32[3]"], {}, "--input is for a function"),
        ("{}:logp", None, {"n": [-1]}, "negative dimensions"),
        ("{}:plain", ["float32[3]"], {"scale": [1.0, 2.0]}, "several values are for a workload"),
        ("nowhere.py", None, {}, "there is no file nowhere.py"),
        ("matpot", None, {}, "there is no workload .matpot.; there is .*matpow"),
    ],
)
def test_a_target_that_is_none_is_said(model: Path, target: str, inputs: Any, asked: Any, words: str) -> None:
    with pytest.raises((UsageError, WorkloadError), match=words):
        users.cases(target.format(model), inputs, asked)


def test_an_unknown_parameter_is_an_error(model: Path) -> None:
    with pytest.raises(WorkloadError, match="workload logp has no parameter m"):
        users.cases(f"{model}:logp", None, {"m": [1]})
    with pytest.raises(ArgumentError, match="plain has no argument m to be set"):
        users.cases(f"{model}:plain", ["float32[3]"], {"m": [1]})


def test_a_file_without_workloads_says_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"has no workload: write @xb\.workload above a function"):
        users.cases(str(path), None, {})


# --- measured ---------------------------------------------------------------------------------------------------------


@pytest.mark.tier("exhaustive")
def test_a_users_file_is_compared(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user's module is never imported in the measured process: its inputs and oracle are sent as files."""
    model.write_text(model.read_text() + "import os\nopen(os.environ['IMPORTED'], 'a').write('x')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IMPORTED", str(tmp_path / "imported"))
        patch.chdir(tmp_path)
        measured = ["--backends", "numpy,pytensor-jax", "--quick", "--processes", "1", "--wait", "0"]
        code = main(["compare", "model.py", *measured, "--set", "n=5,-1"])
    said = capsys.readouterr()
    assert code == INCOMPLETE, said  # one value of the sweep is invalid
    assert (tmp_path / "imported").read_text() == "x"
    results = json.loads(gzip.decompress((tmp_path / "reports/model/results.json.gz").read_bytes()))
    rows = results.get("results", results)["measurements"]
    status = {(r["workload"], r["parameters"].get("n"), r["backend"]): r["status"] for r in rows}
    assert {k: v for k, v in status.items() if k[1] == 5 or k[0] == "doubled"} == {
        (w, n, b): "ok"
        for w, n in (("logp", 5), ("logp+gradient", 5), ("doubled", None))
        for b in ("numpy", "pytensor-jax")
    }
    assert {v for k, v in status.items() if k[1] == -1} == {"failed"}
    text = (tmp_path / "reports/model/report.md").read_text()
    page = (tmp_path / "reports/model/report.html").read_text()
    assert "negative dimensions" in text and "The largest relative error that passes: 100 times" in page


def test_the_workloads_of_xbackend_are_workloads_like_any_other() -> None:
    for name in workloads.names():
        workload = workloads.get(name)
        assert workload.name == name and workload.summary


# --- bad input --------------------------------------------------------------------------------------------------------


def test_values_of_a_sweep_are_measured_once_and_kept_as_plain_data() -> None:
    def f(a: Any, *, n: int, of: Any = None) -> Any:
        return a * n

    workload = Workload(f, sweep={"n": np.array([3, 3, 4]), "of": [np.sum]})
    workload.inputs(lambda rng: rng.random(2))
    cases = session.cases_of([(workload, workload.combinations({}))])
    assert [case.parameters["n"] for case in cases] == [3, 4]
    assert [type(value) for value in cases[0].parameters.values()] == [int, str]
    json.dumps([case.parameters for case in cases])


def test_two_workloads_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    each = "{0} = xb.workload(name='f')(lambda a: a)\n"
    path.write_text("import xbackend as xb\n" + each.format("f") + each.format("g"))
    with pytest.raises(UsageError, match="has several workloads called f: give each a name of its own"):
        users.cases(str(path), None, {})


def test_one_of_a_value_its_gradient_and_its_sizes_is_chosen(model: Path) -> None:
    """For `bisect`, which measures one; by default the value of the named workload."""
    assert users.case(f"{model}:logp", None, None, quick=True).workload == "logp"
    assert users.case(f"{model}:logp+gradient", None, None, quick=True).workload == "logp+gradient"
    assert users.case(f"{model}:logp+gradient", None, [("n", 7)]).parameters["n"] == 7
    with pytest.raises(UsageError, match=r"is several, choose one: \S+:logp\+gradient --set n=10; \S+ --set n=20$"):
        users.case(f"{model}:logp+gradient", None, None)
    with pytest.raises(
        UsageError, match=r"choose one: .*model.py:logp --set n=5.*; .*model.py:logp\+gradient .*:doubled"
    ):
        users.case(str(model), None, None, quick=True)
    with pytest.raises(UsageError, match=r'plain has no gradient: write @xb.workload\(gradient="a"\)'):
        users.case(f"{model}:plain+gradient", ["3.0"], None)
    inputs = ["float64[3]", "float64[5,3]", "float64[5]"]
    assert users.case(f"{model}:logp+gradient", inputs, [("n", 5)]).workload == "logp+gradient"
    traced = users.traced(f"{model}:logp+gradient", None, [("n", 5)], seed=0)
    assert len(traced.program.outputs) == 2 and len(traced.expected().expected) == 2
