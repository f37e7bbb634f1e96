"""The yes/no oracle over a real database: SELECT SUM(x) > t FROM ... WHERE ..., exact or noisy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
from sqlglot import exp

from keyhole.engines.base import Source
from keyhole.errors import ConfigError, ModelError
from keyhole.model.predicate import And, Comparison, Membership, Predicate
from keyhole.model.query import Aggregate, Query, Threshold
from keyhole.model.schema import Schema
from keyhole.oracles.noise import Floats, OracleNoise
from keyhole.oracles.targets import read_shape
from keyhole.sql.lowering.lower import lower_statement
from keyhole.sql.statements.parse import parse_select

SAMPLES = (0.5, 987654321.5)  # thresholds at which a statement is looked at: far apart, no condition takes both for one


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _literal(value: float | str) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def asking(source: Source) -> Callable[[str], object]:
    """`ask` for a Source: the text is lowered like any analyst's statement, then answered by the engine.

    >>> import pandas
    >>> from keyhole.config import Columns, PrivateColumn
    >>> from keyhole.datasets import load
    >>> frame = pandas.DataFrame({"name": ["Ann", "Bob"], "pay": [4.0, 7.0]})
    >>> source = load(frame, Columns(id=("name",), private={"pay": PrivateColumn(min=0, max=10)}))
    >>> asking(source)("SELECT SUM(pay) > 5 FROM staff WHERE name IN ('Bob')")
    True
    """
    return lambda sql: source.evaluate(lower_statement(sql, source.schema).queries[0])


def check_additive(statement: Callable[[float], str], schema: Schema, key: str, ids: Sequence[str]) -> Query:
    """`statement(threshold)`, which names all `ids`, asks whether a sum over the records of these ids is above it.

    Anything else (AVG, NOT IN, an OR, another column than the id, a `<`, several aggregates) is no q.w > threshold:
    what was learnt from it would be nobody's value. Decided on the text, as it is lowered; a `ConfigError` says so.
    Returns the question.

    >>> from keyhole.model.schema import Column, Kind, Role
    >>> staff = Schema("staff", (Column("name", Kind.TEXT, Role.ID), Column("pay", Kind.INTEGER, Role.PRIVATE)))
    >>> asked = check_additive(
    ...     lambda t: f"SELECT SUM(pay) > {t} FROM staff WHERE name IN ('Ann')", staff, "name", ["Ann"]
    ... )
    >>> check_additive(lambda t: f"SELECT AVG(pay) > {t} FROM staff WHERE name IN ('Ann')", staff, "name", ["Ann"])
    Traceback (most recent call last):
    ...
    keyhole.errors.ConfigError: TARGET: write a sum over the ids, SELECT SUM(COLUMN) > {threshold} FROM TABLE WHERE \
