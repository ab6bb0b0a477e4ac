"""The store: measurements are on disk, whole; damage is named and never replaced by older content."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from store_helpers import begin, changed, cut_off, damages, finished, process, results, row, snapshot

from xbackend.errors import DamagedStore, StoreError, StoreVersionError
from xbackend.files import write_whole
from xbackend.results import database, packing, schema
from xbackend.results.runs import FILE, NOT_COME_TO, Store
from xbackend.results.schema import Visit

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


# --- results ----------------------------------------------------------------------------------------------------------


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    found = results(row(), row("b", reason="a | b\n<script>alert(1)</script>", status="failed", operations=10**25))
    write_whole(path, schema.sealed(found))
    assert schema.load(path) == found
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_formatted_anew_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_whole(path, schema.sealed(results()))
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert schema.load(path) == results()


@pytest.mark.tier("standard")
def test_every_flipped_bit_of_results_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_whole(path, schema.sealed(results(row(medians=[0.5]))))
    whole = schema.load(path)
    data = path.read_bytes()
    same = 0
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = schema.decode(bytes(damaged), path, schema.Results)
        except DamagedStore as error:
            assert str(path) in str(error)
        else:
            same += 1
            assert found == whole, f"bit {bit} gave other results"
    # White space became other white space, or a number was spelled differently.
    assert same < len(data)


def test_every_truncated_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_whole(path, schema.sealed(results(row(medians=[0.5]))))
    data = path.read_bytes()
    for size in range(len(data.rstrip())):
        with pytest.raises(DamagedStore, match=r"results\.json"):
            schema.decode(data[:size], path, schema.Results)


WRONG = {
    "NaN": ('"visits":[[[0.5', '"visits":[[[NaN'),
    "infinite": ('"visits":[[[0.5', '"visits":[[[1e999'),
    "huge": ('"visits":[[[0.5', '"visits":[[[1e300'),
    "negative": ('"visits":[[[0.5', '"visits":[[[-0.5'),
    "no time at all": ('"visits":[[[0.5', '"visits":[[[0.0'),
    "text": ('"visits":[[[0.5', '"visits":[[["0.5"'),
    "null": ('"visits":[[[0.5', '"visits":[[[null'),
    "a truth value": ('"visits":[[[0.5', '"visits":[[[true'),
    "no rounds": ('"visits":[[[0.5,0.495,0.505]', '"visits":[[[]'),
    "a number of 5000 digits": ('"operations":1000', '"operations":' + "1" * 5000),
    "negative operations": ('"operations":1000', '"operations":-1'),
    "an unknown status": ('"status":"ok"', '"status":"great"'),
    "a status with a line": ('"status":"ok"', '"status":"ok\\n"'),
    "a missing key": ('"backend":"numpy",', ""),
    "a list for an object": ('"parameters":{"size":8,"dtype":"float32"}', '"parameters":[]'),
    "another format": ('"format":"xbackend.results"', '"format":"x"'),
    "no version": ('"version":9', '"version":null'),
    "version 0": ('"version":9', '"version":0'),
    "nested too deep": ('"placement":{}', '"placement":' + '{"a":' * 200_000 + "1" + "}" * 200_000),
    "half a character": ('"backend":"numpy"', '"backend":"\\ud800"'),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_json_can_smuggle_in_is_damage_even_with_a_right_checksum(tmp_path: Path, name: str) -> None:
    path = tmp_path / "results.json"
    text = msgspec.json.encode(results(row(medians=[0.5]))).decode()
    before, after = WRONG[name]
    assert text.count(before) == 1
    with pytest.raises(DamagedStore, match=r"results\.json"):
        schema.decode(sealed(text.replace(before, after)), path, schema.Results)
    assert schema.decode(sealed(text), path, schema.Results) == results(row(medians=[0.5]))


def sealed(text: str) -> bytes:
    """A file's content with its right checksum, if it can be read at all."""
    try:
        content = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text.encode()
    return msgspec.json.encode({**content, "checksum": schema.checksum(content)})


@pytest.mark.parametrize(
    ("version", "said"), [(1, "xbackend compare makes a new one"), (8, "xbackend compare"), (99, "upgrade xbackend")]
)
def test_another_version_is_named_with_what_to_do(tmp_path: Path, version: int, said: str) -> None:
    content = {**msgspec.to_builtins(results()), "version": version, "measurements": "of another kind"}
    with pytest.raises(StoreVersionError, match=f"has version {version}, this xbackend reads 9: {said}"):
        schema.decode(schema.sealed(content), tmp_path, schema.Results)
    with pytest.raises(DamagedStore, match="not what its checksum says"):
        schema.decode(msgspec.json.encode(results()), tmp_path, schema.Results)


