"""The engines that statements are written for, by the names that logs give them."""

from __future__ import annotations

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


CASELESS = frozenset({Dialect.MYSQL, Dialect.TSQL})  # 'legal' = 'Legal' by default
# of which the portable core is judged, and which compare texts as they are
OTHERS = frozenset(
    {Dialect.SNOWFLAKE, Dialect.BIGQUERY, Dialect.SPARK, Dialect.DATABRICKS, Dialect.REDSHIFT, Dialect.TRINO}
)
SPELLED = {
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


def named(engine: object) -> Dialect:
    """The dialect of an engine by the name that an export gives it.

    >>> named("sqlserver"), named("postgres"), named(None)
    (<Dialect.TSQL: 'tsql'>, <Dialect.POSTGRES: 'postgres'>, <Dialect.UNKNOWN: 'unknown'>)
    """
    word = str(engine or "").strip().lower()
    return _NAMES.get(word) or (Dialect(word) if word in set(Dialect) else Dialect.UNKNOWN)


def spoken(name: str) -> Dialect:
    """The dialect that a person names.

    >>> spoken("PostgreSQL")
    <Dialect.POSTGRES: 'postgres'>
    >>> spoken("oracle")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    keyhole.errors.ConfigError: dialect 'oracle' is not known: write one of duckdb, postgres, sqlite, ...
    """
    found = named(name)
    if found is Dialect.UNKNOWN and name.strip().lower() != Dialect.UNKNOWN:
        raise ConfigError(f"dialect {name!r} is not known: write one of {', '.join(Dialect)}")
    return found
