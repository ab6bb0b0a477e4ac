"""The canvas of pictures: SVG, the same bytes for the same data, readable on light and dark pages, self-contained.

matplotlib is imported when the first plot is drawn. Text stays text: it can be searched and takes the reader's font.
The background is transparent; text and axes are a grey that stands out from white and from black.

A backend has its own colour and its own marker. Every colour has a contrast of three or more to a white page and to a
dark one. Any two differ by 18 or more in CIELAB, with full vision and without red or green cones (Machado, Oliveira and
Fernandes 2009, https://doi.org/10.1109/TVCG.2009.113). The markers tell them apart in grey.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from xbackend.backends import registry
from xbackend.drawing import dark
from xbackend.drawing.graph import GREY, PALETTE
from xbackend.interrupts import put_off
from xbackend.wording import plain

_WIDTH = 4.4  # inches: on a page of 400 pixels nearly as drawn
COLOURS = tuple(outline for outline, _ in PALETTE)
BACKENDS = (
    *("#2d69b4", "#ff5a00", "#b43c00", "#b4874b", "#5a3cff", "#4b9696", "#4b695a"),
    *("#7887ff", "#5a693c", "#879678", "#3c5ae1", "#6996c3", "#2d6987", "#4b96e1"),
)
_MARKERS = ("o", "s", "D", "^", "*", "v", "P", "X", "<", ">", (4, 1, 0), "d", "p", (6, 1, 0), (3, 1, 0), "H", (8, 1, 0))
_GREY = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "grid.color", "legend.labelcolor")
_STYLE: Any = dict.fromkeys((*_GREY, "text.color", "xtick.color", "ytick.color"), GREY) | {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "xbackend",
    "text.parse_math": False,
}


def style(backend: str) -> dict[str, Any]:
    """Colour and marker of a backend, or of one with options, as matplotlib's ``plot`` takes them.

    An unregistered name of stored results has those of a place beyond the registry, always the same.
    """
    names = registry.names()
    base = registry.base(backend)
    place = names.index(base) if base in names else len(names) + crc32(base.encode(errors="replace")) % 97
    return {"color": BACKENDS[place % len(BACKENDS)], "marker": _MARKERS[place % len(_MARKERS)]}


@contextmanager
def canvas(height: float) -> Iterator[tuple[Any, Callable[[str], bytes]]]:
    """A figure of this height in inches, and a function that makes titled SVG of it, under settings of its own."""
    with put_off():
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        # Scripts that DejaVu lacks are laid out with a box and shown in the reader's own font.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)

        def finish(title: str) -> bytes:
            file = io.BytesIO()
            metadata = {"Title": plain(title), "Date": None, "Creator": None, "Format": None, "Type": None}
            figure.savefig(file, format="svg", transparent=True, metadata=metadata)
            return _tidy(file.getvalue().decode())

        yield figure, finish


def _tidy(svg: str) -> bytes:
    """Without type declaration and metadata, whose addresses a viewer might fetch, and with stable names."""
    svg = re.sub(r"<!DOCTYPE[^>]*>\n", "", svg, count=1)
    # Matplotlib names a clip path by a hash of its place, which the layout does not always repeat to the last bit.
    for number, name in enumerate(re.findall(r'<clipPath id="(p[0-9a-f]+)">', svg)):
        svg = svg.replace(f'="{name}">', f'="clip{number}">').replace(f"url(#{name})", f"url(#clip{number})")
    svg = re.sub(r" <metadata>.*?</metadata>\n", "", svg, count=1, flags=re.DOTALL)
    return svg.replace("</style>", f"</style>{dark.style(svg)}", 1).encode()
