"""Counts of people by conditions on their records, replayed: read by execution, then forced step by step.

The certificate says of each count which records it looks at (public conditions) and which yes-or-no conditions must
hold or fail. That this is what the statement counts is checked on shuffled tables: private columns and the keys of rows
are dealt out anew, and the original statement must answer what the certificate counts. Then the counts are propagated
by a second, plain program: a count that is reached leaves nobody else, one that needs all takes all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from .claims import Addend, Claimed, fraction, number
from .engine import READERS, Cannot, Fails, plain, quoted, text, written
from .fillings import Maker, constants
from .tables import allows

NAME = r'"(?:[^"]|"")+"'
HAS = re.compile(  # some row of another table, as a condition on keys
    rf"\(\((?:(?:{NAME} IS NOT NULL AND )+\((?:{NAME}(?:, )?)+\)|{NAME}) IN \(SELECT (?:\((?:{NAME}(?:, )?)+\)|{NAME}) "
    rf"FROM \"keyhole (?P<table>(?:[^\"]|\"\")+)\" WHERE (?:{NAME} IS NOT NULL AND )+\((?P<where>.*)\)\)\) IS TRUE\)",
    re.DOTALL,
)
Literal = tuple[Any, bool]  # an instance of a condition, and whether it must hold


class PeopleCounts:
    """Replays counts of people on tables that are dealt out anew."""

    def __init__(self, dealt: DealtTables, maker: Maker) -> None:
        self.dealt, self.maker = dealt, maker
        self._held: dict[Any, Any] = {}
        self._sound: set[str] = set()

    @property
    def _con(self) -> Any:
        return self.dealt.con

    def check(self, claim: Claimed, rows: Sequence[int]) -> None:
        """The condition of the claim, on these rows, follows from its counts by propagation."""
        import duckdb

        try:
            self._check(claim, rows)
        except duckdb.Error:
            raise Cannot("the engine refuses a statement or a condition of it") from None

    def _check(self, claim: Claimed, rows: Sequence[int]) -> None:
        told = claim.certificate
        conditions = told.get("conditions") or ()
        if "some" not in told and (not conditions or (claim.rows and len(conditions) != 1)):
            raise Cannot("the certificate names no condition")
        if conditions and claim.rows and claim.value is not None and bool(claim.value) != bool(conditions[0]["holds"]):
            raise Fails("the certificate shows something else")
        if claim.form:
            self._as_worded(claim, rows)
        self.dealt.open(told)
        cited = {c.query: c for c in claim.proof if c.query}
        for count in told["counts"]:
            self._counts_that(count, cited)
        for pair in told.get("implied") or ():
            self._implies(told["atoms"], *pair)
        value, known = self._propagated(told, cited)
        if "some" in told:
            self._one_of(told, value, known, rows)
            return
        for condition in conditions:
            self._shown(told, condition, value, rows, cited)
        if not claim.rows:
            self._leaves(claim, told, conditions)

    def _as_worded(self, claim: Claimed, rows: Sequence[int]) -> None:
        """What is said in words, the grade and the column are those of the certificate."""
        told = claim.certificate
        if "some" in told:
            clauses = told["counts"][int(told["some"])]["clauses"]
            said = [" and ".join(in_words(told["atoms"][a]["sql"], bool(h)) for a, h in c["literals"]) for c in clauses]
            form, grade, column = (
                f"one of {len(rows)} records: {' or '.join(dict.fromkeys(said))}",
                "one of his",
                "records",
            )
            status, value = "inferred", None
        else:
            condition = told["conditions"][0]
            atom, holds = told["atoms"][int(condition["atom"])], bool(condition["holds"])
            form, grade = in_words(atom["sql"], holds), "shown to have" if holds else "shown not to have"
            has = HAS.fullmatch(atom["sql"])
            column = atom.get("column") if has is None else has["table"].replace('""', '"')
            status, value = ("exposed", True) if holds else ("inferred", None)
            listed = f" (record {', '.join(str(r + 1) for r in sorted(rows))})"
            form = form + listed if claim.form.endswith(listed) else form
        if (claim.form, claim.grade, claim.column, claim.status) != (form, grade, column, status):
            raise Fails("its words, its grade or its column are not those of the certificate")
        if claim.value not in (value, None):
            raise Fails("the value is not that of the certificate")

    def _one_of(
        self,
        told: Mapping[str, Any],
        value: Mapping[Any, int],
        known: Mapping[tuple[int, Any], int],
        rows: Sequence[int],
    ) -> None:
        """Somebody is counted, and it can be for these records only."""
        at = int(told["some"])
        count = told["counts"][at]
        owner = count["owner"] or "keyhole_row"
        listed = ", ".join(str(int(r) + 1) for r in rows)
        sql = f"SELECT DISTINCT {owner} FROM keyhole_people WHERE keyhole_row IN ({listed})"
        owners = [row[0] for row in self._con.execute(sql).fetchall()]
        if len(owners) != 1:
            raise Fails("the records are not of one owner")
        if known.get((at, owners[0])) != 1:
            raise Cannot("propagation alone does not show it: differences of counts or whole classes are needed")
        for row, wanted in self._alternatives(told["atoms"], count, owners[0]):
            if row not in rows and _conjunction(wanted, value) != 0:
                raise Fails("another record may be why")

    def _shown(
        self,
        told: Mapping[str, Any],
        condition: Mapping[str, Any],
        value: Mapping[Any, int],
        rows: Sequence[int],
        cited: Mapping[str, Addend],
    ) -> None:
        """One condition holds, or fails, on these rows."""
        atom = told["atoms"][int(condition["atom"])]
        wanted = int(bool(condition["holds"]))
        found = {value.get(self._instance(int(condition["atom"]), atom, r)) for r in rows}
        if found == {1 - wanted}:
            raise Fails("the counts force the opposite")
        if found != {wanted}:
            raise Cannot("propagation alone does not show it: differences of counts or whole classes are needed")
        true = self._truths(atom["sql"])
        if any(true[r] != wanted for r in rows) and self._real(told, cited):
            raise Fails("it is not true of the data, while the answers are")

    def _leaves(self, claim: Claimed, told: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> None:
        """Does every value that satisfies the conditions satisfy the claim? One of each cell that they cut is tried."""
        asked = [(told["atoms"][int(c["atom"])], bool(c["holds"])) for c in conditions]
        if any(atom.get("column") != claim.column for atom, _ in asked):
            raise Fails("the conditions are on another column")
        said_of_it = [v for v in (*claim.excluded, *claim.allowed, claim.value, claim.lo, claim.hi) if v is not None]
        numbers, words = constants([atom["sql"] for atom, _ in asked], said_of_it)
        declared = (told.get("declared") or {}).get(claim.column)
        kind = self.maker.engine.types[claim.column]
        for each in self.maker.values(self.maker.cells(claim.column, numbers, words, declared)):
            row = f"SELECT CAST({text(written(each))} AS {kind}) AS {quoted(claim.column)}"
            said = ", ".join(f"({atom['sql']}) IS TRUE" for atom, _ in asked)
            truths = self._con.execute(f"SELECT {said} FROM ({row})").fetchall()[0]
            if all(bool(t) is h for t, (_, h) in zip(truths, asked, strict=True)) and not allows(claim, each):
                raise Fails("the conditions leave more than is claimed")

    # what a statement counts

    def _counts_that(self, count: Mapping[str, Any], cited: Mapping[str, Addend]) -> None:
        """Does the statement count what the certificate says? On shuffled tables, and as it was answered."""
        one = cited.get(str(count["query"]))
        if one is None or one.sql is None:
            raise Fails("the certificate uses a count that the proof does not name")
        if not one.answered or count.get("other"):
            raise Cannot("an answer that is no plain count of people")
        key = repr((one.sql, one.key, one.column, count["owner"], count["clauses"]))
        if key in self._sound:
            return
        for _ in range(TRIALS):
            self.dealt.deal(shuffled=True)
            if self._answer_of(one) != self._counted(count):
                self.dealt.deal(shuffled=False)
                if number(one.answer) is None:
                    raise Cannot("a NULL says that nobody is counted, and the statement prints no count")
                raise Fails("the statement does not count what the certificate says")
        self.dealt.deal(shuffled=False)
        self._sound.add(key)

    def _answer_of(self, one: Addend) -> int:
        """The cell of the answer now; 0 for a group that is not shown."""
        return int(self.dealt.cell(one) or 0)

    def _counted(self, count: Mapping[str, Any]) -> int:
        owner = count["owner"] or "keyhole_row"
        said = self._con.execute(f"SELECT count(DISTINCT {owner}) FROM keyhole_people WHERE {_where(count)}").fetchall()
        return int(said[0][0])

    def _real(self, told: Mapping[str, Any], cited: Mapping[str, Addend]) -> bool:
        return all(number(cited[str(c["query"])].answer) == self._counted(c) for c in told["counts"])

    def _implies(self, atoms: Sequence[Mapping[str, Any]], a: int, holds: bool, b: int, then: bool) -> None:
        left, right = (f"({atoms[i]['sql']}) IS {'' if w else 'NOT '}TRUE" for i, w in ((a, holds), (b, then)))
        key = f"{left} -> {right}"
        for _ in range(TRIALS if key not in self._sound else 0):
            self.dealt.deal(shuffled=True)
            null = (
                " AND ".join(f"{quoted(c)} IS NOT NULL" for i in (a, b) for c in (atoms[i].get("on") or [])) or "TRUE"
            )
            wrong = self._con.execute(f"SELECT 1 FROM keyhole_people WHERE {null} AND {left} AND NOT ({right}) LIMIT 1")
            if wrong.fetchall():
                self.dealt.deal(shuffled=False)
                raise Fails("one condition does not imply the other")
        self.dealt.deal(shuffled=False)
        self._sound.add(key)

    # propagation

    def _truths(self, sql: str) -> list[int]:
        rows = self._con.execute(
            f"SELECT coalesce(({sql})::INT, 0) FROM keyhole_people ORDER BY keyhole_row"
        ).fetchall()
        return [int(row[0]) for row in rows]

    def _instance(self, at: int, atom: Mapping[str, Any], row: int) -> Any:
        """The instance of a condition that a record looks at; None if it is surely false."""
        if at not in self._held:
            on = atom.get("on")
            listed = (
                ", ".join(map(quoted, on))
                if on
                else f"CASE WHEN {quoted(atom['column'])} IS NOT NULL THEN keyhole_row END"
            )
            self._held[at] = (
                atom["sql"],
                self._con.execute(f"SELECT {listed} FROM keyhole_people ORDER BY keyhole_row").fetchall(),
            )
        sql, keys = self._held[at]
        if sql != atom["sql"]:
            del self._held[at]
            return self._instance(at, atom, row)
        return None if None in keys[row] else (sql, keys[row])

    def _propagated(
        self, told: Mapping[str, Any], cited: Mapping[str, Addend]
    ) -> tuple[dict[Any, int], dict[tuple[int, Any], int]]:
        """What is known of conditions, and of who is in which count."""
        value: dict[Any, int] = {}
        known: dict[tuple[int, Any], int] = {}  # (count, owner) -> is he counted
        atoms = told["atoms"]
        owners = [self._owners(atoms, count) for count in told["counts"]]
        answers = [int(number(cited[str(c["query"])].answer) or 0) for c in told["counts"]]
        ties = [
            ((i, bool(h)), (j, bool(t)), r)
            for i, h, j, t in told.get("implied") or ()
            for r in range(len(self._truths("TRUE")))
        ]
        pairs = {
            (self._instance(a[0], atoms[a[0]], r), a[1], self._instance(b[0], atoms[b[0]], r), b[1]) for a, b, r in ties
        }
        before = -1
        while before != len(value) + len(known):
            before = len(value) + len(known)
            for k, (mine, answer) in enumerate(zip(owners, answers, strict=True)):
                _count(k, mine, answer, value, known)
            for a, h, b, t in pairs:
                if a is not None and b is not None:
                    if value.get(a) == int(h):
                        value[b] = int(t)
                    if value.get(b) == int(not t):
                        value[a] = int(not h)
        return value, known

    def _alternatives(
        self, atoms: Sequence[Mapping[str, Any]], count: Mapping[str, Any], who: Any
    ) -> Iterator[tuple[int, list[Literal]]]:
        """The records of an owner that may count him, each with what must hold."""
        owner = count["owner"] or "keyhole_row"
        for clause in count["clauses"]:
            sql = f"SELECT keyhole_row FROM keyhole_people WHERE ({clause['where']}) AND {owner} = ?"
            for (row,) in self._con.execute(sql, [who]).fetchall():
                wanted = [(self._instance(a, atoms[a], row - 1), bool(h)) for a, h in clause["literals"]]
                if not any(x is None and h for x, h in wanted):
                    yield row - 1, [(x, h) for x, h in wanted if x is not None]

    def _owners(self, atoms: Sequence[Mapping[str, Any]], count: Mapping[str, Any]) -> dict[Any, list[list[Literal]]]:
        """For each owner the conjunctions that count him, those that are surely false left out."""
        found: dict[Any, list[list[Literal]]] = {}
        owner = count["owner"] or "keyhole_row"
        for clause in count["clauses"]:
            sql = f"SELECT keyhole_row, {owner} FROM keyhole_people WHERE {clause['where']}"
            for row, who in self._con.execute(sql).fetchall():
                if who is None:
                    continue
                wanted = [(self._instance(a, atoms[a], row - 1), bool(h)) for a, h in clause["literals"]]
                if not any(x is None and h for x, h in wanted):
                    found.setdefault(who, []).append([(x, h) for x, h in wanted if x is not None])
        return found


def in_words(sql: str, holds: bool) -> str:
    """A condition as what somebody has.

    >>> sql = '(("id" IN (SELECT "who" FROM "keyhole visits" WHERE "who" IS NOT NULL AND ("ward" > 3))) IS TRUE)'
    >>> in_words(sql, False)
    'has no row in visits with "ward" > 3'
    """
    has = HAS.fullmatch(sql)
    if has is None:
        return sql if holds else f"NOT {sql}"
    name = has["table"].replace('""', '"')
    return f"has {'a' if holds else 'no'} row in {name}" + ("" if has["where"] == "TRUE" else f" with {has['where']}")


def _where(count: Mapping[str, Any]) -> str:
    parts = []
    for clause in count["clauses"]:
        literals = [f"(({sql}) IS {'' if holds else 'NOT '}TRUE)" for sql, holds in clause["sql"]]
        parts.append(" AND ".join([f"({clause['where']})", *literals]))
    return " OR ".join(f"({part})" for part in parts) or "FALSE"


def _conjunction(parts: Sequence[Literal], value: Mapping[Any, int]) -> int | None:
    truths = [None if x not in value else int(value[x] == int(h)) for x, h in parts]
    return 0 if 0 in truths else None if None in truths else 1


def _count(
    k: int, owners: Mapping[Any, list[list[Literal]]], answer: int, value: dict[Any, int], known: dict[Any, int]
) -> None:
    """One count: who is surely in it, who cannot be, and what follows if it is reached or needs all."""
    for who, clauses in owners.items():
        truths = [_conjunction(c, value) for c in clauses]
        if 1 in truths:
            known[k, who] = 1
        elif all(t == 0 for t in truths):
            known[k, who] = 0
    sure = sum(known.get((k, who)) == 1 for who in owners)
    left = [who for who in owners if (k, who) not in known]
    if sure > answer or sure + len(left) < answer:
        raise Fails("the counts cannot all be true")
    if left and sure in (answer, answer - len(left)):
        known |= {(k, who): int(sure != answer) for who in left}
    for who, clauses in owners.items():
        if known.get((k, who)) == 0:
            for c in clauses:
                open_ = [(x, h) for x, h in c if x not in value]
                if len(open_) == 1 and all(value[x] == int(h) for x, h in c if x in value):
                    value[open_[0][0]] = int(not open_[0][1])
        elif known.get((k, who)) == 1:
            alive = [c for c in clauses if _conjunction(c, value) != 0]
            if len(alive) == 1:
                value.update({x: int(h) for x, h in alive[0]})


# --- dealt ------------------------------------------------------------------------------------------------------------
# The people of a verdict and their rows, with private columns and the owners of rows dealt out anew for each trial.
# Nothing is read from a statement here: it is run as it was written, in a database in memory that is closed to files.


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


# --- alone ------------------------------------------------------------------------------------------------------------
# Sums of answers that are about one person: his records alone give the same, whatever everybody else is.
# On tables dealt out anew (private columns and the owners of rows by chance) the weighted answers of the statements,
# as they were written, must be what the certificate says of the records of one person; then the printed answers must
# give what is claimed. A certificate that is wrong about somebody passes a trial only if what he adds happens to
# vanish.


DEALS = 24
# what is said of a person's records: an aggregate, of how many, with which condition; compared, and how that came out
FORM = re.compile(
    r"(?P<word>total|average|number|count|[A-Z_]+\((?P<inner>.+?)\))(?: (?P<column>.+?)(?P<square>²)?)?"
    r"(?: (?P<op>>=|<=|<>|=|>|<) (?P<at>-?[\d.]+))? of (?P<records>\d+) records?"
    r"(?: with (?P<where>.+?))?(?: is (?P<truth>true|false))?",
    re.DOTALL,
)
DUST = Fraction(1, 10**9)  # of a sum: floating-point averages


class AloneSums:
    """Replays sums of answers about one person's records."""

    def __init__(self, dealt: DealtTables) -> None:
        self.dealt = dealt

    def check(self, claim: Claimed, rows: Sequence[int]) -> None:
        """The claim about these rows is what its answers give."""
        import duckdb

        try:
            self._check(claim, rows)
        except duckdb.Error:
            raise Cannot("the engine refuses a statement or a condition of it") from None

    def _check(self, claim: Claimed, rows: Sequence[int]) -> None:
        told = claim.certificate
        own = {r + 1 for r in rows}
        if not all(set(part["rows"]) <= own for part in told["parts"]):
            raise Fails("the certificate adds up records that the claim does not name")
        cited = [c for c in claim.proof if c.query]
        constant, off = fraction(told["constant"]), fraction(told["off"])
        self.dealt.open(told)
        self._holds_as_it_is(claim, cited, constant, off)
        words = self._words(claim, rows, cited)
        try:
            for _ in range(DEALS):
                self.dealt.deal(shuffled=True)
                self._same(cited, told["parts"], constant, off)
                if not _close(self._parts(told["parts"]), self._parts([words]), off):
                    raise Cannot("its words do not say what its certificate proves")
        finally:
            self.dealt.deal(shuffled=False)
        said = sum((c.weight * _amount(c.answer) for c in cited), constant)
        real = all(_close(_amount(self.dealt.cell(c)), _amount(c.answer), Fraction(0)) for c in cited)
        if real and not _close(self._parts(told["parts"]), said, off):
            raise Fails("it is not true of the data, while the answers are")

    def _words(self, claim: Claimed, rows: Sequence[int], cited: Sequence[Addend]) -> dict[str, Any]:
        """What is said in words, as a part of a certificate: it must come to the same."""
        said = FORM.fullmatch(claim.form)
        if (
            said is None
            or int(said["records"]) != len(rows)
            or claim.column not in (*claim.form.split(), *_names(said))
        ):
            raise Cannot("its words are not read here")
        name = said["inner"] or said["column"]
        of = "1" if name is None else f"{quoted(name)} * {quoted(name)}" if said["square"] else quoted(name)
        plain = {"total": "SUM", "average": "AVG", "number": "SUM", "count": "SUM"}
        select = f"{plain.get(said['word']) or said['word'].partition('(')[0]}({of})"
        select += f" FILTER (WHERE {_condition(said['where'], claim.certificate['tables'])})" if said["where"] else ""
        if (said["op"] is None) != (said["truth"] is None):
            raise Cannot("its words do not say how a comparison came out")
        if said["op"] is not None:
            select = f"({select}) {said['op']} {said['at']}"
            if len(cited) != 1 or cited[0].answer is not (said["truth"] == "true"):
                raise Fails("the comparison came out otherwise than is said")
        return {"weight": "1", "select": select, "rows": [r + 1 for r in rows]}

    def _holds_as_it_is(self, claim: Claimed, cited: Sequence[Addend], constant: Fraction, off: Fraction) -> None:
        """Do the printed answers give what is claimed?"""
        if any(not c.answered for c in cited):
            raise Cannot("an answer is not in the verdict")
        said = sum((c.weight * _amount(c.answer) for c in cited), constant)
        value, lo, hi = number(claim.value), number(claim.lo), number(claim.hi)
        if value is not None and not _close(said, value, off):
            raise Fails("the answers do not give the value")
        if value is None and claim.status == "exposed":
            raise Fails("there is no value")
        room = off + DUST * max(Fraction(1), abs(said))
        if (lo is not None and lo > said + room) or (hi is not None and hi < said - room):
            raise Fails("the answers lie outside the range")
        narrow = lo is not None and hi is not None and value is None and hi - lo < 2 * off - room * DUST
        if narrow:
            raise Fails("the range is narrower than the answers")

    def _same(
        self, cited: Sequence[Addend], parts: Sequence[Mapping[str, Any]], constant: Fraction, off: Fraction
    ) -> None:
        asked = sum((c.weight * _amount(self.dealt.cell(c)) for c in cited), constant)
        if not _close(asked, self._parts(parts), off):
            raise Fails("the answers are not about these records alone")

    def _parts(self, parts: Sequence[Mapping[str, Any]]) -> Fraction:
        total = Fraction(0)
        for part in parts:
            listed = ", ".join(str(int(r)) for r in part["rows"])
            his = f"(SELECT * FROM keyhole_people WHERE keyhole_row IN ({listed})) keyhole_people"
            sql = f"SELECT {part['select']} FROM {his}"
            if len(self.dealt.con.extract_statements(sql)) != 1:
                raise Cannot("a part of the certificate is not one expression")
            total += fraction(part["weight"]) * _amount(self.dealt.con.execute(sql).fetchall()[0][0])
        return total


