"""What each engine spells in its own way. Everything else that is asked of an engine is common to all.

An expression that only an engine evaluates was lowered to DuckDB's words. For another engine it is spelled back: every
part of it is on a list, and means there what it means in DuckDB; what is not on the list is not asked there. Whether
the whole then means what the analyst wrote is tried on made-up rows, by the engine itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.errors import UnsupportedQuery
from keyhole.model.predicate import Predicate, format_predicate
from keyhole.model.query import Query

_KNOWN: frozenset[type[exp.Expr]] = frozenset(
    (exp.Abs, exp.Add, exp.Alias, exp.And, exp.Anonymous, exp.Avg, exp.Between, exp.Boolean, exp.Case, exp.Cast,
     exp.Ceil, exp.Coalesce, exp.Column, exp.Count, exp.DPipe, exp.DataType, exp.DataTypeParam, exp.Distinct, exp.Div,
     exp.EQ, exp.Extract, exp.Filter, exp.Floor, exp.GT, exp.GTE, exp.Greatest, exp.ILike, exp.Identifier, exp.If,
     exp.In, exp.IntDiv, exp.Is, exp.LT, exp.LTE, exp.Least, exp.Length, exp.Like, exp.Literal, exp.Lower, exp.Max,
     exp.Min, exp.Mod, exp.Month, exp.Mul, exp.NEQ, exp.Neg, exp.Not, exp.Null, exp.NullSafeEQ, exp.NullSafeNEQ,
     exp.Nullif, exp.Or, exp.Paren, exp.Quarter, exp.Star, exp.Sub, exp.Substring, exp.Sum, exp.Trim, exp.Try,
     exp.Tuple, exp.Upper, exp.Var, exp.Where, exp.Year, exp.Day)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Words:
    """An engine's spelling: `dialect` by its name in sqlglot, types, a hash of a text, a number for every value."""

    dialect: str
    text: str = "VARCHAR"
    double: str = "DOUBLE"
    sha256: str = "sha256({0})"  # of a text, as 64 hexadecimal digits
    number_of_hex: str = "('0x' || {0})::BIGINT"  # of at most 15 hexadecimal digits
    spread: str = "hash({0})"  # a whole number of at least 0, for taking some of many values
    fails_on: str = ""  # a sign in texts that the engine reads otherwise

    def expression(self, sql: str) -> str:
        """An expression in DuckDB's words, spelled for the engine; `UnsupportedQuery` where that is not known.

        >>> POSTGRES.expression('TRY("age" // 2) > 20'), SPARK.expression("CAST(\\"hired\\" AS VARCHAR) = 'x'")
        ('(DIV("age", 2)) > 20', "CAST(`hired` AS STRING) = 'x'")
        >>> POSTGRES.expression('levenshtein("name", \\'Ann\\') < 3')  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        keyhole.errors.UnsupportedQuery: LEVENSHTEIN("name", 'Ann') is not computed where these data are: ...
        """
        return sql if self.dialect == "duckdb" else _spelled(sql, self)

    def condition(self, predicate: Predicate) -> str:
        """A condition, spelled for the engine."""
        return format_predicate(predicate, self.expression)

    def item(self, query: Query) -> str:
        """A question as one item of SELECT, spelled for the engine."""
        return self.expression(query.canonical())

    def truth(self, predicate: Predicate, name: str) -> str:
        """An item of SELECT: 1 where a condition is true, 0 where it is false, -1 where it is NULL."""
        text = self.condition(predicate)
        return f"CAST(CASE WHEN {text} THEN 1 WHEN NOT ({text}) THEN 0 ELSE -1 END AS SMALLINT) AS {name}"

    def hash_halves(self, hashed: str) -> str:
        """Two items of SELECT: sums over all rows of two parts of a hash; rows may come in any order."""
        parts = (self.number_of_hex.format(f"substr({hashed}, {at}, 15)") for at in (1, 16))
        return ", ".join(
            f"CAST(coalesce(sum(CAST({part} AS DECIMAL(38, 0))), 0) AS {self.text}) AS s{i}"
            for i, part in enumerate(parts)
        )

    def row_text(self, texts: list[str]) -> str:
        """A row as one text, each cell with its length, so no two rows are written alike."""
        cells = (f"coalesce(CAST(length({each}) AS {self.text}) || ':' || ({each}), '-')" for each in texts)
        return " || ',' || ".join(cells) or "''"


DUCKDB = Words("duckdb")
POSTGRES = Words(
    "postgres",
    text="TEXT",
    double="DOUBLE PRECISION",
    sha256="encode(sha256(convert_to({0}, 'UTF8')), 'hex')",
    number_of_hex="('x' || {0})::bit(60)::bigint",
    spread="(hashtextextended(CAST(({0}) AS TEXT), 0) & 9223372036854775807)",
)
SPARK = Words(
    "spark",
    text="STRING",
    sha256="sha2({0}, 256)",
    number_of_hex="CAST(conv({0}, 16, 10) AS BIGINT)",
    spread="(xxhash64({0}) & 9223372036854775807)",
    fails_on="\\",
)


@lru_cache(maxsize=1 << 16)
def _spelled(sql: str, words: Words) -> str:
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except SqlglotError:
        raise _unknown(sql) from None
    if words.fails_on and words.fails_on in sql:
        raise _unknown(sql)
    for node in tree.walk():
        if type(node) not in _KNOWN or (isinstance(node, exp.Anonymous) and node.name.lower() != "hash"):
            raise _unknown(node.sql(dialect="duckdb"))
    return tree.transform(_respell, words).sql(dialect=words.dialect)


def _respell(node: exp.Expr, words: Words) -> exp.Expr:
    if isinstance(node, exp.Try):  # what fails there is said by `fault`
        return exp.Paren(this=node.this)
    if isinstance(node, exp.Anonymous):
        inner = node.expressions[0].sql(dialect=words.dialect)
        return sqlglot.parse_one(words.spread.format(inner), read=words.dialect)
    return node


def _unknown(sql: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"{sql} is not computed where these data are: only what is known to mean the same there is; "
        "stay = false reads the table once instead"
    )
