"""Laws of every source, and a liar for each. A specimen turns a world into a loaded source."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from tests.laws.law import Law, Specimen
from tests.laws.worlds import WORLDS, World

from keyhole.basis import Atoms
from keyhole.datasets import Roster, Rows, Source
from keyhole.engines.duckdb.source import DuckDBSource
from keyhole.model.predicate import (
    FALSE,
    TRUE,
    Comparison,
    IsNull,
    Like,
    Membership,
    Opaque,
    Predicate,
    evaluate_leaf,
    evaluate_predicate,
    format_predicate,
    make_and,
    make_not,
    make_or,
)
from keyhole.model.query import Aggregate, Query, Term

Opener = Callable[[World], Source]

SPECIMENS: tuple[Specimen[Opener], ...] = (Specimen("DuckDBSource", World.source),)

PREDICATES: tuple[Predicate, ...] = (
    TRUE,
    FALSE,
    Comparison("sex", "=", "F"),
    make_not(Comparison("sex", "=", "F")),
    Comparison("zip", ">", 2),
    make_or(Comparison("zip", "<", 3), IsNull("sex")),
    make_and(Membership("zip", (1, 4, 32453)), make_not(Like("sex", "M%"))),
    IsNull("x"),
    make_not(make_or(Comparison("zip", ">=", 4), Comparison("sex", "=", "M"))),
)


def _records(world: World) -> list[dict[str, str | int | None]]:
    head, *rows = [line.split(",") for line in world.table.strip().splitlines()]
    found: list[dict[str, str | int | None]] = []
    for row in rows:
        record: dict[str, str | int | None] = {k: v or None for k, v in zip(head, row, strict=True)}
        record["zip"] = int(str(record["zip"])) if record["zip"] is not None else None
        found.append(record)
    return found


def _matches(predicate: Predicate, record: dict[str, str | int | None]) -> bool:
    return evaluate_predicate(predicate, lambda leaf: evaluate_leaf(leaf, record[leaf.column])) is True  # type: ignore[union-attr]


def support_is_sorted_unique_and_in_range(opened: Opener) -> None:
    """Row numbers come in order, once each, and exist."""
    for world in WORLDS:
        source = opened(world)
        for predicate in PREDICATES:
            rows = source.support(Query(Aggregate.SUM, (Term(None, predicate),)))
            assert rows.tolist() == sorted(set(rows.tolist())), f"{world.name}: {rows}"
            assert all(0 <= r < source.n for r in rows.tolist()), f"{world.name}: {rows}"


def support_is_sorted_whatever_order_the_engine_returns(opened: Opener) -> None:
    """SQL promises no order without ORDER BY: an engine that returns its rows backwards changes nothing."""
    tried = 0
    for world in WORLDS:
        straight, turned = opened(world), opened(world)
        assert isinstance(turned, DuckDBSource), "how to turn the rows of another engine is not known here"
        turned._con = _Backwards(turned._con)  # type: ignore[assignment]
        for predicate in PREDICATES:
            query = Query(Aggregate.SUM, (Term(None, predicate),))
            rows, expected = turned.support(query).tolist(), straight.support(query).tolist()
            assert rows == expected == sorted(expected), f"{world.name}: {predicate}: {rows}, not {expected}"
            tried += len(rows) > 1
    assert tried, "no support had two rows: the law was not tried"


class _Backwards:
    """A connection whose results, where nothing was said of their order, come last row first."""

    def __init__(self, con: Any) -> None:
        self._con, self._turned = con, False

    def execute(self, text: str, values: object = None) -> _Backwards:
        self._con.execute(text, values)
        self._turned = "ORDER BY" not in text
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._con.fetchone()
        return found

    def fetchall(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._con.fetchall()
        return found[::-1] if self._turned else found

    def fetchnumpy(self) -> dict[str, Any]:
        found = self._con.fetchnumpy()
        return {name: column[::-1] if self._turned else column for name, column in found.items()}


def support_is_who_matches(opened: Opener) -> None:
    """Three-valued logic, NULLs included, as if evaluated record by record."""
    for world in WORLDS:
        source = opened(world)
        for predicate in PREDICATES:
            rows = source.support(Query(Aggregate.SUM, (Term(None, predicate),)))
            expected = [i for i, record in enumerate(_records(world)) if _matches(predicate, record)]
            assert rows.tolist() == expected, f"{world.name}: {predicate}"


def evaluate_is_the_aggregate_over_the_support(opened: Opener) -> None:
    """The engine's sum is the sum of the values of who matches."""
    for world in WORLDS:
        source = opened(world)
        records = _records(world)
        for predicate in PREDICATES:
            query = Query(Aggregate.SUM, (Term("x", make_and(predicate, make_not(IsNull("x")))),))
            values = [Decimal(str(records[r]["x"])) for r in source.support(query)]
            assert source.evaluate(query) == sum(values, Decimal(0)), f"{world.name}: {predicate}"


def atoms_are_direct_evaluation(opened: Opener) -> None:
    """Two records share an atom iff every predicate and weight treats them alike; bits and sizes say how."""
    for world in WORLDS:
        source = opened(world)
        records = _records(world)
        atoms = source.atoms(PREDICATES, ("zip",))
        patterns = [
            (tuple(_matches(p, record) for p in PREDICATES), Fraction(record["zip"] or 0)) for record in records
        ]
        for r, pattern in enumerate(patterns):
            k = int(atoms.of[r])
            bits = tuple(atoms.holds(p, k) for p in PREDICATES)
            assert (bits, atoms.weights[0][k]) == pattern, f"{world.name}: record {r}"
        assert len(set(patterns)) == atoms.K, f"{world.name}: {atoms.K} atoms for {len(set(patterns))} patterns"
        assert atoms.sizes.tolist() == np.bincount(atoms.of).tolist(), world.name
        assert all(int(atoms.of[r]) == k for k, r in enumerate(atoms.first)), world.name


