"""A defended database as a responder: the same type as an exact one, for whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from keyhole.basis.cells.domain import Domain
from keyhole.defence.base import Mechanism
from keyhole.defence.histogram import Histogram
from keyhole.defence.workload import pose_query
from keyhole.model.numbers import round_fraction
from keyhole.model.query import Query
from keyhole.model.transcript import Answer, Noise


@dataclass(frozen=True, slots=True, eq=False)
class Defended:
    """Answers COUNT and SUM queries through a mechanism; every answer states its noise and is charged.

    Raises `BudgetExhausted` when the budget is gone and `UnsupportedQuery` for what has no cells. A SUM over bins is
    answered for the bins' middles; declare a step to have none.

    >>> from keyhole.defence.budget.budget import epsilon_budget
    >>> from keyhole.basis.cells.categories import Categories
    >>> from keyhole.defence.mechanisms.laplace import Laplace
    >>> from keyhole.model.predicate import Comparison
    >>> from keyhole.model.query import Aggregate, Term
    >>> histogram = Histogram.of([60, 40, 0, 0])
    >>> women = Query(Aggregate.SUM, (Term(None, Comparison("sex", "=", "F")),))
    >>> domain, laplace = Domain((Categories("sex", ("F", "M")),)), Laplace(histogram, epsilon_budget(1), 1)
    >>> answer = Defended(domain, histogram, laplace).answer(women)
    >>> answer.noise, abs(answer.value - 60) < 40
    (Noise(kind='laplace', scale=Fraction(1, 1)), True)
    """

    domain: Domain
    histogram: Histogram
    mechanism: Mechanism
    kind: str = "laplace"

    def answer(self, query: Query) -> Answer:
        """The noisy answer, with the law of its noise."""
        item = pose_query(query, self.domain, self.histogram.neighbours)
        releases = self.mechanism.release(item.asked) if item.asked else []
        n = self.histogram.public_n if self.histogram.neighbours == "replace-one" else None
        made = item.estimate(releases, n)
        if made.value is None:
            return Answer(None, None, None)
        value = round_fraction(made.value)
        if not releases:
            return Answer.exact(value)
        # One noisy count, scaled: its law is known. A ratio or a difference of two has none in closed form.
        single = len(releases) == 1 and releases[0].scale is not None
        scale = abs(item.top.coefficients[0]) * (releases[0].scale or Fraction(0)) if single else None
        noise = None if scale is None else Noise(self.kind, scale)
        if noise is not None:
            return Answer(value, None, None, noise)
        bar = made.bar or Fraction(0)
        return Answer(value, made.value - bar, made.value + bar)
