"""Numbers that are known up to rounding: which range they leave, and whether one value of the column is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
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


def elsewhere(said: Blurred, *, part: bool) -> None:
    """Fails, where the answers may add up to 0 and are of one cell: the person may have another value then."""
    if part and abs(said.value) <= said.dust:
        raise Fails("the answers add up to 0, which does not say where the person is")


def rounding(cited: Addend) -> Fraction:
    """How far a printed number is said to be from the true one, where it is rounded: that is tried too."""
    said, off = number(cited.answer), cited.noise
    if isinstance(cited.answer, Mapping):
        said, off = middle(cited.answer)
    if cited.ends is None or said is None:
        return Fraction(0)
    return max((abs(end - said) - off for end in cited.ends if end is not None), default=Fraction(0))
