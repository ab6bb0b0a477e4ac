"""The site of the documents: ``sphinx-build -W -c docs . build/site``, with the root of the repository as source.

So documents and reports link to each other as they do in the repository. The pages in `docs/made` are written by
`pages.py` before each build.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pages  # noqa: E402

import xbackend  # noqa: E402

project = "xbackend"
author = copyright = "the xbackend developers"
version = release = xbackend.__version__
root_doc = "docs/index"
include_patterns = ["docs/**", "reports/**", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
extensions = ["myst_parser", "sphinx.ext.intersphinx"]

myst_heading_anchors = 4
# `-t offline` builds where the frameworks' own documents cannot be reached.
elsewhere = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "jax": "https://docs.jax.dev/en/latest",
    "pytensor": "https://pytensor.readthedocs.io/en/latest",
    "pymc": "https://www.pymc.io/projects/docs/en/stable",
}
offline = tags.has("offline")  # type: ignore[name-defined]  # noqa: F821  # Sphinx defines it
intersphinx_mapping = {} if offline else {name: (address, None) for name, address in elsewhere.items()}
default_role = "code"  # as the docstrings are written

html_theme = "pydata_sphinx_theme"
html_title = "xbackend"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": True,
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

pages.write(HERE / "made")


def first(app: Any, error: Exception | None) -> None:
    """Write the first page at the address of the site itself, too; its links stay those of its own folder."""
    if error is None and app.builder.format == "html":
        page = Path(app.outdir, f"{root_doc}.html").read_text()
        base = f'<head><base href="{root_doc}.html">'
        Path(app.outdir, "index.html").write_text(page.replace("<head>", base, 1))


def setup(app: Any) -> None:
    app.connect("build-finished", first)
