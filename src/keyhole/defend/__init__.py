"""What may be said: private answers with exact noise, a durable budget, and theorems to plan with."""

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.ranges import Range
from keyhole.defend.base import Mechanism, Release
from keyhole.defend.budget import Budget, Cap, epsilon_budget
from keyhole.defend.histogram import Histogram
from keyhole.defend.ledger import Ledger
from keyhole.defend.linear import LinearQuery
from keyhole.defend.load import count_cells, declared_domain
from keyhole.defend.loss import Loss
from keyhole.defend.mechanisms.above_threshold import AboveThreshold
from keyhole.defend.mechanisms.gaussian import Gaussian
from keyhole.defend.mechanisms.iterative import Construction, IterativeConstruction, OfflinePlan, plan_offline
from keyhole.defend.mechanisms.laplace import Laplace
from keyhole.defend.mechanisms.numeric_sparse import NumericSparse
from keyhole.defend.mechanisms.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defend.mechanisms.sparse import Sparse
from keyhole.defend.responder import Defended
from keyhole.defend.updates.base import DatabaseUpdate
from keyhole.defend.updates.median import Median
from keyhole.defend.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defend.updates.perceptron import Perceptron

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
