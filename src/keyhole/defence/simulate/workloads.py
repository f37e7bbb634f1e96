"""Streams of counting questions on which mechanisms are compared: published benchmarks in outline, or a log of SQL.

The people are made up from a seed; sizes and numbers of people are those of the published streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from keyhole.basis.cells.domain import Domain
from keyhole.basis.cells.numbers import Cuts
from keyhole.config import Columns
from keyhole.defence.declared_domain import make_asking_schema
from keyhole.defence.planner.columns import CutAxis, Partitions
from keyhole.defence.planner.layout import find_cuts, lay_out
from keyhole.defence.planner.wanted import WantedStatement, read_wanted
from keyhole.defence.tables.inference import Functional, Names
from keyhole.defence.tables.noisy_tables import COUNT
from keyhole.errors import ConfigError, KeyholeError
from keyhole.model.schema import Column, Kind, Role, Schema
from keyhole.sql import lower_statement

TWIN = 7919  # added to the seed of a workload for that of its twin
Masks = tuple[int, ...]  # for each axis a bit mask of the values kept; 0: the axis is not named
COVID = {"age": 4, "ethnicity": 8, "gender": 2, "positive": 2}
CITIBIKE = {
    "age": 4, "duration": 6, "end": 10, "gender": 3, "hour": 6, "start": 10, "user": 2, "weekday": 7,
}  # fmt: skip


class TrueMargins(dict[Names, NDArray[np.int64]]):
    """True margins of made-up people, counted when they are first asked for."""

    def __init__(self, names: Names, sizes: Sequence[int], people: NDArray[np.int64]) -> None:
        super().__init__()
        self._names, self._sizes, self._people = names, tuple(sizes), people

    def __missing__(self, over: Names) -> NDArray[np.int64]:
        axes = [self._names.index(name) for name in over]
        shape = tuple(self._sizes[axis] for axis in axes)
        if over != self._names and axes == sorted(axes) and prod(self._sizes) <= len(self._people):
            others = tuple(k for k in range(len(self._names)) if k not in axes)
            self[over] = np.asarray(self[self._names].sum(axis=others))  # fewer cells than people to add up
            return self[over]
        cells = np.zeros(len(self._people), dtype=np.int64)
        for axis in axes:
            cells = cells * self._sizes[axis] + self._people[:, axis]
        self[over] = np.bincount(cells, minlength=prod(shape)).reshape(shape).astype(np.int64)
        return self[over]

    def __contains__(self, over: object) -> bool:
        return isinstance(over, tuple) and set(over) <= set(self._names)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """People in the cells of a domain, a pool of questions, and the stream that is drawn from it."""

    name: str
    sizes: Mapping[str, int]
    truth: TrueMargins
    pool: Sequence[Masks]
    stream: NDArray[np.int64]
    n: int
    made: dict[int, Functional] = field(default_factory=dict)
    twin: Callable[[], Workload] | None = None  # other people of the same kind, and another stream

    @property
    def names(self) -> Names:
        """The columns."""
        return tuple(self.sizes)

    @property
    def distinct(self) -> int:
        """Different questions in the stream."""
        return len(np.unique(self.stream))

    def question(self, at: int) -> Functional:
        """A question of the pool over the columns that it names."""
        if at not in self.made:
            pairs = [(n, s, m) for (n, s), m in zip(self.sizes.items(), self.pool[at], strict=True) if m]
            vectors = [np.array([float(mask >> k & 1) for k in range(size)]) for _, size, mask in pairs]
            self.made[at] = Functional.product(tuple(name for name, _, _ in pairs), vectors)
        return self.made[at]

    def true(self, at: int) -> float:
        """Its true answer, in people."""
        asked = self.question(at)
        return float(asked.within(self.truth[asked.names].astype(np.float64)))

    def shapes(self) -> Iterator[Functional]:
        """One question for each way of looking: which columns, and how many values of each."""
        seen = set()
        for at in range(len(self.pool)):
            mark = tuple(mask.bit_count() for mask in self.pool[at])
            if mark not in seen:
                seen.add(mark)
                yield self.question(at)


def make_workload(name: str, queries: int, zipf: float, seed: int, people: int = 1_000_000) -> Workload:
    """`covid`, `citibike`, `binary:D` or `near:D`; questions drawn from a pool, uniformly (zipf 0) or by rank^-zipf.
    `people`: of the made-up binary columns; published streams have their own number.

    >>> made = make_workload("binary:8", 50, 0.0, 1)
    >>> made.n, len(made.pool), len(made.stream)
    (1000000, 448, 50)
    """
    rng = np.random.default_rng(seed)
    kind, _, size = name.partition(":")
    if kind == "covid" and not size:
        n, sizes = 1_008_532, COVID
        pool = [m for m in product(*(_list_subsets(s) for s in sizes.values())) if any(m)]
    elif kind == "citibike" and not size:
        n, sizes = 340_000, CITIBIKE
        pool = list(_list_cells(sizes, (1, 2, 3)))
    elif kind in ("binary", "near") and size.isdigit() and 3 <= int(size) <= 20:
        n, sizes = people, {f"b{k:02d}": 2 for k in range(int(size))}
        pool = list(_list_cells(sizes, (3,)))
    else:
        raise ConfigError(
            f"there is no workload {name!r}; there are covid, citibike, binary:D and near:D, D from 3 to 20"
        )
    order = rng.permutation(len(pool))
    weight = np.arange(1, len(pool) + 1, dtype=np.float64) ** -zipf
    stream = order[rng.choice(len(pool), queries, p=weight / weight.sum())]
    rows = make_up_near_people(sizes, n, rng) if kind == "near" else make_up_people(sizes, n, rng)
    truth = TrueMargins(tuple(sizes), tuple(sizes.values()), rows)
    return Workload(
        name, sizes, truth, pool, stream, n, twin=lambda: make_workload(name, queries, zipf, seed + TWIN, people)
    )


def _list_subsets(size: int) -> list[int]:
    """Masks of the non-empty subsets of values; all of them together name nothing, and are 0."""
    return [0 if mask == 2**size - 1 else mask for mask in range(1, 2**size)]


def _list_cells(sizes: Mapping[str, int], ways: Sequence[int]) -> Iterator[Masks]:
    """Conjunctions of one value each of some columns."""
    names = list(sizes)
    for count in ways:
        for chosen in combinations(range(len(names)), count):
            for values in product(*(range(sizes[names[at]]) for at in chosen)):
                masks = [0] * len(names)
                for at, value in zip(chosen, values, strict=True):
                    masks[at] = 1 << value
                yield tuple(masks)


def make_up_near_people(sizes: Mapping[str, int], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Columns that are nearly independent: every fourth one repeats the one before it for three people in twenty."""
    people = np.zeros((n, len(sizes)), dtype=np.int64)
    for axis, size in enumerate(sizes.values()):
        people[:, axis] = rng.choice(size, n, p=rng.dirichlet(np.full(size, 4.0)))
        if axis % 4 == 3:
            same = rng.random(n) < 0.15
            people[same, axis] = np.minimum(people[same, axis - 1], size - 1)
    return people


