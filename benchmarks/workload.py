"""A table of staff and a log of statements about it, as an analyst would write them: the same for every run.

Six public columns (age, zip, dept, sex, grade with some NULLs, hired) and one private column, salary. Statements are
SUM, AVG and COUNT under conjunctions of ranges and equalities, some with GROUP BY, and pairs that differ by one
person: those persons are exposed.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from keyhole.model.predicate import (
    TRUE,
    Comparison,
    IsNull,
    Predicate,
    format_literal,
    format_predicate,
    make_and,
    quote_name,
)

DEPARTMENTS = 40
GRADES = 11
DAYS = 12_000
START = dt.date(1990, 1, 1)
ZIPS = (10_000, 99_999)
AGES = (18, 97)
PRIVATE = "salary"


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """The columns as integers; `table` turns them into text and dates."""

    age: NDArray[np.int32]
    zip: NDArray[np.int32]
    dept: NDArray[np.int32]
    sex: NDArray[np.int32]
    grade: NDArray[np.int32]  # 0 is NULL
    hired: NDArray[np.int32]  # days after START
    salary: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement, and the condition of each query that it expands to."""

    sql: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Statements in the order of the log; `planted` are the row numbers of people that a pair of them exposes."""

    statements: tuple[Asked, ...]
    planted: tuple[int, ...]

    @property
    def predicates(self) -> list[Predicate]:
        """The distinct conditions, in order of first use."""
        return list(dict.fromkeys(p for asked in self.statements for p in asked.predicates))


def people(n: int, seed: int = 1) -> People:
    """n records; the first of a longer table are not those of a shorter one."""
    rng = np.random.default_rng(seed)

    def draw(lo: int, hi: int) -> NDArray[np.int32]:
        return rng.integers(lo, hi + 1, size=n, dtype=np.int32)

    def skewed(count: int, power: float) -> NDArray[np.int32]:
        """0 .. count - 1, the small ones more often: towns and departments are not of one size."""
        return (rng.random(n) ** power * count).astype(np.int32)

    age = (rng.triangular(AGES[0], 35, AGES[1] + 1, n)).astype(np.int32)
    tenure = (rng.random(n) ** 2 * np.minimum((age - AGES[0]) * 365, DAYS - 1)).astype(np.int32)
    grade = np.minimum(1 + tenure // 1200 + draw(0, 1), GRADES).astype(np.int32)
    grade[rng.random(n) < 0.02] = 0
    return People(
        age=age,
        zip=ZIPS[0] + 30 * skewed(3_000, 3.0),
        dept=skewed(DEPARTMENTS, 2.0) + 1,
        sex=draw(0, 1),
        grade=grade,
        hired=DAYS - 1 - tenure,
        salary=draw(20_000, 250_000),
    )


def table(con: duckdb.DuckDBPyConnection, rows: People) -> None:
    """Create the table `staff` in a connection."""
    names = ("age", "zip", "dept", "sex", "grade", "hired", "salary")
    con.register("staff_codes", {name: getattr(rows, name) for name in names})
    con.execute(
        "CREATE TABLE staff AS SELECT age, zip, 'dept ' || dept AS dept, CASE sex WHEN 0 THEN 'F' ELSE 'M' END AS sex, "
        f"nullif(grade, 0) AS grade, DATE '{START}' + hired AS hired, salary FROM staff_codes"
    )
    con.unregister("staff_codes")


def parquet(path: Path, rows: People) -> None:
    """Write the table to a Parquet file."""
    con = duckdb.connect()
    table(con, rows)
    con.execute(f"COPY staff TO {format_literal(str(path))} (FORMAT parquet)")
    con.close()


def workload(rows: People, m: int, groupings: int = 12, pairs: int = 25, seed: int = 2) -> Workload:
    """m statements: `groupings` of them with GROUP BY, 2 * `pairs` of them differencing pairs, the rest ranges."""
    rng = np.random.default_rng(seed)
    planted = _unique(rows, pairs, rng)
    statements = [asked for row in planted for asked in _pair(rows, row, rng)]
    statements += [_grouping(i, rng) for i in range(groupings)]
    while len(statements) < m:
        statements.append(_plain(_condition(rng, int(rng.integers(2, 5))), rng))
    order = rng.permutation(m)
    return Workload(tuple(statements[i] for i in order), tuple(planted))


def _plain(where: Predicate, rng: np.random.Generator) -> Asked:
    shown = str(rng.choice(["SUM(salary)", "AVG(salary)"], p=[0.7, 0.3]))
    return Asked(f"SELECT {shown} FROM staff WHERE {format_predicate(where)}", (where,))


def _condition(rng: np.random.Generator, count: int) -> Predicate:
    """A conjunction over `count` columns."""
    parts: list[Predicate] = []
    for name in rng.choice(["age", "zip", "dept", "sex", "grade", "hired"], size=count, replace=False):
        if name == "age":
            parts += _range("age", AGES[0], AGES[1], rng, 5)
        elif name == "zip":
            parts += _range("zip", ZIPS[0], ZIPS[1], rng, 5000)
        elif name == "hired":
            ends = _range("hired", 0, DAYS - 1, rng)
            days = [START + dt.timedelta(days=int(str(end.value))) for end in ends]
            parts += [
                Comparison("hired", end.op, day.replace(month=1, day=1)) for end, day in zip(ends, days, strict=True)
            ]
        elif name == "grade":
            parts += _range("grade", 1, GRADES, rng)
        elif name == "dept":
            parts.append(Comparison("dept", "=", f"dept {rng.integers(1, DEPARTMENTS + 1)}"))
        else:
            parts.append(Comparison("sex", "=", str(rng.choice(["F", "M"]))))
    return make_and(*parts)


def _range(name: str, lo: int, hi: int, rng: np.random.Generator, step: int = 1) -> list[Comparison]:
    """Both ends, or one; people ask for round numbers."""
    a, b = sorted(int(v) // step * step for v in rng.integers(lo, hi + 1, size=2))
    shape = rng.integers(0, 3)
    if shape == 0:
        return [Comparison(name, ">=", a), Comparison(name, "<=", b)]
    return [Comparison(name, ">=", b)] if shape == 1 else [Comparison(name, "<", max(a, lo + 1))]


def _grouping(i: int, rng: np.random.Generator) -> Asked:
    depts = [f"dept {d}" for d in range(1, DEPARTMENTS + 1)]
    keys: list[Predicate]
    kind = i % 3
    if kind == 0:
        name, keys = "grade", [*(Comparison("grade", "=", g) for g in range(1, GRADES + 1)), IsNull("grade")]
    elif kind == 1:
        name, keys = "sex", [Comparison("sex", "=", s) for s in ("F", "M")]
    else:
        name, keys = "dept", [Comparison("dept", "=", d) for d in depts]
    where = TRUE if i < 3 else make_and(*_range("age", AGES[0], AGES[1], rng, 5))
    text = f"SELECT {quote_name(name)}, AVG(salary), COUNT(*) FROM staff"
    text += "" if where == TRUE else f" WHERE {format_predicate(where)}"
    return Asked(f"{text} GROUP BY {quote_name(name)}", tuple(make_and(where, key) for key in keys))


def _unique(rows: People, pairs: int, rng: np.random.Generator) -> list[int]:
    """People that (dept, grade, zip) single out."""
    key = (rows.dept.astype(np.int64) * (GRADES + 1) + rows.grade) * (ZIPS[1] + 1) + rows.zip
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    alone = first[counts == 1]
    alone = alone[(rows.grade[alone] > 0) & (rows.zip[alone] > ZIPS[0] + 2000)]
    return [int(r) for r in rng.choice(alone, size=min(pairs, len(alone)), replace=False)]


def _pair(rows: People, row: int, rng: np.random.Generator) -> list[Asked]:
    """Two totals over the same department and grade whose zip ranges differ by where one person lives."""
    zip_ = int(rows.zip[row])
    common = (
        Comparison("dept", "=", f"dept {rows.dept[row]}"),
        Comparison("grade", "=", int(rows.grade[row])),
        Comparison("zip", ">=", int(rng.integers(ZIPS[0], zip_ - 1000))),
    )
    both = [make_and(*common, Comparison("zip", "<=", zip_)), make_and(*common, Comparison("zip", "<", zip_))]
    return [Asked(f"SELECT SUM(salary) FROM staff WHERE {format_predicate(where)}", (where,)) for where in both]
