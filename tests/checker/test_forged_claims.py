"""Forged claims: every field of every kind of proof is changed, and none is accepted that some table refutes.

The judge is enumeration. All tables over few values are made, those that give the answers of the forged proof are
kept, and in each of them the claim must be true, field by field.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from checker_world import Data, load

import keyhole
from keyhole.checker import Outcome, Unreadable, replay
from keyhole.checker.claims import Addend, item, number
from keyhole.checker.engine import NOBODY, Cannot, Engine
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.report.documents.json_text import dumps

FOUR = "name,g,zip,x,d\nA,p,1,{0},{4}\nB,p,2,{1},{5}\nC,q,3,{2},{6}\nE,q,4,{3},{7}\n"
REAL, UNDECLARED = "[columns.private.x]\ndomain = 'real'\n", "[columns.private.x]\n"
GRID, WORDS = "[columns.private.x]\nmin = 0\nmax = 4\n", "[columns.private.d]\n"
STEPS = "[columns.private.x]\nmin = 0\nmax = 4\nstep = 1\n"
Values = tuple[Any, ...]


@dataclass(frozen=True)
class World:
    """Four people, a log and settings; `pool` has the values that x is tried with."""

    x: Values
    log: tuple[str, ...]
    columns: str = REAL
    d: Values = ("flu", "flu", "cold", "flu")
    pool: Values = (0, 1, 2, 3, 4)
    words: Values = ("flu",)
    text: str = FOUR


WORLDS = {
    "identity": World((2, 1, 3, 4), ("SELECT SUM(x) FROM t", "SELECT AVG(x) FROM t WHERE name <> 'B'")),
    "a group": World((2, 1, 3, 4), ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE g = 'p'")),
    "part": World(
        (2, 1, 3, 4), ("SELECT SUM(x) FROM t WHERE x > 1", "SELECT SUM(x) FROM t WHERE x > 1 AND name <> 'C'")
    ),
    "square": World((2, 1, 3, 4), ("SELECT SUM(x * x) FROM t", "SELECT SUM(x * x) FROM t WHERE zip <> 3"), GRID),
    "both roots": World(
        (2, 1, 3, 4),
        ("SELECT SUM(x * x) FROM t", "SELECT SUM(x * x) FROM t WHERE zip <> 3"),
        pool=(-3, -1, 1, 3),
    ),
    "assumed root": World(
        (2, 1, 3, 4),
        ("SELECT SUM(x * x) FROM t", "SELECT SUM(x * x) FROM t WHERE zip <> 3"),
        UNDECLARED,
        pool=(1, 2, 3, 4),
    ),
    "assumed end": World((1, 1, 3, 4), ("SELECT SUM(x) FROM t WHERE g = 'p'",), UNDECLARED, pool=(1, 2, 3, 4)),
    "equal": World((2, 2, 3, 4), ("SELECT AVG(x), VAR_POP(x) FROM t WHERE g = 'p'",)),
    "zero": World((0, 0, 3, 4), ("SELECT SUM(x * x) FROM t WHERE g = 'p'",)),
    "roots": World((1, 3, 3, 4), ("SELECT SUM(x), SUM(x * x) FROM t WHERE g = 'p'",)),
    "counts": World((3, 4, 0, 2), ("SELECT COUNT(*) FROM t WHERE x > 2 AND g = 'p'",)),
    "counts of none": World((3, 4, 0, 2), ("SELECT COUNT(*) FROM t WHERE x = 1 AND g = 'p'",)),
    "counts of halves": World(
        (2.5, 3.5, 0, 2), ("SELECT COUNT(*) FROM t WHERE x > 2 AND g = 'p'",), pool=(1.5, 2, 2.5, 3, 3.5)
    ),
    "counts of words": World(
        (3, 4, 0, 2),
        ("SELECT COUNT(*) FROM t WHERE d = 'flu' AND g = 'p'", "SELECT COUNT(*) FROM t WHERE d = 'cold' AND zip = 4"),
        WORDS,
        words=("flu", "cold", "mumps"),
        pool=(0,),
    ),
    "cases": World((4, 4, 1, 0), ("SELECT SUM(x) FROM t WHERE g = 'p'", "SELECT SUM(x) FROM t"), STEPS),
    "cases by weights": World((2, 1, 3, 4), ("SELECT SUM(x * zip) FROM t WHERE g = 'p'",), STEPS),
    "every table": World(
        (2, 1, 0, 1),
        ("SELECT g, COUNT(*) FROM t WHERE x > 0 GROUP BY g HAVING SUM(x) > 2", "SELECT SUM(x) FROM t"),
        "[columns.private.x]\nmin = 0\nmax = 2\nstep = 1\n",
        pool=(0, 1, 2),
    ),
    "range": World((1, 2, 3, 4), ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE g = 'p'"), GRID),
    "range by comparison": World(
        (4, 3, 3, 4), ("SELECT SUM(x) > 13 FROM t", "SELECT SUM(x) FROM t WHERE g = 'p'"), GRID
    ),
    "order": World((1, 2, 3, 4), ("SELECT MAX(x) FROM t", "SELECT MAX(x) FROM t WHERE name <> 'E'")),
    "order of two": World((1, 2, 3, 4), ("SELECT MIN(x), MAX(x) FROM t WHERE g = 'p'",)),
    "rest": World(
        (1, 2, 3, 4),
        ("SELECT MAX(x) FROM t", "SELECT MAX(x) FROM t WHERE name <> 'E'", "SELECT SUM(x) FROM t WHERE g = 'q'"),
    ),
    "both": World(
        (2, 3, 2, 4),
        (
            "SELECT MAX(x) FROM t WHERE g = 'p'",
            "SELECT SUM(x) > 1 FROM t WHERE name = 'B'",
            "SELECT SUM(x) < 4 FROM t WHERE name = 'B'",
        ),
        STEPS,
    ),
    "rounded": World(
        (1, 2, 3, 4), ("SELECT ROUND(AVG(x), 1) FROM t WHERE g = 'p'", "SELECT SUM(x) FROM t WHERE zip = 2"), GRID
    ),
    "records of one person": World(
        (1, 2, 3, 4),
        ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE name <> 'A'", "SELECT MAX(x) FROM t WHERE name = 'A'"),
        text=FOUR.replace("\nB,", "\nA,"),
    ),
    "a cell of one person": World(
        (1, 2, 3, 4),
        ("SELECT SUM(x) FROM t WHERE x > 1", "SELECT SUM(x) FROM t WHERE x > 1 AND name <> 'A'"),
        text=FOUR.replace("\nB,", "\nA,"),
    ),
}


class Judge:
    """All tables of a world, and which of them give an answer."""

    def __init__(self, world: World, folder: Path, sizes: int) -> None:
        """`sizes`: how many values x is tried with; those of the data come first."""
        self.world = world
        self.data = folder / "t.csv"
        self.data.write_text(world.text.format(*world.x, *world.d), encoding="utf-8")
        self.config = Config.parse(f"[columns]\nid = ['name']\n{world.columns}")
        self.verdict: Data = load(
            keyhole.audit(list(world.log), data=self.data, config=self.config, group_size=2).dumps()
        )
        self.declared = {
            name: {
                "min": c.min,
                "max": c.max,
                "step": c.step,
                "values": c.values,
                "domain": "real" if c.domain == "real" else None,
            }
            for name, c in settings(self.config, data=self.data).columns.private.items()
        }
        self.engine = Engine(self.data, self.verdict["source"])
        self.names = self.engine.private
        pool = list(dict.fromkeys((*(v for v in world.x if v in world.pool), *world.pool)))[:sizes]
        each = list(itertools.product(*(pool if n == "x" else world.words for n in self.names)))
        self.tables = list(itertools.product(each, repeat=self.engine.n))
        self.fillings = [
            dict(zip(self.names, map(list, zip(*table, strict=True)), strict=True)) for table in self.tables
        ]
        self.people = [line.split(",")[0] for line in self.data.read_text(encoding="utf-8").splitlines()[1:]]
        self._results: dict[str, list[Any]] = {}

    def entries(self) -> list[tuple[str, Data]]:
        lists = ("exposed", "groups", "features", "intervals")
        found = [(name, e) for name in lists for e in self.verdict[name]]
        return [(name, e) for name, e in found if e["proof"] and e["certificate"]["kind"] != "none"]

    def _answers(self, cited: Addend) -> list[Any]:
        """What a cell is in each table; all tables are gone through once for each statement."""
        key = repr((cited.sql, cited.key, cited.column, cited.besides, cited.test))
        if key not in self._results:
            found = []
            for filling in self.fillings:
                self.engine.fill(filling)
                try:
                    said = self.engine.answer(cited)
                except Cannot:
                    said = NOBODY
                found.append(None if said is NOBODY else said)
            self._results[key] = found
        return self._results[key]

    def refuted(self, where: str, entry: Data) -> tuple[Any, ...] | None:
        """A table with the answers of the proof in which the claim is false."""
        fits = [not entry.get("assumed") or self._has_values_of_data(table) for table in self.tables]
        for raw in statements_of(entry):
            cited = item({"weight": "1"} | raw)
            if cited.sql is None or not cited.answered:
                continue
            fits = [fit and same(a, cited) for fit, a in zip(fits, self._answers(cited), strict=True)]
        false = (
            table for fit, table in zip(fits, self.tables, strict=True) if fit and not self.true(where, entry, table)
        )
        return next(false, None)

    def _has_values_of_data(self, table: tuple[Values, ...]) -> bool:
        """May it be, where values that nobody declared are assumed: words that occur, numbers between the ends?"""
        lo, hi, words = min(self.world.x), max(self.world.x), set(self.world.d)
        return all(
            v in words if name == "d" else lo <= v <= hi
            for row in table
            for name, v in zip(self.names, row, strict=True)
        )

    def true(self, where: str, entry: Data, table: tuple[Values, ...]) -> bool:
        """Is every field of the claim true in this table?"""
        people = self.people
        at = self.names.index(entry["column"]) if entry["column"] in self.names else -1
        if where == "groups":
            rows = [r - 1 for r in entry["rows"]]
            named = [people[r] for r in rows] == [r["name"] for r in entry["records"]]
            return named and near(sum(table[r][at] for r in rows), entry["total"])
        if entry.get("form"):
            return near(worded(entry, table, at), entry["value"]) if entry.get("value") is not None else True
        row = entry.get("row", people.index(entry["record"]["name"]) + 1) - 1
        if people[row] != entry["record"]["name"]:
            return False
        value = table[row][at]
        if entry.get("status", "exposed") == "exposed":
            said = entry.get("value", entry.get("lo"))
            return said is None or near(value, said)
        return allowed(entry, value)


def worded(entry: Data, table: tuple[Values, ...], at: int) -> Any:
    held = [table[r - 1][at] for r in entry["rows"]]
    if " with " in entry["form"]:
        held = [v for v in held if v > 1]
    return max(held) if entry["form"].startswith("MAX") else sum(held)


def allowed(entry: Data, value: Any) -> bool:
    lo, hi = entry.get("lo"), entry.get("hi")
    if lo is not None and not (isinstance(value, str) or lo - Decimal("1e-9") <= Decimal(str(value))):
        return False
    if hi is not None and not (isinstance(value, str) or Decimal(str(value)) <= hi + Decimal("1e-9")):
        return False
    if entry.get("value") is not None and not near(value, entry["value"]):
        return False
    if entry.get("allowed") and not any(near(value, v) for v in entry["allowed"]):
        return False
    return not any(near(value, v) for v in entry.get("excluded") or ())


def near(one: Any, two: Any) -> bool:
    a, b = number(one), number(two)
    return str(one) == str(two) if a is None or b is None else abs(float(a - b)) < 1e-6


def same(answer: Any, cited: Addend) -> bool:
    """Does a table answer what was printed, as far as that tells?"""
    if answer is None or cited.answer is None:
        return answer is None and cited.answer is None
    if isinstance(answer, bool) or isinstance(cited.answer, bool):
        return answer is cited.answer
    return near(answer, cited.answer)


def statements_of(entry: Data) -> Iterator[Data]:
    """Every statement that a proof cites, also those behind what it rests on."""
    for raw in entry["proof"]:
        if "query" in raw:
            yield raw
        if isinstance(raw.get("squares"), dict) and isinstance(raw["squares"].get("sum"), dict):
            yield raw["squares"]["sum"]
    for each in (entry.get("certificate") or {}).get("known") or ():
        yield from statements_of(each)


# --- forging ----------------------------------------------------------------------------------------------------------

WORDS_OF_CLAIMS = ("lo", "hi", "value", "total", "allowed", "excluded", "status", "record", "rows", "form", "prior")
KINDS = ("identity", "part", "square", "range", "counts", "cases", "order", "rest", "both", "equal", "zero", "roots")


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all fields inside."""
    for name, each in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if path or name not in ("why", "first", "tight", "if_shown"):  # retold, and documented as not replayed
            yield (*path, name)
            yield from places(each, (*path, name))


