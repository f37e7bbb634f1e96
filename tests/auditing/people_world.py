"""Small hospitals, row by row: every database that gives the same answers, against what the audit claims.

A person has admissions (some without a key), rows of them, and rows of nobody's admission. A statement is SQL with a
second meaning in Python: what it counts of one person in one state. All states of all people are tried.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.config import Config
from keyhole.model.predicate import Has, Leaf, evaluate_leaf, evaluate_predicate
from keyhole.solve.counting import OPEN, Conflict, Forced, Network, solve

ROWS = (("x", 1), ("x", 2), ("y", 1), ("y", 2))
SUBSETS = tuple(tuple(r for r, keep in zip(ROWS, bits, strict=True) if keep) for bits in product((0, 1), repeat=4))
SETTINGS = """
[source]
table = "adm"
[columns]
id = ["pid"]
[columns.private.ill]
[tables.diag]
keys = ["pid", "hadm"]
private = "all"
"""


@dataclass(frozen=True)
class Unit:
    """One admission as everybody knows it; `key` None: it has no key."""

    key: int | None
    sex: str
    age: int


@dataclass(frozen=True)
class Held:
    """What is private of a person: the illness and rows of each admission, and rows of no admission of his."""

    ill: tuple[str, ...]
    rows: tuple[tuple[tuple[str, int], ...], ...]
    loose: tuple[tuple[str, int], ...]


Person = tuple[Unit, ...]
Counts = Callable[[Person, Held], dict[str, int | None]]  # part of the answer -> what the person adds to it


@dataclass(frozen=True)
class Asked:
    """A statement, and what it says; `how` joins people: sum, max."""

    sql: str
    counts: Counts
    how: str = "sum"
    hidden: int | None = None  # HAVING ... >= this: smaller groups are not shown


def units_where(test: Callable[[Unit, str, tuple[tuple[str, int], ...], Held], bool]) -> Counts:
    return lambda p, h: {"": sum(test(u, i, r, h) for u, i, r in zip(p, h.ill, h.rows, strict=True))}


def people_where(test: Callable[[Unit, str, tuple[tuple[str, int], ...], Held], bool]) -> Counts:
    return lambda p, h: {"": int(any(test(u, i, r, h) for u, i, r in zip(p, h.ill, h.rows, strict=True)))}


def has(rows: tuple[tuple[str, int], ...], code: str, sev: int | None = None) -> bool:
    return any(c == code and sev in (None, s) for c, s in rows)


def every(h: Held) -> tuple[tuple[str, int], ...]:
    """All rows that name the person."""
    return (*h.loose, *(row for rows in h.rows for row in rows))


def statements(draw: random.Random) -> Asked:
    """One statement at random; `rows` of a unit without a key join nothing."""
    code, sev, ill, sex = draw.choice("xy"), draw.choice((None, 1)), draw.choice("ab"), draw.choice("fm")
    asked = f"d.code = '{code}'" + ("" if sev is None else f" AND d.sev = {sev}")
    join = "FROM adm a JOIN diag d ON a.hadm = d.hadm"
    inside = f"SELECT 1 FROM diag d WHERE d.hadm = a.hadm AND {asked}"

    def keyed(u: Unit, rows: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return rows if u.key is not None else ()

    def one(u: Unit, i: str, r: tuple[tuple[str, int], ...], h: Held) -> bool:
        return has(keyed(u, r), code, sev)

    def both(u: Unit, i: str, r: tuple[tuple[str, int], ...], h: Held) -> bool:
        return has(keyed(u, r), "x") and has(keyed(u, r), "y")

    def named(u: Unit, i: str, r: tuple[tuple[str, int], ...], h: Held) -> bool:
        return has(every(h), code, sev)

    def aged(least: bool) -> Counts:
        def value(p: Person, h: Held) -> dict[str, int | None]:
            found = [u.age for u, i, r in zip(p, h.ill, h.rows, strict=True) if one(u, i, r, h)]
            return {"": (min(found) if least else max(found)) if found else None}

        return value

    def by_sex(p: Person, h: Held) -> dict[str, int | None]:
        marked = [(u.sex, one(u, i, r, h)) for u, i, r in zip(p, h.ill, h.rows, strict=True)]
        return {s: int(any(hit for t, hit in marked if t == s)) for s in "fm"}

    people = "COUNT(DISTINCT a.pid)"
    return draw.choice(
        [
            Asked(f"SELECT {people} {join} WHERE {asked}", people_where(one)),
            Asked(
                f"SELECT {people} {join} WHERE {asked} AND a.sex = '{sex}'",
                people_where(lambda u, i, r, h: u.sex == sex and one(u, i, r, h)),
            ),
            Asked(
                f"SELECT {people} {join} WHERE a.ill = '{ill}' AND {asked}",
                people_where(lambda u, i, r, h: i == ill and one(u, i, r, h)),
            ),
            Asked(
                f"SELECT {people} {join} JOIN diag e ON e.hadm = a.hadm WHERE d.code = 'x' AND e.code = 'y'",
                people_where(both),
            ),
            Asked(f"SELECT COUNT(*) FROM adm a WHERE EXISTS ({inside})", units_where(one)),
            Asked(
                f"SELECT COUNT(*) FROM adm a WHERE NOT EXISTS ({inside})",
                units_where(lambda u, i, r, h: not one(u, i, r, h)),
            ),
            Asked(
                f"SELECT COUNT(*) FROM adm a LEFT JOIN diag d ON d.hadm = a.hadm AND {asked} WHERE d.hadm IS NULL",
                units_where(lambda u, i, r, h: not one(u, i, r, h)),
            ),
            Asked(
                f"SELECT {people} FROM adm a LEFT JOIN diag d ON d.hadm = a.hadm AND {asked} WHERE d.hadm IS NULL",
                people_where(lambda u, i, r, h: not one(u, i, r, h)),
            ),
            Asked(f"SELECT {people} FROM adm a JOIN diag d ON d.pid = a.pid WHERE {asked}", people_where(named)),
            Asked(
                f"SELECT COUNT(*) FROM adm a WHERE a.pid IN (SELECT d.pid FROM diag d WHERE {asked})",
                units_where(named),
            ),
            Asked(f"SELECT {people} FROM adm a WHERE a.ill = '{ill}'", people_where(lambda u, i, r, h: i == ill)),
            Asked(
                f"SELECT COUNT(*) FROM adm a WHERE a.ill = '{ill}' OR EXISTS ({inside})",
                units_where(lambda u, i, r, h: i == ill or one(u, i, r, h)),
            ),
            Asked(
                f"SELECT COUNT(*) FROM adm a WHERE a.sex <> '{sex}' AND NOT (a.ill = '{ill}' AND EXISTS ({inside}))",
                units_where(lambda u, i, r, h: u.sex != sex and not (i == ill and one(u, i, r, h))),
            ),
            Asked(f"SELECT MAX(a.age) {join} WHERE {asked}", aged(least=False), "max"),
            Asked(f"SELECT MIN(a.age) {join} WHERE {asked}", aged(least=True), "min"),
            Asked(f"SELECT a.sex, {people} {join} WHERE {asked} GROUP BY a.sex", by_sex),
            Asked(f"SELECT a.sex, {people} {join} WHERE {asked} GROUP BY a.sex HAVING {people} >= 2", by_sex, "sum", 2),
        ]
    )


REFUSED = (
    "SELECT COUNT(*) FROM adm a JOIN diag d ON a.hadm = d.hadm WHERE d.code = 'x'",
    "SELECT SUM(a.age) FROM adm a JOIN diag d ON a.hadm = d.hadm WHERE d.code = 'x'",
    "SELECT COUNT(*) FROM adm a WHERE a.hadm NOT IN (SELECT d.hadm FROM diag d WHERE d.code = 'x')",
    "SELECT COUNT(DISTINCT a.pid) FROM adm a JOIN diag d ON a.age = d.sev",
    "SELECT COUNT(*) FROM adm a LEFT JOIN diag d ON d.hadm = a.hadm WHERE d.code IS NULL",
    "SELECT COUNT(DISTINCT a.pid) FROM adm a JOIN diag d ON a.hadm = d.hadm AND a.ill = d.code",
)


@dataclass(frozen=True)
class World:
    """People, what is private of them, and a log; `folder` holds the database."""

    people: tuple[Person, ...]
    held: tuple[Held, ...]
    log: tuple[Asked, ...]

    @classmethod
    def drawn(cls, seed: int) -> World:
        draw = random.Random(seed)
        shape = draw.choice([(1, 1), (2, 1), (1, 1, 1), (2, 1), (2, 2), (1, 1, 1)])
        key = 0
        people = []
        for size in shape:
            units = []
            for _ in range(size):
                key += 1
                units.append(Unit(None if draw.random() < 0.12 else key, draw.choice("fm"), draw.randrange(30, 34)))
            people.append(tuple(units))
        held = tuple(draw.choice(list(states(p))) for p in people)
        log = tuple(statements(draw) for _ in range(draw.randrange(1, 5)))
        return cls(tuple(people), held, log)

    def stored(self, folder: Path) -> Path:
        """The database, rows of nobody included."""
        path = folder / "h.duckdb"
        path.unlink(missing_ok=True)
        con = duckdb.connect(str(path))
        con.execute("CREATE TABLE adm (pid INT, hadm INT, sex VARCHAR, age INT, ill VARCHAR)")
        con.execute("CREATE TABLE diag (pid INT, hadm INT, code VARCHAR, sev INT)")
        con.execute("INSERT INTO diag VALUES (NULL, NULL, 'x', 1), (99, 990, 'z', 1), (1, NULL, 'z', 9)")
        for pid, (person, h) in enumerate(zip(self.people, self.held, strict=True), 1):
            for u, ill, rows in zip(person, h.ill, h.rows, strict=True):
                con.execute("INSERT INTO adm VALUES (?, ?, ?, ?, ?)", [pid, u.key, u.sex, u.age, ill])
                for code, sev in rows:
                    con.execute("INSERT INTO diag VALUES (?, ?, ?, ?)", [pid, u.key, code, sev])
            for code, sev in h.loose:
                con.execute("INSERT INTO diag VALUES (?, NULL, ?, ?)", [pid, code, sev])
        con.close()
        return path

    def answers(self, path: Path) -> None:
        """The second meaning of each statement is the engine's."""
        con = duckdb.connect(str(path), read_only=True)
        for asked in self.log:
            rows = con.execute(asked.sql).fetchall()
            said = self.said(asked, [[h] for h in self.held])
            if len(rows) == 1 and len(rows[0]) == 1:
                told = said[""].ravel()[0]
                assert rows[0][0] == (None if told == NOBODY else int(told)), asked.sql
            else:
                found = {key: int(v.ravel()[0]) for key, v in said.items() if v.ravel()[0] > 0}
                assert dict(rows) == found, asked.sql
        con.close()

    def said(self, asked: Asked, spaces: list[list[Held]]) -> dict[str, np.ndarray[Any, Any]]:
        """The answer for every combination of states, part by part; a group that is not shown is 0."""
        parts: dict[str, np.ndarray[Any, Any]] = {}
        for person, space in zip(self.people, spaces, strict=True):
            counted = [asked.counts(person, h) for h in space]
            for key in counted[0]:
                mine = np.array([NOBODY if c[key] is None else c[key] for c in counted])
                if key not in parts:
                    parts[key] = mine
                elif asked.how == "sum":
                    parts[key] = parts[key][..., None] + mine
                else:
                    both = parts[key][..., None], mine
                    joined = np.maximum(*both) if asked.how == "max" else np.minimum(*both)
                    lost = (both[0] == NOBODY) | (both[1] == NOBODY)
                    parts[key] = np.where(lost, np.maximum(*both), joined)
        if asked.hidden is not None:
            parts = {key: np.where(v >= asked.hidden, v, 0) for key, v in parts.items()}
        return parts


