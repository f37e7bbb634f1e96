"""A source whose private half stays in its database: one total a question leaves it, and counts of declared cells.

The public half was read once and is a roster like any other. Conditions on public columns are evaluated there, so they
mean what the reader says they mean; the database is told the class of each row and adds up the classes that count.
Values of single people are never asked for. The private half is connected to when first a
question was decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from types import MappingProxyType
from typing import NoReturn

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.basis.bits import unpack
from keyhole.engines.base import GroupKey, PrivateTotal, PrivateValues, Roster, Seal
from keyhole.engines.duckdb.roster import DuckDBRoster
from keyhole.engines.duckdb.source import as_decimal
from keyhole.engines.open_files import Lifetime
from keyhole.engines.postgres.engine import PostgresEngine
from keyhole.engines.postgres.setup import ROW, SCHEMA
from keyhole.errors import DataError
from keyhole.extras import import_extra
from keyhole.model.meaning import Value, compare_value, compute_value
from keyhole.model.predicate import Leaf, Scalar, quote_name
from keyhole.model.query import Aggregate, Query, Statement, Term
from keyhole.model.schema import Role, Schema

_EVERYTHING = f"{SCHEMA}.people p JOIN {SCHEMA}.secrets s USING ({ROW})"


class PostgresSource(DuckDBRoster):
    """The public half in DuckDB, the private half in PostgreSQL, behind another role."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        schema: Schema,
        life: Lifetime,
        connect: Callable[[], PostgresEngine],
    ) -> None:
        super().__init__(con, schema, life)
        self._connect = connect
        self._classes: tuple[NDArray[np.int32], str] | None = None
        self._private_names = [c.name for c in schema.of_role(Role.PRIVATE)]
        self._counted = self._everything()

    @cached_property
    def engine(self) -> PostgresEngine:
        """The connection of the role that may read secrets."""
        return self._life.closes(self._connect())

    @cached_property
    def roster(self) -> Roster:
        """The public half alone."""
        return DuckDBRoster(self._con, self.schema, self._life)

    @property
    def gives_values(self) -> bool:
        """The values stay in their database."""
        return False

    def adopt(self, schema: Schema) -> None:
        """Take over the columns that another view of the same table has computed."""
        super().adopt(schema)
        self.__dict__.pop("roster", None)

    # --- totals ---------------------------------------------------------------------------------------------------

    def sum_over_classes(
        self, of: NDArray[np.int32], weights: Mapping[int, Fraction], column: str, power: int
    ) -> PrivateTotal:
        """The sum of weight * column ** power over the records of some classes: one number leaves the database."""
        over = lcm(*(w.denominator for w in weights.values()))
        x = f"CAST(s.{quote_name(column)} AS NUMERIC)"
        product = f"{' * '.join([x] * power)} * q.w"
        total, size = self.engine.rows(
            f"SELECT coalesce(sum({product}), 0)::text AS total, coalesce(sum(abs({product})), 0)::text AS size "
            f"{self._join(of, {c: int(w * over) for c, w in weights.items()})} WHERE s.{quote_name(column)} IS NOT NULL"
        )[0]
        return PrivateTotal(Fraction(total) / over, Fraction(size) / over)

    def _join(self, of: NDArray[np.int32], weights: Mapping[int, int]) -> str:
        """The private half with the weight of each row; rows of other classes are left out."""
        lists = (",".join(map(str, each)) for each in (weights.keys(), weights.values()))
        classes, sizes = (f"'{{{text}}}'" for text in lists)
        return (
            f"FROM unnest({classes}::int[], {sizes}::numeric[]) AS q(c, w) JOIN {self._put_classes(of)} k ON k.c = q.c "
            f"JOIN {SCHEMA}.secrets s ON s.{ROW} = k.r"
        )

    def _put_classes(self, of: NDArray[np.int32]) -> str:
        """The class of each row, as a table of this connection alone; the same classes are not sent twice."""
        if self._classes is None or self._classes[0] is not of:
            pa = import_extra("pyarrow", "data that stay in PostgreSQL")
            rows = pa.table({"r": pa.array(np.arange(self.n), pa.int64()), "c": pa.array(of, pa.int32())})
            self._classes = (of, self.engine.put("keyhole_classes", rows))
        return self._classes[1]

    def evaluate(self, query: Query) -> Decimal | bool | None:
        """The true answer of a sum, a count, an average, a MIN or a MAX under public conditions."""
        terms = (*query.terms, *query.per)
        if any(self._private(where) for where in (*(t.where for t in terms), *query.needs)):
            _refuse("a condition on a private column")
        if not any(t.column is not None for t in terms):
            return self.figure(query)
        answer: Value
        if query.aggregate in (Aggregate.MIN, Aggregate.MAX):
            answer = self._extreme(query.terms[0], query.aggregate)
        elif query.aggregate is Aggregate.SUM:
            top, per = (sum(map(self._term, each), Fraction(0)) for each in (query.terms, query.per))
            met = all(len(self.support(Query(Aggregate.SUM, (Term(None, need),)))) for need in query.needs)
            answer = compute_value(query, top, per, met=met)
        else:
            _refuse(f"{query.aggregate.value}")
        if isinstance(answer, Fraction) and query.digits is not None:
            answer = Fraction(round(answer * 10**query.digits), 10**query.digits)
        if query.test is not None:
            return compare_value(query, answer)
        return as_decimal(answer) if isinstance(answer, Fraction) else None

    def _term(self, term: Term) -> Fraction:
        """factor * sum of weight * column ** power, over those who satisfy the condition."""
        atoms = self.atoms([term.where], [] if term.weight is None else [term.weight])
        weights = dict.fromkeys(np.flatnonzero(unpack(atoms.table[0], atoms.K)).tolist(), Fraction(1))
        if term.weight is not None:
            held = atoms.weights[0]
            weights = {k: Fraction(int(held.values[k]), held.over) for k in weights}
        if term.column is None:
            return term.factor * sum((int(atoms.sizes[k]) * w for k, w in weights.items()), Fraction(0))
        return term.factor * self.sum_over_classes(atoms.of, weights, term.column, term.power).total

    def _extreme(self, term: Term, aggregate: Aggregate) -> Fraction | None:
        atoms = self.atoms([term.where], ())
        chosen = dict.fromkeys(np.flatnonzero(unpack(atoms.table[0], atoms.K)).tolist(), 1)
        extreme = f"{aggregate.value}(s.{quote_name(term.column or '')})::text"
        found = self.engine.rows(f"SELECT {extreme} AS v {self._join(atoms.of, chosen)}")[0][0]
        return None if found is None else term.factor * Fraction(found)

    def returned_groups(self, statement: Statement) -> list[GroupKey]:
        """The groups that a statement with public keys and conditions returns."""
        if self._private(statement.where) or any(k.hidden(self._secrets_named) for k in statement.keys):
            _refuse("groups by a private column, or a condition on one")
        return self.keys(statement)

    # --- what needs values ------------------------------------------------------------------------------------------

    def values(self, column: str) -> PrivateValues:
        """Not given: the values stay where they are."""
        _refuse(f"the single values of {column!r}")

    def value_counts(self, column: str, most: int) -> list[tuple[Scalar, int]] | None:
        """Not given: a value and how many have it is somebody's value."""
        _refuse(f"the values of {column!r}")

    def value_ends(self, column: str) -> tuple[Fraction, Fraction] | None:
        """Not given: the least and the greatest are somebody's."""
        _refuse(f"the ends of {column!r}")

    def row_values(self, table: str, column: str) -> list[Scalar | None]:
        """Not given."""
        _refuse(f"the values of {column!r}")

    def truths(self, leaves: Sequence[Leaf]) -> Mapping[Leaf, NDArray[np.int8]]:
        """Not given: whether a private condition holds for somebody is a secret of his."""
        if leaves:
            _refuse("a condition on a private column")
        return {}

    def describe_orphan_rows(self, table: str) -> str:
        """Nothing: other tables are not set up in the database."""
        return ""

    # --- private answers --------------------------------------------------------------------------------------------

    def _everything(self) -> str:
        names = [c for c in self.schema.columns if c.role is not Role.HIDDEN and not c.computed]
        listed = ", ".join(f"{'s' if c.name in self._private_names else 'p'}.{quote_name(c.name)}" for c in names)
        return f"(SELECT {listed} FROM {_EVERYTHING}) AS everything"

    def holds(self, condition: str) -> bool:
        """Does an SQL condition hold for some record?"""
        return bool(self.engine.rows(f"SELECT 1 AS one FROM {self._everything()} WHERE {condition} LIMIT 1"))

    def tally(self, code: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many records there are for each value of a whole-numbered expression: (values, counts), in one scan."""
        cells, counts = self.tallies(code, ())
        return cells, counts

    def tallies(self, code: str, sums: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each value of a whole-numbered expression: the value, how many records, and the sums of others."""
        listed = "".join(f", CAST(COALESCE(sum({each}), 0) AS BIGINT) AS s{k}" for k, each in enumerate(sums))
        text = f"SELECT CAST({code} AS BIGINT) AS cell, count(*) AS c{listed} FROM {self._counted} GROUP BY 1"
        table = self.engine.arrow(text).read_all()
        return [np.asarray(column.to_numpy(), dtype=np.int64) for column in table.columns]

    def limit_rows_per_person(self, ids: Sequence[str], rows: int, key: bytes) -> None:
        """From now on tallies are of so many rows of each person at most: those of the smallest keyed hash of the row's
        own content."""
        columns = [quote_name(c.name) for c in self.schema.columns if c.role is not Role.HIDDEN and not c.computed]
        content = _row_text([f"{column}::text" for column in columns])
        listed = ", ".join(map(quote_name, ids))
        self.engine.do("DROP TABLE IF EXISTS pg_temp.keyhole_bounded")
        self.engine.do(
            f"CREATE TEMP TABLE keyhole_bounded AS SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {listed} "
            f"ORDER BY sha256(convert_to('{key.hex()}' || {content}, 'UTF8'))) AS keyhole_k "
            f"FROM {self._everything()}) q WHERE keyhole_k <= {int(rows)}"
        )
        self._counted = "pg_temp.keyhole_bounded"

    def count_distinct(self, code: str, where: str) -> int:
        """How many different values an expression has among the counted records under a condition."""
        return int(self.engine.rows(f"SELECT count(DISTINCT {code}) AS c FROM {self._counted} WHERE {where}")[0][0])

    def count_keys(self, columns: Sequence[str], where: str) -> list[tuple[tuple[str, ...], int]]:
        """The values of columns as text, among the counted records under a condition, and how many have each."""
        listed = ", ".join(f"{quote_name(name)}::text AS k{k}" for k, name in enumerate(columns))
        present = " AND ".join(f"{quote_name(name)} IS NOT NULL" for name in columns)
        by = ", ".join(str(k + 1) for k in range(len(columns)))
        rows = f"{self._counted} WHERE ({where}) AND {present}"
        text = f"SELECT {listed}, count(*) AS c FROM {rows} GROUP BY {by} ORDER BY {by}"
        return [(tuple(map(str, row[:-1])), int(row[-1])) for row in self.engine.rows(text)]

    # --- digests ----------------------------------------------------------------------------------------------------

    def seal(self) -> Seal | None:
        """Keyed digests of the private columns, each value with who has it; made in the database, by its SHA-256."""

        @lru_cache(maxsize=1)
        def digests(key: bytes) -> Mapping[str, str]:
            return MappingProxyType({name: self._digest(key, [name]) for name in self._private_names})

        return digests

    def digest(self, key: bytes) -> str:
        """A keyed digest of all that is not hidden."""
        return self._digest(key, self._private_names)

    def _digest(self, key: bytes, private: Sequence[str]) -> str:
        """Two sums over all rows of halves of a keyed hash: rows may come in any order.

        Guarantee: two tables that differ agree in it with a chance of 2^-120, for who does not know the key.
        """
        public = [c.name for c in self.schema.columns if not c.secret and not c.computed]
        texts = [*(f"p.{quote_name(name)}::text" for name in public), *map(_plain_number, private)]
        line = f"encode(sha256(convert_to('{key.hex()}' || {_row_text(texts)}, 'UTF8')), 'hex')"
        halves = ", ".join(
            f"coalesce(sum(('x' || substr(h, {at}, 15))::bit(60)::bigint::numeric), 0)::text AS s{at}" for at in (1, 16)
        )
        found = self.engine.rows(f"SELECT {halves} FROM (SELECT {line} AS h FROM {_EVERYTHING}) q")[0]
        return json.dumps([*found, self.n, sorted(private)])


def _plain_number(name: str) -> str:
    """A private cell as text, a number without the zeros behind its point."""
    text = f"s.{quote_name(name)}::text"
    return f"CASE WHEN {text} LIKE '%.%' THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"


def _row_text(texts: Sequence[str]) -> str:
    """A row as one text, each cell with its length, so no two rows are written alike."""
    return " || ',' || ".join(f"coalesce(length({text})::text || ':' || ({text}), '-')" for text in texts)


def _refuse(what: str) -> NoReturn:
    message = (
        f"{what}: not computed while the data stay in their database (stay = true); sums, counts, averages, MIN and "
        "MAX under public conditions are, and private answers; stay = false reads the table once instead"
    )
    raise DataError.of_file(message)
