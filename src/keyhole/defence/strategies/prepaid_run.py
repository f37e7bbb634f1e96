"""OnlineIC: one prepaid run that the book carries from one question, and one process, to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from keyhole.defence.answering import AnswerSetting, PaidReleases
from keyhole.defence.budget.ledger import Purchase, SavedRun
from keyhole.defence.budget.loss import Loss, parse_exact
from keyhole.defence.mechanisms.base import Release
from keyhole.defence.mechanisms.judge import say_better
from keyhole.defence.mechanisms.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defence.noise import NoiseSource
from keyhole.defence.strategies.plans import UPDATES, find_best_plan
from keyhole.defence.updates.base import DatabaseUpdate
from keyhole.defence.workload import Question
from keyhole.errors import BudgetExhausted, PrivacyParameterError
from keyhole.model.query import Refused


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """A run in use: as the book has it (`generation`), and live."""

    name: str
    run: OnlineIC[Any]
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

    @property
    def _name(self) -> str:
        return f"online-ic {self.update}"

    def expect(self, questions: Sequence[Question], analyst: str | None) -> None:
        """A run that is bought now is planned for at least these."""
        self.expected = self._wanted(questions, analyst)

    def _saved(self, wanted: int, analyst: str | None) -> tuple[str, SavedRun, OnlinePlan] | None:
        """A run in the book that can go on for `wanted` questions of this analyst."""
        for name, saved in self.setting.ledger.runs(self._name):
            plan = OnlinePlan(**saved.plan)
            if not self._why_not(saved, plan, wanted, analyst):
                return name, saved, plan
        return None

    def _why_not(self, saved: SavedRun, plan: OnlinePlan, wanted: int, analyst: str | None) -> str:
        """Why a run cannot go on, "" if it can; from released numbers only."""
        bar = self.setting.bar()
        if saved.fired + (saved.open and saved.level is None) >= plan.firings:
            return f"its {plan.firings} firings are used up"
        if saved.asked + wanted > plan.queries:
            return f"it was planned for {plan.queries} questions, {saved.asked} were asked and these are {wanted} more"
        if bar is not None and plan.bar > bar:
            return f"its answers are within {plan.bar} people, and {float(bar):g} were asked for"
        if plan.beta > self.setting.beta:
            return f"its bars hold with probability {1 - plan.beta:g}, and {1 - self.setting.beta:g} was asked for"
        if not self.setting.ledger.may_be_told(analyst, (saved.charge,)):
            return f"what it says would pass the cap of {analyst}"
        return ""

    def _check(self) -> None:
        """Refuse what no such run can be made for, released before or not."""
        if self.setting.histogram.public_n and self.setting.ledger.cap.total.unit != "epsilon":
            raise PrivacyParameterError(
                'online-ic is priced in epsilon and this budget counts rho: set unit = "epsilon" under [budget]'
            )

    def _plan(self, wanted: int, analyst: str | None) -> OnlinePlan:
        """A new run: for the accuracy asked, or for all that is left; with delta where that is better."""
        s = self.setting
        n = s.histogram.public_n
        left = s.ledger.left(analyst)
        if s.accuracy is None and left <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=left, requested=0
            )

        def planned(delta: Fraction) -> OnlinePlan:
            return plan_online(
                UPDATES[self.update],
                n=n,
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

    def _new_plan(self, question: Question, wanted: int, analyst: str | None) -> OnlinePlan:
        """A new run that can be paid, and says something; else the reason, with what became of the old one."""
        s = self.setting
        try:
            plan = self._plan(max(wanted, self.expected), analyst)
            s.ledger.check(self._loss(plan), analyst=analyst)
            if why := s.why_useless(question, Fraction(plan.bar)):
                raise BudgetExhausted(why, remaining=s.ledger.left(analyst), requested=parse_exact(plan.epsilon))
        except BudgetExhausted as error:
            raise BudgetExhausted(
                f"{self._used_up(wanted, analyst)}{error}", remaining=error.remaining, requested=error.requested
            ) from None
        return plan

    def _say_better(self, plan: OnlinePlan) -> str:
        """What would be closer for as many questions at the price of this run, told before it is paid."""
        return say_better(
            "online-ic", plan.bar, parse_exact(plan.epsilon), n=plan.n, cells=plan.cells, queries=plan.queries,
            beta=plan.beta / plan.queries,  # for all answers together, as a run has it
        )  # fmt: skip

    def _loss(self, plan: OnlinePlan) -> Loss:
        return Loss.of_epsilon(parse_exact(plan.epsilon), parse_exact(plan.delta), self.setting.histogram.neighbours)

    def _used_up(self, wanted: int, analyst: str | None) -> str:
        """Why the latest run in the book cannot go on, if there is one; from released numbers only."""
        runs = list(self.setting.ledger.runs(self._name))
        if not runs:
            return ""
        saved = runs[-1][1]
        why = self._why_not(saved, OnlinePlan(**saved.plan), wanted, analyst)
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
                cost = parse_exact(plan.epsilon)
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
        entry = self.setting.remember(question, releases, bought, together=True)
        self.live = replace(saved, entry=(entry.seq, entry.hash))
        return releases, cost

    def _take(self, question: Question, analyst: str | None) -> tuple[_Taken, Fraction]:
        """The run in the book, or a new one, with its price now."""
        s, live, wanted = self.setting, self.live, len(question.asked)
        saved_run = self._saved(wanted, analyst)
        if saved_run is None:
            plan = self._new_plan(question, wanted, analyst)
            run = OnlineIC(s.histogram, s.ledger, plan, self._update(plan), analyst=analyst, noise=self.noise)
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
        run = OnlineIC.resumed(
            s.histogram,
            s.ledger,
            plan,
            self._update(plan),
            fired=saved.fired,
            asked=saved.asked,
            was_open=saved.open,
            state=s.ledger.load_state(name),
            level=saved.level,
            analyst=analyst,
            noise=self.noise,
        )
        return _Taken(name, run, saved.charge, saved.generation, saved.fired), Fraction(0)

    def _update(self, plan: OnlinePlan) -> DatabaseUpdate[Any]:
        return UPDATES[self.update](plan.cells, plan.alpha)

    def _save(self, taken: _Taken) -> _Taken:
        """The hypothesis is written again only if it changed."""
        run = taken.run
        state = None if run.fired == taken.fired else run.packed()
        kept = SavedRun(
            run.plan.as_dict(), run.fired, run.asked, run.open, run.level, state, taken.charge, taken.generation
        )
        generation = self.setting.ledger.save_run(taken.name, kept)
        return _Taken(taken.name, run, taken.charge, generation, run.fired)
