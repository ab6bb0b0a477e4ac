"""How a backend looks in every plot: its own colour and its own marker, by its place in the registry.

The colours were searched for among those that are at least three times as light or dark as a white page and as a dark
one, for the largest of the smallest differences between two of them, as seen by everybody and without red or green
cones (Machado, Oliveira and Fernandes 2009, https://doi.org/10.1109/TVCG.2009.113): 18 in CIELAB. The markers tell
them apart in grey.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from xbackend.backends import registry

COLOURS = (
    *("#2d69b4", "#ff5a00", "#b43c00", "#b4874b", "#5a3cff", "#4b9696", "#4b695a"),
    *("#7887ff", "#5a693c", "#879678", "#3c5ae1", "#6996c3", "#2d6987"),
)
MARKERS = ("o", "s", "D", "^", "*", "v", "P", "X", "<", ">", (4, 1, 0), "d", "p", (6, 1, 0), (3, 1, 0), "H", (8, 1, 0))


def style(backend: str) -> dict[str, Any]:
    """Colour and marker of a backend, or of one with options, as matplotlib's ``plot`` takes them.

    They repeat together after as many backends as there are pairs of the two. A name that is not registered, of stored
    results, has those of a place beyond the registry, always the same.
    """
    names = registry.names()
    plain = registry.base(backend)
    place = names.index(plain) if plain in names else len(names) + crc32(plain.encode(errors="replace")) % 97
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
