"""What a stranger needs to replay counts of people: which records each looks at, and which conditions count them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyhole.model.people import BoundedCount, Counting
from keyhole.model.predicate import Has, Opaque, to_sql
from keyhole.model.schema import Schema


def counted_certificate(counting: Counting, schema: Schema, used: Mapping[str, Any]) -> dict[str, Any] | None:
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
        "tables": _tables(schema),
        "atoms": [_atom(counting, a) for a in numbers],
        "counts": [_count(counting, c, place) for c in counts],
        "implied": [
            [place[t.left[0]], t.left[1], place[t.right[0]], t.right[1]]
            for t in counting.ties
            if t.left[0] in place and t.right[0] in place
        ],
        "conditions": [{"atom": place[atom], "holds": holds} for atom, holds in shown],
        **({} if some is None else {"some": list(used["counts"]).index(some)}),
    }


def alone_certificate(schema: Schema, used: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate of a sum of answers that is about one person: `parts` add up what it says of his records."""
    return {
        "kind": "alone",
        "table": schema.table,
        "tables": _tables(schema),
        "parts": [{**part, "weight": str(part["weight"])} for part in used["alone"]],
        "constant": str(used["constant"]),
        "off": str(used["off"]),
    }


def _tables(schema: Schema) -> list[dict[str, Any]]:
    return [{"name": r.name, "keys": [list(pair) for pair in r.keys], "dimension": r.dimension} for r in schema.related]


def _atom(counting: Counting, number: int) -> dict[str, Any]:
    leaf = counting.atoms[number].leaf
    if isinstance(leaf, Has):
        return {"sql": to_sql(leaf), "on": [mine for mine, _ in leaf.on]}
    assert not isinstance(leaf, Opaque)
    return {"sql": to_sql(leaf), "column": leaf.column}


def _count(counting: Counting, count: BoundedCount, place: Mapping[int, int]) -> dict[str, Any]:
    (formula, weights), *more = count.formulas
    plain = not more and weights is None and count.lo == count.hi and all(c.public for c in formula.clauses)
    return {
        "query": count.number,
        "owner": formula.by,
        "clauses": [
            {
                "where": c.public,
                "literals": [[place[a], holds] for a, holds in c.literals],
                "sql": [[to_sql(counting.atoms[a].leaf), holds] for a, holds in c.literals],
            }
            for c in formula.clauses
        ],
        **({} if plain else {"other": True}),
    }
