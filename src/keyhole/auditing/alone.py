"""What answers say of one person alone, though of none of his records by itself.

One statement that can look at nobody else (MAX(cost) WHERE name = 'Ann', who has two records) is about her, whatever it
computes; and so is a combination of answers whose sum over everybody else vanishes: SUM(cost) of those with the flu,
less the same without Bob. Both expose the person: a nonzero form on his own unknowns is determined, unless it is the
same whatever he is (COUNT(ill = 'flu' OR ill <> 'flu') is how many records he has). Sound, not complete: only linear
combinations are searched.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import lcm, prod
from typing import TypeAlias

import numpy as np

from keyhole.auditing.base import Finding, Proof, Status, query_order
from keyhole.auditing.numbers import outward
from keyhole.auditing.people import in_words
from keyhole.auditing.people_sums import SURE, Equation, PeopleSums, Residual, Summand, TooManyCoefficients
from keyhole.auditing.rules.settle import settled
from keyhole.gather.answers import interval
from keyhole.gather.evidence import Evidence
from keyhole.model.cells import Cell, Partition, partition_column
from keyhole.model.grid import Grid
from keyhole.model.meaning import compare_value
from keyhole.model.people import Atom
from keyhole.model.predicate import (
    FALSE,
    TRUE,
    Has,
    Predicate,
    PrivateLeaf,
    make_and,
    make_is_true,
    make_not,
    make_or,
)
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Kind, Schema
from keyhole.model.transcript import Entry
from keyhole.solve.rowspace import RowMatrix, RowSpace
from keyhole.solve.rowspace.null_vectors import forms_on, null_space

ONE = "it can look at nobody else"
MOST_CELLS = 4_000_000
MOST_FORMS = 1000
TOO_LARGE = (
    "what private conditions tell of one person's records together was not searched: the log is too large for it"
)


def said_alone(sums: PeopleSums, found: Sequence[Finding], missed: set[str]) -> list[Finding]:
    """What is known of one person alone, beyond what was `found`; what is not searched is added to `missed`."""
    known = {_key(f) for f in found if f.proof is not None}
    alone = {(f.row, f.column) for f in found if f.status is Status.EXPOSED and not f.form}
    told = (f for f in _Alone(sums, missed).findings() if _key(f) not in known)
    return [f for f in told if not all((row, f.column) in alone for row in f.rows)]


def _key(finding: Finding) -> tuple[object, ...]:
    cited = frozenset(finding.proof.weights) if finding.proof is not None else frozenset()
    return finding.row, finding.column, cited


class _Alone:
    def __init__(self, sums: PeopleSums, missed: set[str]) -> None:
        self.sums, self.missed = sums, missed
        self.news = News(sums.evidence, sums.schema)

    def findings(self) -> Iterator[Finding]:
        for entry in self.sums.entries:
            if _nonlinear(entry.query, self.sums):
                yield from self._direct(entry)
        try:
            equations = list(self.sums.equations())
        except TooManyCoefficients:
            self.missed.add(TOO_LARGE)
            return
        if any(self._new(self.sums.unknowns[u].addend) for e in equations for u in e.coefficients):
            yield from self._combined(equations)

    @staticmethod
    def _new(addend: Summand) -> bool:
        """Is it no plain sum of a column? Those are searched by other rules."""
        return addend.residual != SURE

    # one statement

    def _direct(self, entry: Entry) -> Iterator[Finding]:
        """A statement that can look at one person's records only."""
        rows = self.sums.candidates(entry.query)
        owners = np.unique(self.sums.person[rows])
        answer = entry.answer
        if len(owners) != 1 or owners[0] < 0 or answer is None or answer.null or len(rows) < 1:
            return
        term = entry.query.terms[0]
        private = any(r != SURE for where in _conditions(entry.query) for r, _ in self.sums.residuals(where))
        if len(rows) == 1 and not private:
            return  # the value of one record, which other rules find
        if not self._says(entry.query, rows):
            return
        value = answer.value
        exact = value is not None and not isinstance(value, bool) and entry.query.digits is None
        status = Status.EXPOSED if exact else Status.INFERRED
        form = f"{_asked(entry.query)} of {_records(len(rows))}{self._with(entry.query, rows)}"
        if isinstance(value, bool):
            form += f" is {'true' if value else 'false'}"
        ends = (value, value) if isinstance(value, Decimal) and exact else _range(entry)
        parts = [{"weight": Fraction(1), "select": entry.query.canonical(), "rows": [r + 1 for r in rows.tolist()]}]
        told = {"alone": parts, "constant": Fraction(0), "off": Fraction(0)}
        proof = Proof(-1, {entry.number: Fraction(1)}, rule=ONE, counted=told)
        column = term.column or self._named(entry.query)
        yield self._finding(rows.tolist(), column, status, value if exact else None, ends, proof, form)

    def _says(self, query: Query, rows: np.ndarray) -> bool:
        """Can it come out differently, whatever he has? Of counts only those compared with a number are asked here."""
        term = query.terms[0]
        form = [
            (Fraction(1), Summand(term.column, 1, residual), r)
            for residual, atoms in self.sums.residuals(term.where)
            for r in rows[np.isin(self.sums.atoms.of[rows], atoms)].tolist()
        ]
        if term.column is not None:
            told = self.news.tells(form)
            self.missed |= {TOO_LARGE} if told is None else set()
            return bool(told) and (
                query.test is None
                or self._may_differ(query, len(form), all(part.residual == SURE for _, part, _ in form))
            )
        if query.test is None or len(query.terms) != 1 or query.per or term.weight is not None or term.factor != 1:
            return False
        sure = sum(part.residual == SURE for _, part, _ in form)
        free = sum(bool(self.news.tells([each])) for each in form)
        ways = {compare_value(query, Fraction(sure + k)) for k in range(free + 1)}
        return sure + free == len(form) and len(ways) > 1

    def _may_differ(self, query: Query, records: int, every: bool) -> bool:
        """Do the ends of what is declared of a column leave both yes and no? `every`: it is asked of all records."""
        term, test = query.terms[0], query.test
        assert test is not None
        prior = self.sums.evidence.prior(term.column or "")
        times = term.factor * (records if query.aggregate is Aggregate.SUM and not query.per else 1)
        found = []
        for end, above in ((prior.lo, times < 0), (prior.hi, times > 0)):
            if end is None or len(query.terms) > 1 or term.weight is not None:
                found.append(test.op in ((">", ">=", "<>") if above else ("<", "<=", "<>")))
            else:
                reach = Fraction(end) * times
                none = reach if every else Fraction(0)
                found.append(compare_value(query, max(reach, none) if above else min(reach, none)) is True)
        return found[0] != found[1] or test.op in ("=", "<>")

    def _with(self, query: Query, rows: np.ndarray) -> str:
        found = []
        for where in dict.fromkeys(_conditions(query)):
            atoms = set(self.sums.atoms.of[rows].tolist())
            for residual, there in self.sums.residuals(where):
                if residual != SURE and atoms & set(there.tolist()):
                    found.append(residual_in_words(residual))
        return " with " + " or ".join(dict.fromkeys(found)) if found else ""

    def _named(self, query: Query) -> str:
        for where in _conditions(query):
            for residual, _ in self.sums.residuals(where):
                for literals in residual:
                    for leaf, _ in literals:
                        return _column(leaf)
        return "records"

    # several

    def _combined(self, equations: list[Equation]) -> Iterator[Finding]:
        U = len(self.sums.unknowns)
        if len(equations) * U > MOST_CELLS:
            self.missed.add(TOO_LARGE)
            return
        scales = [lcm(*(c.denominator for c in e.coefficients.values())) for e in equations]
        rows = [{u: int(c * s) for u, c in e.coefficients.items()} for e, s in zip(equations, scales, strict=True)]
        own: dict[int, list[int]] = {}
        for u, unknown in enumerate(self.sums.unknowns):
            if unknown.people in self.sums.alone:
                own.setdefault(unknown.people, []).append(u)
        if not own:
            return
        matrix = RowMatrix.from_sparse(rows, U)
        dense = matrix.block(np.arange(len(rows)), np.arange(U), np.dtype(object))
        rank, basis = null_space(dense)
        space = RowSpace(matrix)
        if rank != space.rank:
            self.missed.add(TOO_LARGE)
        for people, unknowns in list(own.items())[:MOST_FORMS]:
            for form in forms_on(basis, unknowns)[0]:
                target = {u: c for u, c in zip(unknowns, form, strict=True) if c}
                weights = space.express(target) if self._tells(people, target) else None
                if weights:
                    yield from self._claimed(people, target, weights, equations, scales)

    def _tells(self, people: int, target: Mapping[int, int]) -> bool:
        addends = [self.sums.unknowns[u].addend for u in target]
        if not any(map(self._new, addends)):
            return False
        person = self.sums.alone[people]
        form = [
            (Fraction(c), self.sums.unknowns[u].addend, row)
            for u, c in target.items()
            for row in self.sums.rows(person, self.sums.unknowns[u].atom)
        ]
        told = self.news.tells(form)
        if told is None:
            self.missed.add(TOO_LARGE)
        return bool(told)

    def _claimed(
        self,
        people: int,
        target: Mapping[int, int],
        weights: Mapping[int, Fraction],
        equations: Sequence[Equation],
        scales: Sequence[int],
    ) -> Iterator[Finding]:
        person = self.sums.alone[people]
        used = [(equations[i], w * scales[i]) for i, w in weights.items() if w]
        ends = [sorted((w * e.lo, w * e.hi)) for e, w in used]
        lo, hi = sum((a for a, _ in ends), Fraction(0)), sum((b for _, b in ends), Fraction(0))
        rows = {u: self.sums.rows(person, self.sums.unknowns[u].atom) for u in target}
        about = sorted({r for each in rows.values() for r in each})
        if len(target) == 1 and self._counts(target) and (lo <= 0 or hi >= len(about)):
            return  # none of his records, or all: known of each of them
        parts = [
            {"weight": Fraction(c), "select": _select(addend), "rows": [r + 1 for r in rows[u]]}
            for u, c in target.items()
            for addend in [self.sums.unknowns[u].addend]
        ]
        cited = {e.number: w * e.scale for e, w in used}
        constant = -sum((w * e.offset for e, w in used), Fraction(0))
        told = {"alone": parts, "constant": constant, "off": (hi - lo) / 2}
        rule = ONE if len(cited) == 1 else f"{_difference(cited)} is about nobody else"
        proof = Proof(-1, cited, rule=rule, counted=told)
        exact = all(e.exact for e, _ in used)
        column = self._main_column([self.sums.unknowns[u].addend for u in target])
        claim = settled(-1, column, (lo, hi), proof, self._grid(target), rounded=not exact)
        form = self._words(target, rows)
        yield self._finding(about, column, claim.status, claim.value, (claim.lo, claim.hi), proof, form)

    def _grid(self, target: Mapping[int, int]) -> Grid:
        """Counts are whole numbers."""
        return Grid(Fraction(1)) if self._counts(target) else Grid(None)

    def _counts(self, target: Mapping[int, int]) -> bool:
        return all(self.sums.unknowns[u].addend.column is None for u in target)

    def _main_column(self, addends: Sequence[Summand]) -> str:
        named = [a.column for a in addends if a.column is not None]
        leaves = [leaf for a in addends for literals in a.residual for leaf, _ in literals]
        return named[0] if named else _column(leaves[0]) if leaves else "records"

    def _words(self, target: Mapping[int, int], rows: Mapping[int, Sequence[int]]) -> str:
        merged: dict[tuple[int, Summand], int] = {}
        for u, c in target.items():
            key = (c, self.sums.unknowns[u].addend)
            merged[key] = merged.get(key, 0) + len(rows[u])
        parts = []
        for (c, addend), count in merged.items():
            times = "" if abs(c) == 1 else f"{abs(c)} × "
            parts.append(f"{'-' if c < 0 else '+'} {times}{_of_summand(addend, count)}")
        return " ".join(parts).removeprefix("+ ")

    def _finding(
        self,
        rows: list[int],
        column: str,
        status: Status,
        value: object,
        ends: tuple[Decimal | None, Decimal | None],
        proof: Proof,
        form: str,
    ) -> Finding:
        label = self.sums.roster.labels(np.array(rows[:1], dtype=np.int64))[0]
        shown = value if isinstance(value, Decimal | bool) else None
        return Finding(label, rows[0], column, status, shown, *ends, proof, form=form, rows=tuple(rows))


