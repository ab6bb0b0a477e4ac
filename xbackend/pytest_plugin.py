"""The pytest plugin: benchmarks over backends, recorded in worker processes, shown, saved and compared by
pytest-benchmark. In a project of yours, where xbackend and pytest-benchmark are installed, ``bench/test_mine.py``:

    import numpy as np
    import xbackend as xb

    def energy(x, *, scale):
        return xb.sum(scale * x * x)

    def test_energy(xbackend_benchmark):
        xbackend_benchmark(energy, np.ones((512, 512), np.float32), scale=0.5)

``pytest bench --quick --backends numpy,pytensor-jax`` makes it a test for each backend. `Benchmark` is the fixture's
type; `xbackend_replay` takes seconds recorded elsewhere.

pytest loads this module in every project of an interpreter, so by itself it does next to nothing: it imports pytest
alone, its options have a prefix, and short names only where no other plugin has them. The rest begins with the first
collected test that uses one of its fixtures.
"""

from __future__ import annotations

import itertools
from argparse import ArgumentTypeError
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xbackend.analysis.gate import GateOutcome
    from xbackend.analysis.statistics import Ratio
    from xbackend.measure.candidates import Candidate, Case
    from xbackend.measure.runner import Session
    from xbackend.results.schema import Measurement, Results

ReplayCall = Callable[..., None]


# --- options ----------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """``a,b`` or ``a b`` as a list."""
    from xbackend.wording import listed

    return listed(text)


def count(text: str) -> int:
    """A whole number from 1 up."""
    if not (text.isdecimal() and int(text)):
        raise ArgumentTypeError(f"{text!r}: a whole number from 1 up is needed")
    return int(text)


def devices(text: str) -> list[int | str]:
    """``gpu,1,2`` as a list of kinds and numbers."""
    return [word if word.isalpha() else count(word) for word in words(text)]


