"""One device against several: the numbers, their causes in words, and from which size several devices pay."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.by_size import pays
from xbackend.analysis.comparison import Comparison
from xbackend.analysis.scaling import SHARING, Scaling, Shares, Sweep, scalings, sweeps
from xbackend.analysis.statistics import FEWEST, Verdict
from xbackend.cores import FOREIGN
from xbackend.report.drawn import timelines
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Bold, OnPage, Pictures, paragraph, points, records, section
from xbackend.report.said.tables import SPEEDUP
from xbackend.report.said.text import share
from xbackend.wording import counted, join, pairs

_CLOSE = 0.05  # of the time: devices within it are equally busy
_MUCH = 0.2  # of the time: a transfer share worth a word
_ALTERNATE = 0.25  # of the shorter one's work: with less of it at once, devices work one after the other
_WAITING = 0.4  # of the time: an idle share worth a word, beyond what the transfers explain
_FULL = 0.8  # of the cores: one device that keeps so many busy leaves none for a second
_LOST = 0.8  # efficiency below which the words say where the rest went
TIMELINES = "timelines of the devices"
_SIZES = (
    "Between two measured sizes: at one several devices are shown to be slower than one, at the other faster. "
    "What lies between is not interpolated: measure there to narrow it."
)
_ROUGH = 2.0  # times the timed execution: the shares of such a profile are rough

READING = (
    "Speed-up: the time on one device over the time on several. Efficiency: the speed-up over the number of devices. "
    f"The interval is over processes; with fewer than {FEWEST} a side there is none, and nothing is called. The shares "
    "are medians over the processes, of profiled executions. Profiled call: compute, a device computed; transfer, a "
    "value was under way and no device computed; wait, neither; launch, before the first and after the last of these. "
    "Transfers: a value was under way. Idle: a device computed nothing. At once: two devices or more computed. Cores "
    "of one: the cores that one device alone keeps busy. Devices are simulated by cores where CPU devices of one "
    "process have cores of their own, and sharing cores where each may use all of them; real where no two are CPU "
    "devices of one process; not equal where they are of several kinds."
)
_WORDS = ("backend", "verdict", "profiled call", "idle", "devices are")  # columns that are no numbers


def verdict(s: Scaling, cores: int) -> str:
    """The verdict of a scaling in words, and why; ``cores`` is how many the machine has."""
    said = f"{text.verdict(s.ratio)}, {text.ratio(s.ratio.inverse)} times as fast as one device: {_why(s, cores)}."
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
        said = f"{'both' if len(busy) == 2 else 'all'} are busy {share(min(busy))}"
    elif len(busy) <= 4:
        said = join(f"{device} is busy {share(1 - idle)}" for device, idle in shares.idle.items())
    else:
        said = f"they are busy {share(min(busy))} to {share(max(busy))}"
    return f"{said} of the time, {'both' if len(busy) == 2 else 'at least two'} at once {share(shares.together)}"


def _causes(s: Scaling, cores: int) -> list[str]:
    causes = []
    if s.shares is not None:
        if s.shares.exposed >= _MUCH:
            ways = [f"{share(part)} {way}" for way, part in s.shares.ways.items()]
            told = f" (under way: {', '.join(ways)})" if ways else ""
            causes.append(f"{share(s.shares.exposed)} of the time is transfers{told}")
        nothing = [device for device, idle in s.shares.idle.items() if idle >= 0.999]
        worst, most = max(s.shares.idle.items(), key=lambda item: item[1], default=("", 0.0))
        if nothing:
            causes.append(f"{join(nothing)} computed nothing")
        elif _in_turn(s.shares):
            causes.append(f"the devices work one after the other (at once {share(s.shares.together)} of the time)")
        elif most - s.shares.exposed >= _WAITING:
            causes.append(f"{worst} is idle {share(most)} of the time")
    if s.kind == SHARING and s.cores_of_one is not None and s.cores_of_one >= _FULL * cores:
        whole = "both cores" if cores == 2 else f"the {cores} cores" if cores > 1 else "the one core"
        busy = text.number(s.cores_of_one, 2)
        causes.append(f"one device already uses {whole} ({busy} busy), which all devices share")
    return causes


def _in_turn(shares: Shares) -> bool:
    """Whether the devices work one after the other: together for only a small part of the second busiest one's time."""
    busy = sorted(1 - idle for idle in shares.idle.values())
    return len(busy) > 1 and shares.together < _ALTERNATE * busy[-2]


