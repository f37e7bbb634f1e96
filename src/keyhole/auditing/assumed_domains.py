"""Columns whose possible values nobody declared: which are assumed, and what answers then give away.

What is not declared is assumed against us. With lo, hi and d the least value, the greatest and the number of different
ones: (1) text and BOOLEAN: the values that occur, if d <= 20, else any text; (2) numbers with d <= 2, or with d <= 20
and at least 10 records each: the values that occur; (3) whole numbers with hi - lo <= 20: all from lo to hi; (4) other
numbers: the grid of the digits that occur, from lo to hi (more than 6 decimals: all numbers between). Everybody needs a
second table inside: where exchange and null vectors show one (`exchange`), that all-clear holds for every larger domain
too. Elsewhere a log that is not large is audited once more, as if these values had been declared, and what is proved
then and not before is `assumed`.

The domains never leave this module but as what is put into that audit: they are values of people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import gcd
from typing import Literal

import numpy as np

from keyhole.auditing.base import AssumedGroup, Assumption, Directions, Exposure, Finding, Proof, Status, query_order
from keyhole.auditing.clock import interrupted, ordered
from keyhole.auditing.end_proof import BoundUsed, EndProof
from keyhole.auditing.exchange import everybody_open
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.promise import ASSUMED_OPEN, INTERRUPTED_GAP, SHOWN_OPEN, declaring_line
from keyhole.datasets import PrivateValues, Roster, Source
from keyhole.encode.states import looked_at
from keyhole.errors import engine_interruptions
from keyhole.gather.evidence import Constraint, Evidence, System
from keyhole.model.numbers import round_fraction
from keyhole.model.predicate import Scalar
from keyhole.model.prior import Knowledge, Prior
from keyhole.model.query import DOUBTFUL
from keyhole.model.schema import Column, Kind, Role, Schema

MOST_VALUES = 20  # different ones that are assumed to be all
MANY_RECORDS = 10  # of each, from which on they are
WIDEST = 20  # hi - lo of whole numbers that are all assumed possible
DUST = Fraction(1, 10**9)  # of a total: what floating point may leave of it
MOST_DECIMALS = 6  # beyond them a column of DOUBLEs has no grid
SAMPLE = 100  # numbers that are looked at before all are
MOST_ENTRIES = 2_000_000  # rows x classes of a system that is audited once more
PRECISION = 1_200  # digits: the difference of two DOUBLEs is exact

Rule = Literal["values", "whole numbers", "grid", "constant", "any"]
Audit = Callable[[Knowledge], Exposure]

ASSUMED = "with the values that {name} has in the data assumed to be all that are possible"
NO_DATA = "the possible values of {name} are not declared, and the data do not have them"
CONSTANT = "everybody has the same {name} in the data, so nobody can be shown to have another"
ANY_NUMBER = "Of {names} it is proved if any number is possible; known ranges, grids and 0/1 values may give away more"
DOUBTFUL_END = "a total that may have been shown is as large, or as small, as {name} in the data allows"
BY_RANK = (
    "everybody else is open if {name} may be any number, and among the numbers that the data have was not searched"
)
UNFIT = "the answers do not fit the values that the data have, so none could be assumed for {name}"


@dataclass(frozen=True, slots=True)
class AssumedDomain:
    """What is assumed of a column: by which rule, what is put into the audit, and the ends of its numbers.

    `values`: those that occur; `whole numbers`: all from the least to the greatest; `grid`: all with the digits seen
    from the least to the greatest; `constant`: there is one value; `any`: nothing is assumed.
    """

    rule: Rule
    prior: Prior = field(default_factory=Prior)
    ends: tuple[Fraction, Fraction] | None = None

    @property
    def closed(self) -> bool:
        """Are there two possible values at least, between two ends? Then everybody needs a second one of them."""
        return self.rule in ("values", "whole numbers", "grid")

    def is_within(self, values: Iterable[Scalar]) -> bool:
        """Are all assumed values among these? Then a list of these says nothing that is not assumed anyway."""
        listed = self.prior.values if self.prior.numbers is None else self.prior.numbers
        return self.rule == "values" and listed is not None and set(listed) <= set(values)


def assume_domain(column: Column, source: Source) -> AssumedDomain:
    """The domain of an undeclared private column, from its values. Cost: a scan or two."""
    counts = source.value_counts(column.name, WIDEST + 1)
    if column.kind in (Kind.TEXT, Kind.BOOLEAN):
        return _texts(column.kind, counts)
    if not column.kind.numeric or counts == []:
        return AssumedDomain("any")
    ends = source.value_ends(column.name)
    found = AssumedDomain("any") if ends is None else _numbers(counts, ends)
    if found.rule != "grid" or ends is None:
        return found
    digits = _digits_seen(source.values(column.name))
    lo, hi = (_expand(end) if digits is None else Decimal(round(end * 10**digits)).scaleb(-digits) for end in ends)
    step = None if digits is None else Decimal(1).scaleb(-digits)
    return replace(found, prior=Prior(lo, hi, step, is_assumed=True))


def _texts(kind: Kind, counts: list[tuple[Scalar, int]] | None) -> AssumedDomain:
    if counts is None or not counts or len(counts) > MOST_VALUES:
        return AssumedDomain("any")
    if len(counts) == 1:
        return AssumedDomain("constant")
    listed = None if kind is Kind.BOOLEAN else tuple(str(value) for value, _ in counts)
    return AssumedDomain("values", Prior(values=listed, is_assumed=True))


def _numbers(counts: list[tuple[Scalar, int]] | None, ends: tuple[Fraction, Fraction]) -> AssumedDomain:
    lo, hi = ends
    if lo == hi:
        return AssumedDomain("constant", ends=ends)
    if counts is None:
        return AssumedDomain("grid", ends=ends)
    values = sorted(Fraction(value) for value, _ in counts)  # type: ignore[arg-type]
    often = all(records >= MANY_RECORDS for _, records in counts)
    if len(values) <= 2 or (len(values) <= MOST_VALUES and often):
        gaps = [b - a for a, b in pairwise(values)]
        step = reduce(_common, gaps)
        listed = None if len(values) == (hi - lo) / step + 1 else tuple(map(_expand, values))
        prior = Prior(_expand(lo), _expand(hi), _expand(step), numbers=listed, is_assumed=True)
        return AssumedDomain("values", prior, ends)
    if all(value.denominator == 1 for value in values) and hi - lo <= WIDEST:
        return AssumedDomain("whole numbers", Prior(_expand(lo), _expand(hi), Decimal(1), is_assumed=True), ends)
    return AssumedDomain("grid", ends=ends)


def _digits_seen(values: PrivateValues) -> int | None:
    """How many decimals the values have at most; None if more than `MOST_DECIMALS`.

    >>> seen = [0.25, 3.0], [0.1, 1e-7]
    >>> [_digits_seen(PrivateValues(np.ones(2, bool), None, 0, np.array(held))) for held in seen]
    [2, None]
    """
    if values.units is not None:
        units = np.asarray(values.units)[values.present]
        needed = next(d for d in range(values.digits + 1) if not (units % 10 ** (values.digits - d)).any())
        return needed if needed <= MOST_DECIMALS else None
    floats = values.floats[values.present]
    for digits in range(MOST_DECIMALS + 1):
        left = floats[np.round(floats, digits) != floats]
        if all(float(f"{number:.{digits}f}") == number for number in left[:SAMPLE].tolist()):
            left = left[SAMPLE:]
            if all(float(f"{number:.{digits}f}") == number for number in left.tolist()):
                return digits
    return None


def _common(one: Fraction, two: Fraction) -> Fraction:
    """The greatest number that both are multiples of."""
    over = one.denominator * two.denominator
    return Fraction(gcd(int(one * over), int(two * over)), over)


def _expand(value: Fraction) -> Decimal:
    """A number with finitely many decimals, exactly."""
    return round_fraction(value, PRECISION)


def with_assumptions(
    found: Exposure, roster: Roster, source: Source | None, audit: Audit, *, exchanges: bool = True
) -> Exposure:
    """The verdict with what follows where values of undeclared columns are assumed; `audit` judges the log anew.

    `exchanges`: may people be shown open by exchanging two of them, however near their values are?
    """
    evidence = found.evidence
    asked = asked_columns(evidence, roster.schema)
    private = {c.name: c for c in roster.schema.of_role(Role.PRIVATE)}
    columns = [private[name] for name in asked if name in private and evidence.prior(name).state == "undeclared"]
    if not columns or interrupted(found):
        return found
    if source is None:
        lines = {c.name: declaring_line(c) for c in columns}
        gap = f"{NO_DATA.format(name=columns[0].name)}: {lines[columns[0].name]}"
        return replace(found, assumption=Assumption(found, (), gap, found.promise, lines))
    try:
        with engine_interruptions():
            return _Assuming(found, roster, source, audit, columns).verdict(exchanges=exchanges)
    except KeyboardInterrupt:
        return replace(found, missed=ordered({*found.missed, INTERRUPTED_GAP}))


def asked_columns(evidence: Evidence, schema: Schema) -> dict[str, None]:
    """The private columns that answers depend on, those that people are counted by included."""
    secret = frozenset(c.name for c in schema.columns if c.secret)
    numbers = frozenset[str]() if evidence.counting is None else evidence.counting.numbers
    counted = (e.query for e in evidence.transcript.entries if e.number in numbers)
    names = [name for system in evidence.systems for name in system.columns]
    return dict.fromkeys([*names, *sorted({name for query in counted for name in looked_at(query, secret) & secret})])


class _Assuming:
    """One verdict, and the columns that it is about of which nobody declared the values."""

    def __init__(
        self, found: Exposure, roster: Roster, source: Source, audit: Audit, columns: Iterable[Column]
    ) -> None:
        self.found, self.roster, self.source, self.audit = found, roster, source, audit
        self.columns = {c.name: c for c in columns}
        self._held: dict[str, PrivateValues] = {}
        self._directions: dict[int, Directions] = {}
        self._exchanged = frozenset[int]()
        self.domains = {name: assume_domain(c, source) for name, c in self.columns.items()}
        self.lines = {name: declaring_line(c) for name, c in self.columns.items() if self.domains[name].rule != "any"}

    def verdict(self, *, exchanges: bool) -> Exposure:
        """The verdict, with findings that need the assumption, and whether everybody else is shown to be open."""
        found, missed = self.found, self.found.missed
        needed = [name for name, domain in self.domains.items() if domain.closed]
        constant = [name for name, domain in self.domains.items() if domain.rule == "constant"]
        again, gap = found, found.gap
        cleared = bool(needed) and exchanges and not found.gap and self._all_exchanged(needed)
        large = next((name for name in needed if self._is_large(name)), "")
        if needed and not cleared and large:
            gap = gap or f"{BY_RANK.format(name=large)}: {self.lines[large]}"
        elif needed and not cleared:
            again = self.audit(self._knowledge())
            if interrupted(again):
                raise KeyboardInterrupt
            if len(again.contradictions) > len(found.contradictions):
                again, gap = found, gap or f"{UNFIT.format(name=needed[0])}: {self.lines[needed[0]]}"
            elif not again.gap and self.roster.schema.people and self._all_assumed(needed):
                gap, missed = "", ()  # a table with values that occur is one of any values
            elif again.gap and not gap:
                gap = f"{ASSUMED.format(name=needed[0])}, {again.gap}; {self.lines[needed[0]]}"
        if constant and not gap:
            gap = f"{CONSTANT.format(name=constant[0])}: {self.lines[constant[0]]}"
        new = self._news(again)
        doubtful = ""
        if constant or not cleared:  # nobody who has a second value is in a total at its end
            at_ends, doubtful = self._at_ends(again.evidence, {(f.row, f.column) for f in new})
            new += at_ends
        if doubtful and not gap:
            gap = f"{DOUBTFUL_END.format(name=doubtful)}: {self.lines[doubtful]}"
        promise = self._promise(again, needed)
        if (gap, promise) == (found.gap, found.promise) and not needed and not new:
            return found
        groups = tuple(self._groups(new, again.evidence))
        findings = sorted((*found.findings, *new), key=lambda f: (f.row, f.column, f.assumed))
        made = Assumption(again, groups, gap, promise, self.lines, self._exchanged)
        directions = {**found.directions, **again.directions, **self._directions}
        return replace(found, findings=tuple(findings), assumption=made, directions=directions, missed=missed)

    def _promise(self, again: Exposure, needed: Iterable[str]) -> str:
        """What is proved of the others, with its condition where only the rank of equations leaves a column open."""
        assumed = set(needed)
        if self._all_assumed(needed):
            return ASSUMED_OPEN
        ranked = {
            name
            for number, system in enumerate(again.evidence.systems)
            for name in system.columns
            if number not in again.shown and name in self.columns and name not in assumed
        }
        complete = SHOWN_OPEN if again.gap else again.promise
        return (
            f"{complete}. {ANY_NUMBER.format(names=', '.join(sorted(ranked)))}"
            if ranked and complete == SHOWN_OPEN
            else complete
        )

    def _all_assumed(self, needed: Iterable[str]) -> bool:
        """Is every column that was asked declared, or assumed to have the values that occur?"""
        evidence, assumed = self.found.evidence, set(needed)
        asked = asked_columns(evidence, self.roster.schema)
        return all(name in assumed or evidence.prior(name).state == "declared" for name in asked)

    def _knowledge(self) -> Knowledge:
        """What was declared, and what is assumed besides."""
        before = self.found.evidence.knowledge
        priors = {name: domain.prior for name, domain in self.domains.items() if domain.closed}
        return replace(before, priors={**before.priors, **priors})

    # everybody may be exchanged

    def _is_large(self, name: str) -> bool:
        """Is a column of many possible values asked about in too many ways for a second audit?"""
        systems = (s for s in self.found.evidence.systems if name in s.columns)
        many = any(len(s.constraints) * s.atoms.K > MOST_ENTRIES for s in systems)
        return self.domains[name].rule == "grid" and many

    def _all_exchanged(self, needed: Iterable[str]) -> bool:
        """May everybody be exchanged with somebody of another value, in all that the log asks of these columns?"""
        names, evidence = set(needed), replace(self.found.evidence, knowledge=self._knowledge())
        if not names <= {name for system in evidence.systems for name in system.columns}:
            return False
        known = Known.prior(evidence, self.roster, None, self.source)
        known.learn(
            Claim(f.row, f.column, f.status, f.value, f.lo, f.hi, f.proof)
            for f in self.found.findings
            if f.proof is not None and not f.form and f.status is Status.EXPOSED
        )
        mine = [system for system in evidence.systems if names & set(system.columns)]
        listed = {(row, f.column) for f in self.found.findings if f.form for row in (f.row, *f.rows)}
        shown = all(everybody_open(system, known, listed) for system in mine)
        self._directions = known.directions
        self._exchanged = frozenset(known.number(system) for system in mine if shown)
        return shown

    # what needs the assumption

    def _news(self, again: Exposure) -> list[Finding]:
        """What the second audit proves and the first does not."""
        before = {(f.row, f.form or f.column): f for f in self.found.findings}
        found = []
        for f in again.findings if again is not self.found else ():
            known = before.get((f.row, f.form or f.column))
            if known is not None and (f.status is not Status.EXPOSED or known.status is Status.EXPOSED):
                continue
            if f.status is Status.EXPOSED:
                found.append(replace(f, assumed=True))
            else:  # ends and values that remain may be assumed ones, so they are not printed
                found.append(replace(f, assumed=True, lo=None, hi=None, allowed=(), excluded=()))
        return found

    def _at_ends(self, evidence: Evidence, new: set[tuple[int, str]]) -> tuple[list[Finding], str]:
        """Totals of n people that are n times the least or the greatest value: everybody in them has it.

        And the column of such a total of which it is not sure that it was shown, or nothing.
        """
        claims: dict[tuple[int, str], Claim] = {}
        doubtful = ""
        unsure = {e.number for e in evidence.transcript.entries if e.certainty in DOUBTFUL}
        known = new | {(f.row, f.column) for f in self.found.findings if f.status is Status.EXPOSED}
        for number, system in enumerate(evidence.systems):
            for name in system.columns:
                domain = self.domains.get(name)
                if domain is None or domain.ends is None:
                    continue
                for claim in _totals_at_ends(number, system, name, domain.ends):
                    if (claim.row, name) in known or not self._is_true(claim):
                        continue
                    if claim.proof is None or unsure.isdisjoint(claim.proof.weights):
                        claims.setdefault((claim.row, name), claim)
                    else:
                        doubtful = name
        return self._named([claims[key] for key in sorted(claims)]), doubtful

    def _is_true(self, claim: Claim) -> bool:
        """Does the record have this value? Answers that are not those of the data can give another."""
        held = self._held.get(claim.column)
        if held is None:
            held = self._held[claim.column] = self.source.values(claim.column)
        if not held.present[claim.row] or claim.value is None:
            return False
        if held.units is None:
            return Fraction(float(held.floats[claim.row])) == Fraction(claim.value)  # type: ignore[arg-type]
        return Fraction(int(held.units[claim.row]), 10**held.digits) == Fraction(claim.value)  # type: ignore[arg-type]

    def _named(self, claims: list[Claim]) -> list[Finding]:
        rows = np.array([claim.row for claim in claims], dtype=np.int64)
        if not len(rows):
            return []
        labels, alone = self.roster.labels(rows), self.roster.singled_out(rows)
        return [
            Finding(who, c.row, c.column, c.status, c.value, c.lo, c.hi, c.proof, one, assumed=True)
            for c, who, one in zip(claims, labels, alone, strict=True)
        ]

    # by statement and group

    def _groups(self, new: Iterable[Finding], evidence: Evidence) -> Iterable[AssumedGroup]:
        shared: dict[tuple[str, tuple[str, ...]], list[Finding]] = {}
        for f in new:
            cited = () if f.proof is None else tuple(sorted(f.proof.weights, key=query_order))
            shared.setdefault((f.column, cited), []).append(f)
        for (column, cited), people in shared.items():
            rows = tuple(dict.fromkeys(f.row for f in people))
            end, whole = self._end(column, cited, people, evidence) if len(cited) == 1 else ("", False)
            yield AssumedGroup(column, cited, rows, end, whole)

    def _end(self, column: str, cited: tuple[str, ...], people: list[Finding], evidence: Evidence) -> tuple[str, bool]:
        """Is the one answer as large, or as small, as it can be? And are these all the people in it?"""
        domain = self.domains.get(column)
        for system in evidence.systems:
            row = next((c for c in system.constraints if c.number == cited[0]), None)
            if row is None or domain is None or domain.ends is None:
                continue
            added = _added_up(system, row, column)
            if added is None:
                return "", False
            whole = sum(int(system.atoms.sizes[k]) for k in added) == len(people)
            return next(iter(_reached(system, row, added, domain.ends)), ""), whole
        return "", False


def _added_up(system: System, row: Constraint, column: str) -> dict[int, Fraction] | None:
    """atom -> what each record of it counts in a sum of one column; None if other things are added up too."""
    K, found = system.atoms.K, dict[int, Fraction]()
    if (
        not row.equation
        or row.fact is not None
        or system.partitions
        or any(feature.guard is not None for feature in system.features)
    ):
        return None
    for unknown, coefficient in system.row(row).items().items():
        feature = system.features[unknown // K]
        if feature.column != column or feature.power != 1:
            return None
        found[unknown % K] = found.get(unknown % K, Fraction(0)) + Fraction(coefficient)
    where = system.present.get(column)
    mask = None if where is None else system.atoms.mask(where)
    return {k: c for k, c in found.items() if c and (mask is None or mask[k])}


def _reached(
    system: System, row: Constraint, added: Mapping[int, Fraction], ends: tuple[Fraction, Fraction]
) -> dict[str, Fraction]:
    """greatest or least -> that total, where the answer is it."""
    shares = [(c * int(system.atoms.sizes[k]), c > 0) for k, c in added.items()]
    most = sum((share * ends[positive] for share, positive in shares), Fraction(0))
    least = sum((share * ends[not positive] for share, positive in shares), Fraction(0))
    if row.lo is None or row.hi is None or not added:
        return {}
    fine = row.hi - row.lo <= DUST * max(abs(row.lo), abs(row.hi), Fraction(1))
    return {word: end for word, end in (("greatest", most), ("least", least)) if fine and row.lo <= end <= row.hi}


def _totals_at_ends(number: int, system: System, column: str, ends: tuple[Fraction, Fraction]) -> Iterable[Claim]:
    """A claim for everybody in a total that is as large, or as small, as it can be."""
    lo, hi = ends
    K = system.atoms.K
    order = np.argsort(system.atoms.of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(system.atoms.sizes)])
    totals = ((row, added) for row in system.constraints if (added := _added_up(system, row, column)))
    largest_first = sorted(totals, key=lambda each: -sum(int(system.atoms.sizes[k]) for k in each[1]))
    for row, added in largest_first:
        reached = _reached(system, row, added, ends)
        if not reached:
            continue
        greatest = "greatest" in reached
        feature = next(f for f, each in enumerate(system.features) if each.column == column and each.power == 1)
        for k, coefficient in added.items():
            end = hi if (coefficient > 0) == greatest else lo
            proof = _extreme_proof(number, row, feature * K + k, coefficient, end, at_most=end == hi)
            value = _expand(end)
            for r in order[starts[k] : starts[k + 1]].tolist():
                yield Claim(int(r), column, Status.EXPOSED, value, value, value, proof)


def _extreme_proof(
    system: int, row: Constraint, unknown: int, coefficient: Fraction, end: Fraction, *, at_most: bool
) -> Proof:
    """One side by the answer with everybody else at an end, the other by the person's own end."""
    weights = {row.number: 1 / coefficient}
    own = BoundUsed("max" if at_most else "min", end, Fraction(1), 1, own=True)
    told, known = ("lo", "hi") if at_most else ("hi", "lo")
    sides = (EndProof(told, end, weights), EndProof(known, end, {}, (own,)))
    return Proof(system, weights, {unknown: 1}, sides=tuple(sorted(sides, key=lambda side: side.side, reverse=True)))
