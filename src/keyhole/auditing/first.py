"""Which statement completed a finding: the first after which it can be proved.

Where the rank theorem decides (equations, public conditions, nothing declared), the row space is built again statement
by statement, and each row names whom it determines: O(r^2 + n) a row. Where statements gave many rows each (GROUP BY),
the rows up to some statement are factorised as a whole, and halved: a few rank tests. Elsewhere the log up to some
statement is audited again, and halved until it is found, since what is proved by fewer answers is proved by more; that
is done for short logs. A finding that a part of the log lacks is shown not to follow from it only where the verdict on
that part is complete. What is left has the last statement of its own proof: by then at the latest it was known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

import numpy as np

from keyhole.auditing.base import Exposure, Finding, Proof, Status
from keyhole.auditing.clock import interrupted as ended_early
from keyhole.auditing.matrix import system_matrix
from keyhole.auditing.meet import STRENGTH
from keyhole.auditing.promise import beyond_rank
from keyhole.gather.evidence import Constraint, System
from keyhole.model.transcript import Entry, Transcript
from keyhole.solve.rowspace import RowSpace
from keyhole.solve.rowspace.online import OnlineRowSpace

MOST_ROWS, MOST_CELLS = 2_000, 1 << 28  # of a row space that is built again
MANY_EACH = 16  # rows a statement from which on whole prefixes are factorised
MOST_WEIGHT = 1 << 62  # of its rows: below, they are words
MOST_STATEMENTS, MOST_PEOPLE, MOST_AUDITS = 200, 2_000, 12

Whom: TypeAlias = tuple[tuple[int, ...], str]  # rows and column of a finding
Audit: TypeAlias = Callable[[Transcript], Exposure]


@dataclass(frozen=True, slots=True)
class First:
    """The statement that completed a finding; `least`: it is shown that the statements before it do not prove it."""

    statement: int
    least: bool


def with_firsts(found: Exposure, again: Audit, interrupted: Callable[[], None] = lambda: None) -> Exposure:
    """The exposure, with the statement that completed each finding. `again` audits a part of its transcript;
    `interrupted` is called when Ctrl-C ends that: what is proved stays, of the rest it is not said what completed it.
    """
    if ended_early(found):
        return found
    firsts = dict[Whom, First]()
    try:
        firsts.update(_firsts(found, again))
    except KeyboardInterrupt:
        interrupted()
    return replace(found, firsts=firsts) if firsts else found


def _firsts(found: Exposure, again: Audit) -> Iterator[tuple[Whom, First]]:
    latest = _Latest()
    for group in found.groups:
        if last := latest.of(group.proof):
            yield (group.rows, group.column), First(last, least=False)
    waiting: dict[Whom, tuple[Status, int]] = {}
    ranked = _Ranked(found)
    for finding in found.findings:
        last = latest.of(finding.proof) if finding.proof is not None else 0
        if not last:
            continue  # by facts alone
        whom = ((finding.row,), finding.form or finding.column)
        shown = ranked.first(finding, last)
        if shown is not None:
            yield whom, First(shown, least=not ranked.passed_over(shown))
        else:
            waiting[whom] = (finding.status, last)
    yield from _Halving(found, again, waiting).firsts()


def statement_of(number: str) -> int:
    """The statement that a query is a part of; 0 for a fact.

    >>> statement_of("12.3"), statement_of("fact 1")
    (12, 0)
    """
    return 0 if number.startswith("fact") else int(number.partition(".")[0])


class _Latest:
    """The last statement that a proof names, and what it rests on; proofs are shared, so each is read once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, proof: Proof) -> int:
        if id(proof) not in self._known:
            named: list[str] = [*proof.weights, *(q for count in proof.counts for q in count)]
            named += [q for side in proof.sides for q in side.weights]
            named += [] if proof.order is None else [rank.number for rank in proof.order.ranks]
            named += [] if proof.rest is None else [proof.rest.number]
            moments = proof.moments
            named += [] if moments is None else [q for q in (moments.squares, moments.total) if q]
            last = max(map(statement_of, named), default=0)
            self._known[id(proof)] = max([last, *(self.of(earlier) for *_, earlier in proof.known)])
        return self._known[id(proof)]


class _Ranked:
    """Systems in which the rank theorem decides: who is determined by which row first."""

    def __init__(self, found: Exposure) -> None:
        self._evidence = found.evidence
        self._skipped = _skipped(found)
        self._found: dict[int, Mapping[int, int] | None] = {}

    def passed_over(self, statement: int) -> bool:
        """Was some statement before this one not judged?"""
        return self._skipped < statement

    def first(self, finding: Finding, last: int) -> int | None:
        """None: something else decides here."""
        assert finding.proof is not None
        number = finding.proof.system
        if finding.status is not Status.EXPOSED or finding.proof.rule or finding.proof.sides or finding.form:
            return None
        system = self._evidence.systems[number]
        if number not in self._found:
            self._found[number] = determined(system) if self._decides(system) else None
        found = self._found[number]
        if found is None:
            return None
        feature = next(f for f, each in enumerate(system.features) if each.column == finding.column)
        at = found.get(feature * system.atoms.K + int(system.atoms.of[finding.row]))
        return None if at is None else min(at, last)

    def _decides(self, system: System) -> bool:
        rows = [row for row in system.constraints if row.parts]
        few = len(rows) <= MOST_ROWS and len(rows) * system.unknowns <= MOST_CELLS
        one = len({f.column for f in system.features}) == len(system.features)
        return few and one and all(map(_exact, rows)) and not beyond_rank(system, self._evidence, None)


