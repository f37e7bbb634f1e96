"""Yes-or-no questions: SUM(x) > 100 of people named by public conditions.

That a statement compares offset + sum of coefficient * value with a constant is tried on made-up values, without
reading it: everybody gets random numbers, then one person's is chosen so that the sum lies just below the constant, and
just above (where sums are exact also on it). The answer must change there, each time, and be as it should far off. A
statement about others, or with other weights, would have to hit the same narrow gap by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from .claims import Addend, fraction, number
from .compared import ColumnValues, ComparedSum
from .engine import INTEGER, NOBODY, Cannot, Fails
from .fillings import COMMENTS, WORDS
from .order import Ends, conditional
from .rounding import step_of
from .sums import ULP, Sums

Place = tuple[str, int]  # a private column and a row
OPERATIONS = {">": gt, ">=": ge, "<": lt, "<=": le, "=": eq, "<>": ne}
DRAWN_BITS = 40
# in a HAVING, words by which it may be more than one comparison of sums, or hide groups by something else
HIDING = {"filter", "where", "select", "distinct", "columns", "limit", "offset", "qualify", "fetch"}
BENT = {"case", "if", "iff", "or", "not", "in", "between", "is", "coalesce", "ifnull", "nullif", "abs", "%"}


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
        if not coefficients or self._conditional(cited):
            raise Cannot("a comparison under a condition on private values, or of nobody")
        sure, k = 0.0, 0
        while sure < self.sums.bits or k < 4:
            gained = self._once(cited, coefficients, 1 - 2 * (k % 2))
            if gained < 1:
                raise Cannot("floating point blurs the made-up sums too much")
            sure, k = sure + gained, k + 1
        self._tried.add(key)

    def _conditional(self, cited: Addend) -> bool:
        """Is it asked under a condition on private values? One comparison that HAVING asks of a whole group is none."""
        text, private = cited.sql or "", self.sums.engine.private
        words = [w.casefold().strip('"') for w in WORDS.findall(COMMENTS.sub(" ", text))]
        if not (cited.test or {}).get("shown") or words.count("having") != 1:
            return conditional(text, private)
        at, names = words.index("having"), {name.casefold() for name in private}
        ends = [i for i in range(at, len(words)) if words[i] in ("having", "and")]
        parts = [words[i:j] for i, j in zip(ends, [*ends[1:], len(words)], strict=True)]
        looks = sum(not names.isdisjoint(part) for part in parts)
        return looks != 1 or not (HIDING | BENT).isdisjoint(words[at:]) or conditional(_joined(words[:at]), private)

    def told(
        self, cited: Addend, coefficients: Mapping[Place, Fraction], declared: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Ends, Fraction]:
        """Between what the number lies that was compared, by the answer, and its dust; wider by the bound of its noise.

        `declared`: min, max and step of each column.
        """
        op, at, offset, noise = _test(cited)
        if not isinstance(cited.answer, bool):
            raise Cannot("the verdict does not have the answers")
        held = {name: self._held(name, declared.get(name) or {}) for name, _ in coefficients}
        said = ComparedSum(at, offset, coefficients, held)
        if op in ("=", "<>"):
            off = said.dust + noise
            return ((at - off, at + off) if cited.answer is (op == "=") else (None, None)), said.dust
        above = (op in (">", ">=")) is cited.answer
        strict = op in ((">", "<=") if above else ("<", ">=")) and not noise
        said = replace(said, at=at - noise if above else at + noise)
        end = said.end(above=above, strict=strict, asked=lambda table: self._asked(cited, table) is cited.answer)
        return ((end, None) if above else (None, end)), said.dust

    def _held(self, name: str, said: Mapping[str, Any]) -> ColumnValues:
        engine = self.sums.engine
        least, most, step = (number(said.get(end)) for end in ("min", "max", "step"))
        base = Fraction(0) if step is None or least is None else least
        whole = Fraction(1) if engine.types[name] == INTEGER else step_of(engine, name)
        return ColumnValues(least, most, step or whole, base, engine.types[name] == "DOUBLE")

    def _asked(self, cited: Addend, table: Mapping[Place, Fraction]) -> Any:
        """What the statement answers of these people; all others as made up."""
        made, _ = self.sums.maker.large(1, DRAWN_BITS)
        for (name, row), value in table.items():
            made[name][row] = value
        self.sums.engine.fill(made, keep=False)
        return self.sums.engine.answer(cited)

    def _once(self, cited: Addend, coefficients: Mapping[Place, Fraction], sign: int) -> float:
        maker, engine, (op, at, offset, _) = self.sums.maker, self.sums.engine, _test(cited)
        made, most = maker.large(sign, DRAWN_BITS)
        name, row = place = maker.random.choice(sorted(coefficients))
        share, step = coefficients[place], maker.step(name)
        others = {p: c * Fraction(made[p[0]][p[1]]) for p, c in coefficients.items() if p != place}
        rest = offset + sum(others.values())
        size = abs(at) + abs(offset) + abs(at - rest) + sum(map(abs, others.values()))
        exact = all(c.denominator == 1 and engine.types[p[0]] != "DOUBLE" for p, c in coefficients.items())
        blur = Fraction(0) if exact and offset.denominator == 1 else 4 * (engine.n + 2) * ULP * size / abs(share)
        turn = (at - rest) / share
        on = () if blur else (step * math.floor(turn / step), step * math.ceil(turn / step))
        near = (step * (math.floor((turn - blur) / step) - 1), step * (math.ceil((turn + blur) / step) + 1))
        drawn = Fraction(made[name][row])
        for value in (
            *(() if abs(drawn - turn) <= 2 * blur else (drawn,)),
            *near,
            *on,
        ):  # far off, just below, above, on
            made[name][row] = value
            engine.fill(made, keep=False)
            said = engine.answer(cited)  # of a HAVING: is the group shown?
            if said is None or said is NOBODY:
                raise Cannot("the statement answers NULL, or does not show the group")
            if not isinstance(said, bool):
                raise Fails("a statement is no yes-or-no question")
            if said is not OPERATIONS[op](rest + share * value, at):
                raise Fails("a statement does not compare what it is said to compare")
        return math.log2(most) - math.log2(float(4 + 2 * blur / step))


def _joined(words: Sequence[str]) -> str:
    """Words as a text again; what is no plain word in quotes."""
    return " ".join(w if w.isidentifier() or not w[:1].isalpha() else f'"{w}"' for w in words)


def _test(cited: Addend) -> tuple[str, Fraction, Fraction, Fraction]:
    said: Mapping[str, Any] = cited.test or {}
    if said.get("op") not in OPERATIONS:
        raise Cannot("a comparison without its constant")
    at, offset, noise = (fraction(said.get(name, "0")) for name in ("value", "offset", "noise"))
    return str(said["op"]), at, offset, noise