def changed(rng: random.Random, value: Any, others: list[Any]) -> Any:
    """Something else in the place of a value."""
    if others and rng.random() < 0.3:
        return copy.deepcopy(rng.choice(others))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | Decimal):
        return value + rng.choice((1, -1, Decimal("0.5"), Decimal("-0.5"), Decimal("0.001"), 100))
    if isinstance(value, list):
        some = [v for v in value if rng.random() < 0.5]
        return rng.choice((some, [*value, rng.choice((0, 1, 2, 3, "flu"))], []))
    if isinstance(value, str):
        return rng.choice(("1", "-1", "1/2", "0", "2", "exposed", "inferred", "open", "flu", "TRUE", *KINDS))
    return rng.choice((None, 0, 1, 2, 3, Decimal("2.5"), [0, 1], [2], "flu", {}))


def forge(rng: random.Random, entry: Data, others: list[Data]) -> Data:
    """One or two fields of a claim added, removed, changed, or taken from another claim."""
    found: Data = copy.deepcopy(entry)
    for _ in range(rng.choice((1, 1, 1, 2))):
        how = rng.random()
        if how < 0.3:  # what a claim says
            name = rng.choice(WORDS_OF_CLAIMS)
            taken = [o[name] for o in others if name in o]
            simple: Any = rng.choice((0, 1, 2, 3, 4, Decimal("2.5"), None))
            lists: Any = rng.choice(([0], [1], [2, 3], [3], [0, 1], [1, 3], [2, 4], ["flu"], ["mumps"], []))
            found[name] = lists if name in ("allowed", "excluded") else simple
            if (taken and rng.random() < 0.5) or name in ("record", "rows", "status", "form", "prior"):
                found[name] = copy.deepcopy(rng.choice(taken)) if taken else simple
            if name == "record" and isinstance(found[name], dict) and "row" in found:
                found["row"] = {"A": 1, "B": 2, "C": 3, "E": 4}.get(str(found[name].get("name")), 1)
            continue
        at = rng.choice(list(places(found)))
        inside: Any = found
        for step in at[:-1]:
            inside = inside[step]
        if how < 0.45:
            del inside[at[-1]]
        elif how < 0.6 and isinstance(inside, dict):
            inside[rng.choice(("allowed", "excluded", "lo", "hi", "value", "declared", "mean", "rounded", "noise"))] = (
                rng.choice((1, [1, 2], {"x": {"min": 1, "max": 3}}, "1"))
            )
        else:
            alike = [o[at[0]] for o in others if at[0] in o] if len(at) == 1 else []
            inside[at[-1]] = changed(rng, inside[at[-1]], alike)
    return found


