"""How statements are answered privately: read, priced, charged, released, remembered, on one page of the book.

`Answering` does so for a session, by a strategy; `Defended` answers single queries by a mechanism, without a book.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.possible_range import PossibleRange
from keyhole.book import BookEntry
from keyhole.defence.budget.ledger import KeptRelease, Ledger, Purchase
from keyhole.defence.budget.loss import Loss, Neighbours
from keyhole.defence.declared_domain import make_asking_schema
from keyhole.defence.histogram import Histogram
from keyhole.defence.mechanisms.base import Mechanism, Release, half_of_everybody
from keyhole.defence.releases import ReleasedStatement, Releases
from keyhole.defence.workload import Estimate, GroupKey, Question, pose_query, pose_statement
from keyhole.errors import BudgetExhausted, QueryError
from keyhole.model.numbers import round_fraction
from keyhole.model.query import Query, Refused, Statement
from keyhole.model.schema import Schema
from keyhole.model.transcript import Answer, Noise
from keyhole.sql import lower_statement

REMEMBERED = 4096  # texts whose reading is kept


@dataclass(frozen=True, slots=True)
class PrivateAnswer:
    """A statement's numbers, or why there are none. `cost` is what this statement charged, `left` what was left then.

    A release that is told again costs nothing; `own` is what it counts on the account of an analyst who had not been
    told. `beta` is for each number alone, unless `how` says that it is for all answers of a run together. `source` has
    the noisy numbers it was made from, `entry` is the number of the entry of the book that has them.
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
    entry: int | None = None  # of the book, that has what was released
    own: Fraction = Fraction(0)
    ranges: tuple[PossibleRange, ...] = ()  # of each number of the SELECT list, for showing
    share: Fraction | None = None  # of the budget that it cost

    def shown(self) -> tuple[tuple[GroupKey, tuple[Estimate, ...]], ...]:
        """The groups as they are shown: no number outside its possible range, no bar wider than it."""
        return tuple(
            (key, tuple(map(self._clamp, estimates, self._each_range(estimates)))) for key, estimates in self.groups
        )

    def _each_range(self, estimates: Sequence[Estimate]) -> Sequence[PossibleRange]:
        return self.ranges if len(self.ranges) == len(estimates) else [PossibleRange()] * len(estimates)

    @staticmethod
    def _clamp(estimate: Estimate, possible: PossibleRange) -> Estimate:
        if estimate.value is None or estimate.bar is None:
            return estimate
        value, bar = possible.clamp(estimate.value, estimate.bar)
        return replace(estimate, value=value, bar=bar)


@dataclass(frozen=True, slots=True)
class ExpectedBar:
    """How wrong a number will be, known before it is asked for: in units of the answer, or of a quantile in ranks.

    Of an average it depends on how many people are in its group: `people` is the size that was assumed, as if everybody
    were spread evenly over the declared values.
    """

    bar: float | None = None
    ranks: int | None = None
    people: int | None = None


@dataclass(frozen=True, slots=True)
class PriceQuote:
    """What a statement would cost, and how wrong its numbers would be, where that is known; nothing was spent."""

    sql: str
    cost: Fraction
    how: str
    refused: Refused | None = None
    notes: tuple[str, ...] = ()
    bars: tuple[ExpectedBar, ...] = ()  # one a number of the SELECT list
    ranges: tuple[PossibleRange, ...] = ()
    share: Fraction | None = None  # of the budget that it would cost


