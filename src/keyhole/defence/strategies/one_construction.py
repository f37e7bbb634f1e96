"""IterativeConstruction: all statements of a file together, answered from one released hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyhole.defence.answering import AnswerSetting, PaidReleases
from keyhole.defence.budget.ledger import Purchase
from keyhole.defence.budget.loss import Loss
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.base import Release
from keyhole.defence.mechanisms.iterative import IterativeConstruction, OfflinePlan, plan_offline
from keyhole.defence.noise import NoiseSource
from keyhole.defence.strategies.plans import UPDATES, find_best_plan
from keyhole.defence.workload import Question
from keyhole.errors import BudgetExhausted, PrivacyParameterError
from keyhole.model.query import Refused


@dataclass(slots=True, eq=False)
class OneConstruction:
    """One construction for all questions that are expected and were not released before; charged to the first."""

    setting: AnswerSetting
    update: str = "multiplicative-weights"
    noise: NoiseSource | None = None
    expected: tuple[Question, ...] = ()

    def expect(self, questions: Sequence[Question], analyst: str | None) -> None:
        """These are answered together."""
        self.expected = tuple(questions)

    def _new(self, questions: Sequence[Question], analyst: str | None) -> list[Question]:
        found = {q.fingerprint(): q for q in questions if q.asked and self.setting.recalled(q, analyst) is None}
        return list(found.values())

    def _plan(self, queries: Sequence[LinearQuery], analyst: str | None) -> OfflinePlan:
        s = self.setting
        if s.ledger.cap.total.unit != "epsilon":
            raise PrivacyParameterError(
                'iterative is priced in epsilon and this budget counts rho: set unit = "epsilon" under [budget]'
            )
        left = s.left_for_run(analyst)

        def planned(delta: Fraction) -> OfflinePlan:
            return plan_offline(
                UPDATES[self.update],
                n=s.histogram.public_n,
                cells=s.histogram.cells,
                queries=len(queries),
                beta=s.beta,
                delta=delta,
                epsilon=None if s.accuracy is not None else left,
                accuracy=s.accuracy,
            )

        return find_best_plan(planned, (Fraction(0), s.ledger.delta_left()), s.accuracy)

    def _loss(self, plan: OfflinePlan) -> Loss:
        return Loss.of_epsilon(plan.epsilon, plan.delta, self.setting.histogram.neighbours)

    def prices(self, questions: Sequence[Question], analyst: str | None) -> list[tuple[Fraction, str] | Refused]:
        """The first new question bears the price of the construction."""
        queries, paid = [f for q in self._new(questions, analyst) for f in q.asked], False
        failure: Refused | None = None
        made: list[tuple[Fraction, str] | Refused] = []
        for q in questions:
            if not q.asked:
                made.append((Fraction(0), q.why_free(self.setting.histogram.neighbours)))
            elif self.setting.recalled(q, analyst) is not None:
                made.append((Fraction(0), "released before"))
            elif paid:
                made.append((Fraction(0), "iterative construction, same one"))
            elif failure is not None:
                made.append(failure)
            else:
                try:
                    plan = self._plan(queries, analyst)
                    self.setting.ledger.check(self._loss(plan), analyst=analyst)
                except BudgetExhausted as error:
                    failure = Refused(str(error), unpaid=True)
                    made.append(failure)
                    continue
                if why := self.setting.why_useless(q, Fraction(plan.bar)):
                    failure = Refused(why)
                    made.append(failure)
                    continue
                paid = True
                made.append((plan.epsilon, f"iterative construction, {plan.rounds} rounds, within {plan.bar} people"))
        return made

    def answer(self, question: Question, analyst: str | None) -> PaidReleases | Refused:
        """Construct for all that are expected, write down all, give this one."""
        s, new = self.setting, self._new((*self.expected, question), analyst)
        queries = [f for q in new for f in q.asked]
        try:
            plan = self._plan(queries, analyst)
            if why := s.why_useless(question, Fraction(plan.bar)):
                return Refused(why)
            mechanism = IterativeConstruction(s.histogram, s.ledger, plan, UPDATES[self.update], analyst, self.noise)
            built = mechanism.construct(queries)
        except BudgetExhausted as error:
            return Refused(str(error), unpaid=True)
        how = f"iterative construction ({self.update}), {built.rounds} of {built.plan.rounds} rounds"
        left, bar, made = s.ledger.left(analyst), Fraction(built.plan.bar), {}
        for q in new:
            made[q.fingerprint()] = releases = [
                Release(built.value(f), bar, s.release_beta(q), mechanism.cost, left, s.histogram.neighbours, how)
                for f in q.asked
            ]
            s.remember(q, releases, Purchase(q.sql, len(releases), analyst))
        return made[question.fingerprint()], s.ledger.price(mechanism.cost).amount
