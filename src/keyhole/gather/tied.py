"""Which queries are solved together: those that tie private columns to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyhole.datasets import Roster
from keyhole.model.forms import find_private_leaves
from keyhole.model.predicate import TRUE, Opaque, Predicate, find_leaves
from keyhole.model.query import Aggregate
from keyhole.model.transcript import Entry, Refusal, Transcript


def admissible(transcript: Transcript, roster: Roster) -> tuple[list[Entry], list[Refusal]]:
    """Leave out statements whose engine-evaluated parts the engine itself refuses."""
    kept: list[Entry] = []
    refused: dict[str, Refusal] = {}
    parts = [_evaluated(entry) for entry in transcript.entries]
    asked = list(dict.fromkeys(part for listed in parts for part in listed))
    known = dict(zip(asked, roster.faults(asked), strict=True))
    for entry, listed in zip(transcript.entries, parts, strict=True):
        number = entry.number.split(".")[0]
        for part in listed:
            objection = known[part]
            if objection is not None:
                refused[number] = Refusal(number, entry.sql, f"the engine refuses it: {objection}")
        kept.append(entry)
    return [e for e in kept if e.number.split(".")[0] not in refused], list(refused.values())


def _evaluated(entry: Entry) -> list[tuple[Predicate, str | None]]:
    """The conditions and weights of a query that are the engine's to evaluate."""
    if entry.query.aggregate is Aggregate.PUBLIC:
        return []
    found: list[tuple[Predicate, str | None]] = []
    for term in (*entry.query.terms, *entry.query.per):
        found.extend((leaf, None) for leaf in find_leaves(term.where) if isinstance(leaf, Opaque))
        if term.weight:
            found.append((TRUE, term.weight))
    return found


@dataclass(frozen=True, slots=True)
class TiedQueries:
    """Queries that are solved together, and the private columns that they tie."""

    columns: tuple[str, ...]
    entries: tuple[Entry, ...]


def blocks_of(entries: Sequence[Entry], secret: frozenset[str]) -> tuple[list[TiedQueries], TiedQueries]:
    """Private columns that some query mentions together share a system (union-find); and the public queries."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    touched: list[frozenset[str]] = []
    for entry in entries:
        used = set(entry.query.columns)
        for term in (*entry.query.terms, *entry.query.per):
            used |= {leaf.column for leaf in find_private_leaves(term.where, secret)}
        touched.append(frozenset(used))
        for name in used:
            parent[root(name)] = root(min(used))
    blocks: dict[str, list[Entry]] = {}
    public = []
    for entry, names in zip(entries, touched, strict=True):
        if names:
            blocks.setdefault(root(min(names)), []).append(entry)
        else:
            public.append(entry)
    named = [TiedQueries(tuple(sorted(n for n in parent if root(n) == r)), tuple(block)) for r, block in blocks.items()]
    return named, TiedQueries((), tuple(public))
