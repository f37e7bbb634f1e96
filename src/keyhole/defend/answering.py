"""How statements are answered: read, priced, charged, released, remembered, and only then shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from keyhole.basis.cells.domain import Domain
from keyhole.defend.base import Release
from keyhole.defend.histogram import Histogram
from keyhole.defend.ledger import Ledger
from keyhole.defend.load import asking_schema
from keyhole.defend.loss import Loss, Neighbours
from keyhole.defend.releases import ReleasedStatement
from keyhole.defend.workload import Estimate, GroupKey, Question, pose
from keyhole.errors import QueryError
from keyhole.query import Refused, Statement
from keyhole.schema import Schema
from keyhole.sql import lower


@dataclass(frozen=True, slots=True)
class Answered:
    """A statement's numbers, or why there are none. `cost` is what this statement charged, `left` what was left then.

    `beta` is for each number alone, unless `how` says that it is for all answers of a run together. `source` has
    the noisy numbers it was made from.
    """

    sql: str
    grouped: bool
    groups: tuple[tuple[GroupKey, tuple[Estimate, ...]], ...]
    beta: float
    cost: Fraction
    left: Fraction
    neighbours: Neighbours
    how: str
    refused: Refused | None = None
    notes: tuple[str, ...] = ()
    source: ReleasedStatement | None = None


@dataclass(frozen=True, slots=True)
class Priced:
    """What a statement would cost; nothing was spent."""

    sql: str
    cost: Fraction
    how: str
    refused: Refused | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What every strategy works with. `accuracy` is a share of n (people, under add-remove), for queries
    scaled to [0, 1]; None means: share out what is left. `horizon` is how many questions an online run is planned for.
    """

    histogram: Histogram
    ledger: Ledger
    beta: float
    accuracy: float | None
    horizon: int
    analyst: str | None

    @property
    def n(self) -> int | None:
        """The number of people where it is public."""
        return self.histogram.public_n if self.histogram.neighbours == "replace-one" else None

    def bar(self) -> Fraction | None:
        """The accuracy asked for, in people."""
        if self.accuracy is None:
            return None
        share = Fraction(str(self.accuracy))
        return share * self.n if self.n is not None else share

    def release_beta(self, question: Question) -> float:
        """A number made from k releases fails if any of them does: each gets beta/k."""
        return self.beta / max((len(i.asked) for _, items in question.groups for i in items), default=1)

    def remember(self, question: Question, releases: Sequence[Release], *, together: bool = False) -> None:
        """Keep what was released: on disk when this returns. `together`: beta is for all numbers at once."""
        kept: dict[str, Any] = {
            "together": together,
            "beta": releases[0].beta,
            "how": releases[0].how,
            "numbers": [[str(r.value), str(r.alpha)] for r in releases],
            "noise": [None if r.scale is None else [r.law, str(r.scale)] for r in releases],
        }
        self.ledger.remember(question.fingerprint(), kept)

    def recalled(self, question: Question) -> list[Release] | None:
        """What was released before, if it is good enough for what is asked now; it costs nothing."""
        kept = self.ledger.recall(question.fingerprint())
        bar = self.bar()
        if kept is None:
            return None
        if kept["beta"] > (self.beta if kept.get("together") else self.release_beta(question)):
            return None
        if bar is not None and any(Fraction(alpha) > bar for _, alpha in kept["numbers"]):
            return None
        left, neighbours = self.ledger.left(self.analyst), self.histogram.neighbours
        nothing = Loss(self.ledger.cap.total.unit, Fraction(0), Fraction(0), neighbours)
        how = f"released before ({kept['how']})"
        noise = kept.get("noise") or [None] * len(kept["numbers"])  # a ledger of an earlier version has none
        return [
            Release(
                Fraction(value), Fraction(alpha), kept["beta"], nothing, left, neighbours, how,
                None if law is None else Fraction(law[1]), None if law is None else law[0],
            )
            for (value, alpha), law in zip(kept["numbers"], noise, strict=True)
        ]  # fmt: skip


