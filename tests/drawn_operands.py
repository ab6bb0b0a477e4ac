"""The operands of functions that random graphs are drawn of (`drawn_functions`).

In the code of a function a letter in braces is an operand (`OPERANDS`), and a word is drawn for the first operand
(`CHOSEN`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Drawn:
    """A function.

    Attributes:
        text: its code.
        far: numbers that have to be larger than the margin, code of NumPy: elsewhere the function jumps, or has no
            value.
        kink: the same, where the function has a value everywhere, and elsewhere no gradient that all agree on.
    """

    text: str
    far: str = ""
    kink: str = ""


# What may stand for a letter: kinds of dtypes, the least and the largest rank.
OPERANDS: dict[str, tuple[str, int, int]] = {
    **dict.fromkeys("xyz", ("f", 0, 9)),
    **dict.fromkeys("ij", ("i", 0, 9)),
    **dict.fromkeys("bc", ("b", 0, 9)),
    "a": ("fib", 0, 9),
    "o": ("fi", 0, 9),  # of another dtype than the others, perhaps
    "e": ("fib", 0, 9),  # of the first one's shape and dtype
    "r": ("f", 1, 9),
    "n": ("i", 1, 9),
    "l": ("b", 1, 9),
    "q": ("fib", 1, 9),
    "m": ("f", 2, 9),
    "s": ("f", 2, 9),  # of square matrices
    "v": ("f", 1, 1),
    "w": ("f", 2, 2),
}
_LEADERS = {"y": "x", "z": "x", "j": "i"}  # an operand has the dtype of this one
_BROADCAST = frozenset("xyzijbco")


def fits(letter: str, name: str, chosen: Mapping[str, str], arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether a value may be an operand, beside those that are chosen."""
    kinds, least, largest = OPERANDS[letter]
    array = arrays[name]
    if array.dtype.kind not in kinds or not least <= array.ndim <= largest or array.dtype.name in ("int8", "int16"):
        return False
    if letter == "s":
        return array.shape[-1] == array.shape[-2]
    leader = chosen.get(_LEADERS.get(letter, ""))
    if leader is not None and arrays[leader].dtype != array.dtype:
        return False
    if letter == "e":
        first = arrays[next(iter(chosen.values()))]
        return (first.shape, first.dtype) == (array.shape, array.dtype)
    if letter in _BROADCAST:
        try:
            np.broadcast_shapes(array.shape, *(arrays[n].shape for own, n in chosen.items() if own in _BROADCAST))
        except ValueError:
            return False
    return True


def _key(rng: random.Random, first: np.ndarray) -> str:
    items = []
    for n in first.shape:
        step = rng.choice(["", "", ":2", ":-1", ":-2"])
        start, stop = rng.choice([("", ""), ("1", ""), ("", "-1"), ("-2", ""), ("0", "2")])
        part = f"{start}:{stop}{step}" if "-" not in step else f":{step}"
        items.append(rng.choice([str(rng.randrange(-n, n)), part, part, "None, :"]))
    return ", ".join(items) or "None"


def _shape(rng: random.Random, first: np.ndarray) -> tuple[int, ...]:
    size = first.size
    return rng.choice([(-1,), (size,), (1, size), (size, 1), first.shape[::-1], (*first.shape, 1)])


CHOSEN: dict[str, Callable[[random.Random, np.ndarray], object]] = {
    "axis": lambda rng, first: rng.randrange(-first.ndim, first.ndim),
    "pair": lambda rng, first: tuple(rng.sample(range(first.ndim), 2)) if first.ndim > 1 else (0,),
    "at": lambda rng, first: [rng.randrange(-len(first), len(first)) for _ in range(rng.randint(1, 3))],
    "once": lambda rng, first: rng.sample(range(len(first)), rng.randint(1, len(first))),
    "place": lambda rng, first: rng.randrange(-len(first), len(first)),
    "key": _key,
    "perm": lambda rng, first: tuple(rng.sample(range(first.ndim), first.ndim)),
    "shape": _shape,
    "k": lambda rng, first: rng.randint(-1, 1),
    "u": lambda rng, first: rng.choice([0.37, -0.61, 1.3]),
    "len": lambda rng, first: len(first),
    "last": lambda rng, first: first.shape[-1],
    "flag": lambda rng, first: rng.choice([True, False]),
    "side": lambda rng, first: rng.choice(["'left'", "'right'"]),
}
ZERO, EQUAL = "abs(x)", "abs(x - y)"
WHOLE, HALF = "abs(x - np.round(x))", "abs(x - np.floor(x) - 0.5)"
CLIPPED = "np.minimum(abs(x + 0.5), abs(x - 1.1))"
QUOTIENT = "np.minimum(abs(y) - 0.1, abs(x / y - np.round(x / y)))"


def each(form: str, names: str, far: str = "", kink: str = "") -> list[Drawn]:
    """A function for each of the names, which stand for the empty braces."""
    return [Drawn(form.replace("{}", name), far, kink) for name in names.split()]