# Each is there as --xbackend-NAME.
_OPTIONS: dict[str, dict[str, Any]] = {
    "backends": {"type": words, "metavar": "NAME,...", "help": "default: all"},
    "devices": {"type": devices, "metavar": "N,...", "help": "numbers of devices, gpu,1,2; default 1, --full 1,2"},
    "quick": {"action": "store_true", "help": "the default: three processes each, short rounds"},
    "full": {"action": "store_true", "help": "five processes each, long rounds"},
    "thorough": {"action": "store_true", "help": "long rounds, and processes until the intervals are narrow"},
    "processes": {"type": count, "metavar": "N", "help": "another number of fresh processes each"},
    "minutes": {"type": float, "metavar": "M", "help": "begin no more processes when they would end later than that"},
    "threads": {"type": count, "metavar": "N", "help": "threads of every process; default: one a core"},
    "cores-per-device": {"type": count, "metavar": "K", "help": "a device is so many cores; default as in `compare`"},
    "shared-cores": {"action": "store_true", "help": "the devices share all cores"},
    "baseline": {"metavar": "NAME", "help": "what the others are compared with; default numpy, else the first"},
    "seed": {"type": int, "metavar": "N", "help": "of the inputs that are drawn and of the order; default 0"},
    "workload": {
        "metavar": "TARGET",
        "help": "FILE.py, FILE.py:NAME or one of xbackend: `xbackend_workload`",
    },
    "set": {
        "action": "append",
        "metavar": "NAME=VALUE,...",
        "help": "a parameter of it, with one value or several",
    },
    "allow-nan": {"action": "store_true", "help": "NaN that the right result has too is no doubt"},
    "store": {"type": Path, "metavar": "FOLDER", "help": "folder of runs; default .xbackend/runs"},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "xbackend (each also without xbackend-, as in --quick, where nothing else has that name)"
    group = parser.getgroup("xbackend", about)
    for name, attributes in _OPTIONS.items():
        group.addoption(f"--xbackend-{name}", dest=f"xbackend_{name}", **attributes)


@pytest.hookimpl(trylast=True)  # after the conftest files are loaded
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Add short names after all other plugins: only those on this command line that would be unknown."""
    unknown = parser.parse_known_and_unknown_args(args)[1]
    for name in dict.fromkeys(word.partition("=")[0].removeprefix("--") for word in unknown):
        if name in _OPTIONS:
            group = parser.getgroup("xbackend")
            group.addoption(f"--{name}", dest=f"xbackend_{name}", **_OPTIONS[name])


class Choices:
    """The values of the options, checked. Raises `pytest.UsageError`."""

    def __init__(self, config: pytest.Config) -> None:
        from xbackend import cores
        from xbackend.backends import registry
        from xbackend.devices import numbers_and_kinds
        from xbackend.errors import XBackendError
        from xbackend.measure.plan import PRESETS
        from xbackend.measure.session import cores_each
        from xbackend.results import FOLDER

        given = {name: config.getoption(f"xbackend_{name}") for name in _OPTIONS}
        full, thorough = given["full"], given["thorough"]
        self.quick = not (full or thorough)
        if given["quick"] and not self.quick:
            raise pytest.UsageError("--quick excludes --full and --thorough")
        mode = PRESETS["thorough" if thorough else "default" if full else "quick"]
        try:
            self.backends = [registry.get(name).name for name in given["backends"] or registry.names()]
            self.extent = mode.extent(given["processes"] or mode.each, given["minutes"])  # all alike: runs are compared
            self.devices, self.kinds = numbers_and_kinds(given["devices"] or ([1, 2] if full else [1]))
            each, shared = given["cores-per-device"], given["shared-cores"]
            self.cores_per_device = cores_each(max(self.devices), given["threads"], each, shared, self.kinds)
        except XBackendError as error:
            raise pytest.UsageError(str(error)) from None
        self.baseline: str | None = given["baseline"]
        if self.baseline is not None and self.baseline not in self.backends:
            raise pytest.UsageError(f"--baseline {self.baseline} is none of {', '.join(self.backends)}")
        self.full, self.thorough, self.minutes = full, thorough, given["minutes"]
        self.effort, self.allow_nan = mode.effort, bool(given["allow-nan"])
        self.store: Path = given["store"] or FOLDER
        self.threads: int = self.cores_per_device or given["threads"] or cores.count()
        self.seed: int = given["seed"] or 0


_CHOICES: pytest.StashKey[Choices] = pytest.StashKey()


def choices(config: pytest.Config) -> Choices:
    """The `Choices` of a configuration, made once."""
    if _CHOICES not in config.stash:
        config.stash[_CHOICES] = Choices(config)
    return config.stash[_CHOICES]


# --- when it begins ---------------------------------------------------------------------------------------------------

_COMPARE: pytest.StashKey[str | bool] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse wrong options of ours before anything is collected.

    pytest-benchmark loads the run to compare with before tests are known. It is delayed until collection has shown
    whether tests of ours are among them: they check that run first.
    """
    if any(config.getoption(f"xbackend_{name}") for name in _OPTIONS):
        choices(config)
    alone = config.getoption("dist", "no") == "no" and not hasattr(config, "workerinput")
    if alone and config.getoption("benchmark_compare", None):
        config.stash[_COMPARE] = config.option.benchmark_compare
        config.option.benchmark_compare = None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each backend and number of devices."""
    if "xbackend_replay" not in metafunc.fixturenames:
        return
    if not hasattr(metafunc.config, "_benchmarksession"):
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid} takes a fixture of xbackend, which needs pytest-benchmark, and that is not "
            "here: pip install pytest-benchmark (or xbackend[bench])"
        )
    if not {"xbackend_benchmark", "xbackend_workload"} & {*metafunc.fixturenames}:
        return
    from xbackend import errors, extras

    try:
        extras.need(f"{metafunc.definition.nodeid}, a benchmark over backends,")
    except errors.UsageError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    asked = choices(metafunc.config)
    pairs = [(backend, devices) for devices in asked.devices for backend in asked.backends]
    ids = [backend if devices == 1 else f"{backend}-{devices}" for backend, devices in pairs]
    if "xbackend_benchmark" in metafunc.fixturenames:
        metafunc.parametrize("xbackend_benchmark", pairs, ids=ids, indirect=True)
    if "xbackend_workload" in metafunc.fixturenames:
        there = cases(metafunc.config)
        every = [(number, *pair) for number in range(len(there)) for pair in pairs]
        names = [f"{_id(one)}-{pair}" for one in there for pair in ids]
        metafunc.parametrize("xbackend_workload", every, ids=names, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--workload`` deselect the tests of a workload."""
    if config.getoption("xbackend_workload") is None:
        out = [item for item in items if "xbackend_workload" in getattr(item, "fixturenames", ())]
        if out:
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if item not in out]


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    compared = config.stash.get(_COMPARE, None)
    used = [item for item in session.items if "xbackend_replay" in getattr(item, "fixturenames", ())]
    for item in used:
        theirs = item.get_closest_marker("benchmark")
        options = {} if theirs is None else theirs.kwargs
        item.add_marker(pytest.mark.benchmark(**{**options, "timer": CLOCK}), append=False)
    if used:
        config.pluginmanager.register(Bridge(config, compared), "xbackend-bridge")
    if compared is not None:
        benchmarks: Any = config._benchmarksession  # type: ignore[attr-defined]
        benchmarks.compare = config.option.benchmark_compare = compared
        benchmarks.handle_loading()


