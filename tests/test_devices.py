"""Devices: spellings of all frameworks, the binding of logical names, present and missing devices."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given
from strategies import devices

import xbackend as xb
from xbackend.devices import Device, DeviceMap, canonical, choose_visible, default_device, is_device
from xbackend.errors import DeviceSpellingError, DeviceUnavailable, UnboundDevice
from xbackend.program.binding import spread

SPELLINGS = {
    "/gpu:1": "gpu:1",
    "GPU:1": "gpu:1",
    "gpu1": "gpu:1",
    "cuda1": "gpu:1",
    "cuda:1": "gpu:1",
    "cuda": "gpu:0",
    "gpu": "gpu:0",
    "cpu": "cpu:0",
    " cpu:0\n": "cpu:0",
    "/device:GPU:1": "gpu:1",
    "device:gpu:1": "gpu:1",
    "ROCM:3": "gpu:3",
    "tpu:007": "tpu:7",
    "/job:worker/replica:0/task:1/device:GPU:1": "/job:worker/task:1/gpu:1",
    "/job:localhost/replica:0/task:0/device:CPU:0": "/job:localhost/task:0/cpu:0",
    "job:ps/task:2/cpu:0": "/job:ps/task:2/cpu:0",
    "/job:ps/cpu:0": "/job:ps/cpu:0",
    "/JOB:Worker/TASK:1/DEVICE:gpu:1": "/job:worker/task:1/gpu:1",
}
GARBAGE: tuple[Any, ...] = (
    "", " ", "dev0", "gpu:", "gpu:-1", "gpu:one", "gpu:1:2", "gpu 1", "//gpu:1", "gpu:1/", "gpu:1.0", "fpga:0",
    "/task:1/gpu:0", "/replica:1/gpu:0", "/job:/gpu:0", "/job:a b/gpu:0", "job:workergpu:0", "/job:worker", "cpu:1e3",
    "cpu:٣", "\u017fpu:0", "cpu:" + "9" * 5000, "cpu:0\ncpu:1", None, 0, 1.5, b"cpu:0", ["cpu:0"], ("cpu", 0), object(),
)  # fmt: skip


@pytest.mark.parametrize(("spelling", "printed"), SPELLINGS.items())
def test_each_spelling_is_understood_and_printed_in_one_way(spelling: str, printed: str) -> None:
    assert str(Device.parse(spelling)) == printed
    assert canonical(spelling) == printed
    assert is_device(spelling)


@given(devices())
def test_what_is_printed_is_read_back_as_the_same_device(device: Device) -> None:
    assert Device.parse(str(device)) == device
    assert Device.parse(device) is device
    assert hash(Device.parse(str(device))) == hash(device)


@given(devices(), st.tuples(*[st.booleans()] * 4), st.integers(0, 3), st.data())
def test_every_variant_of_a_spelling_is_the_same_device(
    device: Device, variant: tuple[bool, bool, bool, bool], case: int, data: st.DataObject
) -> None:
    slash, word, colon, replica = variant
    kind = data.draw(st.sampled_from(["gpu", "cuda", "rocm", "hip"])) if device.kind == "gpu" else device.kind
    text = f"{'device:' if word else ''}{kind}{':' if colon else ''}{device.index}"
    if device.job is not None:
        task = f"/task:{device.task}" if device.task is not None else ""
        text = f"{'/' if slash else ''}job:{device.job}{'/replica:0' if replica else ''}{task}/{text}"
    elif slash:
        text = f"/{text}"
    text = [text, text.upper(), text.title(), f"  {text} "][case]
    assert Device.parse(text) == device


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda g: repr(g)[:20])
def test_what_names_no_device_is_a_spelling_error_that_shows_spellings(garbage: Any) -> None:
    with pytest.raises(DeviceSpellingError):
        Device.parse(garbage)
    with pytest.raises(DeviceSpellingError, match="cpu:0, /gpu:1, GPU:1, gpu1, cuda1"):
        Device.parse("fpga:0")


@given(st.text() | st.from_regex(r"/?(job:\w+)?(/replica:\w+)?(/task:\w+)?/?(device:)?(cpu|gpu|cuda):?\w*"))
@example("cpu:²")
@example("/job:K/gpu:1")
def test_text_is_a_device_or_a_spelling_error_and_nothing_else(text: str) -> None:
    try:
        device = Device.parse(text)
    except DeviceSpellingError:
        assert not is_device(text)
    else:
        assert Device.parse(str(device)) == device


@given(st.text() | st.integers() | st.none() | st.binary() | st.floats())
def test_a_device_or_logical_name_is_printed_in_one_way_or_refused(text: Any) -> None:
    try:
        printed = canonical(text)
    except DeviceSpellingError:
        return
    assert canonical(printed) == printed


@pytest.mark.parametrize(
    "arguments",
    [("CPU",), ("",), ("cpu", -1), ("cpu", True), ("cpu", "0"), ("cpu", 1.0), ("cpu", 10**9), ("gpu", 0, None, 1),
     ("gpu", 0, "a b"), ("gpu", 0, ""), ("gpu", 0, "Worker"), ("gpu", 0, "worker", -1), ("gpu", 0, 3)],
)  # fmt: skip
def test_a_device_that_could_not_be_read_back_cannot_be_made(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(DeviceSpellingError):
        Device(*arguments)


@pytest.mark.parametrize(
    "bindings",
    [
        {"dev0": "cpu:0", "dev1": "/gpu:1"},
        {"dev0": Device("cpu"), "dev1": Device("gpu", 1)},
        DeviceMap({"dev0": "cpu:0", "dev1": "gpu:1"}),
        "dev0=cpu:0,dev1=gpu:1",
        "dev0->cpu;dev1->cuda1",
        " dev0 = cpu0 , dev1 -> GPU:1 ",
        "dev0=cpu:0 dev1=gpu:1",
    ],
)
def test_all_forms_of_bindings_mean_the_same(bindings: Any) -> None:
    found = DeviceMap.parse(bindings)
    assert dict(found) == {"dev0": Device("cpu"), "dev1": Device("gpu", 1)}
    assert str(found) == "dev0=cpu:0,dev1=gpu:1"
    assert DeviceMap.parse(str(found)) == found
    assert len(found) == 2 and list(found) == ["dev0", "dev1"]


@given(st.dictionaries(st.from_regex(r"ctx[a-z0-9_.]{0,5}", fullmatch=True), devices(), max_size=4))
def test_bindings_are_read_back_from_what_is_printed(bindings: dict[str, Device]) -> None:
    assert DeviceMap.parse(str(DeviceMap(bindings))) == bindings


@pytest.mark.parametrize("bindings", [None, "", {}, " ; "])
def test_nothing_bound_is_an_empty_map(bindings: Any) -> None:
    assert len(DeviceMap.parse(bindings)) == 0


@pytest.mark.parametrize(
    ("bindings", "said"),
    [
        ("dev0", "binds nothing"),
        ("dev0=", "names no device"),
        ("=cpu:0", "neither a device"),
        ("dev0=cpu:0,dev0=cpu:1", "bound twice"),
        ("gpu:0=cpu:0,/gpu:0=cpu:1", "'/gpu:0' is bound twice, as other spellings of gpu:0"),
        ({"GPU1": "cpu:0", "gpu:1": "cpu:0"}, "bound twice"),
        ({"dev0": "dev1"}, "names no device"),
        ({"dev0": 3}, "names no device"),
        ({3: "cpu:0"}, "neither a device"),
        (3, "binds nothing"),
        (["dev0"], "binds nothing"),
    ],
)
def test_bindings_that_make_no_sense_are_refused(bindings: Any, said: str) -> None:
    with pytest.raises(DeviceSpellingError, match=said):
        DeviceMap.parse(bindings)


def test_names_are_spread_over_devices_in_turn() -> None:
    cpus = [Device("cpu", i) for i in range(2)]
    assert str(DeviceMap.spread(["a", "b", "c"], cpus)) == "a=cpu:0,b=cpu:1,c=cpu:0"
    assert str(DeviceMap.spread(["a", "b"], cpus[:1])) == "a=cpu:0,b=cpu:0"
    with pytest.raises(DeviceUnavailable, match="no device to bind"):
        DeviceMap.spread(["a"], [])


def test_the_default_device_is_the_lowest_accelerator_else_the_lowest_cpu() -> None:
    parse = Device.parse
    assert default_device(map(parse, ["cpu:0", "gpu:2", "gpu:1", "cpu:1"])) == parse("gpu:1")
    assert default_device(map(parse, ["cpu:3", "cpu:1"])) == parse("cpu:1")
    with pytest.raises(DeviceUnavailable):
        default_device([])


def test_visible_devices_keep_their_own_order() -> None:
    there = [Device("cpu", i) for i in range(3)]
    assert choose_visible(there, None) == tuple(there)
    assert choose_visible(there, ["CPU:2", "/cpu:0"]) == (there[0], there[2])
    assert choose_visible(there, "cpu:1,cpu:2") == (there[1], there[2])
    assert choose_visible(there, []) == ()
    with pytest.raises(DeviceUnavailable, match=r"cpu:7 is not there; there is cpu:0, cpu:1, cpu:2"):
        choose_visible(there, ["cpu:7"])
    with pytest.raises(DeviceSpellingError):
        choose_visible(there, ["dev0"])


def test_a_device_that_is_not_there_is_named_with_those_that_are() -> None:
    there = [Device("cpu"), Device("gpu", 1)]
    bound = DeviceMap({"dev0": "gpu:0"})
    with pytest.raises(DeviceUnavailable, match=r"no device gpu:5 \(asked for at a\.py:3\); there is cpu:0, gpu:1"):
        bound.resolve("gpu:5", there, "a.py:3")
    with pytest.raises(DeviceUnavailable, match=r"no device dev0=gpu:0; there is cpu:0, gpu:1"):
        bound.resolve("dev0", there)
    with pytest.raises(DeviceUnavailable, match=r"virtual_devices=4 .*--devices 4.* to have cpu:3"):
        bound.resolve("cpu:3", there)


def test_a_device_is_bound_to_another_one_and_a_missing_one_says_how() -> None:
    """Code that names a missing device keeps its lines."""
    there = [Device("cpu"), Device("cpu", 1)]
    with pytest.raises(DeviceUnavailable, match=r'devices=\{"gpu:1": "cpu:0"\} \(a command: --devices-map gpu:1='):
        DeviceMap().resolve("gpu:1", there, "a.py:3")
    assert DeviceMap.parse("/gpu:1=cpu:1").resolve("gpu:1", there) == there[1]

    def function(x: Any) -> Any:
        with xb.device("/gpu:1"):
            return x + xb.shared(1.0, device="cuda0")

    bindings = {"/gpu:1": "cpu:1", "gpu:0": "cpu:0"}
    with xb.open("numpy", virtual_devices=2) as backend:
        run = backend.compile(function, 1.0, devices=bindings)
        assert run(1.0) == 2.0
        assert [str(op.bound) for op in run.placement.ops if op.op == "add"] == ["cpu:1"]
    bound, count = spread(xb.trace(function, 1.0), DeviceMap(bindings))
    assert count == 2 and {name: str(device) for name, device in bound.items()} == {"gpu:1": "cpu:1", "gpu:0": "cpu:0"}


def test_a_logical_name_that_is_not_bound_is_named_with_what_to_type() -> None:
    with pytest.raises(UnboundDevice, match=r"'dev1' is not bound.*dev0=cpu:0; compile with devices=\{\"dev1\": "):
        DeviceMap({"dev0": "cpu:0"}).resolve("dev1", [Device("cpu")])
    with pytest.raises(UnboundDevice, match="nothing is bound"):
        DeviceMap().resolve("dev1", [])


def test_the_public_names_are_these() -> None:
    assert xb.Device is Device and xb.DeviceMap is DeviceMap
