"""Dates in frames: pandas reads a CSV's dates as text and has no type for days. They are read as the file would be."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import duckdb

from keyhole.engines.duckdb.roster import first
from keyhole.model.predicate import quote_name

DAY = r"\d{4}-\d{1,2}-\d{1,2}"
MOMENT = rf"{DAY}[ T]\d{{1,2}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}})?)?"


def as_dates(
    con: duckdb.DuckDBPyConnection, data: object, names: Sequence[str], but: Collection[str]
) -> dict[str, str]:
    """The columns of the table `frame` that are days or times, and the type they are taken as; never those in `but`.

    Text is, if every value is written yyyy-mm-dd, with or without a time; times of a pandas frame are days if all of
    them are midnight. Cost: a scan of each such column.
    """
    pandas = type(data).__module__.partition(".")[0] == "pandas"
    found: dict[str, str] = {}
    rows = con.execute("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM frame)").fetchall()
    for raw, kind in rows:
        name = str(raw)
        if name not in names or name in but:
            continue
        column = quote_name(name)
        if str(kind) == "VARCHAR":
            tests = (("DATE", DAY), ("TIMESTAMP", MOMENT))
            made = ", ".join(
                f"bool_and(regexp_full_match({column}, '{pattern}') AND TRY_CAST({column} AS {type_}) IS NOT NULL)"
                for type_, pattern in tests
            )
            told = first(con, f"SELECT {made} FROM frame WHERE {column} IS NOT NULL") or (None, None)
            if type_ := next((type_ for (type_, _), holds in zip(tests, told, strict=True) if holds), ""):
                found[name] = type_
        elif pandas and str(kind) in ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S"):
            days = first(con, f"SELECT bool_and(CAST(CAST({column} AS DATE) AS {kind}) = {column}) FROM frame")
            if days is not None and days[0]:
                found[name] = "DATE"
    return found


def origin_with(dates: dict[str, str]) -> str:
    """What to select from, so that these columns have these types."""
    if not dates:
        return "frame"
    cast = ", ".join(f"CAST({quote_name(n)} AS {type_}) AS {quote_name(n)}" for n, type_ in dates.items())
    return f"(SELECT * REPLACE ({cast}) FROM frame)"