# --- recorded seconds as a benchmark ----------------------------------------------------------------------------------


class ReplayClock:
    """A clock that stands still until it is told to advance. Each round begins at 0, so that the difference of two
    readings is the recorded number exactly."""

    __name__ = "recorded in a worker"

    def __init__(self) -> None:
        self.reading = 0.0

    def __call__(self) -> float:
        return self.reading

    def advance(self, seconds: float) -> None:
        self.reading += seconds


CLOCK = ReplayClock()


def feed(benchmark: Any, rounds: Sequence[float], iterations: int = 1, extra: Mapping[str, Any] | None = None) -> None:
    """Give a benchmark the recorded rounds (seconds per iteration), their iterations, and ``extra`` values to store."""
    # A profile, if one is asked for, runs the target once more.
    times: Iterator[float] = itertools.chain(rounds, itertools.repeat(rounds[-1]))

    def setup() -> tuple[tuple[float], dict[str, Any]]:
        CLOCK.reading = 0.0
        return (next(times),), {}

    benchmark.extra_info.update(extra or {})
    benchmark.pedantic(CLOCK.advance, setup=setup, rounds=len(rounds))
    if benchmark.stats is not None:  # there are none with --benchmark-disable
        benchmark.stats.iterations = iterations


@pytest.fixture
def xbackend_replay(benchmark: Any) -> ReplayCall:
    """``xbackend_replay(rounds, iterations=1, extra=None)``: recorded seconds as this test's benchmark, exactly.

    ``rounds`` are seconds per iteration; ``extra`` is saved beside them.
    """
    if benchmark._timer is not CLOCK:
        raise pytest.UsageError("xbackend_replay has to be an argument of its test, or of a fixture that is")
    benchmark.has_error = True  # until the test has passed
    return partial(feed, benchmark)


# --- a function over backends -----------------------------------------------------------------------------------------


class Benchmark:
    """The fixture `xbackend_benchmark`: a function on this test's backend. There is a test for each backend.

    Attributes:
        backend, devices: this test's.
    """

    def __init__(self, item: pytest.Function, replay: ReplayCall) -> None:
        self._item, self._replay = item, replay
        self.backend, self.devices = _key(item)

    def __call__(
        self,
        function: Callable[..., Any],
        /,
        *arrays: Any,
        expected: Any = None,
        tolerance: float | None = None,
        **static: Any,
    ) -> Measurement:
        """Measure a call of the function on arrays that are on the device. The benchmark is its rounds.

        The first test of a function measures it on all selected backends, in fresh worker processes, in shuffled
        blocks; the others show its results, and have to give the same function and arrays.

        Args:
            function: a function of arrays, as for `xbackend.trace`; its logical devices are spread over this test's.
            arrays: its arguments.
            expected: its right results; by default NumPy's, with floating-point arrays in float64.
            tolerance: the largest relative error that passes; by default it grows with the program's ops and axes.
            static: its keyword arguments, which are no arrays.

        Returns:
            Its row of the report: seconds of each process, parity, placement, versions, warnings.

        Fails the test where it could not be measured or is wrong, with the reason.
        """
        from xbackend.measure.candidates import Candidate, given, of_file
        from xbackend.workloads.workload import Workload

        items = [item for item in self._item.session.items if _differs_in_backend(item, self._item)]
        keys = [_key(item) for item in items]
        kept = self._item.config.stash.setdefault(_RECORDED, {})
        before = kept.get(items[0].nodeid)
        if before is not None:  # NumPy computes its results once
            expected = before.case.expected if expected is None else expected
            tolerance = before.case.tolerance if tolerance is None else tolerance
        name = getattr(function, "__name__", "")
        name = name if name.isidentifier() else self._item.originalname.removeprefix("test_")
        workload = Workload(function, name=name, tolerance=tolerance)
        if expected is not None:
            workload.oracle(lambda *_: expected)
        case = of_file(given(workload, arrays, static), self._item.nodeid.partition("::")[0])
        if before is None:
            before = Recorded(self._item.config, f"bench {name}", {key: Candidate(case, *key) for key in keys})
            kept[items[0].nodeid] = before
        if not case.is_same(before.case):
            pytest.fail(
                "the function, or its arrays, are not those that were measured for the first of these tests: make them "
                "the same for each backend (numpy.random.default_rng(0))",
                pytrace=False,
            )
        return show(before.candidates[_key(self._item)], before.results, self._replay)


