"""Drawings of programs and of executions, as Mermaid, DOT and SVG."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import Case, programs
from report_helpers import check_svg, graphs

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.backends.executed_graph import executed
from xbackend.backends.placement import Executed, Execution, Placement, Transferred, merge
from xbackend.devices import Device
from xbackend.drawing import dark
from xbackend.drawing import graph as g
from xbackend.drawing.forms import mermaid, written
from xbackend.drawing.layered import _Layout, svg
from xbackend.errors import UsageError
from xbackend.program.binding import Placed, bind

CPU0, CPU1, GPU0 = Device("cpu", 0), Device("cpu", 1), Device("gpu", 0)
SVG = "{http://www.w3.org/2000/svg}"


def two_devices(a: Any, b: Any) -> Any:
    with xb.device("dev0"):
        an = a @ a
    with xb.device("dev1"):
        bn = xb.tanh(b @ b)
    with xb.device("cpu:0"):
        return an + bn


def placed() -> Placed:
    program = xb.trace(two_devices, *[xb.ArraySpec((8, 8), "float32")] * 2)
    return bind(program, xb.DeviceMap({"dev0": CPU0, "dev1": CPU1}), [CPU0, CPU1], CPU0)


def placement(of: Placed, **odd: Executed) -> Placement:
    """The placement of a framework that obeyed, except for these ops."""
    nodes = list(enumerate(zip(of.program.values, of.devices, strict=True)))
    ops = {i: odd.get(n.op, Executed(d)) for i, (n, d) in nodes}
    made = [Transferred(of.devices[n.inputs[0]], d, n.aval.nbytes, i) for i, (n, d) in nodes if n.op == "transfer"]
    return merge(of, Execution(ops, tuple(made)))


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


# --- what was executed ------------------------------------------------------------------------------------------------


def test_a_transfer_is_an_edge_with_its_bytes_and_its_cause() -> None:
    found = executed(placed().program, placement(placed()))
    (edge,) = (e for e in found.edges if e.kind == "transfer")
    ends = [found.boxes[i] for i in (edge.source, edge.target)]
    assert [(box.text.split()[0], box.device) for box in ends] == [("tanh", "cpu:1"), ("add", "cpu:0")]
    assert edge.text == "256 bytes, crossing"
    assert not any(box.text.startswith("transfer") for box in found.boxes)
    assert "256 bytes, crossing" in texts(svg(found))


def test_an_op_that_moved_stands_where_it_ran_and_says_so() -> None:
    found = executed(placed().program, placement(placed(), tanh=Executed(CPU0)))
    (box,) = (b for b in found.boxes if b.mark == "moved")
    assert box == g.Box("tanh float32[8,8] MOVED, asked for cpu:1", "cpu:0", "moved")
    for form, sign in (("svg", 'stroke-width="3.5"'), ("mermaid", "  class n4 moved"), ("dot", "filled,bold")):
        drawn = written(found, form)
        assert sign in drawn and "MOVED, asked for cpu:1" in drawn
        assert sign not in written(executed(placed().program, placement(placed())), form)


@pytest.mark.parametrize(
    ("said", "mark", "words"),
    [
        (Executed(None, status="fused"), "inside", "(fused)"),
        (Executed(CPU1, status="folded"), "inside", "(folded)"),
        (Executed(None), "unread", "(not read)"),
    ],
)
def test_what_is_not_an_op_of_its_own_is_dashed(said: Executed, mark: str, words: str) -> None:
    found = executed(placed().program, placement(placed(), tanh=said))
    (box,) = (b for b in found.boxes if b.text.startswith("tanh"))
    assert (box.text, box.device, box.mark) == (f"tanh float32[8,8] {words}", "cpu:1", mark)
    assert "stroke-dasharray" in svg(found)


def test_the_gradients_of_one_node_stand_on_their_own_devices() -> None:
    def gradients(a: Any, b: Any) -> Any:
        one, other = xb.to_device(a, "cpu:0"), xb.to_device(b, "cpu:1")
        return xb.grad(xb.sum(one * 2.0) + xb.to_device(xb.sum(other * 3.0), "cpu:0"), (one, other))

    program = xb.trace(gradients, *[xb.ArraySpec((2,))] * 2)
    of = bind(program, xb.DeviceMap({}), [CPU0, CPU1], CPU0)
    for found in (g.of_program(program), g.of_program(of.program), executed(of.program, placement(of))):
        assert [box.device for box in found.boxes if box.mark == "result"] == ["cpu:0", "cpu:1"]
    # The second one's own record says where it ran.
    records = placement(of)
    (second,) = (r for r in records.ops if r.node == of.program.outputs[1])
    moved = [replace(r, status="moved", executed="cpu:0") if r is second else r for r in records.ops]
    assert executed(of.program, replace(records, ops=tuple(moved))).boxes[-1].device == "cpu:0"


def test_transfers_that_the_program_did_not_ask_for_go_from_device_to_device() -> None:
    of = placed()
    own = Transferred(GPU0, CPU0, 3 << 20, gradient=True)
    found = executed(of.program, merge(of, Execution({}, (own, own))))
    assert found.links == (g.Link("gpu:0", "cpu:0", "2 transfers, 6 MiB, gradient"),)
    assert found.devices == ("cpu:0", "cpu:1", "gpu:0")
    assert "==>|2 transfers, 6 MiB, gradient|" in mermaid(found)
    assert "gpu:0 to cpu:0: 2 transfers, 6 MiB, gradient" in texts(svg(found))
    (edge,) = (e for e in found.edges if e.kind == "transfer")
    assert edge.text == "no transfer seen (not read)"


@pytest.mark.parametrize("form", ["mermaid", "dot", "svg"])
def test_an_executable_draws_what_it_executed(form: str) -> None:
    with registry.get("numpy").load(Settings(virtual_devices=2)) as backend:
        a = np.ones((8, 8), np.float32)
        run = backend.compile(two_devices, a, a, devices={"dev0": "cpu:0", "dev1": "cpu:1"})
        run(a, a)
        assert "256 bytes" in run.draw(form) and "crossing" in run.draw(form)
        assert run.draw(form) == run.draw(form)
        with pytest.raises(UsageError, match="mermaid, dot or svg"):
            run.draw("png")


# --- forms ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(programs(("dev0", "gpu:1"), grads=True))
def test_every_program_can_be_drawn_as_svg(case: Case) -> None:
    drawn = case.program.draw("svg")
    check_svg(drawn.encode())
    graph = g.of_program(case.program)
    assert graph.sound
    for box in graph.boxes:
        assert box.text in texts(drawn)
    check_layout(graph)


def check_layout(graph: g.Graph) -> None:
    """No box covers another, each is inside of its device's frame, every edge but an update leads down."""
    layout = _Layout(graph)
    frames = {device: (left, left + width) for device, left, width in layout.lanes}
    stretches: dict[int, list[tuple[float, float]]] = {}
    for i, box in enumerate(graph.boxes):
        half = layout.box_width[i] / 2
        left, right = frames[box.device]
        assert left <= layout.x[i] - half and layout.x[i] + half <= right
        stretches.setdefault(layout.layers[i], []).append((layout.x[i] - half, layout.x[i] + half))
    for row in stretches.values():
        assert all(a[1] < b[0] for a, b in itertools.pairwise(sorted(row)))
    assert all(layout.layers[e.source] < layout.layers[e.target] for e in graph.edges if e.kind != "update")
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(sorted(frames.values())))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_foreign_text_in_a_drawing_stays_text(found: g.Graph) -> None:
    if found.sound:
        check_svg(svg(found).encode())
        source = mermaid(found)
        # A character that could end a label, a statement or the fence is written by its number.
        assert not re.search(r"[`<>]", re.sub(r"-->|==>|-\.->", "", source))
        assert all(line.count('"') in (0, 2) for line in source.split("\n"))


