"""The whole table: the roster's database, and a second one that holds the secrets.

Everything a `Roster` can do runs in the roster's database, also when a source is asked to do it. The second database
holds `secrets`, the private columns in the same row order; the public half is copied to it when first a question needs
both, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.engines.base import GroupKey, PrivateValues, Seal
from keyhole.engines.duckdb.copy import copied
from keyhole.engines.duckdb.digests import digest_rows, seal_columns
from keyhole.engines.duckdb.roster import DuckDBRoster, first, number, plain_value
from keyhole.engines.duckdb.wide import wide_number
from keyhole.engines.open_files import Lifetime
from keyhole.errors import DataError
from keyhole.model.predicate import Leaf, Opaque, Scalar, held_as, quote_name, to_sql
from keyhole.model.query import CUT, Aggregate, Query, Statement
from keyhole.model.schema import Kind, Role, Schema


class DuckDBSource(DuckDBRoster):
    """The whole table: `people` in the roster's database (`con`), `secrets` in another."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        secrets: duckdb.DuckDBPyConnection,
        schema: Schema,
        held: Sequence[str],
        life: Lifetime,
    ) -> None:
        super().__init__(con, schema, life)
        self._secrets, self._held = secrets, tuple(held)
        self._whole = False
        self._counted = "everything"  # what tallies are of

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The engine with the view `everything`: for what is counted in it as a whole, such as a histogram.

        First use copies the public half beside the secrets.
        """
        if not self._whole:
            kept = [quote_name(c.name) for c in self.schema.columns if not c.secret]
            copied(self._con, f"SELECT {', '.join(kept) or '1 AS one'} FROM people", self._secrets, "people")
            listed = ", ".join([*kept, *(f"secrets.{quote_name(name)}" for name in self._held)])
            self._secrets.execute(
                f"CREATE TEMP VIEW everything AS SELECT {listed or '1 AS one'} FROM people POSITIONAL JOIN secrets"
            )
            self._whole = True
        return self._secrets

    def adopt(self, schema: Schema) -> None:
        """Take over the columns that another view of the same table has computed."""
        super().adopt(schema)
        self.__dict__.pop("roster", None)
        if self._whole:  # its copy of the public half lacks them
            self._secrets.execute("DROP VIEW everything; DROP TABLE people")
            self._whole = False

    @cached_property
    def roster(self) -> DuckDBRoster:
        """The public half alone."""
        return DuckDBRoster(self._con, self.schema, self._life)

    def evaluate(self, query: Query) -> Decimal | bool | None:
        """The true answer of one query, straight from the engine; sums beyond its numbers are added up here."""
        terms = (*query.terms, *query.per)
        public = not any(t.column is not None or self._private(t.where) for t in terms)
        if public:
            return self.figure(query)
        if query.aggregate in CUT and self._double(query.terms[0].column):
            return number(self.connection, *self._as_double(query))
        try:
            found = number(self.connection, query, "everything")
        except duckdb.Error:  # its message may quote a value
            return wide_number(self.connection, query, "everything")
        if found is None and query.aggregate is Aggregate.SUM:  # NULL, or too large for the engine
            return wide_number(self.connection, query, "everything")
        return found

    def _double(self, name: str | None) -> bool:
        column = self.schema.find(name or "")
        return column is not None and column.kind is Kind.DOUBLE

    def _as_double(self, query: Query) -> tuple[Query, str]:
        """A statistic between two values of a DOUBLE column, which may be held as decimals: those would be cut."""
        term = query.terms[0]
        name = f"{term.column} as DOUBLE"
        also = f"{quote_name(term.column or '')}::DOUBLE AS {quote_name(name)}"
        return replace(query, terms=(replace(term, column=name),)), f"(SELECT *, {also} FROM everything)"

    def shown(self, statement: Statement) -> list[GroupKey]:
        """The groups that the statement really returns (before HAVING)."""
        if not self._private(statement.where) and not any(k.hidden(self._secrets_named) for k in statement.keys):
            return self.keys(statement)  # public altogether
        return self._keys(self.connection, "everything", statement, statement.where, private=True)

    def strays(self, table: str) -> str:
        """How many rows of a table belong to nobody, in words; of a dimension, how many records it has no row for; of
        the people, which ids are alike."""
        from keyhole.engines.duckdb.strays import alike_ids, strays, unmatched

        if table == self.schema.table:
            return alike_ids(self.connection, "everything", self.schema)
        related = self.schema.table_named(table)
        if related is None:
            return ""
        if related.dimension:
            return unmatched(self.connection, "everything", self.schema, related)
        return strays(self.connection, "everything", self.schema, related)

    def values(self, column: str) -> PrivateValues:
        """A private numeric column in row order, as exact decimals where it has them."""
        name = quote_name(column)
        raw = first(self._secrets, f"SELECT typeof(any_value({name})) FROM secrets")
        kind = str(raw[0]) if raw else "DOUBLE"
        present = self._secrets.execute(f"SELECT ({name} IS NOT NULL) AS p FROM secrets").fetchnumpy()["p"]
        floats = self._secrets.execute(f"SELECT coalesce({name}, 0)::DOUBLE AS v FROM secrets").fetchnumpy()["v"]
        digits = int(kind.rstrip(")").split(",")[1]) if kind.startswith("DECIMAL") else 0
        units: NDArray[Any] | None = None
        if kind not in ("DOUBLE", "FLOAT"):
            try:
                text = f"SELECT coalesce({name} * {10**digits}, 0)::BIGINT AS v FROM secrets"
                units = np.asarray(self._secrets.execute(text).fetchnumpy()["v"], dtype=np.int64)
            except duckdb.Error:  # beyond 64 bits: every digit as it is written
                text = f"SELECT replace(coalesce({name}, 0)::VARCHAR, '.', '') FROM secrets"
                units = np.array([int(row[0]) for row in self._secrets.execute(text).fetchall()], dtype=object)
        return PrivateValues(np.asarray(present, dtype=np.bool_), units, digits, np.asarray(floats, dtype=np.float64))

    def value_counts(self, column: str, most: int) -> list[tuple[Scalar, int]] | None:
        """Each value of a private column and how many records have it, NULL aside; None if there are more than most."""
        name = quote_name(column)
        text = (
            f"SELECT {name} AS v, count(*) FROM secrets WHERE {name} IS NOT NULL GROUP BY v ORDER BY v LIMIT {most + 1}"
        )
        rows = self._secrets.execute(text).fetchall()
        return None if len(rows) > most else [(row[0], int(row[1])) for row in rows]

    def value_ends(self, column: str) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest number of a private column; None if it has none."""
        name = quote_name(column)
        least, greatest = first(self._secrets, f"SELECT min({name}), max({name}) FROM secrets") or (None, None)
        return None if least is None or greatest is None else (Fraction(least), Fraction(greatest))

    def row_values(self, table: str, column: str) -> list[Scalar | None]:
        """The values of a column of another table's rows, in their order, NULL last."""
        name = quote_name(column)
        text = f"SELECT DISTINCT {name} AS v FROM {held_as(table)} ORDER BY v NULLS LAST"
        return [plain_value(row[0]) for row in self._secrets.execute(text).fetchall()]

    def holds(self, condition: str) -> bool:
        """Does an SQL condition hold for some record? A failure of the engine is told without its words."""
        return bool(self._told(f"SELECT 1 FROM everything WHERE {condition} LIMIT 1").fetchall())

    def tally(self, code: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many records there are for each value of a whole-numbered expression: (values, counts), in one scan."""
        cells, counts = self.tallies(code, ())
        return cells, counts

    def tallies(self, code: str, sums: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each value of a whole-numbered expression: the value, how many records, and the sums of other whole-
        numbered expressions, in one scan. Sums must fit 63 bits.
        """
        listed = "".join(f", COALESCE(sum({each}), 0)::BIGINT AS s{k}" for k, each in enumerate(sums))
        wanted = f"SELECT {code} AS cell, count(*) AS c{listed} FROM {self._counted} GROUP BY cell"
        rows = self._told(wanted).fetchnumpy()
        names = ("cell", "c", *(f"s{k}" for k in range(len(sums))))
        return [np.asarray(rows[name], dtype=np.int64) for name in names]

    def bound(self, ids: Sequence[str], rows: int, key: bytes) -> None:
        """From now on tallies are of so many rows of each person at most: those of the smallest keyed hash of the
        person and the row's own content.

        Which rows of a person count follows from his rows alone: not from other people, nor from the order of the
        file (rows of one hash are equal). Cost: one sort.
        """
        columns = [quote_name(c.name) for c in self.schema.columns if c.role is not Role.HIDDEN]
        content = " || ".join(f"coalesce(length({c}::VARCHAR) || ':' || {c}::VARCHAR, 'N')" for c in columns)
        listed = ", ".join(quote_name(name) for name in ids)
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE bounded AS SELECT * FROM everything QUALIFY row_number() OVER "
            f"(PARTITION BY {listed} ORDER BY sha256('{key.hex()}' || {content})) <= {int(rows)}"
        )
        self._counted = "bounded"

    def distinct(self, code: str, where: str) -> int:
        """How many different values an expression has among the counted records under a condition."""
        rows = self._told(f"SELECT count(DISTINCT {code}) FROM {self._counted} WHERE {where}").fetchall()
        return int(rows[0][0])

    def keyed(self, columns: Sequence[str], where: str) -> list[tuple[tuple[str, ...], int]]:
        """The values of columns as text, among the counted records under a condition, and how many have each."""
        listed = ", ".join(f"{quote_name(name)}::VARCHAR AS k{k}" for k, name in enumerate(columns))
        present = " AND ".join(f"{quote_name(name)} IS NOT NULL" for name in columns)
        text = f"SELECT {listed}, count(*) FROM {self._counted} WHERE ({where}) AND {present} GROUP BY ALL ORDER BY ALL"
        return [(tuple(map(str, row[:-1])), int(row[-1])) for row in self._told(text).fetchall()]

    def seal(self) -> Seal | None:
        """Keyed digests of the private columns at hand; None if none is."""
        return seal_columns(lambda: self.connection, self.schema, self._held) if self._held else None

    def digest(self, key: bytes) -> str:
        """A keyed digest of all that is not hidden."""
        return digest_rows(self.connection, [c for c in self.schema.columns if c.role is not Role.HIDDEN], key)

    def _told(self, text: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(text)
        except duckdb.Error as error:
            kind = str(error).partition(":")[0]  # what follows may quote a value
            told = f"the engine cannot count the table by its declared cells ({kind})"
            raise DataError(told, told=told) from None

    def truths(self, leaves: Sequence[Leaf]) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each private condition on each record, by the engine: 1 true, 0 false, -1 NULL."""
        found: dict[Leaf, NDArray[np.int8]] = {}
        for leaf in leaves:
            read = leaf.columns if isinstance(leaf, Opaque) else {leaf.column}
            alone = bool(read) and read <= set(self._held)
            con, table = (self._secrets, "secrets") if alone else (self.connection, "everything")
            text = f"SELECT coalesce(({to_sql(leaf)})::INT, -1)::TINYINT AS v FROM {table}"
            found[leaf] = np.asarray(con.execute(text).fetchnumpy()["v"], dtype=np.int8)
        return found
