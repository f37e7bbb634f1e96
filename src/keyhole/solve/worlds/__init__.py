"""Possible worlds: how many people of each class lie above each threshold, what they add up to, and what rows say."""

from keyhole.solve.worlds.bounds import Bounds, Impossible
from keyhole.solve.worlds.model import Middle, Row, Slot, Span, Worlds
from keyhole.solve.worlds.search import Asked, Search, Table, TooManyBranches, Work

__all__ = [
    "Asked",
    "Bounds",
    "Impossible",
    "Middle",
    "Row",
    "Search",
    "Slot",
    "Span",
    "Table",
    "TooManyBranches",
    "Work",
    "Worlds",
]