def _exact(row: Constraint) -> bool:
    return row.exact and row.lo == row.hi


def determined(system: System) -> dict[int, int] | None:
    """unknown -> the first statement after which the equations of a system determine it; 0 if facts alone do.

    None if a weight is too large for the row space that is asked row by row.
    """
    rows = sorted((c for c in system.constraints if c.parts), key=lambda c: statement_of(c.number))
    statements = sorted({statement_of(row.number) for row in rows})
    if rows and len(rows) >= MANY_EACH * len(statements):
        return _by_prefixes(system, rows, statements)
    space = OnlineRowSpace(system.unknowns, rng=np.random.default_rng(0))
    found: dict[int, int] = {}
    for row in rows:
        built = system.row(row)
        bits = built.bits if len(system.features) == 1 else None
        weights = {int(k): int(v) for k, v in built.items().items()} if bits is None else {}
        if any(abs(weight) >= MOST_WEIGHT for weight in weights.values()):
            return None
        decision = space.probe(bits if bits is not None else weights)
        space.commit(decision)
        found.update((unknown, statement_of(row.number)) for unknown in decision.exposes)
    return found


def _by_prefixes(system: System, rows: Sequence[Constraint], statements: Sequence[int]) -> dict[int, int]:
    """The same by whole prefixes of the log: who is determined by fewer rows is determined by more."""

    def after(place: int) -> set[int]:
        built = system_matrix(system, [row for row in rows if statement_of(row.number) <= statements[place]])
        return {built.unknown(int(column)) for column in RowSpace(built.matrix).determined()}

    found: dict[int, int] = {}
    waiting = [(after(len(statements) - 1), -1, len(statements) - 1)]
    while waiting:
        items, lo, hi = waiting.pop()
        if hi - lo == 1:
            found.update(dict.fromkeys(items, statements[hi]))
        elif items:
            middle = (lo + hi) // 2
            held = items & after(middle)
            waiting += [(held, lo, middle), (items - held, middle, hi)]
    return found


def _skipped(found: Exposure) -> float:
    """The first statement that was not judged: what it tells is in no proof, whoever is shown open without it."""
    numbers = [*(each.number for each in found.refused), *(each.number for each in found.unjudged)]
    return min(map(statement_of, numbers), default=inf)


def _relevant(found: Exposure, columns: set[str]) -> Sequence[Entry]:
    """The queries that these columns depend on: those about the columns that the log ties to them.

    All where it is not about single columns: people counted by their records, and sums over several records.
    """
    entries, systems = found.evidence.transcript.entries, found.evidence.systems
    tied = {name for system in systems if not columns.isdisjoint(system.columns) for name in system.columns}
    if found.evidence.counting is not None or not columns <= tied:
        return entries
    return [e for e in entries if not tied.isdisjoint(e.query.named_columns)]


class _Halving:
    """Short logs are audited again, up to some statement, until it is clear which one completed each finding.

    `waiting` has the status of each, and the last statement of its proof.
    """

    def __init__(self, found: Exposure, again: Audit, waiting: Mapping[Whom, tuple[Status, int]]) -> None:
        self._entries = _relevant(found, {column for _, column in waiting})
        self._again, self._audits = again, 0
        self._skipped = _skipped(found)
        self._statements = sorted({statement_of(e.number) for e in self._entries})
        self._small = len(self._statements) <= MOST_STATEMENTS and found.records <= MOST_PEOPLE
        self._status = {whom: status for whom, (status, _) in waiting.items()}
        self._ends = {whom: self._statements.index(last) for whom, (_, last) in waiting.items()}
        self._open = dict.fromkeys(waiting, -1)  # the last place after which it is shown not to follow

    def firsts(self) -> Iterator[tuple[Whom, First]]:
        """Each finding with its statement."""
        yield from self._within(list(self._ends), -1, max(self._ends.values(), default=-1))

    def _within(self, items: Sequence[Whom], lo: int, hi: int) -> Iterator[tuple[Whom, First]]:
        """The findings that hold after the statement at place `hi`, and were not found after that at `lo`."""
        if not items:
            return
        if hi - lo == 1 or not self._small or self._audits >= MOST_AUDITS:
            for whom in items:
                at = min(hi, self._ends[whom])
                least = at - self._open[whom] == 1 and self._statements[at] <= self._skipped
                yield whom, First(self._statements[at], least)
            return
        middle = (lo + hi) // 2
        held = self._held(items, middle)
        yield from self._within([whom for whom in items if whom in held], lo, middle)
        yield from self._within([whom for whom in items if whom not in held], middle, hi)

    def _held(self, items: Iterable[Whom], upto: int) -> set[Whom]:
        """Those of them that the statements up to this one prove already; of the others, who is shown open is noted."""
        self._audits += 1
        last = self._statements[upto]
        part = self._again(Transcript(tuple(e for e in self._entries if statement_of(e.number) <= last)))
        before: dict[Whom, int] = {((f.row,), f.form or f.column): STRENGTH[f.status] for f in part.findings}
        listed = {(row, f.column) for f in part.findings for row in (f.row, *f.rows)}
        for whom in items:
            (row,), column = whom
            if part.complete and (row, column) not in listed and whom not in before:
                self._open[whom] = max(self._open[whom], upto)
        return {whom for whom in items if before.get(whom, -1) >= STRENGTH[self._status[whom]]}
