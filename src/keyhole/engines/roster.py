"""The public half of a table where it is: who matches is asked of the engine that holds it, in SQL common to all.

Rows have numbers from 0 in a column of their own (`ROW`): the order in which an engine delivers them does not matter.
What comes over is what was asked for: groups and how many there are in each, numbers of rows, labels of people who are
named. The role of this connection cannot read a secret: that is the engine's own matter.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.engines.base import AsWritten, Filling, GroupKey, ProbeTable, Roster, Rows
from keyhole.engines.duckdb.connections import plain_value
from keyhole.engines.duckdb.probe import DuckDBProbe
from keyhole.engines.duckdb.roster import finite_number, list_columns_read, split_conjunction
from keyhole.engines.engine import Engine, fetch_rows
from keyhole.engines.key_atoms import AT_ONCE, group_by_keys
from keyhole.engines.open_files import Lifetime, in_turn
from keyhole.errors import DataError, UnsupportedQuery
from keyhole.extras import import_extra
from keyhole.model.predicate import Has, Leaf, Predicate, Scalar, find_leaves, make_and, quote_name
from keyhole.model.query import COUNTED, OrderTerm, Query, Statement
from keyhole.model.schema import Kind, Role, Schema, WholeTableColumn

if TYPE_CHECKING:
    import duckdb

ROW = "keyhole_r"  # the number of a row, from 0
LANES = ("keyhole_g1", "keyhole_g2", "keyhole_g3")  # whole numbers below 2^31 that nobody knows: see `EngineSpace`
NOT_THERE = "what it asks of the whole table is not computed where these data are (stay = false reads them once)"


@dataclass(frozen=True, slots=True)
class MadeUpFrom:
    """What a made-up table is made from: a DuckDB with some rows of the real one (`people`), its types as the engine
    writes them, and where statements are run as written (None: they are run in DuckDB, translated)."""

    sample: Callable[[], duckdb.DuckDBPyConnection]
    types: Mapping[str, str]
    runner: Callable[[], Engine] | None = None


class EngineRoster:
    """The public half of a table, asked through an `Engine`; `table` is its name there."""

    def __init__(
        self,
        engine: Engine,
        table: str,
        schema: Schema,
        life: Lifetime,
        made_up: MadeUpFrom,
        n: int,
    ) -> None:
        self.engine, self.table, self.life = engine, table, life
        self.words = engine.spelling
        self.made_up = made_up
        self._schema, self._n = schema, n
        self._probe: ProbeTable | None = None

    def close(self) -> None:
        """Let go of the table, of both halves."""
        self.life.close()

    @property
    def n(self) -> int:
        """How many records."""
        return self._n

    @property
    def schema(self) -> Schema:
        """The columns, with kinds and roles."""
        return self._schema

    @cached_property
    def people(self) -> int:
        """How many people: as many as there are ids, or records where no id repeats."""
        if not self.schema.repeated:
            return self.n
        listed = ", ".join(quote_name(c.name) for c in self.schema.of_role(Role.ID))
        return int(self._rows(f"SELECT count(*) AS n FROM (SELECT DISTINCT {listed} FROM {self.table}) q")[0][0])

    def as_separate_people(self) -> Roster:
        """The same records, each taken as somebody of his own."""
        return EngineRoster(
            self.engine, self.table, replace(self.schema, repeated=False), self.life, self.made_up, self.n
        )

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return fetch_rows(self.engine, sql)

    def _by_row(self, item: str, dtype: type[np.generic]) -> NDArray[Any]:
        """An expression for every row, in the order of the rows."""
        table = self.engine.arrow(f"SELECT {item} AS v, {ROW} AS r FROM {self.table}").read_all()
        values = np.empty(self.n, dtype=dtype)
        values[table["r"].to_numpy()] = table["v"].to_numpy()
        return values

    # --- who matches ------------------------------------------------------------------------------------------------

    @in_turn
    def support(self, query: Query) -> Rows:
        """The records that some term of the query looks at; its conditions must be public."""
        wheres = [t.where for t in (*query.terms, *query.per)]
        if any(map(self._is_private, wheres)):
            raise UnsupportedQuery("the support of a condition on a private column or on rows of people is secret")
        text = " OR ".join(f"({self.words.condition(w)})" for w in wheres) or "FALSE"
        table = self.engine.arrow(f"SELECT {ROW} AS r FROM {self.table} WHERE {text}").read_all()
        return np.sort(table["r"].to_numpy()).astype(np.int64)

    @in_turn
    def atoms(self, predicates: Sequence[Predicate], weights: Sequence[str]) -> Atoms:
        """Records grouped by (which predicates hold, values of the weights): the engine decides and groups."""
        return group_by_keys(self.engine, self.table, ROW, self.n, self.schema, predicates, weights)

    @in_turn
    def classes(self, expressions: Sequence[str]) -> Rows:
        """Records by the value of public expressions: a number from 0 for each value, -1 where one is NULL."""
        spelled = [self.words.expression(sql) for sql in expressions]
        listed = ", ".join(f"({sql}) AS e{i}" for i, sql in enumerate(spelled))
        names = ", ".join(f"e{i}" for i in range(len(spelled)))
        null = " OR ".join(f"e{i} IS NULL" for i in range(len(spelled)))
        text = (
            f"SELECT CASE WHEN {null} THEN -1 ELSE dense_rank() OVER "
            f"(PARTITION BY CASE WHEN {null} THEN 1 ELSE 0 END ORDER BY {names}) - 1 END AS c, {ROW} AS r "
            f"FROM (SELECT {ROW}, {listed} FROM {self.table}) q"
        )
        table = self.engine.arrow(text).read_all()
        numbers = np.empty(self.n, dtype=np.int64)
        numbers[table["r"].to_numpy()] = table["c"].to_numpy()
        return numbers

    def faults(self, parts: Sequence[tuple[Predicate, str | None]]) -> list[str | None]:
        """`fault` of many conditions and weights."""
        return [self.fault(*part) for part in parts]

    @in_turn
    def fault(self, predicate: Predicate, weight: str | None) -> str | None:
        """The engine's objection, or None."""
        try:
            item = self.words.expression(weight or "0")
            where = self.words.condition(predicate)
        except UnsupportedQuery as error:
            return error.message
        text = f"SELECT count(*) AS c, max({item}) AS m FROM {self.table} WHERE {where}"
        if self.engine.attempt(text) is None:
            return f"{self.engine.dialect} cannot evaluate it on the table"
        return None

    @in_turn
    def probe(self) -> ProbeTable:
        """A made-up table with public values of this one; always the same one."""
        if self._probe is None:
            self._probe = self.life.closes(EngineProbe(self.engine, self.made_up, self.n, self.schema))
        return self._probe

    def compute(self, columns: Sequence[WholeTableColumn]) -> str:
        """Why public columns that are computed over the whole table cannot be had."""
        known = {c.name for c in self.schema.columns}
        return "" if all(column.name in known for column in columns) else NOT_THERE

    def adopt(self, schema: Schema) -> None:
        """Take over the columns of another view of the same table."""
        if schema != self._schema:
            self._schema, self._probe = schema, None

    def give_the_same_rows(self, table: tuple[str, ...], one: str, other: str) -> bool:
        """Nothing is run over all public rows here, so it is not known."""
        return False

    # --- groups and figures -----------------------------------------------------------------------------------------

    def keys(self, statement: Statement) -> list[GroupKey]:
        """The public key values that occur, for each grouping set."""
        groups: list[GroupKey] = []
        where = self._public_condition(statement)
        for chosen in statement.sets:
            keys = [k for i in chosen if not (k := statement.keys[i]).hidden(self._secret_names)]
            if not keys:
                groups.append({})
                continue
            listed = ", ".join(f"{self.words.expression(k.sql)} AS k{i}" for i, k in enumerate(keys))
            order = ", ".join(f"k{i} NULLS LAST" for i in range(len(keys)))
            text = f"SELECT * FROM (SELECT DISTINCT {listed} FROM {self.table} WHERE {where}) q ORDER BY {order}"
            names = [k.name for k in keys]
            groups.extend(dict(zip(names, map(plain_value, row), strict=True)) for row in self._rows(text))
        return groups

    def ranked(self, statement: Statement, order: Sequence[OrderTerm]) -> list[tuple[GroupKey, int]]:
        """The groups of a statement under its public conditions with their rank in a public order, the first first."""
        named = {k.sql: f"k{i}" for i, k in enumerate(statement.keys)}
        columns = [f"{k.sql} AS {quote_name(k.column)}" for k in statement.keys if k.column is not None]
        listed = [*(f"{self.words.expression(sql)} AS {name}" for sql, name in named.items()), *columns]
        where, by = self._public_condition(statement), ", ".join(map(self.words.expression, named))
        groups = f"(SELECT {', '.join([*listed, f'{COUNTED} AS kc'])} FROM {self.table} WHERE {where} GROUP BY {by}) q"
        places = {**named, COUNTED: "kc"}
        terms = [
            f"{places.get(s.sql) or self.words.expression(s.sql)} {'DESC' if s.descending else 'ASC'} "
            f"NULLS {'FIRST' if s.nulls_first else 'LAST'}"
            for s in order
        ]
        rank = f"RANK() OVER (ORDER BY {', '.join(terms)})" if terms else "1"
        text = f"SELECT {', '.join(named.values())}, {rank} AS kr FROM {groups} ORDER BY kr"
        names = [k.name for k in statement.keys]
        return [
            ({k: plain_value(v) for k, v in zip(names, row[:-1], strict=True)}, int(row[-1]))
            for row in self._rows(text)
        ]

    def figure(self, query: Query) -> Decimal | bool | None:
        """The answer of a query that looks at public things only."""
        return finite_number(self._rows(f"SELECT {self.words.item(query)} AS v FROM {self.table}")[0][0])

    def figures(
        self, statement: Statement, queries: Sequence[Query]
    ) -> list[tuple[GroupKey, list[Decimal | bool | None]]]:
        """Public questions for each group of a statement, by one look at the table for each of its grouping sets."""
        items = [f"{self.words.item(query)} AS q{i}" for i, query in enumerate(queries)]
        figures: list[tuple[GroupKey, list[Decimal | bool | None]]] = []
        for chosen in statement.sets:
            keys = [statement.keys[i] for i in chosen]
            spelled = [self.words.expression(k.sql) for k in keys]
            listed = [f"{sql} AS k{i}" for i, sql in enumerate(spelled)]
            text = f"SELECT {', '.join([*listed, *items])} FROM {self.table} WHERE {self._public_condition(statement)}"
            rows = self._rows(f"{text} GROUP BY {', '.join(spelled)}" if keys else text)
            names = [k.name for k in keys]
            for row in rows:
                key = {k: plain_value(v) for k, v in zip(names, row, strict=False)}
                figures.append((key, [finite_number(v) for v in row[len(keys) :]]))
        return figures

    def spellings(self, column: str) -> frozenset[str]:
        """The values of a public column of text."""
        name = quote_name(column)
        rows = self._rows(f"SELECT DISTINCT {name} AS v FROM {self.table} WHERE {name} IS NOT NULL")
        return frozenset(str(row[0]) for row in rows)

    def code_column(self, column: str) -> tuple[tuple[Scalar, ...], Rows]:
        """The values of a public column in their order, and the number of each record's value (NULL: the last)."""
        name = quote_name(column)
        rows = self._rows(f"SELECT DISTINCT {name} AS v FROM {self.table} WHERE {name} IS NOT NULL ORDER BY v")
        values = tuple(value for row in rows if (value := plain_value(row[0])) is not None)
        return values, self._by_row(f"dense_rank() OVER (ORDER BY {name} NULLS LAST) - 1", np.int64)

    def has_value(self, column: str) -> NDArray[np.bool_]:
        """Who has a value in a private column."""
        text = f"CAST(CASE WHEN {quote_name(column)} IS NULL THEN 0 ELSE 1 END AS SMALLINT)"
        return np.asarray(self._by_row(text, np.int8) == 1)

    # --- people -----------------------------------------------------------------------------------------------------

    def labels(self, rows: Rows) -> list[dict[str, Scalar | None]]:
        """The id of each record."""
        names = [c.name for c in self.schema.of_role(Role.ID)]
        if not names:
            return [{"row": int(r) + 1} for r in rows]
        return [dict(zip(names, row, strict=True)) for row in self._of_rows(names, rows)]

    @in_turn
    def _of_rows(self, names: Sequence[str], rows: Rows) -> list[tuple[Any, ...]]:
        if len(rows) == self.n and np.array_equal(rows, np.arange(self.n)):
            listed = ", ".join(map(quote_name, names))
            return [row[1:] for row in self._rows(f"SELECT {ROW}, {listed} FROM {self.table} ORDER BY {ROW}")]
        listed = ", ".join(f"p.{quote_name(name)}" for name in names)
        text = f"SELECT {listed} FROM {self._put_rows(rows)} w JOIN {self.table} p ON p.{ROW} = w.r ORDER BY w.i"
        return self._rows(text)

    def _put_rows(self, rows: Rows) -> str:
        pa = import_extra("pyarrow", "data that stay in their engine")
        wanted = {"i": pa.array(np.arange(len(rows)), pa.int64()), "r": pa.array(np.asarray(rows), pa.int64())}
        return self.engine.put("keyhole_wanted", pa.table(wanted))

    @in_turn
    def singled_out(self, rows: Rows) -> list[bool]:
        """Do the public columns alone (without id) point to the record?

        Records with NULL in the same columns are compared at once: so the engine joins on = alone.
        """
        names = [quote_name(c.name) for c in self.schema.of_role(Role.PUBLIC) if not c.computed]
        if not names or not len(rows):
            return [self.n == 1] * len(rows)
        wanted = self._put_rows(np.unique(rows))
        nulls = ", ".join(f"CASE WHEN p.{name} IS NULL THEN 1 ELSE 0 END AS c{i}" for i, name in enumerate(names))
        patterns = self._rows(f"SELECT DISTINCT {nulls} FROM {wanted} w JOIN {self.table} p ON p.{ROW} = w.r")
        alone: set[int] = set()
        for pattern in patterns:
            same = [
                f"p.{name} IS NULL AND q.{name} IS NULL" if null else f"p.{name} = q.{name}"
                for name, null in zip(names, pattern, strict=True)
            ]
            text = (
                f"SELECT w.r FROM {wanted} w JOIN {self.table} p ON p.{ROW} = w.r JOIN {self.table} q ON "
                f"{' AND '.join(same)} GROUP BY w.r HAVING count(*) = 1"
            )
            alone |= {int(row[0]) for row in self._rows(text)}
        return [int(r) in alone for r in rows]

    def sign_ids(self, key: bytes) -> list[bytes] | None:
        """HMAC-SHA256 of each record's id, made here: the key is not sent."""
        ids = self.schema.of_role(Role.ID)
        if not ids or any(c.kind not in (Kind.TEXT, Kind.INTEGER) for c in ids):
            return None
        rows = self._of_rows([c.name for c in ids], np.arange(self.n))
        if any(None in row for row in rows):
            return None
        spelled = ("".join(f"{len(str(cell))}:{cell}" for cell in row) for row in rows)
        return [hmac.digest(key, text.encode(), "sha256") for text in spelled]

    def fingerprint(self) -> str:
        """A digest of columns, roles and all public content, made in the engine; rows may come in any order."""
        private = [c for c in self.schema.of_role(Role.PRIVATE) if c.nullable]
        held = [*(c for c in self.schema.columns if not c.secret and not c.computed), *private]
        line = self.words.row_text([f"CAST({quote_name(c.name)} AS {self.words.text})" for c in held])
        hashed = f"SELECT {self.words.sha256.format(line)} AS h FROM {self.table}"
        halves = self._rows(f"SELECT {self.words.hash_halves('h')} FROM ({hashed}) q")[0]
        told = [(c.name, "" if c.secret else str(c.kind), str(c.role)) for c in self.schema.columns]
        return hashlib.sha256(json.dumps([told, self.n, *map(str, halves)]).encode()).hexdigest()[:32]

    # --- what is private --------------------------------------------------------------------------------------------

    @property
    def _secret_names(self) -> frozenset[str]:
        return frozenset(c.name for c in self.schema.columns if c.secret)

    def _is_private(self, predicate: Predicate) -> bool:
        if any(isinstance(leaf, Has) for leaf in find_leaves(predicate)):
            return True
        return bool(self._secret_names & list_columns_read(predicate))

    def _public_condition(self, statement: Statement) -> str:
        """The public conjuncts of a statement's condition."""
        public = [p for p in split_conjunction(statement.where) if not self._is_private(p)]
        return self.words.condition(make_and(*public))


