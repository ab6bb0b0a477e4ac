"""The results as the tables of docs/bring_models.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pymc_models.running import results
from xbackend.workloads.agreement import Agreement

FAILED = "failed"
VERDICTS = (*Agreement, FAILED)
NEAR = 1.1  # times the smallest figure: one process of each tells no more apart


def tables(folder: Path, core: Path | None) -> None:
    """Print how many agree on each backend and those that do not, or the times of the models that a document names."""
    found = list(results(folder))
    backends = list(dict.fromkeys(one["backend"] for one in found))
    if core is None:
        print("| backend | compared |", " | ".join(VERDICTS), "|\n|---|" + "---:|" * (1 + len(VERDICTS)))
        for backend in backends:
            of = [one for one in found if one["backend"] == backend]
            count = Counter(map(_verdict, of))
            print("|", backend, "|", len(of), "|", " | ".join(str(count[verdict]) for verdict in VERDICTS), "|")
        print()
        for one in found:
            if _verdict(one) != Agreement.AGREES:
                said = one.get("error") or f"{_verdict(one)}, off by {one['off']}: {one['why']}"
                print(f"- `{one['model']}` on {one['backend']}: {said}")
        return
    by = {(one["model"], one["backend"]): one for one in found}
    names = re.findall(r"`models\w*/(\w+)\.py`", core.read_text())
    for title, figure in (("microseconds of a call", _microseconds), ("seconds to compile", _compiled)):
        print(f"\n{title}\n\n| model (free numbers) |", " | ".join(backends), "|\n|---|" + "---:|" * len(backends))
        for name in names:
            free = next((one["free"] for one in found if one["model"] == name and "free" in one), "?")
            print(f"| {name} ({free}) |", " | ".join(_line([by.get((name, one)) for one in backends], figure)), "|")


def _line(measured: Sequence[dict[str, Any] | None], figure: Callable[[dict[str, Any]], float]) -> list[str]:
    """The figures of a model, and words where there is none. Those near the smallest are bold."""
    figures = [None if one is None or "error" in one else figure(one) for one in measured]
    smallest = min((each for each in figures if each is not None), default=0.0)
    cells = []
    for one, each in zip(measured, figures, strict=True):
        if each is None:
            cells.append("-" if one is None else one["error"].partition(":")[0])
        else:
            shown = f"{float(f'{each:.3g}'):.9g}"
            cells.append(f"**{shown}**" if each <= NEAR * smallest else shown)
    return cells


def _microseconds(one: dict[str, Any]) -> float:
    seconds: list[float] = one.get("gradient: call") or one["value: call"]
    return 1e6 * median(seconds)


def _compiled(one: dict[str, Any]) -> float:
    return float(one["gradient: compile" if "gradient: compile" in one else "value: compile"])


def _verdict(one: dict[str, Any]) -> str:
    return FAILED if "error" in one else one["agreement"]
