"""Evidence about one private column as a decoding problem: coefficients, answers, noise laws, bounds.

Unknowns are means over atoms (feature-major, as in `Evidence`): u[f*K + k] is the mean of feature f over the records of
atom k, so its bounds are those of a single record, and records that no question tells apart share one unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attack.base import Floats, Target
from keyhole.basis.partition import refine
from keyhole.cells import Cell
from keyhole.errors import CannotHonour, ConfigError, ContradictionError, LogError
from keyhole.evidence import Constraint, Evidence, System
from keyhole.forms import Feature
from keyhole.solve.decode.bitrows import Words, pack, unpack
from keyhole.transcript import Answer


class NoiseLaw(IntEnum):
    """How an answer may differ from the truth."""

    EXACT = 0
    LAPLACE = 1
    GAUSSIAN = 2
    INTERVAL = 3  # rounded, uniform, suppressed or one-sided: the truth lies in [lo, hi], nothing else is known


# On its grid a discrete law is proportional to the continuous density of the same scale, so the likelihood of values
# is the same at any scale; its variance is smaller, so errors stated for the continuous law are never too small.
LAWS = {
    "laplace": NoiseLaw.LAPLACE,
    "discrete-laplace": NoiseLaw.LAPLACE,
    "gaussian": NoiseLaw.GAUSSIAN,
    "discrete-gaussian": NoiseLaw.GAUSSIAN,
}


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows over atom totals, as bits (0/1 rows on one feature) or dense, with everything known of the unknowns."""

    target: Target
    of: NDArray[np.int32]
    sizes: Floats
    features: tuple[Feature, ...]
    bits: Words | None
    dense: Floats | None
    y: Floats
    lo: Floats
    hi: Floats
    scale: Floats
    law: NDArray[np.int8]
    numbers: tuple[str, ...]
    lower: Floats
    upper: Floats
    absent: NDArray[np.bool_]  # atoms whose records have no value (NULL)
    wishes: frozenset[str] = frozenset()  # inequality knowledge the evidence carried: what a method must honour
    cells: tuple[Cell, ...] = ()  # the private cells of the target column, if the log has conditions on it
    least: Floats | None = None  # per atom, bounds of the value itself where cells split it
    most: Floats | None = None

    @property
    def m(self) -> int:
        """Rows."""
        return len(self.y)

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the literature
        """Atoms."""
        return len(self.sizes)

    @property
    def p(self) -> int:
        """Unknowns."""
        return max(1, len(self.features)) * self.K

    @property
    def plain(self) -> bool:
        """Is the one unknown of every atom the column itself? Not where the log has private conditions."""
        return self.features == _plain_feature(self.target)

    def totals(self) -> Floats:
        """Coefficients on atom totals, dense (m, p)."""
        if self.dense is not None:
            return self.dense
        assert self.bits is not None
        return unpack(self.bits, self.K).astype(np.float64)

    def design(self) -> Floats:
        """Coefficients on atom means, dense (m, p): what the batch solvers use."""
        return self.totals() * np.tile(self.sizes, self.p // self.K)[None, :]

    def weights(self) -> Floats:
        """How many records stand behind each unknown."""
        return np.tile(self.sizes, self.p // self.K)

    def residuals(self, fitted: Floats) -> Floats:
        """By how much fitted row values miss the answers (0 inside an interval)."""
        inside = self.law == NoiseLaw.INTERVAL
        missed = np.where(fitted < self.lo, self.lo - fitted, np.where(fitted > self.hi, self.hi - fitted, 0.0))
        return np.asarray(np.where(inside, missed, self.y - fitted))

    def residual(self, fitted: Floats) -> float:
        """Root mean square of `residuals`."""
        return float(np.sqrt(np.mean(self.residuals(fitted) ** 2))) if self.m else 0.0


def assemble(target: Target, evidence: Evidence) -> Problem:
    """The decoding problem of one block of evidence.

    Cost: O(mK/64) for plain logs. Rows without an answer (a log without answers) carry nothing and are left out.
    """
    if evidence.n != target.n:
        raise CannotHonour(f"the evidence is about {evidence.n} records, the target about {target.n}")
    system = next((s for s in evidence.systems if target.column in s.columns), None)
    if system is None:
        return _nothing(target)
    answers = {e.number: e.answer for e in evidence.transcript.entries}
    rows = [row for row in system.constraints if _informative(row, answers.get(row.number))]
    K, F = system.atoms.K, max(1, len(system.features))
    plain = [where for row in rows if (where := system.plain(row)) is not None]
    bits = dense = None
    if len(plain) == len(rows):
        bits = system.atoms.table[[system.atoms.number(where) for where in plain]]
    else:
        dense = np.array([system.row(row).dense(F) for row in rows])
    y, lo, hi, scale = (np.zeros(len(rows)) for _ in range(4))
    law = np.zeros(len(rows), dtype=np.int8)
    for j, row in enumerate(rows):
        try:
            y[j], lo[j], hi[j], scale[j], law[j] = _reading(row, answers.get(row.number))
        except OverflowError:
            raise LogError(f"query {row.number}: the answer is too large to compute with (above 1e308)") from None
    features = _whole_first(target, system)
    lower, upper, least, most, wishes = _bounds(target, system, features)
    present = system.present.get(target.column)
    absent = np.zeros(K, dtype=bool) if present is None else ~system.atoms.mask(present)
    cells = tuple(c for p in system.partitions if p.column.name == target.column for c in p.cells if not c.null)
    found = Problem(
        target, system.atoms.of, system.atoms.sizes.astype(np.float64), features, bits, dense, y, lo, hi, scale, law,
        tuple(_name(r) for r in rows), lower, upper, absent, wishes, cells, least, most,
    )  # fmt: skip
    return _equalities(found, system, answers)


def _whole_first(target: Target, system: System) -> tuple[Feature, ...]:
    """The features, with no cells where one covers them all: the column itself."""
    every = prod(len(p.cells) for p in system.partitions)
    found = tuple(replace(f, cells=()) if len(f.cells) == every else f for f in system.features)
    return found or _plain_feature(target)


def _equalities(problem: Problem, system: System, answers: dict[str, Answer | None]) -> Problem:
    """Facts that give a record's value, and variances of zero, are equations, which every method honours."""
    column = problem.target.column
    known = [
        (b.where, float(b.lo), f"fact {b.fact}")
        for b in system.bounds
        if b.column == column and b.lo is not None and b.lo == b.hi
    ]
    for same in system.equal:
        average = answers.get(same.partner)
        if same.column == column and average is not None and isinstance(average.value, Decimal):
            known.append((same.where, float(average.value), same.number))
    summed = [f for f, x in enumerate(problem.features) if x.column == problem.target.column and x.power == 1]
    if not known or not summed:
        return problem
    K, names, totals, rows = problem.K, [], [], []
    for where, value, name in known:
        for k in np.flatnonzero(system.atoms.mask(where)):
            row = np.zeros(problem.p)
            row[[f * K + k for f in summed]] = 1.0
            rows.append(row)
            totals.append(value * problem.sizes[k])
            names.append(name)
    return _stacked(problem, np.array(rows), np.array(totals), names)


def _stacked(problem: Problem, rows: Floats, y: Floats, names: list[str]) -> Problem:
    """The problem with these equations after its rows."""
    none = np.zeros(len(y))
    packed = problem.bits is not None and len(problem.features) == 1
    return replace(
        problem,
        bits=np.concatenate([problem.bits, pack(rows)]) if packed and problem.bits is not None else None,
        dense=None if packed else np.concatenate([problem.totals(), rows]),
        y=np.concatenate([problem.y, y]), lo=np.concatenate([problem.lo, y]), hi=np.concatenate([problem.hi, y]),
        scale=np.concatenate([problem.scale, none]), law=np.concatenate([problem.law, none.astype(np.int8)]),
        numbers=(*problem.numbers, *names),
    )  # fmt: skip


def _nothing(target: Target) -> Problem:
    none = np.zeros(0)
    return Problem(
        target, np.zeros(target.n, dtype=np.int32), np.array([float(target.n)]), _plain_feature(target),
        np.zeros((0, 1), dtype=np.uint64), None, none, none, none, none, np.zeros(0, dtype=np.int8), (),
        np.array([target.lower]), np.array([target.upper]), np.zeros(1, dtype=bool),
    )  # fmt: skip


def _plain_feature(target: Target) -> tuple[Feature, ...]:
    return (Feature(target.column, 1, ()),)


def _name(row: Constraint) -> str:
    return row.number if row.fact is None else f"fact {row.fact}"


def _informative(row: Constraint, answer: Answer | None) -> bool:
    if row.lo is not None or row.hi is not None:
        return True
    if row.noise is None or row.noise.kind not in LAWS:
        return False
    return answer is not None and answer.value is not None


def _reading(row: Constraint, answer: Answer | None) -> tuple[float, float, float, float, int]:
    """(y, lo, hi, scale, law) of a row."""
    noise = row.noise if row.noise is not None else (answer.noise if answer is not None else None)
    if noise is not None and noise.kind in LAWS and answer is not None:
        y = float(Fraction(answer.value or 0) * row.scale - row.offset)
        if noise.scale == 0:
            return y, y, y, 0.0, NoiseLaw.EXACT
        return y, -np.inf, np.inf, float(noise.scale * abs(row.scale)), LAWS[noise.kind]
    lo = -np.inf if row.lo is None else float(row.lo)
    hi = np.inf if row.hi is None else float(row.hi)
    if row.exact or lo == hi:
        middle = float((row.lo + row.hi) / 2) if row.lo is not None and row.hi is not None else lo
        return middle, middle, middle, hi - lo, NoiseLaw.EXACT
    middle = (lo + hi) / 2 if np.isfinite(lo) and np.isfinite(hi) else lo if np.isfinite(lo) else hi
    return middle, lo, hi, hi - lo, NoiseLaw.INTERVAL


def _bounds(
    target: Target, system: System, features: tuple[Feature, ...]
) -> tuple[Floats, Floats, Floats, Floats, frozenset[str]]:
    """Bounds of every unknown and of every atom's value, and the kinds of inequality knowledge they came from."""
    K = system.atoms.K
    lower, upper = np.full(len(features) * K, -np.inf), np.full(len(features) * K, np.inf)
    wishes = set()
    for f, feature in enumerate(features):
        part = slice(f * K, (f + 1) * K)
        lower[part], upper[part] = feature_range(target, feature)
    if np.isfinite(target.lower) or np.isfinite(target.upper):
        wishes.add("bounds")
    least, most = np.full(K, target.lower), np.full(K, target.upper)
    for bound in system.bounds:
        if bound.column != target.column:
            continue
        if bound.lo is None or bound.lo != bound.hi:
            wishes.add("facts")
        mask = system.atoms.mask(bound.where)
        if not mask.any():
            raise ConfigError(f"fact {bound.fact} is about no record of the roster: is the name or condition right?")
        if bound.lo is not None:
            least = np.where(mask, np.maximum(least, float(bound.lo)), least)
        if bound.hi is not None:
            most = np.where(mask, np.minimum(most, float(bound.hi)), most)
    if (least > most).any():
        raise ContradictionError(
            f"the facts leave no value of {target.column!r} for {int((least > most).sum())} group(s) of records: "
            "a stated minimum lies above a stated maximum"
        )
    for f, feature in enumerate(features):
        if feature.column == target.column and feature.power == 1 and not feature.cells:
            lower[f * K : (f + 1) * K], upper[f * K : (f + 1) * K] = least, most
    return lower, upper, least, most, frozenset(wishes)


def feature_range(target: Target, feature: Feature) -> tuple[float, float]:
    """The values one record can have in a feature."""
    if feature.column is None:
        return 0.0, 1.0
    if feature.column != target.column:
        return -np.inf, np.inf
    lo, hi = target.lower, target.upper
    if feature.power == 2:
        top = max(lo * lo, hi * hi)
        lo, hi = (0.0 if lo <= 0 <= hi else min(lo * lo, hi * hi)), top
    return (lo, hi) if not feature.cells else (min(lo, 0.0), max(hi, 0.0))


def join(a: Problem, b: Problem) -> Problem:
    """Both blocks as one problem: atoms are refined so that every row of either is constant on them.

    Blocks of one `Evidence` share their atoms and only stack. Blocks whose private conditions differ cannot be joined
    after the fact (their cells differ): gather the whole log at once instead.
    """
    if not b.m and b.K == 1 and not b.wishes:
        return a
    if not a.m and a.K == 1 and not a.wishes:
        return b
    if a.features != b.features:
        raise CannotHonour("the blocks split the private column into different cells: observe the whole log at once")
    if not np.array_equal(a.of, b.of):
        finer = refine(a.of, b.of)
        made = (over(p, finer.of, finer.sizes, up) for p, up in ((a, finer.left), (b, finer.right)))
        a, b = map(_every_atom, made)
    seen = {name for name in a.numbers if name.startswith("fact ")}
    keep = np.array([name not in seen for name in b.numbers], dtype=bool)
    bits = dense = None
    if a.bits is not None and b.bits is not None:
        bits = np.concatenate([a.bits, b.bits[keep]])
    else:
        dense = np.concatenate([a.totals(), b.totals()[keep]])
    return replace(
        a,
        bits=bits,
        dense=dense,
        y=np.concatenate([a.y, b.y[keep]]),
        lo=np.concatenate([a.lo, b.lo[keep]]),
        hi=np.concatenate([a.hi, b.hi[keep]]),
        scale=np.concatenate([a.scale, b.scale[keep]]),
        law=np.concatenate([a.law, b.law[keep]]),
        numbers=a.numbers + tuple(name for name, k in zip(b.numbers, keep, strict=True) if k),
        lower=np.maximum(a.lower, b.lower),
        upper=np.minimum(a.upper, b.upper),
        absent=a.absent | b.absent,
        wishes=a.wishes | b.wishes,
        least=None if a.least is None or b.least is None else np.maximum(a.least, b.least),
        most=None if a.most is None or b.most is None else np.minimum(a.most, b.most),
    )


def _every_atom(p: Problem) -> Problem:
    """A fact that gives values gives every record its own: one equation for each of the finer atoms."""
    low, high = (p.lower, p.upper) if p.least is None or p.most is None else (p.least, p.most)
    told = [j for j, name in enumerate(p.numbers) if name.startswith("fact ") and p.law[j] == NoiseLaw.EXACT]
    totals = p.totals() if told else np.zeros((0, p.p))
    split, names, y, rows = np.zeros(p.m, dtype=bool), [], [], []
    for j in told:
        atoms = np.unique(np.flatnonzero(totals[j]) % p.K)
        if len(atoms) < 2 or not np.array_equal(low[atoms], high[atoms]):
            continue  # of one atom already, or about a sum
        split[j] = True
        for k in atoms:
            names.append(p.numbers[j])
            rows.append(np.where(np.arange(p.p) % p.K == k, totals[j], 0.0))
            y.append(low[k] * p.sizes[k])
    if not split.any():
        return p
    rest = replace(
        p, bits=None if p.bits is None else p.bits[~split], dense=None if p.dense is None else p.dense[~split],
        y=p.y[~split], lo=p.lo[~split], hi=p.hi[~split], scale=p.scale[~split], law=p.law[~split],
        numbers=tuple(name for name, gone in zip(p.numbers, split, strict=True) if not gone),
    )  # fmt: skip
    return _stacked(rest, np.array(rows), np.array(y), names)


def over(p: Problem, of: NDArray[np.int32], sizes: NDArray[np.int64], parent: NDArray[Any]) -> Problem:
    """The same rows over finer atoms: atom k is a part of p's atom `parent[k]`."""
    F = p.p // p.K
    columns = (np.arange(F)[:, None] * p.K + parent[None, :]).ravel()
    bits = dense = None
    if p.bits is not None:
        bits = pack(unpack(p.bits, p.K)[:, parent]) if p.m else np.zeros((0, (len(parent) + 63) // 64), dtype=np.uint64)
    else:
        dense = p.totals()[:, columns]
    return replace(
        p, of=of, sizes=sizes.astype(np.float64), bits=bits, dense=dense,
        lower=p.lower[columns], upper=p.upper[columns], absent=p.absent[parent],
        least=None if p.least is None else p.least[parent], most=None if p.most is None else p.most[parent],
    )  # fmt: skip
