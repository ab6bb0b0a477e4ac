"""Devices, their spellings in all frameworks, and the binding of logical names to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from xbackend.errors import ArgumentError, DeviceSpellingError, DeviceUnavailable, UnboundDevice

_KINDS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "hip": "gpu", "tpu": "tpu"}
_DEVICE = re.compile(
    r"""(?:/?job:(?P<job>[a-z][a-z0-9_]*))?      # TensorFlow's job
        (?:/replica:(?P<replica>\d{1,9}))?
        (?:/task:(?P<task>\d{1,9}))?
        (?:(?:^|/)(?:device:)?(?P<kind>[a-z]+)(?::?(?P<index>\d{1,9}))?)?""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_JOB = re.compile(r"[a-z][a-z0-9_]*")
_LOGICAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LARGEST = 10**9

SPELLINGS = "cpu:0, /gpu:1, GPU:1, gpu1, cuda1, cuda:1, /job:worker/replica:0/task:1/device:GPU:1"


@dataclass(frozen=True, slots=True)
class Device:
    """One device: its kind (``cpu``, ``gpu``, ``tpu``), its number, and the job and task it belongs to, if any.

    ``str(device)`` is the one spelling that xbackend prints, and ``Device.parse`` reads it back.

    >>> device = xb.Device.parse("/job:worker/task:1/device:GPU:0")
    >>> str(device), device.is_accelerator
    ('/job:worker/task:1/gpu:0', True)
    >>> xb.Device("cpu", 1) == xb.Device.parse("CPU1")
    True
    """

    kind: str
    index: int = 0
    job: str | None = None
    task: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS.values():
            kinds = ", ".join(sorted(set(_KINDS.values())))
            raise DeviceSpellingError(f"unknown kind of device {self.kind!r}; the kinds are {kinds}")
        for what, number in (("device", self.index), ("task", self.task if self.task is not None else 0)):
            if type(number) is not int or not 0 <= number < _LARGEST:
                raise DeviceSpellingError(f"{what} number {number!r} is no whole number from 0 to {_LARGEST - 1}")
        if self.job is not None and not (isinstance(self.job, str) and _JOB.fullmatch(self.job)):
            raise DeviceSpellingError(f"job {self.job!r} is no name of small letters, digits and _, a letter first")
        if self.job is None and self.task is not None:
            raise DeviceSpellingError(f"task {self.task} has no job; write /job:worker/task:{self.task}/{self.kind}:0")

    @classmethod
    def parse(cls, spelling: str | Device) -> Device:
        """Read any spelling of a device.

        Case, a leading slash, ``device:`` and the colon before the number do not matter; ``cuda``, ``rocm`` and
        ``hip`` are ``gpu``; a missing number is 0, and a task alone means its cpu:0. Raises `DeviceSpellingError` for
        anything else.
        """
        if isinstance(spelling, Device):
            return spelling
        if not isinstance(spelling, str):
            raise DeviceSpellingError(f"{spelling!r} names no device; write for example {SPELLINGS}")
        return cls._read(spelling)

    @classmethod
    @lru_cache(1024)  # the nodes of a program repeat a few names
    def _read(cls, spelling: str) -> Device:
        match = _DEVICE.fullmatch(spelling.strip())
        kind = _KINDS.get((match["kind"] or ("cpu" if match["task"] else "")).lower()) if match else None
        if match is None or kind is None:
            raise DeviceSpellingError(f"{spelling!r} names no device; write for example {SPELLINGS}")
        if match["replica"] not in (None, "0"):
            raise DeviceSpellingError(f"{spelling!r} names replica {match['replica']}; only replica 0 exists")
        index = int(match["index"] or 0)
        task = int(match["task"]) if match["task"] is not None else None
        return cls(kind, index, match["job"].lower() if match["job"] else None, task)

    def __str__(self) -> str:
        job = f"/job:{self.job}" if self.job is not None else ""
        task = f"/task:{self.task}" if self.task is not None else ""
        return f"{job}{task}{'/' if job else ''}{self.kind}:{self.index}"

    @property
    def is_accelerator(self) -> bool:
        """Whether it is another kind than ``cpu``."""
        return self.kind != "cpu"


def is_device(spelling: str) -> bool:
    """Whether the text names a device (and so is no logical name)."""
    try:
        Device.parse(spelling)
    except DeviceSpellingError:
        return False
    return True


def canonical(spelling: str | Device) -> str:
    """The one way to print a device or a logical name. Raises `DeviceSpellingError` for other text."""
    if isinstance(spelling, Device) or is_device(spelling):
        return str(Device.parse(spelling))
    if isinstance(spelling, str) and _LOGICAL.fullmatch(spelling.strip()):
        return spelling.strip()
    raise DeviceSpellingError(
        f"{spelling!r} names neither a device ({SPELLINGS}) nor a logical device (a word such as dev0)"
    )


def default_device(devices: Iterable[Device]) -> Device:
    """The lowest-numbered accelerator, else the lowest-numbered CPU."""
    ranked = sorted(devices, key=lambda d: (not d.is_accelerator, d.kind, d.index))
    if not ranked:
        raise DeviceUnavailable("there is no device at all: none is visible")
    return ranked[0]


def numbers_and_kinds(asked: Sequence[int | str]) -> tuple[list[int], list[str]]:
    """The numbers of devices and their kinds, accelerators first, of a list such as ``["gpu", 1, 2]``. Without a number
    it is one device. Raises `ArgumentError`."""
    kinds = {_KINDS.get(word.lower(), "") for word in asked if isinstance(word, str)}
    numbers = [number for number in asked if not isinstance(number, str)]
    if not asked or "" in kinds or any(type(number) is not int or number < 1 for number in numbers):
        raise ArgumentError(
            f"devices={asked!r}: whole numbers from 1 up are needed, and a kind of device where one is asked for "
            f"({', '.join(dict.fromkeys(_KINDS.values()))})"
        )
    return numbers or [1], sorted(kinds, key=lambda kind: (kind == "cpu", kind))