_CASES: pytest.StashKey[list[Case]] = pytest.StashKey()


def cases(config: pytest.Config) -> list[Case]:
    """The cases of ``--workload`` and ``--set``, the same as of `xbackend compare`. Raises `pytest.UsageError`."""
    from xbackend.cli import users
    from xbackend.cli.options import lists
    from xbackend.errors import XBackendError

    target, asked = config.getoption("xbackend_workload"), choices(config)
    if _CASES not in config.stash:
        try:
            config.stash[_CASES] = [] if target is None else users.cases(
                target, None, lists(config.getoption("xbackend_set") or ()),
                quick=asked.quick, seed=asked.seed,
            )  # fmt: skip
        except (XBackendError, ValueError) as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_CASES]


def _id(one: Case) -> str:
    name = one.label.replace(", ", ",").replace(" ", "[", 1)
    return f"{name}{']' if '[' in name else ''}"


class Recorded:
    """Candidates, measured in one session and kept in the store."""

    def __init__(self, config: pytest.Config, name: str, candidates: Mapping[Any, Candidate]) -> None:
        from xbackend.measure.runner import Session
        from xbackend.measure.session import kept
        from xbackend.results.runs import Store

        asked = choices(config)
        measured = {candidate.backend for candidate in candidates.values()}
        if asked.baseline is not None and asked.baseline not in measured:
            raise pytest.UsageError(f"--baseline {asked.baseline} is not selected; {', '.join(sorted(measured))} is")
        self.candidates, self.case = candidates, next(iter(candidates.values())).case
        self.session: Session = Session(
            list(candidates.values()),
            extent=asked.extent,
            threads=asked.threads,
            cores_per_device=asked.cores_per_device,
            kinds=asked.kinds,
            seed=asked.seed,
            effort=asked.effort,
            allow_nan=asked.allow_nan,
            on_progress=partial(say, config),
        )
        settings = {key: getattr(asked, key) for key in ("quick", "thorough", "minutes", "devices")}
        self.results = kept(self.session, name, settings, Store(asked.store))
        config.stash.setdefault(RESULTS, []).append(self.results)


RESULTS: pytest.StashKey[list[Results]] = pytest.StashKey()  # shown at the end
_RECORDED: pytest.StashKey[dict[str, Recorded]] = pytest.StashKey()  # under the first test of each function


def _key(item: pytest.Item) -> tuple[str, int]:
    """The backend and the number of devices of a test."""
    key: tuple[str, int] = item.callspec.params["xbackend_benchmark"]  # type: ignore[attr-defined]
    return key


def _differs_in_backend(item: pytest.Item, other: pytest.Function) -> bool:
    """Whether it is the same test with the same other parameters."""
    if not isinstance(item, pytest.Function) or (item.parent, item.originalname) != (other.parent, other.originalname):
        return False
    ours, theirs = (
        {name: id(value) for name, value in one.callspec.params.items() if name != "xbackend_benchmark"}
        for one in (item, other)
    )
    return ours == theirs


