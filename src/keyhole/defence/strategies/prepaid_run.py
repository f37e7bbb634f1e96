"""A prepaid run that the book carries from one question, and one process, to the next: OnlineIC, or tuned weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from keyhole.defence.answering import AnswerSetting, PaidReleases
from keyhole.defence.budget.ledger import Purchase, SavedRun
from keyhole.defence.budget.loss import Loss, parse_exact
from keyhole.defence.mechanisms.base import Release
from keyhole.defence.mechanisms.judge import say_better
from keyhole.defence.mechanisms.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defence.mechanisms.tuned_weights import TunedPlan, TunedWeights, plan_tuned
from keyhole.defence.noise import NoiseSource
from keyhole.defence.strategies.plans import UPDATES, find_best_plan
from keyhole.defence.workload import Question
from keyhole.errors import BudgetExhausted, PrivacyParameterError
from keyhole.model.query import Refused

Plan: TypeAlias = OnlinePlan | TunedPlan
Run: TypeAlias = OnlineIC[Any] | TunedWeights


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """A run in use: as the book has it (`generation`), and live."""

    name: str
    run: Run
    charge: int
    generation: int
    fired: int  # when it was last saved
    entry: tuple[int, str] = (0, "")  # of the release that saved it: is it still in the book?


@dataclass(slots=True, eq=False)
class PrepaidRun:
    """The run is charged once, when it starts; its questions are then free. A later process continues it, with the
    noisy threshold it had, unless it has halted, has answered all it was planned for, was planned less accurate than is
    asked now, or the analyst has no room to be told what it says: then a new one is bought.
    """

    setting: AnswerSetting
    update: str = "multiplicative-weights"
    noise: NoiseSource | None = None
    expected: int = 0
    live: _Taken | None = None  # what this process used last

    together = True  # beta is for all answers of a run

    @property
    def _name(self) -> str:
        return f"online-ic {self.update}"

    @property
    def _beta(self) -> float:
        return self.setting.beta

    def _read(self, saved: SavedRun) -> Plan:
        return OnlinePlan(**saved.plan)

    def _begin(self, question: Question, plan: Plan, analyst: str | None) -> Run:
        """Charge, and start."""
        assert isinstance(plan, OnlinePlan)
        update = UPDATES[self.update](plan.cells, plan.alpha)
        return OnlineIC(self.setting.histogram, self.setting.ledger, plan, update, analyst=analyst, noise=self.noise)

    def _resume(self, name: str, saved: SavedRun, plan: Plan, analyst: str | None) -> Run:
        """As it was saved."""
        assert isinstance(plan, OnlinePlan)
        s = self.setting
        return OnlineIC.resumed(
            s.histogram, s.ledger, plan, UPDATES[self.update](plan.cells, plan.alpha), fired=saved.fired,
            asked=saved.asked, was_open=saved.open, state=s.ledger.load_state(name), level=saved.level,
            analyst=analyst, noise=self.noise,
        )  # fmt: skip

    def expect(self, questions: Sequence[Question], analyst: str | None) -> None:
        """A run that is bought now is planned for at least these."""
        self.expected = self._wanted(questions, analyst)

    def _saved(self, wanted: int, analyst: str | None) -> tuple[str, SavedRun, Plan] | None:
        """A run in the book that can go on for `wanted` questions of this analyst."""
        for name, saved in self.setting.ledger.runs(self._name):
            plan = self._read(saved)
            if not self._why_not(saved, plan, wanted, analyst):
                return name, saved, plan
        return None

    def _why_not(self, saved: SavedRun, plan: Plan, wanted: int, analyst: str | None) -> str:
        """Why a run cannot go on, "" if it can; from released numbers only."""
        bar = self.setting.bar()
        if saved.fired + (saved.open and saved.level is None) >= plan.firings:
            return f"its {plan.firings} firings are used up"
        if saved.asked + wanted > plan.queries:
            return f"it was planned for {plan.queries} questions, {saved.asked} were asked and these are {wanted} more"
        if bar is not None and plan.bar > bar:
            return f"its answers are within {plan.bar} people, and {float(bar):g} were asked for"
        if plan.beta > self._beta:
            return f"its bars hold with probability {1 - plan.beta:g}, and {1 - self._beta:g} was asked for"
        if not self.setting.ledger.may_be_told(analyst, (saved.charge,)):
            return f"what it says would pass the cap of {analyst}"
        return ""

    def _check(self) -> None:
        """Refuse what no such run can be made for, released before or not."""
        if self.setting.histogram.public_n and self.setting.ledger.cap.total.unit != "epsilon":
            raise PrivacyParameterError(
                f"{self._name.split()[0]} is priced in epsilon and this budget counts rho: "
                'set unit = "epsilon" under [budget]'
            )

    def _plan(self, question: Question, wanted: int, left: Fraction) -> Plan:
        """A new run: for the accuracy asked, or for all that is left; with delta where that is better."""
        s = self.setting

        def planned(delta: Fraction) -> OnlinePlan:
            return plan_online(
                UPDATES[self.update],
                n=s.histogram.public_n,
                cells=s.histogram.cells,
                queries=max(s.horizon, wanted),
                beta=s.beta,
                delta=delta,
                epsilon=None if s.accuracy is not None else left,
                accuracy=s.accuracy,
            )

        return find_best_plan(planned, (Fraction(0), s.ledger.delta_left()), s.accuracy)

    def _wanted(self, questions: Sequence[Question], analyst: str | None) -> int:
        """How many linear queries are new: those released before are given again for nothing."""
        if any(q.asked for q in questions):
            self._check()
        new = {q.fingerprint(): len(q.asked) for q in questions if self.setting.recalled(q, analyst) is None}
        return sum(new.values())

    def _new_plan(self, question: Question, wanted: int, analyst: str | None) -> Plan:
        """A new run that can be paid, and says something; else the reason, with what became of the old one."""
        s = self.setting
        try:
            left = s.left_for_run(analyst)
            plan = self._plan(question, max(wanted, self.expected), left)
            s.ledger.check(self._loss(plan), analyst=analyst)
            if why := s.why_useless(question, Fraction(plan.bar)):
                raise BudgetExhausted(why, remaining=left, requested=self._loss(plan).amount)
        except BudgetExhausted as error:
            raise BudgetExhausted(
                f"{self._used_up(wanted, analyst)}{error}", remaining=error.remaining, requested=error.requested
            ) from None
        return plan

    def _say_better(self, plan: Plan) -> str:
        """What would be closer for as many questions at the price of this run, told before it is paid."""
        return say_better(
            plan.bar, self._loss(plan).amount, n=plan.n, cells=plan.cells, queries=plan.queries,
            beta=plan.beta / plan.queries if self.together else plan.beta,
        )  # fmt: skip

    def _loss(self, plan: Plan) -> Loss:
        assert isinstance(plan, OnlinePlan)
        return Loss.of_epsilon(parse_exact(plan.epsilon), parse_exact(plan.delta), self.setting.histogram.neighbours)

    def _used_up(self, wanted: int, analyst: str | None) -> str:
        """Why the latest run in the book cannot go on, if there is one; from released numbers only."""
        runs = list(self.setting.ledger.runs(self._name))
        if not runs:
            return ""
        saved = runs[-1][1]
        why = self._why_not(saved, self._read(saved), wanted, analyst)
        return f"the prepaid run cannot go on: {why} (what was released before is still free). A new run: "

    def prices(self, questions: Sequence[Question], analyst: str | None) -> list[tuple[Fraction, str] | Refused]:
        """The first question bears the price of a new run; the rest are free."""
        wanted = self._wanted(questions, analyst)
        prepaid = wanted > 0 and self._saved(wanted, analyst) is not None
        made: list[tuple[Fraction, str] | Refused] = []
        cost: Fraction | None = Fraction(0) if prepaid else None
        failure: Refused | None = None
        for q in questions:
            if not q.asked:
                made.append((Fraction(0), q.why_free(self.setting.histogram.neighbours)))
            elif self.setting.recalled(q, analyst) is not None:
                made.append((Fraction(0), "released before"))
            elif failure is not None:
                made.append(failure)
            elif cost is None:
                try:
                    plan = self._new_plan(q, wanted, analyst)
                except BudgetExhausted as error:
                    failure = Refused(str(error), unpaid=True)
                    made.append(failure)
                    continue
                cost = self._loss(plan).amount
                story = f"a run of {plan.firings} firings for {plan.queries} questions, within {plan.bar} people"
                better = self._say_better(plan)
                made.append((cost, f"{self._name}, {story}{f'; {better}' if better else ''}"))
            else:
                made.append((Fraction(0), f"{self._name}, prepaid run"))
        return made

    def answer(self, question: Question, analyst: str | None) -> PaidReleases | Refused:
        """Take the run, ask, save the run and what it said; all on the open page, or nothing."""
        self._check()
        try:
            taken, cost = self._take(question, analyst)
        except BudgetExhausted as error:
            return Refused(str(error), unpaid=True)
        self.live = None  # if the page fails, the run is as the book has it
        releases: list[Release] = []
        failure: Refused | None = None
        try:
            releases = [taken.run.answer(f) for f in question.asked]
        except BudgetExhausted as error:
            failure = Refused(str(error), unpaid=True)  # that it halted is told: so it must be written down
        saved = self._save(taken)
        bought = Purchase(question.sql, len(releases), analyst, (taken.charge,), (taken.name, saved.generation))
        if failure is not None:
            self.setting.ledger.remember(f"halted {saved.generation}", {}, bought)
            return failure
        entry = self.setting.remember(question, releases, bought, together=self.together)
        self.live = replace(saved, entry=(entry.seq, entry.hash))
        return releases, cost

    def _take(self, question: Question, analyst: str | None) -> tuple[_Taken, Fraction]:
        """The run in the book, or a new one, with its price now."""
        s, live, wanted = self.setting, self.live, len(question.asked)
        saved_run = self._saved(wanted, analyst)
        if saved_run is None:
            plan = self._new_plan(question, wanted, analyst)
            run = self._begin(question, plan, analyst)
            number = 1 + sum(1 for _ in s.ledger.runs(self._name))
            name = s.ledger.run_name(self._name, number)
            return _Taken(name, run, s.ledger.charged[-1], 0, -1), s.ledger.price(self._loss(plan)).amount
        name, saved, plan = saved_run
        if (
            live is not None
            and live.name == name
            and live.generation == saved.generation
            and s.ledger.book.has(*live.entry)
        ):
            return live, Fraction(0)
        run = self._resume(name, saved, plan, analyst)
        return _Taken(name, run, saved.charge, saved.generation, saved.fired), Fraction(0)

    def _save(self, taken: _Taken) -> _Taken:
        """The hypothesis is written again only if it changed."""
        run = taken.run
        state = None if run.fired == taken.fired else run.packed()
        kept = SavedRun(
            run.plan.as_dict(), run.fired, run.asked, run.open, run.level, state, taken.charge, taken.generation
        )
        generation = self.setting.ledger.save_run(taken.name, kept)
        return _Taken(taken.name, run, taken.charge, generation, run.fired)


@dataclass(slots=True, eq=False)
class TunedRun(PrepaidRun):
    """The same of `TunedWeights`: sized for the bar, with named firings; `warm` begins it at bought margins."""

    warm: bool = False
    together = False

    @property
    def _name(self) -> str:
        return "pmw-warm" if self.warm else "pmw-tuned"

    @property
    def _beta(self) -> float:
        return self.setting.beta / 2  # an average is made from two numbers

    def _read(self, saved: SavedRun) -> Plan:
        return TunedPlan(**saved.plan)

    def _why_not(self, saved: SavedRun, plan: Plan, wanted: int, analyst: str | None) -> str:
        if saved.open and saved.level is None:
            return "its noisy threshold is lost"
        return PrepaidRun._why_not(self, saved, plan, wanted, analyst)

    def _plan(self, question: Question, wanted: int, left: Fraction) -> Plan:
        s, bar = self.setting, self.setting.bar()
        return plan_tuned(
            n=s.histogram.public_n, cells=s.histogram.cells, queries=max(s.horizon, wanted),
            firings=s.firings, beta=self._beta,
            amount=left if bar is None else None, bar=None if bar is None else math.floor(bar),
            columns=len(_find_shape(question)) if self.warm else 0,
        )  # fmt: skip

    def _loss(self, plan: Plan) -> Loss:
        assert isinstance(plan, TunedPlan)
        return plan.loss

    def _begin(self, question: Question, plan: Plan, analyst: str | None) -> Run:
        assert isinstance(plan, TunedPlan)
        s = self.setting
        shape = _find_shape(question) if self.warm else ()
        return TunedWeights(s.histogram, s.ledger, plan, shape=shape, analyst=analyst, noise=self.noise)

    def _resume(self, name: str, saved: SavedRun, plan: Plan, analyst: str | None) -> Run:
        assert isinstance(plan, TunedPlan)
        assert saved.level is not None
        s = self.setting
        return TunedWeights.resumed(
            s.histogram, s.ledger, plan, fired=saved.fired, asked=saved.asked, level=saved.level,
            state=s.ledger.load_state(name), analyst=analyst, noise=self.noise,
        )  # fmt: skip


def _find_shape(question: Question) -> tuple[int, ...]:
    """The sizes of the columns of the domain, as the queries have them."""
    return next((q.place.shape for q in question.asked if q.place is not None), (question.asked[0].cells,))
