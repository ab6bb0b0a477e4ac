"""The store: what was measured is on disk, whole; what is damaged is named and never replaced by something older."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from store_helpers import begin, cut_off, finished, process, results, rounds, row, snapshot

from xbackend.backends.description import Description
from xbackend.backends.threads import Pool
from xbackend.errors import DamagedStore, StoreError, StoreVersionError
from xbackend.results import journal, packing, schema
from xbackend.results.recovery import NOT_COME_TO
from xbackend.results.runs import Store
from xbackend.results.schema import Pair, Results

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


# --- the journal ------------------------------------------------------------------------------------------------------


def test_a_journal_gives_back_its_records(tmp_path: Path) -> None:
    records = [{"seconds": 0.1 + 0.2, "text": "a\nb | <b> \u2028 é"}, {"n": 10**30}, {}]
    for record in records:
        journal.append(tmp_path / "1.jsonl", record)
    assert journal.read(tmp_path / "1.jsonl") == records
    assert len((tmp_path / "1.jsonl").read_bytes().splitlines()) == 3


@pytest.mark.parametrize("record", [{"seconds": float("nan")}, {"seconds": float("inf")}, {"x": {1}}, {"x": b""}])
def test_a_journal_takes_no_record_that_is_none(tmp_path: Path, record: dict[str, object]) -> None:
    with pytest.raises(StoreError, match=r"a line of the journal .* cannot be made"):
        journal.append(tmp_path / "1.jsonl", record)
    assert not (tmp_path / "1.jsonl").exists()


def test_a_journal_cut_at_any_byte_has_the_whole_lines_before(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    ends = [0]
    for number in range(3):
        journal.append(path, {"round": number, "seconds": 0.5})
        ends.append(path.stat().st_size)
    data = path.read_bytes()
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        assert [r["round"] for r in journal.read(path)] == list(range(sum(e <= size for e in ends) - 1))


def test_every_flipped_bit_of_a_journal_is_named_or_takes_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    for number in range(2):
        journal.append(path, {"round": number, "seconds": 0.5})
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        if bit // 8 == len(data) - 1:  # the end of the last line: it counts as torn
            assert [r["round"] for r in journal.read(path)] == [0]
        else:
            with pytest.raises(DamagedStore, match=r"line \d of the journal .*1\.jsonl is damaged"):
                journal.read(path)


def test_a_line_is_on_disk_before_append_returns(tmp_path: Path) -> None:
    """The calls that the system sees: one write, then fsync."""
    code = (
        "import os, sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(event) if event == 'open' else None)\n"
        "write, fsync = os.write, os.fsync\n"
        "os.write = lambda *a: seen.append('write') or write(*a)\n"
        "os.fsync = lambda *a: seen.append('fsync') or fsync(*a)\n"
        "from xbackend.results import journal\n"
        "del seen[:]\n"
        f"journal.append({str(tmp_path / '1.jsonl')!r}, {{'a': 1}})\n"
        "print(*seen, [m for m in ('msgspec', 'numpy') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "open write fsync []\n"


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot be written: No space left on device"):
        journal.append("/dev/full", {"a": 1})
    with pytest.raises(StoreError, match="No such file"):
        journal.append(tmp_path / "nowhere" / "1.jsonl", {"a": 1})


def _appends(path: Path, writer: int) -> None:
    for number in range(200):
        journal.append(path, {"writer": writer, "number": number, "text": "x" * (number % 50)})


def test_lines_of_two_writers_do_not_mix(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "1.jsonl"
    writers = [context.Process(target=_appends, args=(path, writer)) for writer in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = journal.read(path)
    for writer in (0, 1):
        assert [r["number"] for r in found if r["writer"] == writer] == list(range(200))


# --- results ----------------------------------------------------------------------------------------------------------


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    found = results(row(), row("b", reason="a | b\n<script>alert(1)</script>", status="failed", operations=10**25))
    schema.save(found, path)
    assert schema.load(path) == found
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_formatted_anew_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    schema.save(results(), path)
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert schema.load(path) == results()


def test_every_flipped_bit_of_results_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    schema.save(results(row(medians=[0.5])), path)
    whole = schema.load(path)
    data = path.read_bytes()
    same = 0
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = schema.decode(bytes(damaged), path)
        except DamagedStore as error:
            assert str(path) in str(error)
        else:
            same += 1
            assert found == whole, f"bit {bit} gave other results"
    # White space became other white space, or a number another spelling of it.
    assert same < len(data)


def test_every_truncated_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    schema.save(results(row(medians=[0.5])), path)
    data = path.read_bytes()
    for size in range(len(data.rstrip())):
        with pytest.raises(DamagedStore, match=r"results\.json"):
            schema.decode(data[:size], path)


WRONG = {
    "NaN": ('"rounds":[0.5', '"rounds":[NaN'),
    "infinite": ('"rounds":[0.5', '"rounds":[1e999'),
    "huge": ('"rounds":[0.5', '"rounds":[1e300'),
    "negative": ('"rounds":[0.5', '"rounds":[-0.5'),
    "no time at all": ('"rounds":[0.5', '"rounds":[0.0'),
    "text": ('"rounds":[0.5', '"rounds":["0.5"'),
    "null": ('"rounds":[0.5', '"rounds":[null'),
    "a truth value": ('"rounds":[0.5', '"rounds":[true'),
    "no rounds": ('"rounds":[0.5,0.495,0.505]', '"rounds":[]'),
    "a number of 5000 digits": ('"operations":1000', '"operations":' + "1" * 5000),
    "negative operations": ('"operations":1000', '"operations":-1'),
    "an unknown status": ('"status":"ok"', '"status":"great"'),
    "a status with a line": ('"status":"ok"', '"status":"ok\\n"'),
    "a missing key": ('"backend":"numpy",', ""),
    "a list for an object": ('"parameters":{"size":8,"dtype":"float32"}', '"parameters":[]'),
    "another format": ('"format":"xbackend.results"', '"format":"x"'),
    "no version": ('"version":8', '"version":null'),
    "version 0": ('"version":8', '"version":0'),
    "nested too deep": ('"placement":{}', '"placement":' + '{"a":' * 20000 + "1" + "}" * 20000),
    "half a character": ('"backend":"numpy"', '"backend":"\\ud800"'),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_json_can_smuggle_in_is_damage_even_with_a_right_checksum(tmp_path: Path, name: str) -> None:
    path = tmp_path / "results.json"
    text = msgspec.json.encode(results(row(medians=[0.5]))).decode()
    before, after = WRONG[name]
    assert text.count(before) == 1
    with pytest.raises(DamagedStore, match=r"results\.json"):
        schema.decode(sealed(text.replace(before, after)), path)
    assert schema.decode(sealed(text), path) == results(row(medians=[0.5]))


def sealed(text: str) -> bytes:
    """A file's content with the checksum that it would have, where it can be read at all."""
    try:
        content = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text.encode()
    return msgspec.json.encode({**content, "checksum": schema.checksum(content)})