NOBODY = -1


ONE_LOOSE = ((), (("x", 1),))
MOST_TABLES = 10_000_000


def states(person: Person, every_loose: tuple[tuple[tuple[str, int], ...], ...] = ONE_LOOSE) -> Iterator[Held]:
    """Everything that may be private of a person. Rows of an admission without a key are rows of none."""
    keyed = [u.key is not None for u in person]
    for ill in product("ab", repeat=len(person)):
        for rows in product(*(SUBSETS if k else ((),) for k in keyed)):
            for loose in every_loose:
                yield Held(ill, rows, loose)


def truth(leaf: Leaf, unit: Unit, ill: str, rows: tuple[tuple[str, int], ...], held: Held) -> bool:
    """An atom of one record, by its meaning."""
    if not isinstance(leaf, Has):
        return evaluate_leaf(leaf, ill) is True
    own = {theirs for _, theirs in leaf.on}
    mine = (rows if unit.key is not None else ()) if "hadm" in own else every(held)
    records = [{"code": c, "sev": s, "hadm": unit.key, "pid": 0} for c, s in mine]

    def holds(row: dict[str, Any]) -> bool:
        return evaluate_predicate(leaf.where, lambda x: evaluate_leaf(x, row[x.column])) is True  # type: ignore[union-attr]

    return any(map(holds, records))


