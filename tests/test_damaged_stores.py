"""More than ten thousand damaged stores: each is an error that names the file, or reads as before, never as anything
else. A gate never passes on damage. Hostile content is shown as text.

``XBACKEND_DAMAGED_STORES=100000 pytest tests/test_damaged_stores.py`` makes more of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
import tiers
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from page_helpers import check_page
from report_helpers import NASTY, check_document
from store_helpers import beside, changed, cut_off, damages, finished, results, row, snapshot

from xbackend.analysis.gate import GateOutcome, Limit, judge
from xbackend.backends.description import Description
from xbackend.backends.threads import Pool
from xbackend.cli import main
from xbackend.cli.gate import gate
from xbackend.errors import DamagedStore, StoreError, StoreVersionError
from xbackend.report.drawn import ratios, timelines, times
from xbackend.report.said.comparison import build
from xbackend.report.written import html, markdown
from xbackend.results import schema
from xbackend.results.runs import FILE, Store
from xbackend.results.schema import Measurement, Profile, Results

pytestmark = pytest.mark.tier("standard")

DAMAGED = int(os.environ.get("XBACKEND_DAMAGED_STORES", tiers.share(10000)))
LIMIT = "slower:900000%"  # beyond any good run
# Every example is a store. It is neither kept nor shrunk before it has failed.
MANY = {"database": None, "print_blob": True, "phases": (Phase.generate, Phase.shrink)}

Damage = Callable[[bytes], bytes | None]  # a file's content to its damaged content; `None` deletes it


def _truncated(at: float) -> Damage:
    return lambda data: data[: int(at * len(data))]


def _flipped(bits: list[float]) -> Damage:
    def damage(data: bytes) -> bytes:
        changed = bytearray(data)
        for place in bits:
            bit = min(int(place * 8 * len(data)), 8 * len(data) - 1)
            changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    return damage


def _replaced(at: float, length: int, new: bytes) -> Damage:
    return lambda data: data[: int(at * len(data))] + new + data[int(at * len(data)) + length :]


def _moved(source: float, target: float, length: int) -> Damage:
    """A block of the file written over another one, as by a file system that confuses its blocks."""

    def damage(data: bytes) -> bytes:
        block = data[int(source * len(data)) :][:length]
        return data[: int(target * len(data))] + block + data[int(target * len(data)) + len(block) :]

    return damage


# Whole numbers are drawn evenly; floats would mostly be 0 or 0.5.
PLACE = st.integers(0, 2**20 - 1).map(lambda place: place / 2**20)
TOKENS = (
    *(
        b"NaN",
        b"Infinity",
        b"-1",
        b"1e999",
        b"1e300",
        b"0",
        b"9" * 5000,
        b"null",
        b"true",
        b'""',
        b"[]",
        b"{}",
        b"-0.0",
    ),
    *(b"|", b"\n", b"\r\n", b"\x00" * 16, b"\xff\xfe", b"\xef\xbb\xbf", b"<script>alert(1)</script>", b'","x":"', b"}"),
    *(b"[" * 50000, b"\\ud800", b"\xed\xa0\x80"),
)
SMUGGLED = st.sampled_from(TOKENS)
BYTES = st.one_of(
    st.builds(_truncated, PLACE),
    st.builds(_flipped, st.lists(PLACE, min_size=1, max_size=1)),
    st.builds(_flipped, st.lists(PLACE, min_size=2, max_size=40)),
    st.builds(_replaced, PLACE, st.integers(0, 40), SMUGGLED | st.binary(max_size=20)),
    st.builds(_moved, PLACE, PLACE, st.integers(1, 4096)),
    st.sampled_from([lambda data: b"", lambda data: None, lambda data: data + data, lambda data: b"\0" * len(data)]),
)


class Plant:
    """Stores with an older and a newer run, the newer finished or cut off, and their undamaged files."""

    def __init__(self, folder: Path) -> None:
        self.stores: dict[str, Store] = {}
        self.files: dict[str, bytes] = {}
        self.whole: dict[str, list[Results]] = {}
        for kind, make in (("finished", finished), ("cut off", cut_off)):
            self.stores[kind] = store = Store(folder / kind)
            finished(store, results(row(medians=[0.5] * 5), row("other", [0.5] * 5), name="older"))
            make(store)
            self.files[kind] = store.path.read_bytes()
            self.whole[kind] = [store.load(name) for name in store.names()]
        self.seen: Counter[str] = Counter()

    @contextlib.contextmanager
    def damaged(self, kind: str, data: bytes | None) -> Iterator[Store]:
        """The store with another file."""
        store = self.stores[kind]
        try:
            store.path.unlink() if data is None else store.path.write_bytes(data)
            yield store
        finally:
            for path in store.folder.iterdir():
                path.unlink()
            store.path.write_bytes(self.files[kind])

    @contextlib.contextmanager
    def saying(self, kind: str, table: str, change: Callable[[bytes], bytes]) -> Iterator[Store]:
        """The store with other content in some rows of its newest run."""
        with self.damaged(kind, self.files[kind]) as store:
            changed(store, self.whole[kind][-1].run, change, table)
            yield store


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Plant:
    return Plant(tmp_path_factory.mktemp("damaged"))


def part_of(found: Results, whole: Results) -> bool:
    """Whether all that was found is unchanged from the whole; the rest is missing."""

    def rest(measurement: Measurement) -> Measurement:
        return msgspec.structs.replace(measurement, processes=[])

    there = [m for m in found.measurements if m.status != "missing" or m.processes]
    known = {m.backend: m for m in whole.measurements}
    same = all(rest(m) == rest(known[m.backend]) for m in there)
    return same and all(process in known[m.backend].processes for m in there for process in m.processes)


def check_damage(plant: Plant, kind: str, data: bytes | None, by_command: bool = True) -> None:
    """Check the rules that hold for any damage to a store's file."""
    older, whole = plant.whole[kind]
    with plant.damaged(kind, data) as store:
        before = snapshot(store.folder)
        listed, passed = damages(store) if by_command else [], False
        try:
            found = store.load("latest")
        except StoreError as error:
            plant.seen["named"] += 1
            assert str(store.path) in str(error) or data is None
            assert all(listed[-1:])
            _check_error(store, error, before)
        else:
            plant.seen["harmless" if found == whole else "less of it"] += 1
            assert snapshot(store.folder) == before and (not listed or not listed[-1])
            assert found.run == whole.run, "no older run stands in for it"
            assert found == whole if found.complete else part_of(found, whole)
            with contextlib.suppress(DamagedStore):
                assert store.load("latest~1") == older
                passed = found.complete
                judged = judge(older, found, [Limit.parse(LIMIT)])
                assert judged.outcome is (GateOutcome.PASSED if found.complete else GateOutcome.INCOMPLETE)
        if by_command:
            code = command(store, "gate", "latest~1", "latest", "--fail", LIMIT)
            assert (code == GateOutcome.PASSED) == passed and code in set(GateOutcome)
            assert command(store, "runs") == 0


