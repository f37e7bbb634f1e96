"""The row space of a log: which values are determined, with exact certificates."""

from keyhole.solve.rowspace.matrix import RowMatrix
from keyhole.solve.rowspace.space import RowSpace

__all__ = ["RowMatrix", "RowSpace"]