OWN = {"api": "blas", "layer": None, "library": "mkl", "version": "2025", "threads": 2, "file": "libmkl_rt.so"}
OLDER: dict[str, tuple[dict[str, Any], Description]] = {
    "several libraries": ({"blas": [OWN], "threads": {"mkl": 2}}, Description(blas=[Pool(**OWN)], threads={"mkl": 2})),
    "one, and what was the framework's": (
        {"blas": {"name": "mkl", "file": "a.so"}, "linker": "cvm", "contexts": {"cpu:0": "pthread"}},
        Description(blas=[Pool("mkl", file="a.so")], settings={"linker": "cvm", "contexts": '{"cpu:0": "pthread"}'}),
    ),
    "settings beside a library's name": (
        {"blas": {"name": "XLA's own", "precision": None, "x64": True}, "devices": ["cpu:0"]},
        Description(blas=[Pool("XLA's own")], devices=["cpu:0"], settings={"precision": None, "x64": True}),
    ),
    "nothing": ({}, Description()),
}


@pytest.mark.parametrize("name", OLDER)
def test_descriptions_of_older_versions_have_todays_form(name: str, tmp_path: Path) -> None:
    old, new = OLDER[name]
    content = msgspec.to_builtins(results(row()))
    content["measurements"][0]["description"] = old
    old_file = msgspec.json.encode({**content, "version": 2})
    (found,) = schema.decode(old_file, tmp_path).measurements
    assert found.description == new
    again = msgspec.to_builtins(found)
    assert schema.upgraded(again) == again, "what has today's form stays as it is"


def test_an_older_description_with_settings_that_are_none_is_damage(tmp_path: Path) -> None:
    content = msgspec.to_builtins(results(row()))
    content["measurements"][0]["description"] = {"jit": True, "settings": 5}
    with pytest.raises(DamagedStore, match=r"is damaged: Expected `object`, got `int`"):
        schema.decode(msgspec.json.encode({**content, "version": 2}), tmp_path)


