"""Small clinics: people with a few visits, what is private of each, and logs with a second meaning in numpy.

Everything private of everybody is enumerated. A finding about one person alone must be a function of what is private of
that person and of nothing else, and not a constant one; where the verdict is an all-clear, nothing of anybody may be
the same in all tables that give the same answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from keyhole.auditing.base import Exposure, Finding
from keyhole.auditing.examine import examine
from keyhole.config import Config

SETTINGS = """
[source]
table = "visit"
[columns]
id = ["p"]
[columns.private.ill]
[columns.private.cost]
[tables.dx]
keys = ["p", "v"]
private = "all"
"""
DECLARED = SETTINGS.replace("private.ill]", 'private.ill]\nvalues = ["a", "b"]').replace(
    "private.cost]", "private.cost]\nmin = 1\nmax = 3\nstep = 1"
)
STATES = tuple(product("ab", (1, 2, 3), (False, True)))  # ill, cost, has a row in dx
NULL = np.nan
HASP = "EXISTS (SELECT 1 FROM dx WHERE dx.p = visit.p AND dx.code = 'x')"
HAS = "EXISTS (SELECT 1 FROM dx WHERE dx.v = visit.v AND dx.code = 'x')"


@dataclass(frozen=True)
class Tables:
    """All tables at once: worlds x records, and who owns a record."""

    person: np.ndarray[Any, Any]
    sex: np.ndarray[Any, Any]
    ill: np.ndarray[Any, Any]
    cost: np.ndarray[Any, Any]
    has: np.ndarray[Any, Any]


Mask = Callable[[Tables], np.ndarray[Any, Any]]
PUBLIC: dict[str, Mask] = {
    "TRUE": lambda t: np.ones_like(t.has),
    "sex = 'f'": lambda t: np.broadcast_to(t.sex == "f", t.has.shape),
    "p = 1": lambda t: np.broadcast_to(t.person == 1, t.has.shape),
    "p <> 1": lambda t: np.broadcast_to(t.person != 1, t.has.shape),
}
PRIVATE: dict[str, Mask] = {
    "TRUE": lambda t: np.ones_like(t.has),
    "ill = 'a'": lambda t: t.ill == "a",
    "ill <> 'a'": lambda t: t.ill != "a",
    "cost > 1": lambda t: t.cost > 1,  # NULL is not
    HAS: lambda t: t.has,
    f"NOT {HAS}": lambda t: ~t.has,
    HASP: lambda t: np.stack([t.has[:, t.person == p].any(axis=1) for p in t.person], axis=1),
    f"(ill = 'a' OR {HAS})": lambda t: (t.ill == "a") | t.has,
    f"(ill = 'a' AND {HAS})": lambda t: (t.ill == "a") & t.has,
    "(ill = 'a' OR cost > 1)": lambda t: (t.ill == "a") | (t.cost > 1),
}


def _variance(values: Any, axis: int) -> Any:
    return np.ma.mean(values**2, axis=axis) - np.ma.mean(values, axis=axis) ** 2


def _over(values: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any], how: Any) -> np.ndarray[Any, Any]:
    chosen = chosen & ~np.isnan(values)
    nobody = ~chosen.any(axis=1)
    with np.errstate(all="ignore"):
        found = how(np.ma.array(values.astype(float), mask=~chosen), axis=1)
    return np.where(nobody, NULL, np.ma.filled(found.astype(float), NULL))


def _people(t: Tables, chosen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.sum([chosen[:, t.person == p].any(axis=1) for p in np.unique(t.person)], axis=0).astype(float)


AGGREGATES: dict[str, Callable[[Tables, np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "COUNT(*)": lambda t, c: c.sum(axis=1).astype(float),
    "COUNT(DISTINCT p)": _people,
    "SUM(cost)": lambda t, c: _over(t.cost, c, np.ma.sum),
    "AVG(cost)": lambda t, c: _over(t.cost, c, np.ma.mean),
    "MAX(cost)": lambda t, c: _over(t.cost, c, np.ma.max),
    "MIN(cost)": lambda t, c: _over(t.cost, c, np.ma.min),
    "ROUND(SUM(cost), -1)": lambda t, c: np.floor(_over(t.cost, c, np.ma.sum) / 10 + 0.5) * 10,
    "VAR_POP(cost)": lambda t, c: _over(t.cost, c, _variance),
    "COUNT(cost)": lambda t, c: (c & ~np.isnan(t.cost)).sum(axis=1).astype(float),
    "MEDIAN(cost)": lambda t, c: _over(t.cost, c, np.ma.median),
}


@dataclass(frozen=True)
class Asked:
    sql: str
    answers: np.ndarray[Any, Any]
    plain: bool
    chosen: np.ndarray[Any, Any]


class Clinic:
    """A drawn clinic and a drawn log."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        shape = draw.choice([(2, 1), (1, 1, 1), (2, 2), (1, 1, 2), (1, 1, 1, 1), (2, 1, 1)])
        self.person = np.array([p for p, size in enumerate(shape, 1) for _ in range(size)])
        n = len(self.person)
        self.sex = np.array([draw.choice("fm") for _ in range(n)])
        index = np.stack(np.meshgrid(*[np.arange(len(STATES))] * n, indexing="ij"), axis=-1).reshape(-1, n)
        self.index = index
        ill, cost, has = (np.array([s[k] for s in STATES])[index] for k in range(3))
        cost = cost.astype(float)
        if draw.random() < 0.25:
            cost[:, draw.randrange(n)] = np.nan
        self.tables = Tables(self.person, self.sex, ill, cost, has)
        self.real = draw.randrange(len(index))
        self.log = [self._drawn(draw) for _ in range(draw.randrange(1, 4))]

    def _drawn(self, draw: random.Random) -> Asked:
        public, private = draw.choice(list(PUBLIC)), draw.choice(list(PRIVATE))
        name = draw.choice(list(AGGREGATES))
        chosen = PUBLIC[public](self.tables) & PRIVATE[private](self.tables)
        sql = f"SELECT {name} FROM visit WHERE {public} AND {private}"
        plain = private == "TRUE" and name in ("SUM(cost)", "AVG(cost)")
        return Asked(sql, AGGREGATES[name](self.tables, chosen), plain, chosen)

    def stored(self, folder: Path) -> Path:
        path = folder / "clinic.duckdb"
        path.unlink(missing_ok=True)
        con = duckdb.connect(str(path))
        con.execute("CREATE TABLE visit (p INT, v INT, sex VARCHAR, ill VARCHAR, cost INT)")
        con.execute("CREATE TABLE dx (p INT, v INT, code VARCHAR)")
        con.execute("INSERT INTO dx VALUES (NULL, NULL, 'x'), (77, 770, 'x')")
        t, w = self.tables, self.real
        for r, p in enumerate(self.person.tolist()):
            row = [p, 10 + r, str(t.sex[r]), str(t.ill[w, r]), None if np.isnan(t.cost[w, r]) else int(t.cost[w, r])]
            con.execute("INSERT INTO visit VALUES (?, ?, ?, ?, ?)", row)
            con.execute("INSERT INTO dx VALUES (?, ?, ?)", [p, 10 + r, "x" if t.has[w, r] else "y"])
        for asked in self.log:
            (said,) = con.execute(asked.sql).fetchone()
            mine = asked.answers[w]
            assert (said is None) == bool(np.isnan(mine)), asked.sql
            assert said is None or abs(float(said) - mine) < 1e-9, asked.sql
        con.close()
        return path

    def state_of(self, person: int) -> np.ndarray[Any, Any]:
        """A number for what is private of a person, in each table."""
        mine = self.index[:, self.person == person]
        return mine @ (len(STATES) ** np.arange(mine.shape[1]))