# --- the made-up table -----------------------------------------------------------------------------------------------
# Values are made up by DuckDB, from the sample; the same rows are then put into the engine. The connection of the data
# sees our own renderings alone. The analyst's text runs in a database of its own in the same server, where there is
# nothing else: as a role that reads nothing else, for a limited time, and nothing of it stays.


class EngineProbe(DuckDBProbe):
    """The made-up table in DuckDB and in the engine of the data."""

    def __init__(self, engine: Engine, made_up: MadeUpFrom, n: int, schema: Schema) -> None:
        with made_up.sample() as sample:
            super().__init__(sample, min(n, 1), schema)
        self._engine, self._made_up = engine, made_up
        self._spelling = engine.spelling
        self._names: tuple[tuple[str, ...], ...] = ()
        self._tables: dict[bool, str] = {}

    @cached_property
    def _runner(self) -> Engine | None:
        return None if self._made_up.runner is None else self._made_up.runner()

    def close(self) -> None:
        """Let go of both."""
        if self.__dict__.get("_runner") is not None:
            self.__dict__["_runner"].close()
        super().close()

    def place(self, extra: Sequence[Mapping[str, Scalar | None]]) -> int:
        """Public rows from now on: the sample, and these; there, too."""
        placed = super().place(extra)
        self._put_rows(public=True)
        return placed

    def fill(
        self,
        filling: Filling,
        constants: Mapping[str, Sequence[Scalar]],
        names: Sequence[tuple[str, ...]],
        others: Sequence[tuple[tuple[str, ...], str]] = (),
        rows: Mapping[str, Sequence[Mapping[str, Scalar | None]]] | None = None,
    ) -> NDArray[np.bool_]:
        """Make the private columns up, and put the rows there."""
        kept = super().fill(filling, constants, names, others, rows)
        self._names = tuple(dict.fromkeys(name for name in names if name))
        self._put_rows(public=False)
        return kept

    def _put_rows(self, *, public: bool) -> None:
        rows = self.rows_as_arrow(public=public)
        self._tables[public] = self._engine.put("keyhole_public" if public else "keyhole_filled", rows)
        if not public:
            self._filled = rows

    def truths(self, leaves: Sequence[Leaf], *, public: bool) -> Mapping[Leaf, NDArray[np.int8]]:
        """Each condition on each row, by the engine of the data: 1 true, 0 false, -1 NULL."""
        found: dict[Leaf, NDArray[np.int8]] = {}
        for start in range(0, len(leaves), AT_ONCE):
            chunk = leaves[start : start + AT_ONCE]
            items = ", ".join(self._spelling.truth(leaf, f"c{i}") for i, leaf in enumerate(chunk))
            table = self._engine.arrow(f"SELECT keyhole_row, {items} FROM {self._tables[public]}").read_all()
            at = table["keyhole_row"].to_numpy()
            for i, leaf in enumerate(chunk):
                found[leaf] = np.empty(len(at), dtype=np.int8)
                found[leaf][at] = table[f"c{i}"].to_numpy()
        return found

    def evaluate_rows(self, expressions: Sequence[str], *, public: bool) -> list[tuple[Any, ...]]:
        """Expressions over the columns, row by row, by the engine of the data."""
        listed = ", ".join(f"{self._spelling.expression(sql)} AS e{i}" for i, sql in enumerate(expressions))
        text = f"SELECT keyhole_row, {listed} FROM {self._tables[public]} ORDER BY keyhole_row"
        return [row[1:] for row in self._attempted(text)]

    def _attempted(self, text: str) -> list[tuple[Any, ...]]:
        """The rows; where the engine refuses them, the connection goes on."""
        rows = self._engine.attempt(text)
        if rows is None:
            raise DataError.of_file(f"{self._engine.dialect} does not evaluate it on made-up rows")
        return rows

    def figures(self, keys: Sequence[str], item: str) -> list[tuple[Any, ...]]:
        """One aggregate for each value of the keys, behind them, by the engine of the data."""
        spelled = [self._spelling.expression(key) for key in keys]
        listed = [f"{sql} AS k{i}" for i, sql in enumerate(spelled)]
        grouped = f" GROUP BY {', '.join(spelled)}" if keys else ""
        items = ", ".join([*listed, f"{self._spelling.expression(item)} AS v"])
        return self._attempted(f"SELECT {items} FROM {self._tables[False]}{grouped}")

    def run(self, texts: Sequence[AsWritten]) -> list[list[tuple[Any, ...]] | None]:
        """The rows of each statement: as written, by an engine of its own kind; else as translated, by DuckDB."""
        runner = self._runner
        there = [i for i, text in enumerate(texts) if runner is not None and text.written_for == self._engine.dialect]
        results: list[list[tuple[Any, ...]] | None] = [None] * len(texts)
        if runner is not None and there:
            written = [texts[i].as_written.strip().rstrip(";") for i in there]
            for i, rows in zip(
                there, runner.run_aside(self._names, self._filled, self._made_up.types, written), strict=True
            ):
                results[i] = rows
        here = [i for i in range(len(texts)) if i not in set(there)]
        for i, rows in zip(here, super().run([texts[i] for i in here]), strict=True):
            results[i] = rows
        return results