def test_older_versions_are_read_and_newer_ones_named(tmp_path: Path) -> None:
    content = msgspec.to_builtins(results())
    for key in ("run", "complete", "pairs"):
        del content[key]
    old = msgspec.json.encode({**content, "version": 2})
    assert schema.decode(old, tmp_path).measurements == results().measurements
    newer = {**content, "version": 99, "measurements": "of another kind"}
    with pytest.raises(StoreVersionError, match=r"has version 99, this xbackend reads up to 8: upgrade xbackend"):
        schema.decode(msgspec.json.encode({**newer, "checksum": schema.checksum(newer)}), tmp_path)
    with pytest.raises(DamagedStore, match="no checksum"):
        schema.decode(msgspec.json.encode(results()), tmp_path)


def test_results_that_could_not_be_read_are_not_written(tmp_path: Path) -> None:
    for bad in (results(row(medians=[float("nan")])), results(row(status="great")), results(row(medians=[-1.0]))):
        with pytest.raises(StoreError, match="results cannot be written to"):
            schema.save(bad, tmp_path / "results.json")
    assert not list(tmp_path.iterdir())


def test_results_replace_older_ones_whole_or_not_at_all(tmp_path: Path) -> None:
    """A writer that is killed at any of its system calls leaves the old file or the new one."""
    path = tmp_path / "results.json"
    code = (
        "import sys, os, signal\n"
        f"sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
        "from pathlib import Path\n"
        "from store_helpers import results\n"
        "from xbackend.results import schema\n"
        "left = int(sys.argv[1])\n"
        "def count(event, args):\n"
        "    global left\n"
        "    if event in ('open', 'os.rename', 'os.mkdir', 'shutil.move') or event.startswith('os.'):\n"
        "        left -= 1\n"
        "        if left == 0:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        f"path = Path({str(path)!r})\n"
        "sys.addaudithook(count)\n"
        "schema.save(results(name='new'), path)\n"
    )
    for calls in range(1, 20):
        schema.save(results(name="old"), path)
        done = subprocess.run([sys.executable, "-c", code, str(calls)], cwd=ROOT, check=False)
        assert schema.load(path).name == ("old" if done.returncode else "new") or done.returncode == -signal.SIGKILL
        assert schema.load(path).name in ("old", "new")
        if done.returncode == 0:
            break
    assert calls > 2 and done.returncode == 0


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_is_stored_listed_and_loaded(store: Store) -> None:
    first, second = finished(store, results(name="one")), finished(store, results(name="two"))
    assert store.names() == [first.name, second.name]
    assert [(i.title, i.complete, i.damaged, i.measurements, i.of, i.rounds) for i in store.runs()] == [
        ("one", True, "", 2, 2, 30),
        ("two", True, "", 2, 2, 30),
    ]
    assert store.load(first.name) == msgspec.structs.replace(results(name="one"), run=first.name)
    assert store.load("latest").name == "two" and store.load("latest~1").name == "one"
    assert store.load(str(first.folder)).name == store.load(str(first.folder / "results.json")).name == "one"
    with pytest.raises(StoreError, match="there is no run latest~2"):
        store.load("latest~2")
    with pytest.raises(StoreError, match="is the beginning of 2 runs"):
        store.load(first.name[:4])
    with pytest.raises(StoreError, match=f"the newest are {first.name}, {second.name}"):
        store.load("yesterday")


def test_a_run_that_somebody_renamed_is_found_by_that_name_and_is_not_the_latest(store: Store) -> None:
    first, second = finished(store, results(name="one")), finished(store, results(name="two"))
    second.folder.rename(store.folder / "pinned")
    assert store.load("pin").name == "two" and store.load("latest").name == "one"
    assert store.names() == ["pinned", first.name]


def test_there_is_no_run_in_a_store_that_is_not_there(store: Store) -> None:
    assert store.runs() == []
    for name in ("latest", "", "nothing", "a\0b", "x" * 5000, "../..", "latest~99999999999"):
        with pytest.raises(StoreError):
            store.load(name)
    assert not store.folder.exists()


def _creates(folder: Path, count: int, found: multiprocessing.Queue[list[str]]) -> None:
    found.put([begin(Store(folder), results(name=str(os.getpid()))).name for _ in range(count)])


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
    assert [p.name for p in store.folder.iterdir() if p.name.startswith(".")] == []
    assert all(schema.load(store.folder / name / "plan.json").run == name for name in names)


