"""Many pure releases whose epsilons are fixed beforehand: the privacy loss of all together, and what all cost at once.

The worst mechanism of a pure epsilon is randomised response: its privacy loss is epsilon or -epsilon. So the loss of k
of them has a binomial law, and (epsilon, delta) of the whole follows from it in closed form: no smaller pair holds for
all such mechanisms (Kairouz, Oh and Viswanath 2015, optimal composition, adaptively chosen mechanisms included).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.defence.budget.budget import Budget, Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss, Number, check_probability, round_down
from keyhole.errors import BudgetExhausted
from keyhole.extras import import_extra

SLACK = 1 + 1e-6  # more than what is lost in double arithmetic
STEPS = 200
GRID = 50_000  # cells over which unequal losses are added up
NEGLIGIBLE = 1e-25  # masses below are counted as if they gave everything away


def bundle_delta(each: float, times: int, epsilon: float) -> float:
    """The delta at which `times` releases of pure epsilon `each` are epsilon-private, rounded up.

    delta = sum over j of C(k, j) e^(j e) / (1 + e^e)^k max(0, 1 - e^(epsilon - (2j - k) e)); computed in logarithms.

    >>> bundle_delta(0.01, 1000, 1.37) < 1e-6 < bundle_delta(0.01, 1000, 1.35)
    True
    """
    j = np.arange(times + 1, dtype=np.float64)
    log_mass = _log_choose(times) + j * each - times * math.log1p(math.exp(each))
    beyond = (2 * j - times) * each - epsilon
    kept = beyond > 0
    parts = np.exp(log_mass[kept]) * -np.expm1(-beyond[kept])
    return min(1.0, float(parts.sum()) * SLACK + 1e-18)


def _log_choose(times: int) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, times + 1, dtype=np.float64)))])
    found: NDArray[np.float64] = logs[-1] - logs - logs[::-1]
    return found


def bundle_epsilon(each: Fraction, times: int, delta: Fraction) -> Fraction:
    """The smallest epsilon of the whole at this delta, rounded up; never above the sum.

    >>> float(bundle_epsilon(Fraction(1, 100), 1000, Fraction(1, 10**6)))
    1.36545
    """
    return _least(lambda middle: bundle_delta(float(each), times, middle), each * times, delta)


def _least(delta_of: Callable[[float], float], total: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon whose delta is within, rounded up; never above the sum."""
    low, high = 0.0, float(total)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= float(delta) else (middle, high)
    step = Fraction(10) ** (math.floor(math.log10(high)) - 5)
    return min(total, step * math.ceil(Fraction(high) * Fraction(SLACK) / step))


@dataclass(frozen=True, slots=True, eq=False)
class LossDistribution:
    """The privacy loss of releases of any pure epsilons, fixed beforehand: sums of +-epsilon_i, rounded up to a grid.

    A release of epsilon is also one of every larger epsilon, so rounding each up is outward; all masses are positive,
    so sums in doubles are off by a relative error far below the slack; what is left out counts as delta. Cost: for
    each different epsilon its number of releases times the cells of the grid.

    >>> LossDistribution.of([Fraction(1, 100)] * 500 + [Fraction(1, 50)] * 200).epsilon(Fraction(1, 10**6)) < 2
    True
    """

    step: float
    masses: NDArray[np.float64]  # of 0, 1, 2, ... steps upward, beside all downward
    lost: float

    @classmethod
    def of(cls, epsilons: Sequence[Fraction]) -> LossDistribution:
        """Equal ones have a binomial law; groups of them are added up one by one."""
        step = sum(epsilons, Fraction(0)) / GRID
        masses, lost = np.ones(1), 0.0
        for cells, times in Counter(math.ceil(e / step) for e in epsilons).items():
            each = float(cells * step)
            j = np.arange(times + 1, dtype=np.float64)
            part = np.exp(_log_choose(times) + j * each - times * math.log1p(math.exp(each)))
            kept = np.flatnonzero(part >= NEGLIGIBLE)
            lost += NEGLIGIBLE * (times + 1)
            found = np.zeros(len(masses) + cells * times)
            for k in kept.tolist():
                found[k * cells : k * cells + len(masses)] += part[k] * masses
            masses = found
        return cls(float(step), masses, lost)

    def delta(self, epsilon: float) -> float:
        """At which all together are epsilon-private, rounded up."""
        top = len(self.masses) - 1
        beyond = (2 * np.arange(top + 1, dtype=np.float64) - top) * self.step * SLACK - epsilon
        kept = beyond > 0
        return min(1.0, float((self.masses[kept] * -np.expm1(-beyond[kept])).sum()) * SLACK + self.lost + 1e-18)

    def epsilon(self, delta: Fraction) -> Fraction:
        """The smallest at this delta, rounded up; never above the sum (of what was rounded up)."""
        return _least(self.delta, Fraction(self.step) * (len(self.masses) - 1), delta)