def _check_error(store: Store, error: StoreError, before: Mapping[str, bytes]) -> None:
    """The error is the same at the next reading, and not a byte is lost."""
    assert isinstance(error, DamagedStore | StoreVersionError) or not before
    after = snapshot(store.folder)
    assert sorted(after.values()) == sorted(before.values())
    assert after == before or ("set aside as runs.sqlite.damaged" in str(error) and set(after) == {f"{FILE}.damaged"})
    with pytest.raises(StoreError):
        store.load("latest")


def command(store: Store, *arguments: str) -> int:
    """The exit code of a command line, which must not be a bug's."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return main([*arguments, "--store", str(store.folder)])


def test_damaged_bytes_are_named_or_harmless(plant: Plant) -> None:
    examples = DAMAGED * 9 // 10

    @settings(max_examples=examples, **MANY)
    @given(st.sampled_from([*plant.files]), BYTES, st.integers(0, 29))
    def run(kind: str, damage: Damage, dice: int) -> None:
        check_damage(plant, kind, damage(plant.files[kind]), dice == 7)
        plant.seen["stores"] += 1

    plant.seen.clear()
    run()
    assert plant.seen["stores"] >= examples
    assert plant.seen["named"] > examples // 3 and plant.seen["harmless"], plant.seen


@pytest.mark.parametrize("table", ["runs", "candidates", "processes", "visits"])
def test_damaged_rows_are_named_or_harmless(plant: Plant, table: str) -> None:
    """The pages of the file fit each other here."""
    kind = "finished" if table == "runs" else "cut off"
    whole = plant.whole[kind][-1]

    @settings(max_examples=DAMAGED // 20, **MANY)
    @given(BYTES)
    def run(damage: Damage) -> None:
        with plant.saying(kind, table, lambda data: damage(data) or b"") as store:
            with contextlib.suppress(DamagedStore):
                assert store.load("latest") == whole
                return
            assert damages(store)[-1] and command(store, "gate", "latest~1", "latest") == 12

    run()


def test_a_row_in_the_place_of_another_one_is_damage(plant: Plant) -> None:
    """The row is whole, but belongs to another run or another process."""
    for kind, (older, _) in plant.whole.items():
        told = pytest.raises(DamagedStore, match=f"it is the run '{older.run}'")
        with plant.saying(kind, "runs", lambda _, older=older: schema.sealed(older)) as store, told:
            store.load("latest")
    for table in ("candidates", "processes", "visits"):
        first: list[bytes] = []
        told = pytest.raises(DamagedStore, match=rf"the row .* of its {table}: it is another one")
        with plant.saying("cut off", table, lambda data, first=first: first.append(data) or first[0]) as store, told:
            store.load("latest")


# --- what a file can say whose checksum is right ----------------------------------------------------------------------

NUMBERS = st.sampled_from([0, -1, 1, 2, 10**15, 10**19, 10**400, -0.0, 0.5, -0.5, 1e-320, 1e308, 1e300, True, None])
HOSTILE = st.one_of(
    NUMBERS, st.floats(), NASTY, NASTY, st.sampled_from([[], {}, [[]], [None], {"a": {}}, "0.5", "NaN"])
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all items in plain data."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def at(content: Any, path: tuple[Any, ...]) -> Any:
    """The item at a path of plain data."""
    return at(content[path[0]], path[1:]) if path else content


def put(content: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Plain data with another item at a path."""
    if not path:
        return new
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[path[0]] = put(content[path[0]], path[1:], new)
    return copy


