"""What reports of trainings and of jobs on clusters share: whether the runs ended alike, and what became of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from xbackend.report.said import text
from xbackend.report.said.blocks import Block, Heading, paragraph, points, section
from xbackend.results.schema import Outcome, Outcomes
from xbackend.wording import counted, join, plain
from xbackend.workloads.agreement import agree

Ran = TypeVar("Ran", bound=Outcome)


@dataclass(frozen=True)
class Ended(Generic[Ran]):
    """Runs that should end alike; ``name`` is what each is called, ``noun`` what one of them is. The first that is
    ``done`` is the reference."""

    runs: Sequence[Ran]
    name: Callable[[Ran], str]
    noun: str
    dtypes: Sequence[str]

    @property
    def done(self) -> list[Ran]:
        return [run for run in self.runs if run.status == "ok"]

    @property
    def apart(self) -> list[Ran]:
        """Those that ended with other numbers than the reference, by more than roundings make."""
        return [run for run in self.runs if not agree(run.difference or 0.0, self.dtypes)]

    @property
    def farthest(self) -> Ran | None:
        """Of those that roundings alone may have taken from the reference, the one with the largest difference."""
        alike = [run for run in self.done if run.difference is not None and run not in self.apart]
        return max(alike, key=lambda run: run.difference or 0.0, default=None)

    @property
    def failures(self) -> list[str]:
        """A line for each that did not end, or was not checked to the end."""
        return [f"{self.name(run)}: {plain(run.reason)}" for run in self.runs if run.reason or run.status != "ok"]

    def rest(self, other: str) -> str:
        """The end of a sentence: which ended with ``other`` numbers, which did not end, which is the reference where
        the first is not."""
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


def opening(title: str, answer: str) -> list[Block]:
    """The title, and the answer as a sentence."""
    return [Heading(1, title), paragraph(f"{answer[0].upper()}{answer[1:]}.")]


def circumstances(told: Outcomes, name: str, words: str, versions: Sequence[tuple[str, Outcome]]) -> list[Block]:
    """Of what by name, in which words, when and on what, with the ``versions`` of each name, once."""
    machine, summary = told.machine, f": {plain(told.summary)}" if told.summary else ""
    where = f"on {plain(machine.processor)}, {counted(machine.cores, 'core')}"
    said = [f"{plain(name)}{summary}", words, f"{told.created}, {where}"]
    each = dict.fromkeys((name, *run.versions.items()) for name, run in versions if run.versions)
    said += [f"{name}: {', '.join(f'{package} {version}' for package, version in used)}" for name, *used in each]
    return section("Circumstances", points([line] for line in said))