def test_results_that_could_not_be_read_are_not_kept(store: Store) -> None:
    run = begin(store)
    before = list(store.runs())
    for bad in (results(row(medians=[float("nan")])), results(row(status="great")), results(row(medians=[-1.0]))):
        with pytest.raises(StoreError, match="results cannot be kept in"):
            run.finish(bad)
    assert list(store.runs()) == before


def test_results_replace_older_ones_whole_or_not_at_all(tmp_path: Path) -> None:
    """A writer killed at any of its system calls leaves the old file or the new one."""
    path = tmp_path / "results.json"
    code = (
        "import sys, os, signal\n"
        f"sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
        "from pathlib import Path\n"
        "from store_helpers import results\n"
        "from xbackend.files import write_whole\n"
        "from xbackend.results.schema import sealed\n"
        "left = int(sys.argv[1])\n"
        "def count(event, args):\n"
        "    global left\n"
        "    if event in ('open', 'os.rename', 'os.mkdir', 'shutil.move') or event.startswith('os.'):\n"
        "        left -= 1\n"
        "        if left == 0:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        f"path = Path({str(path)!r})\n"
        "sys.addaudithook(count)\n"
        "write_whole(path, sealed(results(name='new')))\n"
    )
    for calls in range(1, 20):
        write_whole(path, schema.sealed(results(name="old")))
        done = subprocess.run([sys.executable, "-c", code, str(calls)], cwd=ROOT, check=False)
        assert schema.load(path).name == ("old" if done.returncode else "new") or done.returncode == -signal.SIGKILL
        assert schema.load(path).name in ("old", "new")
        if done.returncode == 0:
            break
    assert calls > 2 and done.returncode == 0


@pytest.mark.parametrize("damage", [slice(0, -9), slice(0, 40), slice(0, 3)])
def test_packed_results_that_are_cut_are_damaged(tmp_path: Path, damage: slice) -> None:
    path = tmp_path / "results.json.gz"
    path.write_bytes(packing.packed(schema.sealed(results())))
    assert schema.load(path) == results()
    path.write_bytes(path.read_bytes()[damage])
    with pytest.raises(DamagedStore, match=r"results\.json\.gz is damaged"):
        schema.load(path)


def test_packed_results_beyond_all_measure_are_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "results.json.gz"
    path.write_bytes(packing.packed(b" " * ((1 << 27) + 1)))
    with pytest.raises(DamagedStore, match="holds more than 128 MiB"):
        schema.load(path)


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_is_stored_listed_and_loaded(store: Store, tmp_path: Path) -> None:
    first, second = finished(store, results(name="one")), finished(store, results(name="two"))
    assert store.names() == [first.name, second.name]
    assert [name for name, _ in store.runs()] == store.names()
    assert [run for _, run in store.runs()] == [store.load("one"), store.load("two")]
    assert store.load(first.name) == msgspec.structs.replace(results(name="one"), run=first.name)
    assert store.load("latest").name == "two" and store.load("latest~1").name == "one"
    write_whole(tmp_path / "results.json.gz", schema.sealed(store.load(first.name)))
    assert store.load(str(tmp_path)) == store.load(str(tmp_path / "results.json.gz")) == store.load(first.name)
    with pytest.raises(StoreError, match="there is no run latest~2"):
        store.load("latest~2")
    with pytest.raises(StoreError, match="is the beginning of 2 runs"):
        store.load(first.name[:4])
    with pytest.raises(StoreError, match=f"the newest are {first.name}, {second.name}"):
        store.load("yesterday")
    assert [path.name for path in store.folder.iterdir()] == ["runs.sqlite"]


def test_there_is_no_run_in_a_store_that_is_not_there(store: Store) -> None:
    assert damages(store) == []
    for name in ("latest", "", "nothing", "a\0b", "x" * 5000, "../..", "latest~99999999999"):
        with pytest.raises(StoreError):
            store.load(name)
    assert not store.folder.exists()


def _creates(folder: Path, count: int, found: multiprocessing.Queue[list[str]]) -> None:
    names = []
    for number in range(count):
        run = begin(Store(folder), results(name=str(os.getpid())))
        run.record(row(medians=[], processes=[process(0.01, 0)]), label=f"{os.getpid()} {number}")
        names.append(run.name)
    found.put(names)


