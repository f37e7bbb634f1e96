"""Which kind each column has: declared, implied, or read off; and the cast to it, exactly or not at all."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import duckdb

from keyhole.config import Columns
from keyhole.datasets.files.csv_layout import with_texts
from keyhole.engines.duckdb.connections import fetch_first, fetch_value, kind_of_type, types_of
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import quote_name
from keyhole.model.schema import Column, Kind, ListedValues, Role, fold_name

Connection: TypeAlias = duckdb.DuckDBPyConnection

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

DAY = r"\d{4}-\d{1,2}-\d{1,2}"
MOMENT = rf"{DAY}[ T]\d{{1,2}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}})?)?"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TRUTHS = frozenset(("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off"))
# types that a made-up table may have; of others (an ENUM spells out its values) it has text
_SIMPLE = re.compile(
    r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|BOOLEAN|DATE|TIMESTAMP|DOUBLE|FLOAT|DECIMAL\(.*\)|UUID"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a table is read: `keyhole.datasets.open.Use` says which use is read how."""

    may_lack: bool = False  # private columns that the data has not are taken as declared
    leave_out: bool = False  # private columns are left out by name, as if the data had none
    declared: bool = False  # kinds of private columns of text files are declared or implied, never read off values
    guarded: bool = False  # every column may be a secret: no kind of a text file is read off, ranges are not checked
    text: frozenset[str] = frozenset()  # private columns that the data may lack and that hold text
    decides: bool = False  # before each answer: a column without bounds must hold more than a few values
    records: bool = False  # rows with one id are records of one person, and other tables have rows of his
    reviewed: bool = False  # nobody may ask about columns whose role is a guess


def wanted_kind(roles: Columns, how: Reading, name: str, typed: bool) -> str | None:
    """The kind that a column is cast to; None: the one it has, or (in a text file) seems to have."""
    private = roles.private.get(name)
    public = roles.public.get(name) or next(
        (c for n, c in roles.public.items() if fold_name(n) == fold_name(name)), None
    )
    declared = private or (public if public is not None and public.has_kind else None)
    if private is not None and private.values is not None and not how.guarded:
        if private.kind not in (None, "text"):
            raise ConfigError(
                f"{_where_declared(roles, name)}: values lists texts, and kind is {private.kind}: write min, max and "
                "step for numbers, or leave kind out"
            )
        return "text"  # of a file with types, too: a number is none of the values that are listed
    if declared is not None and (declared.kind is not None or not typed):
        implied = declared.implied()
        sure = how.guarded or (how.declared and private is not None)
        listed = declared.values is not None and implied == "text"
        return implied if declared.kind is not None or sure or listed else None
    # Where every column may be a secret, one without a declaration is text: nothing can be asked about it anyway.
    return "text" if how.guarded and not typed and name not in roles.hidden else None


def kind_of_absent_column(roles: Columns, how: Reading, name: str) -> Kind:
    """What a private column that the data has not is taken to hold."""
    declared = roles.private[name]
    if declared.kind is not None or how.declared:
        return Kind(declared.implied())
    return Kind.TEXT if name in how.text or declared.values is not None else Kind.DOUBLE


def describe_columns(
    con: Connection, roles: Columns, kinds: Mapping[str, str], how: Reading, *, typed: bool
) -> list[Column]:
    """The columns as they are held, after those in `kinds` were cast; what does not fit its kind is a fault."""
    columns, listed = [], {}
    for name, type_ in types_of(con, "loaded").items():
        if name in roles.private and not how.guarded:
            listed[name] = declared_values(roles.private[name].values, type_ if typed else None)
        if name in kinds:
            secret = name not in roles.public or name in roles.unreviewed
            cast_column(con, name, kinds[name], _where_declared(roles, name), secret=secret, total=how.guarded)
    for name, type_ in types_of(con, "loaded").items():
        kind = Kind(kinds[name]) if name in kinds else kind_of_type(type_)
        if type_ == "TIMESTAMP_NS" and ((how.declared and name in roles.private) or has_nanoseconds(con, name)):
            kind = Kind.OTHER  # Python has no such times: only the engine itself may compare them
        role = (
            Role.ID
            if name in roles.id
            else Role.HIDDEN
            if name in roles.hidden
            else Role.PRIVATE
            if name in roles.private
            else Role.PUBLIC
        )
        has_null = bool(fetch_value(con, f"SELECT count(*) - count({quote_name(name)}) > 0 FROM loaded"))
        digits = None if name in kinds or kind is not Kind.DECIMAL else int(type_.rstrip(")").split(",")[1])
        columns.append(Column(name, kind, role, has_null, digits, listed=listed.get(name)))
    return columns