def rich() -> Results:
    """Results with content in every field that a report shows."""
    spans = [("cpu:0", 0.0, 0.1, "compute", "dot"), ("cpu:1", 0.1, 0.2, "transfer", "copy")]
    profile = Profile(
        wall=0.2, busy={"cpu:0": 0.1}, transfers=0.1, exposed=0.1, together=0.0, count=2, spans=spans,
        call=0.2, launch=0.0, compute=0.1, wait=0.0,
    )  # fmt: skip
    first = row()
    process = msgspec.structs.replace(beside(first.processes[0], 0.1), profile=profile, affinity=[0, 1], load=0.5)
    op = {"node": 0, "op": "matmul", "asked": "cpu:0", "bound": "cpu:0", "executed": "cpu:0", "framework_op": "dot"}
    move = {"node": 1, "source": "cpu:0", "target": "cpu:1", "bytes": 64, "cause": "asked", "framework_op": "copy"}
    proof = {"evidence": "run", "status": "as asked"}
    first = msgspec.structs.replace(
        first,
        processes=[process, *first.processes[1:]],
        placement={"ops": [{**op, **proof}], "transfers": [{**move, "evidence": "run"}]},
        description=Description(versions={"numpy": "2"}, threads={"blas": 2}, blas=[Pool("openblas", "1")]),
        warnings=["rounds spread by 20 %"],
        versions={"numpy": "2"},
    )
    missing = row("third", [], status="missing", reason="no compiler", parity=None)
    return results(first, row("other", devices=2), missing)


RICH = msgspec.to_builtins(rich())
PLACES = [path for path in places(RICH) if path[0] not in ("version", "format", "run")]
OF_TEXT = [path for path in PLACES if isinstance(at(RICH, path), str)]
CHANGE = st.tuples(st.sampled_from(PLACES), HOSTILE) | st.tuples(st.sampled_from(OF_TEXT), NASTY)


def sealed(content: Any) -> bytes:
    """Plain data as a file with a right checksum, if it can have one."""
    text = json.dumps(content, allow_nan=True)
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return text.encode()
    return msgspec.json.encode({**decoded, "checksum": schema.checksum(decoded)})


WHERE = ("measurements", 0)
PROFILE = (*WHERE, "processes", 0, "profile")
LOST = {"title": "t", "boxes": [], "edges": [{"source": 0, "target": 1}], "links": []}


@pytest.mark.parametrize(
    ("path", "new", "said"),
    [
        ((*WHERE, "placement"), {"ops": 5}, "Expected `array`, got `int`"),
        ((*WHERE, "placement"), {"graph": LOST}, "a box, an edge or a mark that cannot be"),
        ((*WHERE, "placement", "transfers", 0, "bytes"), 10**30, "a number of bytes or ops that cannot be"),
        ((*WHERE, "bindings"), {"dev0": "nonsense:x"}, "'nonsense:x' names no device"),
        ((*PROFILE, "together"), 0.3, "a part that is longer than the whole"),
        ((*PROFILE, "spans", 0, 1), 0.2, "a span that ends before it begins"),
        ((*WHERE, "processes", 0, "visits", 0, 0, 0), 1e-13, "1e-12"),
    ],
)
def test_what_a_report_relies_on_is_checked_when_results_are_read(path: tuple[Any, ...], new: Any, said: str) -> None:
    assert schema.decode(sealed(RICH), Path("results.json"), schema.Results).measurements
    with pytest.raises(DamagedStore, match=r"results\.json is damaged: .*" + re.escape(said)):
        schema.decode(sealed(put(RICH, path, new)), Path("results.json"), schema.Results)