def make_up_people(sizes: Mapping[str, int], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A row a person, with the cell of each column: a mixture of products, so that columns depend on each other."""
    kinds = rng.choice(4, n, p=rng.dirichlet(np.ones(4)))
    people = np.zeros((n, len(sizes)), dtype=np.int64)
    for axis, size in enumerate(sizes.values()):
        for kind in range(4):
            here = kinds == kind
            people[here, axis] = rng.choice(size, int(here.sum()), p=rng.dirichlet(np.full(size, 2.0)))
    return people


# --- a log of SQL -----------------------------------------------------------------------------------------------------


def declared_schema(roles: Columns, table: str) -> Schema:
    """The columns of a declaration, without a table: kinds are declared or implied."""
    listed = [Column(name, Kind(c.implied()), Role.PRIVATE) for name, c in roles.private.items()]
    listed += [Column(name, Kind(c.implied())) for name, c in roles.public.items() if c.has_kind]
    return Schema(table, tuple(listed))


def read_log_workload(statements: Sequence[str], roles: Columns, n: int, seed: int) -> tuple[Workload, int]:
    """The counts of a log (every group of a GROUP BY is one), over made-up people; and how many statements are no
    counts under a product of conditions, and were left out.

    >>> from keyhole.config import PublicColumn
    >>> roles = Columns(public={"sex": PublicColumn(values=("F", "M"), missing="F")})
    >>> log = ["SELECT sex, COUNT(*) FROM t GROUP BY sex", "SELECT SUM(x) FROM t"]
    >>> made, left = read_log_workload(log, roles, 100, 0)
    >>> len(made.stream), left
    (2, 1)
    """
    schema = declared_schema(roles, "t")
    columns = Partitions.declared(roles, schema)
    reading = make_asking_schema(schema, Domain(tuple(columns.columns.values())))
    read: list[WantedStatement] = []
    for sql in statements:
        try:
            question = read_wanted(lower_statement(sql, reading), columns)
        except KeyholeError:
            continue
        if all(w.kind == "linear" and set(w.sums) == {COUNT} and len(w.conditions) == 1 for w in question.wanted):
            read.append(question)
    axes = _cut_axes(read, columns)
    names = tuple(sorted(axes))
    sizes = {name: axes[name].size for name in names}
    pool: dict[Masks, int] = {}
    stream = []
    used = 0
    for question in read:
        masks = [m for m in _list_masks(question, axes, names, columns) if any(m)]
        used += 1
        stream += [pool.setdefault(mask, len(pool)) for mask in masks]
    if not stream:
        raise ConfigError("the log has no count under conditions on declared columns")
    people = make_up_people(sizes, n, np.random.default_rng(seed))
    made = Workload(
        "sql log", sizes, TrueMargins(names, tuple(sizes.values()), people), list(pool), np.array(stream), n
    )
    return made, len(statements) - used


def _cut_axes(read: Sequence[WantedStatement], columns: Partitions) -> dict[str, CutAxis]:
    cuts: dict[str, set[int]] = {}
    for question in read:
        for wanted, keys in question.parts:
            for name, points in find_cuts(wanted, [column for _, column in keys], columns).items():
                cuts.setdefault(name, set()).update(points)
    axes = {}
    for name, points in cuts.items():
        column = columns.of(name)
        axes[name] = CutAxis.of(column.at(points) if isinstance(column, Cuts) else column)
    return axes


def _list_masks(
    question: WantedStatement, axes: dict[str, CutAxis], names: Sequence[str], columns: Partitions
) -> list[Masks]:
    """The values that each number of a statement keeps, column by column; 0 where all are kept."""
    masks: list[Masks] = []
    for wanted, keys in question.parts:
        over = [column for _, column in keys]
        used = find_cuts(wanted, over, columns)
        layout = lay_out(wanted, over, [axes[name] for name in used])
        if layout.count.vectors is None or layout.sums[COUNT].factor != Fraction(1):
            continue
        vectors = {axis.column.name: v for axis, v in zip(layout.axes, layout.count.vectors, strict=True)}
        for group in np.ndindex(*(len(axes[name].column.keys()) for name in over)):
            at = dict(zip(over, group, strict=True))
            kept = {name: [k for k, v in enumerate(vector) if v and at.get(name, k) == k]
                    for name, vector in vectors.items()}  # fmt: skip
            if not all(kept.values()):
                continue  # what is about nobody is public
            whole = {name for name, cells in kept.items() if len(cells) == axes[name].size}
            masks.append(
                tuple(0 if name not in kept or name in whole else sum(1 << k for k in kept[name]) for name in names)
            )
    return masks
