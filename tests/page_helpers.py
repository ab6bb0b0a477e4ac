"""For the tests of pages: an independent reader of HTML, and the rules of every page."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import unquote


class Page(HTMLParser):
    """A page as an independent reader sees it: its elements with their attributes, and the text of each cell."""

    EMPTY = ("meta",)

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, int]] = []  # the tag, and its place in the texts
        self.texts: list[tuple[str, str]] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append((tag, len(self.texts)))
            self.texts.append((tag, ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            tag, place = self.open[-1]
            self.texts[place] = (tag, self.texts[place][1] + data)

    def shown(self, *tags: str) -> list[str]:
        """The text of the elements with these tags, without that of nested elements."""
        return [words for tag, words in self.texts if tag in tags]


HTML_TAGS = frozenset(
    [
        *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "strong", "a", "ul", "li"),
        *("nav", "div", "table", "thead", "tbody", "tr", "th", "td", "figure", "pre", "details", "summary"),
    ]
)
SVG_TAGS = frozenset(
    [
        *("svg", "g", "defs", "path", "rect", "circle", "line", "polyline", "polygon", "text", "tspan", "use"),
        *("clippath", "marker"),
    ]
)


def check_page(source: str) -> None:
    """Only the elements of a report, nothing fetched or run, unique ids, and links with a target."""
    page = Page(source)
    assert {tag for tag, _ in page.elements} <= HTML_TAGS | SVG_TAGS
    ids = [str(attributes["id"]) for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on") and name != "src"
            if name == "href":
                assert value is not None
                outside = tag == "a" and value.startswith("https://github.com/")
                assert outside or (value[0] == "#" and unquote(value[1:]) in ids), value
            if name not in ("aria-label", "content", "data-header"):
                assert "url(" not in (value or "").replace("url(#", "")
    assert "@import" not in source.partition("</style>")[0]
    policies = [a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1 and str(policies[0]).startswith("default-src 'none'; style-src 'unsafe-inline';")
