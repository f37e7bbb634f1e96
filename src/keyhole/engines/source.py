"""A source whose private half stays in its engine: totals of questions leave it, and counts of declared cells.

Conditions on public columns are decided by the roster's connection; the connection of the role that may read secrets
finds the same classes by the same keys and adds up those that count. Values of single people are never asked for. It is
connected to when first a question was decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from keyhole.basis import Atoms
from keyhole.basis.bits import unpack
from keyhole.engines.base import GroupKey, PrivateTotal, PrivateValues, Roster, Seal
from keyhole.engines.duckdb.source import as_decimal
from keyhole.engines.engine import Engine, fetch_rows
from keyhole.engines.key_atoms import KeyedRecords
from keyhole.engines.open_files import in_turn
from keyhole.engines.roster import ROW, EngineRoster
from keyhole.errors import UnsupportedQuery
from keyhole.extras import import_extra
from keyhole.model.meaning import Value, compare_value, compute_value
from keyhole.model.predicate import Leaf, Scalar, quote_name
from keyhole.model.query import Aggregate, Query, Statement, Term
from keyhole.model.schema import Kind, Role, Schema

PAIRS = 4_000_000  # pairs of a question and a class that are sent at once


class EngineSource(EngineRoster):
    """The roster's connection for everything public; `connect` gives the one that also reads `secrets`."""

    def __init__(self, public: EngineRoster, secrets: str, connect: Callable[[], Engine]) -> None:
        super().__init__(public.engine, public.table, public.schema, public.life, public.made_up, public.n)
        self._secrets, self._connect = secrets, connect
        self._totals: tuple[object, str, int, str] | None = None
        self._private_names = [c.name for c in self.schema.of_role(Role.PRIVATE)]
        self._counted = self._everything()

    @cached_property
    def private_engine(self) -> Engine:
        """The connection of the role that may read secrets."""
        return self.life.closes(self._connect())

    def _private_rows(self, sql: str) -> list[tuple[Any, ...]]:
        return fetch_rows(self.private_engine, sql)

    @cached_property
    def roster(self) -> Roster:
        """The public half alone."""
        return EngineRoster(self.engine, self.table, self.schema, self.life, self.made_up, self.n)

    @property
    def gives_values(self) -> bool:
        """The values stay in their engine."""
        return False

    def adopt(self, schema: Schema) -> None:
        """Take over the columns that another view of the same table has computed."""
        super().adopt(schema)
        self.__dict__.pop("roster", None)

    # --- totals ---------------------------------------------------------------------------------------------------

    @in_turn
    def sums_over_atoms(
        self, atoms: Atoms, questions: Sequence[Mapping[int, Fraction]], column: str, power: int
    ) -> list[PrivateTotal]:
        """The sum of weight * column ** power for each question: one number each leaves the engine.

        The totals of the classes are taken once, in a table of that connection.
        """
        totals = self._class_totals(atoms, column, power)
        sums: list[PrivateTotal] = []
        start = 0
        while start < len(questions):
            stop, pairs = start, 0
            while stop < len(questions) and (stop == start or pairs + len(questions[stop]) <= PAIRS):
                pairs += len(questions[stop])
                stop += 1
            sums += self._sum_chunk(totals, questions[start:stop])
            start = stop
        return sums

    def _sum_chunk(self, totals: str, questions: Sequence[Mapping[int, Fraction]]) -> list[PrivateTotal]:
        pa = import_extra("pyarrow", "data that stay in their engine")
        overs = [lcm(*(w.denominator for w in weights.values())) for weights in questions]
        sizes = [len(weights) for weights in questions]
        asked = {
            "q": pa.array(np.repeat(np.arange(len(questions)), sizes), pa.int32()),
            "c": pa.array([k for weights in questions for k in weights], pa.int32()),
        }
        scaled = [int(w * over) for weights, over in zip(questions, overs, strict=True) for w in weights.values()]
        product, mass = "t.total", "t.mass"
        if any(w != 1 for w in scaled):
            asked["w"] = pa.array(map(str, scaled), pa.string())
            weight = f"CAST(q.w AS {self._exact})"
            product, mass = f"t.total * {weight}", f"t.mass * abs({weight})"
        place = self.private_engine.put("keyhole_asked", pa.table(asked))
        text = self.words.text
        found = self._private_rows(
            f"SELECT q.q AS q, CAST(sum({product}) AS {text}) AS total, CAST(sum({mass}) AS {text}) AS mass "
            f"FROM {place} q JOIN {totals} t ON t.c = q.c GROUP BY q.q"
        )
        by_question = {int(q): (Fraction(total), Fraction(mass)) for q, total, mass in found if total is not None}
        nothing = (Fraction(0), Fraction(0))
        return [PrivateTotal(*(each / over for each in by_question.get(q, nothing))) for q, over in enumerate(overs)]

    @property
    def _exact(self) -> str:
        """The type of exact numbers of any size, or of 38 digits where there is none."""
        return "NUMERIC" if self.words.dialect == "postgres" else "DECIMAL(38, 0)"

    def _number(self, column: str) -> str:
        """A private column as an exact number."""
        held = self.schema.find(column)
        digits = held.digits if held is not None and held.digits is not None else 0
        if held is not None and held.kind is Kind.DECIMAL and held.digits is None:
            digits = 9
        exact = "NUMERIC" if self.words.dialect == "postgres" else f"DECIMAL(38, {digits})"
        return f"CAST(s.{quote_name(column)} AS {exact})"

    def _class_totals(self, atoms: Atoms, column: str, power: int) -> str:
        """A table there with the total of each class (c), and that of the absolute values."""
        known = self._totals
        mark: object = atoms.recipe or atoms.of_records
        if known is not None and known[0] is mark and known[1:3] == (column, power):
            return known[3]
        pa, engine = import_extra("pyarrow", "data that stay in their engine"), self.private_engine
        x = " * ".join([self._number(column)] * power)
        added = f"sum({x}) AS total, sum(abs({x})) AS mass"
        if isinstance(atoms.recipe, KeyedRecords):
            recipe = atoms.recipe
            by = ", ".join(f"k.{name}" for name in recipe.names)
            classes = {"f": pa.array(recipe.first, pa.int64()), "c": pa.array(recipe.atom, pa.int32())}
            place = engine.put("keyhole_firsts", pa.table(classes))
            keyed = (
                f"SELECT min(k.r) AS f, {added} FROM ({recipe.rows(engine)}) k JOIN {self._secrets} s ON s.{ROW} = k.r "
                f"GROUP BY {by}"
            )
            text = (
                f"SELECT m.c, sum(total) AS total, sum(mass) AS mass FROM ({keyed}) g JOIN {place} m ON m.f = g.f "
                "GROUP BY m.c"
            )
        else:
            rows = {"r": pa.array(np.arange(self.n), pa.int64()), "c": pa.array(atoms.of, pa.int32())}
            place = engine.put("keyhole_classes", pa.table(rows))
            text = f"SELECT k.c, {added} FROM {place} k JOIN {self._secrets} s ON s.{ROW} = k.r GROUP BY k.c"
        made = engine.keep("keyhole_totals", text)
        self._totals = (mark, column, power, made)
        return made

    def evaluate(self, query: Query) -> Decimal | bool | None:
        """The true answer of a sum, a count, an average, a MIN or a MAX under public conditions."""
        terms = (*query.terms, *query.per)
        if any(self._is_private(where) for where in (*(t.where for t in terms), *query.needs)):
            _refuse("a condition on a private column")
        if not any(t.column is not None for t in terms):
            return self.figure(query)
        answer: Value
        if query.aggregate in (Aggregate.MIN, Aggregate.MAX):
            answer = self._extreme(query.terms[0], query.aggregate)
        elif query.aggregate is Aggregate.SUM:
            top, per = (sum(map(self._term, each), Fraction(0)) for each in (query.terms, query.per))
            met = all(
                self._rows(f"SELECT 1 AS one FROM {self.table} WHERE {self.words.condition(need)} LIMIT 1")
                for need in query.needs
            )
            answer = compute_value(query, top, per, met=met)
        else:
            _refuse(f"{query.aggregate.value}")
        if isinstance(answer, Fraction) and query.digits is not None:
            answer = Fraction(round(answer * 10**query.digits), 10**query.digits)
        if query.test is not None:
            return compare_value(query, answer)
        return as_decimal(answer) if isinstance(answer, Fraction) else None

    def _term(self, term: Term) -> Fraction:
        if term.weight is None and term.power == 1:
            where = self.words.condition(term.where)
            if term.column is None:
                count = self._rows(f"SELECT count(*) AS c FROM {self.table} WHERE {where}")[0][0]
                return term.factor * int(count)
            total = f"CAST(sum({self._number(term.column)}) AS {self.words.text})"
            found = self._private_rows(f"SELECT {total} AS v FROM {self._joined(where)}")[0][0]
            return term.factor * (Fraction(0) if found is None else Fraction(found))
        atoms = self.atoms([term.where], () if term.weight is None else (term.weight,))
        chosen = np.flatnonzero(unpack(atoms.table[0], atoms.K)).tolist()
        weights = dict.fromkeys(chosen, Fraction(1))
        if term.weight is not None:
            held = atoms.weights[0]
            weights = {k: Fraction(int(held.values[k]), held.over) for k in weights}
        if term.column is None:
            return term.factor * sum((int(atoms.sizes[k]) * w for k, w in weights.items()), Fraction(0))
        return term.factor * self.sums_over_atoms(atoms, [weights], term.column, term.power)[0].total

    def _joined(self, where: str) -> str:
        """The rows under a public condition with their private half."""
        return f"(SELECT {ROW} AS r FROM {self.table} WHERE {where}) p JOIN {self._secrets} s ON s.{ROW} = p.r"

    def _extreme(self, term: Term, aggregate: Aggregate) -> Fraction | None:
        name = f"s.{quote_name(term.column or '')}"
        extreme = f"CAST({aggregate.value}({name}) AS {self.words.text})"
        where = self.words.condition(term.where)
        found = self._private_rows(f"SELECT {extreme} AS v FROM {self._joined(where)}")[0][0]
        return None if found is None else term.factor * Fraction(found)

    def returned_groups(self, statement: Statement) -> list[GroupKey]:
        """The groups that a statement with public keys and conditions returns."""
        if self._is_private(statement.where) or any(k.hidden(self._secret_names) for k in statement.keys):
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

    @property
    def _both(self) -> str:
        return f"{self.table} p JOIN {self._secrets} s ON s.{ROW} = p.{ROW}"

    def _everything(self) -> str:
        names = [c for c in self.schema.columns if c.role is not Role.HIDDEN and not c.computed]
        listed = ", ".join(f"{'s' if c.name in self._private_names else 'p'}.{quote_name(c.name)}" for c in names)
        return f"(SELECT {listed} FROM {self._both}) everything"

    def holds(self, condition: str) -> bool:
        """Does an SQL condition hold for some record?"""
        return bool(self._private_rows(f"SELECT 1 AS one FROM {self._everything()} WHERE {condition} LIMIT 1"))

    def tally(self, code: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many records there are for each value of a whole-numbered expression: (values, counts), in one scan."""
        cells, counts = self.tallies(code, ())
        return cells, counts

    def tallies(self, code: str, sums: Sequence[str]) -> list[NDArray[np.int64]]:
        """For each value of a whole-numbered expression: the value, how many records, and the sums of others."""
        listed = "".join(f", CAST(COALESCE(sum({each}), 0) AS BIGINT) AS s{k}" for k, each in enumerate(sums))
        text = f"SELECT CAST({code} AS BIGINT) AS cell, count(*) AS c{listed} FROM {self._counted} GROUP BY 1"
        table = self.private_engine.arrow(text).read_all()
        return [np.asarray(column.to_numpy(), dtype=np.int64) for column in table.columns]

    def limit_rows_per_person(self, ids: Sequence[str], rows: int, key: bytes) -> None:
        """From now on tallies are of so many rows of each person at most: those of the smallest keyed hash of the row's
        own content."""
        columns = [quote_name(c.name) for c in self.schema.columns if c.role is not Role.HIDDEN and not c.computed]
        content = self.words.row_text([f"CAST({column} AS {self.words.text})" for column in columns])
        listed = ", ".join(map(quote_name, ids))
        hashed = self.words.sha256.format(f"'{key.hex()}' || {content}")
        numbered = f"row_number() OVER (PARTITION BY {listed} ORDER BY {hashed}) AS keyhole_k"
        self._counted = self.private_engine.keep(
            "keyhole_bounded",
            f"SELECT * FROM (SELECT *, {numbered} FROM {self._everything()}) q WHERE keyhole_k <= {rows:d}",
        )

    def count_distinct(self, code: str, where: str) -> int:
        """How many different values an expression has among the counted records under a condition."""
        return int(self._private_rows(f"SELECT count(DISTINCT {code}) AS c FROM {self._counted} WHERE {where}")[0][0])

    def count_keys(self, columns: Sequence[str], where: str) -> list[tuple[tuple[str, ...], int]]:
        """The values of columns as text, among the counted records under a condition, and how many have each."""
        listed = ", ".join(f"CAST({quote_name(name)} AS {self.words.text}) AS k{k}" for k, name in enumerate(columns))
        present = " AND ".join(f"{quote_name(name)} IS NOT NULL" for name in columns)
        by = ", ".join(str(k + 1) for k in range(len(columns)))
        rows = f"{self._counted} WHERE ({where}) AND {present}"
        text = f"SELECT {listed}, count(*) AS c FROM {rows} GROUP BY {by} ORDER BY {by}"
        return [(tuple(map(str, row[:-1])), int(row[-1])) for row in self._private_rows(text)]

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
        text = self.words.text
        texts = [*(f"CAST(p.{quote_name(name)} AS {text})" for name in public), *map(self._plain_number, private)]
        hashed = self.words.sha256.format(f"'{key.hex()}' || {self.words.row_text(texts)}")
        found = self._private_rows(
            f"SELECT {self.words.hash_halves('h')} FROM (SELECT {hashed} AS h FROM {self._both}) q"
        )
        return json.dumps([*map(str, found[0]), self.n, sorted(private)])

    def _plain_number(self, name: str) -> str:
        """A private cell as text, a number without the zeros behind its point."""
        text = f"CAST(s.{quote_name(name)} AS {self.words.text})"
        cut = (
            f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {text}))"
            if self.words.dialect == "spark"
            else f"rtrim(rtrim({text}, '0'), '.')"
        )
        return f"CASE WHEN {text} LIKE '%.%' THEN {cut} ELSE {text} END"


def _refuse(what: str) -> NoReturn:
    message = (
        f"{what}: not computed while the data stay in their database (stay = true); sums, counts, averages, MIN and "
        "MAX under public conditions are, and private answers; stay = false reads the table once instead"
    )
    raise UnsupportedQuery(message)