def alone(verdict: Data, where: str, entry: Data) -> Data:
    """The verdict with one claim, which does not say that nobody is missing."""
    empty: Data = {"exposed": [], "groups": [], "features": [], "intervals": [], "contradictions": []}
    said = {name: each for name, each in copy.deepcopy(verdict).items() if name != "by_assumption"}
    return {**said, **empty, "complete": False, where: [entry]}


def check_forged_claims(
    worlds: dict[str, World], seed: int, each: int, folder: Path, bits: int, sizes: int
) -> Counter[str]:
    """How many were tried by kind and outcome. A forged claim that holds must be true in all tables that fit."""
    tried: Counter[str] = Counter()
    for name, world in worlds.items():
        rng = random.Random(f"{seed} {name}")
        judge = Judge(world, folder, sizes)
        entries = judge.entries()
        assert entries, name
        honest = replay(dumps(judge.verdict), judge.data, bits=bits, declared=judge.declared)
        assert not honest.of(Outcome.FAILS), (name, [c.why for c in honest.checked])
        tried.update(c.claim.certificate["kind"] for c in honest.of(Outcome.HOLDS))
        for _ in range(each):
            where, entry = rng.choice(entries)
            forged = forge(rng, entry, [o for w, o in entries if w == where and o is not entry])
            if forged == entry:
                continue
            tried["forged"] += 1
            try:
                found = replay(
                    dumps(alone(judge.verdict, where, forged)), judge.data, bits=bits, declared=judge.declared
                )
            except Unreadable:
                tried["unreadable"] += 1
                continue
            if found.exit_code == 0 and found.of(Outcome.HOLDS):
                tried["held"] += 1
                table = judge.refuted(where, forged)
                assert table is None, (name, seed, table, where, json.dumps(forged, default=str))
    return tried


