"""Small streams of statements whose rows are known without any of the code under test: for laws of online auditors.

Every statement is made together with its meaning: one row of coefficients over the records for each number it asks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
from tests.laws.brute import rank

from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import Roster, load_roster

Vector = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Person:
    """A record of the small table; `sex` may be NULL, and so may the private value."""

    name: str
    age: int
    zip: int
    sex: str | None
    has: bool  # has a private value at all


PEOPLE = (
    Person("Ann", 31, 1, "F", True),
    Person("Bob", 45, 1, "M", True),
    Person("Cyd", 31, 2, "F", True),
    Person("Dan", 52, 2, None, True),
    Person("Eve", 28, 3, "F", False),
    Person("Fay", 45, 3, "M", True),
    Person("Gus", 60, 4, "M", True),
)
SECRET = (4, 9, 2, 7, 0, 5, 3)  # of Eve nothing is known, nor asked
OTHER_SECRET = (11, 9, -6, 7, 0, 1, 3)


@dataclass(frozen=True, slots=True)
class Ask:
    """One statement: its numbers as rows, offsets and divisors: number = (row . x + offset) / divisor."""

    sql: str
    rows: tuple[Vector, ...]
    offsets: tuple[Fraction, ...]
    divisors: tuple[Fraction, ...]

    def answers(self, x: Sequence[int]) -> tuple[Fraction | None, ...]:
        """The true numbers; None for NULL."""
        found = []
        for row, offset, divisor in zip(self.rows, self.offsets, self.divisors, strict=True):
            total = sum((c * v for c, v in zip(row, x, strict=True)), offset)
            found.append(total / divisor if divisor else None)
        return tuple(found)


@lru_cache(maxsize=8)
def roster(secret: tuple[int, ...] = SECRET) -> Roster:
    """The table, loaded without its secret."""
    lines = ["name,age,zip,sex,x"]
    for person, value in zip(PEOPLE, secret, strict=True):
        lines.append(f"{person.name},{person.age},{person.zip},{person.sex or ''},{value if person.has else ''}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return load_roster(path, Columns(id=("name",), private={"x": PrivateColumn()}))


Test = tuple[str, Callable[[Person], bool | None]]


def _condition(rng: np.random.Generator) -> Test:
    kind = int(rng.integers(6))
    age, place = int(rng.choice([28, 31, 45, 52])), int(rng.integers(1, 5))
    if kind == 0:
        return "TRUE", lambda _: True
    if kind == 1:
        return f"age <= {age}", lambda p: p.age <= age
    if kind == 2:
        return "sex = 'F'", lambda p: None if p.sex is None else p.sex == "F"
    if kind == 3:
        return f"NOT (zip = {place})", lambda p: p.zip != place
    if kind == 4:
        return (
            f"(sex = 'M' OR zip = {place})",
            lambda p: True if p.sex == "M" or p.zip == place else None if p.sex is None else False,
        )
    return f"age > {age} AND sex IS NOT NULL", lambda p: p.age > age and p.sex is not None


def _row(holds: Callable[[Person], bool | None], weight: Callable[[Person], Fraction]) -> Vector:
    return tuple(weight(p) if p.has and holds(p) is True else Fraction(0) for p in PEOPLE)


def _one(person: Person) -> Fraction:
    return Fraction(1)


def ask(rng: np.random.Generator) -> Ask:
    """A random statement of the SUM family."""
    text, holds = _condition(rng)
    other_text, other = _condition(rng)
    row = _row(holds, _one)
    count = Fraction(sum(1 for c in row if c))
    zero, one = Fraction(0), Fraction(1)
    kind = int(rng.integers(7))
    if kind == 0:
        return Ask(f"SELECT AVG(x) FROM t WHERE {text}", (row,), (zero,), (count,))
    if kind == 1:
        weighted = _row(holds, lambda p: Fraction(p.age, 2))
        return Ask(f"SELECT SUM(x * age) / 2 FROM t WHERE {text}", (weighted,), (zero,), (one,))
    if kind == 2:
        both = tuple(a - 2 * b for a, b in zip(row, _row(other, _one), strict=True))
        people = Fraction(sum(1 for p in PEOPLE if holds(p) is True))
        sql = f"SELECT SUM(x) FILTER (WHERE {text}) - 2 * SUM(x) FILTER (WHERE {other_text})"
        return Ask(f"{sql} + COUNT(*) FILTER (WHERE {text}) FROM t", (both,), (people,), (one,))
    if kind == 3:
        zips = sorted({p.zip for p in PEOPLE if holds(p) is True})
        rows = tuple(_row(lambda p, z=z: holds(p) is True and p.zip == z, _one) for z in zips)  # type: ignore[misc]
        sql = f"SELECT zip, SUM(x) FROM t WHERE {text} GROUP BY zip"
        return Ask(sql, rows, (zero,) * len(rows), (one,) * len(rows))
    return Ask(f"SELECT SUM(x) FROM t WHERE {text}", (row,), (zero,), (one,))


def stream(seed: int, length: int = 14) -> list[Ask]:
    """A random stream of statements."""
    rng = np.random.default_rng(seed)
    return [ask(rng) for _ in range(length)]


def determined(rows: Sequence[Vector], *, insiders: int = 0) -> set[int]:
    """Who is determined by the rows (insiders = 1: also by the rows and any one other value), by brute force."""
    n = len(PEOPLE)
    found = set(_determined(rows, range(n)))
    if insiders:
        for k in range(n):
            found |= set(_determined(rows, [i for i in range(n) if i != k]))
    return found


def _determined(rows: Sequence[Vector], kept: Sequence[int]) -> list[int]:
    narrow = [[row[i] for i in kept] for row in rows]
    before = rank(narrow)
    units = [[Fraction(int(i == k)) for i in kept] for k in kept]
    return [k for k, unit in zip(kept, units, strict=True) if rows and rank([*narrow, unit]) == before]