def check_shown(found: Results) -> None:
    """No content of the report leaves its place, in markdown or on the page, without plots."""
    picture = b'<svg xmlns="http://www.w3.org/2000/svg"><title>x</title></svg>'
    with (
        mock.patch.object(times, "medians", return_value=picture),
        mock.patch.object(times, "sizes", return_value=picture),
        mock.patch.object(ratios, "picture", return_value=picture),
        mock.patch.object(timelines, "picture", return_value=picture),
    ):
        blocks, pictures = build(found, None)
    check_document(markdown.write(blocks))
    check_page(html.write(blocks, pictures))


def test_hostile_content_is_an_error_or_text(plant: Plant) -> None:
    examples = DAMAGED // 10
    seen: Counter[str] = Counter()
    base, (newest,) = plant.whole["finished"][0], [run.run for run in plant.whole["finished"][1:]]

    @settings(max_examples=examples, **MANY)
    @given(st.lists(CHANGE, min_size=1, max_size=3))
    def run(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
        content = {**RICH, "run": newest}
        for path, new in changes:
            with contextlib.suppress(LookupError, TypeError):  # an earlier change removed this place
                content = put(content, path, new)
        seen["stores"] += 1
        with plant.saying("finished", "runs", lambda _: sealed(content)) as store:
            try:
                found = store.load("latest")
            except DamagedStore as error:
                seen["named"] += 1
                assert f"run {newest} in {store.path} is damaged" in str(error)
                return
            seen["read"] += 1
            with contextlib.suppress(StoreError):  # a measurement occurs twice
                judge(base, found, [Limit.parse(LIMIT)])
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    gate("latest~1", "latest", store=store.folder)
                assert not {"\x1b", "\x07", "\u202e", "\x00"} & set(printed.getvalue())
            check_shown(found)

    run()
    assert seen["stores"] >= examples and min(seen["named"], seen["read"]) > examples // 10, seen


RECORDS = ("candidates", "processes", "visits")


def first_of(plant: Plant, table: str) -> Any:
    """The content of a table's first row."""
    told: list[bytes] = []
    with plant.saying("cut off", table, lambda data: told.append(data) or data):
        return schema.opened(told[0])


def instead(told: Any) -> Callable[[bytes], bytes]:
    """Replace the first row, with a right checksum."""
    left = [sealed(told)]
    return lambda data: left.pop() if left else data


def test_hostile_records_are_an_error_or_part_of_the_run(plant: Plant) -> None:
    records = {table: first_of(plant, table) for table in RECORDS}
    everywhere = [(table, path) for table, record in records.items() for path in places(record)]
    seen: Counter[str] = Counter()

    @settings(max_examples=DAMAGED // 20, **MANY)
    @given(st.sampled_from(everywhere), HOSTILE)
    def run(place: tuple[str, tuple[Any, ...]], new: Any) -> None:
        table, path = place
        with plant.saying("cut off", table, instead(put(records[table], path, new))) as store:
            try:
                found = store.load("latest")
            except DamagedStore as error:
                seen["named"] += 1
                assert "runs.sqlite is damaged" in str(error)
                return
            seen["read"] += 1
            assert not found.complete
            assert command(store, "gate", "latest~1", "latest") not in (0, 1, 2)
            check_shown(found)

    run()
    assert seen["named"] and seen["read"], seen


@pytest.mark.parametrize(
    "number",
    [*(pytest.param(n, marks=pytest.mark.tier("exhaustive")) for n in (10**18, 1e308)), 10**400],
    ids=["10**18", "1e308", "10**400"],
)
def test_a_number_beyond_all_measure_in_any_place_is_an_error_or_shown(plant: Plant, number: float) -> None:
    shown = 0
    for table in RECORDS:
        record = first_of(plant, table)
        for path in places(record):
            change = instead(put(record, path, number))
            with plant.saying("cut off", table, change) as store, contextlib.suppress(DamagedStore):
                check_shown(store.load("latest"))
                shown += 1
    assert shown
    newest = plant.whole["finished"][-1].run
    for path in PLACES:
        data = sealed(put({**RICH, "run": newest}, path, number))
        with plant.saying("finished", "runs", lambda _, data=data: data) as store, contextlib.suppress(DamagedStore):
            check_shown(store.load("latest"))
