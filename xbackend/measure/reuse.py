"""Rows that an earlier session measured already: the same program, arrays, versions, machine and options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from msgspec.structs import replace

from xbackend import environments
from xbackend.backends import registry
from xbackend.errors import EnvironmentFailed
from xbackend.measure import gpus, machine, matrix, variables
from xbackend.measure.candidates import Candidate
from xbackend.measure.loop import hash_of
from xbackend.measure.runner import Session
from xbackend.results.runs import Store
from xbackend.results.schema import Measurement, Results, key
from xbackend.version import VERSION

APART = 1_000_000  # added to the numbers of generations, once for each session: sessions did not take turns


def reused(session: Session, store: Store) -> dict[Candidate, Measurement]:
    """The newest row of the store for each candidate that has one, with the run that measured it.

    Programs with shared variables have none: the values are no part of a program's fingerprint. Nor have the user's own
    environments: their files may change. Raises `StoreError`.
    """
    runs, _ = store.readable()
    here = machine.machine().fingerprint
    there = [run for run in reversed(runs) if _is_same(run, session, here)]
    found = {c: row for c in session.candidates if c.status == "ok" for row in [_row(c, there, session)] if row}
    sessions = {run: number for number, run in enumerate(dict.fromkeys(row.reused for row in found.values()), 1)}
    return {candidate: _apart(row, APART * sessions[row.reused]) for candidate, row in found.items()}


def _is_same(run: Results, session: Session, here: str) -> bool:
    """Whether a run was measured on the machine with the fingerprint ``here``, with the same options."""
    asked = run.settings
    return (run.complete, run.xbackend, run.machine.fingerprint) == (True, VERSION, here) and (
        asked.threads, asked.cores_per_device, asked.effort, asked.allow_nan, asked.adaptive, asked.variables,
        asked.visible, asked.kinds,
    ) == (
        session.threads, session.cores_per_device, asdict(session.effort), session.allow_nan,
        not session.extent.fixed, variables.chosen(), os.environ.get(gpus.VISIBLE), list(session.kinds),
    )  # fmt: skip


def _row(candidate: Candidate, runs: Sequence[Results], session: Session) -> Measurement | None:
    if candidate.case.program.shared:
        return None
    plain = candidate.measurement()
    here, inputs = _versions(candidate), hash_of(candidate.case.inputs)
    for run, row in _rows(plain, runs):
        same = row.parity is not None and row.parity.inputs == inputs and here.items() <= row.versions.items()
        enough = not session.extent.fixed or len(row.processes) >= session.extent.processes
        if same and enough and here and _python(candidate, row):
            said = (
                f"reused from run {run.run} of {run.created}: it did not take turns with rows of this session, and "
                "sessions differ by more than processes do; measure all in one for small differences"
            )
            return replace(row, reused=run.run, warnings=[*row.warnings, said])
    return None


def _rows(plain: Measurement, runs: Sequence[Results]) -> Iterator[tuple[Results, Measurement]]:
    """The rows with a time of the same program, the newest first."""
    for run in runs:
        for row in run.measurements:
            if row.status == "ok" and row.processes and key(row) == key(plain) and row.program == plain.program:
                yield run, row


def _versions(candidate: Candidate) -> dict[str, str]:
    """The packages of its environment; none where that is the user's own, or not ready."""
    try:
        room = environments.get(candidate.environment or registry.get(candidate.backend).environment)
    except EnvironmentFailed:
        return {}
    own = bool(room.modules) or room.installed is not None or room.state != "ready"
    return {} if own else matrix.versions(candidate.backend, candidate.environment)


def _python(candidate: Candidate, row: Measurement) -> bool:
    """Whether the environment has the Python of the row. The environment's folder is named after its Python."""
    room = environments.get(candidate.environment or registry.get(candidate.backend).environment)
    return f"-{'.'.join(row.versions.get('python', '').split('.')[:2])}-" in room.path.name


def _apart(row: Measurement, first: int) -> Measurement:
    numbered = [p if p.generation is None else replace(p, generation=first + p.generation) for p in row.processes]
    return replace(row, processes=numbered)
