"""Proved ranges of linear functionals over lo <= A x <= hi, l <= x <= u: propagation, exact simplex, second tables."""

from keyhole.solve.interval.polytope import Polytope
from keyhole.solve.interval.ranges import Question, Range, Ranges, ranges

__all__ = ["Polytope", "Question", "Range", "Ranges", "ranges"]
