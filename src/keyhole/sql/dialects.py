"""Statements written for another engine: judged where they mean the same in DuckDB, and not judged elsewhere.

One allow-list walk over the syntax tree decides. What is on the list (the portable core) means the same in all engines:
columns compared with constants, BETWEEN, IN, IS NULL, AND, OR, NOT, LIKE without a backslash, + - * on numbers, CASE,
plain aggregates, GROUP BY, HAVING, simple subqueries. Anything else (/, %, casts, functions, ...) may differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from keyhole.schema import Kind, Schema


class Dialect(StrEnum):
    """What a statement was written for."""

    DUCKDB = "duckdb"
    POSTGRES = "postgres"
    SQLITE = "sqlite"
    MYSQL = "mysql"
    SNOWFLAKE = "snowflake"
    BIGQUERY = "bigquery"
    TSQL = "tsql"
    SPARK = "spark"
    DATABRICKS = "databricks"
    REDSHIFT = "redshift"
    TRINO = "trino"
    UNKNOWN = "unknown"


_SPELLED = {
    Dialect.POSTGRES: "PostgreSQL",
    Dialect.SQLITE: "SQLite",
    Dialect.MYSQL: "MySQL",
    Dialect.SNOWFLAKE: "Snowflake",
    Dialect.BIGQUERY: "BigQuery",
    Dialect.TSQL: "SQL Server",
    Dialect.SPARK: "Spark",
    Dialect.DATABRICKS: "Databricks",
    Dialect.REDSHIFT: "Redshift",
    Dialect.TRINO: "Trino",
    Dialect.UNKNOWN: "an engine that the log does not name (say it with --dialect)",
}
_NAMES = {
    "postgresql": Dialect.POSTGRES,
    "pg": Dialect.POSTGRES,
    "bigquery-cloud-sdk": Dialect.BIGQUERY,
    "sqlserver": Dialect.TSQL,
    "mssql": Dialect.TSQL,
    "sparksql": Dialect.SPARK,
    "presto": Dialect.TRINO,
    "motherduck": Dialect.DUCKDB,
}
_WHOLE_DIVISION = frozenset(
    {Dialect.POSTGRES, Dialect.REDSHIFT, Dialect.SQLITE, Dialect.TSQL, Dialect.TRINO}
)  # 21 / 2 is 10
_CASELESS = frozenset({Dialect.MYSQL, Dialect.TSQL})  # 'legal' = 'Legal' by default
_CASELESS_LIKE = _CASELESS | {Dialect.SQLITE}
# where AVG of whole numbers is not cut short, VARIANCE and STDDEV are those of a sample, COALESCE keeps its types
_STATISTICS = frozenset(
    {Dialect.POSTGRES, Dialect.BIGQUERY, Dialect.SNOWFLAKE, Dialect.SPARK, Dialect.DATABRICKS, Dialect.TRINO}
)

_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is, exp.Like)
_ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_LOGICAL = (*_COMPARED, exp.And, exp.Or, exp.Not)
_NUMERIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg)
_PLAIN = (
    *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.With, exp.CTE),
    *(exp.Subquery, exp.Table, exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal),
    *(exp.Null, exp.Boolean, exp.Paren, exp.Tuple, exp.Case, exp.If, exp.Filter, exp.Rollup, exp.Cube),
    *(exp.GroupingSets, exp.Sum, exp.Count, exp.Min, exp.Max, exp.Distinct),
    *_LOGICAL,
    *_NUMERIC,
)
_STATISTICAL = (exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Coalesce)
_ALLOWED = frozenset((*_PLAIN, *_STATISTICAL))
# arguments that are no nodes, and change nothing that is judged
_FLAGS = frozenset({"this", "quoted", "is_string", "desc", "nulls_first", "big_int", "negate", "materialized"})
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


@dataclass(frozen=True, slots=True)
class Carried:
    """A statement in DuckDB's words; `reason` says why DuckDB's answer may not be what was answered, or is empty."""

    sql: str
    reason: str = ""


def named(engine: object) -> Dialect:
    """The dialect of an engine by the name that an export gives it.

    >>> named("sqlserver"), named("postgres"), named(None)
    (<Dialect.TSQL: 'tsql'>, <Dialect.POSTGRES: 'postgres'>, <Dialect.UNKNOWN: 'unknown'>)
    """
    word = str(engine or "").strip().lower()
    return _NAMES.get(word) or (Dialect(word) if word in set(Dialect) else Dialect.UNKNOWN)


def carried(sql: str, dialect: str, schema: Schema) -> Carried:
    """The statement in DuckDB's words, and whether it means the same there.

    Cost: two parses, and one walk over the tree. Statements for DuckDB pass as they are.

    >>> from keyhole.schema import Column
    >>> people = Schema("t", (Column("age", Kind.INTEGER),))
    >>> carried("SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 5", "postgres", people).reason
    ''
    >>> carried("SELECT COUNT(*) FROM t WHERE age % 2 = 1", "postgres", people).reason
    'written for PostgreSQL: % may give something else there than in DuckDB, where the data are'
    >>> carried('SELECT COUNT(*) FROM `d.t` WHERE dept = "legal"', "bigquery", people).sql
    'SELECT COUNT(*) FROM "d"."t" WHERE dept = \\'legal\\''
    """
    if dialect == Dialect.DUCKDB:
        return Carried(sql)
    kind = named(dialect)
    if "\\" in sql:
        return Carried(sql, f"written for {_SPELLED[kind]}: a backslash is not read alike by all engines")
    read = _tree(sql, "" if kind is Dialect.UNKNOWN else kind.value)
    if read is None:
        return Carried(sql, f"written for {_SPELLED[kind]}, and it cannot be read as that")
    own, text = _tree(sql, "duckdb"), sql
    if own is None or _meaning(own) != _meaning(read):
        if kind is Dialect.UNKNOWN:
            return Carried(sql, f"written for {_SPELLED[kind]}, and engines read it differently")
        try:
            text = read.sql(dialect="duckdb")
        except (SqlglotError, RecursionError, ValueError):
            return Carried(sql, f"written for {_SPELLED[kind]}, and it has no translation")
        own = _tree(text, "duckdb")
    why = portable(read, kind, schema) or (
        portable(own, kind, schema) if own is not None else ", and it has no translation"
    )
    return Carried(sql, f"written for {_SPELLED[kind]}{why}") if why else Carried(text)


def portable(tree: exp.Expr, dialect: Dialect, schema: Schema) -> str:
    """Why a statement may mean something else in DuckDB; empty if all of it is in the portable core."""
    numbers = {c.name.casefold(): c.kind for c in schema.columns if c.kind.numeric}
    texts = {c.name.casefold() for c in schema.columns if c.kind in (Kind.TEXT, Kind.OTHER)}
    columns = {c.name.casefold() for c in schema.columns}
    for alias in tree.find_all(exp.Alias):
        name = alias.alias.casefold()
        if isinstance(alias.this, exp.Column) and alias.this.name.casefold() == name:
            continue
        if name in columns:
            return f": a result is named {alias.alias}, as a column is, and engines differ in which of them is meant"
        numbers.pop(name, None)
        texts.add(name)
    for node in tree.walk(prune=_is_day):
        if _is_day(node):
            continue
        why = _differs(node, dialect, numbers, texts)
        if why:
            return why
    return ""


def _differs(node: exp.Expr, dialect: Dialect, numbers: dict[str, Kind], texts: set[str]) -> str:
    """Why this node (not those below it) is outside the core."""
    if isinstance(node, exp.Div | exp.IntDiv) and dialect in _WHOLE_DIVISION:
        return ", where / divides whole numbers without remainder; the data are in DuckDB, where 21 / 2 is 10.5"
    unusual = any(
        value and name not in _FLAGS and not isinstance(value, exp.Expr) and not _nodes(value)
        for name, value in node.args.items()
    )
    if type(node) not in _ALLOWED or unusual or (isinstance(node, _STATISTICAL) and dialect not in _STATISTICS):
        return f": {_word(node)} may give something else there than in DuckDB, where the data are"
    if isinstance(node, exp.Literal) and node.is_string and not node.name:
        return ": an empty text is NULL in some engines"
    text = node.is_string if isinstance(node, exp.Literal) else node.name.casefold() in texts
    if dialect in _CASELESS and isinstance(node, exp.Literal | exp.Column) and text:
        return (
            ", where texts are compared without regard to case by default; the data are in DuckDB, where they are not"
        )
    if isinstance(node, exp.Like) and dialect in _CASELESS_LIKE:
        return ", where LIKE takes no notice of case by default; the data are in DuckDB, where it does"
    if isinstance(node, _COMPARED):
        return _comparison(node, dialect, texts)
    return _arithmetic(node, numbers) if isinstance(node, _NUMERIC) else ""


def _arithmetic(node: exp.Expr, numbers: dict[str, Kind]) -> str:
    """Numbers only; and where it decides who is meant, nothing that one engine rounds and another does not."""
    decides = node.find_ancestor(*_COMPARED, exp.Group) is not None
    for leaf in node.find_all(exp.Column, exp.Literal):
        constant = isinstance(leaf, exp.Literal)
        if leaf.is_string if constant else leaf.name.casefold() not in numbers:
            return f": {_word(node)} of anything but numbers is not the same in all engines"
        rounded = not leaf.name.isdigit() if constant else numbers[leaf.name.casefold()] is Kind.DOUBLE
        if decides and rounded and not isinstance(node, exp.Neg):
            return f": {_word(node)} of fractions is rounded in some engines and not in others"
    return ""


def _comparison(node: exp.Expr, dialect: Dialect, texts: set[str]) -> str:
    operands = list(node.iter_expressions())
    if any(
        isinstance(part, _LOGICAL) and not (isinstance(node, exp.Is) and part is not node.this) for part in operands
    ):
        return ": comparisons in a row are not read alike by all engines: put them in parentheses"
    said = [leaf for part in operands for leaf in part.find_all(exp.Literal) if leaf.is_string]
    if dialect is Dialect.UNKNOWN and sum(part.find(exp.Column) is not None for part in operands) > 1:
        return ": a comparison of two columns is not judged unless the engine is known"
    if isinstance(node, _ORDERED):
        named_here = {c.name.casefold() for part in operands for c in part.find_all(exp.Column)}
        if any(not _NUMBER.fullmatch(leaf.name) for leaf in said) or (said and named_here & texts):
            return ": the order of texts depends on the collation there"
        if named_here & texts and sum(part.find(exp.Column) is not None for part in operands) > 1:
            return ": the order of texts depends on the collation there"
    return ""


def _tree(sql: str, dialect: str) -> exp.Expr | None:
    try:
        found = sqlglot.parse(sql, read=dialect)
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        return None
    return found[0] if len(found) == 1 and isinstance(found[0], exp.Expr) else None


def _meaning(tree: exp.Expr) -> exp.Expr:
    """The tree without ORDER BY, whose NULLs each engine puts where it likes (there is no LIMIT in the core)."""
    bare = tree.copy()
    for select in bare.find_all(exp.Select):
        select.set("order", None)
    return bare


def _is_day(node: exp.Expr) -> bool:
    """DATE '2026-11-15': a constant everywhere."""
    return (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and node.to.is_type("date")
        and _DAY.fullmatch(node.this.name) is not None
    )


def _nodes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, exp.Expr) for part in value)


def _word(node: exp.Expr) -> str:
    signs: dict[type[exp.Expr], str] = {exp.Div: "/", exp.Mod: "%", exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
    if type(node) in signs:
        return signs[type(node)]
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