@settings(deadline=None)
@given(graphs())
def test_a_graph_as_plain_data_is_read_back(graph: g.Graph) -> None:
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(graph.to_dict())), g.Graph) == graph


def test_each_device_is_a_part_of_the_drawing() -> None:
    two = replace(g.of_program(placed().program), title="2 devices")
    drawn = svg(two)
    assert [t for t in texts(drawn) if re.fullmatch(r"\d devices?|cpu:\d", t)] == ["2 devices", "cpu:0", "cpu:1"]
    source = mermaid(two)
    assert '  subgraph d0["cpu:0"]' in source and '  subgraph d1["cpu:1"]' in source
    assert source.count("classDef c0") == 1 and source.count("classDef c1") == 1


def test_a_device_has_one_colour_and_devices_stand_in_the_order_of_their_numbers() -> None:
    assert g.ordered(["cpu:10", "gpu:0", "cpu:2", "cpu:2"]) == ("cpu:2", "cpu:10", "gpu:0")
    found = g.colours(f"cpu:{i}" for i in range(len(g.PALETTE)))
    assert len(set(found.values())) == len(g.PALETTE)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance"""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted([luminance(one), luminance(other)], reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("outline", "fill"), g.PALETTE)
def test_colours_are_readable_on_a_light_and_on_a_dark_page(outline: str, fill: str) -> None:
    assert contrast(outline, "#ffffff") >= 3 and contrast(outline, "#0d1117") >= 3
    assert contrast(g.INK, fill) >= 7
    assert contrast(dark.DARK[g.INK], dark.DARK[fill]) >= 7


@pytest.mark.parametrize("shade", g.SHADES)
def test_words_on_the_shades_of_a_matrix_are_readable_on_both_pages(shade: str) -> None:
    assert contrast(g.INK, shade) >= 4.5 and contrast(dark.DARK[g.INK], dark.DARK[shade]) >= 4.5


def test_a_picture_has_its_dark_colours_beside_the_light_ones() -> None:
    drawn = svg(g.Graph("t", (g.Box("add", "cpu:0"),), ()))
    rules = drawn.partition("@media (prefers-color-scheme: dark)")[2]
    fill = g.PALETTE[0][1]
    assert f'[fill="{fill}"]' in rules and dark.DARK[fill] in rules and g.SHADES[0] not in rules
    assert (
        dark.either(f"fill: {fill}; stroke: {g.GREY}")
        == f"fill: light-dark({fill}, {dark.DARK[fill]}); stroke: #767676"
    )


def test_bytes_in_words() -> None:
    assert [g.bytes_text(n) for n in (0, 24, 1023, 1024, 1536, 3 << 20, 1 << 42, 1 << 50)] == [
        *("0 bytes", "24 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "3 MiB", "4 TiB", "1024 TiB")
    ]