def audited(clinic: Clinic, folder: Path, settings: str = SETTINGS) -> Exposure:
    path = clinic.stored(folder)
    found = examine([a.sql for a in clinic.log], data=str(path), config=Config.parse(settings))
    assert not found.refused, found.refused
    assert not found.contradictions, found.contradictions
    return found


def check_alone(clinic: Clinic, finding: Finding) -> None:
    """It is about one person, and tells something."""
    assert finding.proof is not None
    told = finding.proof.counted or {}
    if "alone" not in told:
        return
    total = np.full(len(clinic.index), float(told["constant"]))
    for number, weight in finding.proof.weights.items():
        statement, _, part = number.partition(".")
        assert part in ("", "1"), number  # the statement itself, not what it may be computed from
        answers = clinic.log[int(statement) - 1].answers
        total = total + float(weight) * (np.nan_to_num(answers, nan=0.0) if len(finding.proof.weights) > 1 else answers)
    (person,) = {int(clinic.person[r]) for r in finding.rows}
    assert person == finding.record["p"]
    total = np.round(np.nan_to_num(total, nan=-99.0), 6)
    state = clinic.state_of(person)
    order = np.lexsort((total, state))
    first = np.flatnonzero(np.diff(state[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    assert (total[order[first]] == total[order[last]]).all(), ("depends on somebody else", finding.form)
    assert len(np.unique(total)) > 1, ("says nothing", finding.form)
    if finding.value is not None and not isinstance(finding.value, bool):
        assert abs(total[clinic.real] - float(Fraction(finding.value))) < 1e-6, finding.form  # type: ignore[arg-type]


def check_all_clear(clinic: Clinic) -> None:
    """Nothing private of anybody is the same in all tables with the same answers."""
    same = np.ones(len(clinic.index), dtype=bool)
    for asked in clinic.log:
        mine = asked.answers[clinic.real]
        same &= np.isnan(asked.answers) if np.isnan(mine) else np.abs(asked.answers - mine) < 1e-9
    t = clinic.tables
    looked = " ".join(a.sql for a in clinic.log)
    for r in range(len(clinic.person)):
        held = {"ill": t.ill[:, r], "cost": t.cost[:, r], "EXISTS": t.has[:, r]}
        for word, values in held.items():
            known = word == "cost" and bool(np.isnan(values).all())
            assert known or word not in looked or len(np.unique(values[same])) > 1, (word, r)
    for p in np.unique(clinic.person):
        mine = np.nan_to_num(t.cost[same][:, clinic.person == p])
        known = bool(np.isnan(t.cost[0, clinic.person == p]).all())
        assert known or "cost" not in looked or len(np.unique(mine.sum(axis=1))) > 1, ("total", p)


def decided(seed: int, folder: Path) -> tuple[bool, bool]:
    """One clinic whose values are declared: is nothing of anybody determined, and is that said?

    Beside values, totals and conditions: what a person adds to an answer, and whether any record of his counts in it.
    """
    clinic = Clinic(seed)
    found = audited(clinic, folder, DECLARED)
    t, same = clinic.tables, np.ones(len(clinic.index), dtype=bool)
    for asked in clinic.log:
        mine = asked.answers[clinic.real]
        same &= np.isnan(asked.answers) if np.isnan(mine) else np.abs(asked.answers - mine) < 1e-9

    def fixed(values: np.ndarray[Any, Any]) -> bool:
        return len(np.unique(values)) > 1 and len(np.unique(values[same])) == 1

    known = False
    for asked in clinic.log:
        counts = asked.chosen
        for each in (counts, np.nan_to_num(t.cost) * counts):
            known |= any(fixed(column) for column in each.T)
            known |= any(fixed(each[:, clinic.person == p].sum(axis=1)) for p in np.unique(clinic.person))
        known |= any(fixed(counts[:, clinic.person == p].any(axis=1)) for p in np.unique(clinic.person))
    try:
        check_all_clear(clinic)
    except AssertionError:
        known = True
    cleared = found.exit_code == 0
    assert not (cleared and known), ("an all-clear is false", seed)
    return not known, cleared


def compared(seed: int, folder: Path) -> tuple[int, bool]:
    """One clinic: (findings about one person alone, was it an all-clear)."""
    clinic = Clinic(seed)
    found = audited(clinic, folder)
    for finding in found.findings:
        check_alone(clinic, finding)
    if found.complete and not found.findings and not all(a.plain for a in clinic.log):
        check_all_clear(clinic)
    alone = sum("alone" in ((f.proof.counted if f.proof else None) or {}) for f in found.findings)
    return alone, found.exit_code == 0
