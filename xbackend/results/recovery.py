"""What a run that was cut off had measured: its plan, with the processes that its journal says were finished."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from xbackend.errors import DamagedStore
from xbackend.results import journal
from xbackend.results.schema import (
    UNPROVEN,
    Count,
    Measurement,
    Pair,
    Process,
    Results,
    counting,
    key_of,
    upgraded,
)

NOT_COME_TO = "not measured: the run did not come to it"

Key = tuple[str, str, str, int, str]
Half = Annotated[str, msgspec.Meta(pattern=r"^(|first|second)\Z")]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a session's own journal: what one process found out about one candidate.

    ``measurement`` has just the process that is new, or none; ``label`` is the candidate's in the order of the
    processes. With ``half`` it is one of an A/A pair, counted by ``pair``, and its median belongs to that half.
    """

    measurement: Measurement
    label: str = ""
    half: Half = ""
    pair: Count = 0


def key(row: Measurement | Pair) -> Key:
    """What a measurement is the same by in two runs: workload, parameters, backend, devices, environment."""
    return row.workload, key_of(row.parameters), row.backend, row.devices, row.environment


def planned(plan: Results) -> Results:
    """A plan as results of nothing yet: not complete, each row missing with the reason."""
    rows = [
        msgspec.structs.replace(row, status="missing", reason=NOT_COME_TO, processes=[], parity=None)
        for row in plan.measurements
    ]
    return msgspec.structs.replace(plan, measurements=rows, complete=False, order=[], pairs=[])


def records(path: Path) -> list[Record]:
    """The records of a session's journal. Raises `DamagedStore`, and `StoreError` where it cannot be read."""
    kept = []
    for number, line in enumerate(journal.read(path), 1):
        try:
            if "measurement" in line:
                line = {**line, "measurement": upgraded(line["measurement"])}
            kept.append(msgspec.convert(line, Record))
        except msgspec.ValidationError as error:
            raise DamagedStore(f"line {number} of the journal {path} is damaged: {error}") from error
    return kept


def recovered(plan: Results, records: Sequence[Record]) -> Results:
    """The plan with what the records say, not complete."""
    rows = {key(row): row for row in plan.measurements}
    seen: set[Key] = set()
    for record in records:
        new, at = record.measurement, key(record.measurement)
        if not record.half:
            rows[at] = _merged(rows[at], new) if at in seen else new
            seen.add(at)
    return msgspec.structs.replace(
        plan, measurements=list(rows.values()), pairs=_pairs(records), order=_order(records), complete=False
    )


def _merged(old: Measurement, new: Measurement) -> Measurement:
    """Both records of one candidate: all processes, the newer words, and the reason if either is not ok."""
    processes = [] if new.status in UNPROVEN else [*old.processes, *new.processes]
    status, reason = (old.status, old.reason) if old.status != "ok" else (new.status, new.reason)
    return msgspec.structs.replace(new, processes=processes, status=status, reason=reason)


def _pairs(records: Iterable[Record]) -> list[Pair]:
    pairs: dict[tuple[Key, int], Pair] = {}
    halves: dict[tuple[Key, int, Half], list[Process]] = {}
    for record in records:
        if record.half and record.measurement.processes:
            row = record.measurement
            pair = pairs.setdefault(
                (key(row), record.pair),
                Pair(
                    workload=row.workload, parameters=row.parameters, backend=row.backend, devices=row.devices,
                    environment=row.environment, first=[], second=[], processes=[],
                ),
            )  # fmt: skip
            halves.setdefault((key(row), record.pair, record.half), []).extend(row.processes)
            if record.half == "second" or record.pair:
                pair.processes.extend(msgspec.structs.replace(p, profile=None) for p in row.processes)
    for (at, number, half), processes in halves.items():
        getattr(pairs[at, number], half).extend(p.median for p in counting(processes))
    return list(pairs.values())


def _order(records: Iterable[Record]) -> list[str]:
    """The labels of the finished processes at their places; empty where another one was cut off."""
    labels: dict[int, str] = {}
    for record in records:
        for process in record.measurement.processes:
            labels[process.order] = record.label
    last = max(labels, default=-1)
    # A place that no session has is one of a damaged file, and no reason to make a long list.
    return [labels.get(place, "") for place in range(last + 1)] if last < 1_000_000 else []


def rounds(folder: Path) -> int:
    """How many rounds the journals of the processes hold. Raises as `records` does, and `OSError`."""
    return sum("seconds" in line for path in processes(folder) for line in journal.read(path))


def processes(folder: Path) -> list[Path]:
    """The journals of a run's processes, by number, without the session's own. Raises `OSError`."""
    try:
        names = [Path(name) for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    own = [n for n in names if n.suffix == ".jsonl" and n.stem.isdecimal() and int(n.stem) > 0]
    return [folder / name for name in sorted(own, key=lambda name: int(name.stem))]
