"""The theorems of private online query release as functions: plan before spending.

Normalised linear queries (answers are shares of n, one person moves one by 1/n), natural logarithms, the corrected
constants. Everything here is computed from public numbers alone. References: Dwork and Roth 2014, chapters 3 to 5;
where a printed constant differs from the one its proof gives, the proof's is used and the docstring says so.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from keyhole.defence.budget.loss import check_probability
from keyhole.errors import PrivacyParameterError

ROOT512 = math.sqrt(512)


def _checked(epsilon: float, delta: float, beta: float) -> None:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise PrivacyParameterError(f"epsilon must be above 0, not {epsilon}")
    check_probability(delta, "delta", zero=True)
    check_probability(beta, "beta")


def _share(alpha: float) -> None:
    if not (math.isfinite(alpha) and alpha >= 1e-100):
        raise PrivacyParameterError(f"alpha must be above 0 (at least 1e-100) and finite, not {alpha}")


def _at_least_one(number: float, what: str) -> None:
    if not 1 <= number < math.inf:
        raise PrivacyParameterError(f"{what} must be at least 1, not {number}")


def advanced_composition(epsilon: float, k: int, delta: float) -> float:
    """What k-fold adaptive use of an epsilon-private mechanism costs at this delta (Dwork, Rothblum and Vadhan 2010).

    sqrt(2k ln(1/delta)) epsilon + k epsilon (e^epsilon - 1); the calibrations for delta > 0 rest on it.

    >>> round(advanced_composition(0.01, 1000, 1e-6), 2)
    1.76
    """
    _at_least_one(k, "k")
    _checked(epsilon, 0, 0.5)
    check_probability(delta, "delta")
    return math.sqrt(2 * k * math.log(1 / delta)) * epsilon + k * epsilon * math.expm1(epsilon)


# --- how many updates each hypothesis can need: T(alpha) --------------------------------------------------------------


def multiplicative_weights_limit(cells: int, alpha: float) -> float:
    """T(alpha) = 4 ln|X| / alpha^2, for the rate alpha/2 (each update lowers KL(x || x^t) by alpha^2/4).

    >>> round(multiplicative_weights_limit(16, 0.5), 4), round(multiplicative_weights_limit(8, 0.2), 4)
    (44.3614, 207.9442)
    """
    _at_least_one(cells, "cells")
    _share(alpha)
    return 4 * math.log(cells) / alpha**2


def perceptron_limit(cells: int, alpha: float) -> float:
    """T(alpha) = |X| / alpha^2, from (||x||_2 / ||x||_1)^2 |X| / alpha^2 with the public bound ||x||_2 <= ||x||_1.

    >>> perceptron_limit(4, 0.5)
    16.0
    """
    _at_least_one(cells, "cells")
    _share(alpha)
    return cells / alpha**2


def median_limit(databases: int) -> float:
    """T(alpha) = log2 |N_alpha|: every update drops at least half of the candidate databases.

    >>> median_limit(35)
    5.129283016944966
    """
    _at_least_one(databases, "databases")
    return math.log2(databases)


# --- sparse vector ----------------------------------------------------------------------------------------------------


def above_threshold_alpha(epsilon: float, *, queries: int, beta: float) -> float:
    """AboveThreshold's accuracy, in people: alpha = 8 (ln k + ln(2/beta)) / epsilon.

    >>> round(above_threshold_alpha(1.0, queries=100, beta=0.05), 3)
    66.352
    """
    _checked(epsilon, 0, beta)
    _at_least_one(queries, "queries")
    return 8 * (math.log(queries) + math.log(2 / beta)) / epsilon


def sparse_alpha(epsilon: float, *, queries: int, firings: int, beta: float, delta: float = 0.0) -> float:
    """Theorem 3.26, in people: 8c(ln k + ln(2c/beta))/epsilon, or (ln k + ln(2c/beta)) sqrt(512 c ln(1/delta))/epsilon.

    >>> round(sparse_alpha(1.0, queries=100, firings=10, beta=0.05), 2)
    847.73
    """
    _checked(epsilon, delta, beta)
    _at_least_one(queries, "queries")
    _at_least_one(firings, "firings")
    spread = math.log(queries) + math.log(2 * firings / beta)
    factor = 8 * firings if delta == 0 else math.sqrt(512 * firings * math.log(1 / delta))
    return spread * factor / epsilon


def numeric_sparse_alpha(epsilon: float, *, queries: int, firings: int, beta: float, delta: float = 0.0) -> float:
    """Theorem 3.28, in people: 9c(ln k + ln(4c/beta))/epsilon, or (sqrt512 + 1)(...) sqrt(c ln(2/delta))/epsilon.

    Condition: at most c of the k queries come within alpha of the threshold.

    >>> round(2 * numeric_sparse_alpha(1.0, queries=200, firings=10, beta=0.05) / 1000, 7)
    2.1569272
    >>> round(2 * numeric_sparse_alpha(1.0, queries=200, firings=10, beta=0.05, delta=1e-6) / 1000, 7)
    6.8206042
    """
    _checked(epsilon, delta, beta)
    _at_least_one(queries, "queries")
    _at_least_one(firings, "firings")
    spread = math.log(queries) + math.log(4 * firings / beta)
    if delta == 0:
        return 9 * firings * spread / epsilon
    return (ROOT512 + 1) * spread * math.sqrt(firings * math.log(2 / delta)) / epsilon


def answer_scale(firings: int, epsilon: float, delta: float = 0.0) -> float:
    """The scale of the numbers NumericSparse gives out: 9c/epsilon, or (sqrt512 + 1) sqrt(8 c ln(2/delta))/epsilon.

    With probability 1 - beta all c of them are within scale * ln(c/beta). For delta > 0 that is more than theorem 3.28
    allows for: sqrt8 ln(2c/beta) exceeds ln k + ln(4c/beta) unless k is about (2c/beta)^1.8. A plan must check both.

    >>> answer_scale(10, 1.0), round(answer_scale(10, 1.0, 1e-6), 3)
    (90.0, 804.961)
    """
    _checked(epsilon, delta, 0.5)
    _at_least_one(firings, "firings")
    if delta == 0:
        return 9 * firings / epsilon
    return (ROOT512 + 1) * math.sqrt(8 * firings * math.log(2 / delta)) / epsilon


@dataclass(frozen=True, slots=True)
class PlannedAccuracy(ABC):
    """A run over at most `queries` questions about `n` people; `limit` is T(alpha) of its update."""

    limit: Callable[[float], float]
    n: int
    queries: int
    beta: float

    def __post_init__(self) -> None:
        _at_least_one(self.n, "n")
        _at_least_one(self.queries, "queries")
        check_probability(self.beta, "beta")

    @abstractmethod
    def needed(self, alpha: float, epsilon: float, delta: float = 0.0) -> float:
        """The right-hand side of the theorem at this alpha."""

    def alpha_for(self, epsilon: float, delta: float = 0.0) -> float:
        """The smallest alpha the theorem allows for this epsilon."""
        return smallest(
            lambda a: self.needed(a, epsilon, delta),
            lambda: (
                f"epsilon {epsilon:g} reaches no accuracy at all here: even alpha = 1 needs epsilon "
                f"{self.epsilon_for(1.0, delta):.4g}"
            ),
        )

    def epsilon_for(self, alpha: float, delta: float = 0.0) -> float:
        """The epsilon at which this alpha is reached: the bound is proportional to 1/epsilon."""
        if not 0 < alpha <= 1:
            raise PrivacyParameterError(f"alpha is a share of n, above 0 and at most 1, not {alpha}")
        return self.needed(alpha, 1.0, delta) / alpha


# --- online: theorems 5.13 to 5.15 ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OnlineAccuracy(PlannedAccuracy):
    """A planned OnlineIC run; its answers are within 3 alpha.

    Theorem 5.14 (delta = 0): with probability 1 - beta every answer is within 3 alpha if
    alpha >= 9 T(alpha) (ln(2|Q|) + ln(4 T(alpha)/beta)) / (epsilon n).
    Theorem 5.15 (delta > 0): the same with (sqrt512 + 1)(...) sqrt(T(alpha) ln(2/delta)) / (epsilon n).

    >>> plan = OnlineAccuracy(limit=lambda a: multiplicative_weights_limit(16, a), n=10**6, queries=200, beta=0.05)
    >>> round(plan.alpha_for(1.0), 4), round(plan.alpha_for(1.0, delta=1e-6), 4)
    (0.1193, 0.0735)
    >>> round(plan.epsilon_for(plan.alpha_for(1.0)), 6)
    1.0
    """

    def needed(self, alpha: float, epsilon: float, delta: float = 0.0) -> float:
        """The right-hand side of the theorem at this alpha."""
        _share(alpha)
        _checked(epsilon, delta, self.beta)
        firings = max(1.0, self.limit(alpha))
        spread = math.log(2 * self.queries) + math.log(4 * firings / self.beta)
        factor = 9 * firings if delta == 0 else (ROOT512 + 1) * math.sqrt(firings * math.log(2 / delta))
        return factor * spread / (epsilon * self.n)


def smallest(needed: Callable[[float], float], complaint: Callable[[], str]) -> float:
    """The smallest alpha in (0, 1] with needed(alpha) <= alpha, where `needed` falls with alpha; else the complaint.

    >>> round(smallest(lambda a: 0.25 / a, str), 9)
    0.5
    """
    if needed(1.0) > 1:
        raise PrivacyParameterError(complaint())
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if needed(middle) <= middle else (middle, high)
    return high


# --- offline: theorems 5.3, 5.4, 5.7 ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offline(PlannedAccuracy):
    """A planned IterativeConstruction over all questions.

    Theorem 5.3: T = T(alpha/2) rounds at epsilon0 = epsilon/(2T), or epsilon/(4 sqrt(T ln(1/delta))), give
    (epsilon, delta). Theorem 5.4: with probability 1 - beta every answer is within alpha if
    alpha >= max(8 ln(2T/beta)/(epsilon0 n), 8 F(epsilon0)) with F(e) = 2 ln(|Q|/gamma)/(e n), gamma = beta/(2T).
    Putting one into the other (theorem 5.7) gives 32 T ln(|Q|/gamma)/(epsilon n), or
    64 sqrt(T ln(1/delta)) ln(|Q|/gamma)/(epsilon n); the printed 8 and 16 do not follow from 5.3 and 5.4.

    >>> plan = Offline(limit=lambda a: multiplicative_weights_limit(16, a), n=10**6, queries=200, beta=0.05)
    >>> round(plan.alpha_for(1.0), 4), round(plan.alpha_for(1.0, delta=1e-6), 4)
    (0.2791, 0.1613)
    """

    def rounds(self, alpha: float) -> int:
        """T(alpha/2), whole."""
        _share(alpha)
        return max(1, math.floor(self.limit(alpha / 2)))

    def epsilon0(self, alpha: float, epsilon: float, delta: float = 0.0) -> float:
        """What one selection, and one measurement, may spend (theorem 5.3)."""
        _checked(epsilon, delta, self.beta)
        rounds = self.rounds(alpha)
        return epsilon / (2 * rounds) if delta == 0 else epsilon / (4 * math.sqrt(rounds * math.log(1 / delta)))

    def needed(self, alpha: float, epsilon: float, delta: float = 0.0) -> float:
        """The right-hand side of theorem 5.4 at this alpha."""
        epsilon0, rounds = self.epsilon0(alpha, epsilon, delta), self.rounds(alpha)
        measured = 8 * math.log(2 * rounds / self.beta) / (epsilon0 * self.n)
        distinguished = 16 * math.log(self.queries * 2 * rounds / self.beta) / (epsilon0 * self.n)
        return max(measured, distinguished)
