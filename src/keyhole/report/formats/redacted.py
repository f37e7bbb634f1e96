"""A verdict that may be passed on: without values, or without names, literals, carets and file names as well.

Every form of output is made from `PlainVerdict` and `Log`, so what is taken out here is in none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction

from msgspec import structs

from keyhole.logs.open import Log
from keyhole.model.prior import Prior
from keyhole.model.transcript import ABSENT, Line, Refusal
from keyhole.report.cases import INFERRED, Argument, AssumedFinding, Case, Cited, PlainVerdict, Record, Step
from keyhole.report.documents.verdict import Completion
from keyhole.report.words.proofs import describe_contradiction
from keyhole.sql.statements.redact import list_withheld_words, redact_statement

BY_ASSUMPTION = "answers and the values assumed possible determine the value"
TOGETHER = "taken together"
NO_CERTIFICATE = {"kind": "none", "why": "the verdict was redacted"}
LOG_NAME, TABLE_NAME = "the log", "the table"
_WORD = re.compile(r"[^\W\d][\w$]*")
_LITERAL = re.compile(r"""'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\d[\w.,:+-]*""")


class Withheld(StrEnum):
    """What is taken out: values (private values and answers), or everything that names or tells anything."""

    VALUES = "values"
    ALL = "all"


def redacted(verdict: PlainVerdict, what: Withheld, people: dict[int, int] | None = None) -> PlainVerdict:
    """The verdict without what is withheld. Counts, columns, query numbers, reasons and the promise stay.

    `people` are numbers given to rows before, and are gone on with.
    """
    taken = _Withholder(what, verdict.source.kinds, people, verdict.source.table)
    everything = what is Withheld.ALL

    def reason(said: str, sql: str) -> str:
        return taken.said(said, sql) if everything else said

    return replace(
        verdict,
        promise=_masked_gap(verdict.promise, verdict.gap) if everything else verdict.promise,
        gap=_masked(verdict.gap) if everything else verdict.gap,
        source=structs.replace(verdict.source, table=TABLE_NAME, version=None) if everything else verdict.source,
        priors={name: Prior() for name in verdict.priors} if everything else verdict.priors,
        findings=tuple(map(taken.case, verdict.findings)),
        groups=tuple(map(taken.case, verdict.groups)),
        ranges=tuple(taken.case(case) for case in verdict.ranges),
        unjudged=tuple(replace(u, sql=taken.sql(u.sql), reason=reason(u.reason, u.sql)) for u in verdict.unjudged),
        nobody=tuple(
            replace(u, sql=taken.sql(u.sql), reason=reason(u.reason, u.sql)) for u in verdict.nobody if not u.of_table
        ),
        refused=tuple(map(taken.refusal, verdict.refused)),
        contradictions=tuple(replace(c, reason=describe_contradiction(c)) for c in verdict.contradictions),
        rows=tuple(replace(rows, sql=taken.sql(rows.sql)) for rows in verdict.rows),
        disputed={number: taken.sql(sql) for number, sql in verdict.disputed.items()},
        limited=taken.limited(verdict.limited),
        by_assumption=tuple(map(taken.by_assumption, verdict.by_assumption)),
    )


def redacted_log(log: Log, what: Withheld, names: Iterable[str]) -> Log:
    """The log as a redacted verdict may show it; where its statements stand is kept."""
    taken = _Withholder(what, names)
    if what is Withheld.VALUES:
        return replace(log, refused=tuple(map(taken.refusal, log.refused)))
    return replace(
        log,
        name=LOG_NAME,
        lines=tuple(
            replace(line, sql=taken.sql(line.sql), answer=ABSENT, analyst=None, time=None) for line in log.lines
        ),
        refused=tuple(map(taken.refusal, log.refused)),
        unjudged=tuple(map(taken.refusal, log.unjudged)),
    )


