"""Foreign text stays text in all parts of a report, and foreign numbers are shown unchanged."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import pytest
import tiers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from page_helpers import HTML_TAGS, SVG_TAGS, Page, check_page
from report_helpers import (
    NASTY,
    READER,
    all_columns,
    any_results,
    check_document,
    check_svg,
    flat,
    history_of,
    markdown_of,
    measured,
    of,
    rows_of,
    shown,
    whole_of,
)

from xbackend import report
from xbackend.report.said import blocks, text
from xbackend.report.said.comparison import build
from xbackend.report.written import html, markdown
from xbackend.results.schema import Results
from xbackend.wording import plain


@given(NASTY)
@example("`|`\\")
@settings(max_examples=tiers.share(400))
def test_text_is_shown_as_it_is(foreign: str) -> None:
    table = blocks.table(("a", "b"), [[foreign, "x"], ["y", foreign]])
    source = markdown.write(
        [blocks.Heading(2, foreign), blocks.paragraph(foreign), table, blocks.Image("f.svg", foreign)]
    )
    expected = plain(foreign)
    assert rows_of(source) == [["a", "b"], [expected, "x"], ["y", expected]]
    tokens = READER.parse(source)
    inline = [shown(t) for t in tokens if t.type == "inline"]
    # An empty paragraph leaves nothing.
    assert inline[0] == expected and (not expected or inline[1] == expected)
    kinds = {t.type for t in flat(tokens)}
    assert not kinds & {"html_inline", "html_block", "link_open", "em_open", "strong_open", "s_open"}
    assert not kinds & {"fence", "code_block", "hr", "bullet_list_open", "ordered_list_open", "blockquote_open"}
    assert sum(t.type == "image" for t in flat(tokens)) == 1


@pytest.mark.tier("standard")
@given(any_results())
@settings(max_examples=tiers.share(400))
def test_any_text_and_number_in_any_field_gives_a_sound_document(found: Results) -> None:
    check_document(markdown_of(found))
    check_document(whole_of(found))
    headers, rows = all_columns(found)
    assert all(len(row) == len(headers) for row in rows) and len(rows) == len(found.measurements)
    assert not any(ord(c) < 32 for row in rows for cell in row for c in cell)


@pytest.mark.tier("standard")
@given(any_results())
@settings(max_examples=25)
def test_any_text_and_number_in_any_field_gives_sound_plots_and_a_sound_page(found: Results) -> None:
    for name, data in report.render(found).items():
        assert re.fullmatch(r"report\.(md|html)|[a-z0-9-]+\.svg", name)
        if name.endswith(".svg"):
            check_svg(data)
    check_page(report.render(found)["report.html"].decode())


@given(NASTY)
@example("<script>alert(1)</script>")
@example("javascript:alert(1)")
@example("data:text/html,<script>alert(1)</script>")
@example("VBScript:x")
@settings(max_examples=tiers.share(400))
def test_text_is_shown_as_it_is_on_a_page(foreign: str) -> None:
    table = blocks.table(("a", foreign), [[foreign, blocks.Bold(foreign)]], right=("a",))
    written: list[blocks.AnyBlock] = [
        *(
            blocks.Heading(2, foreign),
            blocks.paragraph(foreign),
            blocks.Paragraph((foreign,), notice=True),
            *blocks.points([[foreign]]),
        ),
        *(
            table,
            blocks.Image("f.svg", foreign),
            *blocks.points([[blocks.Hyperlink("", foreign)]]),
        ),
    ]
    picture = b'<svg xmlns="http://www.w3.org/2000/svg"><title>t</title></svg>'
    source = html.write(written, {"f.svg": picture})
    page, expected = Page(source), plain(foreign)
    for tags, times in ((("title", "h2"), 2), (("th",), 1), (("td", "strong"), 2), (("li",), 1), (("p",), 2)):
        shown = [words for words in page.shown(*tags) if words not in ("", "a")]
        assert shown == [expected] * times * (expected not in ("", "a")), tags
    labels = [str(a["aria-label"]) for tag, a in page.elements if tag == "svg"]
    assert labels == [expected]
    addresses = [str(a["href"]) for _, a in page.elements if "href" in a]
    assert not any(re.match(r"(?!https?:)[a-zA-Z][a-zA-Z0-9+.-]*:", address) for address in addresses)
    assert {tag for tag, _ in page.elements} <= HTML_TAGS | SVG_TAGS


@given(NASTY, NASTY)
def test_a_picture_keeps_to_itself_on_a_page(name: str, words: str) -> None:
    hostile = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload={quoteattr(name)}>'
        f"<style>* {{color: red}}</style><script>alert(1)</script><a href={quoteattr(name)}><text>in</text></a>"
        f'<g id="a"/><use xlink:href="#a" fill="url(#b)"/><text fill="#767676">{escape(plain(words))}</text>'
        f"<foreignObject><p>in</p></foreignObject></svg>"
    ).encode()
    try:
        made = html.inline(hostile, "p.", words)
    except ElementTree.ParseError:  # our pictures have no text that XML cannot hold
        return
    tree = ElementTree.fromstring(made)
    assert [element.tag for element in tree] == ["g", "use", "text"]
    assert "onload" not in tree.attrib and tree.attrib["aria-label"] == plain(words)
    assert tree[0].attrib == {"id": "p.a"}
    assert tree[1].attrib == {"href": "#p.a", "fill": "url(#p.b)"}
    assert tree[2].attrib == {"fill": "currentColor"} and (tree[2].text or "") == plain(words)


@pytest.mark.tier("standard")
@given(any_results(), any_results(), st.lists(st.tuples(NASTY, NASTY), max_size=2))
@settings(max_examples=25)
def test_any_text_and_number_in_any_run_gives_a_sound_history(
    one: Results, other: Results, bad: list[tuple[str, str]]
) -> None:
    files = history_of([one, other, one], None, bad)
    check_document(files["history.md"].decode())
    check_page(files["history.html"].decode())
    for name, data in files.items():
        assert re.fullmatch(r"history\.(md|html)|history-[a-z0-9-]+\.svg", name)
        if name.endswith(".svg"):
            check_svg(data)


def test_labels_are_not_mathematics() -> None:
    small = [measured("_$x", [0.1, 0.2]), measured("$\\frac$", [0.1]), measured("日本", [1.0])]
    found = of(*small, measured("_$x", [0.3], parameters={"size": 16}))
    files = build(found, None)[1]
    assert ">_$x<" in files["medians-01-matpow.svg"].decode()
    assert ">_$x<" in files["sizes-01-matpow.svg"].decode()


def test_the_shortest_and_the_longest_times_that_can_be_stored_are_drawn() -> None:
    odd = [measured("around", [1e-11, 1e9, 1.0]), measured("usual", [0.25, 1.0]), measured("none", [])]
    files = build(of(*odd, measured("usual", [1.0], parameters={"size": 16})), None)[1]
    words = files["medians-01-matpow.svg"].decode()
    assert ">500.0<" in words and words.count("no time") == 1
    check_svg(files["sizes-01-matpow.svg"])


# Units.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[
            (None, text.NOTHING),
            (math.nan, "nan"),
            (-math.inf, "-inf"),
            (0.0, "0"),
            (0.99961, "1.00"),
            (1234.0, "1230"),
        ],
        *[(9.996, "10.0"), (-2.5, "-2.50"), (1e-9, "1.00e-09"), (1e9, "1.00e+09")],
    ],
)
def test_numbers(value: float | None, expected: str) -> None:
    assert text.number(value) == expected


def test_units_of_time() -> None:
    assert [text.time(t) for t in (2.0, 2e-3, 2e-6, 2e-9)] == ["2.000 s", "2.000 ms", "2.000 µs", "2.000 ns"]
    assert text.time_unit([None, math.nan, 1e-5, 2e-3, 3.0]) == ("ms", 1e-3)


def test_names_in_a_picture_do_not_depend_on_the_last_bit_of_a_place() -> None:
    from xbackend.report.drawn.canvas import _tidy

    drawn = "".join(f'<g clip-path="url(#p{{{n}}})"/><clipPath id="p{{{n}}}"></clipPath>' for n in range(2))
    assert _tidy(drawn.format("73e2c7a211", "dcfd873e38")) == _tidy(drawn.format("b2cd10e1b1", "b83188d9a7"))
    assert _tidy(drawn.format("73e2c7a211", "dcfd873e38")).count(b"url(#clip1)") == 1
