"""Counts of people by conditions on their records, replayed: read by execution, then forced step by step.

The certificate says of each count which records it looks at (public conditions) and which yes-or-no conditions must
hold or fail. That this is what the statement counts is checked on shuffled tables: private columns and the keys of rows
are dealt out anew, and the original statement must answer what the certificate counts. Then the counts are propagated
by a second, plain program: a count that is reached leaves nobody else, one that needs all takes all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .claims import Addend, Claimed, number
from .counts import allows
from .dealt import TRIALS, DealtTables
from .engine import Cannot, Fails, quoted, text, written
from .fillings import Maker, constants

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
            if self._asked(one) != self._counted(count):
                self.dealt.deal(shuffled=False)
                raise Fails("the statement does not count what the certificate says")
        self.dealt.deal(shuffled=False)
        self._sound.add(key)

    def _asked(self, one: Addend) -> int:
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
