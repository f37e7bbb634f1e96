"""What each SQL engine does differently: one record for each, which everybody asks who reads a statement.

A new dialect is a member of `Dialect` and a record in `ENGINES`; the portable core is then judged of it. One that is
translated has a module of its own rules beside it (`postgres.py`), named in `to_duckdb.TRANSLATORS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from keyhole.errors import ConfigError


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


BACKTICKS = "`names` in backticks"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDialect:
    """How one engine reads a statement; what is not said is as in DuckDB. None: it depends, or is not known."""

    dialect: Dialect
    title: str  # what messages call it
    aliases: tuple[str, ...] = ()  # what exports call it
    signs: tuple[tuple[str, str], ...] = ()  # patterns that others do not write, and how messages show them
    own_functions: str = ""  # names that no other engine has, between |

    # quotes and comments
    backtick_names: bool = False
    bracket_names: bool = False
    backslash_escapes: bool = False  # 'it\'s' is one text
    e_strings: bool = False  # E'it\'s' is one text
    dollar_quotes: bool = True  # $a$it's$a$ is one text
    hash_comments: bool = False
    nested_comments: bool | None = True
    dashes_need_blank: bool | None = False  # else 3--1 is 3
    carriage_return_ends_comment: bool | None = None
    runs_marked_comments: bool = False  # /*! ... */ is no comment
    lines_end_statements: bool = False  # scripts have GO, and no semicolons
    national_texts_and_hints: bool = False  # N'text', WITH (NOLOCK)

    # scripts
    set_fills_variables: bool = False  # SET x = 1 fills a variable, unless it says @@
    set_shows_settings: bool = False  # SET name, without a value
    show_is_one_setting: bool = False  # SHOW name shows a setting, or the columns of a table
    show_tables_counts_rows: bool = False

    # numbers
    divides_integers: bool = False  # 21 / 2 is 10
    quotient_is_double: bool = False  # 21 / 2 is a double
    quotient_parts: int = 0  # 21 / 2 is a decimal, in so many parts of one
    cuts_integer_division: bool = False  # DIV, //, or the / of whole numbers, cuts toward zero
    statistics_as_in_duckdb: bool = False  # AVG is not cut, VARIANCE and STDDEV are those of a sample

    # texts
    ignores_case: bool | None = False  # 'legal' = 'Legal' by default
    like_ignores_case: bool = False
    portable_texts: bool = False  # functions of ASCII texts are known by its manual
    upper_ignores_locale: bool = False
    has_ilike: bool = False
    plus_joins_texts: bool = False
    concat_skips_null: bool = False
    coalesce_cuts_texts: bool = False  # ISNULL, which is parsed so, cuts to the length of the first
    slash_follows_culture: bool = False  # in formats of dates
    dates_are_texts: bool = False

    @property
    def parser(self) -> str:
        """The dialect of the parser: plain SQL where the engine is not known."""
        return self.dialect.value if self.is_known else ""

    @property
    def is_known(self) -> bool:
        """Is it said which engine it is?"""
        return self.dialect is not Dialect.UNKNOWN

    @property
    def may_ignore_case(self) -> bool:
        """Are texts compared without regard to case, or can that not be excluded?"""
        return self.ignores_case is not False


_SPARK = EngineDialect(
    dialect=Dialect.SPARK,
    title="Spark",
    aliases=("sparksql",),
    signs=((r"\bLATERAL\s+VIEW\b|\bRLIKE\b|\bCLUSTER\s+BY\b", "LATERAL VIEW or RLIKE"),),
    backtick_names=True,
    backslash_escapes=True,
    nested_comments=None,
    set_shows_settings=True,
    quotient_is_double=True,
    cuts_integer_division=True,
    statistics_as_in_duckdb=True,
    portable_texts=True,
    upper_ignores_locale=True,
    has_ilike=True,
)

_RECORDS = (  # of two engines that a statement resembles as much, the first is named
    EngineDialect(
        dialect=Dialect.DUCKDB,
        title="DuckDB",
        aliases=("motherduck",),
        e_strings=True,
        carriage_return_ends_comment=True,
        show_is_one_setting=True,
    ),
    EngineDialect(
        dialect=Dialect.TSQL,
        title="SQL Server",
        aliases=("sqlserver", "mssql"),
        signs=(
            (r"\bSELECT\s+(?:DISTINCT\s+)?TOP\s*\(?\s*\d", "TOP"),
            (r"(?<![\w\])'\"])\[[A-Za-z_][\w ]*\]", "[names] in brackets"),
            (r"\bWITH\s*\(\s*(?:NOLOCK|READPAST|INDEX|FORCESEEK|\w+LOCKX?)\b", "WITH (NOLOCK)"),
        ),
        own_functions="GETDATE|GETUTCDATE|DATEPART|ISNULL|EOMONTH|CHARINDEX",
        bracket_names=True,
        dollar_quotes=False,
        lines_end_statements=True,
        national_texts_and_hints=True,
        divides_integers=True,
        cuts_integer_division=True,
        ignores_case=True,
        like_ignores_case=True,
        portable_texts=True,
        plus_joins_texts=True,
        concat_skips_null=True,
        coalesce_cuts_texts=True,
        slash_follows_culture=True,
    ),
    EngineDialect(
        dialect=Dialect.BIGQUERY,
        title="BigQuery",
        aliases=("bigquery-cloud-sdk",),
        signs=((r"`[\w-]+\.[\w-]+(?:\.[\w-]+)?`", "`project.dataset.table`"),),
        own_functions="COUNTIF|SAFE_DIVIDE|SAFE_CAST|APPROX_QUANTILES|TIMESTAMP_TRUNC",
        backtick_names=True,
        backslash_escapes=True,
        dollar_quotes=False,
        hash_comments=True,
        nested_comments=False,
        set_fills_variables=True,
        quotient_is_double=True,
        cuts_integer_division=True,
        statistics_as_in_duckdb=True,
        portable_texts=True,
        upper_ignores_locale=True,
    ),
    EngineDialect(
        dialect=Dialect.MYSQL,
        title="MySQL",
        signs=(
            (r"`[^`.]+`", BACKTICKS),
            (r"\bLIMIT\s+\d+\s*,\s*\d+", "LIMIT a, b"),
            (r"[\w)]\s+DIV\s+[\w(]", "DIV"),
        ),
        own_functions="STR_TO_DATE|GROUP_CONCAT|CURDATE|FROM_UNIXTIME|FIND_IN_SET",
        backtick_names=True,
        backslash_escapes=True,
        dollar_quotes=False,
        hash_comments=True,
        nested_comments=False,
        dashes_need_blank=True,
        carriage_return_ends_comment=False,
        runs_marked_comments=True,
        quotient_parts=10**4,
        cuts_integer_division=True,
        ignores_case=True,
        like_ignores_case=True,
        portable_texts=True,
    ),
    _SPARK,
    replace(_SPARK, dialect=Dialect.DATABRICKS, title="Databricks", aliases=(), signs=()),
    EngineDialect(
        dialect=Dialect.SNOWFLAKE,
        title="Snowflake",
        own_functions="IFF|ZEROIFNULL|DIV0|TO_VARIANT|RATIO_TO_REPORT|BOOLOR_AGG",
        backslash_escapes=True,
        nested_comments=None,
        set_fills_variables=True,
        show_tables_counts_rows=True,
        quotient_parts=10**6,
        statistics_as_in_duckdb=True,
        portable_texts=True,
        upper_ignores_locale=True,
        has_ilike=True,
    ),
    EngineDialect(
        dialect=Dialect.POSTGRES,
        title="PostgreSQL",
        aliases=("postgresql", "pg"),
        signs=((r"::(?:regclass|jsonb|money)\b|!?~\*", "~* or ::jsonb"),),
        own_functions="TO_CHAR|AGE",
        e_strings=True,
        carriage_return_ends_comment=True,
        show_is_one_setting=True,
        divides_integers=True,
        statistics_as_in_duckdb=True,
    ),
    EngineDialect(
        dialect=Dialect.REDSHIFT,
        title="Redshift",
        e_strings=True,
        nested_comments=None,
        carriage_return_ends_comment=True,
        show_is_one_setting=True,
        divides_integers=True,
        cuts_integer_division=True,
        portable_texts=True,
        has_ilike=True,
    ),
    EngineDialect(
        dialect=Dialect.TRINO,
        title="Trino",
        aliases=("presto",),
        own_functions="DATE_PARSE|APPROX_DISTINCT|FORMAT_DATETIME",
        dollar_quotes=False,
        nested_comments=False,
        divides_integers=True,
        cuts_integer_division=True,
        statistics_as_in_duckdb=True,
        portable_texts=True,
        upper_ignores_locale=True,
    ),
    EngineDialect(
        dialect=Dialect.SQLITE,
        title="SQLite",
        own_functions="JULIANDAY|TOTAL",
        backtick_names=True,
        bracket_names=True,
        dollar_quotes=False,
        nested_comments=False,
        carriage_return_ends_comment=False,
        divides_integers=True,
        like_ignores_case=True,
        dates_are_texts=True,
    ),
    EngineDialect(
        dialect=Dialect.UNKNOWN,
        title="an engine that the log does not name (say it with --dialect)",
        nested_comments=None,
        dashes_need_blank=None,
        runs_marked_comments=True,
        ignores_case=None,
        like_ignores_case=True,
    ),
)
ENGINES: Mapping[str, EngineDialect] = {record.dialect.value: record for record in _RECORDS}
_ALIASES = {alias: record.dialect for record in _RECORDS for alias in record.aliases}


def find_engine(dialect: str) -> EngineDialect:
    """The record of a dialect; that of an unknown engine for any other name."""
    return ENGINES.get(dialect) or ENGINES[recognize_dialect(dialect)]


def recognize_dialect(engine: object) -> Dialect:
    """The dialect of an engine by the name that an export gives it.

    >>> recognize_dialect("sqlserver"), recognize_dialect("postgres"), recognize_dialect(None)
    (<Dialect.TSQL: 'tsql'>, <Dialect.POSTGRES: 'postgres'>, <Dialect.UNKNOWN: 'unknown'>)
    """
    word = str(engine or "").strip().lower()
    return _ALIASES.get(word) or (Dialect(word) if word in ENGINES else Dialect.UNKNOWN)


def parse_dialect(name: str) -> Dialect:
    """The dialect that a person names.

    >>> parse_dialect("PostgreSQL")
    <Dialect.POSTGRES: 'postgres'>
    >>> parse_dialect("oracle")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    keyhole.errors.ConfigError: dialect 'oracle' is not known: write one of duckdb, postgres, sqlite, ...
    """
    dialect = recognize_dialect(name)
    if dialect is Dialect.UNKNOWN and name.strip().lower() != Dialect.UNKNOWN:
        raise ConfigError(f"dialect {name!r} is not known: write one of {', '.join(Dialect)}")
    return dialect
