"""Atoms: classes of records that every query of a log treats alike, and how they are found."""

from keyhole.basis.atoms.base import Atoms

__all__ = ["Atoms"]
