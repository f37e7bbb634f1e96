"""Cells of a declared domain: the basis of private answers, which knows no data."""

from keyhole.basis.cells.base import Cells
from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.numbers import Range

__all__ = ["Categories", "Cells", "Domain", "Range"]
