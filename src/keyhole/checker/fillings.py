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

from .claims import Addend, fraction, number
from .engine import INTEGER, Cannot, Engine, Fails

SMALL = 1000
WORDS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+|\w+|<>|[^\s\w]""", re.UNICODE)
SUMMED = {"sum", "avg", "mean", "count", "var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev"}
WORD = re.compile(r"[\w.]+|\"[^\"]*\"")
BENT = ("//", "**")
BENDING = {
    "case",
    "if",
    "iff",
    "greatest",
    "least",
    "abs",
    "sign",
    "sqrt",
    "power",
    "pow",
    "exp",
    "ln",
    "log",
    "<",
    ">",
}
NEVER = "the statements answer NULL, or do not show the group, whatever values are made up"
PLAIN = {*SUMMED, "in", "and", "or", "not", "where", "when", "filter", "then", "else", "by", "having", "select", "on"}
ARITHMETIC = {"+", "-", "*", "/", "%", "|", "^", ":"}
COMMENTS = re.compile(r"--[^\r\n]*|/\*.*?\*/", re.DOTALL)
LITERAL = re.compile(r"'((?:[^']|'')*)'|(?<![\w.\"])(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)(?![\w\"])")
FROM = re.compile(
    r"""\bfrom\s+("(?:[^"]|"")*"|\w+)(?:\s+(?:as\s+)?(?!where\b|group\b|having\b|order\b|limit\b)("(?:[^"]|"")*"|\w+))?"""
    r"""\s*(?=where\b|group\b|having\b|order\b|limit\b|;|$)""",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Span:
    """A piece of the line that the constants of the statements leave whole: a point, or an open interval.

    Of texts and truths there are points alone. With a `step` only base + k * step are values.
    """

    lo: Fraction | None
    hi: Fraction | None
    point: Any = None
    step: Fraction = Fraction(1, 10**6)
    base: Fraction = Fraction(0)

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The first and the last k of the values inside; None: without end."""
        low = None if self.lo is None else math.floor((self.lo - self.base) / self.step) + 1
        high = None if self.hi is None else math.ceil((self.hi - self.base) / self.step) - 1
        return low, high

    def at(self, k: int) -> Fraction:
        """The k-th value."""
        return self.base + k * self.step


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
        # a function, two words in a row (DISTINCT x, x IS NULL, NOT x), // and ** are more than arithmetic
        calls = any((WORD.fullmatch(a) and (b == "(" or WORD.fullmatch(b))) or a + b in BENT for a, b in pairwise(body))
        if not calls and all(re.fullmatch(r"[\w.]+|\"[^\"]*\"|[-+*/().]", w) for w in body) and "case" not in body:
            found |= set(range(i + 2, end))
    return found


def strange(sql: str, private: Iterable[str]) -> str:
    """Why the constants of a statement may not be where its meaning changes; empty if nothing speaks for that.

    >>> strange("SELECT COUNT(*) FROM t WHERE pay > 5 AND team LIKE 'a%'", ["pay"])
    ''
    >>> strange("SELECT COUNT(*) FROM t WHERE 2 * pay > 5", ["pay"])
    'a condition on a function of a private column'
    """
    words = [w.casefold() for w in WORDS.findall(COMMENTS.sub(" ", sql))]
    names = {name.casefold() for name in private}
    if "distinct" in words:
        return "DISTINCT"
    inside = _arguments(words)
    listed = words.index("from") if words.count("select") == 1 and "from" in words else len(words)
    if any(w in BENDING for i, w in enumerate(words[:listed]) if i not in inside):
        return "a condition on a sum, or a function of one"
    summed = _summed(words)
    for i, word in enumerate(words):
        if word.strip('"') not in names or i in summed:
            continue
        before = words[i - 3 : i - 1] if words[i - 1 : i] == ["."] else words[max(i - 2, 0) : i]
        near = {*before[-1:], *words[i + 1 : i + 2]}
        called = before[-1:] == ["("] and len(before) == 2 and WORD.fullmatch(before[0]) and before[0] not in PLAIN
        if near & ARITHMETIC or called:
            return "a condition on a function of a private column"
        if {"like", "ilike", "similar", "glob", "~"} & set(words[i + 1 : i + 3]):
            return "a pattern on a private column"
    return ""


def _arguments(words: Sequence[str]) -> set[int]:
    """Places inside the parentheses of aggregates."""
    found: set[int] = set()
    for i, word in enumerate(words[:-1]):
        if word in (*SUMMED, "filter") and words[i + 1] == "(":
            depth = 0
            for end in range(i + 1, len(words)):
                depth += {"(": 1, ")": -1}.get(words[end], 0)
                found.add(end)
                if depth == 0:
                    break
    return found