@pytest.mark.parametrize(
    ("world", "kind", "added"),
    [
        ("range", "range", {"allowed": [0]}),
        ("range", "range", {"excluded": [1]}),
        ("every table", "cases", {"lo": 2, "hi": 2}),
        ("counts of none", "counts", {"lo": 3, "hi": 3}),
        ("counts of none", "counts", {"excluded": [1, 3]}),  # 3 lies inside a cell of the statement's constants
        ("roots", "roots", {"excluded": [3]}),
        ("order of two", "order", {"excluded": [1]}),
        ("range", "range", {"mean": 3}),
    ],
)
def test_a_claim_that_says_more_than_its_proof_does_not_hold(
    world: str, kind: str, added: Data, tmp_path: Path
) -> None:
    judge = Judge(WORLDS[world], tmp_path, 5)
    where, entry = next(e for e in judge.entries() if e[1]["certificate"]["kind"] == kind and e[0] == "intervals")
    honest = replay(dumps(alone(judge.verdict, where, entry)), judge.data, bits=12, declared=judge.declared)
    assert honest.exit_code == 0, [c.why for c in honest.checked]
    forged = {**entry, **added}
    assert "mean" in added or judge.refuted(where, forged) is not None
    found = replay(dumps(alone(judge.verdict, where, forged)), judge.data, bits=12, declared=judge.declared)
    assert found.exit_code in (1, 3)
    assert not found.of(Outcome.HOLDS)


