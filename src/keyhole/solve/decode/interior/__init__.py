"""The interior-point method of the decoders."""

from keyhole.solve.decode.interior.method import Rows, RowTerm, minimise

__all__ = ["RowTerm", "Rows", "minimise"]
