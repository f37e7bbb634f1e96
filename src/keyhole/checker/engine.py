"""The data with made-up private values, and the original statements run on them. No statement is read here.

The engine holds the real public columns; private columns are filled anew for each trial. Whatever name a statement
selects from is the table. Statements come from a file that is not trusted: one SELECT each, in a database in memory
that is closed to files and to settings.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from .claims import Addend, Unreadable, number

READERS = {
    ".csv": "read_csv({}, header=true, sample_size=-1, comment='', dateformat='%Y-%m-%d'{})",
    ".tsv": "read_csv({}, header=true, sample_size=-1, delim='\t', comment='', dateformat='%Y-%m-%d'{})",
    ".parquet": "read_parquet({})",
    ".json": "read_json({})",
    ".jsonl": "read_json({})",
}
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


INTEGER = "HUGEINT"  # made-up integers: products of large ones fit
PICKED = ("keyhole_singles", "keyhole_tables")  # which hold several tables, told apart by keyhole_pick
DECIMAL = "DECIMAL(18,6)"


class Cannot(Exception):
    """This proof cannot be replayed here: it is neither right nor wrong."""


class CastOverflow(Cannot):
    """A made-up number is larger than a statement takes: it casts to a type with few digits."""


class Fails(Exception):
    """This proof is wrong."""


Result = tuple[list[str], list[tuple[Any, ...]]]


class Nobody:
    """The type of NOBODY: the statement showed no such group."""


NOBODY = Nobody()


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"


def plain(value: Any) -> Any:
    """A value as it can be compared: numbers as fractions, dates as text."""
    found = number(value)
    if found is not None:
        return found
    if isinstance(value, dt.date | dt.datetime | dt.time):
        return value.isoformat()
    return value if value is None or isinstance(value, bool) else str(value)


class Engine:
    """The people, with whatever values are filled in for their private columns."""

    def __init__(
        self, data: Path, source: Mapping[str, Any], *, table: str | None = None, view: str | None = None
    ) -> None:
        import duckdb

        self._error = duckdb.Error
        self._select = duckdb.StatementType.SELECT
        self._con = duckdb.connect(":memory:")
        self._con.execute("SET TimeZone = 'UTC'")
        self._apart = duckdb.connect(":memory:")  # asked for names alone: it has no tables, so it looks behind none
        try:
            self._open(data, source, table, view)
        except BaseException:
            self.close()
            raise

    def _open(self, data: Path, source: Mapping[str, Any], table: str | None, view: str | None) -> None:
        kinds = source.get("kinds") or {}
        self._load(data, kinds, table, view)
        described = self._con.execute("DESCRIBE keyhole_people").fetchall()
        self.columns = {str(row[0]): str(row[1]) for row in described if row[0] != "keyhole_row"}
        self.n = int(self._con.execute("SELECT count(*) FROM keyhole_people").fetchall()[0][0])
        self.private = tuple(str(name) for name in source.get("private") or ())
        self.real = all(name in self.columns for name in self.private)
        self.types = {name: self._made_up_type(name, kinds) for name in self.private}
        self.null = {name: self._nulls(name) for name in self.private}
        self._table = "keyhole_people"
        self._views: dict[str, str] = {}  # name in a statement -> what it shows now
        self._asked: dict[str, frozenset[str]] = {}
        self._kept: dict[int, tuple[str, Any]] = {}
        self._results: dict[str, dict[str, Result]] = {}
        self._found: dict[str, list[int]] | None = None
        self._largest: dict[str, Fraction] = {}
        self._others: list[dict[str, list[Any]]] | None = None
        self._label = ""  # of the tables that `pick` chooses from
        if self.n < 100_000:
            self._con.execute("SET threads = 1")  # many short statements
        self._con.execute("SET enable_external_access = false; SET lock_configuration = true")

    def close(self) -> None:
        """Let go of both databases."""
        self._con.close()
        self._apart.close()

    def _load(self, data: Path, kinds: Mapping[str, str], table: str | None, view: str | None) -> None:
        data = _in_folder(data, table)
        if not data.is_file():
            raise Unreadable(f"there is no file {data}")
        suffix = data.suffix.lower()
        try:
            if suffix in (".duckdb", ".db"):
                self._con.execute(f"ATTACH {text(str(data))} AS file (READ_ONLY)")
                found = self._con.execute(
                    "SELECT table_name FROM duckdb_tables() WHERE database_name = 'file'"
                ).fetchall()
                names = [str(row[0]) for row in found]
                if view is None and table is None and len(names) != 1:
                    raise Unreadable(f"{data.name} holds {len(names)} tables: choose one with --table")
                inside = {name: f"file.{quoted(name)}" for name in names}
                origin = inside.get(table or names[0]) if view is None else ""
                if origin is None:
                    raise Unreadable(f"{data.name} has no table {table!r}")
            elif suffix in READERS:
                words = ", ".join(f"{text(name)}: 'VARCHAR'" for name in self._as_text(data, kinds))
                types = f", types={{{words}}}" if words else ""
                origin = READERS[suffix].format(text(str(data)), types)
                inside = {data.stem: origin}
            else:
                raise Unreadable(f"cannot read {data.name}: .csv, .tsv, .parquet, .json or .duckdb")
            if view is not None:
                for name, where in inside.items():
                    self._con.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT * FROM {where}")
                origin = f"({view.strip().rstrip(';')})"
            self._con.execute(
                f"CREATE TABLE keyhole_people AS SELECT (row_number() OVER ()) - 1 AS keyhole_row, * FROM {origin}"
            )
            if view is not None:
                for name in inside:
                    self._con.execute(f"DROP VIEW {quoted(name)}")
            if suffix in (".duckdb", ".db"):
                self._con.execute("DETACH file")
        except self._error as error:
            said = str(error).splitlines()[0].replace(f"{data.parent}/", "")  # it may be a copy
            raise Unreadable(f"cannot read {data.name}: {said}") from None

    def _as_text(self, data: Path, kinds: Mapping[str, str]) -> list[str]:
        """Columns of a text file that were judged as text, whatever they look like."""
        if data.suffix.lower() not in (".csv", ".tsv"):
            return []
        bare = READERS[data.suffix.lower()].format(text(str(data)), ", all_varchar=true")
        there = [str(row[0]) for row in self._con.execute(f"DESCRIBE SELECT * FROM {bare}").fetchall()]
        return [name for name in there if kinds.get(name) == "text"]

    def _made_up_type(self, name: str, kinds: Mapping[str, str]) -> str:
        held = self.columns.get(name, "DOUBLE")
        kind = kinds.get(name)
        if held in INTEGERS:
            return DECIMAL if kind == "decimal" else INTEGER
        if held.startswith("DECIMAL") or (held in ("DOUBLE", "FLOAT") and kind == "decimal"):
            return DECIMAL
        if (
            held == "DOUBLE"
            and name not in self.columns
            and kind in ("text", "integer", "boolean", "date", "timestamp")
        ):
            return {"text": "VARCHAR", "integer": INTEGER}.get(kind, kind.upper())
        return "DOUBLE" if held == "FLOAT" else held

    def _nulls(self, name: str) -> frozenset[int]:
        """Who has no value: that is public, and stays as it is."""
        if name not in self.columns:
            return frozenset()
        rows = self._con.execute(f"SELECT keyhole_row FROM keyhole_people WHERE {quoted(name)} IS NULL").fetchall()
        return frozenset(int(row[0]) for row in rows)

    def numeric(self, name: str) -> bool:
        """Is a private column filled with numbers?"""
        return self.types[name] in (INTEGER, "DOUBLE") or self.types[name].startswith("DECIMAL")

    def find(self, record: Mapping[str, Any], ids: Sequence[str]) -> list[int]:
        """The rows with this id (from 0); without id columns the row number itself."""
        if not ids and set(record) == {"row"}:
            return [int(record["row"]) - 1]
        if not ids or set(record) != set(ids) or any(name not in self.columns for name in ids):
            raise Cannot("the record is not named by the id columns of the data")
        if self._found is None:
            self._found = {}
            listed = ", ".join(quoted(name) for name in ids)
            for row in self._con.execute(f"SELECT keyhole_row, {listed} FROM keyhole_people").fetchall():
                self._found.setdefault(repr([plain(v) for v in row[1:]]), []).append(int(row[0]))
        return self._found.get(repr([plain(record[name]) for name in ids]), [])

    def fill(self, values: Mapping[str, Sequence[Any]] | None, *, keep: bool = True) -> None:
        """Give everybody these private values (None: the real ones); NULL stays NULL. What is kept is made once."""
        at = id(values)
        if keep and at in self._kept:
            self._table = self._kept[at][0]
            return
        self._put(values, range(self.n), f"keyhole_kept_{len(self._kept)}" if keep else "keyhole_filled")
        if keep:
            self._kept[at] = (self._table, values)  # the values are held, so that their id stays theirs

    def fill_singles(self, values: Mapping[str, Sequence[Any]], rows: Sequence[int]) -> None:
        """One table for each of these rows, with these private values: `pick` chooses it. -1 picks nobody."""
        self._put(values, rows, "keyhole_singles")

    def fill_tables(self, tables: Sequence[Mapping[str, Sequence[Any]]], label: str = "") -> None:
        """Tables with these private values, in the types of the data: `pick` chooses one, and the first is picked.

        Under its label, if it has one, they are found again.
        """
        rows = [r for _ in tables for r in range(self.n)]
        values = {name: [v for table in tables for v in table[name]] for name in self.private}
        picks = [k for k in range(len(tables)) for _ in range(self.n)]
        types = {name: self.columns.get(name, self.types[name]) for name in self.private}
        self._label = ""
        self._put(values, rows, "keyhole_tables", types, picks)
        self._label = label
        self.pick(0)

    def has_tables(self, label: str) -> bool:
        """Are the tables of this label still there? Then statements see one of them."""
        if label != self._label:
            return False
        self._table = "keyhole_tables"
        return True

    def pick(self, k: int) -> None:
        """Statements now see the k-th row of `fill_singles` alone, or the k-th table of `fill_tables`."""
        self._results[self._table] = {}
        self._con.execute(f"SET VARIABLE keyhole_pick = {int(k)}")

    def _put(
        self,
        values: Mapping[str, Sequence[Any]] | None,
        rows: Sequence[int],
        table: str,
        types: Mapping[str, str] | None = None,
        picks: Sequence[int] | None = None,
    ) -> None:
        public = [f"p.{quoted(name)}" for name in self.columns if values is None or name not in self.private]
        self._table, self._results[table] = table, {}
        start = f"CREATE OR REPLACE TABLE {table} AS SELECT"
        if values is None:
            self._con.execute(f"{start} 0 AS keyhole_pick, {', '.join(public)} FROM keyhole_people p")
            return
        made: list[list[Any]] = []
        for name in self.private:
            null = self.null[name]
            made.append([None if r in null else written(v) for r, v in zip(rows, values[name], strict=True)])
        held = types or {name: wide_enough(self.types[name], values[name]) for name in self.private}
        cells = "".join(f", CAST(u.v{i} AS {held[name]}) AS {quoted(name)}" for i, name in enumerate(self.private))
        unnested = "".join(f", unnest(?::VARCHAR[]) AS v{i}" for i in range(len(made)))
        origin = f"(SELECT unnest(?::BIGINT[]) AS r, unnest(?::BIGINT[]) AS keyhole_pick{unnested}) u"
        try:
            self._con.execute(
                f"{start} u.keyhole_pick{cells}{''.join(', ' + p for p in public)} FROM {origin} "
                "JOIN keyhole_people p ON p.keyhole_row = u.r ORDER BY u.keyhole_pick, u.r",
                [list(rows), list(range(len(rows)) if picks is None else picks), *made],
            )
        except self._error:
            raise Cannot("a made-up value does not fit the type of its column") from None

    def largest(self, column: str) -> Fraction:
        """The largest absolute value of a real column; 0 if the data has it not."""
        if column not in self.columns or not self.numeric(column):
            return Fraction(0)
        if column not in self._largest:
            found = self._con.execute(f"SELECT max(abs({quoted(column)})) FROM keyhole_people").fetchall()[0][0]
            self._largest[column] = number(found) or Fraction(0)
        return self._largest[column]

    def real_values(self, column: str) -> list[Any]:
        """The real values of a column."""
        found = self._con.execute(f"SELECT {quoted(column)} FROM keyhole_people ORDER BY keyhole_row").fetchall()
        return [row[0] for row in found]

    def is_singled_out(self, row: int, names: Sequence[str]) -> bool:
        """Is there no other row with the same values in these columns?"""
        same = "".join(f" AND p.{quoted(name)} IS NOT DISTINCT FROM q.{quoted(name)}" for name in names)
        asked = f"SELECT count(*) FROM keyhole_people p JOIN keyhole_people q ON q.keyhole_row = {int(row)}{same}"
        return int(self._con.execute(asked).fetchall()[0][0]) == 1

    def assumed_domain(self, column: str) -> dict[str, Any]:
        """Which values a column that nobody declared is assumed to have, read off the data: as a declaration says it.

        Text and truth values: those that occur, up to 20. Numbers: those that occur, if there are at most 2, or at most
        20 with 10 records each; all whole ones between their ends, if these are at most 20 apart; else those of as many
        decimals between the two ends, or all numbers if there are more than 6 decimals.
        """
        if column not in self.private or column not in self.columns:
            raise Cannot("the data do not have the column whose values were assumed")
        records = Counter(plain(v) for v in self.real_values(column) if v is not None)
        if not self.numeric(column):
            listed = self.types[column] == "VARCHAR" and 0 < len(records) <= 20
            return {"values": sorted(records)} if listed else {}
        if not records:
            return {}
        values = sorted(records)
        lo, hi = values[0], values[-1]
        if len(values) <= 2 or (len(values) <= 20 and min(records.values()) >= 10):
            return {"min": lo, "max": hi, "step": _common_step(values), "numbers": values}
        if hi - lo <= 20 and all(v.denominator == 1 for v in values):
            return {"min": lo, "max": hi, "step": Fraction(1)}
        written = [Fraction(repr(v) if isinstance(v, float) else v) for v in self.real_values(column) if v is not None]
        decimals = max(map(_decimals, written))
        if decimals > 6:
            return {"min": lo, "max": hi}
        return {"min": min(written), "max": max(written), "step": Fraction(1, 10**decimals)}

    def condition(self, where: str) -> list[int]:
        """The rows that satisfy a public condition."""
        one = f"SELECT keyhole_row FROM keyhole_people WHERE {where}"
        try:
            if len(self._con.extract_statements(one)) != 1:
                raise Cannot("a condition of the certificate is not one condition")
            return sorted(int(row[0]) for row in self._con.execute(one).fetchall())
        except self._error:
            raise Cannot("a condition of the certificate does not run here") from None

    def public_values(self, expression: str) -> list[Any]:
        """An expression over public columns, row by row."""
        one = f"SELECT ({expression}) FROM keyhole_people ORDER BY keyhole_row"
        try:
            if len(self._con.extract_statements(one)) != 1:
                raise Cannot("a weight of the certificate is not one expression")
            return [row[0] for row in self._con.execute(one).fetchall()]
        except self._error:
            raise Cannot("a weight of the certificate does not run here") from None

    def total(self, column: str, where: str) -> Any:
        """The made-up total of a column under a condition."""
        return self._cells(f"SELECT SUM({quoted(column)}) FROM people WHERE {where}")[1][0][0]

    def answer(self, cited: Addend) -> Any:
        """What the statement answers now in the cell that a proof cites: a value, None for NULL, or NOBODY."""
        if cited.sql is None:
            raise Cannot("the statement is not in the verdict: give --log")
        return read_cell(cited, *self._cells(cited.sql))

    # --- statements that hand out rows ----------------------------------------------------------------------------

    def count_people(self, ids: Sequence[str]) -> int:
        """How many different ids there are; without id columns everybody has one record."""
        if not ids:
            return self.n
        listed = ", ".join(quoted(name) for name in ids)
        return int(
            self._con.execute(f"SELECT count(*) FROM (SELECT DISTINCT {listed} FROM keyhole_people)").fetchall()[0][0]
        )

    def run_on_data(self, sql: str) -> Result:
        """What a statement shows of the data as they are."""
        self.fill(None)
        return self._cells(sql)

    def run(self, sql: str) -> Result:
        """The columns and the rows of what a statement answers now."""
        return self._cells(sql)

    def is_public_cell(self, sql: str, column: int) -> bool:
        """Does a column of the answer stay the same, whatever the private values are?"""
        shown = []
        for values in self._other_values():
            self.fill(values)
            shown.append(Counter(repr(plain(row[column])) for row in self._cells(sql)[1]))
        self.fill(None)
        return all(each == Counter(repr(plain(row[column])) for row in self._cells(sql)[1]) for each in shown)

    def hands_out_rows(self, sql: str) -> bool:
        """Does it show as many rows more as everybody is there more often, and other ones of other private values?"""
        try:
            shown = self.run_on_data(sql)[1]
            if not shown or any(self._count_repeated(sql, times) != times * len(shown) for times in (2, 3)):
                return False  # groups, perhaps more of them
            for values in self._other_values():
                self.fill(values)
                if Counter(map(repr, self._cells(sql)[1])) != Counter(map(repr, shown)):
                    return True
        except Cannot:
            pass  # it is no SELECT that runs here
        return False

    def _count_repeated(self, sql: str, times: int) -> int:
        """How many rows a statement shows of the data where everybody is there several times."""
        self.fill(None)
        name = f"keyhole_times_{times}"
        if name not in self._results:
            repeated = " UNION ALL ".join([f"SELECT * FROM {self._table}"] * times)
            self._con.execute(f"CREATE OR REPLACE TABLE {name} AS {repeated}")
            self._results[name] = {}
        self._table = name
        return len(self._cells(sql)[1])

    def _other_values(self) -> list[dict[str, list[Any]]]:
        """Private values that nobody has: very small ones, and very large ones; other types stay as they are."""
        if self._others is None:
            self._others = []
            for sign in (-1, 1):
                made: dict[str, list[Any]] = {}
                for name in self.private:
                    made[name] = [sign * (10**9 + 17 * r) for r in range(self.n)]
                    if self.types[name] == "VARCHAR":
                        made[name] = [f"{sign} {r}" for r in range(self.n)]
                    elif not self.numeric(name):
                        held = self.real_values(name)
                        made[name] = [not v for v in held] if self.types[name] == "BOOLEAN" else held
                self._others.append(made)
        return self._others

    def names(self, sql: str) -> list[str]:
        """The columns of the answer of a statement."""
        if self._table not in self._results:  # nothing is filled in yet
            private = [f"CAST(NULL AS {self.types[name]}) AS {quoted(name)}" for name in self.private]
            public = [quoted(name) for name in self.columns if name not in self.private]
            self._con.execute(
                f"CREATE OR REPLACE TABLE keyhole_filled AS SELECT {', '.join((*private, *public))} FROM keyhole_people"
            )
            self._table, self._results["keyhole_filled"] = "keyhole_filled", {}
        return self._cells(sql)[0]

    def _cells(self, sql: str) -> Result:
        results = self._results[self._table]
        if sql not in results:
            try:
                self._name_tables(sql)
                ran = self._con.execute(sql)
                results[sql] = ([str(d[0]) for d in ran.description or ()], ran.fetchall())
            except self._error as error:
                said = str(error).splitlines()[0]
                kind = CastOverflow if said.startswith(("Conversion Error", "Out of Range Error")) else Cannot
                raise kind(f"the statement does not run here: {said}") from None
        return results[sql]

    def _name_tables(self, sql: str) -> None:
        """Whatever a statement selects from shows what is filled in now."""
        if sql not in self._asked:
            found = self._con.extract_statements(sql)
            if len(found) != 1 or found[0].type != self._select:
                raise Cannot("it is not one SELECT")
            self._asked[sql] = frozenset(self._apart.get_table_names(sql))
        listed = ", ".join(quoted(c) for c in (*self.columns, *(p for p in self.private if p not in self.columns)))
        only = " WHERE keyhole_pick = getvariable('keyhole_pick')" if self._table in PICKED else ""
        for name in self._asked[sql]:
            if name.startswith("keyhole_"):
                raise Cannot(f"it selects from {name}")
            if self._views.get(name) != self._table:
                shown = f"SELECT {listed} FROM {self._table}{only}"
                self._con.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {shown}")
                self._views[name] = self._table


def read_cell(cited: Addend, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Any:
    """The cell that a proof cites, of an answer: a value, None for NULL, or NOBODY."""
    key = dict(cited.key or {})
    low = [name.casefold() for name in names]
    at = []
    for name in key:
        if low.count(name.casefold()) != 1:
            raise Cannot("the answer does not show the key of its group")
        at.append(low.index(name.casefold()))
    if cited.besides is not None:
        listed = {_key(other, low) for other in cited.besides}
        shown = [row for row in rows if all(plain(row[i]) == plain(v) for i, v in zip(at, key.values(), strict=True))]
        return sum(_row_key(row, cited.besides, low) not in listed for row in shown) or None
    rows = [row for row in rows if all(plain(row[i]) == plain(v) for i, v in zip(at, key.values(), strict=True))]
    if cited.rows:
        return len(rows) or NOBODY
    if len(rows) > 1:
        raise Cannot("several rows of the answer have this key")
    if (cited.test or {}).get("shown"):
        return bool(rows)
    if not rows:
        return NOBODY
    rest = [i for i in range(len(names)) if i not in at]
    if cited.column is not None and 1 <= cited.column <= len(names):
        return rows[0][cited.column - 1]
    if len(rest) == 1:
        return rows[0][rest[0]]
    raise Cannot("the verdict does not say which column of the answer is meant")


def exact(value: Any) -> Any:
    """A value as it can be compared: a DOUBLE by its shortest decimal.

    >>> exact(0.1), exact(True), exact("flu")
    (Fraction(1, 10), True, 'flu')
    """
    return Fraction(repr(value)) if isinstance(value, float) else plain(value)


def _common_step(values: Sequence[Fraction]) -> Fraction:
    """The greatest number of which all differences are multiples; 1 if there is one value.

    >>> str(_common_step([Fraction(1), Fraction(5, 2), Fraction(3)]))
    '1/2'
    """
    over = math.lcm(*(v.denominator for v in values))
    return Fraction(math.gcd(*(int((v - values[0]) * over) for v in values)), over) or Fraction(1)


def _decimals(value: Fraction) -> int:
    """How many decimals a number has.

    >>> _decimals(Fraction("3.25")), _decimals(Fraction(7)), _decimals(Fraction(1, 3)) > 6
    (2, 0, True)
    """
    return next((d for d in range(20) if (value * 10**d).denominator == 1), 20)


def _in_folder(data: Path, table: str | None) -> Path:
    """The file of a table in a folder of files, a table each; any other path as it is."""
    if not data.is_dir():
        return data
    files = [p for p in sorted(data.iterdir()) if p.suffix.lower() in READERS]
    found = [p for p in files if table is None or p.stem == table]
    if len(found) != 1:
        raise Unreadable(f"the folder {data.name} holds {len(files)} tables: choose the people's with --table")
    return found[0]


def wide_enough(held: str, values: Sequence[Any]) -> str:
    """A type for these made-up values: DECIMAL(18,6), in which products fit, holds twelve digits before the point.

    >>> wide_enough("DECIMAL(18,6)", [1, None]), wide_enough("DECIMAL(18,6)", [Fraction(10**12)])
    ('DECIMAL(18,6)', 'DECIMAL(38,6)')
    """
    large = held == DECIMAL and any(abs(number(v) or Fraction(0)) >= 10**12 for v in values)
    return "DECIMAL(38,6)" if large else held


def written(value: Any) -> str:
    """A made-up value as text that the engine casts."""
    if isinstance(value, Fraction):
        return str(Decimal(value.numerator) / Decimal(value.denominator))
    return str(value)


def _key(other: Mapping[str, Any], names: Sequence[str]) -> str:
    return json.dumps(sorted((k.casefold(), str(plain(v))) for k, v in other.items() if k.casefold() in names))


def _row_key(row: Sequence[Any], besides: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    wanted = {k.casefold() for other in besides for k in other}
    return json.dumps(sorted((name, str(plain(v))) for name, v in zip(names, row, strict=True) if name in wanted))
