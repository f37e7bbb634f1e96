"""From an answered query to a constraint: what its answer says of the sum of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Literal

from keyhole.gather.answers import ULP, Interval, described, finish, interval, largest_end, radius
from keyhole.gather.arithmetic import Arithmetic, Computed, SummedPart
from keyhole.gather.evidence import GIVEN, ROUNDED, Constraint, Notes, Unjudged
from keyhole.gather.quotients import Quotients
from keyhole.gather.totals import Evaluated, Totals
from keyhole.model.forms import (
    ONE,
    Form,
    Part,
    combine_parts,
    find_private_leaves,
    has_private_condition,
    select_private_parts,
)
from keyhole.model.meaning import OVER_ZERO, NoNumber, compute_value, round_number
from keyhole.model.numbers import find_simplest_decimal
from keyhole.model.predicate import And, IsNull, Predicate, make_and, make_not
from keyhole.model.prior import Knowledge
from keyhole.model.query import HALF, Query
from keyhole.model.schema import Schema
from keyhole.model.transcript import Answer, Entry

NO_BOUND = "a quotient of private sums tells as much as the sum below it is large: declare min and max of {}"
NEAR_CONSTANT = "the number lies so near the constant that floating point decides: compare a rounded one, or decimals"


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with its form; `empty` counts what matched, where an answer NULL says that this count is zero."""

    entry: Entry
    form: Form
    empty: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads answers against the totals of a system. `known`: the data are at hand, so answers can be computed."""

    totals: Totals
    schema: Schema
    knowledge: Knowledge
    n: int
    known: bool
    notes: Notes
    quotients: Quotients
    computed: Computed

    def constraint(self, asked: Asked) -> Constraint | None:
        """What one answer says; None if it says nothing of private values."""
        entry, query, form = asked.entry, asked.entry.query, asked.form
        top, per = self.totals.evaluate(form.top), self.totals.evaluate(form.per)
        answer = entry.answer
        if answer is None and self.known:
            found = self._computed(query, top, per, self._printed(asked, top, per))
            if found is OVER_ZERO:
                self._over_zero(asked)
                return None
            if query.test is not None and not found.null and self._rounding_decides(asked, top, per):
                self.notes.leave(entry, NEAR_CONSTANT)
                return None
            answer = found
        elif answer is not None and self.known:
            self._compare(asked, answer, top, per)
        if answer is not None:
            self.notes.answers[entry.number] = answer
        if answer is not None and answer.null:
            return self._nobody(asked, top, per)
        hidden_per = bool(select_private_parts(form.per))
        if query.per and not hidden_per and per.public == 0:
            return None  # a quotient over nobody says nothing
        said = self._said(asked, answer, top, per)
        alone = hidden_per and self._one_candidate(asked)
        if hidden_per and not alone:
            return self._ratio(asked, said, top, per)
        return self._linear(asked, answer, said, top, per.public if query.per and not alone else Fraction(1))

    def _linear(
        self, asked: Asked, answer: Answer | None, said: Interval, top: Evaluated, scale: Fraction
    ) -> Constraint | None:
        """answer * scale = public part + private parts."""
        number, parts = asked.entry.number, select_private_parts(asked.form.top)
        low, high = (None if end is None else end * scale - top.public for end in (said.lo, said.hi))
        if scale < 0:
            low, high = high, low
        if not parts:
            if (low is not None and low > 0) or (high is not None and high < 0):
                self.notes.contradict(f"Q{number} asks only public things, and its answer is not what they are", number)
            return None
        noise = answer.noise if answer is not None else None
        exact, why, edge = said.exact, said.why, None if said.edge is None else said.edge * abs(scale)
        if said.compared is not None:
            beyond = said.compared.times(scale, top.public)
            end, edge = beyond.end(self.computed.unit(self._added(parts)))
            low, high = (end, None) if beyond.above else (None, end)
        told = exact or why in (ROUNDED, GIVEN)
        if told and low is not None and high is not None and low < high and self.quotients.whole(parts):
            least, most = ceil(low), floor(high)  # a sum of integers is one
            if why and most - least < 2:
                least, most = self._rounding_to(
                    asked, answer, [(s, (s + top.public) / scale) for s in range(least, most + 1)]
                )
            if least == most:
                low, high, exact, why = Fraction(least), Fraction(most), True, ""
        return Constraint(number, parts, scale, top.public, low, high, noise, exact, why, edge=edge)

    def _rounding_to(
        self, asked: Asked, answer: Answer | None, sums: Sequence[tuple[int, Fraction]]
    ) -> tuple[int, int]:
        """The least and the greatest whole sum that is shown as it was; next to a half a DOUBLE may go either way."""
        query = asked.entry.query
        if answer is None or answer.value is None or query.digits is None or not sums:
            return (sums[0][0], sums[-1][0]) if sums else (0, -1)
        step = Fraction(1) / Fraction(10) ** query.digits
        either = query.rounding == HALF and bool(query.per)
        kept = [s for s, value in sums if either or round_number(value, query.rounding, step) == answer.value]
        return (kept[0], kept[-1]) if kept else (sums[0][0], sums[-1][0])

    def _over_zero(self, asked: Asked) -> None:
        if select_private_parts((*asked.form.parts, *asked.empty)):
            self.notes.leave(asked.entry, "a quotient over 0: what the engine answers then is not a number")

    def _nobody(self, asked: Asked, top: Evaluated, per: Evaluated) -> Constraint | None:
        """NULL: one of its sums was over nobody. Under a private condition that is a count of zero."""
        number, query = asked.entry.number, asked.entry.query
        if asked.empty:
            if query.per and not select_private_parts(asked.form.per) and per.public == 0:
                self._over_zero(asked)  # NULLIF(..., 0) makes it NULL, whoever matches
                return None
            count, parts = self.totals.evaluate(asked.empty).public, select_private_parts(asked.empty)
            return Constraint(number, parts, Fraction(0), count, -count, -count) if parts else None
        public, private = split_needs(query, self._secret())
        if not self._met(public):
            self.notes.nobody.append(Unjudged(number, asked.entry.sql, "nobody matches it"))
            return None  # anybody could have known
        if query.per and not select_private_parts(asked.form.per) and per.public == 0:
            return None  # a quotient over nobody is NULL, and anybody could have known
        if private or select_private_parts(asked.form.per):
            self.notes.leave(asked.entry, "an answer NULL does not say which of its sums was over nobody")
        else:
            said = f"but {top.matched} records match it" if query.needs else "and a count is never NULL"
            self.notes.contradict(f"Q{number} was answered NULL, {said}", number)
        return None

    def _met(self, needs: Sequence[Predicate]) -> bool:
        return all(self.totals.matched(need) > 0 for need in needs)

    def _ratio(self, asked: Asked, said: Interval, top: Evaluated, per: Evaluated) -> Constraint | None:
        """AVG under a private condition: SUM - a COUNT is 0 for the quotient a.

        That is an equation only where the answer can be one quotient alone: float dust is none. Else SUM - a COUNT lies
        within the radius of a, times the group; and where a sum stands below, times what that sum can be at most.
        """
        entry, form = asked.entry, asked.form
        if said.lo is None or said.hi is None:
            self.notes.leave(entry, "an average under a private condition without its value")
            return None
        sole = self.quotients.sole(form, said) if said.exact else None
        a = (said.lo + said.hi) / 2 if sole is None else sole
        largest = self.quotients.largest(entry.query.per)
        if sole is None and largest is None:
            self.notes.leave(entry, NO_BOUND.format(", ".join(sorted({t.column for t in entry.query.per if t.column}))))
            return None
        spread = (said.hi - said.lo) / 2 * (largest or 0) if sole is None else Fraction(0)
        why = "" if sole is not None else said.why or "a quotient under a private condition, known as far as printed"
        parts = select_private_parts(combine_parts(form.top, (-a, form.per)))
        if not parts:
            self.notes.leave(entry, "a quotient of equal sums says that they are not 0, which is not judged")
            return None
        offset = top.public - a * per.public
        low, high = -offset - spread, -offset + spread
        return Constraint(entry.number, parts, Fraction(0), offset, low, high, None, not why, why)

    def _one_candidate(self, asked: Asked) -> bool:
        """An average over a single possible person, answered at all, is his value."""
        below = asked.entry.query.per
        counts = len(below) == 1 and below[0].column is None and below[0].weight is None and below[0].factor == 1
        return counts and self.totals.candidates(asked.form.parts) == 1

    def _said(self, asked: Asked, answer: Answer | None, top: Evaluated, per: Evaluated) -> Interval:
        """An answer as an interval. What we computed ourselves is as exact as it says; what was printed is not."""
        entry, dust, largest = asked.entry, Fraction(0), largest_end(asked.entry.answer)
        if largest is not None and entry.query.test is None:
            below, beside = 1, Fraction(0)
            if not has_private_condition(entry.query, self._secret()):
                below = max(1, self.totals.matched(entry.query.per[0].where)) if entry.query.per else 1
                beside = top.size
            dust = radius(entry.query, largest, top.matched, self.schema, self.knowledge, beside / below)
            if top.radius and not has_private_condition(entry.query, self._secret()):  # what the data themselves leave
                dust = max(dust, top.radius / below)
        elif entry.query.test is not None:  # what is compared is a DOUBLE too
            found = self._arithmetic(asked, top, per)
            return interval(entry.query, answer, found.dust, sure=found.sure)
        return interval(entry.query, answer, dust)

    def _arithmetic(self, asked: Asked, top: Evaluated, per: Evaluated) -> Arithmetic:
        """How an engine computes the number that a query compares."""
        hidden = bool(select_private_parts(asked.form.per))
        below = abs(per.public) if asked.form.per and not hidden and per.public else Fraction(1)
        added, under = self._added(asked.form.top), self._added(asked.form.per)
        return self.computed.arithmetic(asked.entry.query, added, under, below, top.radius / below)

    def _rounding_decides(self, asked: Asked, top: Evaluated, per: Evaluated) -> bool:
        """Is a number so near the constant it is compared with that floating point decides what the engine says?"""
        test, arithmetic = asked.entry.query.test, self._arithmetic(asked, top, per)
        assert test is not None
        found = top.total / per.total if asked.entry.query.per and per.total else top.total
        apart = abs(found - Fraction(test.value))
        return apart <= arithmetic.dust if apart else not arithmetic.sure

    def _added(self, parts: Sequence[Part]) -> list[SummedPart]:
        """Parts as an engine adds them up."""
        found = []
        for p in parts:
            feature = None if p.feature == ONE else self.quotients.features[p.feature]
            column, power = (None, 1) if feature is None else (feature.column, feature.power)
            found.append(
                SummedPart(column, p.factor, power, *self.totals.amount(p), p.weight, self.totals.weight_unit(p))
            )
        return found

    def _compare(self, asked: Asked, answer: Answer, top: Evaluated, per: Evaluated) -> None:
        """A given answer against the data."""
        entry = asked.entry
        if answer.null or answer.noise is not None:
            return
        truth = self._computed(replace(entry.query, digits=None, test=None), top, per)
        said = f"Q{entry.number} was answered {described(answer)}"
        if truth is OVER_ZERO and entry.query.test is not None and answer.value is False:
            return  # compared with no number, a group is hidden
        if truth is OVER_ZERO:
            self.notes.contradict(f"{said}, but in the data it is a quotient over 0", entry.number)
            return
        if truth.lo is None or truth.hi is None:
            self.notes.contradict(f"{said}, but in the data nobody matches it", entry.number)
            return
        given = self._said(asked, answer, top, per)
        if (given.lo is not None and truth.hi < given.lo) or (given.hi is not None and truth.lo > given.hi):
            data = find_simplest_decimal(truth.lo, truth.hi)
            self.notes.contradict(f"{said}, but the data give {data}", entry.number)

    def _printed(self, asked: Asked, top: Evaluated, per: Evaluated) -> Fraction:
        """How far a quotient lies from the DOUBLE that is printed, where that stands for several sums."""
        query, below = asked.entry.query, per.total if asked.entry.query.per else Fraction(1)
        if not (query.per or query.roundings) or not below or select_private_parts(asked.form.per):
            return Fraction(0)
        dust = (query.roundings + 2) * ULP * abs(top.total / below)
        unit = self.computed.unit(self._added(asked.form.top))
        return dust if unit is not None and 2 * dust * abs(below) >= unit else Fraction(0)

    def _computed(
        self, query: Query, top: Evaluated, per: Evaluated, printed: Fraction = Fraction(0)
    ) -> Answer | Literal[NoNumber.OVER_ZERO]:
        """The true answer, from the totals over atoms. Private needs were looked up before (`build`)."""
        met = self._met(split_needs(query, self._secret())[0])
        found = compute_value(query, top.total, per.total, met=met)
        if found is OVER_ZERO:
            return OVER_ZERO
        spread = top.radius / abs(per.total) if query.per and per.total else top.radius
        return finish(found, max(spread, printed), query)

    def _secret(self) -> frozenset[str]:
        return frozenset(c.name for c in self.schema.columns if c.secret)


def split_needs(query: Query, secret: frozenset[str]) -> tuple[list[Predicate], list[Predicate]]:
    """The conditions on which its NULL depends: public ones, and private ones."""
    private = [need for need in query.needs if find_private_leaves(need, secret)]
    return [need for need in query.needs if need not in private], private


def zero_counts(linear: list[Entry], notes: Notes) -> None:
    """Note a sum that was answered over people of whom a count says that there are none."""
    zero: dict[Predicate, str] = {}
    for e in linear:
        said = notes.answers.get(e.number)
        if said is None or said.noise is not None or e.query.test is not None:
            continue  # a noisy zero is no zero, and "no" is none either
        if said.value == 0 and not e.query.columns and len(e.query.terms) == 1:
            zero[e.query.terms[0].where] = e.number
    for e in linear:
        said = notes.answers.get(e.number)
        if said is None or said.value is None or not e.query.columns or len(e.query.terms) != 1:
            continue
        if said.value == 0:
            continue  # COALESCE(SUM(x), 0) over nobody is 0
        term = e.query.terms[0]
        parts = term.where.parts if isinstance(term.where, And) else (term.where,)
        bare = make_and(*(p for p in parts if p != make_not(IsNull(term.column or ""))))
        number = zero.get(term.where) or zero.get(bare)
        if number is not None and said.noise is None:
            reason = f"Q{number} says that nobody matches, but Q{e.number} was answered {described(said)}"
            notes.contradict(reason, number, e.number)
