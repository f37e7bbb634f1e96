"""Which engine a statement looks like, by what others do not write: for the message when it cannot be read."""

from __future__ import annotations

import re

from keyhole.sql.dialects.engine import SPELLED, Dialect
from keyhole.sql.statements.split import masked

BACKTICKS = "`names` in backticks"
_I = re.IGNORECASE
_FUNCTIONS = {  # that only one of the engines has
    Dialect.TSQL: "GETDATE|GETUTCDATE|DATEPART|ISNULL|EOMONTH|CHARINDEX",
    Dialect.BIGQUERY: "COUNTIF|SAFE_DIVIDE|SAFE_CAST|APPROX_QUANTILES|TIMESTAMP_TRUNC",
    Dialect.MYSQL: "STR_TO_DATE|GROUP_CONCAT|CURDATE|FROM_UNIXTIME|FIND_IN_SET",
    Dialect.SNOWFLAKE: "IFF|ZEROIFNULL|DIV0|TO_VARIANT|RATIO_TO_REPORT|BOOLOR_AGG",
    Dialect.POSTGRES: "TO_CHAR|AGE",
    Dialect.TRINO: "DATE_PARSE|APPROX_DISTINCT|FORMAT_DATETIME",
    Dialect.SQLITE: "JULIANDAY|TOTAL",
}
_TELLS: tuple[
    tuple[Dialect, re.Pattern[str], str], ...
] = (  # by what, outside of texts and comments; how it is shown, if not itself
    (Dialect.TSQL, re.compile(r"\bSELECT\s+(?:DISTINCT\s+)?TOP\s*\(?\s*\d", _I), "TOP"),
    (Dialect.TSQL, re.compile(r"(?<![\w\])'\"])\[[A-Za-z_][\w ]*\]"), "[names] in brackets"),
    (Dialect.TSQL, re.compile(r"\bWITH\s*\(\s*(?:NOLOCK|READPAST|INDEX|FORCESEEK|\w+LOCKX?)\b", _I), "WITH (NOLOCK)"),
    (Dialect.BIGQUERY, re.compile(r"`[\w-]+\.[\w-]+(?:\.[\w-]+)?`"), "`project.dataset.table`"),
    (Dialect.MYSQL, re.compile(r"`[^`.]+`"), BACKTICKS),
    (Dialect.MYSQL, re.compile(r"\bLIMIT\s+\d+\s*,\s*\d+", _I), "LIMIT a, b"),
    (Dialect.MYSQL, re.compile(r"[\w)]\s+DIV\s+[\w(]", _I), "DIV"),
    (Dialect.SPARK, re.compile(r"\bLATERAL\s+VIEW\b|\bRLIKE\b|\bCLUSTER\s+BY\b", _I), "LATERAL VIEW or RLIKE"),
    (Dialect.POSTGRES, re.compile(r"::(?:regclass|jsonb|money)\b|!?~\*", _I), "~* or ::jsonb"),
    *((dialect, re.compile(rf"\b(?:{names})\s*\(", _I), "") for dialect, names in _FUNCTIONS.items()),
)


def looks_like(sql: str, said: str = Dialect.DUCKDB) -> tuple[Dialect, str] | None:
    """The engine that a statement looks like, and by what; None if by nothing, or if it is the one that was said.

    >>> looks_like("SELECT TOP 5 SUM([Blood sugar]) FROM [people]")
    (<Dialect.TSQL: 'tsql'>, 'TOP, [names] in brackets')
    >>> looks_like("SELECT SUM(x) FROM t WHERE a = '[b]'") is None
    True
    """
    quoted = masked(sql, Dialect.DUCKDB)
    found: dict[Dialect, list[str]] = {}
    for dialect, tell, shown in _TELLS:
        if (told := tell.search(quoted)) is not None:
            found.setdefault(dialect, []).append(shown or told[0].rstrip("( \t\n").upper())
    if any(sql[at.end()] == "'" for at in re.finditer(r"\bN(?= )", quoted)):
        found.setdefault(Dialect.TSQL, []).append("N'texts'")
    if not found:
        return None
    best = max(found, key=lambda dialect: len(found[dialect]))
    return None if best == said else (best, ", ".join(found[best]))


def suspicion(sql: str, said: str = Dialect.DUCKDB) -> str:
    """The same as the end of a message; empty if there is none.

    >>> suspicion("SELECT SUM(`x`) FROM t")
    '; it looks like MySQL (`names` in backticks): if so, say --dialect mysql (or bigquery, spark)'
    """
    found = looks_like(sql, said)
    if found is None:
        return ""
    also = " (or bigquery, spark)" if found == (Dialect.MYSQL, BACKTICKS) else ""
    return f"; it looks like {SPELLED[found[0]]} ({found[1]}): if so, say --dialect {found[0]}{also}"
