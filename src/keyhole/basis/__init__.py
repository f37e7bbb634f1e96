"""Records grouped so that a form becomes a row: atoms of a log, the records themselves, cells of a declared domain."""

from keyhole.basis.atoms import Atoms
from keyhole.basis.base import Basis, Row, Weights, measure, row

__all__ = ["Atoms", "Basis", "Row", "Weights", "measure", "row"]
