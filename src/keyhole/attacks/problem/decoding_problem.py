"""A decoding problem: coefficients, answers, noise laws and bounds of one private column, and what is made of it.

Unknowns are means over atoms (feature-major, as in `Evidence`): u[f*K + k] is the mean of feature f over the records of
atom k, so its bounds are those of a single record, and records that no question tells apart share one unknown.
`assembly.py` makes a problem from evidence; here blocks are joined, rows chosen, atoms refined.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Target
from keyhole.attacks.problem.order_answers import OrderAnswer
from keyhole.basis.atoms.base import refine_partitions
from keyhole.errors import CannotHonour
from keyhole.model.cells import Cell
from keyhole.model.forms import Feature
from keyhole.solve.decode.bitrows import Words, pack, unpack
from keyhole.solve.decode.csr import Csr


class NoiseLaw(IntEnum):
    """How an answer may differ from the truth."""

    EXACT = 0
    LAPLACE = 1
    GAUSSIAN = 2
    INTERVAL = 3  # rounded, uniform, suppressed or one-sided: the truth lies in [lo, hi], nothing else is known
    LAPLACE_BETWEEN = 4  # clamped or suppressed after the noise: the truth with its noise lies in [lo, hi]
    GAUSSIAN_BETWEEN = 5
    GROSS = 6  # exact, or grossly wrong: what `l1` makes of exact answers that contradict one another


NOISY = (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN)
BETWEEN = {NoiseLaw.LAPLACE: NoiseLaw.LAPLACE_BETWEEN, NoiseLaw.GAUSSIAN: NoiseLaw.GAUSSIAN_BETWEEN}
_SURELY = {NoiseLaw.LAPLACE_BETWEEN: 16.0, NoiseLaw.GAUSSIAN_BETWEEN: 6.0}  # scales that noise does not pass


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows over atom totals with everything known of the unknowns.

    The rows are bits (0/1 rows on one feature), dense, or sparse: many unknowns of which each row holds few.
    """

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
    csr: Csr | None = None
    order: tuple[OrderAnswer, ...] = ()  # MIN, MAX and quantiles, read by methods that know every value
    unread: tuple[str, ...] = ()  # order statistics that nobody reads
    beside: int = 1  # joint cells of the other private columns under conditions

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
        return self.features == plain_feature(self.target)

    def totals(self) -> Floats:
        """Coefficients on atom totals, dense (m, p)."""
        if self.dense is not None:
            return self.dense
        if self.csr is not None:
            return self.csr.dense()
        assert self.bits is not None
        return unpack(self.bits, self.K).astype(np.float64)

    def design(self) -> Floats:
        """Coefficients on atom means, dense (m, p): what the batch solvers use."""
        return self.totals() * np.tile(self.sizes, self.p // self.K)[None, :]

    def matrix(self) -> Csr:
        """Coefficients on atom totals, as sparse rows."""
        if self.csr is not None:
            return self.csr
        if self.bits is not None:
            return Csr.of_bits(self.bits, self.p)
        assert self.dense is not None
        return Csr.of_rows([(at := np.flatnonzero(row), row[at]) for row in self.dense], self.p)

    def touched(self) -> NDArray[np.bool_]:
        """The unknowns that some row has."""
        if self.bits is None:
            return np.asarray(self.totals().any(axis=0)) if self.csr is None else self.csr.touched()
        some = np.bitwise_or.reduce(self.bits, axis=0) if self.m else np.zeros(0, dtype=np.uint64)
        return unpack(some[None, :], self.K)[0] if len(some) else np.zeros(self.K, dtype=bool)

    def weights(self) -> Floats:
        """How many records stand behind each unknown."""
        return np.tile(self.sizes, self.p // self.K)

    def residuals(self, fitted: Floats) -> Floats:
        """By how much fitted row values miss the answers (0 inside an interval)."""
        inside = np.isin(self.law, (NoiseLaw.INTERVAL, *BETWEEN.values()))
        missed = np.where(fitted < self.lo, self.lo - fitted, np.where(fitted > self.hi, self.hi - fitted, 0.0))
        return np.asarray(np.where(inside, missed, self.y - fitted))

    def residual(self, fitted: Floats, values: Floats | None = None) -> float:
        """Root mean square of `residuals`; with the values of atoms, of order statistics too."""
        missed = [] if values is None else [answer.missed(values, self.sizes) for answer in self.order]
        every = np.concatenate([self.residuals(fitted), missed])
        return float(np.sqrt(np.mean(every**2))) if len(every) else 0.0


def plain_feature(target: Target) -> tuple[Feature, ...]:
    return (Feature(target.column, 1, ()),)


def stack_equations(problem: Problem, rows: Csr, y: Floats, names: list[str]) -> Problem:
    """The problem with these equations after its rows."""
    none = np.zeros(len(y))
    packed = problem.bits is not None and len(problem.features) == 1
    return replace(
        problem,
        bits=np.concatenate([problem.bits, pack(rows.dense())]) if packed and problem.bits is not None else None,
        dense=None if packed or problem.csr is not None else np.concatenate([problem.totals(), rows.dense()]),
        csr=None if problem.csr is None else problem.csr.stacked(rows),
        y=np.concatenate([problem.y, y]), lo=np.concatenate([problem.lo, y]), hi=np.concatenate([problem.hi, y]),
        scale=np.concatenate([problem.scale, none]), law=np.concatenate([problem.law, none.astype(np.int8)]),
        numbers=(*problem.numbers, *names),
    )  # fmt: skip


def choose_rows(problem: Problem, keep: NDArray[np.bool_]) -> Problem:
    """Some of the rows."""
    return replace(
        problem,
        bits=None if problem.bits is None else problem.bits[keep],
        dense=None if problem.dense is None else problem.dense[keep],
        csr=None if problem.csr is None else problem.csr.take(keep),
        y=problem.y[keep], lo=problem.lo[keep], hi=problem.hi[keep], scale=problem.scale[keep], law=problem.law[keep],
        numbers=tuple(name for name, kept in zip(problem.numbers, keep, strict=True) if kept),
    )  # fmt: skip


def join_blocks(a: Problem, b: Problem) -> Problem:
    """Both blocks as one problem: atoms are refined so that every row of either is constant on them.

    Blocks of one `Evidence` share their atoms and only stack. Blocks whose private conditions differ cannot be joined
    after the fact (their cells differ): gather the whole log at once instead.
    """
    if not b.m and b.K == 1 and not (b.wishes or b.order):
        return a
    if not a.m and a.K == 1 and not (a.wishes or a.order):
        return b
    if a.features != b.features:
        raise CannotHonour("the blocks split the private column into different cells: observe the whole log at once")
    if not np.array_equal(a.of, b.of):
        finer = refine_partitions(a.of, b.of)
        made = (refine_atoms(p, finer.of, finer.sizes, up) for p, up in ((a, finer.left), (b, finer.right)))
        a, b = map(_every_atom, made)
    seen = {name for name in a.numbers if name.startswith("fact ")}
    keep = np.array([name not in seen for name in b.numbers], dtype=bool)
    bits = dense = csr = None
    if a.bits is not None and b.bits is not None:
        bits = np.concatenate([a.bits, b.bits[keep]])
    elif a.csr is not None or b.csr is not None:
        csr = a.matrix().stacked(b.matrix().take(keep))
    else:
        dense = np.concatenate([a.totals(), b.totals()[keep]])
    return replace(
        a,
        bits=bits,
        dense=dense,
        csr=csr,
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
        order=(*a.order, *b.order),
        unread=(*a.unread, *b.unread),
    )


def _every_atom(p: Problem) -> Problem:
    """A fact that gives values gives every record its own: one equation for each of the finer atoms."""
    low, high = (p.lower, p.upper) if p.least is None or p.most is None else (p.least, p.most)
    told = [j for j, name in enumerate(p.numbers) if name.startswith("fact ") and p.law[j] == NoiseLaw.EXACT]
    matrix = p.matrix() if told else None
    split, names, y, rows = np.zeros(p.m, dtype=bool), [], [], []
    for j in told:
        assert matrix is not None
        part = slice(matrix.starts[j], matrix.starts[j + 1])
        columns, values = matrix.columns[part], matrix.values[part]
        atoms = np.unique(columns % p.K)
        if len(atoms) < 2 or not np.array_equal(low[atoms], high[atoms]):
            continue  # of one atom already, or about a sum
        split[j] = True
        for k in atoms:
            names.append(p.numbers[j])
            rows.append((columns[columns % p.K == k], values[columns % p.K == k]))
            y.append(low[k] * p.sizes[k])
    if not split.any():
        return p
    return stack_equations(choose_rows(p, ~split), Csr.of_rows(rows, p.p), np.array(y), names)


def refine_atoms(p: Problem, of: NDArray[np.int32], sizes: NDArray[np.int64], parent: NDArray[Any]) -> Problem:
    """The same rows over finer atoms: atom k is a part of p's atom `parent[k]`."""
    F = p.p // p.K
    columns = (np.arange(F)[:, None] * p.K + parent[None, :]).ravel()
    bits = dense = csr = None
    if p.csr is not None:
        csr = p.csr.spread(columns)
    elif p.bits is not None:
        bits = pack(unpack(p.bits, p.K)[:, parent]) if p.m else np.zeros((0, (len(parent) + 63) // 64), dtype=np.uint64)
    else:
        dense = p.totals()[:, columns]
    return replace(
        p, of=of, sizes=sizes.astype(np.float64), bits=bits, dense=dense, csr=csr,
        lower=p.lower[columns], upper=p.upper[columns], absent=p.absent[parent],
        least=None if p.least is None else p.least[parent], most=None if p.most is None else p.most[parent],
        order=tuple(answer.over(parent) for answer in p.order),
    )  # fmt: skip


def clamp_noise(problem: Problem) -> Problem:
    """The same for methods that know no clamping: such an answer is an interval that the noise surely does not pass."""
    lo, hi, law = problem.lo.copy(), problem.hi.copy(), problem.law.copy()
    for kind, scales in _SURELY.items():
        held = problem.law == kind
        lo[held] -= scales * problem.scale[held]
        hi[held] += scales * problem.scale[held]
        law[held] = NoiseLaw.INTERVAL
    if np.array_equal(law, problem.law):
        return problem
    width = np.where(law != problem.law, hi - lo, problem.scale)
    return replace(problem, lo=lo, hi=hi, law=law, scale=width)
