"""``pytest bench``: backends side by side, recorded in fresh worker processes, shown and saved by pytest-benchmark.

    pytest bench --benchmark-autosave                          # quick: 512 x 512, float32, three processes each
    pytest bench --benchmark-compare                           # against the last saved run
    pytest bench --thorough --minutes 30                       # ten processes each and more
    pytest bench --full --backends tensorflow,pytensor --sizes 1024,2048 --devices 1,2
    pytest bench --figures reports/overhead/figures.md         # what xbackend costs, as a document

Everything that the selected tests need is recorded first, interleaved, by the first of them; each test then checks its
own result and replays its own seconds. A backend that cannot run fails its tests with the reason. The plugin is
`xbackend.pytest_plugin`; here is what the project adds for its own suite.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from overhead import document, targets
from overhead.figure import Figure
from xbackend import pytest_plugin
from xbackend.backends import registry
from xbackend.cores import FOREIGN
from xbackend.measure.candidates import Candidate, case
from xbackend.measure.machine import machine
from xbackend.pytest_plugin import Choices, Recorded, count, words
from xbackend.workloads import matpow

FIGURES: pytest.StashKey[list[Figure]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xbackend's own benchmarks")
    group.addoption(
        "--sizes", type=lambda text: [*map(count, words(text))], help="default 512, with --full 512,1024,2048"
    )
    group.addoption("--dtypes", type=words, help="default float32, with --full float32,float64")
    group.addoption("--figures", type=Path, metavar="FILE.md", help="write the figures to reach into a file")
    group.addoption(
        "--scaling",
        type=Path,
        metavar="FOLDER",
        default=Path(__file__).parent.parent / "reports" / "cluster_scaling",
        help="where the model of scaling is written, by default reports/cluster_scaling",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "figure(part): a figure of overhead.targets, and what it is made from")
    config.addinivalue_line("markers", "computes_with(package, ...): only for backends that need one of these packages")
    config.addinivalue_line("markers", "only_for(backend, ...): only for these")
    config.addinivalue_line("markers", "only_full: only there with --full, as it takes minutes")
    config.addinivalue_line("markers", "every_backend: only there when all backends are chosen")
    config.stash[FIGURES] = []


def sizes(config: pytest.Config) -> list[int]:
    full = pytest_plugin.choices(config).full
    return config.getoption("--sizes") or ([512, 1024, 2048] if full else [matpow.WORKLOAD.quick["size"][0]])


def dtypes(config: pytest.Config) -> list[str]:
    return config.getoption("--dtypes") or ["float32", *(["float64"] if pytest_plugin.choices(config).full else [])]


def every_backend(config: pytest.Config) -> bool:
    return set(pytest_plugin.choices(config).backends) == set(registry.names())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each of these arguments is one of the options' values."""
    choices = pytest_plugin.choices(metafunc.config)
    backends = choices.backends
    for mark in metafunc.definition.iter_markers("computes_with"):
        backends = [name for name in backends if set(mark.args) & set(registry.get(name).packages)]
    for mark in metafunc.definition.iter_markers("only_for"):
        backends = [name for name in backends if name in mark.args]
    for argument, values in (
        ("backend", backends),
        ("devices", choices.devices),
        ("size", sizes(metafunc.config)),
        ("dtype", dtypes(metafunc.config)),
    ):
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, values)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if every_backend(config) else ["every_backend"]
    left_out += [] if pytest_plugin.choices(config).full else ["only_full"]
    out = [item for item in items if any(map(item.get_closest_marker, left_out)) or not _can_be_written(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


def _can_be_written(item: pytest.Item) -> bool:
    """Whether there is a hand-written version for a figure of one backend to compare with."""
    mark, parameters = item.get_closest_marker("figure"), getattr(item, "callspec", None)
    if mark is None or mark.args[0] not in targets.BY_HAND or parameters is None:
        return True
    return targets.written(mark.args[0], parameters.params["backend"])


@pytest.fixture(scope="session")
def choices(request: pytest.FixtureRequest) -> Choices:
    return pytest_plugin.choices(request.config)


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Shows a line of progress although pytest captures the output."""
    return partial(pytest_plugin.say, request.config)


@pytest.fixture
def replay(xbackend_replay: Any) -> Any:
    return xbackend_replay


@pytest.fixture(scope="session")
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """The session of `test_matpow.py`: run once, for the selected tests."""
    keys: list[tuple[Any, ...]] = [
        tuple(item.callspec.params[name] for name in ("backend", "devices", "size", "dtype"))
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_matpow"
    ]
    cases = {shape: case("matpow", size=shape[0], dtype=shape[1]) for shape in dict.fromkeys(key[2:] for key in keys)}
    return Recorded(request.config, "bench matpow", {key: Candidate(cases[key[2:]], *key[:2]) for key in keys})


@pytest.fixture(scope="session")
def collected(
    request: pytest.FixtureRequest, choices: Choices, say: Callable[[str], None]
) -> dict[str, targets.Collected]:
    """The measurements behind the figures of the selected tests, of a process (or several) for each backend."""
    items = [i for i in request.session.items if isinstance(i, pytest.Function) and i.get_closest_marker("figure")]
    parts = {item.get_closest_marker("figure").args[0] for item in items}  # type: ignore[union-attr]
    of_one: list[Any] = [item.callspec.params["backend"] for item in items if hasattr(item, "callspec")]
    backends = dict.fromkeys(of_one if len(of_one) == len(items) else choices.backends)
    return targets.collect(
        backends,
        wanted=parts,
        processes=choices.extent.processes,
        quick=choices.quick,
        threads=None if choices.cores_per_device else choices.threads,
        seed=choices.seed,
        on_progress=say,
    )


@pytest.fixture
def note(request: pytest.FixtureRequest, benchmark: Any) -> Callable[[Figure], float]:
    """Puts a figure beside the benchmark, so that saved runs hold it, and on the list at the end; returns its value.

    One that was not measured, or is no number, fails its test; one that is not reached does not.
    """
    figures: list[dict[str, Any]] = []

    def noted(figure: Figure) -> float:
        request.config.stash[FIGURES].append(figure)
        if figure.value is None:
            pytest.fail(f"{figure.name} of {figure.subject} was not measured: {figure.reason}", pytrace=False)
        assert math.isfinite(figure.value), figure
        json.dumps(figure.detail, allow_nan=False)  # a saved run with NaN or infinity could not be read again
        figures.append({**asdict(figure), "reached": figure.reached})
        benchmark.extra_info["figures"] = figures
        return figure.value

    return noted


@pytest.fixture
def replay_part(collected: dict[str, targets.Collected], replay: Any, note: Any) -> Callable[[str, str], float]:
    """Replays our seconds of a part as the benchmark, with its figure; returns the figure's value."""

    def feed(part: str, backend: str) -> float:
        one = collected[backend]
        value: float = note(targets.figure(part, one))
        rounds = [seconds for found in one.found[part] for seconds in found["ours"]]
        replay(rounds, one.found[part][0].get("iterations", [1])[0])
        return value

    return feed


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The figures, reached or not."""
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
        if "its_interval" in figure.detail:
            low, high = figure.detail["its_interval"]
            itself = f"; by hand over itself {figure.detail['by_hand_over_itself']:.3g} [{low:.3g}, {high:.3g}]"
            doubt = f"{itself}{'' if figure.detail['known'] == 'yes' else ', ' + figure.detail['known']}{doubt}"
        terminalreporter.write_line(f"{line}: {words[figure.reached]}{doubt}", yellow=figure.reached is False)
    file = config.getoption("--figures")
    if file is not None and figures:
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document.write(figures, machine(), created), encoding="utf-8")
        terminalreporter.write_line(f"figures: {file}")
