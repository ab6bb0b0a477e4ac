"""A report can be read whole: short, each cause of a doubt once, no accidental links; and its pictures."""

from __future__ import annotations

import itertools
import math
import os
import random
import re
import subprocess
import sys
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import example, given
from report_helpers import READER, flat, markdown_of, measured, of, tables_of, whole_of
from store_helpers import beside

from xbackend.analysis.comparison import Comparison, comparisons
from xbackend.analysis.scaling import scalings
from xbackend.analysis.statistics import Ratio, Verdict, interval
from xbackend.backends import registry
from xbackend.report.drawn import axes as shared
from xbackend.report.drawn import canvas, ratios, timelines, times
from xbackend.report.said import blocks, doubts, tables, text
from xbackend.report.written import markdown, writing
from xbackend.results.schema import Measurement, Parity, Profile, Results

MOST = 250  # lines of all backends at two sizes, on one and two devices
WARNINGS = (
    "{} of 15 rounds took more than 2 times as long as usual: close other programs, and measure again",
    "rounds differ by {} % (up to 10 % is fine): close other programs, and measure again",
    "rounds last 0.{} ms, under 1 ms: measure a larger size",
    "other processes kept 0.{} cores busy meanwhile: end them and measure again",
)


def every_backend(sizes: tuple[int, ...] = (128, 512), devices: tuple[int, ...] = (1, 2)) -> Results:
    """All registered backends with profiles, placement and warnings; one is missing and one failed."""
    generator = random.Random(0)
    rows = []
    parity = Parity(relative_error=4e-7, tolerance=3e-5, inputs="ab12" * 16, ulps=6.3)
    for size, (i, backend), many in itertools.product(sizes, enumerate(registry.names()), devices):
        parameters = {"size": size, "n": 10, "dtype": "float32", "method": "chain"}
        seconds = 1e-9 * size**2 * (1 + i / 10) * (1 if many == 1 else 0.5 + i / 20)
        medians = [seconds * generator.uniform(0.9, 1.1) for _ in range(5)]
        said = [words.format(generator.randrange(10, 20)) for words in WARNINGS]
        row = measured(
            backend, medians, many, parameters=parameters, parity=parity, warnings=said, **_executed(i, many)
        )
        if i >= len(registry.names()) - 2:
            status = ("missing", "failed")[i % 2]
            row = msgspec.structs.replace(row, status=status, processes=[], reason=f"{backend} is not there")
        rows.append(_profiled(row, seconds, many))
    return of(*rows)


def _executed(number: int, many: int) -> dict[str, Any]:
    """A placement that differs between backends, as with fused ops."""
    devices = [f"cpu:{n % many}" for n in range(12)]
    record = {"op": "matmul", "asked": "dev0", "framework_op": "", "evidence": "test"}
    ops = [
        {**record, "node": n, "bound": d, "executed": d, "status": "fused" if n < number else "as asked"}
        for n, d in enumerate(devices)
    ]
    boxes = [{"text": f"matmul {number}", "device": device} for device in devices]
    graph = {"title": "matpow", "boxes": boxes, "edges": [{"source": n, "target": n + 1} for n in range(11)]}
    bindings = {f"dev{n}": f"cpu:{n % many}" for n in range(2)}
    return {"placement": {"ops": ops, "transfers": [], "graph": graph}, "bindings": bindings}


def _profiled(row: Measurement, seconds: float, many: int) -> Measurement:
    spans = [(f"cpu:{n}", 0.0, seconds, "compute", "matmul") for n in range(many)]
    busy = {device: seconds for device, *_ in spans}
    profile = Profile(
        wall=seconds, busy=busy, transfers=0.0, exposed=0.0, together=seconds * (many > 1), count=many, spans=spans,
        call=seconds, launch=0.0, compute=seconds, wait=0.0,
    )  # fmt: skip
    processes = [msgspec.structs.replace(beside(p, own_cores=2.0), profile=profile) for p in row.processes]
    return msgspec.structs.replace(row, processes=processes)


@pytest.fixture(scope="module")
def everything() -> Results:
    return every_backend()


# Short, and nothing lost.