def why(comparison: Comparison, cores: int, pictures: Pictures) -> list[AnyBlock]:
    """Why several devices are faster or not, in words, and timelines; empty where there are not several."""
    own = scalings(comparison)
    blocks = points((Bold(s.many.name), ": ", verdict(s, cores)) for s in own)
    for devices in sorted({s.devices for s in own}):
        if drawn := timelines.timelines(comparison, devices):
            title = f"Timelines on {counted(devices, 'device')}: {comparison.label}"
            image = pictures.add("timeline", comparison.workload, timelines.picture(drawn, title), title)
            blocks.append(OnPage(TIMELINES, (image,)))
    return blocks


def figures(comparison: Comparison) -> list[AnyBlock]:
    """The ledger: a row for each backend with several devices; empty without any."""
    ledger = scalings(comparison)
    unit = text.time_unit(s.seconds_of_many for s in ledger)
    return records([_row(s, unit) for s in ledger], words=_WORDS)


def _row(s: Scaling, unit: tuple[str, float]) -> dict[str, str]:
    shares = dict.fromkeys(("profiled call", "transfers", "idle", "at once"), text.NOTHING)
    if s.shares is not None:
        parts = ", ".join(f"{part} {share(taken)}" for part, taken in s.shares.parts.items())
        shares = {"profiled call": parts, "transfers": share(s.shares.transfers)}
        shares |= {"idle": _idle(s.shares.idle), "at once": share(s.shares.together)}
    return {
        "backend": s.many.label,
        "devices": str(s.devices),
        "one device": text.time(s.seconds_of_one, unit),
        "several": text.time(s.seconds_of_many, unit),
        SPEEDUP: text.ratio(s.ratio.inverse),
        "verdict": text.verdict(s.ratio),
        "efficiency": share(s.efficiency),
        **shares,
        "cores of one": text.number(s.cores_of_one, 2),
        "devices are": s.kind,
    }


def _idle(idle: dict[str, float]) -> str:
    if len(idle) > 4:
        return f"{share(min(idle.values()))} to {share(max(idle.values()))}"
    return ", ".join(f"{device} {share(part)}" for device, part in idle.items())


def sizes(comparisons: Sequence[Comparison]) -> list[AnyBlock]:
    """From which size several devices pay, for each backend; empty where no size was measured on several."""
    swept = _swept(comparisons)
    rows = _of_several(swept)
    blocks: list[AnyBlock] = [paragraph(_SIZES), *records(rows, right=("devices",))] if rows else []
    if few := join(dict.fromkeys(sweep.label for sweep in swept if len(sweep.points) == 1)):
        blocks.append(paragraph(f"Of {few} one size was measured: measure more, --size 256,512,1024."))
    return section("The size from which several devices pay", blocks, level=3)


def by_size(comparisons: Sequence[Comparison]) -> list[dict[str, str]]:
    """A row for each backend of which several sizes were measured on several devices."""
    return _of_several(_swept(comparisons))


def _swept(comparisons: Sequence[Comparison]) -> Sequence[Sweep]:
    return sweeps(s for comparison in comparisons for s in scalings(comparison))


def _of_several(swept: Sequence[Sweep]) -> list[dict[str, str]]:
    return [_sweep(sweep) for sweep in swept if len(sweep.points) > 1]


def _sweep(sweep: Sweep) -> dict[str, str]:
    name = sweep.label + (f" ({pairs(sweep.rest)})" if sweep.rest else "")
    speedups = ", ".join(f"{size:.12g}: {text.number(s.speedup)}" for size, s in sweep.points)
    at = {"speed-up by size": speedups, "several devices pay": pays(sweep)}
    return {"backend": name, "devices": str(sweep.devices), **at}
