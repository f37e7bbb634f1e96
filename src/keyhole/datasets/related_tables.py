"""Other tables of the data: dimensions joined to the records by their key, and rows that belong to people.

A dimension is public: its columns become columns NAME.column of every record, NULL where no row has the key. The rows
of the others are looked at by EXISTS alone, so they stay tables of their own: beside the secrets if who has rows is
private, and without their private columns beside the people if not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb

from keyhole.config import TableRoles
from keyhole.datasets.files.csv_layout import in_our_words
from keyhole.datasets.origins import Origin
from keyhole.engines.duckdb.connections import copy_rows, fetch_first, fetch_value, kind_of_type, types_of
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import name_held_table, quote_name
from keyhole.model.schema import Column, Kind, Related, Role, fold_name

NEED = "[tables.*] are tables of a .duckdb file or files of a folder: data = that file or folder"


def read_related(
    con: duckdb.DuckDBPyConnection,
    origins: Mapping[str, Origin],
    roles: Mapping[str, TableRoles],
    main: str,
    *,
    public_only: bool,
    quiet: bool = False,
    may_lack: bool = False,
) -> list[Related]:
    """Fill the tables `keyhole NAME`; with `public_only` dimensions alone. Keys are looked at by `join_related`.

    With `may_lack` the data need not have tables of private rows: those it has not are passed over. With `quiet` the
    kind of a private column is what the database declares, and never read off its values.
    """
    if may_lack:
        roles = {n: told for n, told in roles.items() if told.private != "all" or _find_table(origins, n) is not None}
    if roles and not origins:
        raise ConfigError(NEED)
    related = []
    for name, told in roles.items():
        if public_only and told.public is None:
            continue
        real = _find_table(origins, name)
        if real is None:
            raise ConfigError(f"[tables.{name}]: the data has no table {name!r}; it has {', '.join(origins)}")
        if fold_name(real) == fold_name(main):
            raise ConfigError(
                f"[tables.{name}]: {name!r} is the table of the people itself; its columns go to [columns]"
            )
        read = _read_table(con, name, origins[real].sql, told)
        related.append(_without_read_kinds(read) if quiet and not origins[real].typed else read)
    return related


def _find_table(origins: Mapping[str, Origin], name: str) -> str | None:
    """The table of that name, as the data spells it."""
    return next((n for n in origins if n == name), next((n for n in origins if fold_name(n) == fold_name(name)), None))


def _without_read_kinds(each: Related) -> Related:
    """Without the kinds that were read off private values."""
    keys = {own for own, _ in each.keys}
    unknown = (replace(c, kind=Kind.OTHER) if c.secret and c.name not in keys else c for c in each.columns)
    return replace(each, columns=tuple(unknown))


def _read_table(con: duckdb.DuckDBPyConnection, name: str, origin: str, told: TableRoles) -> Related:
    try:
        types = types_of(con, origin)
        there = list(types)
        strict = _columns_without_null(con, origin)
        for given in (*told.hidden, *(told.private if isinstance(told.private, tuple) else ())):
            if given not in there:
                raise ConfigError(f"[tables.{name}]: it has no column {given!r}; it has {', '.join(there)}")
        kept = [quote_name(n) for n in there if n not in told.hidden]
        con.execute(f"CREATE TEMP TABLE {name_held_table(name)} AS SELECT {', '.join(kept)} FROM {origin}")
    except duckdb.Error as error:
        raise DataError(f"cannot read {name}: {in_our_words(error)}") from None
    columns = []
    for each in there:
        if each in told.hidden:
            continue
        secret = told.private == "all" or each in (told.private or ())
        nullable = each not in strict
        if told.public is not None:
            nullable = bool(
                fetch_value(con, f"SELECT count(*) > count({quote_name(each)}) FROM {name_held_table(name)}")
            )
        columns.append(Column(each, kind_of_type(types[each]), Role.PRIVATE if secret else Role.PUBLIC, nullable))
    keys = []
    for own, other in told.pairs:
        mine = next((c for c in columns if fold_name(c.name) == fold_name(own)), None)
        if mine is None:
            raise ConfigError(f"[tables.{name}]: it has no column {own!r} to be a key; it has {', '.join(there)}")
        keys.append((mine.name, other))
    return Related(name, tuple(columns), tuple(keys), told.public is not None, told.private == "all")


def _columns_without_null(con: duckdb.DuckDBPyConnection, origin: str) -> set[str]:
    """The columns that a database declares NOT NULL; none of a file."""
    if not origin.startswith("file."):
        return set()
    rows = con.execute(f'SELECT column_name, "null" FROM (DESCRIBE {origin})').fetchall()
    return {str(name) for name, null in rows if null == "NO"}


def join_related(
    con: duckdb.DuckDBPyConnection, related: Sequence[Related], private: Sequence[str], *, quiet: bool = False
) -> list[Related]:
    """Put the columns of dimensions beside those of the records in `loaded`; keys as the table spells them.

    A dimension may hang on a column of another one ("region=states.region"); what hangs on nothing is an error. With
    `quiet` nothing that a reader of statements can notice is read off private rows.
    """
    waiting, joined = list(related), []
    while waiting:
        there = _kinds_of_loaded(con)
        ready = [r for r in waiting if all(_spelled(there, other) for _, other in r.keys)]
        if not ready:
            loose = waiting[0]
            other = next(other for _, other in loose.keys if not _spelled(there, other))
            names = {r.name for r in waiting}
            if other.partition(".")[0] in names:
                raise ConfigError(f"[tables.{loose.name}]: {other!r} goes round in a circle or leads nowhere")
            raise ConfigError(
                f"[tables.{loose.name}]: the table of the people has no column {other!r}; write "
                f'"{loose.keys[0][0]}=COLUMN" with one of {", ".join(there)}'
            )
        for each in ready:
            waiting.remove(each)
            each = replace(each, keys=tuple((own, _spelled(there, other)) for own, other in each.keys))
            _check_keys(con, each, private)
            if each.dimension:
                _join_dimension(con, each)
            joined.append(each)
    return [
        r if r.dimension else replace(r, agrees=not (quiet and _keyed_in_secret(r)) and _keys_agree(con, r))
        for r in joined
    ]


def _keyed_in_secret(each: Related) -> bool:
    """Is whose rows they are a secret?"""
    keys = {own for own, _ in each.keys}
    return each.secret or any(c.secret for c in each.columns if c.name in keys)


def _kinds_of_loaded(con: duckdb.DuckDBPyConnection) -> dict[str, Kind]:
    return {name: kind_of_type(type_) for name, type_ in types_of(con, "loaded").items()}


def _spelled(there: Mapping[str, Kind], name: str) -> str:
    """The column of that name as the table spells it; empty if there is none."""
    return name if name in there else next((n for n in there if fold_name(n) == fold_name(name)), "")


def _check_keys(con: duckdb.DuckDBPyConnection, each: Related, private: Sequence[str]) -> None:
    """Keys are public columns of the same kind, and some row must be somebody's."""
    there = _kinds_of_loaded(con)
    for own, other in each.keys:
        mine = each.find(own)
        if other in private:
            raise ConfigError(
                f"[tables.{each.name}]: the key {other!r} is a private column, so the join would tell it: "
                "put what you need into view = ..."
            )
        if mine is not None and mine.kind is not there[other] and not (mine.kind.numeric and there[other].numeric):
            raise ConfigError(
                f"[tables.{each.name}]: the key {own!r} holds {mine.kind}, but {other!r} holds {there[other]}"
            )
    matched = " OR ".join(_matches((pair,)) for pair in each.keys) if not each.dimension else _matches(each.keys)
    some = fetch_first(con, f"SELECT 1 FROM loaded p JOIN {name_held_table(each.name)} r ON {matched} LIMIT 1")
    rows = int(fetch_value(con, f"SELECT count(*) FROM {name_held_table(each.name)}"))
    if rows and not some:
        names = ", ".join(own for own, _ in each.keys)
        raise DataError(f"no row of {each.name} belongs to anybody by {names}: is it keyed by another column?")