def test_a_report_of_all_backends_is_at_most_250_lines(everything: Results) -> None:
    document = markdown_of(everything)
    assert len(document.splitlines()) <= MOST
    # The planted fault: with all of the page's content it is far longer.
    assert len(whole_of(everything).splitlines()) > 2 * MOST


def test_the_document_says_what_it_leaves_to_the_page(everything: Results) -> None:
    document = markdown_of(everything)
    (pointer,) = (line for line in document.splitlines() if line.startswith("In `report.html`"))
    for what in (
        "phases",
        "parity",
        "ledger",
        "placement of every op",
        "order of the processes",
        "warnings row by row",
    ):
        assert what in pointer
    hidden = {row for table in tables_of(whole_of(everything)) for row in map(tuple, table)}
    assert hidden > {row for table in tables_of(document) for row in map(tuple, table)}
    assert "report.html" not in markdown.write([blocks.Pointer("report.html")])


def test_a_folded_part_that_has_nothing_is_not_there() -> None:
    left = blocks.OnPage("what", (blocks.paragraph("on the page"),))
    written = [
        blocks.Folded("empty", ()),
        blocks.Folded("left", (left,)),
        blocks.Folded("a <b>", (blocks.Heading(3, "x"),)),
    ]
    assert markdown.write(written) == "<details><summary>a &lt;b&gt;</summary>\n\n### x\n\n</details>\n"
    opened = [
        block.title for block in writing.flat(written, page=True) if isinstance(block, blocks.Fold) and block.title
    ]
    assert opened == ["left", "a <b>"]


def test_what_is_left_to_the_page_is_said_once_also_from_within_a_fold() -> None:
    phases, parity = (blocks.OnPage(what, (blocks.paragraph("x"),)) for what in ("phases", "parity"))
    empty = blocks.OnPage("nothing", ())
    parts = [blocks.Folded("a fold", (phases, parity)), parity, empty, blocks.Pointer("report.html")]
    (written,) = writing.flat(parts, page=False)
    assert isinstance(written, blocks.Paragraph) and written.parts[-1] == "phases and parity."
    assert [type(block) for block in writing.flat(parts, page=True)] == [
        blocks.Fold, blocks.Paragraph, blocks.Paragraph, blocks.Fold, blocks.Paragraph,
    ]  # fmt: skip


def test_the_answer_comes_before_the_evidence(everything: Results) -> None:
    document = markdown_of(everything)
    places = [
        document.index(part) for part in ("## Summary", "](ratios-01", "| speed-up", "## Warnings", "## Evidence")
    ]
    assert places == sorted(places)
    assert document.index("](ratios-01") < document.index("| ---")


# The table that is read first.


def table_of(comparison: Comparison, asked: bool = False) -> blocks.Table:
    (table,) = tables.ranking(comparison, asked)
    assert isinstance(table, blocks.Table)
    return table


def test_several_devices_are_ranked_by_their_time_beside_one_device_of_the_same_backend(everything: Results) -> None:
    for comparison in comparisons(everything):
        table = table_of(comparison)
        assert table.headers == ("backend", "devices", "time", tables.SPEEDUP, text.ERROR, "verdict")
        assert [row[:2] for row in table.rows] == [(row.label, str(row.devices)) for row in comparison.ordered]
        assert len(table.rows) == 2 * len(registry.names())
        speedups = {(s.many.label, "2"): text.ratio(s.ratio.inverse) for s in scalings(comparison)}
        assert speedups and {row[:2]: row[3] for row in table.rows if row[3] not in ("1", text.NOTHING)} == speedups
        without = [row for row in table.rows if row[2] == text.NOTHING]
        assert {row[-1] for row in without} == {"missing", "failed"} and without == [*table.rows[-len(without) :]]


def test_a_baseline_that_was_asked_for_is_that_of_all_rows(everything: Results) -> None:
    for comparison in comparisons(everything, "numpy"):
        assert tables.SPEEDUP not in table_of(comparison, asked=True).headers
        (row,) = (row for row in table_of(comparison, asked=True).rows if row[-1] == "baseline")
        assert row[:2] == ("numpy", "1") and row[3] == "1"


def test_one_device_is_ranked_by_its_time() -> None:
    found = of(measured("numpy", [3.0] * 3), measured("a", [2.0] * 3), measured("b", [1.0] * 3), measured("c", []))
    table = table_of(comparisons(found)[0])
    assert [row[0] for row in table.rows] == ["b", "a", "numpy", "c"]
    assert table.rows[0][1] == blocks.Bold("1.000 s") and table.rows[2][-3:] == ("1", text.NOTHING, "baseline")


