"""Numbers that are known up to rounding: which range they leave, and whether one value of the column is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from .claims import Addend, Claimed, number
from .engine import INTEGERS, NOBODY, Cannot, Engine, Fails
from .fillings import Maker

ROOM = Fraction(1, 10**9)  # ends are printed with nine decimals, outwards


@dataclass(frozen=True)
class Blurred:
    """A number with how far floating point may have moved it."""

    value: Fraction
    dust: Fraction = Fraction(0)


def step_of(engine: Engine, column: str) -> Fraction | None:
    """Between two values of a column lies at least this, by its type; None where the type does not say."""
    held = engine.columns.get(column, "")
    if held in INTEGERS:
        return Fraction(1)
    return Fraction(1, 10 ** int(held.rstrip(")").split(",")[1])) if held.startswith("DECIMAL") else None


def within(claim: Claimed, said: Blurred, declared: Sequence[Any] = (None, None)) -> None:
    """The claimed range holds all that the answers leave of the declared one; Fails if not."""
    least, most = map(number, declared)
    lo, hi = number(claim.lo), number(claim.hi)
    if claim.allowed or claim.excluded or (lo is None and hi is None):
        raise Fails("a sum of answers proves a value, a range or a total")
    if lo is not None and lo > said.value - said.dust + ROOM and (least is None or lo > least):
        raise Fails("the answers leave the person less than is claimed")
    if hi is not None and hi < said.value + said.dust - ROOM and (most is None or hi < most):
        raise Fails("the answers leave the person more than is claimed")


def sole(claim: Claimed, value: Fraction, said: Blurred, engine: Engine) -> bool:
    """Is the claimed value the only one of the column that the answers leave?"""
    step = number(claim.certificate.get("step")) or step_of(engine, claim.column)
    if step is None:
        return False
    dust = said.dust * (2 if any(c.known is not None for c in claim.proof) else 1)  # a constant may be off as much
    return value - step < said.value - dust and said.value + dust < value + step


def middle(said: Mapping[str, Any]) -> tuple[Fraction | None, Fraction]:
    """An answer with two ends as its middle, and how far they are from it.

    >>> middle({"lo": 9, "hi": 13})
    (Fraction(11, 1), Fraction(2, 1))
    """
    lo, hi = number(said.get("lo")), number(said.get("hi"))
    if lo is None or hi is None:
        return None, Fraction(0)
    return (lo + hi) / 2, (hi - lo) / 2


def whole(cited: Addend, column: str, engine: Engine) -> Addend:
    """An answer known up to less than one, of a statement that answers whole numbers: the one number that is left.

    What a statement answers has the same type whatever is filled in; sums of whole numbers are made up as such.
    """
    said, off = number(cited.answer), cited.noise
    if isinstance(cited.answer, Mapping):
        said, off = middle(cited.answer)
    if said is None or not off or cited.rounded or cited.sql is None or step_of(engine, column) != 1:
        return cited
    if type(engine.answer(cited)) is not int or floor(said + off) != ceil(said - off):
        return cited
    return replace(cited, answer=floor(said + off), noise=Fraction(0), exactly=None)


def elsewhere(said: Blurred, *, part: bool) -> None:
    """Fails, where the answers may add up to 0 and are of one cell: the person may have another value then."""
    if part and abs(said.value) <= said.dust:
        raise Fails("the answers add up to 0, which does not say where the person is")


def between(cited: Addend) -> tuple[Fraction | None, Fraction | None]:
    """The ends of what was answered: of a number itself, or of what it was before noise.

    >>> between(Addend(Fraction(1), answer={"lo": 9, "hi": None})), between(Addend(Fraction(1), answer=2))
    ((Fraction(9, 1), None), (Fraction(2, 1), Fraction(2, 1)))
    """
    if isinstance(cited.answer, Mapping):
        return number(cited.answer.get("lo")), number(cited.answer.get("hi"))
    said = number(cited.answer)
    return (None, None) if said is None else (said - cited.noise, said + cited.noise)


def radius(cited: Addend) -> Fraction:
    """How far the true number is said to be from what is printed: ends beyond those of the answer, and rounding."""
    said, ends = between(cited), cited.ends or (None, None)
    off = [abs(a - b) for a, b in zip(ends, said, strict=True) if a is not None and b is not None]
    return max(off, default=Fraction(0)) + (cited.rounded or 0)


# --- printed ends -----------------------------------------------------------------------------------------------------
# The ends of a printed number: ROUND(SUM(x), -1) = 20 leaves the sum between 15 and 25.
# That a statement prints offset + sum of coefficient * value, rounded, and that no sum beyond the ends is printed as
# the answer is tried without reading it: everybody gets random numbers, then one person's is chosen so that the sum
# lies just beyond an end. Another number must be printed there, on that side of the answer; what is rounded is never
# printed in another order, so further out it is no answer either. Ends that are said to be narrower than they are
# fail.


Place = tuple[str, int]  # a private column and a row
Declared = Mapping[str, Mapping[str, Any]]
TRIES, DRAWN_BITS = 4, 20
ULP = Fraction(1, 2**52)


class PrintedEnds:
    """Tries ends of printed numbers; what was seen of a statement is kept."""

    def __init__(self, engine: Engine, maker: Maker) -> None:
        self.engine = engine
        self.maker = maker
        self._tried: set[str] = set()

    def check(self, cited: Addend, coefficients: Mapping[Place, Fraction], declared: Declared) -> None:
        """Beyond the ends of this addend its statement answers otherwise; Fails if not."""
        said = (cited.sql, cited.key, cited.column, cited.answer, cited.noise, cited.ends, cited.offset)
        key = repr((said, sorted(coefficients.items()), declared))
        if key in self._tried or cited.ends is None:
            return
        if not coefficients:
            raise Cannot("a rounded number of nobody")
        answered = between(cited)
        for turn in range(TRIES):
            for side, end in enumerate(cited.ends):
                if end is None:
                    continue
                if (limit := answered[side]) is None:
                    raise Fails("an answer is not the interval that it is said to be")
                printed = self._beyond(cited, coefficients, declared, side, end, sign=1 - 2 * (turn % 2))
                dust = 4 * ULP * abs(limit)
                if printed is not None and (printed <= limit + dust if side else printed >= limit - dust):
                    raise Fails("a rounded answer leaves more than it is said to leave")
        self._tried.add(key)

    def is_one_rounded_answer(self, claim: Claimed, rows: Sequence[int]) -> bool:
        """Is the claim a value, or a total, by one rounded answer alone, whose radius is true? Fails if it is not."""
        known = sum((c.weight * c.known for c in claim.proof if c.known is not None), Fraction(0))
        asked = [c for c in claim.proof if c.known is None]
        if len(asked) != 1 or asked[0].fact is not None:
            return False
        one, (low, high) = asked[0], between(asked[0])
        if low is None or high is None or one.squares is not None or one.form:
            return False
        off = one.rounded or Fraction(0)
        said = replace(one, ends=(low - off, high + off), offset=-known / one.weight)
        self.check(said, {(claim.column, row): 1 / one.weight for row in rows}, {})
        return True

    def _beyond(
        self,
        cited: Addend,
        coefficients: Mapping[Place, Fraction],
        declared: Declared,
        side: int,
        end: Fraction,
        *,
        sign: int,
    ) -> Fraction | None:
        """What is printed of a sum just below the lower end (0), or just above the upper one (1); None if nothing."""
        made, _ = self.maker.large(sign, DRAWN_BITS)
        for name, row in coefficients:
            step, base = self._grid(name, declared)
            made[name][row] = base + step * round((Fraction(made[name][row]) - base) / step)
        name, row = place = self.maker.random.choice(sorted(coefficients))
        (step, base), share = self._grid(name, declared), coefficients[place]
        others = [c * Fraction(made[p[0]][p[1]]) for p, c in coefficients.items() if p != place]
        rest = cited.offset + sum(others)
        blur = 8 * (self.engine.n + 2) * ULP * (abs(end) + abs(cited.offset) + abs(end - rest) + sum(map(abs, others)))
        turn = ((end + blur if side else end - blur) - rest) / share
        up = (share > 0) == bool(side)
        count = (turn - base) / step
        made[name][row] = base + step * (math.floor(count) + 1 if up else math.ceil(count) - 1)
        self.engine.fill(made, keep=False)
        said = self.engine.answer(cited)
        return None if said is None or said is NOBODY else number(said)

    def _grid(self, name: str, declared: Declared) -> tuple[Fraction, Fraction]:
        """The step of a column and where it is counted from: declared, by its type, or as made up."""
        said = declared.get(name) or {}
        step = number(said.get("step"))
        if step is not None:
            return step, number(said.get("min")) or Fraction(0)
        return step_of(self.engine, name) or self.maker.step(name), Fraction(0)
