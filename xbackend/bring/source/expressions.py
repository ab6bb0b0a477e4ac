"""Expressions: texts with the precedence of their outermost operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xbackend.bring.source.layout import Bracket

# Levels of precedence in Python's grammar. Larger ones bind stronger.
LAMBDA, _COMPARED, _OR, _XOR, AND, ADDED, _MULTIPLIED, SIGNED, ATOM = 0, 1, 2, 3, 4, 5, 6, 7, 9
_LEVELS = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _COMPARED),
    **{"|": _OR, "^": _XOR, "&": AND, "+": ADDED, "-": ADDED},
    **dict.fromkeys(("*", "/", "//", "%", "@"), _MULTIPLIED),
}

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression.

    Attributes:
        level: the precedence of its outermost operator.
        end: the whole text as a bracket, if it is one.
        number: whether it is a Python number, which takes the dtype of the other operand.
        typed: the number with a dtype.
        forms: expressions of the same elements in other shapes.
        vector: the vector, if this is a vector as a row or a column of a matrix.
    """

    text: str
    level: int = ATOM
    end: Bracket | None = None
    number: bool = False
    typed: str = ""
    forms: Mapping[Shape, Expr] = field(default_factory=dict)
    vector: Expr | None = None

    def at(self, level: int) -> str:
        """The text as an operand of an operator of this level."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def array(self) -> Expr:
        """The expression with a dtype, also for a number."""
        return Expr(self.typed) if self.number else self


def call(function: str, /, *arguments: Any, **options: Any) -> Expr:
    """A call. Arguments and options that are `None` are left out."""
    items = [_item(one) for one in arguments if one is not None]
    items += [f"{key}={_item(value)}" for key, value in options.items() if value is not None]
    return ending(Bracket(f"{function}(", tuple(items), ")"))


def ending(end: Bracket, level: int = ATOM) -> Expr:
    """A bracket as an expression."""
    return Expr(str(end), level, end)


def _item(one: Any) -> str | Bracket:
    if isinstance(one, Expr):
        return one.end or one.text
    return one if isinstance(one, Bracket) else str(one)


def collected(opening: str, items: Iterable[Any], closing: str, bare: bool = False) -> Expr:
    """A list, a tuple or a dictionary of expressions and texts."""
    return ending(Bracket(opening, tuple(map(_item, items)), closing, True, bare), LAMBDA if bare else ATOM)


def listed(items: Iterable[Any]) -> Expr:
    return collected("[", items, "]")


def tupled(items: Iterable[Any]) -> str:
    """A tuple on one line."""
    texts = [str(_item(one)) for one in items]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def infix(sign: str, left: Expr, right: Expr) -> Expr:
    """Two operands around an operator, which is left-associative. Comparisons are not associative."""
    level = _LEVELS[sign]
    first = left.at(level + 1 if level == _COMPARED else level)
    return Expr(f"{first} {sign} {right.at(level + 1)}", level)


def signed(sign: str, operand: Expr) -> Expr:
    return Expr(f"{sign}{operand.at(SIGNED)}", SIGNED)


def method(operand: Expr, name: str, *arguments: Any) -> Expr:
    return call(f"{operand.array.at(ATOM)}.{name}", *arguments)


def indexed(operand: Expr, *items: Any) -> Expr:
    return Expr(f"{operand.array.at(ATOM)}[{', '.join(str(one) for one in items)}]")
