"""Workers in turns: one runs, all others stand still."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from xbackend.errors import WorkerDied
from xbackend.measure.turns import Turns
from xbackend.measure.worker import Worker, open_worker

pytestmark = pytest.mark.tier("standard")


def stands(worker: Worker, still: bool) -> bool:
    """Whether a worker's process is stopped, or is not, within the time that a signal takes."""
    process = worker.backend.worker  # type: ignore[attr-defined]
    for _ in range(50):
        stat = Path(f"/proc/{process.pids['worker']}/stat").read_text()
        if (stat.rpartition(")")[2].split()[0] == "T") is still:
            return True
        time.sleep(0.1)
    return False


def test_one_runs_and_the_others_stand_still() -> None:
    with Turns(lambda _: open_worker("numpy")) as turns:
        workers = []
        for key in range(2):
            with turns.running(key) as worker:
                workers.append(worker)
        assert all(stands(worker, still=True) for worker in workers)
        with turns.running(1) as worker:
            assert worker is workers[1]
            assert worker.backend.describe().versions
            assert stands(workers[0], still=True) and stands(worker, still=False)
        pids = [worker.backend.worker.pids["worker"] for worker in workers]  # type: ignore[attr-defined]
        assert turns.pids == {*pids}
    assert not turns.pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_one_that_has_died_is_started_again() -> None:
    with Turns(lambda _: open_worker("numpy")) as turns:
        with turns.running("one") as worker:
            worker.backend.worker.kill()  # type: ignore[attr-defined]
            with pytest.raises(WorkerDied):
                worker.backend.describe()
        turns.end("one")
        with turns.running("one") as again:
            assert again is not worker and again.backend.describe().versions
