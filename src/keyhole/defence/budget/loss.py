"""What a release costs: an exact privacy loss with its unit and its neighbours, and rho (zCDP) as (epsilon, delta).

Conversions between the two are tight, and every step is rounded outward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from keyhole.errors import NumberError, PrivacyParameterError
from keyhole.model.numbers import read_fraction

Unit = Literal["epsilon", "rho"]
Neighbours = Literal["replace-one", "add-remove"]
Number = int | float | str | Decimal | Fraction
SMALLEST, LARGEST = Fraction(1, 10**30), Fraction(10**12)  # of an epsilon or rho: plans then stay within doubles
SMALLEST_CHANCE = Fraction(1, 10**300)  # of a delta or beta
SLACK = 1e-9  # relative: more than what is lost in double arithmetic
STEPS = 200  # of a bisection


def parse_exact(number: Number, name: str = "the number") -> Fraction:
    """The decimal a person wrote, as a rational: 0.1 is 1/10, not the nearest double.

    >>> parse_exact(0.1), parse_exact("1e-6"), parse_exact(Fraction(1, 3))
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(1, 3))
    """
    if isinstance(number, Fraction):
        return number
    try:
        return read_fraction(str(number))
    except NumberError as error:
        raise PrivacyParameterError(f"{name}: {error}") from None
    except ValueError:
        raise PrivacyParameterError(f"{name} must be a finite number, not {number!r}") from None


def check_positive(number: Number, name: str) -> Fraction:
    """`exact(number)`, refused unless above zero and from 1e-30 to 1e12: outside, no noise could be planned or drawn.

    >>> check_positive(0, "epsilon")
    Traceback (most recent call last):
    keyhole.errors.PrivacyParameterError: epsilon must be above 0, not 0
    """
    value = parse_exact(number, name)
    if value <= 0:
        raise PrivacyParameterError(f"{name} must be above 0, not {number}")
    if not SMALLEST <= value <= LARGEST:
        raise PrivacyParameterError(f"{name} must be from 1e-30 to 1e12, not {number}")
    return value


def check_probability(number: Number, name: str, *, zero: bool = False) -> Fraction:
    """`exact(number)`, refused unless in (0, 1), or [0, 1) where `zero` is allowed.

    >>> check_probability(1, "delta", zero=True)
    Traceback (most recent call last):
    keyhole.errors.PrivacyParameterError: delta must be at least 0 and below 1, not 1
    """
    value = parse_exact(number, name)
    if value >= 1 or value < 0 or (value == 0 and not zero):
        span = "at least 0 and below 1" if zero else "between 0 and 1"
        raise PrivacyParameterError(f"{name} must be {span}, not {number}")
    if 0 < value < SMALLEST_CHANCE:
        raise PrivacyParameterError(f"{name} must be at least 1e-300{' or 0' if zero else ''}, not {number}")
    return value


def round_up(number: float, digits: int = 4) -> Fraction:
    """The smallest decimal of `digits` significant digits that is not below `number`: a price to quote.

    >>> round_up(0.123456), round_up(79.0)
    (Fraction(247, 2000), Fraction(79, 1))
    """
    if not math.isfinite(number) or number <= 0:
        raise PrivacyParameterError(f"no price can be quoted for {number}")
    exponent = math.floor(math.log10(number)) + 1 - digits
    step = Fraction(10) ** exponent
    return step * math.ceil(Fraction(number) / step)


def round_down(number: Fraction, digits: int = 4) -> Fraction:
    """The largest decimal of `digits` significant digits that is not above `number`: a share to spend.

    >>> round_down(Fraction(1, 3))
    Fraction(3333, 10000)
    """
    if number <= 0:
        return Fraction(0)
    step = Fraction(10) ** (math.floor(math.log10(number)) + 1 - digits)
    return step * math.floor(number / step)


@dataclass(frozen=True, slots=True)
class Loss:
    """An exact privacy loss: (epsilon, delta)-differential privacy, or rho-zCDP, for the stated neighbours.

    Losses of one unit add up (basic composition; for rho the sum is exact, Bun and Steinke 2016).

    >>> Loss.of_epsilon("0.5") + Loss.of_epsilon("0.25")
    Loss(unit='epsilon', amount=Fraction(3, 4), delta=Fraction(0, 1), neighbours='replace-one')
    >>> Loss.of_epsilon(1).converted("rho").amount
    Fraction(1, 2)
    """

    unit: Unit
    amount: Fraction
    delta: Fraction = Fraction(0)
    neighbours: Neighbours = "replace-one"

    @classmethod
    def of_epsilon(cls, epsilon: Number, delta: Number = 0, neighbours: Neighbours = "replace-one") -> Loss:
        """(epsilon, delta), checked: epsilon > 0 and 0 <= delta < 1."""
        checked = check_positive(epsilon, "epsilon")
        return cls("epsilon", checked, check_probability(delta, "delta", zero=True), neighbours)

    @classmethod
    def of_rho(cls, rho: Number, neighbours: Neighbours = "replace-one") -> Loss:
        """rho of zero-concentrated differential privacy, checked: rho > 0."""
        return cls("rho", check_positive(rho, "rho"), Fraction(0), neighbours)

    def __add__(self, other: Loss) -> Loss:
        if (self.unit, self.neighbours) != (other.unit, other.neighbours):
            raise PrivacyParameterError(
                f"a loss in {self.unit} for {self.neighbours} neighbours and one in {other.unit} for "
                f"{other.neighbours} neighbours do not add up"
            )
        return Loss(self.unit, self.amount + other.amount, self.delta + other.delta, self.neighbours)

    def converted(self, unit: Unit) -> Loss:
        """The same release priced in another unit, where a theorem allows it.

        Pure epsilon is (epsilon^2 / 2)-zCDP (Bun and Steinke 2016). A rho has no pure epsilon, and
        (epsilon, delta) with delta > 0 has no rho: both are refused.
        """
        if unit == self.unit:
            return self
        if unit == "rho" and self.delta == 0:
            return Loss("rho", self.amount * self.amount / 2, Fraction(0), self.neighbours)
        spoken = "a rho (zCDP)" if self.unit == "rho" else "an epsilon with delta > 0"
        wanted = "epsilon" if unit == "epsilon" else "rho"
        cure = 'set unit = "rho" under [budget]' if self.unit == "rho" else "use delta = 0"
        raise PrivacyParameterError(
            f"the budget counts {wanted}, and {spoken} cannot be charged to it: {cure}, or choose another mechanism"
        )

    def __str__(self) -> str:
        delta = f", delta {float(self.delta):g}" if self.delta else ""
        return f"{self.unit} {float(self.amount):.6g}{delta}"


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
    most, slack = float(check_positive(epsilon, "epsilon")), float(check_probability(delta, "delta", zero=True))
    if slack == 0:
        raise PrivacyParameterError("rho (zCDP) implies no epsilon without a delta: give delta, such as 1e-6")
    low, high = 0.0, most + 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, most) <= slack else (low, middle)
    if low <= 0:
        raise PrivacyParameterError(f"epsilon {most:g} with delta {slack:g} is too little for any noise")
    return round_down(Fraction(low), 6)


def epsilon_at(rho: Number, delta: Number) -> Fraction:
    """The smallest epsilon that rho-zCDP implies at this delta, rounded up to six digits.

    >>> float(epsilon_at("1.36e-7", "1e-7"))
    0.00184532
    """
    amount, slack = float(check_positive(rho, "rho")), float(check_probability(delta, "delta"))
    low, high = 0.0, float(amount + 2 * math.sqrt(amount * math.log(1 / slack))) + 1e-300
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(amount, middle) <= slack else (middle, high)
    return round_up(high, 6)


def textbook_rho(epsilon: Number, delta: Number) -> Fraction:
    """The rho of epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016), for comparison: it throws away about a
    quarter of the budget.
    """
    most, slack = float(check_positive(epsilon, "epsilon")), float(check_probability(delta, "delta"))
    logarithm = math.log(1 / slack)
    root = math.sqrt(logarithm + most) - math.sqrt(logarithm)
    return round_down(Fraction(root * root), 6)
