"""Proved ranges of linear functionals over lo <= A x <= hi, l <= x <= u: propagation, exact simplex, second tables."""

from keyhole.solve.interval.polytope import Polytope
from keyhole.solve.interval.problem import RangeProblem
from keyhole.solve.interval.ranges import Ranges, ValueRange, ranges

__all__ = ["Polytope", "RangeProblem", "Ranges", "ValueRange", "ranges"]