def test_a_run_that_was_cut_off_has_its_finished_processes_only(store: Store) -> None:
    run = cut_off(store)
    found = store.load("latest")
    assert not found.complete and found.run == run.name
    assert [(m.backend, m.status, len(m.processes)) for m in found.measurements] == [
        ("numpy", "ok", 2),
        ("other", "ok", 1),
    ]
    assert found.order == ["numpy", "other", "numpy"]
    (information,) = store.runs()
    assert (information.complete, information.rounds, information.damaged) == (False, 11, "")


def test_a_run_cut_off_before_its_first_process_ended_measured_nothing(store: Store) -> None:
    run = begin(store)
    rounds(run, 1, [0.01, 0.02])
    found = store.load(run.name)
    assert {(m.status, m.reason, len(m.processes)) for m in found.measurements} == {("missing", NOT_COME_TO, 0)}
    assert not found.complete and store.runs()[0].rounds == 2


def test_a_failure_is_kept_with_the_processes_that_had_finished(store: Store) -> None:
    run = begin(store)
    run.record(row(medians=[], processes=[process(0.01)]))
    run.record(row(medians=[], status="failed", reason="ended by SIGSEGV"))
    run.record(row("other", [], processes=[process(0.01)]))
    run.record(row("other", [], status="wrong", reason="relative error 0.3"))
    numpy, other = store.load("latest").measurements
    assert (numpy.status, numpy.reason, len(numpy.processes)) == ("failed", "ended by SIGSEGV", 1)
    assert (other.status, other.processes) == ("wrong", [])


def test_the_halves_of_a_pair_are_recovered(store: Store) -> None:
    run = begin(store)
    for half, seconds in (("first", 0.01), ("second", 0.02), ("first", 0.03)):
        run.record(row(medians=[], processes=[process(seconds)]), half=half)
    found = store.load("latest")
    assert found.pairs == [
        Pair(workload="matpow", parameters={"size": 8, "dtype": "float32"}, backend="numpy", devices=1,
             first=[0.01, 0.03], second=[0.02], processes=[process(0.02)])
    ]  # fmt: skip
    assert all(m.status == "missing" for m in found.measurements)


def test_a_run_killed_at_any_byte_of_its_journal_is_never_complete(store: Store) -> None:
    run = cut_off(store)
    session = run.folder / "journal" / "0.jsonl"
    data = session.read_bytes()
    counts = set()
    for size in [*range(0, len(data), 7), len(data)]:
        session.write_bytes(data[:size])
        found = store.load(run.name)
        counts.add(sum(len(m.processes) for m in found.measurements))
        assert not found.complete
    assert counts == {0, 1, 2, 3}


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_newest_run_is_named_set_aside_and_not_replaced_by_an_older_one(store: Store) -> None:
    finished(store, results(name="older"))
    run = finished(store)
    damaged = (run.folder / "results.json").read_bytes()[:-40]
    (run.folder / "results.json").write_bytes(damaged)
    with pytest.raises(
        DamagedStore, match=rf"run {run.name}: .*results\.json is damaged: .*set aside as results\.json"
    ):
        store.load("latest")
    assert (run.folder / "results.json.damaged").read_bytes() == damaged
    for _ in range(2):
        with pytest.raises(DamagedStore, match=rf"run {run.name}: results\.json\.damaged in .* was found damaged"):
            store.load("latest")
    assert [bool(i.damaged) for i in store.runs()] == [False, True]
    assert store.load("latest~1").name == "older"


def test_what_was_set_aside_before_is_not_overwritten(store: Store) -> None:
    run = finished(store)
    for text in ("first", "second", "third"):
        (run.folder / "results.json").write_text(text)
        with pytest.raises(DamagedStore):
            store.load("latest")
    kept = {p.name: p.read_text() for p in run.folder.glob("*.damaged*")}
    names = ("results.json.damaged", "results.json.damaged-2", "results.json.damaged-3")
    assert kept == dict(zip(names, ("first", "second", "third"), strict=True))


def test_a_file_put_back_in_its_place_is_read_again(store: Store) -> None:
    run = finished(store)
    good = (run.folder / "results.json").read_bytes()
    (run.folder / "results.json").write_text("{")
    with pytest.raises(DamagedStore):
        store.load("latest")
    (run.folder / "results.json").write_bytes(good)
    (run.folder / "results.json.damaged").unlink()
    assert store.load("latest").complete


