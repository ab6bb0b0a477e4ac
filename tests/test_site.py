"""The site, in a real browser: its links, its search, in the dark and on a phone."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from browser import browser
from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent
pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("browser")]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: the addresses are in the tests."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    made = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-t",
        "offline",
        "-c",
        "docs",
        ".",
        str(made),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert built.returncode == 0, built.stderr
    return made


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as started:
        yield started.new_page()


def pages(folder: Path) -> list[str]:
    """The pages, without the address of the site itself, which has the first page once more."""
    every = (path.relative_to(folder) for path in sorted(folder.rglob("*.html")))
    return [str(path) for path in every if "_static" not in path.parts and str(path) != "index.html"]


def test_the_address_of_the_site_has_the_first_page(site: str, page: Page) -> None:
    page.goto(site)
    assert page.url == site and page.inner_text("h1").startswith("xbackend")
    assert page.evaluate("document.styleSheets.length") > 1
    assert page.evaluate("document.images[0].complete && [...document.images].every(image => image.naturalWidth > 0)")
    page.click("article >> text=Start in ten minutes")
    page.wait_for_url(f"{site}docs/start.html")


def test_every_page_fits_a_phone_and_every_link_leads_to_a_page_and_a_place_in_it(
    folder: Path, site: str, page: Page
) -> None:
    links, places = {}, {}
    page.set_viewport_size({"width": 400, "height": 800})
    for name in pages(folder):
        page.goto(site + name, wait_until="domcontentloaded")
        where = page.url
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
        links[where] = page.eval_on_selector_all("a[href]", "all => all.map(a => a.getAttribute('href'))")
        places[urlsplit(where).path] = set(page.eval_on_selector_all("[id]", "all => all.map(e => e.id)"))
    for where, targets in links.items():
        for target in targets:
            address, place = urldefrag(urljoin(where, target))
            path = unquote(urlsplit(address).path)
            if address.startswith(site):
                assert (folder / path.lstrip("/")).exists(), f"{where}: {target}"
                assert not place or path not in places or unquote(place) in places[path], f"{where}: {target}"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("theano multi gpu", "coming_from/theano.html"),
        ("pytensor backend fastest", "questions/which_backend.html"),
        ("mirroredstrategy slower", "coming_from/tf_distribute.html"),
    ],
)
def test_what_people_search_for_is_found(site: str, page: Page, words: str, found: str) -> None:
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(f"{site}search.html?q={words.replace(' ', '+')}")
    page.wait_for_selector(f"#search-results a[href*='{found}']", timeout=30_000)


def test_it_is_dark_where_the_reader_wants_it(site: str, page: Page) -> None:
    sums = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(f"{site}docs/start.html")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")  # rgb(20, 24, 30)
        sums.append(sum(map(int, colour[4:-1].split(","))))
    light, dark = sums
    assert light > 600 and dark < 200