def _matches(keys: Sequence[tuple[str, str]]) -> str:
    return " AND ".join(f"p.{quote_name(other)} = r.{quote_name(own)}" for own, other in keys)


def _join_dimension(con: duckdb.DuckDBPyConnection, each: Related) -> None:
    """The columns of a dimension become public columns of every record."""
    listed = ", ".join(quote_name(own) for own, _ in each.keys)
    there = " AND ".join(f"{quote_name(own)} IS NOT NULL" for own, _ in each.keys)
    twice = fetch_first(
        con, f"SELECT {listed} FROM {name_held_table(each.name)} WHERE {there} GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
    )
    if twice:
        key = ", ".join(f"{own} = {v}" for (own, _), v in zip(each.keys, twice, strict=True))
        raise DataError.of_file(
            f"[tables.{each.name}]: several rows have {key}, but a dimension has one row a key; rows of people are "
            'declared with private = "all" or private = [columns]'
        )
    more = ", ".join(f"r.{quote_name(c.name)} AS {quote_name(f'{each.name}.{c.name}')}" for c in each.columns)
    con.execute(
        f"CREATE TEMP TABLE wider AS SELECT p.*, {more} FROM (SELECT *, rowid AS keyhole_at FROM loaded) p "
        f"LEFT JOIN {name_held_table(each.name)} r ON {_matches(each.keys)} ORDER BY keyhole_at"
    )
    con.execute("DROP TABLE loaded")
    con.execute("CREATE TEMP TABLE loaded AS SELECT * EXCLUDE (keyhole_at) FROM wider")
    con.execute("DROP TABLE wider")


def _keys_agree(con: duckdb.DuckDBPyConnection, each: Related) -> bool:
    """Does every row that belongs to a record by one key belong to it by the others?"""
    table = name_held_table(each.name)
    for pair in each.keys:
        others = [p for p in each.keys if p != pair]
        if not others:
            continue
        same = " AND ".join(f"p.{quote_name(b)} IS NOT DISTINCT FROM r.{quote_name(a)}" for a, b in others)
        if pair == each.keys[0]:
            continue  # the first key names the person: he may have rows of no record
        if fetch_first(con, f"SELECT 1 FROM loaded p JOIN {table} r ON {_matches((pair,))} WHERE NOT ({same}) LIMIT 1"):
            return False
    return True


def copy_public_rows(
    secrets: duckdb.DuckDBPyConnection, people: duckdb.DuckDBPyConnection, related: Sequence[Related]
) -> None:
    """What is public of the other tables goes to the database of the people."""
    for each in related:
        public = [quote_name(c.name) for c in each.columns if not c.secret]
        if not each.secret and public:
            copy_rows(
                secrets, f"SELECT {', '.join(public)} FROM {name_held_table(each.name)}", people, f"keyhole {each.name}"
            )