class Strategy(Protocol):
    """One way to answer: a mechanism with its prices."""

    def prices(self, questions: Sequence[Question]) -> list[tuple[Fraction, str] | Refused]:
        """What each question would cost, in the budget's unit, and how it would be made, or why it would be refused;
        spends nothing.
        """

    def answer(self, questions: Sequence[Question]) -> list[tuple[list[Release], Fraction] | Refused]:
        """For each question its releases and what it charged, or why it was refused; durable when this returns."""


class Answering:
    """Answers statements about one table with one mechanism, against one ledger.

    A statement that cannot be read, mapped to cells or paid for is refused alone; the others go on. What a refusal says
    depends on the statement, the declaration and the ledger, never on the data. Everything is on disk when `answer`
    returns.
    """

    def __init__(self, schema: Schema, domain: Domain, setting: Setting, strategy: Strategy) -> None:
        self._schema, self._domain = asking_schema(schema, domain), domain
        self.setting, self._strategy = setting, strategy

    def _pose(self, sql: str) -> tuple[Statement, Question] | Refused:
        try:
            statement = lower(sql, self._schema)
            return statement, pose(statement, self._domain, self.setting.histogram.neighbours)
        except QueryError as error:
            return Refused(str(error))

    def _notes(self, question: Question) -> tuple[str, ...]:
        accuracy = self.setting.accuracy
        return question.notes(self.setting.n, None if accuracy is None else Fraction(str(accuracy)))

    def dry_run(self, statements: Sequence[str]) -> list[Priced]:
        """What each statement would cost, or why it would be refused. Spends nothing and touches no count."""
        setting = self.setting
        left, unit = setting.ledger.left(setting.analyst), setting.ledger.cap.total.unit
        posed = [self._pose(sql) for sql in statements]
        prices = iter(self._strategy.prices([q[1] for q in posed if not isinstance(q, Refused)]))
        made = []
        for sql, q in zip(statements, posed, strict=True):
            if isinstance(q, Refused):
                made.append(Priced(sql, Fraction(0), "", q))
                continue
            price = next(prices)
            if isinstance(price, Refused):
                made.append(Priced(sql, Fraction(0), "", price))
                continue
            cost, how = price
            if cost > max(left, Fraction(0)):
                rest, cap = max(left, Fraction(0)), setting.ledger.cap.total.amount
                why = (
                    f"this would cost {unit} {float(cost):.6g} and {float(rest):.6g} would be left of "
                    f"{float(cap):.6g}: ask for less accuracy or raise the budget"
                )
                made.append(Priced(sql, Fraction(0), "", Refused(why)))
                continue
            left -= cost
            made.append(Priced(sql, cost, how, None, self._notes(q[1])))
        return made

    def answer(self, statements: Sequence[str]) -> list[Answered]:
        """Answer all statements, in order."""
        setting = self.setting
        posed = [self._pose(sql) for sql in statements]
        left = setting.ledger.left(setting.analyst)
        results = iter(self._strategy.answer([q[1] for q in posed if not isinstance(q, Refused)]))
        neighbours = setting.histogram.neighbours
        made = []
        for sql, read in zip(statements, posed, strict=True):
            result = read if isinstance(read, Refused) else next(results)
            if isinstance(read, Refused) or isinstance(result, Refused):
                why = read if isinstance(read, Refused) else result
                assert isinstance(why, Refused)
                made.append(Answered(sql, False, (), setting.beta, Fraction(0), left, neighbours, "", why))
                continue
            (statement, q), (releases, cost) = read, result
            groups = tuple((key, tuple(e)) for key, e in q.estimates(releases, setting.n))
            left = releases[-1].left if releases else left  # others may charge the same ledger meanwhile
            how = releases[-1].how if releases else q.why_free(neighbours)
            notes = self._notes(q)
            asked = ReleasedStatement(statement, q, tuple(releases))
            made.append(Answered(sql, q.grouped, groups, setting.beta, cost, left, neighbours, how, None, notes, asked))
        return made