def _where_declared(roles: Columns, name: str) -> str:
    return f"[columns.{'private' if name in roles.private else 'public'}.{name!r}]"


def cast_column(
    con: Connection, name: str, kind: str, declared: str, *, secret: bool = False, total: bool = False
) -> None:
    """Cast a column of the table `loaded`; a value that is not of the kind is a fault, told to the owner of the data.

    Where the cast is `total`, nothing is told: what is no number is NULL, other numbers are rounded (to whole ones, or
    nine decimals) and cut off far outside, each by itself, into a type that no value decides: one person's value must
    not change how another's is held. Elsewhere a number is never rounded: decimals get as many digits as are written;
    numbers with an exponent, or with more digits than a DECIMAL has, are held as DOUBLE. `declared` is where the kind
    can be mended. A value of a `secret` column is not quoted.

    >>> con = duckdb.connect(":memory:")
    >>> _ = con.execute("CREATE TABLE loaded AS FROM (VALUES ('001'), ('40.5')) AS t(pay)")
    >>> cast_column(con, "pay", "decimal", "")
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
            type_ = "HUGEINT" if fetch_value(con, f"SELECT {fits} FROM loaded") is False else "BIGINT"
        case "decimal":
            type_ = _decimal(con, text)
            made = f"TRY_CAST({text} AS {type_})"
        case "double":
            type_, made = "DOUBLE", f"TRY_CAST({text} AS DOUBLE)"
        case _:
            type_ = kind.upper()
            made = f"TRY_CAST({text} AS {type_})"
    wrong = f"{column} IS NOT NULL AND ({made}) IS NULL"
    at = None if total else fetch_first(con, f"SELECT rowid, {column}::VARCHAR FROM loaded WHERE {wrong} LIMIT 1")
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


def _decimal(con: Connection, text: str) -> str:
    """The DECIMAL that holds every number of a column as it is written, else DOUBLE."""
    plain = f"bool_and(regexp_full_match({text}, '{_PLAIN}'))"
    after = f"coalesce(max(length(split_part({text}, '.', 2))), 0)"
    before = f"coalesce(max(length(split_part({text}, '.', 1))), 0)"
    if fetch_value(con, f"SELECT coalesce({plain}, true) FROM loaded WHERE {text} IS NOT NULL") is not True:
        return "DOUBLE"
    digits, whole = con.execute(f"SELECT {after}, {before} FROM loaded").fetchall()[0]
    return f"DECIMAL({DIGITS}, {digits})" if digits + whole <= DIGITS else "DOUBLE"


def has_nanoseconds(con: Connection, name: str) -> bool:
    """Does a column of nanoseconds hold times that microseconds would merge? People who differ would look alike."""
    return bool(
        fetch_value(con, f"SELECT coalesce(bool_or(epoch_ns({quote_name(name)}) % 1000 <> 0), false) FROM loaded")
    )


def numbers_as_written(con: Connection, roles: Columns, kinds: Mapping[str, str]) -> dict[str, str]:
    """Private numbers of a text file that the reader takes for DOUBLE: their decimals are read as they are written."""
    types = types_of(con, "loaded")
    rough = [name for name in roles.private if name not in kinds and types.get(name) == "DOUBLE"]
    return dict.fromkeys(rough, "decimal")


def columns_with_ambiguous_spellings(
    con: Connection, origin: str, roles: Columns, known: Collection[str]
) -> dict[str, str]:
    """The columns of which values are written in two ways and would be read as one (`1e3` and `1000`, `t` and `true`).

    What a database exports from a column of numbers or truth values is written in one way; where it is not, the texts
    are codes or names, and reading them as numbers would make one person of two, or one group. So they are text: ids,
    and public columns of truth values or with exponents. Private columns are left alone: nobody is told apart by them
    here. `origin` is the `read_csv` that `loaded` was read with. Cost: such a file is read once more.
    """
    but = {*known, *roles.private, *roles.hidden}
    kinds = {name: type_ for name, type_ in types_of(con, "loaded").items() if name not in but}
    suspects = [
        name
        for name, kind in kinds.items()
        if (name in roles.id and kind not in ("VARCHAR", "BIGINT")) or kind in ("BOOLEAN", "DOUBLE")
    ]
    if not suspects:
        return {}
    texts = with_texts(origin, suspects)
    tests = [_test_of_merging(name, kinds[name], name in roles.id) for name in suspects]
    merged = fetch_first(con, f"SELECT {', '.join(tests)} FROM {texts}") or ()
    return {name: "text" for name, ambiguous in zip(suspects, merged, strict=True) if ambiguous}


def _test_of_merging(name: str, kind: str, names_people: bool) -> str:
    """Are there fewer values than texts? Of public numbers: and an exponent among the texts."""
    text = f"trim({quote_name(name)})"
    fewer = f"count(DISTINCT {text}) > count(DISTINCT TRY_CAST({text} AS {kind}))"
    rough = kind == "DOUBLE" and not names_people
    return f"{fewer} AND bool_or(contains(lower({text}), 'e'))" if rough else fewer


def dates_of_frame(con: Connection, data: object, names: Sequence[str], but: Collection[str]) -> dict[str, str]:
    """The columns of the table `frame` that are days or times, and the type they are taken as; never those in `but`.

    They are read as a file's would be: pandas reads a CSV's dates as text and has no type for days. Text is a day or a
    time if every value is written yyyy-mm-dd, with or without a time; times of a pandas frame are days if all of them
    are midnight. Cost: a scan of each such column.
    """
    pandas = type(data).__module__.partition(".")[0] == "pandas"
    dates: dict[str, str] = {}
    for name, kind in types_of(con, "frame").items():
        if name not in names or name in but:
            continue
        column = quote_name(name)
        if kind == "VARCHAR":
            tests = (("DATE", DAY), ("TIMESTAMP", MOMENT))
            made = ", ".join(
                f"bool_and(regexp_full_match({column}, '{pattern}') AND TRY_CAST({column} AS {type_}) IS NOT NULL)"
                for type_, pattern in tests
            )
            passed = fetch_first(con, f"SELECT {made} FROM frame WHERE {column} IS NOT NULL") or (None, None)
            if type_ := next((type_ for (type_, _), holds in zip(tests, passed, strict=True) if holds), ""):
                dates[name] = type_
        elif pandas and kind in ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S"):
            days = fetch_first(con, f"SELECT bool_and(CAST(CAST({column} AS DATE) AS {kind}) = {column}) FROM frame")
            if days is not None and days[0]:
                dates[name] = "DATE"
    return dates


def frame_with_dates(dates: dict[str, str]) -> str:
    """What to select from, so that these columns have these types."""
    if not dates:
        return "frame"
    cast = ", ".join(f"CAST({quote_name(n)} AS {type_}) AS {quote_name(n)}" for n, type_ in dates.items())
    return f"(SELECT * REPLACE ({cast}) FROM frame)"


def declared_values(values: Sequence[str] | None, type_: str | None) -> ListedValues | None:
    """What was listed for a column of a type (None: of a text file); None if it is text for sure, or nothing was.

    `values = ["1", "2", "10"]` declares texts. Where the data holds whole numbers, the analyst's `score < '9'` compares
    numbers, and as texts it would mean something else. A text file does not say what the database holds: there a list
    of nothing but numbers, truth values or days is taken to be of such a column.

    >>> declared_values(("1", "2"), None), declared_values(("flu", "1"), None), declared_values(("1", "2"), "VARCHAR")
    (ListedValues(values=('1', '2'), type=''), None, None)
    """
    if values is None or type_ == "VARCHAR":
        return None
    if type_ is None:
        return ListedValues(tuple(values)) if all(map(_may_be_no_text, values)) else None
    return ListedValues(tuple(values), type_ if _SIMPLE.fullmatch(type_) else "")


def _may_be_no_text(value: str) -> bool:
    """Is it written as a number, a truth value, or a day?"""
    if _NUMBER.fullmatch(value.strip()) or value.strip().lower() in _TRUTHS:
        return True
    with suppress(ValueError):
        return bool(dt.datetime.fromisoformat(value.strip()))
    return False