def _range(entry: Entry) -> tuple[Decimal | None, Decimal | None]:
    """Between what a rounded answer lies; nothing for yes or no."""
    about = interval(entry.query, entry.answer, Fraction(0))
    if entry.query.test is not None or about.lo is None or about.hi is None:
        return None, None
    return outward(about.lo, about.hi)


def _nonlinear(query: Query, sums: PeopleSums) -> bool:
    """Is an answer no sum over people? COUNT(DISTINCT person) is decided elsewhere."""
    if query.aggregate is Aggregate.PEOPLE:
        return False
    return query.aggregate is not Aggregate.SUM or query.test is not None or sums.known_sum(query.per) is None


def _conditions(query: Query) -> list[Predicate]:
    return [*(t.where for t in (*query.terms, *query.per))]


def _difference(cited: Mapping[str, Fraction]) -> str:
    parts = []
    for q in sorted(cited, key=query_order):
        times = "" if abs(cited[q]) == 1 else f"{abs(cited[q])} × "
        parts.append(f"{'-' if cited[q] < 0 else '+'} {times}Q{q}")
    return " ".join(parts).removeprefix("+ ")


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _column(leaf: PrivateLeaf) -> str:
    return leaf.table if isinstance(leaf, Has) else leaf.column


def _asked(query: Query) -> str:
    """What a statement computes, in words as short as its SELECT item."""
    if query.aggregate is Aggregate.SUM:
        of = next((t.column for t in query.terms if t.column is not None), None)
        named = "count" if of is None else f"{'average' if query.per else 'total'} {of}"
    else:
        named = f"{query.aggregate.value}({query.terms[0].column or query.terms[0].weight})"
    test = "" if query.test is None else f" {query.test.op} {query.test.value}"
    return named + test