@dataclass(frozen=True, slots=True, eq=False)
class AnswerSetting:
    """What every strategy works with. `accuracy` is a share of n (people, under add-remove), for queries
    scaled to [0, 1]; None means: share out what is left. `horizon` is how many questions an online run is planned for.
    """

    histogram: Histogram
    ledger: Ledger
    beta: float
    accuracy: float | None
    horizon: int
    firings: int = 30  # named for a run of tuned weights
    writer: Releases | None = None  # tells what was released, for the book's transcript
    anyway: bool = False  # sell answers too that say next to nothing

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

    def left_for_run(self, analyst: str | None) -> Fraction:
        """What is left for a run or a construction; where it takes all of that, there must be something."""
        left = self.ledger.left(analyst)
        if self.accuracy is None and left <= 0:
            raise BudgetExhausted(
                "nothing is left of the budget: nothing was spent; raise the budget", remaining=left, requested=0
            )
        return left

    def why_useless(self, question: Question, bar: Fraction) -> str:
        """Why an answer with this error bar, in people, says next to nothing, and is not sold; empty if it is."""
        half = half_of_everybody(self.n, anyway=self.anyway)
        if half is None or (bar <= half and not question.has_vague_average(bar, int(2 * half))):
            return ""
        return (
            f"{question.say_bar(bar, self.n)}: that says next to nothing, and nothing was spent. Ask for fewer groups "
            "at once, allow more (a smaller accuracy under [budget], a larger budget), or say --anyway"
        )

    def release_beta(self, question: Question) -> float:
        """A number made from k releases fails if any of them does: each gets beta/k."""
        return self.beta / max((len(i.asked) for _, items in question.groups for i in items), default=1)

    def remember(
        self, question: Question, releases: Sequence[Release], bought: Purchase, *, together: bool = False
    ) -> BookEntry:
        """Write down what was released. `together`: beta is for all numbers at once."""
        kept: dict[str, Any] = {
            "together": together,
            "beta": releases[0].beta,
            "how": releases[0].how,
            "numbers": [[str(r.value), str(r.alpha)] for r in releases],
            "noise": [None if r.scale is None else [r.law, str(r.scale)] for r in releases],
        }
        blank = kept | {"numbers": [["0", str(r.alpha)] for r in releases]}
        if self.writer is not None and question.statement is not None:
            released = ReleasedStatement(question.statement, question, tuple(releases))
            lines = list(self.writer.of(released))
            kept["lines"] = [line.line() for line in lines]
            blank["lines"] = [replace(line, value=Fraction(0)).line() for line in lines]
        return self.ledger.remember(question.fingerprint(), kept, bought, blank)

    def recalled(self, question: Question, analyst: str | None) -> tuple[list[Release], KeptRelease] | None:
        """What was released before, if it is good enough for what is asked now and the analyst may be told."""
        for kept in self.ledger.recall(question.fingerprint(), analyst):
            releases = self._again(question, kept.answer, analyst)
            if releases is not None:
                return releases, kept
        return None

    def _again(self, question: Question, kept: dict[str, Any], analyst: str | None) -> list[Release] | None:
        bar = self.bar()
        if kept["beta"] > (self.beta if kept.get("together") else self.release_beta(question)):
            return None
        if bar is not None and any(Fraction(alpha) > bar for _, alpha in kept["numbers"]):
            return None
        left, neighbours = self.ledger.left(analyst), self.histogram.neighbours
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


PaidReleases: TypeAlias = tuple[list[Release], Fraction]  # what was released, and what it charged


class Strategy(Protocol):
    """One way to answer: a mechanism with its prices."""

    def expect(self, questions: Sequence[Question], analyst: str | None) -> None:
        """These are about to be asked: what is left is shared out among them, or one plan is made for all."""

    def prices(self, questions: Sequence[Question], analyst: str | None) -> list[tuple[Fraction, str] | Refused]:
        """What each question would cost, in the budget's unit, and how it would be made, or why it would be refused;
        spends nothing.
        """

    def answer(self, question: Question, analyst: str | None) -> PaidReleases | Refused:
        """Charge, read the data once, write down; on the open page of the book. Or why it was refused."""


@dataclass(frozen=True, slots=True)
class PosedStatement:
    """A statement that was read, as linear queries over the declared cells."""

    sql: str
    statement: Statement
    question: Question


