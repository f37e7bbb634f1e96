"""The SQL by which an owner splits a table inside PostgreSQL, so that who decides cannot read a secret.

Schema `keyhole` has the public half (`people`: of private columns only whether they are NULL), the private half
(`secrets`), and what is what (`columns`). Role `keyhole_roster` reads the public half; `keyhole_source` reads both. The
server keeps them apart, by GRANT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keyhole.engines.engine import CopiedColumn, DataUrl, Relation, find_relation
from keyhole.engines.postgres.engine import PostgresEngine
from keyhole.engines.roster import LANES, ROW
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import format_literal, quote_name
from keyhole.model.schema import Kind, Role

SCHEMA = "keyhole"
ROSTER, SOURCE, PROBE = "keyhole_roster", "keyhole_source", "keyhole_probe"  # the last is a database, too
MOST_COLUMNS = 1600 - 4  # of a table in PostgreSQL, without those that the split adds
WAIT = "SET LOCAL lock_timeout = '10s'"  # whoever has the split table open keeps it as it is until he closes it
_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), Kind.INTEGER),
    **dict.fromkeys(("float4", "float8"), Kind.DOUBLE),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid"), Kind.TEXT),
    "numeric": Kind.DECIMAL,
    "bool": Kind.BOOLEAN,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamptz": Kind.TIMESTAMP,
}
# how a role, or one that it can become, reads more than the tables named: `{}` are those
_READABLE = """
WITH mine AS (SELECT oid, rolname FROM pg_roles WHERE pg_has_role(current_user, oid, 'MEMBER'))
SELECT CASE WHEN rolsuper THEN 'is a superuser' WHEN rolreplication THEN 'may replicate the database'
  WHEN rolcreaterole THEN 'may hand out roles' ELSE 'may do what ' || r.rolname || ' may' END AS way
FROM pg_roles r JOIN mine ON mine.oid = r.oid
WHERE r.rolsuper OR r.rolreplication OR r.rolcreaterole OR r.rolname IN
  ('pg_read_all_data', 'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
UNION ALL
SELECT DISTINCT 'may read ' || n.nspname || '.' || c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_t%' AND n.nspname || '.' || c.relname NOT IN ({})
  AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = c.oid AND classid = 'pg_class'::regclass AND deptype = 'e')
  AND EXISTS (SELECT 1 FROM mine WHERE has_schema_privilege(mine.oid, n.oid, 'USAGE'))
  AND EXISTS (SELECT 1 FROM mine WHERE has_any_column_privilege(mine.oid, c.oid, 'SELECT'))
UNION ALL
SELECT DISTINCT 'may run ' || n.nspname || '.' || p.proname || ', which runs with other rights' FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
WHERE (p.prosecdef OR NOT l.lanpltrusted AND l.lanname NOT IN ('internal', 'c')) AND n.nspname <> 'pg_catalog'
  AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = p.oid AND classid = 'pg_proc'::regclass AND deptype = 'e')
  AND EXISTS (SELECT 1 FROM mine WHERE has_schema_privilege(mine.oid, n.oid, 'USAGE'))
  AND EXISTS (SELECT 1 FROM mine WHERE has_function_privilege(mine.oid, p.oid, 'EXECUTE'))
