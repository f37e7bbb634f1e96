"""Yes-or-no questions: SUM(x) > 100 of people named by public conditions.

That a statement compares offset + sum of coefficient * value with a constant is tried on made-up values, without
reading it: everybody gets random numbers, then one person's is chosen so that the sum lies just below the constant, and
just above. The answer must change there, each time. A statement about others, or with other weights, would have to hit
the same narrow gap by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from .claims import Addend
from .engine import NOBODY, Cannot, Fails
from .order import Ends, conditional
from .sums import ULP, Sums

Place = tuple[str, int]  # a private column and a row
OPERATIONS = {">": gt, ">=": ge, "<": lt, "<=": le, "=": eq, "<>": ne}
DRAWN_BITS = 40


class Thresholds:
    """Replays comparisons; what was seen of a statement is kept."""

    def __init__(self, sums: Sums) -> None:
        self.sums = sums
        self._tried: set[str] = set()

    def check(self, cited: Addend, coefficients: Mapping[Place, Fraction]) -> None:
        """The statement compares these coefficients times values with its constant; Fails if not."""
        key = repr((cited.sql, cited.key, cited.column, cited.test, sorted(coefficients.items())))
        if key in self._tried:
            return
        if not coefficients or conditional(cited.sql or "", self.sums.engine.private):
            raise Cannot("a comparison under a condition on private values, or of nobody")
        sure, k = 0.0, 0
        while sure < self.sums.bits or k < 4:
            gained = self._once(cited, coefficients, 1 - 2 * (k % 2))
            if gained < 1:
                raise Cannot("floating point blurs the made-up sums too much")
            sure, k = sure + gained, k + 1
        self._tried.add(key)

    def _once(self, cited: Addend, coefficients: Mapping[Place, Fraction], sign: int) -> float:
        maker, engine, (op, at, offset, _) = self.sums.maker, self.sums.engine, _test(cited)
        made, most = maker.large(sign, DRAWN_BITS)
        name, row = place = maker.random.choice(sorted(coefficients))
        share, step = coefficients[place], maker.step(name)
        others = {p: c * Fraction(made[p[0]][p[1]]) for p, c in coefficients.items() if p != place}
        rest = offset + sum(others.values())
        size = abs(at) + abs(offset) + abs(at - rest) + sum(map(abs, others.values()))
        blur = 4 * (engine.n + 2) * ULP * size / abs(share)
        turn = (at - rest) / share
        for value in (step * (math.floor((turn - blur) / step) - 1), step * (math.ceil((turn + blur) / step) + 1)):
            made[name][row] = value
            engine.fill(made, keep=False)
            said = engine.answer(cited)
            if said is None or said is NOBODY:
                raise Cannot("the statement answers NULL, or does not show the group")
            if not isinstance(said, bool):
                raise Fails("a statement is no yes-or-no question")
            if said is not OPERATIONS[op](rest + share * value, at):
                raise Fails("a statement does not compare what it is said to compare")
        return math.log2(most) - math.log2(float(4 + 2 * blur / step))


def told(cited: Addend) -> Ends:
    """Between what the number lies that was compared, by the answer; wider by the bound of its noise."""
    op, at, _, noise = _test(cited)
    if not isinstance(cited.answer, bool):
        raise Cannot("the verdict does not have the answers")
    if op in ("=", "<>"):
        return (at - noise, at + noise) if cited.answer is (op == "=") else (None, None)
    above = (op in (">", ">=")) is cited.answer
    return (at - noise, None) if above else (None, at + noise)


def _test(cited: Addend) -> tuple[str, Fraction, Fraction, Fraction]:
    said: Mapping[str, Any] = cited.test or {}
    if said.get("op") not in OPERATIONS:
        raise Cannot("a comparison without its constant")
    at, offset, noise = (Fraction(str(said.get(name, "0"))) for name in ("value", "offset", "noise"))
    return str(said["op"]), at, offset, noise