def _names(said: re.Match[str]) -> list[str]:
    """The columns that are named: the one that is added up, and those of the condition."""
    return [said["inner"] or said["column"] or "records", *re.findall(r'"((?:[^"]|"")+)"', said["where"] or "")]


def _condition(where: str, tables: Sequence[Mapping[str, Any]]) -> str:
    """A condition in words as SQL: that there is a row in another table is a condition on its keys."""
    has = re.fullmatch(r"(?P<some>a|no) row in (?P<table>.+?)(?: with (?P<inside>.+))?", where, re.DOTALL)
    if has is None:
        return where
    keys = [pair for t in tables if t["name"] == has["table"] for pair in t["keys"]]
    same = "".join(f" AND r.{quoted(own)} = keyhole_people.{quoted(other)}" for own, other in keys)
    inside = f"(SELECT * FROM {quoted('keyhole ' + has['table'])} WHERE {has['inside'] or 'TRUE'}) r"
    return f"{'' if has['some'] == 'a' else 'NOT '}EXISTS (SELECT 1 FROM {inside} WHERE TRUE{same})"


def _amount(value: Any) -> Fraction:
    """A cell as a number: NULL and a group that is not shown add nothing."""
    if isinstance(value, bool):
        return Fraction(int(value))
    found = number(value)
    if found is None and value is not None:
        raise Cannot("an answer is no number")
    return found or Fraction(0)


def _close(a: Fraction, b: Fraction, off: Fraction) -> bool:
    return abs(a - b) <= off + DUST * max(Fraction(1), abs(a), abs(b))