def test_two_writers_at_the_same_moment_make_different_runs(store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[list[str]] = context.Queue()
    writers = [context.Process(target=_creates, args=(store.folder, 20, queue)) for _ in range(4)]
    for writer in writers:
        writer.start()
    names = [name for _ in writers for name in queue.get(timeout=120)]
    for writer in writers:
        writer.join()
    assert len(set(names)) == 80 and sorted(names) == store.names()
    begin(store).close()
    assert [path.name for path in store.folder.iterdir()] == ["runs.sqlite"]
    for name in names:
        found = store.load(name)
        assert found.order[0].startswith(found.name) and len(found.measurements[0].processes) == 1


def test_a_run_that_was_cut_off_has_its_recorded_processes_only(store: Store) -> None:
    run = cut_off(store)
    found = store.load("latest")
    assert not found.complete and found.run == run.name
    assert [(m.backend, m.status, len(m.processes)) for m in found.measurements] == [
        ("numpy", "ok", 2),
        ("other", "ok", 1),
    ]
    assert found.measurements[1].processes[0].rounds == [*process(0.01).rounds, 0.01, 0.02]
    assert found.order == ["numpy", "other", "numpy"]
    assert list(store.runs()) == [(run.name, found)]


def test_a_run_cut_off_before_its_first_process_measured_nothing(store: Store) -> None:
    run = begin(store)
    found = store.load(run.name)
    assert {(m.status, m.reason, len(m.processes)) for m in found.measurements} == {("missing", NOT_COME_TO, 0)}
    assert not found.complete and list(store.runs()) == [(run.name, found)]


def test_a_process_that_is_recorded_again_takes_the_place_of_what_was_known(store: Store) -> None:
    run = begin(store)
    for seconds in (0.01, 0.02):
        run.record(row(medians=[], processes=[process(seconds)], warnings=[f"{seconds}"]), label="a")
        run.visited(0, Visit([seconds]))
    (found, _) = store.load("latest").measurements
    assert [p.rounds for p in found.processes] == [[*process(0.02).rounds, 0.02]] and found.warnings == ["0.02"]
    with pytest.raises(StoreError, match="has no process 7"):
        run.visited(7, Visit([0.01]))
    for bad in (float("nan"), -1.0):
        with pytest.raises(StoreError, match="a visit cannot be kept"):
            run.visited(0, Visit([bad]))
        with pytest.raises(StoreError, match="a measurement cannot be kept"):
            run.record(row(medians=[bad]))
    assert store.load("latest").measurements[0] == found


def test_a_failure_is_kept_with_the_processes_that_had_finished(store: Store) -> None:
    run = begin(store)
    run.record(row(medians=[], processes=[process(0.01)]))
    run.record(row(medians=[], status="failed", reason="ended by SIGSEGV"))
    run.record(row("other", [], processes=[process(0.01, 1)]))
    run.record(row("other", [], status="wrong", reason="relative error 0.3"))
    numpy, other = store.load("latest").measurements
    assert (numpy.status, numpy.reason, len(numpy.processes)) == ("failed", "ended by SIGSEGV", 1)
    assert (other.status, other.processes) == ("wrong", [])


def test_what_is_finished_is_its_results_alone(store: Store) -> None:
    run = finished(store)
    with closing(sqlite3.connect(store.path)) as file:
        counts = [file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES]
    assert counts == [1, 0, 0, 0]
    assert store.load("latest") == msgspec.structs.replace(results(), run=run.name)


TABLES = ("runs", "candidates", "processes", "visits")


def test_what_is_committed_is_on_disk_when_the_call_returns(store: Store) -> None:
    """SQLite's own setting for it: the journal, the file, and the folder of the deleted journal are synced."""
    begin(store).close()
    with database.writing(store.path) as file:
        assert file.execute("PRAGMA synchronous").fetchone() == (3,)
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_run_that_is_not_in_the_file_any_more_takes_nothing(store: Store) -> None:
    run = begin(store)
    store.path.unlink()
    for action in (lambda: run.record(row()), lambda: run.finish(results()), lambda: run.visited(0, Visit([1.0]))):
        with pytest.raises(StoreError, match=r"runs\.sqlite cannot be written"):
            action()
    begin(store)
    changed(store, store.names()[0], lambda _: None)
    with pytest.raises(StoreError, match=f"the run {run.name} is not in .* any more"):
        run.finish(results())


# --- damage -----------------------------------------------------------------------------------------------------------


def flipped(data: bytes) -> bytes:
    """The data with one bit of a number changed."""
    at = data.index(b'"operations":1000') + len(b'"operations":')
    return data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :]