def _of_summand(addend: Summand, count: int) -> str:
    told = "" if addend.residual == SURE else f" with {residual_in_words(addend.residual)}"
    what = "number" if addend.column is None else f"total {addend.column}{'²' if addend.power == 2 else ''}"
    return f"{what} of {_records(count)}{told}"


def residual_in_words(residual: frozenset[frozenset[tuple[PrivateLeaf, bool]]]) -> str:
    """What must hold of the private things of a record.

    >>> from keyhole.model.predicate import Comparison
    >>> residual_in_words(frozenset({frozenset({(Comparison("ill", "=", "flu"), True)})}))
    '"ill" = \\'flu\\''
    """
    parts = [" and ".join(sorted(_literal(leaf, holds) for leaf, holds in literals)) for literals in residual]
    return " or ".join(sorted(parts))


def _literal(leaf: PrivateLeaf, holds: bool) -> str:
    if isinstance(leaf, Has):
        return in_words(leaf, holds).removeprefix("has ")
    return in_words(leaf, holds)


def _select(addend: Summand) -> str:
    """What is added up, as an aggregate over the records it is added up of."""
    clauses = [make_and(*(leaf if h else make_not(make_is_true(leaf)) for leaf, h in each)) for each in addend.residual]
    where = TRUE if addend.residual == SURE else make_or(*clauses) if clauses else FALSE
    return Term(addend.column, where, power=addend.power).sql()