def test_of_several_numbers_of_devices_each_has_a_row() -> None:
    rows = [measured("a", [4.0 / many * part for part in (0.99, 1.0, 1.01)], many) for many in (1, 2, 4)]
    rows += [measured("b", [5.0] * 3), measured("b", [], 2, status="failed"), measured("b", [], 4, status="missing")]
    (comparison,) = comparisons(of(*rows))
    table = table_of(comparison)
    assert [row[:2] for row in table.rows] == [("a", "4"), ("a", "2"), ("a", "1"), ("b", "1"), ("b", "2"), ("b", "4")]
    over = next(s.ratio.inverse for s in scalings(comparison) if s.devices == 4)
    assert over.low < 4 < over.high
    assert table.rows[0][3] == f"4.00 ({text.number(over.low)} to {text.number(over.high)})"
    assert [row[2] for row in table.rows] == [
        blocks.Bold("1.000 s"),
        "2.000 s",
        "4.000 s",
        "5.000 s",
        *[text.NOTHING] * 2,
    ]
    assert [row[3] for row in table.rows[2:]] == ["1", "1", text.NOTHING, text.NOTHING]
    assert [row[-1] for row in table.rows[2:]] == ["one device", "one device", "failed", "missing"]


# One warning for each cause.


def test_each_cause_is_one_warning_with_its_rows(everything: Results) -> None:
    found = doubts.doubts(comparisons(everything))
    assert sum(len(m.warnings) for m in everything.measurements) > 150
    assert len(found) <= len(WARNINGS) + 1
    rounds = next(d for d in found if "of 15 rounds" in d.cause)
    assert re.match(r"1\d to 1\d of 15 rounds took more than 2 times as long", rounds.cause)
    assert len(rounds.concerned) == len(everything.measurements)
    (line,) = (line for line in markdown_of(everything).splitlines() if "of 15 rounds" in line)
    assert "numpy on 1 device, numpy on 2 devices, tensorflow on 1 device and " in line
    assert f"{2 * len(registry.names()) - 3} more (in 2 of 2 comparisons)" in line


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("1 of 3 took 1.9 times", "2 of 3 took 0.4, 1.5 times", ["1 to 2 of 3 took 0.4 to 1.9 times"]),
        ("9 of 15 rounds", "10 of 15 rounds", ["9 to 10 of 15 rounds"]),
        ("where cpu:0 ran", "where cpu:1 ran", ["where cpu:0 ran", "where cpu:1 ran"]),
        ("float32 is slow", "float64 is slow", ["float32 is slow", "float64 is slow"]),
        ("the cores 0, 1", "the cores 0, 1", ["the cores 0, 1"]),
        ("ended", "closed", ["ended", "closed"]),
        ("a # of its own", "a 3 of its own", ["a # of its own", "a 3 of its own"]),
    ],
)
def test_two_warnings_are_of_one_cause_where_only_numbers_differ(first: str, second: str, expected: list[str]) -> None:
    rows = [measured(name, [1.0], warnings=[said]) for name, said in (("a", first), ("b", second))]
    parity = Parity(relative_error=0.0, tolerance=1.0, inputs="")
    found = of(*(msgspec.structs.replace(row, parity=parity) for row in rows))
    assert [doubt.cause for doubt in doubts.doubts(comparisons(found))] == expected


def test_processes_are_far_apart_as_a_part_of_their_time() -> None:
    rows = [measured("a", [0.001, 0.0012]), measured("b", [10.0, 10.5])]
    found = [d for d in doubts.doubts(comparisons(of(*rows))) if "differ by more than 10 %" in d.cause]
    assert [name for doubt in found for _, name in doubt.concerned] == ["a on 1 device"]


