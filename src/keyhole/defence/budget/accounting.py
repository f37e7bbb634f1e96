"""What a tighter accountant would say: the privacy loss distribution of all charges, as information only.

The ledger enforces sums of epsilon or rho. This figure can only be smaller, and is never used to allow a question.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from keyhole.defence.budget.loss import Loss, Number, probability
from keyhole.extras import import_extra


def composed_epsilon(losses: Iterable[Loss], delta: Number) -> float:
    """The epsilon at this delta of all losses together, by composing their worst-case privacy loss distributions.

    Pure and approximate losses enter as the worst mechanism of their (epsilon, delta); a rho as the Gaussian
    mechanism of that rho, which is what the `gaussian` mechanism is (up to its discreteness: a figure, not a proof).
    Cost: seconds. Reference: Sommer, Meiser and Mohammadi 2019; computed by dp-accounting (extra `accounting`).

    >>> thousand = [Loss.of_epsilon("0.01")] * 1000
    >>> 1.2 < composed_epsilon(thousand, 1e-6) < 1.6  # the sum is 10
    True
    """
    slack = float(probability(delta, "delta"))
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