MOST_WAYS = 4096
Sum: TypeAlias = Sequence[tuple[Fraction, Summand, int]]  # coefficient, what is added up, of which record
Variable: TypeAlias = tuple[str, Hashable]


class News:
    """Tells sums that may come out differently from those that cannot; None where there are too many ways to try."""

    def __init__(self, evidence: Evidence, schema: Schema) -> None:
        self.evidence, self.schema = evidence, schema
        self.atoms: dict[PrivateLeaf, tuple[int, Atom]] = {}
        if evidence.counting is not None:
            self.atoms = {atom.leaf: (i, atom) for i, atom in enumerate(evidence.counting.atoms)}
        ties = () if evidence.counting is None else evidence.counting.ties
        self.implied = {(t.left, t.right) for t in ties}

    def tells(self, form: Sum) -> bool | None:
        """Can the sum come out in two ways?"""
        leaves = {leaf for _, a, _ in form for literals in a.residual for leaf, _ in literals}
        parts = self._parts(leaves, {a.column for _, a, _ in form if a.column is not None})
        variables: dict[Variable, Sequence[Cell | bool]] = {}
        for _, addend, row in form:
            for name in self._looked(addend):
                if name in parts:
                    variables[name, row] = [c for c in parts[name].cells if not c.null]
            for leaf in (x for literals in addend.residual for x, _ in literals if isinstance(x, Has)):
                variables[self._instance(leaf, row)] = (True, False)
        if prod(len(v) for v in variables.values()) > MOST_WAYS:
            return None
        seen: set[Fraction] = set()
        for chosen in product(*variables.values()):
            way = dict(zip(variables, chosen, strict=True))
            if self._possible(way, leaves):
                value = self._value(form, way, parts)
                if value is None:
                    return True
                seen.add(value)
        return len(seen) > 1

    def _looked(self, addend: Summand) -> set[str]:
        named = {x.column for literals in addend.residual for x, _ in literals if not isinstance(x, Has)}
        return named if addend.column is None else {*named, addend.column}

    def _parts(self, leaves: set[PrivateLeaf], summed: set[str]) -> dict[str, Partition]:
        found = {}
        own = [x for x in leaves if not isinstance(x, Has)]
        for name in {x.column for x in own} | summed:
            column = self.schema.find(name)
            if column is not None and (column.kind is not Kind.OTHER or name not in summed):
                asked = [x for x in own if x.column == name]
                found[name] = partition_column(column, asked, self.evidence.prior(name))
        return found

    def _instance(self, leaf: Has, row: int) -> Variable:
        known = self.atoms.get(leaf)
        return f"rows {leaf}", ("record", row) if known is None else ("instance", int(known[1].at[row]))

    def _possible(self, way: Mapping[Variable, Cell | bool], leaves: set[PrivateLeaf]) -> bool:
        """Does a row that satisfies more conditions satisfy fewer? And has nobody rows without a key?"""
        held: dict[int, set[bool]] = {}
        for leaf in leaves:
            if leaf in self.atoms and isinstance(leaf, Has):
                for (name, at), value in way.items():
                    if name == f"rows {leaf}":
                        if value is True and at == ("instance", -1):
                            return False
                        held.setdefault(self.atoms[leaf][0], set()).add(value is True)
        for (i, x), (j, y) in self.implied:
            if i in held and j in held and held[i] == {x} and held[j] == {not y}:
                return False
        return True

    def _value(self, form: Sum, way: Mapping[Variable, Cell | bool], parts: Mapping[str, Partition]) -> Fraction | None:
        """The sum in one way that he may be; None if it depends on a value that is still free."""
        total, free = Fraction(0), dict[tuple[str, int, int], Fraction]()
        for times, addend, row in form:
            if not self._holds(addend.residual, row, way, parts):
                continue
            if addend.column is None:
                total += times
                continue
            cell = way.get((addend.column, row))
            point = cell.point if isinstance(cell, Cell) else None
            if point is not None and not isinstance(point, str):
                total += times * Fraction(point) ** addend.power  # type: ignore[arg-type]
            else:
                key = (addend.column, row, addend.power)
                free[key] = free.get(key, Fraction(0)) + times
        return None if any(free.values()) else total

    def _holds(
        self, residual: Residual, row: int, way: Mapping[Variable, Cell | bool], parts: Mapping[str, Partition]
    ) -> bool:
        def truth(leaf: PrivateLeaf) -> bool:
            if isinstance(leaf, Has):
                return way[self._instance(leaf, row)] is True
            cell = way[leaf.column, row]
            assert isinstance(cell, Cell)
            return parts[leaf.column].truth(leaf, cell) is True

        return any(all(truth(leaf) is holds for leaf, holds in literals) for literals in residual)
