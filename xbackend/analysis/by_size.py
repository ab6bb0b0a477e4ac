"""Several sizes of one workload: at which of them a statement holds, and from which one several devices are faster."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xbackend.analysis.comparison import Comparison, size_of, without_size
from xbackend.analysis.scaling import Sweep
from xbackend.results.schema import key_of
from xbackend.wording import few, grouped, join, number

_NEVER = "shown at no size measured"
_EACH = 6  # sizes that are named one by one


def sizes_of(comparisons: Sequence[Comparison]) -> list[float]:
    """The size of each comparison, where they differ in nothing else; empty where they do, or there is only one."""
    sizes = [size for c in comparisons if (size := size_of(c.parameters)) is not None]
    alike = {(c.workload, key_of(without_size(c.parameters))) for c in comparisons}
    return sizes if len(alike) == 1 < len(sizes) == len(comparisons) else []


def at(sizes: Collection[float], measured: Collection[float]) -> str:
    """Some of the ``measured`` sizes: by their ends where they are three or more in a row, else one by one."""
    every, some = sorted(measured), sorted(sizes)
    first = every.index(some[0])
    row = len(some) > 2 and every[first : first + len(some)] == some
    return f"{some[0]:.12g} to {some[-1]:.12g}" if row else few([f"{size:.12g}" for size in some], _EACH)


def pays(sweep: Sweep) -> str:
    """From or up to which size several devices are faster than one, in words."""
    sizes = [size for size, _ in sweep.points]
    measured = " to ".join(dict.fromkeys(f"{size:.12g}" for size in (sizes[0], sizes[-1])))
    if sweep.paying == sizes:
        return f"at every size measured ({measured})"
    if not sweep.paying:
        return f"{_NEVER} ({measured})"
    if sweep.bracket is not None:
        first, then = sweep.bracket
        low, high = sorted(sweep.bracket)
        return f"{'from' if first < then else 'up to'} a size between {low:.12g} and {high:.12g}"
    others = [size for size in sizes if size not in sweep.paying]
    return f"at {at(sweep.paying, sizes)}, not shown at {at(others, sizes)}"


def told(sweep: Sweep, why: str = "") -> str:
    """The sizes of one backend in words: from which size it is faster, by how much, and how long devices were busy at
    once. ``why``: the reason where it is faster at no size."""
    measured, said = [size for size, _ in sweep.points], [why] if why and not sweep.paying else []
    if gains := [f"{number(s.speedup)} at {size:.12g}" for size, s in sweep.points if s.faster]:
        said.append(join([gains[0].replace(" at", " times as fast at"), *gains[1:]]))
    verdicts = grouped((s.ratio.verdict, size) for size, s in sweep.points if not s.faster)
    said += [f"{verdict} at {at(sizes, measured)}" for verdict, sizes in verdicts.items()]
    of = sweep.paying or measured
    if at_once := [s.shares.together for size, s in sweep.points if s.shares is not None and size in of]:
        ends = " to ".join(dict.fromkeys(f"{100 * part:.0f}" for part in (min(at_once), max(at_once))))
        said.append(f"{'both' if sweep.devices == 2 else 'two or more'} busy at once {ends} % of the time")
    return f"on {sweep.label} {_claim(sweep)} ({', '.join(said)})"


def told_together(swept: Sequence[Sweep]) -> str:
    """The sizes of many backends in words; backends with the same claim are together."""
    said = []
    for claim, alike in grouped((_claim(sweep), sweep) for sweep in swept).items():
        gains = [s.speedup for sweep in alike for _, s in sweep.points if s.faster]
        ends = dict.fromkeys(number(gain, 2) for gain in (min(gains), max(gains))) if gains else ()
        verdicts = dict.fromkeys(str(s.ratio.verdict) for sweep in alike for _, s in sweep.points)
        how = f"{' to '.join(ends)} times as fast" if ends else join(verdicts)
        said.append(f"on {few([sweep.label for sweep in alike])} {claim} ({how})")
    return "; ".join(said)


def _claim(sweep: Sweep) -> str:
    return (
        f"faster {pays(sweep)}" if sweep.paying else pays(sweep).replace(_NEVER, "not shown to be faster at any size")
    )
