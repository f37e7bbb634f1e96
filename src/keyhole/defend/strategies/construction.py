"""IterativeConstruction: all statements of a file together, answered from one released hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyhole.defend.answering import Setting
from keyhole.defend.base import Release
from keyhole.defend.linear import LinearQuery
from keyhole.defend.loss import Loss
from keyhole.defend.mechanisms.iterative import IterativeConstruction, OfflinePlan, plan_offline
from keyhole.defend.noise import NoiseSource
from keyhole.defend.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defend.workload import Question
from keyhole.errors import BudgetExhausted, PrivacyParameterError
from keyhole.query import Refused


@dataclass(frozen=True, slots=True, eq=False)
class OneConstruction:
    """One construction for all questions that were not released before; it is charged to the first of them."""

    setting: Setting
    noise: NoiseSource | None = None

    def _new(self, questions: Sequence[Question]) -> list[LinearQuery]:
        found: dict[str, tuple[LinearQuery, ...]] = {}
        for q in questions:
            if q.asked and self.setting.recalled(q) is None:
                found[q.fingerprint()] = q.asked
        return [f for asked in found.values() for f in asked]

    def _plan(self, asked: Sequence[LinearQuery]) -> OfflinePlan:
        s = self.setting
        if s.ledger.cap.total.unit != "epsilon":
            raise PrivacyParameterError(
                'iterative is priced in epsilon and this budget counts rho: set unit = "epsilon" under [budget]'
            )
        left = s.ledger.left(s.analyst)
        if s.accuracy is None and left <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=left, requested=0
            )
        return plan_offline(
            MultiplicativeWeights,
            n=s.histogram.public_n,
            cells=s.histogram.cells,
            queries=len(asked),
            beta=s.beta,
            epsilon=None if s.accuracy is not None else left,
            accuracy=s.accuracy,
        )

    def _loss(self, plan: OfflinePlan) -> Loss:
        return Loss.of_epsilon(plan.epsilon, 0, self.setting.histogram.neighbours)

    def prices(self, questions: Sequence[Question]) -> list[tuple[Fraction, str] | Refused]:
        """The first new question bears the price of the construction."""
        asked, paid = self._new(questions), False
        failure: Refused | None = None
        made: list[tuple[Fraction, str] | Refused] = []
        for q in questions:
            if not q.asked:
                made.append((Fraction(0), q.why_free(self.setting.histogram.neighbours)))
            elif self.setting.recalled(q) is not None:
                made.append((Fraction(0), "released before"))
            elif paid:
                made.append((Fraction(0), "iterative construction, same one"))
            elif failure is not None:
                made.append(failure)
            else:
                try:
                    plan = self._plan(asked)
                    self.setting.ledger.check(self._loss(plan), analyst=self.setting.analyst)
                except BudgetExhausted as error:
                    failure = Refused(str(error))
                    made.append(failure)
                    continue
                paid = True
                made.append((plan.epsilon, f"iterative construction, {plan.rounds} rounds, within {plan.bar} people"))
        return made

    def answer(self, questions: Sequence[Question]) -> list[tuple[list[Release], Fraction] | Refused]:
        """Construct once, answer all, remember all."""
        s, asked = self.setting, self._new(questions)
        made: list[tuple[list[Release], Fraction] | Refused] = []
        built = None
        failure = Refused("")
        cost = Fraction(0)
        if asked:
            try:
                mechanism = IterativeConstruction(
                    s.histogram, s.ledger, self._plan(asked), MultiplicativeWeights, s.analyst, self.noise
                )
                built, cost = mechanism.construct(asked), mechanism.cost.amount
            except BudgetExhausted as error:
                failure = Refused(str(error))
        for q in questions:
            known = s.recalled(q) if q.asked else []
            if known is not None:
                made.append((known, Fraction(0)))
                continue
            if built is None:
                made.append(failure)
                continue
            how = f"iterative construction (multiplicative-weights), {built.rounds} of {built.plan.rounds} rounds"
            left, bar = s.ledger.left(s.analyst), Fraction(built.plan.bar)
            releases = [
                Release(built.value(f), bar, s.release_beta(q), mechanism.cost, left, s.histogram.neighbours, how)
                for f in q.asked
            ]
            s.remember(q, releases)
            made.append((releases, cost))
            cost = Fraction(0)
        return made
