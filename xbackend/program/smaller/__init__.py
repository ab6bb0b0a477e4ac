"""Reduction of a program to the smallest one that still shows the same, such as a wrong result."""

from xbackend.program.smaller.example import Example
from xbackend.program.smaller.search import Tried, smallest

__all__ = ["Example", "Tried", "smallest"]
