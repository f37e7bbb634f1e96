"""OnlineIC: one prepaid run that the ledger carries from one process to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyhole.defend.answering import Setting
from keyhole.defend.base import Release
from keyhole.defend.ledger import SavedRun
from keyhole.defend.loss import Loss, exact
from keyhole.defend.mechanisms.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defend.noise import NoiseSource
from keyhole.defend.updates.base import DatabaseUpdate
from keyhole.defend.updates.median import Median
from keyhole.defend.updates.multiplicative_weights import MultiplicativeWeights
from keyhole.defend.updates.perceptron import Perceptron
from keyhole.defend.workload import Question
from keyhole.errors import BudgetExhausted, PrivacyParameterError
from keyhole.query import Refused

UPDATES: dict[str, Callable[[int, float], DatabaseUpdate[Any]]] = {
    "multiplicative-weights": MultiplicativeWeights,
    "median": Median,
    "perceptron": Perceptron,
}


@dataclass(frozen=True, slots=True, eq=False)
class PrepaidRun:
    """The run is charged once, when it starts; its questions are then free. A later process continues it, unless it has
    halted, has answered all it was planned for, or was planned less accurate than is asked now: then a new one is
    bought.
    """

    setting: Setting
    update: str = "multiplicative-weights"
    noise: NoiseSource | None = None

    @property
    def _name(self) -> str:
        return f"online-ic {self.update}"

    def _saved(self, wanted: int) -> tuple[SavedRun, OnlinePlan] | None:
        """The run in the ledger, if it can go on for `wanted` questions."""
        saved = self.setting.ledger.load_run(self._name)
        if saved is None:
            return None
        plan = OnlinePlan(**saved.plan)
        bar = self.setting.bar()
        fired = saved.fired + saved.open  # a restart in mid-stretch counts as a firing
        if fired >= plan.firings or saved.asked + wanted > plan.queries or plan.beta > self.setting.beta:
            return None
        return (saved, plan) if bar is None or plan.bar <= bar else None

    def _check(self) -> None:
        """Refuse what no such run can be made for, released before or not."""
        if self.setting.histogram.public_n and self.setting.ledger.cap.total.unit != "epsilon":
            raise PrivacyParameterError(
                'online-ic is priced in epsilon and this budget counts rho: set unit = "epsilon" under [budget]'
            )

    def _plan(self, wanted: int) -> OnlinePlan:
        """A new run: for the accuracy asked, or for all that is left; with delta where that is better."""
        s = self.setting
        n = s.histogram.public_n
        left = s.ledger.left(s.analyst)
        if s.accuracy is None and left <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=left, requested=0
            )
        plans = []
        for delta in sorted({Fraction(0), s.ledger.delta_left()}):
            try:
                plans.append(
                    plan_online(
                        UPDATES[self.update],
                        n=n,
                        cells=s.histogram.cells,
                        queries=max(s.horizon, wanted),
                        beta=s.beta,
                        delta=delta,
                        epsilon=None if s.accuracy is not None else left,
                        accuracy=s.accuracy,
                    )
                )
            except PrivacyParameterError:
                if not plans and delta > 0:
                    raise
                if delta == 0 and s.ledger.delta_left() == 0:
                    raise
        if s.accuracy is not None:
            return min(plans, key=lambda p: exact(p.epsilon))
        return min(plans, key=lambda p: p.bar)

    def _wanted(self, questions: Sequence[Question]) -> int:
        """How many linear queries are new: those released before are given again for nothing."""
        if any(q.asked for q in questions):
            self._check()
        new = {q.fingerprint(): len(q.asked) for q in questions if self.setting.recalled(q) is None}
        return sum(new.values())

    def _new_plan(self, wanted: int) -> OnlinePlan:
        """A new run that can be paid; else the reason, with what became of the old one."""
        s = self.setting
        try:
            plan = self._plan(wanted)
            s.ledger.check(self._loss(plan), analyst=s.analyst)
        except BudgetExhausted as error:
            raise BudgetExhausted(
                f"{self._used_up(wanted)}{error}", remaining=error.remaining, requested=error.requested
            ) from None
        return plan

    def _loss(self, plan: OnlinePlan) -> Loss:
        return Loss.of_epsilon(exact(plan.epsilon), exact(plan.delta), self.setting.histogram.neighbours)

    def _used_up(self, wanted: int) -> str:
        """Why the run in the ledger cannot go on, if there is one; from released numbers only."""
        saved = self.setting.ledger.load_run(self._name)
        if saved is None:
            return ""
        plan, bar = OnlinePlan(**saved.plan), self.setting.bar()
        if saved.fired + saved.open >= plan.firings:
            why = f"its {plan.firings} firings are used up"
        elif saved.asked + wanted > plan.queries:
            why = f"it was planned for {plan.queries} questions, {saved.asked} were asked and these are {wanted} more"
        elif bar is not None and plan.bar > bar:
            why = f"its answers are within {plan.bar} people, and {float(bar):g} were asked for"
        else:
            why = f"its bars hold with probability {1 - plan.beta:g}, and {1 - self.setting.beta:g} was asked for"
        return f"the prepaid run cannot go on: {why} (what was released before is still free). A new run: "

    def prices(self, questions: Sequence[Question]) -> list[tuple[Fraction, str] | Refused]:
        """The first question bears the price of a new run; the rest are free."""
        wanted = self._wanted(questions)
        prepaid = wanted > 0 and self._saved(wanted) is not None
        made: list[tuple[Fraction, str] | Refused] = []
        cost: Fraction | None = Fraction(0) if prepaid else None
        failure: Refused | None = None
        for q in questions:
            if not q.asked:
                made.append((Fraction(0), q.why_free(self.setting.histogram.neighbours)))
            elif self.setting.recalled(q) is not None:
                made.append((Fraction(0), "released before"))
            elif failure is not None:
                made.append(failure)
            elif cost is None:
                try:
                    plan = self._new_plan(wanted)
                except BudgetExhausted as error:
                    failure = Refused(str(error))
                    made.append(failure)
                    continue
                cost = exact(plan.epsilon)
                story = f"a run of {plan.firings} firings for {plan.queries} questions, within {plan.bar} people"
                made.append((cost, f"{self._name}, {story}"))
            else:
                made.append((Fraction(0), f"{self._name}, prepaid run"))
        return made

    def answer(self, questions: Sequence[Question]) -> list[tuple[list[Release], Fraction] | Refused]:
        """Take the run, ask everything, save the run, return; nothing of it is shown if somebody else took it."""
        if self._wanted(questions) == 0:
            return [(self._known(q) or [], Fraction(0)) for q in questions]
        with self.setting.ledger.lease():
            return self._answer(questions)

    def _known(self, question: Question) -> list[Release] | None:
        """What needs no run: released before, or nothing to release."""
        return self.setting.recalled(question) if question.asked else []

    def _answer(self, questions: Sequence[Question]) -> list[tuple[list[Release], Fraction] | Refused]:
        s, wanted = self.setting, self._wanted(questions)
        known = [self._known(q) for q in questions]
        if wanted == 0:  # another process has released it meanwhile
            return [(releases or [], Fraction(0)) for releases in known]
        try:
            run, cost, generation = self._take(wanted)
        except BudgetExhausted as error:
            return [Refused(str(error)) if releases is None else (releases, Fraction(0)) for releases in known]
        made: list[tuple[list[Release], Fraction] | Refused] = []
        fresh: dict[str, tuple[Question, list[Release]]] = {}
        for q, before in zip(questions, known, strict=True):
            if before is not None:
                made.append((before, Fraction(0)))
                continue
            mark = q.fingerprint()
            if mark not in fresh:
                try:
                    fresh[mark] = (q, [run.answer(f) for f in q.asked])
                except BudgetExhausted as error:
                    made.append(Refused(str(error)))
                    continue
            made.append((fresh[mark][1], cost))
            cost = Fraction(0)
        with s.ledger.transaction():  # all of it, or nothing if the run is no longer ours
            self._save(run, is_open=run.open, generation=generation)
            for q, releases in fresh.values():
                s.remember(q, releases, together=True)
        return made

    def _take(self, wanted: int) -> tuple[OnlineIC[Any], Fraction, int]:
        """The run in the ledger, or a new one, with its price now and its generation.

        One transaction: found, paid and marked as open before the first question, so that a crash from here on costs
        one firing and whoever had taken it before can no longer save.
        """
        s = self.setting
        with s.ledger.transaction():
            old = s.ledger.load_run(self._name)
            generation = 0 if old is None else old.generation
            found, cost = self._saved(wanted), Fraction(0)
            if found is not None:
                saved, plan = found
                run: OnlineIC[Any] = OnlineIC.resumed(
                    s.histogram,
                    s.ledger,
                    plan,
                    UPDATES[self.update](plan.cells, plan.alpha),
                    fired=saved.fired,
                    asked=saved.asked,
                    was_open=saved.open,
                    state=saved.state,
                    analyst=s.analyst,
                    noise=self.noise,
                )
            else:
                plan = self._new_plan(wanted)
                update = UPDATES[self.update](plan.cells, plan.alpha)
                run = OnlineIC(s.histogram, s.ledger, plan, update, analyst=s.analyst, noise=self.noise)
                cost = s.ledger.price(self._loss(plan)).amount
            return run, cost, self._save(run, is_open=True, generation=generation)

    def _save(self, run: OnlineIC[Any], *, is_open: bool, generation: int) -> int:
        saved = SavedRun(run.plan.as_dict(), run.fired, run.asked, is_open, run.packed(), generation)
        return self.setting.ledger.save_run(self._name, saved)
