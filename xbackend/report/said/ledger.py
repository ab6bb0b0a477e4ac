"""One device against several: the numbers, why they are so in words, and from which size several devices pay."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend import wording
from xbackend.analysis.comparison import Comparison
from xbackend.analysis.scaling import SHARING, Scaling, Shares, Sweep, scalings, sweeps
from xbackend.analysis.statistics import FEWEST, Verdict
from xbackend.report.drawn import timelines
from xbackend.report.said import tables, text
from xbackend.report.said.blocks import Block, Bold, OnPage, Pictures, paragraph, points, section, table, tabled
from xbackend.results.schema import FOREIGN, Results
from xbackend.wording import counted, join

_CLOSE = 0.05  # of the time: devices that are busy as long as each other
_MUCH = 0.2  # of the time: a transfer share worth a word
_ALTERNATE = 0.25  # of the shorter one's work: less of it at once, and devices work one after the other
_WAITING = 0.4  # of the time: an idle share worth a word, beyond what the transfers explain
_FULL = 0.8  # of the cores: kept busy by one device, a second finds no free one
_LOST = 0.8  # efficiency below which the words say where the rest went
_TIMELINES = "timelines of the devices"
_ROUGH = 2.0  # times the timed execution: the shares of such a profile are rough

READING = (
    "Speed-up: the time on one device divided by the time on several. Interval: 95 %, over processes; with fewer than "
    f"{FEWEST} a side there is none, and nothing is called. Verdict: on several devices, as in the tables above. "
    "Efficiency: speed-up divided by the number of devices. The shares are of a profiled execution, the medians over "
    "the processes. Profiled call: compute, at least one device did; transfer, one was under way and no device "
    "computed; wait, between those nothing of both; launch, before the first and after the last of them; together they "
    "are the time that the caller waited, measured beside them, to 5 %. Transfers: at least one was "
    "under way, whatever else. Idle: the part in which a device computed nothing. At once: the part in which at "
    "least two devices computed. Cores of one: how many cores one device alone keeps busy. Devices are "
    "simulated by cores where they are CPU devices of one process, each with as many threads as it has cores and the "
    "process with the cores of all; sharing cores where each may use those of all; real where they are none of one "
    "process; not equal where they are of several kinds."
)
_HEADERS = (
    *("backend", "devices", "one device", "several", "speed-up", "interval (processes)", "verdict"),
    *("efficiency", "profiled call", "transfers", "idle", "at once", "cores of one", "devices are"),
)
_SWEEP_HEADERS = ("backend", "devices", "speed-up by size", "several devices pay")


def percent(part: float) -> str:
    """A part of 1 in percent."""
    return f"{100 * part:.0f} %"


def verdict(s: Scaling, cores: int) -> str:
    """What the numbers of a scaling say, and why; ``cores`` is how many the machine has."""
    times, shown = text.number(s.speedup), text.percent(s.ratio.smallest)
    between = " to ".join(map(text.number, s.interval or ()))
    many = "two devices" if s.devices == 2 else f"{s.devices} devices"
    few = f"only {counted(s.processes, 'process', 'processes')} there is no interval"
    heads = {
        Verdict.FASTER: f"{many} are {times} times as fast as one",
        Verdict.EQUAL: f"{many} are as fast as one, {s.ratio.words} ({times} times as fast)",
        Verdict.SLOWER: f"{many} are slower than one ({times} times as fast)",
        Verdict.UNKNOWN: f"whether {many} are faster is not known ({times} times as fast, but with {few})",
        Verdict.NOT_TOLD_APART: f"{many} are not told apart from one ({times} times as fast, interval {between}; a "
        f"difference of {shown} would be shown)",
    }
    said = f"{heads[s.ratio.verdict]}: {_why(s, cores)}."
    if s.foreign_cores is not None and s.foreign_cores > FOREIGN:
        busy = text.number(s.foreign_cores, 2)
        said = f"doubtful, as other processes kept {busy} cores busy meanwhile (end them and measure again): {said}"
    return " ".join([said[0].upper() + said[1:], *_besides(s, cores)])


def _why(s: Scaling, cores: int) -> str:
    no_gain = s.ratio.verdict in (Verdict.EQUAL, Verdict.SLOWER, Verdict.NOT_TOLD_APART)
    if no_gain and (causes := _causes(s, cores)):
        return "; ".join(causes)
    if s.shares is None:
        return f"there is no profile that would say why ({s.unprofiled})"
    unexplained = s.ratio.verdict in (Verdict.EQUAL, Verdict.SLOWER)
    return ("the profile does not say why, " if unexplained else "") + _busy(s.shares)


def _besides(s: Scaling, cores: int) -> list[str]:
    """Where the rest of a gain went, or what is odd about it; and that the profile was much slower than the timing."""
    said, shares = list[str](), s.shares
    if shares is None:
        return said
    if s.faster and _in_turn(shares):
        said.append(
            "Devices that work one after the other gain nothing by being several: the difference comes from elsewhere, "
            "noise between processes included; measure more of them."
        )
    elif s.faster and s.efficiency < _LOST:
        said.append(f"What is lost: {'; '.join(_causes(s, cores)) or 'the profile does not say where'}.")
    if shares.wall > _ROUGH * s.seconds_of_many:
        slower = text.number(shares.wall / s.seconds_of_many, 2)
        said.append(f"The profiled execution took {slower} times as long as the timed ones, so its shares are rough.")
    return said


def _busy(shares: Shares) -> str:
    busy = [1 - idle for idle in shares.idle.values()]
    if len(busy) > 1 and max(busy) - min(busy) <= _CLOSE:
        said = f"{'both' if len(busy) == 2 else 'all'} are busy {percent(min(busy))}"
    elif len(busy) <= 4:
        said = join(f"{device} is busy {percent(1 - idle)}" for device, idle in shares.idle.items())
    else:
        said = f"they are busy {percent(min(busy))} to {percent(max(busy))}"
    return f"{said} of the time, {'both' if len(busy) == 2 else 'at least two'} at once {percent(shares.together)}"


def _causes(s: Scaling, cores: int) -> list[str]:
    """What keeps several devices from being faster, as far as the numbers show it."""
    causes = []
    if s.shares is not None:
        if s.shares.exposed >= _MUCH:
            causes.append(f"{percent(s.shares.exposed)} of the time is transfers")
        nothing = [device for device, idle in s.shares.idle.items() if idle >= 0.999]
        worst, most = max(s.shares.idle.items(), key=lambda item: item[1], default=("", 0.0))
        if nothing:
            causes.append(f"{join(nothing)} computed nothing")
        elif _in_turn(s.shares):
            causes.append(f"the devices work one after the other (at once {percent(s.shares.together)} of the time)")
        elif most - s.shares.exposed >= _WAITING:
            causes.append(f"{worst} is idle {percent(most)} of the time")
    if s.kind == SHARING and s.cores_of_one is not None and s.cores_of_one >= _FULL * cores:
        whole = "both cores" if cores == 2 else f"the {cores} cores" if cores > 1 else "the one core"
        busy = text.number(s.cores_of_one, 2)
        causes.append(f"one device already uses {whole} ({busy} busy), which all devices share")
    return causes


def _in_turn(shares: Shares) -> bool:
    """Whether the devices work one after the other: at once for a small part of what the second busiest computes."""
    busy = sorted(1 - idle for idle in shares.idle.values())
    return len(busy) > 1 and shares.together < _ALTERNATE * busy[-2]


def sections(results: Results, comparisons: Sequence[Comparison], pictures: Pictures) -> list[Block]:
    """Why several devices are faster or not: words and timelines for each comparison that has them; empty without."""

    def why(comparison: Comparison) -> list[Block]:
        own = scalings(comparison)
        said = points((Bold(s.many.name), ": ", verdict(s, results.machine.cores)) for s in own)
        return said + _timelines(comparison, own, pictures)

    blocks = tables.each(comparisons, "One device against several", why)
    return [*blocks, OnPage(_TIMELINES, (paragraph(timelines.READING),))] if blocks else []


def figures(comparisons: Sequence[Comparison]) -> list[Block]:
    """The ledger of each comparison that has one and more devices; empty without any."""
    return tables.each(comparisons, "Ledger", _table, READING)


def _table(comparison: Comparison) -> list[Block]:
    ledger = scalings(comparison)
    unit = text.time_unit(s.seconds_of_many for s in ledger)
    right = [h for h in _HEADERS if h not in ("backend", "verdict", "profiled call", "idle", "devices are")]
    return tabled(_HEADERS, [_row(s, unit) for s in ledger], right=right)


def _row(s: Scaling, unit: tuple[str, float]) -> list[str]:
    interval = text.NOTHING if s.interval is None else " to ".join(map(text.number, s.interval))
    shares = [text.NOTHING] * 4
    if s.shares is not None:
        parts = [f"{part} {percent(share)}" for part, share in (s.shares.parts or {}).items()]
        together = percent(s.shares.together)
        shares = [", ".join(parts) or text.NOTHING, percent(s.shares.transfers), _idle(s.shares.idle), together]
    return [
        s.many.label,
        str(s.devices),
        text.time(s.seconds_of_one, unit),
        text.time(s.seconds_of_many, unit),
        text.number(s.speedup),
        f"{interval} ({s.processes})",
        text.verdict(s.ratio),
        percent(s.efficiency),
        *shares,
        text.number(s.cores_of_one, 2),
        s.kind,
    ]


def _idle(idle: dict[str, float]) -> str:
    if len(idle) > 4:
        return f"{percent(min(idle.values()))} to {percent(max(idle.values()))}"
    return ", ".join(f"{device} {percent(part)}" for device, part in idle.items())


def _timelines(comparison: Comparison, own: Sequence[Scaling], pictures: Pictures) -> list[Block]:
    blocks: list[Block] = []
    for devices in sorted({s.devices for s in own}):
        drawn = timelines.timelines(comparison, devices)
        if drawn:
            title = f"Timelines on {counted(devices, 'device')}: {comparison.label}"
            image = pictures.add("timeline", comparison.workload, timelines.picture(drawn, title), title)
            blocks.append(OnPage(_TIMELINES, (image,)))
    return blocks


def sizes(comparisons: Sequence[Comparison]) -> list[Block]:
    """From which size several devices pay, for each backend; empty where no size was measured on several."""
    swept = sweeps(s for comparison in comparisons for s in scalings(comparison))
    rows = [_sweep(sweep) for sweep in swept if len(sweep.points) > 1]
    words = (
        "Between two measured sizes: at one several devices are shown to be slower than one, at the other faster. "
        "What lies between is not interpolated: measure there to narrow it."
    )
    blocks: list[Block] = [paragraph(words), table(_SWEEP_HEADERS, rows, right=("devices",))] if rows else []
    few = list(dict.fromkeys(sweep.label for sweep in swept if len(sweep.points) == 1))
    if few:
        blocks.append(paragraph(f"Of {join(few)} one size was measured: measure more, --size 256,512,1024."))
    return section("The size from which several devices pay", blocks, level=3)


def _sweep(sweep: Sweep) -> list[str]:
    return [
        sweep.label + (f" ({wording.pairs(sweep.rest)})" if sweep.rest else ""),
        str(sweep.devices),
        ", ".join(f"{size:g}: {text.number(s.speedup)}" for size, s in sweep.points),
        pays(sweep),
    ]


def pays(sweep: Sweep) -> str:
    """From or up to which size several devices are faster than one, in words."""
    measured = f"{sweep.points[0][0]:g} to {sweep.points[-1][0]:g}"
    if len(sweep.paying) == len(sweep.points):
        return f"at every size measured ({measured})"
    if not sweep.paying:
        return f"shown at no size measured ({measured})"
    if sweep.bracket is not None:
        first, then = sweep.bracket
        low, high = sorted(sweep.bracket)
        return f"{'from' if first < then else 'up to'} a size between {low:g} and {high:g}"
    sizes = join(f"{size:g}" for size in sweep.paying)
    if sweep.costing:
        return f"at {sizes}, and not at {join(f'{size:g}' for size in sweep.costing)}"
    return f"at {sizes}; where {'it begins' if sweep.paying[-1] == sweep.points[-1][0] else 'it ends'} is not shown"
