"""Several processes: ours beside the engines used by hand and TensorFlow's own strategies, one graph against several,
bytes, start and weights. Not reached is shown, not measured fails, wrong weights fail.

Each pair of sides runs twice (once with ``--processes 1``); ``--full`` runs it ten times, and adds what takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from overhead import cluster_targets as targets
from overhead.clusters import Case, Run
from overhead.figure import Figure

SERVED = ("numpy", "tensorflow")  # backends of the engines that have parameter servers
ENGINES = ("numpy", "jax", "tensorflow")  # one backend of each engine
COMPILED = "pytensor"  # joined by MPI too, and its gradients are compiled
COUNTS = (("mirrored", "2"), ("mirrored", "3"), ("served", "2"))
FURTHER = (("mirrored", "4"), ("served", "3"), ("served", "4"))
CASES = [
    pytest.param((*case, dtype), marks=[pytest.mark.only_full] if case in FURTHER else [], id="-".join((*case, dtype)))
    for case in (*COUNTS, *FURTHER)
    for dtype in targets.EXACT
]


@pytest.fixture
def keep(note: Any, replay: Any, benchmark: Any) -> Callable[[str, Iterable[Figure], list[Run]], None]:
    """Notes figures; the median steps of our runs are the benchmark, where there are any."""

    def kept(group: str, figures: Iterable[Figure], runs: list[Run]) -> None:
        benchmark.group = f"clusters: {group}"
        for figure in figures:
            note(figure)
        if runs:
            replay([targets.step(run) for run in runs], 1)

    return kept


@pytest.fixture
def extent(choices: Any) -> targets.Extent:
    return targets.extent(choices.quick, choices.extent.processes)


def exactly(figure: Figure) -> Figure:
    """Raises `AssertionError` where our weights are not those of one process."""
    assert figure.detail["difference"] <= targets.EXACT["float64"], figure
    return figure


@pytest.mark.only_for(*SERVED)
def test_adding_on_a_server_against_the_engine_by_hand(backend: str, extent: Any, say: Any, keep: Any) -> None:
    figures, runs = targets.by_hand(backend, "add_rank", extent, say)
    keep("P7 by hand", map(exactly, figures), runs)


@pytest.mark.only_for(*ENGINES)
def test_mirrored_training_against_the_engine_by_hand(backend: str, extent: Any, say: Any, keep: Any) -> None:
    figures, runs = targets.by_hand(backend, "mirrored", extent, say)
    assert not any(map(targets.copies_differ, runs))
    keep("P10 mirrored by hand", map(exactly, figures), runs)


@pytest.mark.only_for(*SERVED)
def test_served_training_against_the_engine_by_hand(backend: str, extent: Any, say: Any, keep: Any) -> None:
    figures, runs = targets.by_hand(backend, "served", extent, say)
    keep("P10 served by hand", map(exactly, figures), runs)


@pytest.mark.only_full  # each of its processes compiles
@pytest.mark.only_for(COMPILED)
@pytest.mark.parametrize("program", ["mirrored", "served"])
def test_compiled_training_against_the_engine_by_hand(
    backend: str, program: str, extent: Any, say: Any, keep: Any
) -> None:
    figures, runs = targets.by_hand(backend, program, extent, say)
    assert not any(map(targets.copies_differ, runs))
    keep(f"P10 {program} by hand", map(exactly, figures), runs)


@pytest.mark.only_full
@pytest.mark.only_for("tensorflow")
@pytest.mark.parametrize("program", ["mirrored", "served"])
def test_against_tensorflows_strategies(backend: str, program: str, extent: Any, say: Any, keep: Any) -> None:
    figures, runs = targets.strategies(program, extent, say)
    keep("TensorFlow's strategies", map(exactly, figures) if program == "mirrored" else figures, runs)


@pytest.mark.only_for(*ENGINES)
def test_one_graph_against_several(backend: str, extent: Any, say: Any, keep: Any) -> None:
    figures, runs = targets.growth(backend, extent, say)
    for figure in figures:
        exactly(figure)
    keep("one graph and several", figures, runs)


@pytest.mark.only_for(*ENGINES)
def test_bytes_against_what_is_needed(backend: str, say: Any, keep: Any) -> None:
    keep("bytes", *targets.moved(backend, say))


@pytest.mark.only_full
@pytest.mark.only_for(*ENGINES)
def test_two_workers_against_one_and_the_start(backend: str, extent: Any, say: Any, keep: Any) -> None:
    keep("two workers", *targets.scaling(backend, extent, say))


@pytest.mark.only_for(*ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_one_process(backend: str, case: tuple[str, str, str], say: Any, keep: Any) -> None:
    program, workers, dtype = case
    if program == "served" and backend not in SERVED:
        pytest.skip("jax.distributed has collectives only, and no parameter servers")
    figure, run = targets.exact(Case(backend, program, int(workers), int(program == "served"), 10, dtype), say)
    assert figure.reached, figure
    assert figure.detail["copies_equal_to_the_bit"]
    keep("weights", [figure], [run])