# Names that a forge would make a link of.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("uses tf.distribute, jax.jit and model.py.", ["tf.distribute", "jax.jit", "model.py"]),
        ("by @somebody (see #123, owner/name#4 and GH-5)", ["@somebody", "#123", "owner/name#4", "GH-5"]),
        ("theano 1.0.5.1 at 10.0.0.1", ["1.0.5.1", "10.0.0.1"]),
        ("www.example.com, https://example.com/x?y=1 or a@example.com", None),
        ("in commit b19dbeedb97b", ["b19dbeedb97b"]),
        ("numpy 2.4.6, 0.55 ms, i.e. 3.5 times; cpu:0, run 20261121-103413, 1/2 or pytensor==3.0.7", []),
    ],
)
def test_names_that_a_forge_would_link_are_code(text: str, code: list[str] | None) -> None:
    tokens = list(flat(READER.parse(markdown.escape(text))))
    found = [t.content for t in tokens if t.type == "code_inline"]
    assert found == (text.replace(",", "").replace(" or", "").split() if code is None else code)
    assert "".join(t.content for t in tokens if t.type in ("text", "code_inline")) == text


# The pictures.


def _lab(colour: str, cones: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """A colour in CIELAB, seen through a matrix of linear RGB."""
    linear = [_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5)]
    seen = [min(max(sum(a * b for a, b in zip(row, linear, strict=True)), 0.0), 1.0) for row in cones]
    to_xyz = ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.089))
    x, y, z = (sum(a * b for a, b in zip(row, seen, strict=False)) / row[3] for row in to_xyz)
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# Machado, Oliveira and Fernandes 2009, severity 1: https://doi.org/10.1109/TVCG.2009.113
CONES = {
    "all": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}


def test_every_backend_has_its_own_colour_and_its_own_marker() -> None:
    looks = {name: canvas.style(name) for name in registry.names()}
    for key in ("color", "marker"):
        assert len({look[key] for look in looks.values()}) == len(looks)
    assert canvas.style("pytensor-jax[rewrites=merge]") == looks["pytensor-jax"]
    assert canvas.style("\udc80") != {}  # text that cannot be encoded


def test_a_name_that_is_not_registered_looks_the_same_in_every_process() -> None:
    code = "from xbackend.report.drawn import canvas; print([canvas.style(f'gone {i}') for i in range(9)])"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str([canvas.style(f"gone {i}") for i in range(9)])


def _least(colours: tuple[str, ...], cones: tuple[tuple[float, ...], ...]) -> float:
    """The smallest CIELAB difference between two of the colours."""
    return min(math.dist(p, q) for p, q in itertools.combinations([_lab(colour, cones) for colour in colours], 2))


@pytest.mark.parametrize("cones", CONES)
def test_colours_differ_for_everybody(cones: str) -> None:
    assert _least(canvas.BACKENDS, CONES[cones]) > 15
    assert _least(("#d62728", "#8a6a28"), CONES["no red"]) < 35 < _least(("#d62728", "#8a6a28"), CONES["all"])


@pytest.mark.parametrize("page", ["#ffffff", "#0d1117"])
def test_colours_stand_out_from_light_and_dark_pages(page: str) -> None:
    for colour in canvas.BACKENDS:
        low, high = sorted((_luminance(colour), _luminance(page)))
        assert (high + 0.05) / (low + 0.05) >= 3, colour


def without(panel: ratios.Panel) -> dict[str, str]:
    """The status of each row without a ratio."""
    return {name: row.measurement.status for name, row in panel.rows.items() if name not in panel.ratios}


def test_the_first_picture_shows_the_figures_of_the_analysis(everything: Results) -> None:
    compared = comparisons(everything)
    drawn = ratios.ratios(compared)
    assert drawn is not None and drawn.more_is_better
    assert [panel.title for panel in drawn.panels] == ["size=128", "size=512"]
    for panel, comparison in zip(drawn.panels, compared, strict=True):
        assert panel.ratios == {s.many.label: s.ratio.inverse for s in scalings(comparison)}
        assert panel.ideal == 2
        assert set(without(panel).values()) == {"missing", "failed"}
    words = ratios.picture(drawn, "t").decode()
    order = [words.index(f">{s.many.label}<") for s in sorted(scalings(compared[-1]), key=lambda s: -s.speedup)]
    assert order == sorted(order)  # the last panel decides the order
    assert words.count(">ideal<") == 2 and ">size=512<" in words