def test_a_damaged_newest_run_is_named_and_not_replaced_by_an_older_one(store: Store) -> None:
    finished(store, results(name="older"))
    run = finished(store)
    changed(store, run.name, flipped)
    before = snapshot(store.folder)
    for _ in range(2):
        with pytest.raises(DamagedStore, match=rf"run {run.name} in .*runs\.sqlite is damaged: it is not what"):
            store.load("latest")
    assert [*map(bool, damages(store))] == [False, True]
    assert store.load("latest~1").name == "older"
    assert snapshot(store.folder) == before


@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_row_of_a_run_that_was_cut_off_is_named(store: Store, table: str) -> None:
    finished(store)
    run = cut_off(store)
    changed(store, run.name, lambda data: data.replace(b'"place":', b'"Place":').replace(b'"name":', b'"Name":'), table)
    with pytest.raises(DamagedStore, match=rf"run {run.name} in .*runs\.sqlite is damaged"):
        store.load("latest")
    assert [*map(bool, damages(store))] == [False, True]


def test_a_damaged_file_is_named_and_set_aside_and_no_older_run_stands_in(store: Store) -> None:
    finished(store, results(name="older"))
    finished(store)
    data = store.path.read_bytes()
    page = int.from_bytes(data[16:18], "big")
    damaged = data[:page] + b"\0" * 64 + data[page + 64 :]
    store.path.write_bytes(damaged)
    ((name, why),) = store.runs()
    assert name == "runs.sqlite" and "is damaged" in str(why) and snapshot(store.folder).keys() == {FILE}
    with pytest.raises(DamagedStore, match=r"runs\.sqlite is damaged: .*set aside as runs\.sqlite\.damaged"):
        store.load("latest")
    assert snapshot(store.folder) == {"runs.sqlite.damaged": damaged}
    for name in ("latest", "older"):
        with pytest.raises(StoreError, match=r"runs\.sqlite\.damaged in .* was found damaged: put a copy of it"):
            store.load(name)
    assert [name for name, _ in store.runs()] == [name for name, _ in store.readable()[1]] == ["runs.sqlite.damaged"]
    new = finished(store, results(name="new"))
    assert store.load("latest").run == new.name and [*map(bool, damages(store))] == [True, False]
    with pytest.raises(StoreError, match=r"there is no run latest~1 .*runs\.sqlite\.damaged"):
        store.load("latest~1")
    store.path.unlink()
    (store.folder / "runs.sqlite.damaged").rename(store.path)
    store.path.write_bytes(data)
    assert store.load("latest~1").name == "older", "put back in its place it is read again"


def test_a_page_that_lost_its_newest_row_is_damage(store: Store) -> None:
    """Nothing else in the file shows that there was a newer run: SQLite itself reads the older one."""
    older = finished(store, results(row(medians=[1.0]), name="older"))
    finished(store, results(row(medians=[1.0]), name="newer"))
    data = bytearray(store.path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    for page in range(size, len(data), size):  # the table of runs, and its index: https://sqlite.org/fileformat2.html
        if data[page] in (0x0A, 0x0D) and data[page + 3 : page + 5] == b"\0\2":
            data[page + 4] = 1
    store.path.write_bytes(data)
    with closing(sqlite3.connect(store.path)) as file:
        assert file.execute("SELECT run FROM runs").fetchall() == [(older.name,)]
    with pytest.raises(DamagedStore, match="set aside"):
        store.load("latest")


def test_every_flipped_bit_of_a_row_is_damage() -> None:
    told = {"run": "20260131-120000", "place": 0, "visit": 1, "seconds": [0.5, 0.25]}
    data = schema.sealed(told, indent=-1)
    assert schema.opened(data) == told
    for bit in range(8 * len(data.rstrip())):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):
            schema.opened(bytes(damaged))


def test_what_was_set_aside_before_is_not_overwritten(store: Store) -> None:
    finished(store)
    for text in ("first", "second", "third"):
        store.path.write_text(text)
        with pytest.raises(DamagedStore, match="set aside"):
            store.load("latest") if text != "second" else begin(store)
    names = ("runs.sqlite.damaged", "runs.sqlite.damaged-2", "runs.sqlite.damaged-3")
    assert snapshot(store.folder) == dict(zip(names, (b"first", b"second", b"third"), strict=True))