def the_public_half_does_not_depend_on_the_secret(opened: Opener) -> None:
    """Change every private value (not its being NULL): supports and atoms stay the same."""
    for world in WORLDS:
        head, *rows = [line.split(",") for line in world.table.strip().splitlines()]
        at = head.index("x")
        other = [[*row[:at], str(i * 7 + 1) if row[at] else "", *row[at + 1 :]] for i, row in enumerate(rows)]
        changed = replace(world, table="\n".join(",".join(row) for row in [head, *other]) + "\n")
        first, second = opened(world), opened(changed)
        for predicate in PREDICATES:
            query = Query(Aggregate.SUM, (Term(None, predicate),))
            assert first.support(query).tolist() == second.support(query).tolist(), f"{world.name}: {predicate}"
        assert first.atoms(PREDICATES, ()).of.tolist() == second.atoms(PREDICATES, ()).of.tolist(), world.name


REACHING = (  # SQL that a condition could bring along, and that must not find a secret
    "(SELECT max(x) FROM secrets) > 4",
    "(SELECT max(x) FROM temp.main.secrets) > 4",
    "(SELECT max(x) FROM everything) > 4",
    "(SELECT count(*) FROM information_schema.tables WHERE table_name IN ('secrets', 'loaded', 'frame')) > 0",
    "(SELECT count(*) FROM duckdb_databases() WHERE path IS NOT NULL) > 0",
    "(SELECT count(*) FROM read_text('{file}')) > 0",
    "(SELECT max(x) FROM '{file}') > 4",
    "(SELECT max(x) FROM source) > 4",
    "x::VARCHAR <> 'true'",
)


def a_roster_cannot_reach_a_secret(opened: Opener) -> None:
    """Whatever SQL a condition brings along: it fails, or it finds nobody. The roster of a source included."""
    for world in WORLDS:
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(world.table)
            file.flush()
            source = opened(world)
            rosters: list[Roster] = [source, source.roster]
            for text in REACHING:
                query = Query(Aggregate.SUM, (Term(None, Opaque(text.format(file=file.name), frozenset())),))
                for roster in rosters:
                    try:
                        rows = roster.support(query)
                    except Exception:
                        continue
                    assert not len(rows), f"{world.name}: {text} found {rows}"


class _OneDatabase(DuckDBSource):
    """Keeps people and secrets together, as if a view were a wall."""

    def support(self, query: Query) -> Rows:
        kept, self._con = self._con, self.connection
        try:
            return super().support(query)
        finally:
            self._con = kept


class _Unsorted(DuckDBSource):
    def support(self, query: Query) -> Rows:
        return super().support(query)[::-1]


class _Trusting(DuckDBSource):
    """Takes the order in which the engine happens to return rows for an order."""

    def support(self, query: Query) -> Rows:
        found = self._con.execute(
            f"SELECT rowid FROM people WHERE {format_predicate(query.terms[0].where)}"
        ).fetchnumpy()
        return np.asarray(found["rowid"], np.int64)


class _TwoValued(DuckDBSource):
    """Takes NOT for "not true": wrong where a column is NULL."""

    def support(self, query: Query) -> Rows:
        where = query.terms[0].where
        if type(where).__name__ == "Not":
            inner = super().support(Query(Aggregate.SUM, (Term(None, where.part),)))  # type: ignore[union-attr]
            return np.setdiff1d(np.arange(self.n), inner)
        return super().support(query)


class _AddsOne(DuckDBSource):
    def evaluate(self, query: Query) -> Decimal | bool | None:
        value = super().evaluate(query)
        return value + 1 if isinstance(value, Decimal) else value


class _Hashing(DuckDBSource):
    """Merges two patterns, as a colliding hash would."""

    def atoms(self, predicates: Sequence[Predicate], weights: Sequence[str]) -> Atoms:
        made = super().atoms([p if p != Comparison("zip", ">", 2) else TRUE for p in predicates], weights)
        return made.named(predicates, weights)


class _Peeking(DuckDBSource):
    def support(self, query: Query) -> Rows:
        text = "SELECT row_number() OVER () - 1 AS r FROM everything WHERE x > 4"
        return np.intersect1d(super().support(query), [r for (r,) in self.connection.execute(text).fetchall()])


def _liar(kind: type[DuckDBSource]) -> tuple[Specimen[Opener], ...]:
    def opened(world: World) -> Source:
        source = world.source()
        source.__class__ = kind
        return source

    return (Specimen(kind.__name__.strip("_"), opened),)


LAWS: tuple[Law[Opener], ...] = (
    Law(support_is_sorted_unique_and_in_range, _liar(_Unsorted)),
    Law(support_is_sorted_whatever_order_the_engine_returns, _liar(_Trusting)),
    Law(support_is_who_matches, _liar(_TwoValued)),
    Law(evaluate_is_the_aggregate_over_the_support, _liar(_AddsOne)),
    Law(atoms_are_direct_evaluation, _liar(_Hashing)),
    Law(the_public_half_does_not_depend_on_the_secret, _liar(_Peeking)),
    Law(a_roster_cannot_reach_a_secret, _liar(_OneDatabase)),
)