name IN ({ids}), or COUNT(*) with conditions; of anything else entries are not what adds up
    """
    one, two = (lower_statement(statement(at), schema).queries for at in SAMPLES)
    _, select = parse_select(statement(SAMPLES[0]))
    more = [word for word, part in select.args.items() if part and word not in ("expressions", "from_", "where")]
    if more or len(list(select.find_all(exp.Select))) > 1:
        raise ConfigError(
            "TARGET: the statement is asked as SELECT, FROM and WHERE; leave out GROUP BY, HAVING, ORDER BY, LIMIT, "
            "joins and subqueries: with them the answer is not that of the sum"
        )
    fits = len(one) == len(two) == 1 and _tests(one[0], SAMPLES[0]) and _tests(two[0], SAMPLES[1])
    if not fits or one[0].terms != two[0].terms or not all(_of(t.where, key, set(ids)) for t in one[0].terms):
        raise ConfigError(
            "TARGET: write a sum over the ids, SELECT SUM(COLUMN) > {threshold} FROM TABLE WHERE "
            f"{key} IN ({{ids}}), or COUNT(*) with conditions; of anything else entries are not what adds up"
        )
    return one[0]


def _tests(query: Query, threshold: float) -> bool:
    """Is it a plain sum, asked against just this threshold?"""
    plain = query.aggregate is Aggregate.SUM and not query.per and query.digits is None and query.terms
    return bool(plain) and query.test in [Threshold(op, Decimal(repr(threshold))) for op in (">", ">=")]


def _of(where: Predicate, key: str, ids: set[str]) -> bool:
    """Does the condition hold of nobody but these ids, and of each by itself?"""
    named = [
        {str(v) for v in (part.values if isinstance(part, Membership) else (part.value,))}
        for part in (where.parts if isinstance(where, And) else (where,))
        if isinstance(part, Membership | Comparison) and part.column == key and getattr(part, "op", "=") == "="
    ]
    return ids in named


def range_of_sums(source: Source, where: Predicate, column: str, low: float, high: float) -> tuple[float, float]:
    """Where each person's sum lies under a condition, if every value of the column lies between two ends.

    A person has as many values as rows. One who has no value, or whom more than the ids decides upon, may add nothing.

    >>> import pandas
    >>> from keyhole.config import Columns, PrivateColumn
    >>> from keyhole.datasets import load
    >>> frame = pandas.DataFrame({"name": ["Ann", "Bob", "Bob"], "pay": [40.0, 70.0, 60.0]})
    >>> source = load(frame, Columns(id=("name",), private={"pay": PrivateColumn(min=40, max=100)}))
    >>> range_of_sums(source, Membership("name", ("Ann", "Bob")), "pay", 40, 100)
    (40, 200)
    """
    rows = max(Counter(str(label) for label in source.labels(np.arange(source.n))).values(), default=1)
    found = min(low, low * rows), max(high, high * rows)
    if isinstance(where, And) or not source.values(column).present.all():
        found = min(found[0], 0.0), max(found[1], 0.0)
    return found


class DatabaseOracle:
    """Turns a query vector over records into SQL and sends it through `ask(sql) -> bool`.

    Entry i of a query is the weight of the record with id `ids[i]`; the hidden vector is the private column. A 0/1
    query becomes `SELECT SUM("x") > t FROM "table" WHERE "id" IN (...)`; other weights become a CASE over the id inside
    the SUM. `ask` may be any connection: DuckDB's is `lambda sql: connection.execute(sql).fetchone()[0]`.
    The database sees one statement per answer; nothing but the bit comes back.

    >>> statements = []
    >>> def ask(sql: str) -> bool:
    ...     statements.append(sql)
    ...     return True
    >>> oracle = DatabaseOracle(ask, table="staff", column="pay", key="name", ids=["Ann", "Bob", "Cy"])
    >>> oracle.above(np.array([1.0, 0.0, 1.0]), 3.5), oracle.asked
    (1, 1)
    >>> print(statements[0])
    SELECT SUM("pay") > 3.5 FROM "staff" WHERE "name" IN ('Ann', 'Cy')
    """

    def __init__(
        self, ask: Callable[[str], object], *, table: str, column: str, key: str, ids: Sequence[float | str]
    ) -> None:
        if not ids:
            raise ModelError("the database oracle needs the ids of the records, one per entry of a query")
        self._ids = [_literal(each) for each in ids]
        if len(set(self._ids)) < len(self._ids):
            again = next(each for k, each in enumerate(self._ids) if each in self._ids[:k])
            raise ModelError(f"the id {again} is named twice; an entry of a query stands for one record")
        self._ask = ask
        self._table, self._column, self._key = _name(table), _name(column), _name(key)
        self.asked = 0

    def statement(self, q: Floats, threshold: float) -> str:
        """The SQL text for one question."""
        row = np.asarray(q, dtype=np.float64)
        if row.shape != (len(self._ids),):
            raise ModelError(f"a query has one entry per record, {len(self._ids)}, got shape {row.shape}")
        if not np.all(np.isfinite(row)) or not np.any(row) or not math.isfinite(threshold):
            raise ModelError("a query needs finite entries, not all zero, and a finite threshold")
        used = [(each, float(weight)) for each, weight in zip(self._ids, row, strict=True) if weight != 0]
        weights = {weight for _, weight in used}
        if len(weights) == 1:
            # SUM(x) > t/w says the same as SUM(w x) > t, and is what an analyst would write
            weight = weights.pop()
            total = f"SUM({self._column})" if weight == 1 else f"SUM({weight!r} * {self._column})"
        else:
            cases = " ".join(f"WHEN {each} THEN {weight!r}" for each, weight in used)
            total = f"SUM({self._column} * CASE {self._key} {cases} END)"
        chosen = ", ".join(each for each, _ in used)
        return f"SELECT {total} > {float(threshold)!r} FROM {self._table} WHERE {self._key} IN ({chosen})"

    def above(self, q: Floats, threshold: float) -> int:
        """Ask the database."""
        answer = self._ask(self.statement(q, threshold))
        if answer not in (0, 1):
            raise ModelError(
                f"the database answered with {read_shape(answer)}, not true or false: are there records, and no NULLs?"
            )
        self.asked += 1
        return int(bool(answer))


class NoisyDatabaseOracle(DatabaseOracle):
    """The same database behind a defence: fresh noise is added to every sum before it is compared.

    SUM(x) + noise > t is SUM(x) > t - noise: the defence sits between the analyst and the database, which it asks
    with the shifted threshold.
    """

    def __init__(
        self,
        ask: Callable[[str], object],
        noise: OracleNoise,
        *,
        table: str,
        column: str,
        key: str,
        ids: Sequence[float | str],
        rng: np.random.Generator,
    ) -> None:
        super().__init__(ask, table=table, column=column, key=key, ids=ids)
        self._noise, self._rng = noise, rng

    def above(self, q: Floats, threshold: float) -> int:
        """Ask the database at the threshold less the noise."""
        return super().above(q, threshold - float(self._noise.sample(self._rng, 1)[0]))
