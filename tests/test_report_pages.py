"""A report's pages in a real browser: light and dark, wide and narrow, with hostile text in every field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser import browser
from hypothesis import given, settings
from page_helpers import HTML_TAGS, SVG_TAGS
from playwright.sync_api import Browser, Page
from report_helpers import NASTY, READER, any_results

from xbackend import report
from xbackend.report.said import blocks
from xbackend.report.written import html
from xbackend.results.schema import Results, load
from xbackend.wording import plain

pytestmark = [pytest.mark.needs("browser"), pytest.mark.tier("standard")]

DATA = Path(__file__).parent / "data"
MINIMUM = 4.5  # contrast of text: https://www.w3.org/TR/WCAG22/#contrast-minimum
SCHEMES = ("light", "dark")

# The least contrast of a text with its background, and that text. A label's background in a drawing is the box of its
# group; in a plot it is the page.
CONTRAST = """() => {
    const light = c => { const v = c / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    const parse = s => (s.match(/[\\d.]+/g) || []).map(Number);
    const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
    const behind = e => {
        for (; e; e = e.parentElement) {
            const c = parse(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] > 0) return c;
        }
    };
    let least = [99, ''];
    for (const e of document.querySelectorAll('h1, h2, h3, p, li, a, th, td, strong, pre, summary, figure text')) {
        const style = getComputedStyle(e), inside = e.closest('svg');
        const box = inside && e.previousElementSibling && e.previousElementSibling.tagName === 'rect'
            && parse(getComputedStyle(e.previousElementSibling).fill);
        const back = luminance(box && box.length ? box : behind(e));
        const front = luminance(parse(inside ? style.fill : style.color));
        const contrast = (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
        if (e.textContent.trim() && contrast < least[0]) least = [contrast, e.textContent.slice(0, 60)];
    }
    return least;
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on disk."""
    return report.write(load(DATA / "results.json"), tmp_path_factory.mktemp("report")).parent


@contextmanager
def opened(chromium: Browser, path: Path, width: int = 1280, scheme: Any = "light") -> Iterator[Page]:
    """A page that fetches only files of its folder, and writes nothing to the console."""
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if path.parent.as_uri() not in request.url else None)
    try:
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        yield page
        assert said == []
    finally:
        page.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_stands_out_from_what_is_behind_it(chromium: Browser, folder: Path, scheme: str) -> None:
    with opened(chromium, folder / "report.html", scheme=scheme) as page:
        contrast, words = page.evaluate(CONTRAST)
        assert contrast >= MINIMUM, words
        red, green, blue = map(
            int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))
        )
        assert (red + green + blue > 3 * 128) == (scheme == "light")


def test_a_text_that_does_not_stand_out_would_be_found(chromium: Browser, folder: Path) -> None:
    with opened(chromium, folder / "report.html", scheme="dark") as page:
        page.add_style_tag(content="figure { color: #333333 }")
        assert page.evaluate(CONTRAST)[0] < MINIMUM


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_the_page_is_as_wide_as_the_window_and_tables_scroll(chromium: Browser, folder: Path, width: int) -> None:
    with opened(chromium, folder / "report.html", width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        boxes = page.evaluate("[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth, e.clientWidth])")
        assert len(boxes) > 10 and all(inner <= width for _, inner in boxes)
        cut = [inner < whole for whole, inner in boxes].count(True)
        assert cut > 0 if width > 400 else cut == 0  # no table scrolls on a telephone
        # Scrolling parts are reached with the keyboard too.
        assert page.evaluate("[...document.querySelectorAll('.scroll, figure')].every(e => e.tabIndex === 0)")


@pytest.mark.parametrize("width", [400, 720, 840, 1000, 1280])
def test_tables_of_few_columns_and_plots_are_whole_at_any_width(chromium: Browser, folder: Path, width: int) -> None:
    with opened(chromium, folder / "report.html", width) as page:
        boxes = page.evaluate("[...document.querySelectorAll('.stacks')].map(e => [e.scrollWidth, e.clientWidth])")
        assert len(boxes) >= 4 and all(inner <= whole for inner, whole in boxes)
        page.add_style_tag(content=".stacks td { white-space: nowrap !important }")
        boxes = page.evaluate("[...document.querySelectorAll('.stacks')].map(e => [e.scrollWidth, e.clientWidth])")
        assert any(inner > whole for inner, whole in boxes)  # cut content would be found
        plots = page.evaluate(
            "[...document.querySelectorAll('figure:not(.large)')].map(e => [e.scrollWidth, e.clientWidth])"
        )
        assert len(plots) >= 6 and all(inner <= whole for inner, whole in plots)


SMALLEST = """() => Math.min(...[...document.querySelectorAll('figure:not(.large) text')].map(e => {
    const seen = e.getScreenCTM();
    return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(seen.c, seen.d);
}))"""


def test_text_in_plots_is_large_enough_on_a_narrow_page(chromium: Browser, folder: Path) -> None:
    with opened(chromium, folder / "report.html", 400) as page:
        assert page.evaluate(SMALLEST) >= 8.5
        page.add_style_tag(content="figure svg { width: 50% }")
        assert page.evaluate(SMALLEST) < 8.5


def test_contents_lead_to_their_sections(chromium: Browser, folder: Path) -> None:
    with opened(chromium, folder / "report.html") as page:
        links = page.locator("nav a")
        assert links.count() >= 6
        for i in range(links.count()):
            links.nth(i).click()
            assert page.locator(":target").inner_text() == links.nth(i).inner_text()
            assert page.locator(":target").evaluate("e => Math.abs(e.getBoundingClientRect().top) < innerHeight")


def test_the_page_has_more_pictures_than_lie_beside_it(chromium: Browser, folder: Path) -> None:
    with opened(chromium, folder / "report.html") as page:
        drawn = page.evaluate("[...document.querySelectorAll('figure svg')].map(e => e.getBoundingClientRect().height)")
        assert len(drawn) > len(list(folder.glob("*.svg"))) > 1 and min(drawn) > 100
        # Markers, clip paths and arrow heads are found by ids within their own picture.
        assert page.evaluate(
            """[...document.querySelectorAll('figure use')].every(
                e => e.closest('svg') === document.getElementById(e.href.baseVal.slice(1)).closest('svg'))"""
        )
        widths = page.evaluate("[...document.querySelectorAll('figure use')].map(e => e.getBoundingClientRect().width)")
        assert len(widths) > 50 and max(widths) > 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_markdown_shows_its_pictures(chromium: Browser, folder: Path, scheme: str) -> None:
    colours = "color-scheme: light dark; background: Canvas; color: CanvasText"
    page_of = folder / f"markdown-{scheme}.html"
    body = READER.render((folder / "report.md").read_text())
    page_of.write_text(f'<!DOCTYPE html><meta charset="utf-8"><html style="{colours}"><body>{body}')
    with opened(chromium, page_of, scheme=scheme) as page:
        images = page.evaluate("[...document.images].map(e => [e.complete, e.naturalWidth])")
        assert len(images) == 3 and all(complete and width > 300 for complete, width in images)
        assert page.locator("table").count() >= 4
        assert page.locator("blockquote, table td strong").count() > 0


@dataclass
class Blank:
    """A page for the tests' documents, its requests and its console."""

    page: Page
    said: list[str]

    def show(self, source: str) -> None:
        """Show a document. It may have only a report's elements, and must do nothing."""
        self.page.set_content(source)
        tags = self.page.evaluate("[...new Set([...document.querySelectorAll('*')].map(e => e.tagName.toLowerCase()))]")
        assert set(tags) <= HTML_TAGS | SVG_TAGS
        names = "[...new Set([...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()))]"
        assert not [name for name in self.page.evaluate(names) if name.startswith("on") or name == "src"]
        protocols = set(self.page.evaluate("[...document.links].map(e => e.protocol)"))
        assert protocols <= {"about:", "http:", "https:"}
        assert self.said == []


@pytest.fixture(scope="module")
def blank(chromium: Browser) -> Iterator[Blank]:
    found = Blank(chromium.new_page(), [])
    found.page.on("request", lambda request: found.said.append(request.url))
    found.page.on("dialog", lambda dialog: found.said.append(dialog.message))
    found.page.on("console", lambda message: found.said.append(message.text))
    yield found
    found.page.close()


@given(NASTY)
@settings(max_examples=150)
def test_a_browser_shows_any_text_as_it_is(blank: Blank, foreign: str) -> None:
    table = blocks.table(("a", "b"), [[foreign, blocks.Bold(foreign)]])
    blank.show(html.write([blocks.Heading(1, foreign), blocks.paragraph(foreign), table], {}))
    shown = blank.page.evaluate("['h1', 'p', 'td', 'td strong'].map(s => document.querySelector(s).textContent)")
    assert shown == [plain(foreign)] * 4


@given(any_results())
@settings(max_examples=20)
def test_a_browser_runs_and_fetches_nothing_of_any_results(blank: Blank, found: Results) -> None:
    blank.show(report.render(found)["report.html"].decode())


def test_a_script_that_got_through_would_be_found(blank: Blank) -> None:
    for planted in (
        "<script>console.log(1)</script>",
        '<img src="http://example.com/x.png">',
        "<p onclick='x()'>",
        "<b>",
    ):
        with pytest.raises(AssertionError):
            blank.show(f"<!DOCTYPE html><main>{planted}</main>")
        blank.said.clear()