@dataclass
class Tally:
    """What was compared."""

    worlds: int = 0
    claims: int = 0
    determined: int = 0
    missed: int = 0
    some: int = 0
    judged: int = 0
    wrong: int = 0

    def __str__(self) -> str:
        return (
            f"{self.worlds} worlds, {self.judged} statements judged: {self.claims} claims, {self.wrong} false; "
            f"{self.determined} atoms determined, {self.missed} missed; {self.some} 'one of his' facts"
        )


def check_all_clear(world: World, found: Exposure, seed: int) -> None:
    """Nothing is known of anybody that was not before; rows of no admission are of every kind, if that is feasible."""
    counting = found.evidence.counting
    spaces = [list(states(p, SUBSETS)) for p in world.people]
    if counting is None or math.prod(map(len, spaces)) > MOST_TABLES:
        return
    left = left_open(world, spaces)
    for k, person in enumerate(world.people):
        for u, unit in enumerate(person):
            for atom in counting.atoms:
                before, after = (
                    {truth(atom.leaf, unit, h.ill[u], h.rows[u], h) for h in each[k]} for each in (spaces, left)
                )
                assert before == after, (seed, atom.leaf, [a.sql for a in world.log])


def left_open(world: World, spaces: list[list[Held]]) -> list[list[Held]]:
    """What each person may be in some table that gives the same answers."""
    real = np.ones(tuple(map(len, spaces)), dtype=bool)
    for asked in world.log:
        told = world.said(asked, [[h] for h in world.held])
        for key, values in world.said(asked, spaces).items():
            real &= values == told[key].ravel()[0]
    assert real.any()
    return [
        [h for h, ok in zip(space, real.any(axis=tuple(j for j in range(real.ndim) if j != k)), strict=True) if ok]
        for k, space in enumerate(spaces)
    ]


