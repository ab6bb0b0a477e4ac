"""The results as the tables of docs/bring_models.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from pymc_models.running import results
from xbackend.workloads.agreement import Agreement

FAILED = "failed"
VERDICTS = (*Agreement, FAILED)


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
    print("| model (free numbers) |", " | ".join(backends), "|\n|---|" + "---:|" * len(backends))
    for name in re.findall(r"`models\w*/(\w+)\.py`", core.read_text()):
        free = next((one["free"] for one in found if one["model"] == name and "free" in one), "?")
        print(f"| {name} ({free}) |", " | ".join(_cell(by.get((name, backend))) for backend in backends), "|")


def _verdict(one: dict[str, Any]) -> str:
    return FAILED if "error" in one else one["agreement"]


def _cell(one: dict[str, Any] | None) -> str:
    """Microseconds of a call: the log-density, if it was compiled alone, and it with its gradient, if it has one. Then
    the seconds to compile the last of them."""
    if one is None or "error" in one:
        return "-" if one is None else one["error"].partition(":")[0]
    timed = [name for name in ("value", "gradient") if f"{name}: call" in one]
    calls = ", ".join(_microseconds(median(one[f"{name}: call"])) for name in timed)
    return f"{calls}; {one[f'{timed[-1]}: compile']:.2g} s"


def _microseconds(seconds: float) -> str:
    return f"{float(f'{1e6 * seconds:.3g}'):.9g}"