ORDER BY 1
"""
NAMED = 5  # ways that a message names


@dataclass(frozen=True, slots=True)
class SplitColumn:
    """A column of the split table: its name, role and kind, the expression that gives it, a decimal's digits, its type
    as the database writes it (empty: its values are bytes here)."""

    name: str
    role: Role
    kind: Kind
    sql: str
    digits: int | None = None
    type: str = ""


def write_setup(
    url: DataUrl, table: str, ids: Sequence[str], private: Sequence[str], hidden: Sequence[str]
) -> tuple[str, ...]:
    """The statements that make schema, tables and roles anew; nothing is run. The table's columns are looked up."""
    engine = PostgresEngine(url, snapshot=True)
    try:
        relation = find_relation(engine.relations(), table, url)
        columns = engine.columns(relation)
        origin = engine.quoted(relation)
        made_up = _write_probe(engine)
        held = find_origin(engine)
    finally:
        engine.close()
    names = {column.name for column in columns}
    for name in (*ids, *private, *hidden):
        if name not in names:
            raise ConfigError(f"{relation.qualified} has no column {name!r}; it has {', '.join(sorted(names))}")
    if not ids or not private:
        raise ConfigError("say which column names the person of a row (--id), and which are private (--private)")
    if held is not None and held.qualified != relation.qualified:
        raise ConfigError(
            f"{url.shown}: schema {SCHEMA} holds the two halves of {held.qualified}, and a database has one split "
            "table: take it away with --teardown first, or split the other table in another database"
        )
    split = [
        _split_column(c, Role.ID if c.name in ids else Role.PRIVATE if c.name in private else Role.PUBLIC)
        for c in columns
        if c.name not in hidden
    ]
    if len(split) > MOST_COLUMNS:
        raise ConfigError(
            f"{relation.qualified} has {len(split):,} columns, and a table that is split has at most "
            f"{MOST_COLUMNS:,}: leave columns out (--hidden)"
        )
    return ("BEGIN", WAIT, *_setup_statements(origin, relation, split), "COMMIT", *made_up)


def write_teardown() -> tuple[str, ...]:
    """The statements that take it all away again; the roles stay, with their passwords, and can read nothing."""
    return (
        "BEGIN", WAIT, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", "COMMIT", f"DROP DATABASE IF EXISTS {PROBE}",
    )  # fmt: skip


def _write_probe(engine: PostgresEngine) -> tuple[str, ...]:
    """The statements that make an empty database of the same texts' order, where statements run on made-up rows."""
    name = format_literal(PROBE)
    there = engine.rows(f"SELECT 1 AS one FROM pg_database WHERE datname = {name}")
    encoding, collate, ctype, provider, locale = engine.rows(
        "SELECT pg_encoding_to_char(encoding)::text AS e, datcollate::text AS c, datctype::text AS t, "
        "coalesce(to_jsonb(d)->>'datlocprovider', 'c') AS p, "
        "coalesce(to_jsonb(d)->>'datlocale', to_jsonb(d)->>'daticulocale', '') AS l "
        "FROM pg_database d WHERE datname = current_database()"
    )[0]
    own = "" if provider == "c" else f" LOCALE_PROVIDER {'icu' if provider == 'i' else 'builtin'}"
    own += f" {'ICU_LOCALE' if provider == 'i' else 'BUILTIN_LOCALE'} {format_literal(str(locale))}" if own else ""
    made = (
        f"CREATE DATABASE {PROBE} TEMPLATE template0 ENCODING {format_literal(str(encoding))} LC_COLLATE "
        f"{format_literal(str(collate))} LC_CTYPE {format_literal(str(ctype))}{own}"
    )
    limited = f"ALTER ROLE {PROBE} SET temp_file_limit = '256MB'"
    return (
        _write_role(PROBE),
        *(() if there else (made,)),
        f"REVOKE ALL ON DATABASE {PROBE} FROM PUBLIC",
        f"GRANT CONNECT, CREATE, TEMPORARY ON DATABASE {PROBE} TO {PROBE}",
        f"DO $$ BEGIN {limited}; EXCEPTION WHEN insufficient_privilege THEN NULL; END $$",
    )


def run_statements(url: DataUrl, statements: Sequence[str]) -> None:
    """Run such statements: all of them or, where one fails, none."""
    engine = PostgresEngine(url, snapshot=False)
    try:
        for statement in statements:
            engine.do(statement)
    finally:
        engine.close()  # without COMMIT nothing was done


def _write_role(role: str) -> str:
    missing = f"NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}')"
    return f"DO $$ BEGIN IF {missing} THEN CREATE ROLE {role} LOGIN; END IF; END $$"


