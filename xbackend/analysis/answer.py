"""The answer to the question of a comparison, as one sentence: does another device help, or who is fastest?

The first is the question where one device and more were measured. Every verdict in it is one of the comparison's family
(`Comparison.ratio`). The terminal and the report begin with this sentence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from operator import itemgetter

from xbackend.analysis.by_size import at, sizes_of, told, told_together
from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.sampling import in_pymc, in_script
from xbackend.analysis.scaling import REAL, Scaling, scalings, sweeps
from xbackend.analysis.statistics import FEWEST, Ratio, Verdict, between
from xbackend.backends.description import IN_TURN
from xbackend.results.naming import GRADIENT
from xbackend.results.schema import Process
from xbackend.wording import counted, few, grouped, join, number, percent, plain
from xbackend.workloads.agreement import DOUBTFUL, most

_NAMED = 4  # rows that are named one by one; more are counted
APART = 4  # comparisons with an answer each; more have one together
WIDE = 2.0  # times: an answer is in doubt where a smaller difference could not be shown
_MORE = f"measure with more of them (--processes 10), as below {FEWEST} there is no interval at all"
_TOO_FEW = str(Verdict.UNKNOWN)
_NUMBERS = {2: "two", 3: "three", 4: "four"}
_CPU, _GPU = "cpu", "gpu"  # `Row.place` where all its devices are of that kind


def answer(comparisons: Sequence[Comparison]) -> str:
    """The sentence."""
    if not comparisons:
        return "Nothing was compared: the results hold no measurement."
    more = devices_compared(comparisons)
    said = "; ".join(_of_devices(comparisons, many) for many in more) if more else _of_backends(comparisons)
    timings = [process for c in comparisons for row in c.ranked for process in row.processes]
    mixed = any(len({row.measurement.reused for row in c.ranked}) > 1 for c in comparisons)
    ratios = [(_where(c, comparisons) + named(row, c), ratio) for c in comparisons for row, ratio in c.against_first]
    doubts = in_doubt(timings, ratios, ["rows of several sessions are compared"] if mixed else [])
    besides = (*_against_the_oracle(comparisons), *in_pymc(comparisons), *in_script(comparisons))
    against = "".join(f"; {words}" for words in besides)
    few_processes = "; there are too few processes: " + _MORE if _TOO_FEW in said else ""
    said = doubts + said
    return f"{said[0].upper() if more or doubts else said[0]}{said[1:]}{few_processes}{against}."


def in_doubt(timings: Sequence[Process], ratios: Iterable[tuple[str, Ratio]], more: Iterable[str] = ()) -> str:
    """The doubts about a whole answer, as its beginning: half or more of the timings that count were disturbed, or a
    difference was shown where only large ones could be, or ``more``; empty without a doubt."""
    disturbed = sum(process.disturbed for process in timings)
    said = [*more]
    if disturbed and 2 * disturbed >= len(timings):
        said.append(f"others disturbed {disturbed} of the {counted(len(timings), 'timing')} that count")
    # The answer itself says what was not shown.
    wide = [(ratio.smallest, name) for name, ratio in ratios if ratio.shown and ratio.smallest > WIDE]
    if wide:
        smallest, widest = max(wide, key=itemgetter(0))
        said.append(f"no difference below {percent(smallest)} could be shown for {widest}")
    return f"in doubt, as {join(said)}: " if said else ""


def _against_the_oracle(comparisons: Sequence[Comparison]) -> list[str]:
    """Where most candidates disagree with the oracle, and how many."""
    said = []
    for c in comparisons:
        counts = Counter(row.measurement.status for row in c.rows)
        wrong, there = counts["wrong"], counts["wrong"] + counts["ok"]
        if most(wrong, there):
            said.append(f"{_where(c, comparisons)}{wrong} of {there} are wrong, {DOUBTFUL}")
    return said


def devices_compared(comparisons: Iterable[Comparison]) -> list[int]:
    """The numbers of devices that are compared with one; none where a single number was asked for."""
    numbers = {row.devices for comparison in comparisons for row in comparison.rows}
    return sorted(devices for devices in numbers if devices > 1) if 1 in numbers else []


def named(row: Row, comparison: Comparison) -> str:
    """The label of a row, with how many devices it had where that tells it from others."""
    return row.label if len({each.devices for each in comparison.rows}) == 1 else row.name


def smallest(comparison: Comparison) -> tuple[list[Row], Row | None, list[Row]]:
    """The group of the fastest, the next row, and rows beside the group that may be as fast.

    The group is the row with the smallest time and its rivals, if each of them is shown to be faster than each other
    row. Else the group is that row alone, and its rivals are beside it. The next is the first row that is no rival,
    `None` where there is none.
    """
    first, *others = comparison.ranked
    top = [first, *comparison.rivals]
    rest = [row for row in others if row not in top]
    if not rest:
        return top, None, []
    apart = all((r := comparison.ratio(a, b)) and r.verdict is Verdict.FASTER for a in top for b in rest)
    return (top, rest[0], []) if apart else ([first], rest[0], top[1:])


def why_in_turn(row: Row) -> str:
    """Why the devices of a row compute one after the other, as its adapter has said; empty where they do not."""
    note = row.measurement.description.notes.get("stages", "")
    return plain(note.removeprefix(IN_TURN)) if note.startswith(IN_TURN) else ""


# Does another device help?


def _of_devices(comparisons: Sequence[Comparison], many: int) -> str:
    """An answer for each kind of devices, accelerators first."""
    places = {row.place for comparison in comparisons for row in comparison.rows if row.devices == many} or {""}
    known = sorted(places - {""}, key=lambda place: (place == _CPU, place)) or [""]
    # Rows at other places, and rows without a device, are told beside the first kind.
    rest = {row.place for comparison in comparisons for row in comparison.rows} - {*known}
    each = [(place, {place, *rest} if place == known[0] else {place}) for place in known]
    return "; ".join(_of_kind(comparisons, many, place, of) for place, of in each)


def _of_kind(comparisons: Sequence[Comparison], many: int, place: str, places: Collection[str]) -> str:
    """The answer for so many devices of one kind, of the rows at these places."""
    scaled = [(_where(comparison, comparisons), *_scaled(comparison, many, places)) for comparison in comparisons]
    found = [s for _, each, _ in scaled for s in each]
    swept, sizes, among = sweeps(found), sizes_of(comparisons), ""
    if sizes and any(len(sweep.points) > 1 for sweep in swept):
        by_name = len(swept) <= _NAMED
        parts = [told(s, why_in_turn(s.points[0][1].many)) for s in swept] if by_name else [told_together(swept)]
    else:
        cases = [(where, each, len(each) + len(without)) for where, each, without in scaled if each or without]
        total = sum(rows for *_, rows in cases)
        if len(cases) > APART:
            among, cases = f" in {len(cases)} comparisons", [("", found, total)]
        by_name, alone = total <= _NAMED, len(cases) == 1
        parts = [_said(*case, by_name, alone) for case in cases if case[1]] or ["no backend gave a time on both"]
    if absent := _absent([without for *_, without in scaled], sizes):
        without_time = few([f"{name} ({why})" for name, why in absent]) if by_name else _counts(absent)
        parts[-1] += f"{', ' if len(parts) == 1 else '; '}not measured on {without_time}"
    kinds = sorted({s.kind for s in found} - {REAL})  # limits of what a speed-up says
    of = f" ({', '.join(kinds)})" if kinds else ""
    return f"{_called(many, place, comparisons[0].accelerators)} against one{of}{among}: {'; '.join(parts)}"


def _called(many: int, place: str, accelerators: Sequence[str]) -> str:
    """So many devices by what they are: ``two NVIDIA H200``, ``two CPU devices``."""
    number, names = _NUMBERS.get(many, many), [*dict.fromkeys(accelerators)]
    if place in ("", _CPU):
        return f"{number} {'CPU ' if place else ''}devices"
    if place == _GPU and len(names) == 1 and len(accelerators) >= many:
        return f"{number} {names[0]}"
    there = f"there is {counted(len(accelerators), join(names), join(names))}" if len(names) == 1 else join(names)
    named = f" ({there if place == _GPU else join(names)})" if names else ""
    if " and " in place:
        return f"{number} unequal devices, {place.upper().replace(' AND ', ' and ')}{named},"
    return f"{number} {place.upper()}s{named}"


def _where(comparison: Comparison, comparisons: Sequence[Comparison]) -> str:
    """The words that tell a comparison from the others, as in ``size=8: ``; empty where it is the only one."""
    if len(comparisons) == 1:
        return ""
    one = len({each.workload for each in comparisons}) == 1
    where = comparison.label.removeprefix(plain(comparison.workload)).strip() if one else comparison.label
    return f"{where}: " if where else ""


def _scaled(comparison: Comparison, many: int, places: Collection[str]) -> tuple[list[Scaling], list[tuple[str, str]]]:
    """The speed-ups on so many devices at these places, and the rows without one, each with the reason."""
    found = [s for s in scalings(comparison) if s.devices == many and s.many.place in places]
    have, ones = {s.many for s in found}, {row.of: row for row in comparison.rows if row.devices == 1}
    absent = []
    for row in comparison.rows:
        if row.devices == many and row.place in places and row not in have:
            one = ones.get(row.of)
            alone = "not on one device" if one is None else f"on one device {_status(one)}"
            absent.append((row.of, alone if row.times else _status(row)))
    several = {row.of for row in comparison.rows if row.devices == many}
    alone_there = [one for one in ones.values() if one.of not in several and one.place in places]
    absent += [(one.of, _status(one)) for one in alone_there if not one.times]
    return found, absent


def _absent(each: Sequence[Sequence[tuple[str, str]]], sizes: Sequence[float]) -> list[tuple[str, str]]:
    """The rows without a time, and why. Of several ``sizes`` each is listed once, with the sizes where it has none."""
    if not sizes:
        return [one for without in each for one in without]
    where = grouped((one, size) for size, without in zip(sizes, each, strict=True) for one in without)
    return [(name, why + (f" at {at(of, sizes)}" if of != sizes else "")) for (name, why), of in where.items()]


def _status(row: Row) -> str:
    """Why a row has no time."""
    return row.measurement.status if row.measurement.status != "ok" else "no process finished"


def _counts(absent: Sequence[tuple[str, str]]) -> str:
    """How many rows have no time, and why: ``3 (2 missing, 1 failed)``."""
    counts = Counter(why for _, why in absent)
    return f"{len(absent)} ({', '.join(why if len(counts) == 1 else f'{n} {why}' for why, n in counts.items())})"


def _said(where: str, found: Sequence[Scaling], total: int, by_name: bool, alone: bool) -> str:
    """The outcome of one comparison of ``total`` rows; with the reasons if it stands ``alone``."""
    said = list[str]()
    for verdict in Verdict:
        group = sorted((s for s in found if s.ratio.verdict is verdict), key=lambda s: -s.speedup)
        if by_name:
            said += map(_one, group)
        elif group:
            said.append(_all_of(verdict, group, "" if said else f" of {total}", alone))
    return where + ", ".join(said)


def _one(s: Scaling) -> str:
    times, label, why = number(s.speedup), s.many.of, why_in_turn(s.many)
    sure = between(1 / s.ratio.high, 1 / s.ratio.low)
    if s.ratio.verdict is Verdict.FASTER:
        return f"{times} times as fast on {label} ({sure})"
    if s.ratio.verdict is Verdict.SLOWER:
        return f"slower on {label} ({times} times as fast, {sure}{'; ' if why else ''}{why})"
    if s.ratio.verdict is Verdict.UNKNOWN:
        return f"{_TOO_FEW} on {label} ({times} times as fast in {min(s.ratio.processes)})"
    return f"{s.ratio.words} on {label} ({why or f'{times}, {sure}'})"


def _all_of(verdict: Verdict, group: Sequence[Scaling], of: str, reasons: bool) -> str:
    times = " to ".join(dict.fromkeys(number(s.speedup, 2) for s in (group[-1], group[0])))
    if verdict is Verdict.FASTER:
        return f"{times} times as fast on {len(group)}{of}"
    more = [f"{times} times as fast"] if verdict is Verdict.SLOWER else []
    counts = Counter(filter(None, map(why_in_turn, (s.many for s in group)))) if reasons else {}
    for why, count in counts.items():
        more.append(why if count == len(group) else f"{count} of them: {why}")
    besides = f" ({'; '.join(more)})" if more else ""
    return f"{verdict} on {len(group)}{of}{besides}"


# Who is the fastest?


def _of_backends(comparisons: Sequence[Comparison]) -> str:
    if len(comparisons) > APART:
        said = _wins(comparisons)
    else:
        said = "; ".join(_where(c, comparisons) + _fastest(c, len(comparisons) == 1) for c in comparisons)
    each = [[(named(row, c), _status(row)) for row in c.rows if not row.times] for c in comparisons]
    if not (absent := _absent(each, sizes_of(comparisons))):
        return said
    by_name = len(absent) == len(set(absent)) < _NAMED
    return f"{said}; not measured: " + (join(f"{name} ({why})" for name, why in absent) if by_name else _counts(absent))


def _wins(comparisons: Sequence[Comparison]) -> str:
    """How often each is the fastest, of many comparisons."""
    of, said = f" of {of_how_many(comparisons)}", list[str]()
    sizes = dict(zip(map(id, comparisons), sizes_of(comparisons), strict=False))

    def where(them: Sequence[Comparison]) -> str:
        place = at([sizes[id(c)] for c in them], sizes.values()) if sizes else ""
        return f", at size{'s' if len(them) > 1 else ''} {place}" if place else ""

    winners = grouped((named(c.winner, c), c) for c in comparisons if c.winner is not None)
    undecided = [c for c in comparisons if c.winner is None]
    why_not = [_unrivalled(c) or (_TOO_FEW if c.too_few else "the fastest are not told apart") for c in undecided]
    for name, won in sorted(winners.items(), key=lambda item: -len(item[1])):
        gains = [1 / c.against_first[0][1].value for c in won]
        times = " to ".join(dict.fromkeys(number(gain) for gain in (min(gains), max(gains))))
        how_many = f"{len(won)}{'' if said else of}{where(won)}"
        said.append(f"{name} is the fastest in {how_many} ({times} times as fast as the next)")
    for why, them in grouped(zip(why_not, undecided, strict=True)).items():
        said.append(f"{why} in {len(them)}{'' if said else of}{where(them)}")
    return ", ".join(said)


def of_how_many(comparisons: Sequence[Comparison]) -> str:
    """The number of comparisons and of workloads; a workload and its gradient are two comparisons of one workload."""
    count, each = len(comparisons), len({c.workload.removesuffix(GRADIENT) for c in comparisons})
    if count == each > 1:
        return f"{count} workloads"
    return f"{count} comparisons" + (f" of {each} workloads" if each > 1 else "")


def _unrivalled(comparison: Comparison) -> str:
    """The sentence where fewer than two rows have a time; empty where more do."""
    if not comparison.ranked:
        return "no candidate gave a time"
    one = named(comparison.ranked[0], comparison)
    return f"{one} is the only one that gave a time" if len(comparison.ranked) == 1 else ""


def _fastest(comparison: Comparison, alone: bool) -> str:
    """The sentence of one comparison; a shorter one where others stand beside it."""
    then = "; " if alone else ", "
    if unrivalled := _unrivalled(comparison):
        return unrivalled
    top, following, beyond = smallest(comparison)
    against = dict(comparison.against_first)
    names = [named(row, comparison) for row in top]
    if following is None and comparison.too_few:
        fewest = min(len(row.times) for row in comparison.ranked)
        return f"{names[0]} has the smallest time, and is not told apart ({_TOO_FEW}: {fewest})"
    apart, same = [against[row] for row in top[1:]], _equal(top, comparison)
    if following is None:
        would = percent(max(ratio.smallest for ratio in apart))
        how = f"not told apart ({_within(apart)}; a difference of {would} would be)"
        return f"{few(names)} are {f'equal within {percent(same)}' if same else how}"
    # The smallest gain of a group holds for each of its members.
    gains = [over for row in top if (over := comparison.ratio(row, following)) is not None]
    ratio = max(gains, key=lambda over: over.value)
    name, interval = named(following, comparison), f"({between(1 / ratio.high, 1 / ratio.low)})"
    times = f"{number(1 / ratio.value)} times as fast as"
    if beyond:
        others = few([named(row, comparison) for row in beyond]) if alone else counted(len(beyond), "other")
        spread = f" ({_within([against[row] for row in beyond])})" if alone else ""
        maybe = f"{others} may be as fast{spread}"
        return f"{names[0]} has the smallest time{then}{maybe}{then}{names[0]} is {times} {name} {interval}"
    gain = f"{times} the next, {name} {interval}"
    if apart:
        how = f"equal within {percent(same)}" if same else f"not told apart ({_within(apart)})"
        return f"{few(names)} are the fastest, {how}{then}{gain}"
    return f"{names[0]} is the fastest: {gain}"


def _equal(rows: Sequence[Row], comparison: Comparison) -> float | None:
    """The factor within which all of these are shown to be equal; `None` where they are not."""
    ratios = [ratio for a, b in combinations(rows, 2) if (ratio := comparison.ratio(b, a)) is not None]
    equal = all(ratio.verdict is Verdict.EQUAL for ratio in ratios)
    return max((ratio.furthest for ratio in ratios), default=None) if equal else None


def _within(ratios: Sequence[Ratio]) -> str:
    """One ratio of another time to the smallest with its interval; of several, the bounds of all intervals."""
    known = [ratio for ratio in ratios if math.isfinite(ratio.low)]
    if not known:
        return _TOO_FEW
    bounds = between(1 / max(r.high for r in known), 1 / min(r.low for r in known))
    return f"ratio {number(1 / known[0].value)}, {bounds}" if len(ratios) == 1 else f"ratios within {bounds}"