def test_another_file_that_came_meanwhile_is_not_set_aside(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes find the damage: the second finds a new file."""
    finished(store)
    good = store.path.read_bytes()
    store.path.write_text("damaged")
    aside = database._set_aside

    def late(path: Path, number: int) -> str:
        path.rename(store.folder / "away")
        path.write_bytes(good)
        return aside(path, number)

    monkeypatch.setattr(database, "_set_aside", late)
    with pytest.raises(DamagedStore):
        store.load("latest")
    monkeypatch.undo()
    assert store.load("latest").complete


def test_a_newer_version_is_not_damaged(store: Store) -> None:
    run = finished(store)
    before = store.path.read_bytes()
    changed(store, run.name, lambda _: schema.sealed({**msgspec.to_builtins(results()), "version": 99}))
    with pytest.raises(StoreVersionError, match="upgrade xbackend"):
        store.load("latest")
    assert "upgrade" in damages(store)[0]
    store.path.write_bytes(before)
    with closing(sqlite3.connect(store.path)) as file:
        file.execute("PRAGMA user_version = 2")
    for action in (lambda: store.load("latest"), store.names, lambda: begin(store)):
        with pytest.raises(StoreVersionError, match=r"runs\.sqlite has version 2, .* up to 1: upgrade xbackend"):
            action()
    assert snapshot(store.folder).keys() == {"runs.sqlite"}


def test_a_database_of_somebody_else_is_named_and_set_aside(store: Store) -> None:
    store.folder.mkdir()
    for content in (b"", b"SQLite format 3\0"):
        store.path.write_bytes(content)
        with pytest.raises(DamagedStore, match="set aside"):
            store.load("latest")
    with closing(sqlite3.connect(store.path)) as file:
        file.execute("CREATE TABLE runs (name TEXT)")
    with pytest.raises(DamagedStore, match="holds no runs of xbackend compare"):
        store.load("latest")


def test_listing_and_reading_from_outside_of_the_store_change_nothing(store: Store, tmp_path: Path) -> None:
    finished(store)
    store.path.write_text("{")
    report = tmp_path / "report"
    report.mkdir()
    (report / "results.json.gz").write_text("{")
    before = snapshot(tmp_path)
    assert "runs.sqlite is damaged" in damages(store)[0]
    with pytest.raises(DamagedStore):
        Store(tmp_path / "another").load(str(report))
    assert snapshot(tmp_path) == before


def test_a_store_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="no run can be made in"):
        begin(Store(tmp_path / "file"))
    with pytest.raises(StoreError, match="no run can be made in"):
        begin(Store(tmp_path / "file" / "below"))


def test_a_writer_that_was_stopped_is_not_waited_for_for_ever(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PATIENCE", 0.1)
    run = begin(store)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as stopped:
        stopped.execute("BEGIN EXCLUSIVE")
        for action in (lambda: run.record(row()), lambda: store.load("latest"), lambda: begin(store)):
            with pytest.raises(StoreError, match=r"runs\.sqlite cannot be .*: another process writes it, for 0\.1 s"):
                action()
    run.record(row())
    assert store.load("latest").measurements[0] == row()


def test_a_run_at_the_end_of_time_is_an_error(store: Store) -> None:
    begin(store).close()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as file:
        file.execute("UPDATE runs SET run = '99991231-235959'")
    with pytest.raises(StoreError, match="99991231-235959, the last time"):
        begin(store)


# A run by what its results are called.


def test_a_run_is_found_by_what_its_results_are_called(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    runs = [finished(store, results(name=name)) for name in ("before", "after", "before", "2026")]
    assert store.load("before").run == store.load("before~0").run == runs[2].name
    assert store.load("before~1").run == runs[0].name
    assert store.load("after").run == runs[1].name
    with pytest.raises(StoreError, match=r"there is no run before~2 in .*, which has 2 of that name"):
        store.load("before~2")
    assert store.load(runs[1].name).run == runs[1].name  # a run's own name has precedence
    with pytest.raises(StoreError, match="there is no run 'befor'"):
        store.load("befor")


def test_a_name_goes_before_a_path_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before").mkdir()
    store = Store(tmp_path / "store")
    run = finished(store, results(name="before"))
    assert store.load("before").run == run.name
    with pytest.raises(StoreError, match=r"results cannot be read from before/results\.json"):
        store.load("./before")


def test_no_older_run_of_the_same_name_stands_in_for_a_damaged_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    finished(store, results(name="before"))
    damaged = finished(store, results(name="before"))
    after = finished(store, results(name="after"))
    changed(store, damaged.name, lambda data: data.replace(b"before", b"beyond"))
    with pytest.raises(StoreError, match=f"'before' may be the run {damaged.name}, which is damaged and newer than"):
        store.load("before")
    assert store.load("after").run == after.name