def test_no_forged_claim_is_accepted_that_a_table_refutes(tmp_path: Path) -> None:
    tried = check_forged_claims(WORLDS, 1, 10, tmp_path, 12, 3)
    assert tried["forged"] > 180
    assert {*KINDS, "alone"} - set(tried) <= {"part"}  # made-up values that answer alike are not always found for it


# --- beside the claims ------------------------------------------------------------------------------------------------

HANDED = "name,dept,hiv,pay\nAnn,a,1,10\nBob,a,1,20\nCyd,b,0,30\nDan,b,1,45\n"
HANDED_LOG = (
    "SELECT SUM(hiv) FROM h WHERE dept = 'a'",
    "SELECT name, pay FROM h WHERE dept = 'a'",
    "SELECT name FROM h WHERE pay > 25",
)
SECTIONS = ("people", "assumed", "by_assumption", "grades", "rows", "unjudged", "refused", "advice")


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Data]:
    """Data, log and verdict with rows handed out, and with findings by assumption."""
    folder = tmp_path_factory.mktemp("handed")
    (folder / "h.csv").write_text(HANDED, encoding="utf-8")
    (folder / "h.sql").write_text(";\n".join(HANDED_LOG), encoding="utf-8")
    found = keyhole.audit(list(HANDED_LOG), data=folder / "h.csv", id="name", private=["hiv", "pay"])
    return folder, load(found.dumps())


