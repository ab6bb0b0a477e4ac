"""``pytest bench``: backends side by side, recorded in fresh worker processes, shown and saved by pytest-benchmark.

    pytest bench --benchmark-autosave                          # quick: 512 x 512, float32, three processes each
    pytest bench --benchmark-compare                           # against the last saved run
    pytest bench --thorough --minutes 30                       # ten processes each and more
    pytest bench --full --backends tensorflow,pytensor --sizes 1024,2048 --devices 1,2

Everything that the selected tests need is recorded first, interleaved, by the first of them; each test then checks its
own result and replays its own seconds. A backend that cannot run fails its tests with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from xbackend.backends import handwritten, registry
from xbackend.errors import ArgumentError
from xbackend.measure import session, targets
from xbackend.measure.extent import MODES
from xbackend.measure.loop import FOREIGN
from xbackend.measure.machine import cores, machine
from xbackend.report import summary_table
from xbackend.store import FOLDER
from xbackend.store.results import Figure, Results
from xbackend.store.runs import Store

pytest_plugins = ["xbackend.measure.replay"]


def words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def numbers(text: str) -> list[int]:
    return [int(word) for word in words(text)]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xbackend")
    group.addoption("--backends", type=words, help="comma-separated; default: all: " + ", ".join(registry.names()))
    group.addoption("--devices", type=numbers, help="numbers of devices, comma-separated; default 1, with --full 1,2")
    group.addoption("--sizes", type=numbers, help="default 512, with --full 512,1024,2048")
    group.addoption("--dtypes", type=words, help="default float32, with --full float32,float64")
    quick, usual, thorough = (MODES[name].processes for name in ("quick", "default", "thorough"))
    group.addoption(
        "--processes",
        type=int,
        help=f"fresh processes each; default {quick}, with --full {usual}, with --thorough {thorough} and more",
    )
    group.addoption("--minutes", type=float, help="begin no more processes when they would end later than that")
    group.addoption("--threads", type=int, help="threads of every process; default: one a core")
    group.addoption("--baseline", help="the backend that the others are compared with; default numpy, else the first")
    group.addoption("--seed", type=int, default=0, help="of the inputs and of the order; default 0")
    group.addoption("--quick", action="store_true", help="the default: three processes, short rounds")
    group.addoption("--full", action="store_true", help="long rounds, more sizes and dtypes")
    group.addoption("--thorough", action="store_true", help="long rounds, and processes until the intervals are narrow")
    group.addoption("--store", type=Path, default=FOLDER, help=f"folder of runs; default {FOLDER}")


class Choices:
    """What the options choose."""

    def __init__(self, config: pytest.Config) -> None:
        full, thorough = config.getoption("--full"), config.getoption("--thorough")
        self.quick = not (full or thorough)
        if config.getoption("--quick") and not self.quick:
            raise pytest.UsageError("--quick excludes --full and --thorough")
        mode = MODES["thorough" if thorough else "default" if full else "quick"]
        self.backends: list[str] = list(dict.fromkeys(config.getoption("--backends") or registry.names()))
        unknown = [name for name in self.backends if name not in registry.names()]
        if unknown:
            raise pytest.UsageError(f"no backend {', '.join(unknown)}; there is {', '.join(registry.names())}")
        self.baseline: str | None = config.getoption("--baseline")
        if self.baseline is not None and self.baseline not in self.backends:
            raise pytest.UsageError(f"--baseline {self.baseline} is none of {', '.join(self.backends)}")
        self.devices: list[int] = config.getoption("--devices") or ([1, 2] if full else [1])
        self.sizes: list[int] = config.getoption("--sizes") or ([512, 1024, 2048] if full else [session.QUICK_SIZE])
        self.dtypes: list[str] = config.getoption("--dtypes") or (["float32", "float64"] if full else ["float32"])
        try:
            self.extent = mode.extent(config.getoption("--processes"), config.getoption("--minutes"))
        except ArgumentError as error:
            raise pytest.UsageError(str(error)) from None
        self.store: Path = config.getoption("--store")
        self.threads: int = config.getoption("--threads") or cores()
        self.seed: int = config.getoption("--seed")
        self.effort = mode.effort

    @property
    def every_backend(self) -> bool:
        return set(self.backends) == set(registry.names())

    @property
    def is_quick_comparison(self) -> bool:
        """Whether this is what ``xbackend compare --quick`` does."""
        same = self.devices == [1] and self.sizes == [session.QUICK_SIZE] and self.extent == MODES["quick"].extent()
        return self.quick and same and self.dtypes == ["float32"] and self.every_backend


CHOICES: pytest.StashKey[Choices] = pytest.StashKey()
FIGURES: pytest.StashKey[list[Figure]] = pytest.StashKey()
RESULTS: pytest.StashKey[list[Results]] = pytest.StashKey()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "figure(part): a figure of xbackend.measure.targets, and what it is made from")
    config.addinivalue_line("markers", "computes_with(package, ...): only for backends that need one of these packages")
    config.addinivalue_line("markers", "every_backend: only there when all backends are chosen")
    config.stash[CHOICES] = Choices(config)
    config.stash[FIGURES], config.stash[RESULTS] = [], []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each of these arguments is one of the options' values."""
    choices = metafunc.config.stash[CHOICES]
    backends = choices.backends
    if any(mark.name == "figure" and mark.args[0] in targets.BY_HAND for mark in metafunc.definition.iter_markers()):
        backends = [name for name in backends if handwritten.exists(registry.get(name))]
    for mark in metafunc.definition.iter_markers("computes_with"):
        backends = [name for name in backends if set(mark.args) & set(registry.get(name).packages)]
    for argument, values in (
        ("backend", backends),
        ("devices", choices.devices),
        ("size", choices.sizes),
        ("dtype", choices.dtypes),
    ):
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, values)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.stash[CHOICES].every_backend:
        out = [item for item in items if item.get_closest_marker("every_backend")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Only what does not change between two runs on one machine may be compared."""
    machine_info["cpu"].pop("hz_actual", None)
    machine_info["cpu"].pop("hz_actual_friendly", None)
    machine_info["xbackend"] = {"fingerprint": machine().fingerprint, "cores": cores()}


@pytest.fixture(scope="session")
def choices(request: pytest.FixtureRequest) -> Choices:
    return request.config.stash[CHOICES]


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Shows a line of progress although pytest captures the output."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    @contextmanager
    def visible() -> Iterator[None]:
        with capture.global_and_fixture_disabled():
            yield

    def line(text: str) -> None:
        with visible():
            reporter.ensure_newline()
            reporter.write_line(text)

    return line


Key = tuple[str, int, int, str]  # backend, devices, size, dtype


class Recorded:
    """The session of `test_matpow.py`: run once, for the selected tests."""

    def __init__(self, keys: list[Key], choices: Choices, say: Callable[[str], None]) -> None:
        shapes = dict.fromkeys((size, dtype) for _, _, size, dtype in keys)
        tasks = {(size, dtype): session.task("matpow", size=size, dtype=dtype) for size, dtype in shapes}
        self.candidates = {key: session.Candidate(tasks[key[2:]], key[0], key[1]) for key in keys}
        self.ready = targets.ready({key[0] for key in keys})  # nothing had to be installed meanwhile
        self.session = session.Session(
            list(self.candidates.values()),
            extent=choices.extent,
            threads=choices.threads,
            seed=choices.seed,
            effort=choices.effort,
            baseline=choices.baseline,
            on_progress=say,
        )
        asked = {"quick": choices.quick, "devices": choices.devices}
        self.results = session.kept(self.session, "bench matpow", asked, Store(choices.store))


@pytest.fixture(scope="session")
def recorded(request: pytest.FixtureRequest, choices: Choices, say: Callable[[str], None]) -> Recorded:
    keys = [
        tuple(item.callspec.params[name] for name in ("backend", "devices", "size", "dtype"))
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_matpow"
    ]
    found = Recorded(keys, choices, say)  # type: ignore[arg-type]
    request.config.stash[RESULTS].append(found.results)
    return found


@pytest.fixture(scope="session")
def collected(
    request: pytest.FixtureRequest, choices: Choices, say: Callable[[str], None]
) -> dict[str, targets.Collected]:
    """What the figures of the selected tests are made from, a process (or several) for each backend."""
    items = [i for i in request.session.items if isinstance(i, pytest.Function) and i.get_closest_marker("figure")]
    parts = {item.get_closest_marker("figure").args[0] for item in items}  # type: ignore[union-attr]
    of_one = [item.callspec.params["backend"] for item in items if hasattr(item, "callspec")]
    backends = dict.fromkeys(of_one if len(of_one) == len(items) else choices.backends)
    return targets.collect(
        backends,
        wanted=parts,
        processes=choices.extent.processes,
        quick=choices.quick,
        threads=choices.threads,
        seed=choices.seed,
        on_progress=say,
    )


@pytest.fixture
def note(request: pytest.FixtureRequest, benchmark: Any) -> Callable[[Figure], float]:
    """Puts a figure beside the benchmark, so that saved runs hold it, and on the list at the end; its value.

    One that was not measured, or is no number, fails its test; one that is not reached does not.
    """
    figures: list[dict[str, Any]] = []

    def noted(figure: Figure) -> float:
        if figure.value is None:
            pytest.fail(f"{figure.name} of {figure.subject} was not measured: {figure.reason}", pytrace=False)
        assert math.isfinite(figure.value), figure
        figures.append({**msgspec.to_builtins(figure), "reached": figure.reached})
        benchmark.extra_info["figures"] = figures
        request.config.stash[FIGURES].append(figure)
        return figure.value

    return noted


@pytest.fixture
def replay_part(collected: dict[str, targets.Collected], replay: Any, note: Any) -> Callable[[str, str], float]:
    """Our seconds of a part as the benchmark, its figure beside them; the value of that."""

    def feed(part: str, backend: str) -> float:
        one = collected[backend]
        if part in one.reasons:
            pytest.fail(f"{part} on {backend} was not measured: {one.reasons[part]}", pytrace=False)
        value: float = note(targets.figure(part, one))
        rounds = [seconds for found in one.found[part] for seconds in found["ours"]]
        replay(rounds, one.found[part][0].get("iterations", [1])[0])
        return value

    return feed


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was found, with how sure it is, and the figures, reached or not."""
    for results in config.stash[RESULTS]:
        terminalreporter.section("verdicts")
        headers, rows = summary_table(results, config.stash[CHOICES].baseline)
        columns = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
        for row in (headers, *rows):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, columns, strict=True))
            terminalreporter.write_line(line.rstrip())
        for warning in results.settings["warnings"]:
            terminalreporter.write_line(f"warning: {warning}", yellow=True)
        terminalreporter.write_line(f"{results.settings['stopped']}; run {results.run}")
    figures = config.stash[FIGURES]
    if figures:
        terminalreporter.section("figures that xbackend sets itself")
    for figure in figures:
        words = {True: "reached", False: "NOT REACHED", None: "no limit" if figure.value is not None else figure.reason}
        interval = figure.detail.get("interval")
        between = f" [{interval[0]:.3g}, {interval[1]:.3g}]" if interval else ""
        value = "-" if figure.value is None else f"{figure.value:.3g}"
        limit = f", {figure.relation} {figure.limit:g}" if figure.limit is not None else ""
        line = f"{figure.group}: {figure.name}: {figure.subject}: {value}{between} {figure.unit}{limit}"
        busy = figure.detail.get("foreign_cores", 0.0)
        doubt = f" (others kept {busy:.1f} cores busy)" if busy > FOREIGN else ""
        terminalreporter.write_line(f"{line}: {words[figure.reached]}{doubt}", yellow=figure.reached is False)