class _Withholder:
    """What replaces what; the same person gets the same number throughout."""

    def __init__(
        self, what: Withheld, names: Iterable[str], people: dict[int, int] | None = None, table: str = ""
    ) -> None:
        self._everything = what is Withheld.ALL
        self._table = table
        self._names = tuple(names)
        self._people: dict[int, int] = {} if people is None else people

    def case(self, case: Case) -> Case:
        rows = tuple(map(self._person, case.rows)) if self._everything else case.rows
        records = case.records
        if self._everything:  # a person with several records has one name, and the number of the first
            records = tuple(_nameless(record, row) for record, row in zip(records, rows, strict=False))
        steps = tuple(Step(self._cited(step.cited), Fraction(1)) for step in case.argument.steps)
        # whether he has a row is what is withheld, and his status would tell it
        form = f"rows of {case.column}" if case.grade else f"a sum of {case.column} over records" if case.form else ""
        return replace(
            case,
            records=records,
            rows=rows,
            value=None,
            lo=None,
            hi=None,
            excluded=(),
            allowed=(),
            argument=Argument(steps, rule=TOGETHER, certificate=NO_CERTIFICATE),
            first=self._first(case.first),
            form=form,
            grade="",
            status=INFERRED if case.grade else case.status,
            assumed=BY_ASSUMPTION if case.assumed else "",
        )

    def by_assumption(self, found: AssumedFinding) -> AssumedFinding:
        """Which statements, of how many people; whether an answer is as large as it can be is about values."""
        steps = tuple(Step(self._cited(step.cited), Fraction(1)) for step in found.steps)
        return replace(found, why=f"{BY_ASSUMPTION} of {found.people} people", steps=steps)

    def limited(self, pairs: frozenset[tuple[int, str]]) -> frozenset[tuple[int, str]]:
        """Rows under the numbers that they have here; those that are not shown have none."""
        if not self._everything:
            return pairs
        return frozenset((self._people[row], column) for row, column in pairs if row in self._people)

    def line(self, line: Line) -> Line:
        return replace(line, sql=self.sql(line.sql), answer=ABSENT, analyst=None, time=None)

    def _first(self, first: Completion | None) -> Completion | None:
        return first if first is None or not self._everything else structs.replace(first, analyst=None, time=None)

    def refusal(self, refusal: Refusal) -> Refusal:
        if not self._everything:
            return replace(refusal, sql="") if refusal.is_raw else refusal  # a line that cannot be read has its answer
        first = refusal.error.splitlines()[0] if refusal.error else ""
        return replace(refusal, sql=self.sql(refusal.sql), error=self.said(first, refusal.sql), analyst=None)

    def said(self, text: str, sql: str) -> str:
        """A message about a statement without what it quotes, and without words of the statement that are withheld."""
        hidden = list_withheld_words(sql, self._names) | ({self._table.lower()} if self._table else frozenset())
        return _WORD.sub(lambda m: "…" if m[0].lower() in hidden else m[0], _masked(text))

    def sql(self, text: str) -> str:
        return redact_statement(text, self._names) if self._everything else text

    def _cited(self, cited: Cited) -> Cited:
        # no key: it may be the value of a private column, under whatever alias
        return Cited(cited.number, Fraction(1), None, cited.fact, self.sql(cited.sql))

    def _person(self, row: int) -> int:
        return self._people.setdefault(row, len(self._people) + 1)


def _nameless(record: Record, number: int) -> Record:
    return {next(iter(record), "row"): f"person {number}"}


def _masked_gap(promise: str, gap: str) -> str:
    """The promise with its reason masked; the words before it are our own.

    >>> _masked_gap("sound, but pay has '7'", "pay has '7'")
    'sound, but pay has …'
    """
    return promise.removesuffix(gap) + _masked(gap) if gap and promise.endswith(gap) else promise


def _masked(said: str) -> str:
    """Words without what is quoted in them, and without numbers.

    >>> _masked("no value 'Ann' of \\"na me\\" in Q3; 17 people")
    'no value … of … in Q3; … people'
    """
    return _LITERAL.sub(lambda m: m[0] if said[max(0, m.start() - 1) : m.start()] == "Q" else "…", said)
