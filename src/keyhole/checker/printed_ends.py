"""The ends of a printed number: ROUND(SUM(x), -1) = 20 leaves the sum between 15 and 25.

That a statement prints offset + sum of coefficient * value, rounded, and that no sum beyond the ends is printed as the
answer is tried without reading it: everybody gets random numbers, then one person's is chosen so that the sum lies just
beyond an end. Another number must be printed there, on that side of the answer; what is rounded is never printed in
another order, so further out it is no answer either. Ends that are said to be narrower than they are fail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .claims import Addend, Claimed, number
from .engine import NOBODY, Cannot, Engine, Fails
from .fillings import Maker
from .rounding import between, step_of

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

    def alone(self, claim: Claimed, rows: Sequence[int]) -> bool:
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