def test_without_several_devices_the_first_picture_is_against_the_baseline() -> None:
    found = of(measured("numpy", [1.0, 1.01, 1.02]), measured("a", [2.0] * 3), measured("b", [0.5] * 3))
    drawn = ratios.ratios(comparisons(found))
    assert drawn is not None and not drawn.more_is_better and drawn.axis == "time over that of numpy on 1 device"
    assert list(drawn.panels[0].ratios) == ["a", "b"] and drawn.panels[0].ratios["b"].shown
    assert ratios.ratios(comparisons(of(measured("a", [1.0])))) is None


def test_an_outlier_does_not_flatten_the_first_picture() -> None:
    rows = [measured(f"b{i}", [1 + i / 100] * 3) for i in range(8)]
    found = of(measured("numpy", [1.0] * 3), *rows, measured("far", [90.0] * 3))
    drawn = ratios.ratios(comparisons(found))
    assert drawn is not None
    low, high = ratios._limits(drawn.panels)
    assert 0.4 < low < 1 and 1.07 < high < 3
    assert ">90 \N{RIGHTWARDS ARROW}<" in ratios.picture(drawn, "t").decode()


def test_of_many_comparisons_the_first_picture_shows_the_last_and_says_so() -> None:
    sizes = range(1, 11)
    rows = [measured(name, [t] * 3, parameters={"size": n}) for n in sizes for name, t in (("numpy", 1.0), ("a", 2.0))]
    drawn = ratios.ratios(comparisons(of(*rows)))
    assert drawn is not None and [panel.title for panel in drawn.panels] == [f"size={n}" for n in sizes[2:]]
    words = ratios.reading(drawn)
    assert words.startswith("Farther to the left is faster.") and "the ideal" not in words
    assert words.endswith(" The first 2 comparisons are not in it, but below.")


def test_the_words_of_the_first_picture_say_which_way_is_faster(everything: Results) -> None:
    drawn = ratios.ratios(comparisons(everything))
    assert drawn is not None
    words = ratios.reading(drawn)
    assert words.startswith("Farther to the right is faster.")
    assert words.endswith("the dashed line is the ideal, as many times as there are devices.")


def test_each_number_of_devices_has_a_panel_with_its_own_rows() -> None:
    rows = [measured("a", [4.0 / many] * 3, many) for many in (1, 2, 4)]
    rows += [measured("b", [], many, status="failed") for many in (1, 4)]
    rows.append(measured("c", [], 4, status="missing"))
    drawn = ratios.ratios(comparisons(of(*rows)))
    assert drawn is not None
    assert [(panel.title, panel.ideal) for panel in drawn.panels] == [
        ("matpow, 2 devices", 2),
        ("matpow, 4 devices", 4),
    ]
    assert [panel.ratios["a"].value for panel in drawn.panels] == pytest.approx([2.0, 4.0])
    assert [without(panel) for panel in drawn.panels] == [{"b": "failed"}, {"b": "failed", "c": "missing"}]


def marked(ratio: Ratio) -> mock.MagicMock:
    """Axes from 0.5 to 2 with a ratio on them."""
    axes = mock.MagicMock()
    axes.get_xlim.return_value = (0.5, 2.0)
    ratios._mark(axes, 0, canvas.style("numpy"), ratio, 1)
    return axes


@pytest.mark.parametrize("shown", [True, False])
def test_a_mark_is_full_where_a_difference_is_shown_and_has_its_interval(shown: bool) -> None:
    axes = marked(Ratio(1.5, 1.4, 1.6, Verdict.SLOWER if shown else Verdict.NOT_TOLD_APART, (3, 3)))
    _, interval, point = axes.plot.call_args_list
    assert interval.args == ([1.4, 1.6], [0, 0]) and point.args == ([1.5], [0])
    assert point.kwargs["marker"] == (canvas.style("numpy")["marker"] if shown else "|")
    assert axes.annotate.call_args.args[0] == "1.50 (1.40 to 1.60)"


def test_an_interval_that_leaves_the_axis_ends_in_an_arrow() -> None:
    axes = marked(Ratio(1.5, 0.1, 1.6, Verdict.NOT_TOLD_APART, (3, 3)))
    _, interval, arrow, _ = axes.plot.call_args_list
    assert interval.args == ([0.5, 1.6], [0, 0])
    assert arrow.args == ([0.5], [0]) and arrow.kwargs["marker"] == "<" and not arrow.kwargs["clip_on"]