def bundle_share(times: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest epsilon each with which all together stay within (epsilon, delta), rounded down.

    >>> share = bundle_share(1000, Fraction(1), Fraction(1, 10**6))
    >>> float(share), bundle_epsilon(share, 1000, Fraction(1, 10**6)) <= 1
    (0.00749, True)
    """
    low, high = epsilon / times, epsilon
    if delta <= 0 or times < 2:
        return low
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if bundle_epsilon(middle, times, delta) <= epsilon else (low, middle)
    found = round_down(low, 3)
    return found if found > epsilon / times and bundle_epsilon(found, times, delta) <= epsilon else epsilon / times


@dataclass(slots=True, eq=False)
class Bundle:
    """One release of pure epsilon for each question in `parts`, charged together when the first is made: (epsilon,
    delta) by optimal composition. What is not used when the process ends is lost: it was paid, and nothing was shown.

    Gaussian releases have no place here: no discrete law of theirs is proved to be within a continuous one, so their
    rho adds up, and the distribution of it is told as information alone (`composed_epsilon`).
    """

    ledger: Ledger
    parts: Mapping[str, Fraction]
    loss: Loss
    used: set[str] = field(default_factory=set)
    paid: tuple[int, str] | None = field(default=None)  # the entry that paid for all

    @classmethod
    def shared(cls, ledger: Ledger, questions: Iterable[str], analyst: str | None) -> Bundle | None:
        """All that is left in equal parts, where that gives every release more than an even share; else None."""
        listed = list(dict.fromkeys(questions))
        left, delta, times = ledger.left(analyst), ledger.delta_left(), len(listed)
        if not cls._possible(ledger, times, left, delta):
            return None
        each = bundle_share(times, left, delta)
        if each <= left / times:
            return None
        loss = Loss.of_epsilon(bundle_epsilon(each, times, delta), delta, ledger.cap.total.neighbours)
        return cls(ledger, dict.fromkeys(listed, each), loss)

    @classmethod
    def priced(cls, ledger: Ledger, parts: Mapping[str, Fraction], analyst: str | None) -> Bundle | None:
        """Releases whose epsilons are given, where all together cost less than their sum, and are paid; else None."""
        left, delta = ledger.left(analyst), ledger.delta_left()
        if not cls._possible(ledger, len(parts), left, delta):
            return None
        epsilon = LossDistribution.of(list(parts.values())).epsilon(delta)
        if epsilon >= sum(parts.values()) or epsilon > left:
            return None
        return cls(ledger, parts, Loss.of_epsilon(epsilon, delta, ledger.cap.total.neighbours))

    @staticmethod
    def _possible(ledger: Ledger, times: int, left: Fraction, delta: Fraction) -> bool:
        return ledger.cap.total.unit == "epsilon" and ledger.rows == 1 and times >= 2 and left > 0 and delta > 0

    def holds(self, question: str) -> bool:
        """Is there a release for it that was not made yet?"""
        return question in self.parts and question not in self.used

    def told(self, question: str) -> str:
        """How a release was paid for."""
        return (
            f"one of {len(self.parts)} answers fixed beforehand, of epsilon {float(self.parts[question]):.4g}: all "
            f"{self.loss} (optimal composition)"
        )

    def purse(self, question: str, analyst: str | None, what: str) -> Budget:
        """A budget of one release; the first charges the book for all, on the open page.

        A charge that is not in the book (its page was given up) pays for nothing: it is made again.
        """
        if self.paid is None or not self.ledger.book.has(*self.paid):
            self.ledger.spend(self.loss, analyst=analyst, what=f"{self.told(question)}: {what}")
            last = self.ledger.book.state.last
            assert last is not None
            self.paid = (last.seq, last.hash)
            self.used.clear()
        if not self.holds(question):
            raise BudgetExhausted("the answer that was paid for is given", remaining=0, requested=1)
        self.used.add(question)
        return Budget(Cap(Loss.of_epsilon(self.parts[question], 0, self.ledger.cap.total.neighbours)))


def composed_epsilon(losses: Iterable[Loss], delta: Number) -> float:
    """The epsilon at this delta of all losses together, by composing their worst-case privacy loss distributions.

    What a tighter accountant would say, as information only: the ledger enforces sums of epsilon or rho. This figure
    can only be smaller, and is never used to allow a question.

    Pure and approximate losses enter as the worst mechanism of their (epsilon, delta); a rho as the Gaussian
    mechanism of that rho, which is what the `gaussian` mechanism is (up to its discreteness: a figure, not a proof).
    Cost: seconds. Reference: Sommer, Meiser and Mohammadi 2019; computed by dp-accounting (extra `accounting`).

    >>> thousand = [Loss.of_epsilon("0.01")] * 1000
    >>> 1.2 < composed_epsilon(thousand, 1e-6) < 1.6  # the sum is 10
    True
    """
    slack = float(check_probability(delta, "delta"))
    feature = "the privacy loss distribution figure"
    common = import_extra("dp_accounting.pld.common", feature)
    distributions = import_extra("dp_accounting.pld.privacy_loss_distribution", feature)
    counted: dict[tuple[str, Fraction, Fraction], int] = {}
    for loss in losses:
        key = (loss.unit, loss.amount, loss.delta)
        counted[key] = counted.get(key, 0) + 1
    total = distributions.identity()
    for (unit, amount, extra), times in counted.items():
        if amount == 0:
            continue
        if unit == "rho":
            one = distributions.from_gaussian_mechanism(float(1 / (2 * amount)) ** 0.5)
        else:
            worst = common.DifferentialPrivacyParameters(float(amount), float(extra))
            one = distributions.from_privacy_parameters(worst)
        total = total.compose(one.self_compose(times))
    return float(total.get_epsilon_for_delta(slack))