def check_barred(engine: PostgresEngine) -> None:
    """Refuse a deciding role that can read a secret: it is tried, and every other way to one is looked for.

    Guarantee: the server denied this role `keyhole.secrets` (SQLSTATE 42501). Neither it nor a role that it can become
    may read any table or view of the database but the public half (and those that extensions bring), run a function
    that has other rights than it, read the server's files or its log of changes, or hand out roles.
    """
    if ways := _list_ways(engine, ("people", "columns", "origin")):
        raise ConfigError(
            f"{engine.url.shown}: the role {ways[0]}, which decides, {ways[1]}; with stay = true it must not be able "
            f"to read a private column: let {ROSTER} decide (keyhole init engine makes it)"
        )
    if engine.state_of(f"SELECT 1 AS one FROM {SCHEMA}.secrets LIMIT 1") != "42501":
        raise ConfigError(
            f"{engine.url.shown}: the server does not refuse {SCHEMA}.secrets to the role {engine.url.user}: run "
            "keyhole init engine as the owner of the data"
        )


def check_probe(engine: PostgresEngine) -> None:
    """Refuse a role that runs statements as they were written and may read anything but what it makes itself."""
    if ways := _list_ways(engine, ()):
        raise ConfigError(
            f"{engine.url.shown}: the role {ways[0]}, which runs statements on made-up rows, {ways[1]}: let {PROBE} do "
            f"it, in the database {PROBE} (keyhole init engine makes both)"
        )


def _list_ways(engine: PostgresEngine, tables: Sequence[str]) -> tuple[str, str] | None:
    """The role, and how it can read more than these tables of the schema; None if it cannot."""
    allowed = ", ".join(format_literal(f"{SCHEMA}.{name}") for name in tables) or "''"
    ways = [str(row[0]) for row in engine.rows(_READABLE.format(allowed))]
    who = str(engine.rows("SELECT current_user::text AS who")[0][0])
    more = f", and {len(ways) - NAMED} more" if len(ways) > NAMED else ""
    return (who, "; ".join(ways[:NAMED]) + more) if ways else None


def list_private(engine: PostgresEngine) -> list[str]:
    """The private columns by which the database was split."""
    if engine.state_of(f"SELECT 1 AS one FROM {SCHEMA}.columns LIMIT 1"):
        raise ConfigError(f"{engine.url.shown} has no schema {SCHEMA} that this role may read: run keyhole init engine")
    return [str(row[0]) for row in engine.rows(f"SELECT name FROM {SCHEMA}.columns WHERE role = 'private'")]


def _split_column(column: CopiedColumn, role: Role) -> SplitColumn:
    name = quote_name(column.name)
    judged = not column.here.startswith("encode")
    kind = _KINDS.get(column.type, Kind.TEXT if judged else Kind.OTHER) if judged else Kind.OTHER
    if role is Role.PRIVATE and kind in (Kind.OTHER, Kind.DOUBLE):
        raise DataError.of_file(
            f"private column {column.name!r} is of type {column.type}, whose sums are not exact: cast it to NUMERIC "
            "in a view, and set that up"
        )
    if kind is Kind.TEXT:
        return SplitColumn(column.name, role, kind, f'({name}::text) COLLATE "C"', type=column.declared)
    if kind is Kind.OTHER:
        return SplitColumn(column.name, role, kind, f"convert_to({name}::text, 'UTF8')")
    if kind is Kind.TIMESTAMP:
        return SplitColumn(column.name, role, kind, f"{name}::timestamp", type=column.declared)
    return SplitColumn(column.name, role, kind, name, column.digits, column.declared)


def find_origin(engine: PostgresEngine) -> Relation | None:
    """The table whose halves are there."""
    if not engine.rows(f"SELECT 1 AS one FROM pg_class WHERE oid = to_regclass('{SCHEMA}.origin')"):
        return None
    [(schema, name)] = engine.rows(f"SELECT schema, name FROM {SCHEMA}.origin")
    return Relation(str(schema), str(name))


