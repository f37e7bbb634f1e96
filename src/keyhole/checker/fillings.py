"""Made-up private values from the operating system's entropy.

**Public conditions.** Then weighted answers are c_1 x_1 + ... + c_n x_n + d in the private values; the claim is that
c is 1 for one person and 0 for all others, and d is 0. Let c be wrong for somebody: whatever the others have, at most
one value of his fits exactly, and at most (2 T + 1) / s + 1 integers fit within a tolerance T, where s >= 1 / q is how
wrong c is (q: the common denominator of the weights). He draws from R integers, so a wrong c passes with probability at
most (2 q T + q + 1) / R. Fillings are independent: they go on until the product is below 2^-50. |sum| stays below 2^50,
so that an average printed as DOUBLE still gives its sum (its error is below 2^-52 of it, that is below a half). A wrong
d is found by one filling with small values, on which the tolerance is far below any constant.

**Private conditions.** The constants of the statements cut the line into c cells (points, open intervals between,
ends). Every person draws a cell, then a value in it. A sum over people that is wrong for somebody is wrong in one of
his cells; he is there with probability 1 / c, and then at least every second value shows it. So a wrong one passes with
probability at most 1 - 1 / (2 c) each time, and fillings go on until (1 - 1 / (2 c))^N is below 2^-50.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import SystemRandom
from typing import Any

from .engine import Engine

SMALL = 1000
MOST_CELLS = 60
WORDS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+|\w+|<>|[^\s\w]""", re.UNICODE)
SUMMED = {"sum", "avg", "mean", "count", "var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev"}
COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
LITERAL = re.compile(r"'((?:[^']|'')*)'|(?<![\w.\"])(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)(?![\w\"])")
FROM = re.compile(
    r"""\bfrom\s+("(?:[^"]|"")*"|\w+)(?:\s+(?:as\s+)?(?!where\b|group\b|having\b|order\b|limit\b)("(?:[^"]|"")*"|\w+))?"""
    r"""\s*(?=where\b|group\b|having\b|order\b|limit\b|;|$)""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Cell:  # of one private column; lo == hi: a point; text cells have `point` only
    """A piece of the line that the constants of the statements leave whole."""

    lo: Fraction | None
    hi: Fraction | None
    point: Any = None


def public_only(sql: str, private: Iterable[str]) -> bool:
    """Does a statement surely look at private values in sums alone, with nothing but public conditions?

    Read from the words, and only to know how many fillings are needed: whatever is not plainly so counts as private.

    >>> public_only("SELECT AVG(pay) FROM t WHERE zip > 5", ["pay"])
    True
    >>> public_only("SELECT SUM(pay) FROM t WHERE pay > 5", ["pay"])
    False
    """
    bare = COMMENTS.sub(" ", sql).strip()
    words = [w.casefold() for w in WORDS.findall(bare)]
    found = FROM.findall(bare)
    if words.count("select") != 1 or words.count("from") != 1 or len(found) != 1 or {"columns", "with"} & set(words):
        return False
    tables = {name.strip('"').casefold() for name in found[0] if name}
    names = {name.casefold() for name in private}
    inside, seen = _summed(words), 0
    start = words.index("from")
    for i, word in enumerate(words):
        bare_word = word.strip('"')
        if bare_word in names:
            if i not in inside:
                return False
            seen += 1
        elif bare_word in tables and not start < i <= start + 3 and words[i + 1 : i + 2] != ["."]:
            return False
    return seen > 0


def _summed(words: Sequence[str]) -> set[int]:
    """Places inside SUM(...), AVG(...), COUNT(...) whose argument is arithmetic and nothing else."""
    found: set[int] = set()
    for i, word in enumerate(words[:-1]):
        if word not in SUMMED or words[i + 1] != "(":
            continue
        depth, end = 0, i + 1
        for end in range(i + 1, len(words)):
            depth += {"(": 1, ")": -1}.get(words[end], 0)
            if depth == 0:
                break
        body = words[i + 2 : end]
        calls = any(b == "(" and re.fullmatch(r"\w+", a) for a, b in pairwise(body))
        if not calls and all(re.fullmatch(r"[\w.]+|\"[^\"]*\"|[-+*/().]", w) for w in body) and "case" not in body:
            found |= set(range(i + 2, end))
    return found


def constants(texts: Iterable[str], more: Iterable[Any] = ()) -> tuple[list[Fraction], list[str]]:
    """All numbers and all texts that stand in statements."""
    numbers: set[Fraction] = set()
    words: set[str] = set()
    for each in texts:
        for word, digits in LITERAL.findall(COMMENTS.sub(" ", each)):
            if digits:
                numbers.add(Fraction(Decimal(digits)))
            else:
                words.add(word.replace("''", "'"))
    for value in more:
        if isinstance(value, str):
            words.add(value)
        elif isinstance(value, int | Decimal) and not isinstance(value, bool):
            numbers.add(Fraction(value))
    numbers |= {-v for v in numbers}
    return sorted(numbers), sorted(words)


class Maker:
    """Makes fillings for one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.random = SystemRandom()

    def large(self, bits: int = 50) -> tuple[dict[str, list[Any]], int]:
        """Whole numbers from 1 to R with n R < 2^bits, for everybody; and R."""
        most = max(2**12, min(2**40, 2**bits // max(self.engine.n, 1)))
        return {name: self._column(name, most) for name in self.engine.private}, most

    def small(self) -> dict[str, list[Any]]:
        """Whole numbers up to SMALL."""
        return {name: self._column(name, SMALL) for name in self.engine.private}

    def _column(self, name: str, most: int) -> list[Any]:
        if self.engine.numeric(name):
            if self.engine.types[name].startswith("DECIMAL"):
                most = min(most, 10**11)
            return [self.random.randint(1, most) for _ in range(self.engine.n)]
        pool = self.values(name, [Cell(None, None, "a"), Cell(None, None, "b")])
        return [self.random.choice(pool) for _ in range(self.engine.n)]

    def cells(self, name: str, numbers: Sequence[Fraction], words: Sequence[str]) -> list[Cell]:
        """What the constants leave whole of the values of a column."""
        kind = self.engine.types[name]
        if kind == "BOOLEAN":
            return [Cell(None, None, True), Cell(None, None, False)]
        if not self.engine.numeric(name):
            return [*(Cell(None, None, word) for word in words), Cell(None, None, f"no{self.random.getrandbits(40)}")]
        found = [Cell(None, numbers[0] if numbers else None)]
        for i, here in enumerate(numbers):
            after = numbers[i + 1] if i + 1 < len(numbers) else None
            if kind != "BIGINT" or here.denominator == 1:
                found.append(Cell(here, here))
            if kind != "BIGINT" or after is None or math.ceil(after) - math.floor(here) > 1:
                found.append(Cell(here, after))
        return found

    def inside(self, name: str, cell: Cell) -> Any:
        """A value of a cell by chance."""
        if cell.point is not None:
            return cell.point
        if cell.lo is not None and cell.lo == cell.hi:
            return cell.lo
        if cell.lo is None or cell.hi is None:
            far = self.random.randint(1, 10**6)
            if cell.lo is None and cell.hi is None:
                return far * self.random.choice((1, -1))
            return math.floor(cell.lo) + far if cell.lo is not None else math.ceil(cell.hi or 0) - far
        if self.engine.types[name] == "BIGINT":
            return self.random.randint(math.floor(cell.lo) + 1, math.ceil(cell.hi) - 1)
        step = Fraction(self.random.randint(1, 2**20 - 1), 2**20)
        value = cell.lo + step * (cell.hi - cell.lo)
        rounded = Fraction(round(value * 10**6), 10**6)
        return rounded if cell.lo < rounded < cell.hi else value

    def values(self, name: str, cells: Sequence[Cell]) -> list[Any]:
        """Every cell by one value, or by three where it is an interval: near its ends, and between."""
        tiny = Fraction(1) if self.engine.types[name] == "BIGINT" else Fraction(1, 10**6)
        found: list[Any] = []
        for cell in cells:
            if cell.point is not None or (cell.lo is not None and cell.lo == cell.hi):
                found.append(cell.lo if cell.point is None else cell.point)
                continue
            low = None if cell.lo is None else Fraction(math.floor(cell.lo / tiny) + 1) * tiny
            high = None if cell.hi is None else Fraction(math.ceil(cell.hi / tiny) - 1) * tiny
            some = [v for v in (low, high, Fraction(self.inside(name, cell))) if v is not None]
            near = low if low is not None else high if high is not None else Fraction(0)
            some += [near + 10**9] if cell.hi is None else []
            some += [near - 10**9] if cell.lo is None else []
            found += sorted(set(some))
        return found

    def mixed(self, cells: Mapping[str, Sequence[Cell]]) -> dict[str, list[Any]]:
        """Everybody in a cell by chance, at a value by chance."""
        made = {}
        for name in self.engine.private:
            pool = cells[name]
            made[name] = [self.inside(name, self.random.choice(pool)) for _ in range(self.engine.n)]
        return made


def trials(cells: Mapping[str, Sequence[Cell]], bits: int) -> int:
    """How many fillings leave a wrong sum a chance below 2^-bits."""
    joint = math.prod(len(each) for each in cells.values())
    return math.ceil(bits * math.log(2) / -math.log1p(-1 / (2 * joint)))
