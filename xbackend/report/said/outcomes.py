"""The skeleton of reports of trainings and of jobs: the answer, a row for each run, what failed, the circumstances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Heading, paragraph, points, records, section, terms
from xbackend.results.schema import Outcome, Outcomes
from xbackend.wording import counted, join, pairs, plain
from xbackend.workloads.agreement import of_roundings

OutcomeType = TypeVar("OutcomeType", bound=Outcome)


class Ended(Struct, Generic[OutcomeType], frozen=True):
    """Runs that should end alike, their names, and a ``noun`` for one. The first that is ``done`` is the reference."""

    runs: Sequence[OutcomeType]
    name: Callable[[OutcomeType], str]
    noun: str
    dtypes: Sequence[str]

    @property
    def done(self) -> list[OutcomeType]:
        return [run for run in self.runs if run.status == "ok"]

    @property
    def apart(self) -> list[OutcomeType]:
        """The runs whose numbers differ from the reference's by more than roundings make."""
        return [run for run in self.done if (run.difference or 0.0) > of_roundings(self.dtypes)]

    @property
    def farthest(self) -> OutcomeType | None:
        """The run with the largest difference from the reference that roundings alone may make."""
        alike = [run for run in self.done if run.difference is not None and run not in self.apart]
        return max(alike, key=lambda run: run.difference or 0.0, default=None)

    @property
    def failures(self) -> list[str]:
        """A line for each run that did not end, or was not checked to the end."""
        return [f"{self.name(run)}: {plain(run.reason)}" for run in self.runs if run.reason or run.status != "ok"]

    def rest(self, other: str) -> str:
        """The end of a sentence: who has ``other`` numbers, who failed, and who is the reference if not the first."""
        far = [f"{self.name(run)} ({text.power(run.difference)})" for run in self.apart]
        said = f"{other}, by more than roundings make: {join(far)}" if far else ""
        failed = sum(run.status == "failed" for run in self.runs)
        said += f"; {counted(failed, self.noun)} failed" if failed else ""
        nan = [self.name(run) for run in self.runs if run.status == "not verified"]
        said += f"; with NaN, not verified: {join(nan)}" if nan else ""
        if self.done and self.done[0] is not self.runs[0]:
            ended = "failed" if self.runs[0].status == "failed" else "is not verified"
            said += f"; the reference is {self.name(self.done[0])}, as {self.name(self.runs[0])} {ended}"
        return said


class Said(Struct, Generic[OutcomeType], frozen=True):
    """The words of a report and of a terminal; columns in ``right`` are numbers, ``reading`` explains the words."""

    ended: Ended[OutcomeType]
    answer: str
    rows: Sequence[Mapping[str, str]]
    right: Sequence[str]
    reading: Mapping[str, str]
    notes: Sequence[str] = ()


def difference(run: Outcome) -> str:
    """The difference of its numbers from the reference's, or its status."""
    if run.status != "ok":
        return run.status
    return "reference" if run.difference is None else text.power(run.difference)


def document(
    said: Said[OutcomeType],
    told: Outcomes,
    of: tuple[str, str, str],
    before: Sequence[AnyBlock],
    after: Sequence[AnyBlock],
) -> list[AnyBlock]:
    """The report as blocks: ``of`` a title, a name and how it was run; blocks ``before`` and ``after`` the rows."""
    title, name, how = of
    how += f"; from pyproject.toml: {pairs(told.configured)}" if told.configured else ""
    machine, summary = told.machine, f": {plain(told.summary)}" if told.summary else ""
    where = f"{told.created}, on {plain(machine.processor)}, {counted(machine.cores, 'core')}"
    each = dict.fromkeys((plain(run.backend), *run.versions.items()) for run in told.runs if run.versions)
    used = [f"{backend}: {', '.join(f'{p} {version}' for p, version in versions)}" for backend, *versions in each]
    return [
        Heading(1, title),
        paragraph(f"{said.answer[0].upper()}{said.answer[1:]}."),
        *before,
        *records(said.rows, said.right),
        *map(paragraph, said.notes),
        terms(said.reading),
        *section("What failed", points([line] for line in said.ended.failures)),
        *after,
        *section("Circumstances", points([line] for line in (f"{plain(name)}{summary}", how, where, *used))),
    ]
