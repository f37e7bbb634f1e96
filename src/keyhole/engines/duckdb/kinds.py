"""Casting a column to the kind it was declared to have: exactly, or not at all."""

from __future__ import annotations

import duckdb

from keyhole.engines.duckdb.roster import first, scalar
from keyhole.errors import DataError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Kind

DIGITS = 38  # of a DECIMAL
PLACES = 9  # decimals that are kept where no value may decide how many
FAR = "1e18"  # numbers beyond are cut off there: far outside whatever is declared
_WHOLE = r"[+-]?\d+(\.0*)?"
_PLAIN = r"[+-]?(\d+(\.\d*)?|\.\d+)"
_WORDS = {
    "integer": "an integer",
    "decimal": "a decimal number",
    "double": "a number",
    "boolean": "true or false",
    "date": "a date",
    "timestamp": "a time",
}


_KINDS = {
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
    "VARCHAR": Kind.TEXT,
    "UUID": Kind.TEXT,
    "FLOAT": Kind.DOUBLE,
    "DOUBLE": Kind.DOUBLE,
}


def kind_of_type(text: str) -> Kind:
    """What a column of a type of the engine holds.

    >>> kind_of_type("DECIMAL(18,3)"), kind_of_type("UBIGINT"), kind_of_type("BLOB")
    (<Kind.DECIMAL: 'decimal'>, <Kind.INTEGER: 'integer'>, <Kind.OTHER: 'other'>)
    """
    if text.startswith("DECIMAL"):
        return Kind.DECIMAL
    if text.endswith("INT") or text in ("INTEGER", "UINTEGER"):
        return Kind.INTEGER
    if text.startswith("TIMESTAMP"):
        return Kind.TIMESTAMP
    return Kind.TEXT if text.startswith("ENUM") else _KINDS.get(text, Kind.OTHER)


def cast_to(
    con: duckdb.DuckDBPyConnection, name: str, kind: str, declared: str, *, secret: bool = False, total: bool = False
) -> None:
    """Cast a column of the table `loaded`; a value that is not of the kind is a fault, told to the custodian.

    Where the cast is `total`, nothing is told: what is no number is NULL, other numbers are rounded (to whole ones, or
    nine decimals) and cut off far outside, each by itself, into a type that no value decides: one person's value must
    not change how another's is held. Elsewhere a number is never rounded: decimals get as many digits as are written;
    numbers with an exponent, or with more digits than a DECIMAL has, are held as DOUBLE. `declared` is where the kind
    can be mended. A value of a `secret` column is
    not quoted.

    >>> con = duckdb.connect(":memory:")
    >>> _ = con.execute("CREATE TABLE loaded AS FROM (VALUES ('001'), ('40.5')) AS t(pay)")
    >>> cast_to(con, "pay", "decimal", "")
    >>> con.execute("SELECT typeof(pay), pay FROM loaded").fetchall()[1]
    ('DECIMAL(38,1)', Decimal('40.5'))
    """
    column = quote_name(name)
    text = f"trim({column}::VARCHAR)"
    match kind:
        case "text":
            type_, made = "VARCHAR", f"{column}::VARCHAR"
        case "integer" | "decimal" if total:
            type_ = "BIGINT" if kind == "integer" else f"DECIMAL({DIGITS}, {PLACES})"
            plain = f"TRY_CAST({text} AS {type_})" if kind == "decimal" else _whole(text, "BIGINT")
            rough = f"TRY_CAST({text} AS DOUBLE)"
            near = f"CAST(greatest(-{FAR}, least({FAR}, {rough})) AS {type_})"
            made = f"coalesce({plain}, CASE WHEN isfinite({rough}) THEN {near} END)"
        case "integer":
            made = _whole(text, "HUGEINT")
            fits = f"bool_and(({made}) IS NULL OR TRY_CAST(({made}) AS BIGINT) IS NOT NULL)"
            type_ = "HUGEINT" if scalar(con, f"SELECT {fits} FROM loaded") is False else "BIGINT"
        case "decimal":
            type_ = _decimal(con, text)
            made = f"TRY_CAST({text} AS {type_})"
        case "double":
            type_, made = "DOUBLE", f"TRY_CAST({text} AS DOUBLE)"
        case _:
            type_ = kind.upper()
            made = f"TRY_CAST({text} AS {type_})"
    wrong = f"{column} IS NOT NULL AND ({made}) IS NULL"
    at = None if total else first(con, f"SELECT rowid, {column}::VARCHAR FROM loaded WHERE {wrong} LIMIT 1")
    if at is not None:
        cure = (
            f"mend the data, or declare what the column holds: kind = ... under {declared} (without, it follows from "
            "how min, max and step are written, and is a decimal if there are none)"
        )
        what = "its value" if secret else repr(at[1])
        raise DataError(
            f"column {name!r}, row {int(at[0]) + 1}: {what} is not {_WORDS[kind]}; {cure}",
            told=f"column {name!r} holds something that is not {_WORDS[kind]}; {cure}",
        )
    con.execute(f"ALTER TABLE loaded ALTER COLUMN {column} SET DATA TYPE {type_} USING {made}")


def _whole(text: str, type_: str) -> str:
    """A whole number as it is written, else NULL."""
    return f"CASE WHEN regexp_full_match({text}, '{_WHOLE}') THEN TRY_CAST(split_part({text}, '.', 1) AS {type_}) END"


def _decimal(con: duckdb.DuckDBPyConnection, text: str) -> str:
    """The DECIMAL that holds every number of a column as it is written, else DOUBLE."""
    plain = f"bool_and(regexp_full_match({text}, '{_PLAIN}'))"
    after = f"coalesce(max(length(split_part({text}, '.', 2))), 0)"
    before = f"coalesce(max(length(split_part({text}, '.', 1))), 0)"
    if scalar(con, f"SELECT coalesce({plain}, true) FROM loaded WHERE {text} IS NOT NULL") is not True:
        return "DOUBLE"
    digits, whole = con.execute(f"SELECT {after}, {before} FROM loaded").fetchall()[0]
    return f"DECIMAL({DIGITS}, {digits})" if digits + whole <= DIGITS else "DOUBLE"


def finer_than_micro(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Does a column of nanoseconds hold times that microseconds would merge?"""
    return bool(scalar(con, f"SELECT coalesce(bool_or(epoch_ns({quote_name(name)}) % 1000 <> 0), false) FROM loaded"))
