"""A program that shows something, made as small as it can be and still shows it."""

from xbackend.program.smaller.example import Example
from xbackend.program.smaller.search import Tried, smallest

__all__ = ["Example", "Tried", "smallest"]