def compared(seed: int, folder: Path, tally: Tally) -> Exposure:
    """One world: every claim must be constant over all databases with the same answers."""
    world = World.drawn(seed)
    path = world.stored(folder)
    world.answers(path)
    found = examine([a.sql for a in world.log], data=str(path), config=Config.parse(SETTINGS))
    assert not found.refused, found.refused
    assert not found.unjudged, found.unjudged
    assert not found.contradictions
    tally.worlds, tally.judged = tally.worlds + 1, tally.judged + len(world.log)
    spaces = [list(states(p)) for p in world.people]
    left = left_open(world, spaces)
    counting = found.evidence.counting
    fixed = 0
    if counting is not None:
        state = Forced(Network.of(counting))
        try:
            solve(counting, state, None)
        except Conflict:  # pragma: no cover - the answers are those of a table
            raise AssertionError("true answers contradict each other") from None
        row = 0
        places = [(k, u) for k, person in enumerate(world.people) for u in range(len(person))]
        for row, (k, u) in enumerate(places):
            person = world.people[k]
            for number, atom in enumerate(counting.atoms):
                possible = {truth(atom.leaf, person[u], h.ill[u], h.rows[u], h) for h in left[k]}
                before = {truth(atom.leaf, person[u], h.ill[u], h.rows[u], h) for h in spaces[k]}
                at = int(atom.at[row])
                said = 0 if at < 0 else int(state.value[state.net.offsets[number] + at])
                if at < 0:
                    assert possible == {False}
                    continue
                news = possible != before  # rows of no admission are of one kind here, so some things were never open
                fixed += news and len(possible) == 1
                if said != OPEN:
                    tally.claims += 1
                    tally.wrong += possible != {bool(said)}
                    assert possible == {bool(said)}, (seed, atom.leaf, person, possible, said)
                elif news and len(possible) == 1:
                    tally.missed += 1
    tally.determined += fixed
    tally.some += sum(f.grade == "one of his" for f in found.findings)
    if found.exit_code == 0:
        check_all_clear(world, found, seed)
    return found
