"""Einstein summation. Tracing expands it to diagonals, sums, and products of two arrays at a time."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

from xbackend.api.functions.manipulation import permute_dims, reshape
from xbackend.api.functions.matrices import diagonal, matmul
from xbackend.api.functions.reductions import sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import copied, operands
from xbackend.errors import ArgumentError, ShapeError

Term = tuple[str, Array]  # an array, and a letter for each of its axes


def einsum(subscripts: str, /, *arrays: Any) -> Array:
    """The sum of products by subscripts, as ``"ij,jk->ik"`` for a product of matrices.

    Each axis has a letter. Axes with the same letter have the same length. The sum is over all letters that are not
    after the arrow; without an arrow the result has the letters that occur once, in alphabetical order. ``...`` stands
    for the other axes, which broadcast. Two arrays are multiplied at a time, the pair with the smallest result first.
    Raises `ArgumentError` for invalid subscripts, `ShapeError` for lengths that differ.

    >>> xp.einsum("ij,jk->ik", xp.ones((2, 3)), xp.ones((3, 2)))
    array([[3., 3.],
           [3., 3.]], dtype=float64, device=cpu:0)
    >>> xp.einsum("ii", xp.eye(3))
    array(3., dtype=float64, device=cpu:0)
    """
    if not isinstance(subscripts, str):
        raise ArgumentError(f"xb.einsum({subscripts!r:.80}): subscripts come first, as 'ij,jk->ik'; then the arrays")
    parts = operands("einsum", *arrays)
    inputs, output = _parsed(subscripts, [p.shape for p in parts])
    terms = list(zip(inputs, parts, strict=True))
    lengths = _lengths(subscripts, terms)
    dtype = parts[0].dtype
    terms = [
        _reduced(term, {*output, *(x for j, other in enumerate(inputs) if j != i for x in other)})
        for i, term in enumerate(terms)
    ]
    while len(terms) > 1:
        i, j = _next(terms, output, lengths)
        first, second = terms[i], terms[j]
        rest = [term for k, term in enumerate(terms) if k not in (i, j)]
        kept = {*output, *(x for letters, _ in rest for x in letters)}
        terms = [_product(first, second, kept, lengths), *rest]
    letters, result = terms[0]
    gone = tuple(a for a, x in enumerate(letters) if x not in output)
    if gone:
        result = sum(result, axis=gone, dtype=dtype)
        letters = "".join(x for x in letters if x in output)
    order = [letters.index(x) for x in output]
    return permute_dims(result, order) if order != sorted(order) else copied(result)


def _parsed(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The letters of each array and of the result; axes of ``...`` get unused letters."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    letters = set(text.replace("...", "")) - set(",->")
    if not letters <= set(string.ascii_letters) or len(terms) != len(shapes):
        raise ArgumentError(
            f"xb.einsum({subscripts!r:.80}) of {len(shapes)} arrays: subscripts are letters, with a comma between "
            "those of two arrays, as 'ij,jk->ik'"
        )
    spare = [x for x in string.ascii_letters if x not in letters]
    dotted = [len(shape) - len(t.replace("...", "")) for t, shape in zip(terms, shapes, strict=True) if "..." in t]
    dots = "".join(spare[: max([0, *dotted])])
    inputs = []
    for term, shape in zip(terms, shapes, strict=True):
        count = len(shape) - len(term.replace("...", ""))
        if count < 0 or (count and "..." not in term) or term.count("...") > 1 or "." in term.replace("...", ""):
            raise ShapeError(f"xb.einsum({subscripts!r:.80}): {term!r} does not say the {len(shape)} axes of {shape}")
        inputs.append(term.replace("...", dots[len(dots) - count :] if count else ""))
    if not arrow:
        counts = Counter("".join(inputs))
        right = dots + "".join(sorted(x for x, n in counts.items() if n == 1 and x not in dots))
    output = right.replace("...", dots)
    if dots and "..." not in right and arrow:
        raise ArgumentError(f"xb.einsum({subscripts!r:.80}): behind the arrow the axes of '...' are missing")
    if len(set(output)) != len(output) or not set(output) <= set("".join(inputs)):
        raise ArgumentError(f"xb.einsum({subscripts!r:.80}): the result has letters that an array has, each once")
    return inputs, output


def _lengths(subscripts: str, terms: Sequence[Term]) -> dict[str, int]:
    """The length of each letter's axes; a length of 1 broadcasts."""
    lengths: dict[str, int] = {}
    for letters, array in terms:
        for letter, n in zip(letters, array.shape, strict=True):
            known = lengths.setdefault(letter, n)
            if 1 not in (known, n) and known != n:
                raise ShapeError(f"xb.einsum({subscripts!r:.80}): axes {letter!r} of the lengths {known} and {n}")
            if known == 1:
                lengths[letter] = n
    return lengths