def show(candidate: Candidate, results: Results, replay: ReplayCall) -> Measurement:
    """A measured candidate as the benchmark of a test, which fails with the reason where there is nothing to show."""
    from xbackend.analysis import statistics

    if candidate.status != "ok":
        pytest.fail(f"{candidate.label}: {candidate.status}: {candidate.reason}", pytrace=False)
    row = candidate.measurement()
    assert row.parity is not None
    extra = {
        "processes": row.times,
        "order": [process.order for process in row.processes],
        "gflops": row.operations / statistics.time_of(row.times) / 1e9,
        "relative_error": row.parity.relative_error,
        "inputs": row.parity.inputs,
        "run": results.run,
        "program": row.program,
        "versions": row.versions,
        "threads": row.description.threads,
        "asked": [results.settings.threads, results.settings.cores_per_device],
        "warnings": row.warnings,
    }
    rounds = [seconds for process in row.processes for seconds in process.rounds]
    replay(rounds, row.processes[0].iterations, extra)
    return row


@pytest.fixture
def xbackend_benchmark(request: pytest.FixtureRequest, xbackend_replay: ReplayCall) -> Benchmark:
    """``xbackend_benchmark(function, *arrays, **static)``: the function, measured on each of the backends.

    ``expected=`` is its right result, ``tolerance=`` the largest relative error that passes.
    """
    return Benchmark(request.node, xbackend_replay)


@pytest.fixture
def xbackend_workload(request: pytest.FixtureRequest, xbackend_replay: ReplayCall) -> Callable[[], Measurement]:
    """``xbackend_workload()``: one workload of ``--workload``, with its parameters, on one backend, as a benchmark.

    There is a test for each of these; the first one measures all. Returns the row of the report.
    """
    from xbackend.measure.candidates import Candidate

    config, key = request.config, request.param

    def measured() -> Measurement:
        one = cases(config)[key[0]]
        if one.refused:
            pytest.fail(f"{one.workload}: {one.refused}", pytrace=False)
        if _MEASURED not in config.stash:
            items = [i for i in request.session.items if "xbackend_workload" in getattr(i, "fixturenames", ())]
            keys = dict.fromkeys(item.callspec.params["xbackend_workload"] for item in items)  # type: ignore[attr-defined]
            made = [(k, cases(config)[k[0]]) for k in keys]
            wanted = {k: Candidate(case, *k[1:]) for k, case in made if not case.refused}
            config.stash[_MEASURED] = Recorded(config, f"bench {one.workload}", wanted)
        recorded = config.stash[_MEASURED]
        return show(recorded.candidates[key], recorded.results, xbackend_replay)

    return measured


_MEASURED: pytest.StashKey[Recorded] = pytest.StashKey()


