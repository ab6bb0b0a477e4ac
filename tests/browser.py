"""A real browser for the tests of pages: the operating system's Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def executable() -> str:
    """The path of the browser. Raises `FileNotFoundError`, which says what to type, if there is none."""
    found = os.environ.get("XBACKEND_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise FileNotFoundError(
            f"these tests need a browser, and none of {', '.join(NAMES)} is on the PATH: "
            "apt-get install chromium-headless-shell, or give the path of another Chromium in XBACKEND_CHROMIUM"
        )
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable())
        try:
            yield started
        finally:
            started.close()
