"""The people of a verdict and their rows, with private columns and the owners of rows dealt out anew for each trial.

Nothing is read from a statement here: it is run as it was written, in a database in memory that is closed to files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .claims import Addend
from .engine import READERS, Cannot, plain, quoted, text

TRIALS = 10


class DealtTables:
    """A database in memory with the table of the people, its dimensions joined, and the rows of other tables.

    `keyhole_people` has a row for each record of the people's table, in its order, numbered from 1.
    """

    def __init__(self, data: Path, private: Sequence[str]) -> None:
        self.data, self.private = data, private
        self.con: Any = None
        self._attached = False
        self._main = ""
        self._tables: list[Mapping[str, Any]] = []
        self._named: set[str] = set()

    def cell(self, one: Addend) -> Any:
        """The cell of an answer now: None for NULL, and for a group that is not shown."""
        self._name_tables(one.sql or "")
        result = self.con.execute(one.sql)
        names = [str(d[0]).casefold() for d in result.description]
        for row in result.fetchall():
            named = {n: plain(v) for n, v in zip(names, row, strict=True)}
            if all(named.get(str(k).casefold(), ...) == plain(v) for k, v in (one.key or {}).items()):
                return row[(one.column or len(row)) - 1] if one.besides is None else 1
        return None

    def _name_tables(self, sql: str) -> None:
        """Of a file with one table, whatever a statement selects from is that table."""
        if self._tables or sql in self._named:
            return
        self._named.add(sql)
        for name in self.con.get_table_names(sql):
            if name.casefold() != self._main.casefold():
                if name.startswith(("keyhole", "real ")):
                    raise Cannot(f"it selects from {name}")
                self.con.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT * FROM {quoted(self._main)}")

    def close(self) -> None:
        """Let go of the database, if there is one."""
        if self.con is not None:
            self.con.close()

    def open(self, told: Mapping[str, Any]) -> None:
        """The tables that a certificate names; the file itself is closed then."""
        if self.con is not None:
            if (self._main, self._tables) != (told["table"], list(told["tables"])):
                raise Cannot("the certificates of the verdict name different tables")
            return
        import duckdb

        names = [t["name"] for t in told["tables"]]
        main = told["table"]
        self._several(main, names)
        self.con = duckdb.connect(":memory:")
        for name in (main, *names):
            self.con.execute(
                f"CREATE TABLE {quoted('real ' + name)} AS SELECT * FROM {self._origin(name, alone=not names)}"
            )
        if self._attached:
            self.con.execute("DETACH file")
        self._main, self._tables = main, list(told["tables"])
        self.con.execute("SET threads = 1; SET enable_external_access = false; SET lock_configuration = true")
        self.deal(shuffled=False)

    def _several(self, main: str, names: list[str]) -> None:
        """Is it all there? What is not is said of every proof, with what to give instead."""
        if self.data.is_dir():
            there = {p.stem for p in self.data.iterdir() if p.suffix.lower() in READERS}
            if missing := [name for name in (main, *names) if name not in there]:
                raise Cannot(f"the folder {self.data.name} has no file for the table {missing[0]}: put it there")
        elif names and self.data.suffix.lower() not in (".duckdb", ".db"):
            raise Cannot(
                f"it is about {len(names) + 1} tables ({', '.join((main, *names))}), and {self.data.name} is one of "
                f"them: give all, -c keyhole.toml, or --data FOLDER --table {main}"
            )

    def _origin(self, name: str, *, alone: bool) -> str:
        if self.data.is_dir():
            found = [p for p in sorted(self.data.iterdir()) if p.stem == name and p.suffix.lower() in READERS]
            return READERS[found[0].suffix.lower()].format(text(str(found[0])), "")
        suffix = self.data.suffix.lower()
        if suffix in READERS and alone:
            return READERS[suffix].format(text(str(self.data)), "")
        if suffix not in (".duckdb", ".db"):
            raise Cannot(f"{self.data.name} is no file that the checker reads: .csv, .tsv, .parquet, .json or .duckdb")
        if not self._attached:
            self.con.execute(f"ATTACH {text(str(self.data))} AS file (READ_ONLY)")
            self._attached = True
        return f"file.{quoted(name)}"

    def deal(self, *, shuffled: bool) -> None:
        """The tables as they are, or with private columns and the owners of rows dealt out anew."""
        real, main = quoted("real " + self._main), quoted(self._main)
        columns = [str(row[0]) for row in self.con.execute(f"DESCRIBE {real}").fetchall()]
        listed = [f"p.{quoted(c)}" if c not in self.private or not shuffled else f"q.{quoted(c)}" for c in columns]
        first = f"SELECT *, row_number() OVER (ORDER BY rowid) AS keyhole_row FROM {real}"
        drawn = f"SELECT *, random() AS keyhole_drawn FROM {real}"
        other = f"SELECT *, row_number() OVER (ORDER BY keyhole_drawn) AS keyhole_row FROM ({drawn})"
        made = f"SELECT {', '.join(listed)}, p.keyhole_row FROM ({first}) p JOIN ({other}) q USING (keyhole_row)"
        joins, more = "", []
        for t in self._tables:
            name = quoted("keyhole " + t["name"])
            self.con.execute(f"CREATE OR REPLACE TABLE {name} AS {self._rows(t, shuffled=shuffled)}")
            self.con.execute(f"CREATE OR REPLACE TABLE {quoted(t['name'])} AS SELECT * FROM {name}")
            if t["dimension"]:
                own = [str(row[0]) for row in self.con.execute(f"DESCRIBE {name}").fetchall()]
                same = " AND ".join(f"m.{quoted(b)} = {name}.{quoted(a)}" for a, b in t["keys"])
                joins += f" LEFT JOIN {name} ON {same}"
                more += [f"{name}.{quoted(c)} AS {quoted(t['name'] + '.' + c)}" for c in own]
        wide = ", ".join(["m.*", *more])
        self.con.execute(
            f"CREATE OR REPLACE TABLE keyhole_people AS SELECT {wide} FROM ({made}) m{joins} ORDER BY keyhole_row"
        )
        self.con.execute(
            f"CREATE OR REPLACE TABLE {main} AS SELECT {', '.join(map(quoted, columns))} FROM keyhole_people"
        )

    def _rows(self, t: Mapping[str, Any], *, shuffled: bool) -> str:
        real = quoted("real " + t["name"])
        if t["dimension"] or not shuffled:
            return f"SELECT * FROM {real}"
        keys = dict(t["keys"])
        columns = [str(row[0]) for row in self.con.execute(f"DESCRIBE {real}").fetchall()]
        listed = [f"q.{quoted(keys[c])} AS {quoted(c)}" if c in keys else f"p.{quoted(c)}" for c in columns]
        n = f"(SELECT count(*) FROM {quoted('real ' + self._main)})"
        dealt = f"SELECT *, 1 + floor(random() * {n} * 1.1)::BIGINT AS keyhole_row FROM {real} WHERE random() < 0.7"
        owners = f"SELECT *, row_number() OVER () AS keyhole_row FROM {quoted('real ' + self._main)}"
        return f"SELECT {', '.join(listed)} FROM ({dealt}) p LEFT JOIN ({owners}) q USING (keyhole_row)"