class Answering:
    """Answers statements about one table with one mechanism, against one book.

    A statement that cannot be read, mapped to cells or paid for is refused alone; the others go on. What a refusal says
    depends on the statement, the declaration and the book, never on the data.
    """

    def __init__(self, schema: Schema, domain: Domain, setting: AnswerSetting, strategy: Strategy) -> None:
        self._schema, self._domain = make_asking_schema(schema, domain), domain
        self._releases = setting.writer or Releases(schema, domain, setting.n)
        self.setting, self._strategy = setting, strategy
        self._posed: dict[str, PosedStatement] = {}

    @property
    def schema(self) -> Schema:
        """The columns as they are asked about."""
        return self._schema

    @property
    def declared_columns(self) -> dict[str, object]:
        """The columns with a finite domain."""
        return {column.name: column for column in self._domain.columns}

    def read(self, sql: str) -> PosedStatement:
        """A statement as questions over cells; `QueryError` from the text and the declaration alone."""
        request = self._posed.get(sql)
        if request is None:
            statement = lower_statement(sql, self._schema)
            request = PosedStatement(
                sql, statement, pose_statement(statement, self._domain, self.setting.histogram.neighbours)
            )
            if len(self._posed) >= REMEMBERED:
                self._posed.clear()
            self._posed[sql] = request
        return request

    def _notes(self, question: Question) -> tuple[str, ...]:
        accuracy = self.setting.accuracy
        return question.notes(self.setting.n, None if accuracy is None else Fraction(str(accuracy)))

    def _read_all(self, statements: Sequence[str]) -> list[PosedStatement | Refused]:
        requests: list[PosedStatement | Refused] = []
        for sql in statements:
            try:
                requests.append(self.read(sql))
            except QueryError as error:
                requests.append(Refused(str(error)))
        return requests

    def expect(self, statements: Sequence[str], analyst: str | None) -> None:
        """These statements are about to be asked, together."""
        self._strategy.expect(
            [p.question for p in self._read_all(statements) if isinstance(p, PosedStatement)], analyst
        )

    def dry_run(self, statements: Sequence[str], analyst: str | None = None) -> list[PriceQuote]:
        """What each statement would cost, or why it would be refused. Spends nothing and touches no count."""
        setting = self.setting
        left, budget = setting.ledger.left(analyst), setting.ledger.cap
        posed = self._read_all(statements)
        prices = iter(self._strategy.prices([q.question for q in posed if isinstance(q, PosedStatement)], analyst))
        made = []
        for sql, q in zip(statements, posed, strict=True):
            if isinstance(q, Refused):
                made.append(PriceQuote(sql, Fraction(0), "", q))
                continue
            price = next(prices)
            if isinstance(price, Refused):
                made.append(PriceQuote(sql, Fraction(0), "", price))
                continue
            cost, how = price
            if cost > max(left, Fraction(0)):
                why = budget.explain_too_dear(cost, left, analyst)
                made.append(PriceQuote(sql, Fraction(0), "", Refused(why)))
                continue
            left -= cost
            made.append(PriceQuote(sql, cost, how, None, self._notes(q.question)))
        return made

    def recall(self, request: PosedStatement, analyst: str | None) -> PrivateAnswer | None:
        """What is free: public, or released before and already known to the analyst or within his cap."""
        q = request.question
        if not q.asked:
            return self._answered(request, [], Fraction(0), analyst)
        found = self.setting.recalled(q, analyst)
        if found is None:
            return None
        releases, kept = found
        ledger = self.setting.ledger
        own = ledger.news(analyst, kept.of) or Fraction(0)
        ledger.tell(analyst, kept)
        return replace(self._answered(request, releases, Fraction(0), analyst), entry=kept.entry, own=own)

    def answer(self, request: PosedStatement, analyst: str | None) -> PrivateAnswer:
        """Charge, read, write down; on the open page."""
        made = self._strategy.answer(request.question, analyst)
        if isinstance(made, Refused):
            return self.refused(request.sql, made, analyst)
        of = self.setting.ledger.entry_of(request.question.fingerprint())
        return replace(self._answered(request, *made, analyst), entry=of)

    def refused(self, sql: str, why: Refused, analyst: str | None) -> PrivateAnswer:
        """A statement that got no numbers."""
        s = self.setting
        neighbours = s.histogram.neighbours
        return PrivateAnswer(sql, False, (), s.beta, Fraction(0), s.ledger.left(analyst), neighbours, "", why)

    def lines(self, made: Iterable[PrivateAnswer]) -> Iterator[str]:
        """What was released, as lines of a transcript: each release once."""
        for line in self._releases.transcript(a.source for a in made if a.source is not None):
            yield line.line()

    def _answered(
        self, request: PosedStatement, releases: list[Release], cost: Fraction, analyst: str | None
    ) -> PrivateAnswer:
        s, q = self.setting, request.question
        groups = tuple((key, tuple(e)) for key, e in q.estimates(releases, s.n))
        how = releases[-1].how if releases else q.why_free(s.histogram.neighbours)
        source = ReleasedStatement(request.statement, q, tuple(releases))
        left, neighbours = s.ledger.left(analyst), s.histogram.neighbours
        return PrivateAnswer(
            request.sql, q.grouped, groups, s.beta, cost, left, neighbours, how, None, self._notes(q), source
        )


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
