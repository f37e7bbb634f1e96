"""What may be said: private answers with exact noise, a durable budget, and theorems to plan with."""

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.ranges import Range
from keyhole.defend.above_threshold import AboveThreshold
from keyhole.defend.base import Mechanism, Release
from keyhole.defend.budget import Budget, Cap, epsilon_budget
from keyhole.defend.gaussian import Gaussian
from keyhole.defend.histogram import Histogram
from keyhole.defend.iterative import Construction, IterativeConstruction, OfflinePlan, plan_offline
from keyhole.defend.laplace import Laplace
from keyhole.defend.ledger import Ledger
from keyhole.defend.linear import LinearQuery
from keyhole.defend.load import count_cells, declared_domain
from keyhole.defend.loss import Loss
from keyhole.defend.median import Median
from keyhole.defend.multiplicative_weights import MultiplicativeWeights
from keyhole.defend.numeric_sparse import NumericSparse
from keyhole.defend.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defend.perceptron import Perceptron
from keyhole.defend.responder import Defended
from keyhole.defend.sparse import Sparse
from keyhole.defend.update import DatabaseUpdate

__all__ = [
    "AboveThreshold",
    "Budget",
    "Cap",
    "Categories",
    "Construction",
    "DatabaseUpdate",
    "Defended",
    "Domain",
    "Gaussian",
    "Histogram",
    "IterativeConstruction",
    "Laplace",
    "Ledger",
    "LinearQuery",
    "Loss",
    "Mechanism",
    "Median",
    "MultiplicativeWeights",
    "NumericSparse",
    "OfflinePlan",
    "OnlineIC",
    "OnlinePlan",
    "Perceptron",
    "Range",
    "Release",
    "Sparse",
    "count_cells",
    "declared_domain",
    "epsilon_budget",
    "plan_offline",
    "plan_online",
]
