"""What a yes or no says of a sum: no further than the dust of floating point beyond the constant, and on the grid.

With values base + step * m, m whole, the sum offset + sum of share * value is start + unit * m. Of DOUBLEs an engine
adds up something next to it: within n units of rounding of all that is added, which next to the constant is no more
than the constant where nothing cancels; exactly, where all of it has one power of two as a unit and 53 bits hold it.
Where neither says whether the engine sees the constant itself when the sum is the constant, it is asked: on tables of
the grid that have this sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from random import Random

Place = tuple[str, int]  # a private column and a row
Table = Mapping[Place, Fraction]
Ends = tuple[Fraction | None, Fraction | None]
ULP = Fraction(1, 2**52)
BITS = 2**53
TRIES = 6


@dataclass(frozen=True)
class ColumnValues:
    """What a column can hold: base + step * m between its ends; `floating`: as DOUBLE."""

    least: Fraction | None
    most: Fraction | None
    step: Fraction | None
    base: Fraction
    floating: bool


@dataclass(frozen=True)
class ComparedSum:
    """offset + sum of shares * values, compared with `at`."""

    at: Fraction
    offset: Fraction
    shares: Mapping[Place, Fraction]
    held: Mapping[str, ColumnValues]

    @property
    def whole(self) -> bool:
        """Integers and decimals, whole times each?"""
        plain = all(share.denominator == 1 for share in (*self.shares.values(), self.offset))
        return plain and not any(self.held[name].floating for name, _ in self.shares)

    @property
    def dust(self) -> Fraction:
        """How far the engine's number may lie from the sum, next to the constant."""
        if self.whole or self._dyadic:
            return Fraction(0) if _two_power(self.at.denominator) or self.whole else ULP * abs(self.at)
        if not any(self.held[name].floating for name, _ in self.shares):
            return 2 * ULP * abs(self.at)
        size = abs(self.at)
        if not self._one_sign:
            sizes = [self._size(place) for place in self.shares]
            size += abs(self.offset) + sum((s for s in sizes if s is not None), Fraction(0))
        return (len(self.shares) + 2) * ULP * size

    @property
    def grid(self) -> tuple[Fraction, Fraction] | None:
        """(start, unit); None where some column has no step."""
        start, steps = self.offset, [Fraction(0)]
        for (name, _), share in self.shares.items():
            held = self.held[name]
            if held.step is None:
                return None
            start += share * held.base
            steps.append(share * held.step)
        over = lcm(*(s.denominator for s in steps))
        unit = Fraction(gcd(*(int(s * over) for s in steps)), over)
        return (start, unit) if unit else None

    def end(self, *, above: bool, strict: bool, asked: Callable[[Table], bool]) -> Fraction:
        """Where the sums begin (or end) that may be answered so.

        `asked`: what the engine says of a table. `strict`: it would say no of the constant itself.
        """
        if not above:
            turned = ComparedSum(-self.at, -self.offset, {p: -s for p, s in self.shares.items()}, self.held)
            return -turned.end(above=True, strict=strict, asked=asked)
        found = self.grid
        if found is None:
            return self.at - self.dust
        start, unit = found
        first = start + unit * ceil((self.at - self.dust - start) / unit)
        if first == self.at and strict and self._sees(asked):
            first += unit
        return first

    def _sees(self, asked: Callable[[Table], bool]) -> bool:
        """Does the engine say no where the sum is the constant?"""
        if self.whole or self._dyadic or (not self.at and self._one_sign):
            return True
        found = [table for seed in range(10 * TRIES) if (table := self._table(Random(seed))) is not None]
        return len(found) >= TRIES and not any(asked(table) for table in found[:TRIES])

    def _table(self, random: Random) -> Table | None:
        """A table on the grid whose sum is the constant: everybody at the end that makes it least, then raised."""
        left, table = self.at - self.offset, {}
        for (name, row), share in self.shares.items():
            held = self.held[name]
            if held.least is None or held.most is None or held.step is None:
                return None
            top = held.base + held.step * floor((held.most - held.base) / held.step)
            table[name, row] = held.base if share > 0 else top
            left -= share * table[name, row]
        for name, row in random.sample(sorted(table), len(table)):
            held, share = self.held[name], self.shares[name, row]
            assert held.most is not None
            assert held.step is not None
            room = floor((held.most - held.base) / held.step)
            steps = max(0, min(room, floor(left / abs(share) / held.step)))
            table[name, row] += (1 if share > 0 else -1) * steps * held.step
            left -= abs(share) * steps * held.step
        return None if left else table

    @property
    def _dyadic(self) -> bool:
        over, total = self.offset.denominator, abs(self.offset)
        for place, share in self.shares.items():
            held, size = self.held[place[0]], self._size(place)
            if held.step is None or size is None:
                return False
            over = lcm(over, *(f.denominator for f in (share, share * held.step, share * held.base)))
            over = lcm(over, share.denominator * lcm(held.step.denominator, held.base.denominator))
            total += size
        return _two_power(over) and total * over < BITS

    @property
    def _one_sign(self) -> bool:
        signs = {self.offset > 0} if self.offset else set()
        for (name, _), share in self.shares.items():
            held = self.held[name]
            if held.least is not None and held.least >= 0:
                signs.add(share > 0)
            elif held.most is not None and held.most <= 0:
                signs.add(share < 0)
            elif len(self.shares) > 1 or self.offset:
                return False
        return len(signs) <= 1

    def _size(self, place: Place) -> Fraction | None:
        held = self.held[place[0]]
        if held.least is None or held.most is None:
            return None
        return abs(self.shares[place]) * max(abs(held.least), abs(held.most))


def _two_power(n: int) -> bool:
    return n & (n - 1) == 0
