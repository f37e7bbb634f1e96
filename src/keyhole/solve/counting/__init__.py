"""Sums of yes-or-no formulas: what they force, by propagation, by differences, and exactly where they are few."""

from keyhole.solve.counting.components import components, decide, simple, solve
from keyhole.solve.counting.network import Network
from keyhole.solve.counting.propagate import OPEN, Conflict, Forced
from keyhole.solve.counting.rank import settle_by_rank

__all__ = ["OPEN", "Conflict", "Forced", "Network", "components", "decide", "settle_by_rank", "simple", "solve"]
