"""Between rho (zCDP) and (epsilon, delta): the tight conversion, every step rounded outward."""

from __future__ import annotations

import math
from fractions import Fraction

from keyhole.defence.budget.loss import Number, positive, probability
from keyhole.errors import PrivacyParameterError

SLACK = 1e-9  # relative: more than what is lost in double arithmetic
STEPS = 200  # of a bisection


def delta_of(rho: float, epsilon: float) -> float:
    """The smallest delta that the conversion gives for rho-zCDP at this epsilon, rounded up.

    delta = min over a > 1 of exp((a - 1)(a rho - epsilon) + a ln(1 - 1/a)) / (a - 1) (Canonne, Kamath and Steinke 2020,
    proposition 12). Every a gives a valid delta, so a search that misses the best one errs on the safe side. O(1).

    >>> delta_of(0.024355, 1.0) <= 1e-6 < delta_of(0.02437, 1.0)
    True
    """
    if rho <= 0:
        return 0.0

    def exponent(a: float) -> float:
        return (a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - math.log(a - 1)

    low, high = 1 + 1e-9, 2 + 4 * (epsilon + 1) / rho
    golden = (math.sqrt(5) - 1) / 2
    left, right = math.log(low - 1), math.log(high - 1)  # unimodal in a; searched on a logarithmic scale
    for _ in range(STEPS):
        first, second = right - golden * (right - left), left + golden * (right - left)
        if exponent(1 + math.exp(first)) < exponent(1 + math.exp(second)):
            right = second
        else:
            left = first
    best = exponent(1 + math.exp((left + right) / 2))
    return min(1.0, math.exp(min(0.0, best + SLACK * (1 + abs(best)))))


def rho_within(epsilon: Number, delta: Number) -> Fraction:
    """The largest rho whose zCDP implies (epsilon, delta), rounded down to six digits.

    >>> float(rho_within(1, "1e-6")), float(textbook_rho(1, "1e-6"))
    (0.0243559, 0.0174689)
    """
    most, slack = float(positive(epsilon, "epsilon")), float(probability(delta, "delta", zero=True))
    if slack == 0:
        raise PrivacyParameterError("rho (zCDP) implies no epsilon without a delta: give delta, such as 1e-6")
    low, high = 0.0, most + 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, most) <= slack else (low, middle)
    if low <= 0:
        raise PrivacyParameterError(f"epsilon {most:g} with delta {slack:g} is too little for any noise")
    step = Fraction(10) ** (math.floor(math.log10(low)) - 5)
    return step * math.floor(Fraction(low) / step)


def epsilon_at(rho: Number, delta: Number) -> Fraction:
    """The smallest epsilon that rho-zCDP implies at this delta, rounded up to six digits.

    >>> float(epsilon_at("1.36e-7", "1e-7"))
    0.00184532
    """
    amount, slack = float(positive(rho, "rho")), float(probability(delta, "delta"))
    low, high = 0.0, float(amount + 2 * math.sqrt(amount * math.log(1 / slack))) + 1e-300
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(amount, middle) <= slack else (middle, high)
    step = Fraction(10) ** (math.floor(math.log10(high)) - 5)
    return step * math.ceil(Fraction(high) / step)


def textbook_rho(epsilon: Number, delta: Number) -> Fraction:
    """The rho of epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016), for comparison: it throws away about a
    quarter of the budget.
    """
    most, slack = float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))
    logarithm = math.log(1 / slack)
    root = math.sqrt(logarithm + most) - math.sqrt(logarithm)
    step = Fraction(10) ** (math.floor(math.log10(root * root)) - 5)
    return step * math.floor(Fraction(root * root) / step)