def test_marks_say_of_how_many_devices_they_are_where_that_differs(everything: Results) -> None:
    drawn = times.medians(comparisons(everything)[-1], "t").decode()
    assert drawn.count(">1<") == drawn.count(">2<") > 3
    (one,) = comparisons(of(measured("numpy", [1.0] * 3), measured("a", [2.0] * 3)))
    assert ">1<" not in times.medians(one, "t").decode().replace("axis", "")
    axes = mock.MagicMock()
    times._ends(axes, {1: (8.0, 100.0), 2: (8.0, 190.0), 4: (8.0, 110.0)})
    assert [call.args[0] for call in axes.annotate.call_args_list] == ["1, 4", "2"]


def test_sizes_that_would_touch_are_left_out_below_a_panel() -> None:
    assert times._that_fit([128.0, 512.0, 1024.0, 2048.0]) == ["128", "512", "", "2048"]
    assert times._that_fit([1.0, 10.0, 100.0]) == ["1", "10", "100"]


def test_one_and_the_ideal_are_lines() -> None:
    axes = mock.MagicMock()
    ratios._background(axes, ratios.Panel("t", {}, {}, 4), 1)
    assert [call.args[0] for call in axes.axvline.call_args_list] == [1, 4]


def test_a_ratio_that_is_not_shown_to_differ_is_no_shown_one() -> None:
    rows = {"numpy": [1.0, 1.01, 1.02], "faster": [0.5, 0.51, 0.52], "slower": [2.0, 2.01, 2.02]}
    rows |= {"not told apart": [0.5, 1.0, 2.1], "once": [1.1]}
    drawn = ratios.ratios(comparisons(of(*(measured(name, each) for name, each in rows.items()))))
    assert drawn is not None
    assert [name for name, ratio in drawn.panels[0].ratios.items() if ratio.shown] == ["faster", "slower"]


def test_the_axis_of_times_is_logarithmic_where_an_outlier_would_flatten_the_rest() -> None:
    near = [measured(f"b{i}", [1 + i / 10] * 3) for i in range(4)]
    (one,), (other,) = (comparisons(of(*near, *more)) for more in ((), (measured("far", [9.0] * 3),)))
    assert "logarithmic" not in times.medians(one, "t").decode()
    assert "logarithmic" in times.medians(other, "t").decode()


@given(st.lists(st.floats(1e-9, 1e3), min_size=3, max_size=5), st.integers(1, 10**12))
@example([0.1] * 3, 3)
def test_no_bar_reaches_the_wrong_way(times: list[float], operations: int) -> None:
    (row,) = comparisons(of(measured("a", times, operations=operations)))[0].ranked
    assert row.time is not None and row.gflops is not None
    first, last = interval(row.times) or (0.0, 0.0)
    ((below,), (above,)), ((less,), (more,)) = shared.errors([row]), shared.errors([row], rated=True)
    assert min(below, above, less, more) >= 0.0 and less <= row.gflops and more < math.inf
    assert (row.time - below, row.time + above) == pytest.approx((first, last), rel=1e-6)
    assert row.gflops - less == pytest.approx(row.gflops * row.time / last, rel=1e-6, abs=1e-9 * row.gflops)
    assert row.gflops + more == pytest.approx(row.gflops * row.time / first, rel=1e-6)


def test_every_backend_has_a_panel_of_its_own(everything: Results) -> None:
    (series,) = times.over_sizes(comparisons(everything)).values()
    words = times.sizes(series, "t").decode()
    for m in everything.measurements:
        assert words.count(f">{m.backend}<") == (m.status == "ok")


def test_timelines_share_one_axis_of_time(everything: Results) -> None:
    comparison = comparisons(everything)[-1]
    drawn = timelines.timelines(comparison, 2)
    words = timelines.picture(drawn, "t").decode()
    assert len(drawn) > 8 and words.count("time (") == 1 and "goes on to" not in words
    slow = msgspec.structs.replace(drawn[-1].profile, wall=20 * drawn[0].profile.wall)
    longer = [*drawn[:-1], timelines.Timeline(drawn[-1].row, slow, drawn[-1].devices, "")]
    assert timelines.picture(longer, "t").decode().count("goes on to") == 1