def _reduced(term: Term, kept: set[str]) -> Term:
    """The term with the diagonal of repeated letters, summed over the letters that are not ``kept``."""
    letters, array = term
    for letter in [x for x, n in Counter(letters).items() if n > 1]:
        while letters.count(letter) > 1:
            first, second = letters.index(letter), letters.rindex(letter)
            order = [a for a in range(len(letters)) if a not in (first, second)] + [first, second]
            if array.shape[first] != array.shape[second]:
                raise ShapeError(f"xb.einsum: two axes {letter!r} of one array have the shape {array.shape}")
            array = diagonal(permute_dims(array, order))
            letters = "".join(letters[a] for a in order[:-1])
    gone = tuple(a for a, x in enumerate(letters) if x not in kept)
    if gone:
        array = sum(array, axis=gone, dtype=array.dtype)
    return "".join(x for x in letters if x in kept), array


def _next(terms: Sequence[Term], output: str, lengths: dict[str, int]) -> tuple[int, int]:
    """The two terms with the smallest product; the first of equal ones."""

    def size(i: int, j: int) -> int:
        others = {*output, *(x for k, (t, _) in enumerate(terms) if k not in (i, j) for x in t)}
        return prod(lengths[x] for x in {*terms[i][0], *terms[j][0]} & others)

    pairs = [(i, j) for i in range(len(terms)) for j in range(i + 1, len(terms))]
    return min(pairs, key=lambda pair: size(*pair))


def _product(first: Term, second: Term, kept: set[str], lengths: dict[str, int]) -> Term:
    """The product of two terms, summed over their common letters that are not ``kept``."""
    left, right = first[0], second[0]
    both = [x for x in left if x in right]
    inner = [x for x in both if x not in kept]
    batch = [x for x in both if x in kept]
    rows, columns = ([x for x in letters if x not in both] for letters in (left, right))
    broadcasts = any(array.shape[letters.index(x)] != lengths[x] for letters, array in (first, second) for x in both)
    if not inner or broadcasts:
        letters = "".join([*batch, *rows, *columns, *inner])
        product = _spread(first, letters) * _spread(second, letters)
        axes = tuple(range(len(letters) - len(inner), len(letters)))
        return letters[: len(letters) - len(inner)], sum(product, axis=axes, dtype=product.dtype) if inner else product
    outer = [
        [array.shape[letters.index(x)] for x in group] for (letters, array), group in ((first, rows), (second, columns))
    ]
    sizes = [prod(outer[0]), prod(lengths[x] for x in inner), prod(outer[1])]
    lead = tuple(lengths[x] for x in batch)
    matrices = [
        reshape(_ordered(first, [*batch, *rows, *inner]), (*lead, sizes[0], sizes[1])),
        reshape(_ordered(second, [*batch, *inner, *columns]), (*lead, sizes[1], sizes[2])),
    ]
    return "".join([*batch, *rows, *columns]), reshape(matmul(*matrices), (*lead, *outer[0], *outer[1]))


def _ordered(term: Term, letters: Sequence[str]) -> Array:
    order = [term[0].index(x) for x in letters]
    return permute_dims(term[1], order) if order != sorted(order) else term[1]


def _spread(term: Term, letters: str) -> Array:
    """The array with an axis for each of these letters, of length 1 for a letter that it lacks."""
    own, array = term
    ordered = _ordered(term, [x for x in letters if x in own])
    return reshape(ordered, tuple(array.shape[own.index(x)] if x in own else 1 for x in letters))
