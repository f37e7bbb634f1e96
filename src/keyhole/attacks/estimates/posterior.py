"""A decoding problem as discrete units, and their posterior as a declared value per record with its probability."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from keyhole.attacks.base import Floats
from keyhole.attacks.estimates.record_values import holds_value
from keyhole.attacks.problem.decoding_problem import NoiseLaw, Problem
from keyhole.attacks.problem.order_answers import CountRows, build_count_rows
from keyhole.errors import ContradictionError
from keyhole.solve.decode.posterior import RowLaw, Units

COMPOSED = 300  # states up to which a group of records is one unit; larger ones are taken record by record
TOTALS = 2_000  # totals up to which a group of numbers is one unit
INDICATED = 2_000  # people times indicators up to which order statistics enter
JOINT = 2_000_000  # features times values times cells of other columns up to which these are told apart
LISTED = 4  # categories under one name that are listed; more are named by what they are not
EVERY_VALUE = 20_000  # values a column may have

LAWS = {
    NoiseLaw.EXACT: RowLaw.HARD,
    NoiseLaw.INTERVAL: RowLaw.HARD,
    NoiseLaw.LAPLACE: RowLaw.LAPLACE,
    NoiseLaw.GAUSSIAN: RowLaw.GAUSSIAN,
    NoiseLaw.LAPLACE_BETWEEN: RowLaw.LAPLACE_BETWEEN,
    NoiseLaw.GAUSSIAN_BETWEEN: RowLaw.GAUSSIAN_BETWEEN,
    NoiseLaw.GROSS: RowLaw.GROSS,
}


@dataclass(frozen=True, slots=True, eq=False)
class RecordReading:
    """How the states of a unit stand for the values of one of its records.

    `reading` (states, values): the chance that one of the records has a value, given the unit's state.
    """

    atom: int
    reading: Floats


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredValues:
    """What a column can be: its values, how common each is beforehand, and which are open to the records of an atom."""

    values: NDArray[np.object_]
    rates: Floats
    open_to: NDArray[np.bool_]

    @classmethod
    def of(cls, problem: Problem) -> DeclaredValues:
        """Those of a problem whose column has finitely many."""
        return cls(list_declared_values(problem), problem.target.rates, find_allowed_values(problem))


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteProblem:
    """Units, the group behind each (cases of order statistics have none), the answer of every row.

    `unread` are order statistics that did not enter, or said more.
    """

    declared: DeclaredValues
    units: Units
    groups: tuple[RecordReading, ...]
    names: tuple[str, ...]
    linear: int  # rows up to here are sums and counts, those after it order statistics
    unread: tuple[str, ...] = ()

    def chances(self, atoms: int, states: Floats) -> Floats:
        """P(value of one record), (atoms, values), from P(state of a unit)."""
        found = np.tile(self.declared.rates, (atoms, 1)) * self.declared.open_to
        units = np.zeros(atoms)
        total = np.zeros_like(found)
        for u, group in enumerate(self.groups):
            total[group.atom] += states[self.units.of(u)] @ group.reading
            units[group.atom] += 1
        found = np.where(units[:, None] > 0, total / np.maximum(units, 1)[:, None], found)
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def list_declared_values(problem: Problem) -> NDArray[np.object_]:
    """The values that the column can have, as declared."""
    target = problem.target
    listed = target.categories if target.categories is not None else target.grid or ()
    found = np.empty(len(listed), dtype=object)
    found[:] = listed
    return found


def merge_categories(problem: Problem) -> dict[str, str]:
    """Categories that no answer tells apart, under one name for all of them; none where base rates prefer one.

    A log that only ever counts C says of somebody that he is C, or that he is not: which other category is a guess.
    """
    target = problem.target
    if target.categories is None or target.prior.rates:
        return {}
    phi, usable = compute_features(problem, list_declared_values(problem))
    used = problem.totals().reshape(problem.m, problem.p // problem.K, problem.K).any(axis=(0, 2)) & usable
    _, of = np.unique(phi[used].T, axis=0, return_inverse=True)
    found: dict[str, str] = {}
    for group in range(1 + int(of.max(initial=0))):
        inside = [name for name, at in zip(target.categories, of.ravel(), strict=True) if at == group]
        outside = [name for name in target.categories if name not in inside]
        if len(inside) > 1 and outside:
            found |= dict.fromkeys(inside, _one_of(inside) if len(inside) <= LISTED else f"not {_one_of(outside)}")
    return found


def _one_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def find_allowed_values(problem: Problem) -> NDArray[np.bool_]:
    """Which values the facts leave to the records of every atom, (atoms, values)."""
    target = problem.target
    if target.categories is not None:
        return np.ones((problem.K, len(target.categories)), dtype=bool)
    grid = np.array(target.grid)
    least = problem.lower[: problem.K] if problem.least is None else problem.least
    most = problem.upper[: problem.K] if problem.most is None else problem.most
    near = 1e-9 * (1 + np.abs(grid))
    found = (grid >= least[:, None] - near) & (grid <= most[:, None] + near)
    if not found.any(axis=1).all():
        raise ContradictionError(f"the facts leave no grid value of {target.column!r} for some record")
    return np.asarray(found)


def build_units(problem: Problem, declared: DeclaredValues | None = None) -> DiscreteProblem:
    """The units of a problem whose column has finitely many values, or is given some.

    Atoms that no answer touches make no unit: their records keep their prior. Answers that tie other private columns
    to this one are left out, which loses what they say and claims nothing; so are order statistics of groups too large
    for indicators (`unread` names them).
    """
    declared = DeclaredValues.of(problem) if declared is None else declared
    values, open_to, rates = declared.values, declared.open_to, declared.rates
    phi, usable = compute_features(problem, values)
    totals = problem.totals().reshape(problem.m, problem.p // problem.K, problem.K)
    rows = np.flatnonzero(~_foreign(problem, values, totals))
    totals, phi = totals[rows][:, usable], phi[usable]
    order, unread = _ordered(problem, values, len(phi))
    indicators = order.indicators if order is not None else np.zeros((0, len(values)))
    ranked = np.zeros(problem.K, dtype=bool)
    by_atom = np.ascontiguousarray(totals.transpose(2, 0, 1))  # (atoms, rows, features)
    if order is not None:
        by_atom, ranked = _with_counts(by_atom, order), np.asarray(order.members.any(axis=0))
        phi = np.concatenate([phi, indicators])
    made = _UnitsMade(by_atom.shape[2])
    plain = problem.plain and problem.target.grid is not None
    told: dict[bytes, tuple[Floats, NDArray[np.int64]]] = {}  # classes of values, the same for most atoms
    for k in np.flatnonzero(by_atom.any(axis=(1, 2))):
        if problem.absent[k]:
            continue
        size, chosen = int(problem.sizes[k]), np.flatnonzero(open_to[k])
        prior = np.log(rates[chosen])
        touched = np.flatnonzero(by_atom[k].any(axis=1))
        columns = by_atom[k, touched]
        if plain and not ranked[k] and size > 1 and size * (len(chosen) - 1) < TOTALS:
            made.total(int(k), touched, columns, size, chosen, phi[0, chosen], prior, len(values))
            continue
        if (key := chosen.tobytes()) not in told:
            classes, of = np.unique(phi[:, chosen].T, axis=0, return_inverse=True)
            told[key] = made.padded(classes), of.ravel()
        made.composed(int(k), touched, columns, size, *told[key], chosen, prior, len(values))
    law = np.array([LAWS[NoiseLaw(code)] for code in problem.law[rows]], dtype=np.int8)
    radius = np.where(problem.law[rows] == NoiseLaw.EXACT, problem.scale[rows] / 2, 0.0)
    exact = problem.law[rows] == NoiseLaw.EXACT
    lo = np.where(exact, problem.y[rows] - radius, problem.lo[rows])
    hi = np.where(exact, problem.y[rows] + radius, problem.hi[rows])
    names, y, scale = tuple(problem.numbers[j] for j in rows), problem.y[rows], problem.scale[rows]
    if order is not None:
        for case in order.cases:
            made.case(len(rows) + case.rows, case.features)
        none = np.zeros(len(order.lo))
        law, y, scale = (np.concatenate([part, none]) for part in (law, y, scale))
        lo, hi, names = np.concatenate([lo, order.lo]), np.concatenate([hi, order.hi]), names + order.numbers
    units = made.units(law.astype(np.int8), y, lo, hi, scale)
    return DiscreteProblem(declared, units, tuple(made.groups), names, len(rows), unread)


def _ordered(problem: Problem, values: NDArray[np.object_], features: int) -> tuple[CountRows | None, tuple[str, ...]]:
    """Order statistics as rows over indicators, if there are any and few enough; and those not wholly read."""
    if not problem.order or problem.target.categories is not None:
        return None, (*problem.unread, *(o.number for o in problem.order))
    made = build_count_rows(problem.order, values.astype(np.float64))
    slots = max(features + len(made.indicators), *(len(case.rows) for case in made.cases), 1)
    people = problem.sizes[problem.touched().reshape(-1, problem.K).any(axis=0) | made.members.any(axis=0)].sum()
    if slots * people > INDICATED:
        return None, (*problem.unread, *(o.number for o in problem.order))
    return made, (*problem.unread, *made.partly)


def _with_counts(by_atom: Floats, order: CountRows) -> Floats:
    """Coefficients (atoms, rows, features) with rows and features of counts, and room for the features of cases."""
    K, m, F = by_atom.shape
    own = F + len(order.indicators)
    wide = np.zeros((K, m + len(order.lo), max(own, *(len(case.rows) for case in order.cases), 1)))
    wide[:, :m, :F] = by_atom
    wide[:, m + np.arange(len(order.lo)), F + order.feature] = order.members.T
    return wide


def compute_features(problem: Problem, values: NDArray[np.object_]) -> tuple[Floats, NDArray[np.bool_]]:
    """phi (features, values): what a record with a value adds to each feature; and which features are of it at all.

    Under conditions on other columns too, that is the mean over their cells: what a row adds that is the same in all.
    """
    phi, usable = _joint_features(problem, values)
    return phi.mean(axis=2), usable


def _joint_features(problem: Problem, values: NDArray[np.object_]) -> tuple[Floats, NDArray[np.bool_]]:
    """The same by the joint cell of the other columns, (features, values, cells)."""
    column, features = problem.target.column, problem.features
    usable = np.array(
        [f.column == column or (f.column is None and column in f.conditioned) for f in features], dtype=bool
    )
    mine = (feature for feature, told in zip(features, usable, strict=True) if told)
    rests = {tuple(c for c in joint if c.column != column) for feature in mine for joint in feature.cells} - {()}
    place = {rest: k for k, rest in enumerate(rests)}
    cells = min(problem.beside, len(rests) + 1) if len(features) * len(values) * (len(rests) + 1) <= JOINT else 1
    phi = np.zeros((len(features), len(values), cells))
    for f in np.flatnonzero(usable):
        feature = features[f]
        inside = np.zeros((len(values), cells))
        for joint in feature.cells:
            own = [c for c in joint if c.column == column]
            rest = tuple(c for c in joint if c.column != column)
            if rest and cells == 1:
                usable[f] = False
            held = [not any(c.null or not holds_value(c, value) for c in own) for value in values]
            at = place[rest] if rest and cells > 1 else slice(None)
            inside[:, at] = np.maximum(inside[:, at], np.array(held, dtype=np.float64)[(..., *[None] * (not rest))])
        if not feature.cells:
            inside[:] = 1.0
        phi[f] = inside if feature.column is None else inside * values.astype(np.float64)[:, None] ** feature.power
    return phi * usable[:, None, None], usable


def _foreign(problem: Problem, values: NDArray[np.object_], totals: Floats) -> NDArray[np.bool_]:
    """Rows whose number depends on other private columns."""
    phi, usable = _joint_features(problem, values)
    found = (totals[:, ~usable] != 0).any(axis=(1, 2)) if (~usable).any() else np.zeros(problem.m, dtype=bool)
    apart = (phi - phi[:, :, :1]).reshape(len(phi), -1)
    of = np.flatnonzero(apart.any(axis=1))
    for row in np.flatnonzero((totals[:, of] != 0).any(axis=(1, 2))) if len(of) else ():
        found[row] |= bool((np.abs(totals[row, of].T @ apart[of]) > 1e-9).any())
    return found


class _UnitsMade:
    """Collects units."""

    def __init__(self, features: int) -> None:
        self.F = features
        self.groups: list[RecordReading] = []
        self._rows: list[NDArray[np.int64]] = []
        self._columns: list[Floats] = []
        self._features: list[Floats] = []
        self._prior: list[Floats] = []

    def add(
        self, atom: int, rows: NDArray[np.int64], columns: Floats, features: Floats, prior: Floats, reading: Floats
    ) -> None:
        """One unit: its entries, its states, and what they say of one record."""
        self._rows.append(rows)
        self._columns.append(columns)
        self._features.append(features)
        top = prior.max()
        self._prior.append(prior - (top + np.log(np.exp(prior - top).sum())))
        self.groups.append(RecordReading(atom, reading))

    def padded(self, features: Floats) -> Floats:
        """Features with zeros after them."""
        return np.hstack([features, np.zeros((len(features), self.F - features.shape[1]))])

    def case(self, rows: NDArray[np.int64], features: Floats) -> None:
        """A unit that stands for nobody: which values an order statistic lies between."""
        self._rows.append(rows)
        self._columns.append(self.padded(np.eye(len(rows))))
        self._features.append(self.padded(features))
        self._prior.append(np.full(len(features), -np.log(len(features))))

    def total(
        self, atom: int, rows: NDArray[np.int64], columns: Floats, size: int, chosen: NDArray[np.int64],
        levels: Floats, prior: Floats, count: int,
    ) -> None:  # fmt: skip
        """A group of numbers on a grid: the state is their total, in steps above the least."""
        rest, whole = count_log_ways(size - 1, prior), count_log_ways(size, prior)
        reading = np.zeros((len(whole), count))
        for v, value in enumerate(chosen):
            with np.errstate(invalid="ignore"):
                reading[v : v + len(rest), value] = np.exp(prior[v] + rest - whole[v : v + len(rest)])
        step = levels[1] - levels[0] if len(levels) > 1 else 0.0
        total = size * levels[0] + step * np.arange(len(whole))
        self.add(atom, rows, columns, self.padded(total[:, None]), whole, reading)

    def composed(
        self, atom: int, rows: NDArray[np.int64], columns: Floats, size: int, classes: Floats, of: NDArray[np.int64],
        chosen: NDArray[np.int64], prior: Floats, count: int,
    ) -> None:  # fmt: skip
        """A group of records, each in a class of values that no answer tells apart: how many are in which."""
        T = len(classes)
        mass = np.array([np.exp(prior[of == t]).sum() for t in range(T)])
        value = np.zeros((T, count))
        value[of, chosen] = np.exp(prior) / mass[of]
        if size == 1 or comb(size + T - 1, T - 1) > COMPOSED:
            for _ in range(size):
                self.add(atom, rows, columns, classes, np.log(mass), value)
            return
        counts = _compositions(size, T)
        ways = gammaln(size + 1) - gammaln(counts + 1).sum(axis=1) + counts @ np.log(mass)
        self.add(atom, rows, columns, counts @ classes, ways, counts @ value / size)

    def units(self, law: NDArray[np.int8], y: Floats, lo: Floats, hi: Floats, scale: Floats) -> Units:
        """All of them, with the answers."""
        sizes = np.array([len(r) for r in self._rows], dtype=np.int64)
        states = np.array([len(p) for p in self._prior], dtype=np.int64)
        none = np.zeros((0, self.F))
        return Units(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([*self._rows, np.zeros(0, dtype=np.int64)]).astype(np.int64),
            np.concatenate([*self._columns, none]), np.concatenate([[0], np.cumsum(states)]).astype(np.int64),
            np.concatenate([*self._features, none]), np.concatenate([*self._prior, np.zeros(0)]),
            law, y, lo, hi, np.where(scale > 0, scale, 1.0),
        )  # fmt: skip


def _compositions(size: int, T: int) -> Floats:
    """Every way to share `size` records among T classes, one a row.

    >>> _compositions(2, 2).tolist()
    [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    """
    bars = np.array(list(combinations(range(size + T - 1), T - 1)), dtype=np.float64).reshape(-1, T - 1)
    ends = np.hstack([np.full((len(bars), 1), -1.0), bars, np.full((len(bars), 1), float(size + T - 1))])
    return np.diff(ends, axis=1) - 1


def count_log_ways(size: int, prior: Floats) -> Floats:
    """log of the chance of each total of `size` records, whose levels 0.. have the log chances `prior`.

    With a prior of zeros it counts the ways to make a total.

    >>> np.exp(count_log_ways(2, np.zeros(2))).round().tolist()
    [1.0, 2.0, 1.0]
    """
    total = np.zeros(1)
    for _ in range(size):  # convolution in logs: counts overflow at a few hundred records
        wider = np.full(len(total) + len(prior) - 1, -np.inf)
        for v, chance in enumerate(prior):
            wider[v : v + len(total)] = np.logaddexp(wider[v : v + len(total)], total + chance)
        total = wider
    return total
