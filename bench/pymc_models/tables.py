"""The results as the tables of docs/bring_models.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pymc_models.running import results
from xbackend.workloads.agreement import Agreement

FAILED = "failed"
VERDICTS = (*Agreement, FAILED)
NEAR, MOST = 1.1, 0.75  # a ratio to the smallest figure and a share of the turns: less shows no difference


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
    for title, line in (("microseconds of a call", _called), ("seconds to compile", _compiled)):
        print(f"\n{title}\n\n| model (free numbers) |", " | ".join(backends), "|\n|---|" + "---:|" * len(backends))
        for name in names:
            free = next((one["free"] for one in found if one["model"] == name and "free" in one), "?")
            print(f"| {name} ({free}) |", " | ".join(line([by.get((name, backend)) for backend in backends])), "|")


def _called(measured: Sequence[dict[str, Any] | None]) -> list[str]:
    """Medians of a model's rounds. Bold are the smallest one, those within `NEAR` of it, and those that were slower
    in less than `MOST` of the turns."""
    rounds = [[] if one is None else _rounds(one) for one in measured]
    best = min(filter(None, rounds), key=median, default=[])

    def cell(own: Sequence[float]) -> str:
        slower = sum(ours > theirs for ours, theirs in zip(own, best, strict=False))
        near = median(own) <= NEAR * median(best) or slower < MOST * min(len(own), len(best))
        return f"**{_rounded(1e6 * median(own))}**" if near else _rounded(1e6 * median(own))

    return [cell(own) if own else _absent(one) for one, own in zip(measured, rounds, strict=True)]


def _rounds(one: dict[str, Any]) -> list[float]:
    """Seconds of a call in each round: with the gradient if there is one."""
    return one.get("gradient: call") or one.get("value: call") or []


def _compiled(measured: Sequence[dict[str, Any] | None]) -> list[str]:
    kinds = ("gradient: compile", "value: compile")
    return [
        _absent(one) if one is None or "error" in one else _rounded(next(one[kind] for kind in kinds if kind in one))
        for one in measured
    ]


def _absent(one: dict[str, Any] | None) -> str:
    return "-" if one is None else one["error"].partition(":")[0]


def _rounded(figure: float) -> str:
    return f"{float(f'{figure:.3g}'):.9g}"


def _verdict(one: dict[str, Any]) -> str:
    return FAILED if "error" in one else one["agreement"]