def is_lie(path: tuple[Any, ...], value: Any) -> bool:
    """Does a change say something else? Texts are not replayed, and null or nothing says that it is not known."""
    says_less = path[0] == "rows" and value is None
    says_less = says_less or (path == ("assumed",) and value == {}) or (path[-1] == "first" and value is None)
    return path[-1] not in ("why", "reason", "error", "least") and not says_less


def sections_changed(verdict: Data) -> Iterator[tuple[tuple[Any, ...], Data]]:
    """The verdict with one field beside its claims taken out, emptied, or made another."""
    paths = [path for path in places(verdict) if path[0] in SECTIONS]
    paths += [path for path in places(verdict) if path[0] in ("exposed", "intervals") and "first" in path[2:]]
    for path in paths:
        now: Any = verdict
        for step in path:
            now = now[step]
        others: tuple[Any, ...] = (None, 7, "9", [], {})
        others += ([*now, now[0]], now[1:]) if isinstance(now, list) and now else ()
        for other in others:
            if (other == now and type(other) is type(now)) or not is_lie(path, other):
                continue
            forged = copy.deepcopy(verdict)
            inside: Any = forged
            for step in path[:-1]:
                inside = inside[step]
            inside[path[-1]] = other
            yield (*path, other), forged


def exit_code(verdict: Data, folder: Path) -> int:
    try:
        return replay(dumps(verdict), folder / "h.csv", log=folder / "h.sql", bits=8).exit_code
    except Unreadable:
        return 2


def test_no_lie_beside_the_claims_is_accepted(handed: tuple[Path, Data]) -> None:
    folder, verdict = handed
    assert verdict["by_assumption"]
    assert exit_code(verdict, folder) == 0
    accepted = [what for what, forged in sections_changed(verdict) if exit_code(forged, folder) == 0]
    assert accepted == []


@pytest.mark.parametrize(
    ("section", "entry", "code"),
    [
        ("by_assumption", {"column": "pay", "people": 4, "why": "x", "proof": []}, 1),
        ("rows", {"query": "4", "sql": "SELECT * FROM h", "columns": ["pay"], "records": 4, "singled_out": 4}, 1),
        ("unjudged", {"query": "4", "sql": "SELECT MAX(pay) FROM h", "reason": "x"}, 1),  # the verdict says complete
    ],
)
def test_an_entry_that_is_added_beside_the_claims_is_not_accepted(
    handed: tuple[Path, Data], section: str, entry: Data, code: int
) -> None:
    folder, verdict = handed
    assert exit_code({**verdict, section: [*verdict[section], entry]}, folder) == code


@pytest.mark.parametrize("left", [0, 1])
def test_rows_that_are_left_out_are_missed(handed: tuple[Path, Data], left: int) -> None:
    folder, verdict = handed
    found = replay(dumps({**verdict, "rows": verdict["rows"][:left]}), folder / "h.csv", log=folder / "h.sql", bits=8)
    assert found.exit_code == 3
    assert "statement 3 hands out rows, and `rows` does not list it" in [each.why for each in found.beside]


@pytest.mark.soak
def test_two_thousand_forged_claims(tmp_path: Path) -> None:
    seed = secrets.randbelow(10**9)
    print(f"seed {seed}")  # noqa: T201 - so that a failure can be repeated
    tried = check_forged_claims(WORLDS, seed, 100, tmp_path, 20, 5)
    print(tried)  # noqa: T201
    assert tried["forged"] >= 2000
