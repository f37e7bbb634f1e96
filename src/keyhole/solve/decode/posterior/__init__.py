"""The posterior of discrete units behind linear answers: one model, several ways to compute it."""

from keyhole.solve.decode.posterior.compute import Marginals, compute_marginals
from keyhole.solve.decode.posterior.units import RowLaw, Units

__all__ = ["Marginals", "RowLaw", "Units", "compute_marginals"]