def visible_of(kinds: Sequence[str], count: int) -> tuple[str, ...] | None:
    """The devices that a process may see. For the kind ``cpu`` alone these are its CPU devices: a visible accelerator
    would be the default device. Otherwise `None`, which means all."""
    return tuple(f"cpu:{i}" for i in range(count)) if [*kinds] == ["cpu"] else None


def choose_visible(devices: Iterable[Device], visible: Iterable[str | Device] | None) -> tuple[Device, ...]:
    """The visible devices, in the order of ``devices``; `None` means all.

    Raises `DeviceUnavailable` when a visible device does not exist.
    """
    there = tuple(devices)
    if visible is None:
        return there
    wanted = [Device.parse(v) for v in (visible.split(",") if isinstance(visible, str) else visible)]
    for device in wanted:
        if device not in there:
            raise DeviceUnavailable(f"visible device {device} is not there; there is {_listing(there)}")
    return tuple(d for d in there if d in wanted)


def _listing(devices: Iterable[Device]) -> str:
    return ", ".join(map(str, devices)) or "none"


class DeviceMap(Mapping[str, Device]):
    """Logical device names bound to devices, like Theano's contexts: ``{"dev0": "cpu:0", "dev1": "cpu:1"}``.

    Also read from text, ``dev0=cpu:0,dev1=cpu:1`` or Theano's own ``dev0->cuda0;dev1->cuda1``. A device can be bound to
    another one, ``{"/gpu:1": "cpu:1"}``: code for two GPUs then runs on a machine without them.

    >>> str(xb.DeviceMap.parse("dev0->cuda0;dev1->cuda1")["dev1"])
    'gpu:1'
    >>> spread = xb.DeviceMap.spread(["dev0", "dev1", "dev2"], [xb.Device("cpu", 0), xb.Device("cpu", 1)])
    >>> str(spread.resolve("dev2", backend.devices))
    'cpu:0'
    """

    def __init__(self, bindings: Mapping[str, str | Device] | None = None) -> None:
        self._bound: dict[str, Device] = {}
        for name, device in (bindings or {}).items():
            logical = canonical(name)
            if logical in self._bound:
                raise DeviceSpellingError(f"{name!r} is bound twice, as other spellings of {logical}")
            self._bound[logical] = Device.parse(device)

    @classmethod
    def parse(cls, bindings: str | Mapping[str, str | Device] | DeviceMap | None) -> DeviceMap:
        """Read bindings in any form. Raises `DeviceSpellingError`."""
        if isinstance(bindings, DeviceMap):
            return bindings
        if bindings is None or isinstance(bindings, Mapping):
            return cls(bindings)
        if not isinstance(bindings, str):
            raise DeviceSpellingError(f"{bindings!r:.80} binds nothing; write {{'dev0': 'cpu:0'}} or dev0=cpu:0")
        bound: dict[str, str] = {}
        for part in filter(None, re.split(r"[;,\s]+", re.sub(r"\s*(->|=)\s*", "=", bindings).strip())):
            name, separator, device = part.partition("=")
            if not separator:
                raise DeviceSpellingError(f"{part!r} binds nothing; write dev0=cpu:0,dev1=cpu:1")
            if name in bound:
                raise DeviceSpellingError(f"{name!r} is bound twice in {bindings!r}")
            bound[name] = device
        return cls(bound)

    @classmethod
    def spread(cls, names: Iterable[str], devices: Iterable[Device]) -> DeviceMap:
        """Bind the names to the devices in turn (round-robin). Raises `DeviceUnavailable` without a device."""
        pool = tuple(devices)
        if not pool:
            raise DeviceUnavailable("there is no device to bind logical names to")
        return cls({name: pool[i % len(pool)] for i, name in enumerate(names)})

    def __getitem__(self, name: str) -> Device:
        return self._bound[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._bound)

    def __len__(self) -> int:
        return len(self._bound)

    def __str__(self) -> str:
        return ",".join(f"{name}={device}" for name, device in self._bound.items())

    def __repr__(self) -> str:
        return f"DeviceMap({str(self)!r})"

    def resolve(self, name: str, available: Iterable[Device], where: str = "") -> Device:
        """The device that a physical or logical name means.

        Raises `UnboundDevice` for a logical name without a binding and `DeviceUnavailable` for a device that is not
        among ``available``; ``where`` (``file:line``) goes into the message.
        """
        there = tuple(available)
        place = f" (asked for at {where})" if where else ""
        if name in self._bound:
            device, said = self._bound[name], f"{name}={self._bound[name]}"
        elif is_device(name):
            device, said = Device.parse(name), name
        else:
            bound = str(self) or "nothing is bound"
            raise UnboundDevice(
                f"logical device {name!r} is not bound{place}; {bound}; compile with "
                f'devices={{"{name}": "{there[0] if there else "cpu:0"}"}}'
            )
        if device not in there:
            hint = ""
            if device.kind == "cpu":
                hint = (
                    f"; open the backend with virtual_devices={device.index + 1} (a command: --devices "
                    f"{device.index + 1}) to have {device}"
                )
            elif where and name not in self._bound and there:
                hint = (
                    f'; bind it to one of these: compile with devices={{"{name}": "{there[0]}"}} (a command: '
                    f"--devices-map {name}={there[0]})"
                )
            raise DeviceUnavailable(f"there is no device {said}{place}; there is {_listing(there)}{hint}")
        return device