def constants(texts: Iterable[str], more: Iterable[Any] = ()) -> tuple[list[Fraction], list[str]]:
    """All numbers and all texts that stand in statements."""
    numbers: set[Fraction] = set()
    words: set[str] = set()
    for each in texts:
        for word, digits in LITERAL.findall(COMMENTS.sub(" ", each)):
            if digits:
                numbers.add(fraction(digits))
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

    def large(self, sign: int = 1, bits: int = 50) -> tuple[dict[str, list[Any]], int]:
        """Numbers from 1 to R, in units of `step`, with n R < 2^bits, for everybody and with one sign; and R."""
        most = max(2**12, min(2**40, 2**bits // max(self.engine.n, 1)))
        return {name: self._column(name, most, sign) for name in self.engine.private}, most

    def small(self, sign: int = 1) -> dict[str, list[Any]]:
        """Numbers up to SMALL units."""
        return {name: self._column(name, SMALL, sign) for name in self.engine.private}

    def step(self, name: str) -> Fraction:
        """Columns that may hold fractions are filled with such, so that a rounding shows."""
        kind = self.engine.types[name]
        return Fraction(1) if kind == INTEGER else Fraction(1, 2**10) if kind == "DOUBLE" else Fraction(1, 10**6)

    def _column(self, name: str, most: int, sign: int) -> list[Any]:
        if self.engine.numeric(name):
            unit = sign * self.step(name)
            return [self.random.randint(1, most) * unit for _ in range(self.engine.n)]
        pool = self.values(self.cells(name, [], ["a", "b"]))
        return [self.random.choice(pool) for _ in range(self.engine.n)]

    def cells(
        self, name: str, numbers: Sequence[Fraction], words: Sequence[str], declared: Mapping[str, Any] | None = None
    ) -> list[Span]:
        """What the constants leave whole of the values of a column, as far as they were declared possible."""
        kind, said = self.engine.types[name], declared or {}
        if kind == "BOOLEAN":
            return [Span(None, None, True), Span(None, None, False)]
        if not self.engine.numeric(name):
            listed = said.get("values")
            fresh = [Span(None, None, f"no{self.random.getrandbits(40)}")] if listed is None else []
            return [*(Span(None, None, word) for word in (words if listed is None else listed)), *fresh]
        if "numbers" in said:
            return [Span(at, at, at) for at in said["numbers"]]
        lo, hi, step = (number(said.get(end)) for end in ("min", "max", "step"))
        base = lo if lo is not None and step is not None else Fraction(0)
        if step is None:
            step = Fraction(1) if kind == INTEGER else Fraction(1, 10**6)
        cuts = sorted({*numbers, *(end for end in (lo, hi) if end is not None)})
        found = [Span(None, cuts[0] if cuts else None, None, step, base)]
        for i, here in enumerate(cuts):
            if ((here - base) / step).denominator == 1:
                found.append(Span(here, here, here))
            found.append(Span(here, cuts[i + 1] if i + 1 < len(cuts) else None, None, step, base))
        return [cell for cell in found if _possible(cell, lo, hi)]

    def inside(self, cell: Span) -> Any:
        """A value of a cell by chance."""
        if cell.point is not None:
            return cell.point
        low, high = cell.ends
        wide = int(10**6 / cell.step)
        if low is None:
            low = (high if high is not None else wide) - 2 * wide
        return cell.at(self.random.randint(low, high if high is not None else low + 2 * wide))

    def values(self, cells: Sequence[Span]) -> list[Any]:
        """Every cell by its point, or by several values where it is an interval: at its ends, between, far out."""
        found: list[Any] = []
        for cell in cells:
            if cell.point is not None:
                found.append(cell.point)
                continue
            low, high = cell.ends
            near = low if low is not None else high if high is not None else 0
            far = int(10**9 / cell.step)
            some = {low if low is not None else near - far, high if high is not None else near + far}
            found += sorted({*map(cell.at, some), self.inside(cell)})
        return found

    def mixed(self, cells: Mapping[str, Sequence[Span]]) -> dict[str, list[Any]]:
        """Everybody in a cell by chance, at a value by chance."""
        made = {}
        for name in self.engine.private:
            pool = cells[name]
            made[name] = [self.inside(self.random.choice(pool)) for _ in range(self.engine.n)]
        return made


def _possible(cell: Span, lo: Fraction | None, hi: Fraction | None) -> bool:
    """Has a cell a value inside the declared range?"""
    if cell.point is not None:
        return (lo is None or lo <= cell.point) and (hi is None or cell.point <= hi)
    if (lo is not None and (cell.lo is None or cell.lo < lo)) or (hi is not None and (cell.hi is None or cell.hi > hi)):
        return False
    low, high = cell.ends
    return low is None or high is None or low <= high


def trials(cells: Mapping[str, Sequence[Span]], bits: int) -> int:
    """How many fillings leave a wrong sum a chance below 2^-bits."""
    joint = math.prod(len(each) for each in cells.values())
    return math.ceil(bits * math.log(2) / -math.log1p(-1 / (2 * joint)))


def never(proof: Sequence[Addend]) -> Cannot | Fails:
    """No filling answers as it did: a HAVING may want values that are not made up, anything else is never so."""
    hidden = any("having" in (cited.sql or "").casefold() for cited in proof)
    return Cannot(NEVER) if hidden else Fails(NEVER)


def plainly(proof: Sequence[Addend], private: Sequence[str]) -> None:
    """Cannot, where a statement may change its meaning elsewhere than at its constants."""
    for cited in proof:
        why = strange(cited.sql, private) if cited.sql is not None else ""
        if why:
            raise Cannot(why)
