"""Data from files and generators, and checkpoints of killed processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers

import xbackend as xb
from xbackend.errors import ArgumentError, CheckpointError, ShapeError, StoreError, TrainingError
from xbackend.training import SGD, Batches, Stream, Training, checkpoints, sources

X = np.arange(12.0).reshape(4, 3)


def test_arrays_of_an_npz_file_are_those_that_were_saved(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=X, y=np.arange(4))
    x, y = sources.npz(path)
    np.testing.assert_array_equal(x, X)
    (only,) = sources.npz(path, "y")
    np.testing.assert_array_equal(only, y)
    with pytest.raises(TrainingError, match="has no array 'z'; it has x, y"):
        sources.npz(path, "x", "z")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        sources.npz(tmp_path / "none.npz")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TrainingError, match="is no file of arrays"):
        sources.npz(path)


def test_a_table_is_its_columns_and_its_labels(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("width, class,height\n1.5,0,2\n\n-3e1,2,4\n")
    x, labels = sources.table(path, "class")
    np.testing.assert_array_equal(x, [[1.5, 2.0], [-30.0, 4.0]])
    assert labels.tolist() == [0, 2] and labels.dtype == np.int64
    with pytest.raises(TrainingError, match="has no column 'label'; it has width, class, height"):
        sources.table(path, "label")
    path.write_text("a,class\n1,0\nx,1\n")
    with pytest.raises(TrainingError, match=r"data.csv:3: could not convert string to float: 'x'"):
        sources.table(path, "class")
    path.write_text("a,class\n1,0,3\n")
    with pytest.raises(TrainingError, match=r"data.csv:2: 3 cells for 2 columns"):
        sources.table(path, "class")
    path.write_text("a,class\n1,0.5\n")
    with pytest.raises(TrainingError, match=r"data.csv:2: invalid literal"):
        sources.table(path, "class")
    path.write_text("a,class\n1,99999999999999999999\n")
    with pytest.raises(TrainingError, match=r"data.csv:2: .*too (large|big)"):
        sources.table(path, "class")
    path.write_text('a,class\n1,"' + "0" * 200_000)
    with pytest.raises(TrainingError, match=r"data.csv:2: field larger than"):
        sources.table(path, "class")


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_a_file_is_trained_from_as_its_arrays_are(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 2))
    labels = (x[:, 0] > 0).astype(np.int64)
    path = tmp_path / f"data.{kind}"
    if kind == "npz":
        np.savez(path, x=x, labels=labels)
        read = sources.npz(path, "x", "labels")
    else:
        lines = [f"{a!r},{b!r},{label}" for (a, b), label in zip(x.tolist(), labels.tolist(), strict=True)]
        path.write_text("\n".join(["a,b,class", *lines]))
        read = sources.table(path, "class")

    def loss(w: Any, x: Any, labels: Any) -> Any:
        return xb.training.layers.cross_entropy(x @ w["w"], labels)

    ends = []
    with xb.open("numpy") as backend:
        for arrays in ((x, labels), read):
            made = Training(backend, loss, {"w": np.zeros((2, 2))}, SGD(0.5))
            made.fit(Batches(*arrays, size=8), epochs=2)
            ends.append(made.weights()["w"].tobytes())
    assert ends[0] == ends[1]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,class\n1,0\n")
    read = sources.read_file

    def and_written(*arguments: Any) -> bytes:
        found = read(*arguments)
        with path.open("a") as file:
            file.write("2,1\n")
        return found

    monkeypatch.setattr(sources, "read_file", and_written)
    with pytest.raises(TrainingError, match="changed while it was read"):
        sources.table(path, "class")


def drawn(rng: np.random.Generator) -> Iterator[Any]:
    while True:
        x = rng.normal(size=(5, 2))
        yield x, (x[:, 0] > 0).astype(np.int64)


def test_a_stream_is_had_again_from_any_place() -> None:
    whole = Stream(drawn, steps=3, seed=4)
    epochs = [[x.tolist() for x, _ in whole] for _ in range(2)]
    assert whole.epoch == 2 and epochs[0] != epochs[1]
    again = Stream(drawn, steps=3, seed=4)
    for _ in again:
        break
    other = Stream(drawn, steps=3, seed=0)
    other.restore(again.state())
    assert [x.tolist() for x, _ in other] == epochs[0][1:]
    assert [x.tolist() for x, _ in other] == epochs[1]


def test_a_stream_that_ends_early_or_gives_no_rows_is_refused() -> None:
    with pytest.raises(TrainingError, match="ended after 2 of 3 batches of epoch 0"):
        list(Stream(lambda rng: iter([(X,), (X,)]), steps=3))
    with pytest.raises(ShapeError, match="same number of rows"):
        list(Stream(lambda rng: iter([(X, X[:2])]), steps=1))
    with pytest.raises(ArgumentError, match="from 1 up"):
        Stream(drawn, steps=0)
    with pytest.raises(ArgumentError, match="not one of 3 batches"):
        Stream(drawn, steps=3).restore({"seed": 0, "epoch": 0, "place": 4})


def test_a_stream_is_trained_with_and_gone_on_with(tmp_path: Path) -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return xb.mean((x @ w["w"] - xb.astype(y, xb.float64)) ** 2)

    with xb.open("numpy") as backend:
        ends = []
        for stops in ((4,), (2, 4)):
            for epochs in stops:
                made = Training(backend, loss, {"w": np.zeros(2)}, SGD(0.1))
                folder = tmp_path / str(len(stops))
                made.fit(Stream(drawn, steps=3, seed=1), epochs=epochs, folder=folder)
            ends.append(made.weights()["w"].tobytes())
        for other, said in (
            (Stream(drawn, steps=7, seed=1), "steps 3, these have 7"),
            (
                Batches(np.zeros((20, 2)), np.zeros(20, np.int64), size=5, seed=1),
                "a generator, these are of a data set",
            ),
        ):
            with pytest.raises(CheckpointError, match=said):
                made.fit(other, epochs=5, folder=tmp_path / "1")
    assert ends[0] == ends[1]


# A process that saves checkpoints one after the other, and reports each.
SAVES = """
import sys
import numpy as np
from pathlib import Path
from xbackend.training import checkpoints
folder, step = Path(sys.argv[1]), 0
while True:
    step += 1
    arrays = {"w": np.full(20000, float(step)), "step": np.array(step)}
    checkpoints.write(folder, checkpoints.Checkpoint(arrays, "model", step, {"epoch": step}))
    print(step, flush=True)
"""


@pytest.mark.tier("standard")
def test_killed_while_saving_nothing_is_lost_that_was_said_to_be_saved(tmp_path: Path) -> None:
    generator = random.Random(0)
    for moment in range(tiers.share(100)):
        folder = tmp_path / str(moment)
        process = subprocess.Popen([sys.executable, "-c", SAVES, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = [int(process.stdout.readline())]
        reader = threading.Thread(target=lambda out=process.stdout, said=said: said.extend(map(int, out)))
        reader.start()
        time.sleep(generator.uniform(0.0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        found, wrong = checkpoints.newest(folder, "model")
        assert found is not None and wrong == [] and found.step >= said[-1]
        assert np.all(found.arrays["w"] == found.step) and found.data == {"epoch": found.step}
