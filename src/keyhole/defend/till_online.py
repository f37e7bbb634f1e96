"""OnlineIC at the desk: one prepaid run that the ledger carries from one process to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyhole.defend.base import Release
from keyhole.defend.desk import Setting
from keyhole.defend.ledger import SavedRun
from keyhole.defend.loss import Loss, exact
from keyhole.defend.median import Median
from keyhole.defend.multiplicative_weights import MultiplicativeWeights
from keyhole.defend.noise import Noise
from keyhole.defend.online_ic import OnlineIC, OnlinePlan, plan_online
from keyhole.defend.perceptron import Perceptron
from keyhole.defend.questions import Question
from keyhole.defend.update import DatabaseUpdate
from keyhole.errors import BudgetExhausted, PrivacyParameterError

UPDATES: dict[str, Callable[[int, float], DatabaseUpdate[Any]]] = {
    "multiplicative-weights": MultiplicativeWeights,
    "median": Median,
    "perceptron": Perceptron,
}


@dataclass(frozen=True, slots=True, eq=False)
class OnlineTill:
    """The run is charged once, when it starts; its questions are then free. A later process continues it, unless it has
    halted, has answered all it was planned for, or was planned less accurate than is asked now: then a new one is
    bought.
    """

    setting: Setting
    update: str = "multiplicative-weights"
    noise: Noise | None = None

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

    def _plan(self, wanted: int) -> OnlinePlan:
        """A new run: for the accuracy asked, or for all that is left; with delta where that is better."""
        s = self.setting
        n = s.histogram.public_n
        if s.ledger.cap.total.unit != "epsilon":
            raise PrivacyParameterError(
                'online-ic is priced in epsilon and this budget counts rho: set unit = "epsilon" under [budget]'
            )
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

    def prices(self, questions: Sequence[Question]) -> list[tuple[Fraction, str]]:
        """The first question bears the price of a new run; the rest are free."""
        wanted = sum(len(q.asked) for q in questions)
        if self._saved(wanted) is not None:
            return [(Fraction(0), f"{self._name}, prepaid run") for _ in questions]
        made = []
        cost: Fraction | None = None
        for q in questions:
            if not q.asked:
                made.append((Fraction(0), "public"))
            elif cost is None:
                plan = self._plan(wanted)
                cost = exact(plan.epsilon)
                story = f"a run of {plan.firings} firings for {plan.queries} questions, within {plan.bar} people"
                made.append((cost, f"{self._name}, {story}"))
            else:
                made.append((Fraction(0), f"{self._name}, prepaid run"))
        return made

    def answer(self, questions: Sequence[Question]) -> list[tuple[list[Release], Fraction] | str]:
        """Start or continue the run, ask everything, save the run, return."""
        wanted = sum(len(q.asked) for q in questions)
        if wanted == 0:
            return [([], Fraction(0)) for _ in questions]
        try:
            run, cost = self._run(wanted)
        except BudgetExhausted as error:
            return [str(error) if q.asked else ([], Fraction(0)) for q in questions]
        self._save(run, is_open=True)  # before the first question: a crash from here on costs one firing
        made: list[tuple[list[Release], Fraction] | str] = []
        for q in questions:
            try:
                releases = [run.answer(f) for f in q.asked]
            except BudgetExhausted as error:
                made.append(str(error))
                continue
            made.append((releases, cost if q.asked else Fraction(0)))
            if q.asked:
                cost = Fraction(0)
        self._save(run, is_open=run.open)
        return made

    def _run(self, wanted: int) -> tuple[OnlineIC[Any], Fraction]:
        s = self.setting
        found = self._saved(wanted)
        if found is not None:
            saved, plan = found
            update = UPDATES[self.update](plan.cells, plan.alpha)
            run = OnlineIC.resumed(
                s.histogram,
                s.ledger,
                plan,
                update,
                fired=saved.fired,
                asked=saved.asked,
                was_open=saved.open,
                state=saved.state,
                analyst=s.analyst,
                noise=self.noise,
            )
            return run, Fraction(0)
        plan = self._plan(wanted)
        update = UPDATES[self.update](plan.cells, plan.alpha)
        with s.ledger.transaction():
            run = OnlineIC(s.histogram, s.ledger, plan, update, analyst=s.analyst, noise=self.noise)
            self._save(run, is_open=False)
        charged = s.ledger.price(Loss.of_epsilon(exact(plan.epsilon), exact(plan.delta), s.histogram.neighbours))
        return run, charged.amount

    def _save(self, run: OnlineIC[Any], *, is_open: bool) -> None:
        saved = SavedRun(run.plan.as_dict(), run.fired, run.asked, is_open, run.packed())
        self.setting.ledger.save_run(self._name, saved)
