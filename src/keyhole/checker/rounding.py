"""Numbers that are known up to rounding: which range they leave, and whether one value of the column is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from .claims import Addend, Claimed, number
from .engine import INTEGERS, Engine, Fails

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
