"""What a stranger needs to replay a proof: which cell of which statement is meant, and what a rule rests on.

`keyhole.checker` replays them; docs/json.md has the fields.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from keyhole.auditing.base import SHORT_LIST, Exposure, OrderSteps, Proof, RestOfSum, SquareSums, query_order
from keyhole.gather.answers import noise_compared
from keyhole.gather.evidence import GIVEN, ROUNDED, Constraint, System
from keyhole.gather.squares import variances
from keyhole.model.people import BoundedCount, Counting
from keyhole.model.predicate import Has, Opaque, format_predicate
from keyhole.model.query import COUNTED_ROWS, HALF, OTHER_GROUPS, Aggregate
from keyhole.model.schema import Role, Schema
from keyhole.model.transcript import Entry
from keyhole.report.documents.json_text import json_answer, json_fraction, json_labels
from keyhole.report.documents.verdict import Comparison, ProofItem, SquareSum
from keyhole.sql.statements.select_outline import find_aggregate_positions

HIDES: dict[str, Any] = {"kind": "none", "why": "what several tests of a HAVING tell of a group has no certificate"}
RATIO: dict[str, Any] = {"kind": "none", "why": "a quotient under a private condition has no certificate"}


UNCERTIFIED: dict[str, Any] = {
    "kind": "none",
    "why": "counts of people by conditions on their records have no certificate yet",
}
ALL_RECORDS: dict[str, Any] = {
    "kind": "none",
    "why": "what follows of people with all their records together has no certificate yet",
}
PUBLIC_ROWS: dict[str, Any] = {
    "kind": "none",
    "why": 'counts by private columns of a table whose rows are public have no certificate yet: with private = "all" '
    "for that table in keyhole.toml the audit claims the same or less, and that is replayed",
}
WITHOUT_PART: dict[str, Any] = {"kind": "none", "why": "a total less what is known of one cell has no certificate yet"}
NOT_TOLD: dict[str, Any] = {
    "kind": "none",
    "why": "a range that follows from values that were assumed is not shown, so there is nothing to replay",
}
SHORT_LIST_UNCERTIFIED: dict[str, Any] = {
    "kind": "none",
    "why": "that people have the values of a list, each some of them, has no certificate yet",
}
KNOWN_BY_ASSUMPTION: dict[str, Any] = {
    "kind": "none",
    "why": "a proof that rests on earlier ones, which need values that were assumed, has no certificate",
}
WEIGHED: dict[str, Any] = {"kind": "none", "why": "a weighted sum of one person's records has no certificate yet"}


class Certifier:
    """Certificates for the proofs of one exposure."""

    def __init__(self, exposure: Exposure, *, assumed: bool = False) -> None:
        self._exposure = exposure
        self._assumed = assumed  # what was assumed is not shown: a replay reads it off the data
        self._index = exposure.index
        self._systems = exposure.evidence.systems
        entries = list(exposure.evidence.transcript.entries)
        secret = frozenset(c.name for c in exposure.roster.schema.columns if c.secret)
        self._partner = {v.entry.number: v.partner for v in variances(entries, secret)}
        self._private = tuple(c.name for c in exposure.roster.schema.of_role(Role.PRIVATE))
        self._place: dict[str, int] = {}  # query -> which of the aggregates of its group it is
        self._parts: dict[str, list[Entry]] = defaultdict(list)
        seen: dict[tuple[str, str], int] = defaultdict(int)
        for entry in entries:
            head = entry.number.partition(".")[0]
            self._place[entry.number] = seen[head, str(entry.query.key)]
            seen[head, str(entry.query.key)] += 1
            self._parts[head].append(entry)
        self._positions: dict[str, tuple[int, ...]] = {}
        self._rounded = [frozenset(c.number for c in s.constraints if c.judged_as == ROUNDED) for s in self._systems]

    def item(self, system: int, row: Constraint) -> ProofItem:
        """What one addend needs besides its weight: the cell of the answer, or what the fact says."""
        if row.fact is not None:
            stated = self.fact(row.fact)
            if row.lo is not None and row.lo == row.hi:
                return replace(stated, total=json_fraction(row.lo))
            return replace(stated, ends=(_text(row.lo), _text(row.hi)))
        entry = self._index.entries.get(row.number)
        if entry is None:
            return ProofItem()
        item = self.cell(entry)
        if entry.query.digits is not None and (row.judged_as in (ROUNDED, GIVEN) or row.exact):
            item = replace(item, rounded=str(_blur(entry)))
        if not row.exact and row.scale:
            lo, hi = (None if end is None else (end + row.offset) / row.scale for end in (row.lo, row.hi))
            item = replace(item, ends=(_text(lo), _text(hi)) if row.scale > 0 else (_text(hi), _text(lo)))
            if row.offset and entry.query.test is None:
                item = replace(item, offset=str(row.offset / row.scale))
        if entry.query.test is not None and row.scale and not self._hidden(entry):
            noise = entry.answer.noise if entry.answer is not None else None
            comparison = Comparison(
                op=entry.query.test.op,
                value=str(Fraction(entry.query.test.value)),
                offset=str(row.offset / row.scale),
                noise=None if noise is None else str(noise_compared(entry.query.test, noise.scale)),
                shown=not _in_the_list(entry),
            )
            item = replace(item, test=comparison)
        partner = self._partner.get(row.number)
        if partner is not None and entry.query.aggregate is Aggregate.VAR:
            item = replace(item, squares=self._squares(system, row, entry, partner))
        return item

    def fact(self, number: int | None) -> ProofItem:
        """What a fact says of single people."""
        if number is None:
            return ProofItem()
        fact = self._exposure.evidence.knowledge.facts[number - 1]
        return ProofItem(where=fact.where, column=fact.column)

    def cell(self, entry: Entry) -> ProofItem:
        """Which cell of the answer is meant, and what it is exactly where it is printed shorter."""
        query, answer = entry.query, entry.answer
        noise = exactly = None
        if answer is not None and isinstance(answer.value, Decimal):  # two ends are as far apart already
            if answer.noise is not None and answer.noise.bounded and query.test is None:
                noise = str(answer.noise.scale)
            if answer.lo is not None and answer.lo == answer.hi and answer.lo != answer.value:
                exactly = str(answer.lo)
        item = ProofItem(key=json_labels(dict(query.key)) if query.key else None, noise=noise, exactly=exactly)
        if query.label == OTHER_GROUPS:
            parts = self._parts[entry.number.partition(".")[0]]
            keys = {str(p.query.key): json_labels(dict(p.query.key)) for p in parts if p.query.label != OTHER_GROUPS}
            return replace(item, besides=tuple(keys.values()))
        if query.item == COUNTED_ROWS:
            return replace(item, rows=True)
        if entry.sql not in self._positions:
            self._positions[entry.sql] = find_aggregate_positions(entry.sql)
        places, place = self._positions[entry.sql], self._place[entry.number]
        if query.item:
            return replace(item, column=query.item)
        if (query.test is None or _in_the_list(entry)) and place < len(places):
            return replace(item, column=places[place])
        return item

    def _squares(self, system: int, row: Constraint, entry: Entry, partner: Entry) -> SquareSum:
        """A variance as a sum of squares: times * answer^power + (scale * sum - offset)^2 / people."""
        people = len(self._systems[system].atoms.records(row.parts[0].where))
        total = self._index.constraints[system].get(partner.number)
        answer = None if partner.answer is None else json_answer(partner.answer)
        return SquareSum(
            times=str(people if "POP" in entry.query.label else people - 1),
            power=2 if entry.query.label.startswith("STDDEV") else 1,
            people=str(people),
            sum=replace(self.cell(partner), query=partner.number, sql=partner.sql, answer=answer),
            scale=str(total.scale if total is not None else 1),
            offset=str(total.offset if total is not None else 0),
        )

    def proof(self, proof: Proof) -> dict[str, Any]:
        """The certificate of a proof: its kind, and what that kind needs."""
        if not self._assumed:
            return self._of_kind(proof)
        if proof.known:
            return KNOWN_BY_ASSUMPTION
        columns = self._systems[proof.system].columns if proof.counted is None else self._private
        priors = {name: self._exposure.evidence.prior(name) for name in columns}
        assumed = [name for name, prior in priors.items() if prior.is_assumed or prior.state == "undeclared"]
        return self._of_kind(proof) | {"assumed": assumed}

    def _of_kind(self, proof: Proof) -> dict[str, Any]:
        if proof.counted is not None:
            counting, schema = self._exposure.evidence.counting, self._exposure.roster.schema
            if "people" in proof.counted:
                return ALL_RECORDS
            if "alone" in proof.counted:
                return _certify_one_person(schema, proof.counted)
            made = None if counting is None else _certify_count(counting, schema, proof.counted)
            declared = {name: said for name in self._private if "own" in proof.counted and (said := self._said(name))}
            if made is None:
                return PUBLIC_ROWS if any(not r.dimension and not r.secret for r in schema.related) else UNCERTIFIED
            return made | ({"declared": declared} if declared else {})
        system, rows = self._systems[proof.system], self._index.constraints[proof.system]
        if proof.sides:
            hides = self._having(q for side in proof.sides for q in side.weights)
            return HIDES if hides else self._range(system, proof, rows)
        if proof.moments is not None:
            return self._moments(proof.moments, rows)
        if proof.rule == SHORT_LIST:
            return SHORT_LIST_UNCERTIFIED
        if proof.order is not None:
            return self._order(proof, proof.order)
        if proof.rest is not None:
            return self._rest(proof.rest)
        if proof.both is not None:
            return {"kind": "both"} | ({"declared": said} if (said := self._said(proof.both.column)) else {})
        if proof.tables:
            return self._tables(system, proof)
        if proof.rule:
            return self._counts(system, proof.counts, rows) if proof.counts else {"kind": "none"}
        if self._having(proof.weights):
            return HIDES
        features = {system.features[u // system.atoms.K] for u in proof.target}
        if any(f.column is None for f in features):
            return self._counts(system, (proof.weights,), rows)
        if any(f.power == 2 for f in features):
            return {"kind": "square"} | self._declared(system)
        if any(c != 1 for c in proof.target.values()):
            return WEIGHED
        blurred = self._rounded[proof.system] & proof.weights.keys()
        stepped = {"step": step} if blurred and (step := self._step(system)) is not None else {}
        return {"kind": "identity" if self._whole(system, proof) else "part"} | stepped | self._declared(system)

    def _having(self, numbers: Iterable[str]) -> bool:
        """Is one of these told by a HAVING that asks several private things of a group?"""
        entries = (self._index.entries.get(number) for number in numbers)
        return any(e is not None and self._hidden(e) for e in entries)

    def _hidden(self, entry: Entry) -> bool:
        """Is it one of several questions that together show a group, or hide it? One alone is told by that."""
        if entry.query.test is None or _in_the_list(entry):
            return False
        parts = self._parts[entry.number.partition(".")[0]]
        return sum(p.query.test is not None and p.query.key == entry.query.key for p in parts) > 1

    def column(self, proof: Proof) -> str:
        """The column that a proof is about which rests on what is known of others."""
        if (steps := proof.rest or proof.both) is not None:
            return steps.column
        if proof.sides:
            return self._systems[proof.system].columns[
                0
            ]  # of several columns only order statistics are known beforehand
        assert proof.order is not None
        entry = self._index.entries[proof.order.ranks[0].number]
        return entry.query.terms[0].column or ""

    def _order(self, proof: Proof, steps: OrderSteps) -> dict[str, Any]:
        """Order statistics by rank, of whom, and what was declared of the column."""
        told: list[dict[str, Any]] = [
            {"query": r.number, "where": format_predicate(r.where), "ranks": [r.j, r.k], "share": r.share}
            for r in steps.ranks
        ]
        entries = [self._index.entries[r.number] for r in steps.ranks]
        if any(e.query.test is not None or (e.query.digits or 0) < 0 for e in entries):
            return {"kind": "none", "why": "a compared order statistic, or one rounded to tens, has no certificate"}
        if any(e.query.digits is not None and e.query.rounding != HALF for e in entries):
            return {"kind": "none", "why": "an order statistic that is cut has no certificate"}
        column = self.column(proof)
        facts = [
            {"where": fact.where, "min": fact.lo, "max": fact.hi}
            for number, fact in enumerate(self._exposure.evidence.knowledge.facts, 1)
            if f"fact {number}" in proof.weights and fact.column == column
        ]
        for each, entry in zip(told, entries, strict=True):
            factor = entry.query.terms[0].factor
            each |= {} if factor == 1 else {"factor": factor}
            each |= {} if entry.query.digits is None else {"rounded": _blur(entry)}
        found: dict[str, Any] = {"kind": "order", "facts": told} | ({"cases": True} if steps.cases else {})
        found |= {"stated": facts} if facts else {}
        return found | ({"declared": said} if (said := self._said(column)) else {})

    def _rest(self, steps: RestOfSum) -> dict[str, Any]:
        """A sum of which known values are taken off."""
        entry = self._index.entries.get(steps.number)
        others = [{"row": row + 1, "times": times} for row, times in steps.others.items()]
        found: dict[str, Any] = {"kind": "rest", "query": steps.number, "scale": steps.scale, "offset": steps.offset}
        found["others"] = others
        if entry is None:
            fact = self._exposure.evidence.knowledge.facts[int(steps.number.removeprefix("fact ")) - 1]
            found["stated"] = {"where": fact.where, "column": fact.column, "min": fact.sum_lo, "max": fact.sum_hi}
        elif self._hidden(entry):
            return HIDES
        return found | ({"declared": said} if (said := self._said(steps.column)) else {})

    def _tables(self, system: System, proof: Proof) -> dict[str, Any]:
        """All tables on the grid: what was declared of the columns; `every`: people cannot be split one by one."""
        declared = {name: self._said(name) for name in system.columns}
        found: dict[str, Any] = {"kind": "cases", "declared": {name: said for name, said in declared.items() if said}}
        facts = [
            {"column": fact.column, "where": fact.where, "min": fact.lo, "max": fact.hi}
            for number, fact in enumerate(self._exposure.evidence.knowledge.facts, 1)
            if f"fact {number}" in proof.weights and fact.column in system.columns
        ]
        found |= {"stated": facts} if facts else {}
        cited = (self._index.entries.get(number) for number in proof.weights)
        hiding = any(entry is not None and "having" in entry.sql.casefold() for entry in cited)
        return found | ({"every": True} if hiding or proof.tables != "sums" else {})

    def _step(self, system: System) -> Any:
        """The declared step of the one column of a system."""
        return self._said(system.columns[0]).get("step") if len(system.columns) == 1 else None

    def _said(self, column: str) -> dict[str, Any]:
        """What was declared of a column."""
        prior = self._exposure.evidence.prior(column)
        if prior.is_assumed:
            return {}
        said = {"min": prior.lo, "max": prior.hi, "step": prior.step, "values": prior.values}
        return {k: v for k, v in said.items() if v is not None}

    def _range(self, system: System, proof: Proof, rows: Mapping[str, Constraint]) -> dict[str, Any]:
        """Whom each answer adds up, as public conditions, and what was declared of the columns."""
        people = {}
        for number in sorted({q for side in proof.sides for q in side.weights}, key=query_order):
            people[number] = [
                {
                    "column": system.features[part.feature].column,
                    "where": format_predicate(part.where),
                    "factor": part.factor / (rows[number].scale or 1),
                    **({} if part.weight is None else {"times": part.weight}),
                }
                for part in rows[number].parts
            ]
        declared = {name: self._said(name) for name in system.columns}
        return {"kind": "range", "people": people, "declared": declared}

    def _whole(self, system: System, proof: Proof) -> bool:
        """Is it the value itself that is determined, wherever it lies?"""
        found: set[int] = set()
        for at in proof.target:
            column = system.features[at // system.atoms.K].column
            found |= set(system.value_of(column or "", at % system.atoms.K) or {})
        return found == set(proof.target)

    def _counts(
        self, system: System, counts: tuple[Mapping[str, Fraction], ...], rows: Mapping[str, Constraint]
    ) -> dict[str, Any]:
        """Sums of counts as weights on printed answers, and what was declared of the values."""
        weights = [{q: w * (rows[q].scale or 1) for q, w in row.items()} for row in counts]
        return {"kind": "counts", "rows": weights} | self._declared(system)

    def _declared(self, system: System) -> dict[str, Any]:
        """What was declared of the values, where private conditions may rest on it."""
        declared = {}
        if not system.partitions:
            return {}
        for name in self._private:
            if said := self._said(name):
                declared[name] = said
        return {"declared": declared} if declared else {}

    def _moments(self, told: SquareSums, rows: Mapping[str, Constraint]) -> dict[str, Any]:
        scale, offset = (rows[told.squares].scale or Fraction(1)), rows[told.squares].offset
        found: dict[str, Any] = {"kind": told.kind, "where": format_predicate(told.where), "squares": told.squares}
        if told.variance:
            found["variance"] = True
        else:
            found |= {"factor": told.factor / scale, "plain": told.plain / scale, "shift": offset / scale}
        if told.total:
            said = rows[told.total]
            found |= {"sum": told.total, "scale": said.scale / told.times, "offset": said.offset / told.times}
        return found


def _in_the_list(entry: Entry) -> bool:
    """Is it what the statement selects, not what its HAVING asks?"""
    return "having" not in entry.sql.casefold()


def _blur(entry: Entry) -> Fraction:
    """How far the true number may lie from the one that a statement rounds it to."""
    step = Fraction(1) / Fraction(10) ** (entry.query.digits or 0)
    return step / 2 if entry.query.rounding == HALF else step


def _noisy(entry: Entry) -> bool:
    return entry.answer is not None and entry.answer.noise is not None


def _text(end: Fraction | None) -> str | None:
    """An end as p/q."""
    return None if end is None else str(end)


def _certify_count(counting: Counting, schema: Schema, used: Mapping[str, Any]) -> dict[str, Any] | None:
    """The certificate of a yes or no about rows, of what is left of a column, or of "one of his"; else None."""
    shown = used.get("own") or ([(used["atom"], used["holds"])] if "atom" in used else [])
    some = used.get("some")
    if not (shown or some in used["counts"]) or any(not r.dimension and not r.secret for r in schema.related):
        return None
    counts = [counting.counts[i] for i in used["counts"]]
    looked = {a for c in counts for f, _ in c.formulas for clause in f.clauses for a, _ in clause.literals}
    numbers = sorted(looked | {atom for atom, _ in shown})
    place = {a: i for i, a in enumerate(numbers)}
    return {
        "kind": "people",
        "table": schema.table,
        "tables": _describe_tables(schema),
        "atoms": [_describe_atom(counting, a) for a in numbers],
        "counts": [_describe_count(counting, c, place) for c in counts],
        "implied": [
            [place[t.left[0]], t.left[1], place[t.right[0]], t.right[1]]
            for t in counting.ties
            if t.left[0] in place and t.right[0] in place
        ],
        "conditions": [{"atom": place[atom], "holds": holds} for atom, holds in shown],
        **({} if some is None else {"some": list(used["counts"]).index(some)}),
    }


def _certify_one_person(schema: Schema, used: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate of a sum of answers that is about one person: `parts` add up what it says of his records."""
    return {
        "kind": "alone",
        "table": schema.table,
        "tables": _describe_tables(schema),
        "parts": [{**part, "weight": str(part["weight"])} for part in used["alone"]],
        "constant": str(used["constant"]),
        "off": str(used["off"]),
    }


def _describe_tables(schema: Schema) -> list[dict[str, Any]]:
    return [{"name": r.name, "keys": [list(pair) for pair in r.keys], "dimension": r.dimension} for r in schema.related]


def _describe_atom(counting: Counting, number: int) -> dict[str, Any]:
    leaf = counting.atoms[number].leaf
    if isinstance(leaf, Has):
        return {"sql": format_predicate(leaf), "on": [mine for mine, _ in leaf.on]}
    assert not isinstance(leaf, Opaque)
    return {"sql": format_predicate(leaf), "column": leaf.column}


def _describe_count(counting: Counting, count: BoundedCount, place: Mapping[int, int]) -> dict[str, Any]:
    (formula, weights), *more = count.formulas
    plain = not more and weights is None and count.lo == count.hi and all(c.public for c in formula.clauses)
    return {
        "query": count.number,
        "owner": formula.by,
        "clauses": [
            {
                "where": c.public,
                "literals": [[place[a], holds] for a, holds in c.literals],
                "sql": [[format_predicate(counting.atoms[a].leaf), holds] for a, holds in c.literals],
            }
            for c in formula.clauses
        ],
        **({} if plain else {"other": True}),
    }
