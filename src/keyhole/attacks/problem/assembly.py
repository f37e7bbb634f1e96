"""From evidence to a decoding problem: rows, readings of answers with their noise, bounds from facts and ranges."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Target
from keyhole.attacks.problem.decoding_problem import BETWEEN, NoiseLaw, Problem, plain_feature, stack_equations
from keyhole.attacks.problem.order_answers import read_order_answers
from keyhole.basis import Row
from keyhole.basis.atoms.sparse import SparseAtoms
from keyhole.errors import CannotHonour, ConfigError, ContradictionError, LogError
from keyhole.gather.evidence import Constraint, Evidence, System
from keyhole.model.forms import Feature
from keyhole.model.transcript import Answer, Entry, Noise
from keyhole.solve.decode.bitrows import Words
from keyhole.solve.decode.csr import Csr

Ends: TypeAlias = tuple[Fraction | None, Fraction | None]
FEW_UNKNOWNS = 1_500  # up to so many unknowns, or entries, rows are kept dense or as bits
FEW_ENTRIES = 1_000_000
LARGEST = 1e60  # numbers above overflow a DOUBLE once squares of them are multiplied and added
SMALLEST = 1e-60  # scale of a noise that is not none
SPARSE = 1 / 16  # share of entries that are not zero below which a large matrix is kept sparse
# On its grid a discrete law is proportional to the continuous density of the same scale, so the likelihood of values
# is the same at any scale; its variance is smaller, so errors stated for the continuous law are never too small.
LAWS = {
    "laplace": NoiseLaw.LAPLACE,
    "discrete-laplace": NoiseLaw.LAPLACE,
    "gaussian": NoiseLaw.GAUSSIAN,
    "discrete-gaussian": NoiseLaw.GAUSSIAN,
}


def assemble(target: Target, evidence: Evidence) -> Problem:
    """The decoding problem of one block of evidence.

    Cost: O(mK/64) for plain logs. Rows without an answer (a log without answers) carry nothing and are left out.
    """
    if evidence.n != target.n:
        raise CannotHonour(f"the evidence is about {evidence.n} records, the target about {target.n}")
    system = next((s for s in evidence.systems if target.column in s.columns), None)
    if system is None:
        return _nothing(target)
    _refuse_huge(target, system)
    answers = {e.number: read_compared_number(e) for e in evidence.transcript.entries}
    rows = [row for row in system.constraints if _informative(row, answers.get(row.number))]
    K, F = system.atoms.K, max(1, len(system.features))
    bits, dense, csr = _matrix(system, rows, F * K)
    y, lo, hi, scale, law = _readings(rows, answers)
    features = _whole_first(target, system)
    lower, upper, least, most, wishes = _bounds(target, system, features)
    present = system.present.get(target.column)
    absent = np.zeros(K, dtype=bool) if present is None else ~system.atoms.mask(present)
    cells = tuple(c for p in system.partitions if p.column.name == target.column for c in p.cells if not c.null)
    found = Problem(
        target, system.atoms.of, system.atoms.sizes.astype(np.float64), features, bits, dense, y, lo, hi, scale, law,
        tuple(_name(r) for r in rows), lower, upper, absent, wishes, cells, least, most, csr,
        *read_order_answers(target, system),
        _cells_beside(target, system),
    )  # fmt: skip
    return _equalities(found, system, answers)


def _refuse_huge(target: Target, system: System) -> None:
    """Declared ends, facts, and answers that are no sums: what a DOUBLE cannot square is not computed with."""
    ends: list[tuple[str, Fraction | Decimal | None]]
    ends = [(f"fact {b.fact}", end) for b in system.bounds for end in (b.lo, b.hi) if b.column == target.column]
    ends += [(f"query {fact.number}", end) for fact in system.order for end in (fact.lo, fact.hi)]
    ends += [(f"the declared range of {target.column!r}", end) for end in (target.prior.lo, target.prior.hi)]
    for what, end in ends:
        if end is not None and abs(Fraction(end)) > LARGEST:
            raise LogError(f"{what}: the number is too large to compute with (above {LARGEST:.0e})")


def _matrix(system: System, rows: list[Constraint], p: int) -> tuple[Words | None, Floats | None, Csr | None]:
    """The rows as bits, dense or sparse; sparse where the matrix is large and nearly empty."""
    atoms, large = system.atoms, p > FEW_UNKNOWNS and len(rows) * p > FEW_ENTRIES
    plain = [where for row in rows if (where := system.plain(row)) is not None]
    if large and isinstance(atoms, SparseAtoms):  # conditions are rows of the matrix
        whole = [row.parts[0] for row in rows if len(row.parts) == 1 and row.parts[0].factor == 1]
        if len(whole) == len(rows):
            kept = Csr(atoms.starts, atoms.columns, atoms.values, atoms.K)
            return None, None, kept.take(np.array([atoms.number(part.where) for part in whole], dtype=np.int64))
    if len(plain) == len(rows):
        if isinstance(atoms, SparseAtoms):
            bits = np.array([atoms.bits(where) for where in plain]).reshape(len(plain), -1)
        else:
            bits = atoms.table[[atoms.number(where) for where in plain]]
        sparse = large and int(np.bitwise_count(bits).sum()) < SPARSE * len(rows) * p
        return (None, None, Csr.of_bits(bits, p)) if sparse else (bits, None, None)
    if large:
        listed = Csr.of_rows([_entries(system.row(row)) for row in rows], p)
        return (None, None, listed) if listed.entries < SPARSE * len(rows) * p else (None, listed.dense(), None)
    return None, np.array([system.row(row).dense(p // atoms.K) for row in rows]), None


def _entries(row: Row) -> tuple[NDArray[np.int64], Floats]:
    """Columns and coefficients of a row that are not zero."""
    columns, values = row.sparse()
    return columns, values.astype(np.float64) / float(row.scale)


def _cells_beside(target: Target, system: System) -> int:
    """How many joint cells there are of other columns that some condition ties to the target."""
    about = (f for f in system.features if f.column == target.column or target.column in f.conditioned)
    tied = {name for f in about for name in f.conditioned}
    return prod(len(p.cells) for p in system.partitions if p.column.name in tied - {target.column})


def _whole_first(target: Target, system: System) -> tuple[Feature, ...]:
    """The features, with no cells where one covers them all: the column itself."""
    cells = {p.column.name: len(p.cells) for p in system.partitions}
    found = tuple(
        replace(f, cells=()) if len(f.cells) == prod(cells[name] for name in f.conditioned) else f
        for f in system.features
    )
    return found or plain_feature(target)


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
            rows.append(([f * K + k for f in summed], np.ones(len(summed))))
            totals.append(value * problem.sizes[k])
            names.append(name)
    return stack_equations(problem, Csr.of_rows(rows, problem.p), np.array(totals), names)


def _nothing(target: Target) -> Problem:
    return Problem(
        target, np.zeros(target.n, dtype=np.int32), np.array([float(target.n)]), plain_feature(target),
        np.zeros((0, 1), dtype=np.uint64), None, (none := np.zeros(0)), none, none, none, np.zeros(0, dtype=np.int8),
        (), np.array([target.lower]), np.array([target.upper]), np.zeros(1, dtype=bool),
    )  # fmt: skip


def _name(row: Constraint) -> str:
    return row.number if row.fact is None else f"fact {row.fact}"


def _informative(row: Constraint, answer: Answer | None) -> bool:
    if row.lo is not None or row.hi is not None:
        return True
    if row.noise is None or row.noise.kind not in LAWS or answer is None:
        return False
    return answer.value is not None or answer.shown not in (None, (None, None))


def _readings(
    rows: list[Constraint], answers: dict[str, Answer | None]
) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.int8]]:
    """(y, lo, hi, scale, law) of every row."""
    found = []
    for row in rows:
        try:
            read = _reading(row, answers.get(row.number))
        except OverflowError:
            read = (np.inf, np.inf, np.inf, np.inf, NoiseLaw.EXACT)
        if not abs(read[0]) <= LARGEST or any(LARGEST < abs(end) < np.inf for end in read[1:4]):
            about = "query " * (row.fact is None) + _name(row)
            raise LogError(f"{about}: the answer, or its noise, is too large to compute with (above {LARGEST:.0e})")
        if read[4] not in (NoiseLaw.EXACT, NoiseLaw.INTERVAL) and read[3] < SMALLEST:
            raise LogError(f"query {row.number}: noise below {SMALLEST:.0e} is too small to compute with: write 0")
        found.append(read)
    y, lo, hi, scale, law = np.array(found, dtype=np.float64).reshape(len(found), 5).T.copy()
    return y, lo, hi, scale, law.astype(np.int8)


def _reading(row: Constraint, answer: Answer | None) -> tuple[float, float, float, float, int]:
    """(y, lo, hi, scale, law) of a row."""
    noise = row.noise if row.noise is not None else (answer.noise if answer is not None else None)
    if noise is not None and noise.kind in LAWS and answer is not None:
        if answer.value is None:
            return _between(row, answer.shown or (None, None), noise)
        y = float(Fraction(answer.value) * row.scale - row.offset)
        if noise.scale == 0:
            return y, y, y, 0.0, NoiseLaw.EXACT
        return y, -np.inf, np.inf, float(noise.scale * abs(row.scale)), LAWS[noise.kind]
    if row.lo is not None and row.lo is row.hi:  # one number, read once
        one = float(row.lo)
        return one, one, one, 0.0, NoiseLaw.EXACT
    lo = -np.inf if row.lo is None else float(row.lo)
    hi = np.inf if row.hi is None else float(row.hi)
    if row.exact or lo == hi:
        middle = float((row.lo + row.hi) / 2) if row.lo is not None and row.hi is not None else lo
        return middle, middle, middle, hi - lo, NoiseLaw.EXACT
    middle = (lo + hi) / 2 if np.isfinite(lo) and np.isfinite(hi) else lo if np.isfinite(lo) else hi
    return middle, lo, hi, hi - lo, NoiseLaw.INTERVAL


def _between(row: Constraint, shown: Ends, noise: Noise) -> tuple[float, float, float, float, int]:
    """A noisy answer that is only shown as a range (suppressed): the truth with its noise lies there."""
    ends = [None if end is None else float(end * row.scale - row.offset) for end in shown]
    if row.scale < 0:
        ends.reverse()
    lo, hi = -np.inf if ends[0] is None else ends[0], np.inf if ends[1] is None else ends[1]
    middle = (lo + hi) / 2 if np.isfinite(lo) and np.isfinite(hi) else lo if np.isfinite(lo) else hi
    if noise.scale == 0:
        return middle, lo, hi, hi - lo, NoiseLaw.INTERVAL
    law, scale = LAWS[noise.kind], float(noise.scale * abs(row.scale))  # a range of one number is that number
    return (middle, -np.inf, np.inf, scale, law) if lo == hi else (middle, lo, hi, scale, BETWEEN[law])


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
            raise ConfigError(f"fact {bound.fact} is about no record of the data: is the name or condition right?")
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


def read_compared_number(entry: Entry) -> Answer | None:
    """The answer, a noisy yes or no as the ends of the noisy number that was compared; equality tells no likelihood.

    >>> from decimal import Decimal
    >>> from keyhole.model.query import Aggregate, Query, Term, Threshold
    >>> from keyhole.model.transcript import Noise
    >>> yes = Answer(True, None, None, Noise("gaussian", Fraction(2)))
    >>> above = Query(Aggregate.SUM, (Term("pay"),), test=Threshold(">", Decimal(4)))
    >>> read_compared_number(Entry("1", "", above, yes)).shown
    (Fraction(4, 1), None)
    """
    answer, test = entry.answer, entry.query.test
    if answer is None or test is None or answer.noise is None or answer.noise.bounded:
        return answer
    at = Fraction(test.value)
    ends: Ends = (None, None)
    if isinstance(answer.value, bool) and test.op not in ("=", "<>"):
        ends = (at, None) if (test.op in (">", ">=")) == answer.value else (None, at)
    return replace(answer, value=None, shown=ends)