def say(config: pytest.Config, text: str) -> None:
    """Show a line of progress although pytest captures the output."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None:  # a process of pytest -n
        return
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        reporter.write_line(text)


# --- saved runs -------------------------------------------------------------------------------------------------------


class Bridge:
    """How pytest-benchmark saves, compares and judges, where some tests are ours.

    A benchmark whose test has not passed is not saved, and a saved run says whether it is complete. A comparison with a
    damaged or incomplete run, or, with ``--benchmark-compare-fail=median:5%``, with one of another machine, ends before
    anything is measured; its exit codes are those of ``xbackend gate``.
    """

    def __init__(self, config: pytest.Config, compared: str | bool | None) -> None:
        from pytest_benchmark.storage.file import FileStorage

        from xbackend.measure import saved

        self.benchmarks: Any = config._benchmarksession  # type: ignore[attr-defined]
        self.unsure: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.complete = self.regressed = False
        if self.benchmarks.disabled:
            return
        checks = config.getoption("benchmark_compare_fail") or []
        others = sorted({check.field for check in checks} - {"median"})
        if others:
            raise pytest.UsageError(
                f"--benchmark-compare-fail={others[0]}:...: the {others[0]} of two identical runs often differs by "
                "more than a gate allows; compare medians: --benchmark-compare-fail=median:5%"
            )
        if checks and compared is None:
            raise pytest.UsageError("--benchmark-compare-fail needs --benchmark-compare: that says with what")
        storage = self.benchmarks.storage
        if type(storage) is FileStorage:  # else a server, which keeps its own files
            if compared is not None:
                _check_saved(config, storage, compared)
            # A saved run is written whole.
            self.benchmarks.storage = saved.WholeStorage(
                storage.path, storage.logger, default_machine_id=self.benchmarks.machine_id
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A benchmark is saved once its test has passed, and not if its teardown fails."""
        report = yield
        if "xbackend_replay" in getattr(item, "fixturenames", ()):
            benchmark = item.funcargs.get("benchmark")  # type: ignore[attr-defined]
            if benchmark is not None and call.when in ("call", "teardown"):
                benchmark.has_error = not (report.passed and (call.when == "call" or not benchmark.has_error))
        return report

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Leave out facts that change between two runs on one machine, and add ours."""
        from xbackend import cores
        from xbackend.measure import machine

        for changing in ("hz_actual", "hz_actual_friendly"):
            machine_info["cpu"].pop(changing, None)
        machine_info["xbackend"] = {"fingerprint": machine.machine().fingerprint, "cores": cores.count()}

    def pytest_benchmark_compare_machine_info(
        self, config: pytest.Config, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
    ) -> None:
        """End pytest where a gate would compare two machines."""
        from xbackend.analysis.gate import GateOutcome
        from xbackend.measure import saved

        if saved.KEY not in compared_benchmark:
            # `_check_saved` has said that our entry is missing; pytest-benchmark would print both machines in full.
            compared_benchmark["machine_info"] = machine_info
            return
        ours, theirs = saved.fingerprint(machine_info), saved.fingerprint(compared_benchmark["machine_info"])
        if config.getoption("benchmark_compare_fail") and ours != theirs:
            pytest.exit(
                f"no verdict: the saved run is of another machine ({theirs or 'of unknown'}, this is "
                f"{ours or 'unknown'}); save one here with --benchmark-autosave, or leave --benchmark-compare-fail out",
                returncode=GateOutcome.NO_VERDICT,
            )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, Any, Any]:
        """The exit code, after the summary and after pytest-benchmark, which saves and compares in this hook."""
        from xbackend.analysis.gate import GateOutcome

        self.complete = exitstatus == pytest.ExitCode.OK and not session.shouldstop
        result = yield
        if session.exitstatus == pytest.ExitCode.OK:
            if self.regressed:
                session.exitstatus = GateOutcome.REGRESSION
            elif self.unsure:
                session.exitstatus = GateOutcome.NO_VERDICT
            elif self._nothing_matched():
                session.exitstatus = GateOutcome.NOTHING
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """A saved run says whether it is complete; it is not after Ctrl-C or a failed test."""
        from xbackend.measure import saved

        saved.seal(output_json, self.complete)

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> Generator[None, Any, Any]:
        """Verdicts and notes. pytest-benchmark raises after a regression, and is silent where nothing matched."""
        from pytest_benchmark.session import PerformanceRegression

        self._judge(config)
        try:
            result = yield
        except PerformanceRegression:  # the regressions have been printed
            self.regressed, result = True, None
        for results in config.stash.get(RESULTS, []):
            _verdicts(terminalreporter, results, choices(config).baseline)
        for name, reason in self.unsure:
            terminalreporter.write_line(f"no verdict: {name}: {reason}", red=True)
        for note in self.notes:
            terminalreporter.write_line(note, yellow=True)
        if self._nothing_matched():
            terminalreporter.write_line(
                "ERROR: no benchmark of this run is in the saved run that it was compared with; run the same options "
                "in the same directory first, with --benchmark-autosave",
                red=True,
            )
        return result

    def _judge(self, config: pytest.Config) -> None:
        """Replace pytest-benchmark's decisions, which know no noise, by the gate's; note the undecided ones."""
        from xbackend.analysis.gate import GateOutcome, unknown_sessions
        from xbackend.results.runs import Store

        session = self.benchmarks
        if not session.compare_fail or not session.compared_mapping:
            return
        measured = config.stash.get(RESULTS, [])
        runs, damaged = Store(choices(config).store).readable() if measured else ([], [])
        regressed: list[tuple[str, str]] = []
        ratios: list[Ratio | None] = []
        for benchmark in session.benchmarks:
            for mapping in session.compared_mapping.values():
                before = mapping.get(benchmark.fullname)
                for check in session.compare_fail if before else ():
                    earlier = _sessions(benchmark.extra_info, before.get("extra_info", {}), measured, runs)
                    outcome, reason, against = _decided(benchmark, before, check, earlier)
                    ratios.append(against)
                    if outcome is GateOutcome.REGRESSION:
                        regressed.append((benchmark.name, reason))
                    elif outcome is GateOutcome.NO_VERDICT:
                        self.unsure.append((benchmark.name, reason))
        session.performance_regressions[:] = regressed
        self.notes += unknown_sessions(ratios)
        self.notes += [f"left out of what is known of sessions: run {name}: {reason}" for name, reason in damaged]

    def _nothing_matched(self) -> bool:
        session = self.benchmarks
        if not session.compared_mapping or not session.benchmarks:
            return False
        there = {name for run in session.compared_mapping.values() for name in run}
        return not any(benchmark.fullname in there for benchmark in session.benchmarks)


def _check_saved(config: pytest.Config, storage: Any, chosen: str | bool) -> None:
    """Check every saved run to compare with; ends pytest with a `GateOutcome` if one is unfit."""
    from xbackend.analysis.gate import GateOutcome
    from xbackend.errors import StoreError
    from xbackend.measure import saved

    files = saved.compared(storage, chosen)
    if not files:
        pytest.exit(
            f"there is no saved run {'' if chosen is True else f'{chosen!r} '}in {storage} to compare with; make one "
            "with --benchmark-autosave",
            returncode=GateOutcome.NOTHING,
        )
    for file in files:
        try:
            content = saved.check(file)
        except saved.Incomplete as error:
            pytest.exit(str(error), returncode=GateOutcome.INCOMPLETE)
        except StoreError as error:
            pytest.exit(str(error), returncode=GateOutcome.STORE)
        if saved.KEY not in content:
            lacks = f"the saved run {file} was saved without xbackend: it does not say on which machine"
            if config.getoption("benchmark_compare_fail"):
                advice = "save one here with --benchmark-autosave, or leave --benchmark-compare-fail out"
                pytest.exit(f"no verdict: {lacks}; {advice}", returncode=GateOutcome.NO_VERDICT)
            say(config, f"{lacks}, so that its numbers are shown and not judged")


def _sessions(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], measured: Sequence[Results], runs: Sequence[Results]
) -> list[float]:
    """A benchmark's times in the store's earlier runs of the same program; none if it was not measured here."""
    import msgspec

    from xbackend.analysis.between_runs import times_before

    for results, row in ((one, row) for one in measured for row in one.measurements):
        if (results.run, row.times) == (ours.get("run"), ours.get("processes")):
            before = {"program": theirs.get("program", ""), "versions": theirs.get("versions", {})}
            return times_before(results, msgspec.structs.replace(row, **before), runs)
    return []


def _decided(
    benchmark: Any, other: Mapping[str, Any], check: Any, earlier: Sequence[float] = ()
) -> tuple[GateOutcome, str, Ratio | None]:
    """The gate's outcome for a benchmark and its saved one, the reason, and their ratio where there is one."""
    from pytest_benchmark.utils import PercentageRegressionCheck

    from xbackend.analysis import statistics
    from xbackend.analysis.family import ratio
    from xbackend.analysis.gate import GateOutcome, Limit, decision

    ours, theirs = benchmark.extra_info, other.get("extra_info", {})
    if not (isinstance(check, PercentageRegressionCheck) and ours.get("processes")):
        failed = check.fails(benchmark, other["stats"])
        return (GateOutcome.REGRESSION if failed else GateOutcome.PASSED), failed or "", None
    for key, what, option in (
        ("asked", "threads, or cores of a device", "--threads and --cores-per-device"),
        ("inputs", "inputs", "--seed"),
    ):
        if key in ours and key in theirs and ours[key] != theirs[key]:
            return GateOutcome.NO_VERDICT, f"other {what} than the saved run: give both the same {option}", None
    if not all(isinstance(s, float | int) for s in [*ours["processes"], *(theirs.get("processes") or [None])]):
        missing = "the saved run holds no seconds of processes: save one with --benchmark-autosave"
        return GateOutcome.NO_VERDICT, missing, None
    against = ratio(ours["processes"], theirs["processes"], earlier=earlier)
    return *decision(against, [Limit(statistics.Verdict.SLOWER, float(check.threshold))]), against


def _verdicts(terminalreporter: Any, results: Results, baseline: str | None) -> None:
    """The answer, the table and the warnings, as every command shows them."""
    from xbackend.report.written.terminal import lines

    terminalreporter.section(f"verdicts: {results.name}")
    for line in lines(results, baseline, terminalreporter._tw.fullwidth):
        terminalreporter.write_line(line, yellow=line.startswith("warning: "))
    terminalreporter.write_line(f"{results.settings.stopped}; run {results.run}")