def _setup_statements(origin: str, relation: Relation, columns: Sequence[SplitColumn]) -> Iterator[str]:
    yield f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"
    yield _write_role(ROSTER)
    yield _write_role(SOURCE)
    yield f"CREATE SCHEMA {SCHEMA}"
    yield f"REVOKE ALL ON SCHEMA {SCHEMA} FROM PUBLIC"
    ids = ", ".join(quote_name(c.name) for c in columns if c.role is Role.ID)
    listed = ", ".join(f"{c.sql} AS {quote_name(c.name)}" for c in columns)
    numbered = (
        f"SELECT row_number() OVER (ORDER BY {ids}) - 1 AS {ROW}, {listed}, "
        f"replace(gen_random_uuid()::text, '-', '') AS keyhole_u FROM {origin}"
    )
    yield f"CREATE TEMP TABLE keyhole_split ON COMMIT DROP AS {numbered}"
    for c in columns:
        if c.kind is Kind.DECIMAL:
            wrong = f"{quote_name(c.name)} = 'NaN'"
            yield (
                f"DO $$ BEGIN IF EXISTS (SELECT 1 FROM keyhole_split WHERE {wrong}) THEN RAISE EXCEPTION "
                f"USING ERRCODE = '22003', MESSAGE = {format_literal(f'column {c.name} holds NaN')}; "
                "END IF; END $$"
            )
    half = [
        f"(CASE WHEN {quote_name(c.name)} IS NULL THEN NULL ELSE TRUE END) AS {quote_name(c.name)}"
        if c.role is Role.PRIVATE
        else quote_name(c.name)
        for c in columns
    ]
    digits = ((1, 5), (21, 25), (9, 29))  # of a random uuid: groups of four that are no constants of its version
    half += [
        f"((('x' || substr(keyhole_u, {a}, 4) || substr(keyhole_u, {b}, 4))::bit(32)::bigint & 2147483647)::int) AS "
        + name
        for (a, b), name in zip(digits, LANES, strict=True)
    ]
    yield f"CREATE TABLE {SCHEMA}.people AS SELECT {ROW}, {', '.join(half)} FROM keyhole_split"
    secrets = ", ".join(quote_name(c.name) for c in columns if c.role is Role.PRIVATE)
    yield f"CREATE TABLE {SCHEMA}.secrets AS SELECT {ROW}, {secrets} FROM keyhole_split"
    for table in ("people", "secrets"):
        yield f"ALTER TABLE {SCHEMA}.{table} ADD PRIMARY KEY ({ROW})"
        yield f"ANALYZE {SCHEMA}.{table}"
    told = ", ".join(
        f"({format_literal(c.name)}, {format_literal(str(c.role))}, {format_literal(str(c.kind))}, "
        f"{'NULL' if c.digits is None else c.digits}::int, {format_literal(c.type)})"
        for c in columns
    )
    yield f"CREATE TABLE {SCHEMA}.columns AS SELECT * FROM (VALUES {told}) AS t(name, role, kind, digits, type)"
    named = f"{format_literal(relation.schema)}::text AS schema, {format_literal(relation.name)}::text AS name"
    yield f"CREATE TABLE {SCHEMA}.origin AS SELECT {named}"
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROSTER}, {SOURCE}"
    yield f"GRANT SELECT ON {SCHEMA}.columns, {SCHEMA}.origin TO {ROSTER}, {SOURCE}"
    yield f"GRANT SELECT ON {SCHEMA}.people TO {ROSTER}"
    seen = ", ".join([ROW, *(quote_name(c.name) for c in columns)])
    yield f"GRANT SELECT ({seen}) ON {SCHEMA}.people TO {SOURCE}"
    yield f"GRANT SELECT ON {SCHEMA}.secrets TO {SOURCE}"
