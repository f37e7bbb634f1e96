"""Claims about private conditions against all small tables: what is claimed must hold in every one of them.

The twin lists every table (three or four people, few values) and keeps those that give the same answers. It evaluates
the statements itself, in integers, with SQL's NULL. A finding that fails in one of the tables kept is a false verdict.
Where the range is declared the tables listed are all there are, so what the audit misses is counted as well.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.support.effort import effort

from keyhole.auditing import Exposure, Judge, Status
from keyhole.config import Columns, Config, PrivateColumn
from keyhole.datasets import Source, load
from keyhole.gather import gather, transcribe
from keyhole.model.transcript import ABSENT, Line

Masks = NDArray[np.bool_]
HALVES = 2  # numbers are held in halves, so that decimals are whole


@dataclass(frozen=True)
class Setting:
    """What the private column is, what is declared of it, and which values (in halves) the tables may have."""

    name: str
    arrow: Any
    declared: PrivateColumn
    values: tuple[int, ...]
    drawn: tuple[int, ...]
    whole: bool  # the tables are all that there are


BOUNDED = tuple(range(0, 8, 2))
SETTINGS = (
    Setting("integers 0..3", pa.int64(), PrivateColumn(min=0, max=3, step=1), BOUNDED, BOUNDED, True),
    Setting("integers", pa.int64(), PrivateColumn(), tuple(range(-4, 12, 2)), BOUNDED, False),
    Setting("decimals", pa.decimal128(9, 1), PrivateColumn(), tuple(range(-2, 8)), tuple(range(7)), False),
    Setting("doubles", pa.float64(), PrivateColumn(), tuple(range(-2, 8)), tuple(range(7)), False),
)


@dataclass
class Table:
    """The people: group, public weight, and the private value in halves (None: NULL)."""

    g: list[str]
    w: list[int]
    x: list[int | None]

    @property
    def n(self) -> int:
        return len(self.g)


@dataclass(frozen=True)
class Condition:
    """SQL text, and who matches in every table: (tables, people) of private values -> mask."""

    sql: str
    holds: Callable[[NDArray[np.int64], Table], Masks]


def _leaf(rng: random.Random) -> Condition:
    if rng.random() < 0.6:
        cut, op = rng.randrange(0, 4), rng.choice((">", ">=", "<", "<=", "=", "<>"))
        test = {
            ">": np.greater,
            ">=": np.greater_equal,
            "<": np.less,
            "<=": np.less_equal,
            "=": np.equal,
            "<>": np.not_equal,
        }[op]

        def private(x: NDArray[np.int64], t: Table) -> Masks:
            return test(x, HALVES * cut) & np.array([v is not None for v in t.x])

        return Condition(f"x {op} {cut}", private)
    letter = rng.choice("ab")

    def public(x: NDArray[np.int64], t: Table) -> Masks:
        return np.broadcast_to(np.array([g == letter for g in t.g]), x.shape)

    return Condition(f"g = '{letter}'", public)


def condition(rng: random.Random) -> Condition:
    kind = rng.random()
    if kind < 0.15:
        return Condition("TRUE", lambda x, t: np.ones(x.shape, dtype=np.bool_))
    if kind < 0.55:
        return _leaf(rng)
    one, two = _leaf(rng), _leaf(rng)
    if kind < 0.85:
        return Condition(f"{one.sql} AND {two.sql}", lambda x, t: one.holds(x, t) & two.holds(x, t))
    return Condition(f"({one.sql} OR {two.sql})", lambda x, t: one.holds(x, t) | two.holds(x, t))


# an aggregate over a mask: numerator and denominator in every table; a denominator of 0 is NULL
Ratio = tuple[NDArray[np.int64], NDArray[np.int64]]
Measure = Callable[[NDArray[np.int64], Masks, Table], Ratio]


@dataclass(frozen=True)
class Item:
    """An aggregate: SQL text, how it is measured, how often a half counts in it, and whether it is a root."""

    sql: str
    measure: Measure
    power: int = 1
    root: bool = False

    def printed(self, top: int, per: int, rng: random.Random) -> Decimal | None:
        """What an engine prints: exact sums, quotients as a DOUBLE that may be off in its last place."""
        if per == 0:
            return None
        value = Fraction(top, per * HALVES**self.power)
        if not self.root and value.denominator in (1, 2, 4):
            return Decimal(value.numerator) / Decimal(value.denominator)
        if not value:
            return Decimal(0)  # nothing was rounded
        near = float(value) ** 0.5 if self.root else float(value)
        return Decimal(repr(float(np.nextafter(near, rng.choice((-np.inf, near, np.inf))))))


def _sums(x: NDArray[np.int64], here: Masks, t: Table) -> tuple[NDArray[np.int64], ...]:
    there = here & np.array([v is not None for v in t.x])
    value = np.where(there, x, 0)
    return here.sum(axis=1), there.sum(axis=1), value.sum(axis=1), (value * value).sum(axis=1)


def _some(count: NDArray[np.int64]) -> NDArray[np.int64]:
    return (count > 0).astype(np.int64)


def _average(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
    _, c, s, _ = _sums(x, here, t)
    return s, c


AVERAGE = Item("AVG(x)", _average)


def item(rng: random.Random) -> Item:
    one = lambda a: np.ones_like(a)  # noqa: E731
    inner = condition(rng)
    w = lambda t: np.array(t.w)  # noqa: E731

    def weighted(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        _, c, _, _ = _sums(x, here, t)
        there = here & np.array([v is not None for v in t.x])
        return (np.where(there, x, 0) * w(t)).sum(axis=1), _some(c)

    def total(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        _, c, s, _ = _sums(x, here, t)
        return s, _some(c)

    def orzero(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        s = _sums(x, here, t)[2]
        return s, one(s)

    def share(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        return (here & inner.holds(x, t)).sum(axis=1), here.sum(axis=1)

    def case(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        both = here & inner.holds(x, t)
        s = _sums(x, both, t)[2]  # ELSE 0: NULL only where nobody is at all, or all who match the CASE are NULL
        missing = both & np.array([v is None for v in t.x])
        return s, _some(here.sum(axis=1) - missing.sum(axis=1))

    def variance(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        _, c, s, q = _sums(x, here, t)
        return c * q - s * s, c * c

    def sample(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        _, c, s, q = _sums(x, here, t)
        return c * q - s * s, c * (c - 1)

    def squares(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        _, c, _, q = _sums(x, here, t)
        return q, _some(c)

    def counted(x: NDArray[np.int64], here: Masks, t: Table) -> Ratio:
        return here.sum(axis=1), one(x[:, 0])

    choices = [
        Item("SUM(x)", total),
        Item("SUM(x)", total),
        Item("COUNT(*)", counted, 0),
        Item("COUNT(*)", counted, 0),
        Item("COUNT(x)", lambda x, here, t: (_sums(x, here, t)[1], one(x[:, 0])), 0),
        AVERAGE,
        AVERAGE,
        Item("SUM(x * x)", squares, 2),
        Item("SUM(x * x)", squares, 2),
        Item("SUM(x * w)", weighted),
        Item("COALESCE(SUM(x), 0)", orzero),
        Item(f"SUM(CASE WHEN {inner.sql} THEN x ELSE 0 END)", case),
        Item(f"COUNT(*) FILTER (WHERE {inner.sql}) / COUNT(*)", share, 0),
        Item("VAR_POP(x)", variance, 2),
        Item("VAR_SAMP(x)", sample, 2),
        Item("STDDEV_POP(x)", variance, 2, root=True),
    ]
    return rng.choice(choices)


@dataclass
class Asked:
    """One statement with its answers in every table: number, item, in which tables its group is shown, and the key."""

    sql: str
    items: list[Item]
    cells: list[tuple[Ratio, Masks]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def printed(self, at: int, rng: random.Random) -> Any:
        """The answer as a transcript has it."""
        wide = len(self.items)
        said = [
            self.items[i % wide].printed(int(top[at]), int(per[at]), rng)
            for i, ((top, per), _) in enumerate(self.cells)
        ]
        if not self.keys:
            return said if wide > 1 else said[0]
        return [
            {"key": {"g": key}, "values": said[i * wide : (i + 1) * wide]}
            for i, key in enumerate(self.keys)
            if self.cells[i * wide][1][at]
        ]


def statement(rng: random.Random, tables: NDArray[np.int64], t: Table) -> Asked:
    where = condition(rng)
    picked = [item(rng) for _ in range(rng.choice((1, 1, 2)))]
    if picked[0].sql.startswith(("VAR", "STDDEV")):
        picked.append(AVERAGE)
    listed = ", ".join(each.sql for each in picked)
    here = where.holds(tables, t)
    if rng.random() < 0.3:
        found = Asked(f"SELECT g, {listed} FROM t WHERE {where.sql} GROUP BY g", picked, keys=sorted(set(t.g)))
        for letter in found.keys:
            group = here & np.array([g == letter for g in t.g])
            found.cells += [(each.measure(tables, group, t), group.any(axis=1)) for each in picked]
        return found
    found = Asked(f"SELECT {listed} FROM t WHERE {where.sql}", picked)
    found.cells = [(each.measure(tables, here, t), np.ones(len(tables), dtype=np.bool_)) for each in picked]
    return found


def consistent(asked: list[Asked], at: int) -> Masks:
    """The tables that give the answers of table `at`."""
    keep: Masks = np.ones(len(asked[0].cells[0][1]), dtype=np.bool_)
    for each in asked:
        for (top, per), shown in each.cells:
            keep &= shown == shown[at]
            if shown[at]:
                keep &= (per == 0) == (per[at] == 0)
                keep &= top * per[at] == top[at] * per
    return keep


def make_table(rng: random.Random, setting: Setting) -> Table:
    n = rng.choice((3, 3, 4))
    x = [None if i and rng.random() < 0.12 else rng.choice(setting.drawn) for i in range(n)]
    return Table([rng.choice("ab") for _ in range(n)], [rng.randrange(1, 3) for _ in range(n)], x)


def source_of(t: Table, setting: Setting) -> Source:
    x = [None if v is None else Decimal(v) / HALVES for v in t.x]
    if setting.arrow != pa.decimal128(9, 1):
        x = [v if v is None else int(v) if setting.arrow == pa.int64() else float(v) for v in x]  # type: ignore[misc]
    data = pa.table(
        {"n": [f"r{i}" for i in range(t.n)], "g": t.g, "w": t.w, "x": pa.array(x, setting.arrow)},
    )
    return load(data, Columns(id=("n",), private={"x": setting.declared}))


def audit(source: Source, setting: Setting, log: list[Line], *, computed: bool) -> Exposure:
    data = source if computed else None
    transcript = transcribe(log, source.roster, source=data)
    assert not transcript.refused, transcript.refused[0].error
    knowledge = Config(columns=Columns(private={"x": setting.declared})).knowledge()
    evidence = gather(transcript, source.roster, knowledge, source=data)
    return Judge().examine(evidence, source.roster)


def play(seed: int, setting: Setting, logs: int) -> Counter[str]:
    """Random logs about one table; returns what was claimed and what was missed."""
    rng = random.Random(seed)
    t = make_table(rng, setting)
    tables = np.array(list(product(*((v,) if v is None else setting.values for v in t.x))), dtype=object)
    filled: NDArray[np.int64] = np.where(tables == None, 0, tables).astype(np.int64)  # noqa: E711
    at = next(i for i, row in enumerate(tables.tolist()) if row == t.x)
    source, score = source_of(t, setting), Counter[str]()
    for turn in range(logs):
        asked = [statement(rng, filled, t) for _ in range(rng.randrange(1, 5))]
        asked += asked[:1] if rng.random() < 0.3 else []  # the same again, perhaps with other dust
        computed = turn % 2 == 0
        log = [Line(i, a.sql, ABSENT if computed else a.printed(at, rng), at=i) for i, a in enumerate(asked, 1)]
        verdict = audit(source, setting, log, computed=computed)
        left = filled[consistent(asked, at)]
        story = (setting.name, seed, [(line.sql, line.answer) for line in log], t)
        assert not verdict.contradictions, (verdict.contradictions, *story)
        for f in verdict:
            values = [Fraction(int(v), HALVES) for v in set(left[:, f.row].tolist())]
            assert t.x[f.row] is not None, (f, *story)
            for v in values:
                assert _agrees(f, v), (str(v), f, *story)
        known = {f.row for f in verdict.exposed}
        truly = {i for i, v in enumerate(t.x) if v is not None and len(set(left[:, i].tolist())) == 1}
        score["logs"] += 1
        score["findings"] += len(verdict.findings)
        score["exposed"] += len(known)
        score["silent"] += verdict.exit_code == 0
        if setting.whole:
            score["truly exposed"] += len(truly)
            assert verdict.exit_code != 0 or not truly, story
    return score


def _agrees(f: Any, v: Fraction) -> bool:
    if f.status is Status.EXPOSED and f.lo is None and f.value is not None:
        return bool(v == Fraction(f.value))
    if f.lo is not None and v < Fraction(f.lo):
        return False
    if f.hi is not None and v > Fraction(f.hi):
        return False
    return v not in [Fraction(e) for e in f.excluded] and (not f.allowed or v in [Fraction(a) for a in f.allowed])


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_every_claim_holds_in_every_table_with_these_answers(setting: Setting) -> None:
    score = Counter[str]()
    for seed in range(effort(15)):
        score += play(seed, setting, 10)
    print(f"\n{setting.name}: {dict(score)}")  # noqa: T201 - completeness is counted, not asserted
    assert score["findings"] > effort(30)


@pytest.mark.soak
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_every_claim_holds_with_fresh_seeds(setting: Setting) -> None:
    start, score = random.SystemRandom().randrange(10**9), Counter[str]()
    print(f"\nfirst seed {start}")  # noqa: T201
    for seed in range(start, start + 2_000):
        score += play(seed, setting, 12)
    print(f"{setting.name}: {dict(score)}")  # noqa: T201