@pytest.mark.parametrize("file", ["plan.json", "journal/0.jsonl", "journal/2.jsonl"])
def test_a_damaged_file_of_a_run_that_was_cut_off_is_set_aside(store: Store, file: str) -> None:
    finished(store)
    run = cut_off(store)
    path = run.folder / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStore, match=rf"{path.name} is damaged.*set aside as {file}\.damaged"):
        store.load("latest")
    with pytest.raises(DamagedStore, match=rf"{file}\.damaged"):
        store.load("latest")
    assert not path.exists()


def test_a_run_without_its_files_is_damaged(store: Store) -> None:
    finished(store)
    run = cut_off(store)
    (run.folder / "plan.json").unlink()
    with pytest.raises(DamagedStore, match=r"holds neither results\.json nor plan\.json"):
        store.load("latest")


def test_results_that_were_deleted_do_not_make_their_run_complete(store: Store) -> None:
    run = finished(store)
    (run.folder / "results.json").unlink()
    found = store.load("latest")
    assert not found.complete and [len(m.processes) for m in found.measurements] == [5, 5]


@pytest.mark.parametrize("damage", [slice(0, -9), slice(0, 40), slice(0, 3)])
def test_packed_results_that_are_cut_are_damaged(tmp_path: Path, damage: slice) -> None:
    path = tmp_path / "results.json.gz"
    path.write_bytes(packing.packed(schema.encode(results(), path)))
    assert schema.load(path) == results()
    path.write_bytes(path.read_bytes()[damage])
    with pytest.raises(DamagedStore, match=r"results\.json\.gz is damaged"):
        schema.load(path)


def test_packed_results_beyond_all_measure_are_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "results.json.gz"
    path.write_bytes(packing.packed(b" " * ((1 << 27) + 1)))
    with pytest.raises(DamagedStore, match="holds more than 128 MiB"):
        schema.load(path)


def test_a_newer_version_is_not_damaged(store: Store) -> None:
    run = finished(store)
    content = {**msgspec.to_builtins(results()), "version": 99}
    path = run.folder / "results.json"
    path.write_bytes(msgspec.json.encode({**content, "checksum": schema.checksum(content)}))
    with pytest.raises(StoreVersionError, match="upgrade xbackend"):
        store.load("latest")
    assert path.exists() and "upgrade" in store.runs()[0].damaged


def test_listing_and_reading_from_outside_of_the_store_change_nothing(store: Store, tmp_path: Path) -> None:
    run = finished(store)
    (run.folder / "results.json").write_text("{")
    report = tmp_path / "report"
    report.mkdir()
    (report / "results.json.gz").write_text("{")
    before = snapshot(tmp_path)
    assert "results.json is damaged" in store.runs()[0].damaged
    with pytest.raises(DamagedStore):
        store.load(str(report))
    assert snapshot(tmp_path) == before


def test_a_store_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="no run can be made in"):
        begin(Store(tmp_path / "file"))
    with pytest.raises(StoreError, match="no run can be made in"):
        begin(Store(tmp_path / "file" / "below"))


def test_a_store_knows_its_own_runs_by_their_path(store: Store) -> None:
    run = finished(store)
    (run.folder / "results.json").write_text("{")
    with pytest.raises(DamagedStore, match="set aside"):
        store.load(str(run.folder))


def test_plain_results_are_what_a_plan_is_made_from(store: Store) -> None:
    planned: Results = results(row(), row("b", status="failed", reason="x"))
    run = begin(store, planned)
    plan = schema.load(run.folder / "plan.json")
    assert not plan.complete and {(m.status, len(m.processes)) for m in plan.measurements} == {("missing", 0)}


# A run by what its results are called.


def test_a_run_is_found_by_what_its_results_are_called(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    runs = [finished(store, results(name=name)) for name in ("before", "after", "before", "2026")]
    assert store.load("before").run == store.load("before~0").run == runs[2].name
    assert store.load("before~1").run == runs[0].name
    assert store.load("after").run == runs[1].name
    with pytest.raises(StoreError, match=r"there is no run before~2 in .*, which has 2 of that name"):
        store.load("before~2")
    assert store.load(runs[1].name).run == runs[1].name  # a run's own name counts first
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
    path = damaged.folder / "results.json"
    path.write_bytes(path.read_bytes().replace(b"before", b"beyond"))
    with pytest.raises(StoreError, match=f"'before' may be the run {damaged.name}, which is damaged and newer than"):
        store.load("before")
    assert store.load("after").run == after.name
