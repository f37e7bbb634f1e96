"""Laplace and Gaussian: each statement is one joint release, paid for by itself and remembered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, cast

from keyhole.defence.answering import AnswerSetting, PaidReleases
from keyhole.defence.budget.composition import Bundle
from keyhole.defence.budget.ledger import Purchase
from keyhole.defence.budget.loss import Loss, round_down
from keyhole.defence.linear import l1_sensitivity, l2_sensitivity_squared
from keyhole.defence.mechanisms.base import Release
from keyhole.defence.mechanisms.gaussian import Gaussian, gaussian_quantile, gaussian_rho
from keyhole.defence.mechanisms.judge import say_better
from keyhole.defence.mechanisms.laplace import Laplace, laplace_epsilon, laplace_quantile
from keyhole.defence.noise import NoiseSource, check_scale
from keyhole.defence.workload import Question
from keyhole.errors import BudgetExhausted, PrivacyParameterError
from keyhole.model.query import Refused

MANY = 100  # numbers from which on a price says what else would be closer


@dataclass(slots=True, eq=False)
class SeparateReleases:
    """With an accuracy each statement costs what that accuracy needs; without one, what is left is shared out evenly
    over the statements that are expected and not free. A question released before is given again for nothing.
    """

    setting: AnswerSetting
    kind: Literal["laplace", "gaussian"]
    noise: NoiseSource | None = None
    bundle: Bundle | None = None  # a file that is paid for at once
    share: Fraction | None = None  # what one statement may spend; None: nothing was said of what is to come

    def expect(self, questions: Sequence[Question], analyst: str | None) -> None:
        """Share out what is left: evenly, or with a delta all at once, where that gives each statement more. With an
        accuracy the price of each is fixed beforehand too: with a delta all are paid at once, where that is cheaper.
        """
        new = {q.fingerprint(): q for q in questions if q.asked and self.setting.recalled(q, analyst) is None}
        self.share = round_down(self.setting.ledger.left(analyst) / len(new)) if new else Fraction(0)
        self.bundle = None
        if self.kind != "laplace":
            return
        if self.setting.accuracy is None:
            self.bundle = Bundle.shared(self.setting.ledger, new, analyst)
            if self.bundle is not None:  # all of it is charged at once: what would be refused has no part in it
                parts = self.bundle.parts
                sold = [key for key, q in new.items() if not isinstance(self._quote(q, parts[key]), Refused)]
                if len(sold) < len(new):
                    self.bundle = Bundle.shared(self.setting.ledger, sold, analyst)
            return
        quotes = {key: self._quote(q, self.share) for key, q in new.items()}
        parts = {key: quote.amount for key, quote in quotes.items() if isinstance(quote, Loss)}
        self.bundle = Bundle.priced(self.setting.ledger, parts, analyst)

    def prices(self, questions: Sequence[Question], analyst: str | None) -> list[tuple[Fraction, str] | Refused]:
        """Each statement's price; later repetitions of a statement are free."""
        made: list[tuple[Fraction, str] | Refused] = []
        seen: set[str] = set()
        priced: list[tuple[Question, Loss]] = []
        share = self.one_tenth(analyst) if self.share is None else self.share
        bundle, first = self.bundle, True
        for q in questions:
            key = q.fingerprint()
            if not q.asked:
                made.append((Fraction(0), q.why_free(self.setting.histogram.neighbours)))
            elif key in seen:
                made.append((Fraction(0), "released before"))
            elif (known := self.setting.recalled(q, analyst)) is not None:
                own = self.setting.ledger.news(analyst, known[1].of)
                counts = f"; counts {self.setting.ledger.cap.say(own, analyst)} for {analyst}" if own else ""
                made.append((Fraction(0), f"released before{counts}"))
            elif bundle is not None and bundle.holds(key):
                made.append((bundle.loss.amount if first else Fraction(0), bundle.told(key)))
                first = False
            else:
                quoted = self._quote(q, share)
                if isinstance(quoted, Refused):
                    made.append(quoted)
                    continue
                made.append((self.setting.ledger.price(quoted).amount, f"{self.kind}, {quoted}"))
                priced.append((q, quoted))
            seen.add(key)
        if better := self._say_better(priced):  # told with the last price
            at = max(k for k, price in enumerate(made) if not isinstance(price, Refused) and price[0])
            cost, how = cast("tuple[Fraction, str]", made[at])
            made[at] = cost, f"{how}; for all {len(priced)} statements {better}"
        return made

    def _say_better(self, priced: Sequence[tuple[Question, Loss]]) -> str:
        """What would be closer for so many numbers at the price of all of them, where they are many."""
        s, numbers = self.setting, sum(len(q.asked) for q, _ in priced)
        if s.n is None or self.kind != "laplace" or s.ledger.cap.total.unit != "epsilon" or numbers < MANY:
            return ""
        try:
            cells = s.histogram.cells
        except PrivacyParameterError:  # more than can be held
            return ""
        bar, total = max(self._bar(q, loss) for q, loss in priced), sum(loss.amount for _, loss in priced)
        return say_better(
            float(bar), Fraction(total), n=s.n, cells=cells, queries=numbers, beta=s.beta, firings=s.firings
        )

    def _bar(self, q: Question, loss: Loss) -> Fraction:
        """The widest bar of a statement's releases, in people."""
        neighbours, beta = self.setting.histogram.neighbours, self.setting.release_beta(q)
        if self.kind == "laplace":
            scale = l1_sensitivity(q.asked, neighbours) / loss.amount
            return max(Fraction(laplace_quantile(scale * f.unit, beta), f.unit) for f in q.asked)
        variance = l2_sensitivity_squared(q.asked, neighbours) / (2 * loss.amount)
        return max(Fraction(gaussian_quantile(variance * f.unit**2, beta), f.unit) for f in q.asked)

    def answer(self, question: Question, analyst: str | None) -> PaidReleases | Refused:
        """Charge, release and remember one statement."""
        if self.bundle is not None and self.bundle.holds(question.fingerprint()):
            return self._bundled(self.bundle, question, analyst)
        share = self.one_tenth(analyst) if self.share is None else self.share
        loss = self._quote(question, share)
        if isinstance(loss, Refused):
            return loss
        s, kind = self.setting, Laplace if self.kind == "laplace" else Gaussian
        mechanism = kind(s.histogram, s.ledger, loss.amount, s.release_beta(question), analyst, self.noise)
        try:
            releases = _in_units(question, mechanism.release(question.asked))
        except BudgetExhausted as error:
            return Refused(str(error), unpaid=True)
        self.setting.remember(question, releases, Purchase(question.sql, len(releases), analyst))
        return releases, self.setting.ledger.price(loss).amount

    def _bundled(self, bundle: Bundle, question: Question, analyst: str | None) -> PaidReleases | Refused:
        """One of the answers that are paid for together."""
        s, key = self.setting, question.fingerprint()
        each = bundle.parts[key]
        if isinstance(quoted := self._quote(question, each), Refused):
            return quoted
        before = s.ledger.spent()
        try:
            purse = bundle.purse(key, analyst, question.sql)
        except BudgetExhausted as error:
            return Refused(str(error), unpaid=True)
        assert bundle.paid is not None
        made = Laplace(s.histogram, purse, each, s.release_beta(question), None, self.noise)
        told = replace(bundle.loss, amount=each, delta=Fraction(0))
        releases = [
            replace(r, cost=told, left=s.ledger.left(analyst), how=f"{r.how}; {bundle.told(key)}")
            for r in _in_units(question, made.release(question.asked))
        ]
        s.remember(question, releases, Purchase(question.sql, len(releases), analyst, (bundle.paid[0],)))
        return releases, s.ledger.spent() - before

    def one_tenth(self, analyst: str | None) -> Fraction:
        """What a single statement may spend where no accuracy is asked for: a tenth of the cap, if so much is left."""
        ledger = self.setting.ledger
        return min(ledger.left(analyst), round_down(ledger.cap.total.amount / 10))

    def _quote(self, q: Question, share: Fraction) -> Loss | Refused:
        """The loss of one statement, or why it has none: nothing is left, or no noise can be drawn for it."""
        neighbours, finest = self.setting.histogram.neighbours, max(f.unit for f in q.asked)
        try:
            moved, squared = l1_sensitivity(q.asked, neighbours), l2_sensitivity_squared(q.asked, neighbours)
        except PrivacyParameterError as error:
            return Refused(str(error))
        try:
            loss = self._loss(q, share)
        except BudgetExhausted as error:
            return Refused(str(error), unpaid=True)
        noise = moved / loss.amount * finest if self.kind == "laplace" else squared / (2 * loss.amount) * finest**2
        try:
            if noise:
                check_scale(noise)
        except PrivacyParameterError as error:
            return Refused(str(error))
        why = self.setting.why_useless(q, self._bar(q, loss))
        return Refused(why) if why else loss

    def _loss(self, q: Question, share: Fraction) -> Loss:
        neighbours, bar = self.setting.histogram.neighbours, self.setting.bar()
        beta = self.setting.release_beta(q)
        if bar is None:
            if share <= 0:
                raise BudgetExhausted(
                    "nothing is left of the budget: nothing was spent; raise the budget", remaining=share, requested=0
                )
            unit = self.setting.ledger.cap.total.unit
            if self.kind == "gaussian":
                return Loss.of_rho(share, neighbours)
            epsilon = share if unit == "epsilon" else round_down(Fraction(math.sqrt(2 * share)))
            return Loss.of_epsilon(epsilon, 0, neighbours)
        if self.kind == "laplace":
            moved = l1_sensitivity(q.asked, neighbours)
            return Loss.of_epsilon(
                max(laplace_epsilon(bar * f.unit, moved * f.unit, beta) for f in q.asked), 0, neighbours
            )
        squared = l2_sensitivity_squared(q.asked, neighbours)
        return Loss.of_rho(max(gaussian_rho(bar * f.unit, squared * f.unit**2, beta) for f in q.asked), neighbours)


def _in_units(question: Question, releases: list[Release]) -> list[Release]:
    """The releases with the noise told in the units of the answer: a sum's is that of a count times its range."""
    scale, factors = releases[0].scale, question.factors()
    if scale is None:
        return releases
    told = [f"{float(scale * factor):.6g}" for factor in factors]
    shown = " and ".join(told) if len(told) <= 2 else f"{told[0]} to {told[-1]}"
    story, _, _ = releases[0].how.rpartition(" ")
    return [replace(r, how=f"{story} {shown}") for r in releases]
