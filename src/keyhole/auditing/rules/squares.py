"""What squares give away: variances and sums of squares, of single people and of groups in which everybody is equal.

A square is tied to its value for everybody only where no private condition of the log splits it: what is summed under
`x < 2` says nothing of those who are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyhole.auditing.base import Proof, SquareSums, Status
from keyhole.auditing.known import Claim, Known
from keyhole.auditing.numbers import outward
from keyhole.auditing.rules.linear import linear_proof
from keyhole.auditing.rules.settle import exact_root, root_ends, settled
from keyhole.gather.evidence import Constraint, System
from keyhole.model.numbers import shorten_fraction
from keyhole.model.predicate import Predicate

ALL_EQUAL = "the variance is zero, so everybody has the average"
ALL_ZERO = "the squares add up to zero, so every value is zero"
TWO_ROOTS = "two values with this sum and these squares are known up to their order"
ULP = Fraction(1, 2**52)
TINY = Fraction(1, 2**537)  # the square of a smaller DOUBLE is zero

Ends = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class SumOf:
    """A query that answers `times` the sum of some people, and between what that sum lies."""

    number: str
    ends: Ends
    times: Fraction


@dataclass(frozen=True, slots=True)
class TwoMoments:
    """The sum and the sum of squares of the same people, and the queries that tell them."""

    column: str
    inside: NDArray[np.int64]
    total: Ends
    squares: Ends
    names: tuple[str, str]
    told: SquareSums | None = None  # how a stranger finds them, where what they say is exact

    @property
    def spread(self) -> Ends:
        """n times the squares less the square of the sum: zero where all are equal."""
        lo, hi = self.total
        least = Fraction(0) if lo <= 0 <= hi else min(lo * lo, hi * hi)
        n = len(self.inside)
        return n * self.squares[0] - max(lo * lo, hi * hi), n * self.squares[1] - least


def squares(system: System, known: Known) -> Iterator[Claim]:
    """Everybody in a group without variance, sums with their sums of squares, and single squares."""
    if not any(feature.power == 2 for feature in system.features):
        return
    number = known.number(system)
    for row, column, inside, told in _zero_squares(system):
        proof = Proof(number, {row.number: Fraction(1)}, rule=ALL_ZERO, moments=told)
        dust = Fraction(0) if known.exact(column) else TINY
        for r in inside.tolist():
            yield settled(r, column, (-dust, dust), proof, known.grid(column))
    for moments in _moments(system, known):
        yield from _two_moments(number, moments, known)
    yield from _single_squares(number, system, known)


def _whole(system: System, part: int) -> bool:
    """Is a feature the only one of its column and power? Then no private condition splits it."""
    feature = system.features[part]
    return sum((f.column, f.power) == (feature.column, feature.power) for f in system.features) == 1


def _sums_of_squares(system: System) -> Iterator[tuple[Constraint, Fraction, Fraction, str, Predicate]]:
    """Rows that are factor * SUM(x*x) + other * SUM(x) over one public condition, each without a weight."""
    for c in system.constraints:
        if not c.exact or c.lo is None or c.hi is None or any(p.weight is not None for p in c.parts):
            continue
        square = [p for p in c.parts if system.features[p.feature].power == 2]
        plain = [p for p in c.parts if system.features[p.feature].power == 1]
        if len(square) != 1 or len(plain) > 1 or not all(_whole(system, p.feature) for p in c.parts):
            continue
        column, at = system.features[square[0].feature].column, square[0].where
        if column is None or any(system.features[p.feature].column != column or p.where != at for p in plain):
            continue
        yield c, square[0].factor, plain[0].factor if plain else Fraction(0), column, at


def _zero_squares(system: System) -> Iterator[tuple[Constraint, str, NDArray[np.int64], SquareSums]]:
    for c, factor, other, column, at in _sums_of_squares(system):
        if other == 0 and c.lo == c.hi == 0:
            yield c, column, system.atoms.records(at), SquareSums("zero", at, c.number, factor=factor)


def _moments(system: System, known: Known) -> Iterator[TwoMoments]:
    """Pairs of SUM(x) and SUM(x*x), or a variance, of the same people."""
    zero, sums = {equal.number for equal in system.equal}, _sums(system)
    for c, factor, other, column, at in _sums_of_squares(system):
        partner, inside = sums.get((column, system.atoms.bits(at).tobytes())), system.atoms.records(at)
        if partner is None or not len(inside):
            continue
        assert c.lo is not None
        assert c.hi is not None
        less = sorted((other * partner.ends[0], other * partner.ends[1]))
        ends = sorted(((c.lo - less[1]) / factor, (c.hi - less[0]) / factor))
        told = SquareSums("", at, c.number, partner.number, factor, other, times=partner.times)
        if c.scale == 0:  # a variance
            kind = "equal" if c.number in zero else ""
            told = SquareSums(kind, at, c.number, partner.number, variance=True, times=partner.times)
        found = TwoMoments(column, inside, partner.ends, (ends[0], ends[1]), (partner.number, c.number), told)
        yield found if known.exact(column) else _dusty(found)


def _sums(system: System) -> dict[tuple[str, bytes], SumOf]:
    """Queries that answer a multiple of SUM(x), by the column and the people, however these are described."""
    found: dict[tuple[str, bytes], SumOf] = {}
    for c in system.constraints:
        if not c.exact or c.lo is None or c.hi is None or len(c.parts) != 1 or not c.parts[0].factor:
            continue
        part = c.parts[0]
        feature = system.features[part.feature]
        if feature.column is None or feature.power != 1 or part.weight is not None or not _whole(system, part.feature):
            continue
        lo, hi = sorted((c.lo / part.factor, c.hi / part.factor))
        at = (feature.column, system.atoms.bits(part.where).tobytes())
        if part.factor == 1 or at not in found:
            found[at] = SumOf(c.number, (lo, hi), part.factor)
    return found


def _dusty(m: TwoMoments) -> TwoMoments:
    """Sums of DOUBLE as they were printed: n terms, each off by an ulp of their size."""
    share = (len(m.inside) + 2) * ULP
    off = share * abs(m.squares[1])
    slip = share * root_ends(Fraction(0), len(m.inside) * abs(m.squares[1]))[1]
    return TwoMoments(
        m.column,
        m.inside,
        (m.total[0] - slip, m.total[1] + slip),
        (m.squares[0] - off, m.squares[1] + off),
        m.names,
        m.told,
    )


def _two_moments(number: int, m: TwoMoments, known: Known) -> Iterator[Claim]:
    """What a sum and a sum of squares of the same people tell of each of them."""
    weights = dict.fromkeys(m.names, Fraction(1))
    low, high = m.spread
    n = len(m.inside)
    if low <= 0 <= high and n > 1:  # |x - average|^2 is at most (n - 1) / n of the squares around it
        off = root_ends(Fraction(0), high * (n - 1))[1] / n
        ends = (m.total[0] / n - off, m.total[1] / n + off)
        proof = Proof(number, weights, rule=ALL_EQUAL, moments=_certificate(m, "equal", exact=low == high == 0))
        for r in m.inside.tolist():
            yield settled(r, m.column, ends, proof, known.grid(m.column))
    gap = exact_root(low) if low == high and low > 0 and known.exact(m.column) else None
    if n == 2 and gap is not None:
        ends = ((m.total[0] - gap) / 2, (m.total[0] + gap) / 2)
        one, two = (shorten_fraction(v) for v in ends)
        proof = Proof(number, weights, rule=TWO_ROOTS, moments=_certificate(m, "roots", exact=True))
        for r in m.inside.tolist():
            yield Claim(r, m.column, Status.INFERRED, None, one, two, proof, allowed=(one, two))


def _certificate(m: TwoMoments, kind: str, *, exact: bool) -> SquareSums | None:
    """What a stranger replays; None where floating-point dust makes it more than arithmetic with the answers."""
    if m.told is None or (m.told.variance and kind == "equal"):
        return m.told if m.told is not None and m.told.kind == "equal" else None  # a variance printed as 0
    return replace(m.told, kind=kind) if exact else None


def _single_squares(number: int, system: System, known: Known) -> Iterator[Claim]:
    """Records whose square is determined (from variances and SUM(x*x)): then |x| is known, and x where its sign is."""
    solved, K = known.solved(system), system.atoms.K
    for unknown in sorted(solved.determined):
        f, k = divmod(unknown, K)
        feature = system.features[f]
        if feature.power != 2 or feature.column is None or system.atoms.sizes[k] != 1:
            continue
        if system.value_of(feature.column, k, 2) != {unknown: 1}:
            continue
        weights = solved.space.weights(solved.built.column(unknown))
        if weights is not None:
            proof = linear_proof(number, solved.built, weights, {unknown: 1})
            ends = proof.ends(solved.by_number)
            claim = _root(int(system.atoms.first[k]), feature.column, ends, proof, known)
            if claim is not None:
                yield claim


def _root(row: int, column: str, ends: Ends | None, proof: Proof, known: Known) -> Claim | None:
    """A determined square x^2; None if no number has it, which the equations themselves contradict."""
    if ends is None:
        return Claim(row, column, Status.INFERRED, None, None, None, proof)
    if ends[1] < 0:
        return None
    low, high = root_ends(max(ends[0], Fraction(0)), ends[1])
    grid = known.grid(column)
    if grid.lo is not None and (grid.lo >= 0 or grid.lo > -low):
        return settled(row, column, (low, high), proof, grid)
    if grid.hi is not None and (grid.hi <= 0 or grid.hi < low):
        return settled(row, column, (-high, -low), proof, grid)
    if high == 0:
        return settled(row, column, (high, high), proof, grid)
    if grid.step is not None and (only := grid.sole(low, high)) is not None:
        low = high = only
    if low == high and Fraction(root := shorten_fraction(high)) == high:
        return Claim(row, column, Status.INFERRED, None, -root, root, proof, allowed=(-root, root))
    least, most = outward(-high, high)
    return Claim(row, column, Status.INFERRED, None, least, most, proof)
