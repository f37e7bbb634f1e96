"""A whole statement of another engine in DuckDB's words, to see that it can be run at all.

What is judged of it are plain statements with a tested translation (`dialects.py`); the rest is a function of these, of
which it is enough that there is one. The translator passes on names of functions that it does not know: such a function
may be anything (one of the database's own, that reads what it likes), so a statement with one is not judged.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from keyhole.sql.dialects.engines import SPELLED, named
from keyhole.sql.dialects.to_duckdb import Carried, with_rollup

_LIKE_SUM = frozenset(("total", "ratio_to_report"))  # of one number, alone or OVER a window, as SUM is


def in_duckdb(tree: exp.Expr, dialect: str) -> Carried:
    """The tree in DuckDB's words, to be run and not to be read; with a reason where it has none.

    >>> import sqlglot
    >>> in_duckdb(sqlglot.parse_one("SELECT TOP 3 a, SUM(x) FROM t GROUP BY a", read="tsql"), "tsql").sql
    'SELECT a, SUM(x) FROM t GROUP BY a LIMIT 3'
    >>> in_duckdb(sqlglot.parse_one("SELECT dbo.f(SUM(x)) FROM t", read="tsql"), "tsql").reason
    'written for SQL Server, and F has no translation: put what it computes into --view as a column'
    """
    made = with_rollup(tree).transform(_known)
    unknown = made.find(exp.Anonymous, exp.AnonymousAggFunc)
    what = "it" if unknown is None else unknown.name.upper()
    try:
        if unknown is None:
            return Carried(made.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE))
    except (SqlglotError, ValueError):
        pass
    spelled = SPELLED[named(dialect)]
    return Carried(
        "", f"written for {spelled}, and {what} has no translation: put what it computes into --view as a column"
    )


def _known(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.lower() in _LIKE_SUM and len(node.expressions) == 1:
        return exp.Sum(this=node.expressions[0].copy())
    if isinstance(node, exp.NumberToStr | exp.ToChar):  # formats are the engine's own; each gives a text
        return exp.cast(node.this.copy(), exp.DType.TEXT)
    if isinstance(node, exp.LimitOptions):
        node.set("with_ties", None)
    return node
