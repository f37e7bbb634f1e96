"""What may be said: private answers with exact noise, a durable budget, and theorems to plan with."""

from keyhole.basis.cells.categories import Categories
from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.numbers import Range
from keyhole.defence.answering import Defended
from keyhole.defence.budget.budget import Budget, Cap, epsilon_budget
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss
from keyhole.defence.declared_domain import declare_domain
from keyhole.defence.histogram import CountedHistogram, Histogram
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.base import Mechanism, Release
from keyhole.defence.mechanisms.gaussian import Gaussian
from keyhole.defence.mechanisms.iterative import Construction, IterativeConstruction, OfflinePlan, plan_offline
from keyhole.defence.mechanisms.laplace import Laplace
from keyhole.defence.mechanisms.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defence.mechanisms.sparse_vector import AboveThreshold, NumericSparse, Sparse
from keyhole.defence.mechanisms.tuned_weights import BypassedWeights, TunedWeights, plan_tuned
from keyhole.defence.updates.base import DatabaseUpdate
from keyhole.defence.updates.median import Median
from keyhole.defence.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defence.updates.perceptron import Perceptron

__all__ = [
    "AboveThreshold",
    "Budget",
    "BypassedWeights",
    "Cap",
    "Categories",
    "Construction",
    "CountedHistogram",
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
    "TunedWeights",
    "declare_domain",
    "epsilon_budget",
    "plan_offline",
    "plan_online",
    "plan_tuned",
]
