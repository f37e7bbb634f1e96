"""The whole path from SQL to exposure against a brute-force twin.

The twin works record by record in fractions: its unknowns are (record, private cell), its conditions are evaluated in
Python with three-valued logic, and a value is determined iff appending its functional leaves the rank as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.laws.auditors import only
from tests.support.effort import effort

from keyhole.auditing import Exposure, Judge, Status
from keyhole.config import Columns, PrivateColumn
from keyhole.datasets import Source, load
from keyhole.gather import gather, transcribe
from keyhole.model.prior import Knowledge
from keyhole.model.transcript import Line

Record = dict[str, Any]
CUTS = (3, 5)


@dataclass(frozen=True)
class Condition:
    """SQL text with its own meaning: record and private value -> True, False or None."""

    sql: str
    truth: Callable[[Record], bool | None]
    private: bool = False


def leaf(rng: random.Random, private: bool) -> Condition:
    if private:
        cut = rng.choice(CUTS)
        op = rng.choice((">", "<=", "="))
        test = {">": lambda v: v > cut, "<=": lambda v: v <= cut, "=": lambda v: v == cut}[op]
        return Condition(f"x {op} {cut}", lambda r: None if r["x"] is None else test(r["x"]), True)
    kind = rng.randrange(6)
    if kind == 0:
        a = rng.randrange(4)
        return Condition(f"a = {a}", lambda r: None if r["a"] is None else r["a"] == a)
    if kind == 1:
        a = rng.randrange(4)
        return Condition(f"a > {a}", lambda r: None if r["a"] is None else r["a"] > a)
    if kind == 2:
        picked = sorted(rng.sample(range(4), 2))
        text = f"a IN ({picked[0]}, {picked[1]})"
        return Condition(text, lambda r: None if r["a"] is None else r["a"] in picked)
    if kind == 3:
        letter = rng.choice("pq")
        return Condition(f"g LIKE '{letter}%'", lambda r: None if r["g"] is None else r["g"].startswith(letter))
    if kind == 4:
        return Condition("g IS NULL", lambda r: r["g"] is None)
    lo = rng.randrange(3)
    text = f"a BETWEEN {lo} AND {lo + 1}"
    return Condition(text, lambda r: None if r["a"] is None else lo <= r["a"] <= lo + 1)


def condition(rng: random.Random, depth: int, private: bool) -> Condition:
    if depth == 0 or rng.random() < 0.4:
        return leaf(rng, private and rng.random() < 0.4)
    if rng.random() < 0.25:
        part = condition(rng, depth - 1, private)

        def negated(r: Record) -> bool | None:
            value = part.truth(r)
            return None if value is None else not value

        return Condition(f"NOT ({part.sql})", negated, part.private)
    left, right = condition(rng, depth - 1, private), condition(rng, depth - 1, private)
    word = rng.choice(("AND", "OR"))

    def both(r: Record) -> bool | None:
        values = (left.truth(r), right.truth(r))
        if word == "AND":
            return False if False in values else None if None in values else True
        return True if True in values else None if None in values else False

    return Condition(f"({left.sql}) {word} ({right.sql})", both, left.private or right.private)


@dataclass
class Case:
    records: list[Record]
    log: list[str]
    asked: list[tuple[str, Condition, Callable[[Record], int], tuple[str, Any] | None]]


def make_table(rng: random.Random) -> list[Record]:
    return [
        {
            "name": f"r{i}",
            # the first record has no NULL, so that the CSV reader sees every column's type
            "a": None if i and rng.random() < 0.15 else rng.randrange(4),
            "g": None if i and rng.random() < 0.15 else rng.choice(("pa", "pb", "q")),
            "w": rng.randrange(1, 4),
            "x": None if i and rng.random() < 0.15 else rng.randrange(1, 8),
        }
        for i in range(rng.randrange(2, 7))
    ]


def make_log(rng: random.Random, records: list[Record], private: bool) -> Case:
    case = Case(records, [], [])
    for _ in range(rng.randrange(1, 6)):
        where = condition(rng, 2, private)
        item, weight = rng.choice(
            [("SUM(x)", 1), ("AVG(x)", 1), ("SUM(x * w)", "w"), ("SUM(2 * x)", 2), ("COUNT(*)", 1), ("COUNT(x)", 1)]
        )
        text = f"SELECT {item} FROM t WHERE {where.sql}"
        measure = (lambda r: r["w"]) if weight == "w" else (lambda r, f=weight: f)
        if rng.random() < 0.25:
            case.log.append(f"{text} GROUP BY g")
            for key in {r["g"] for r in records}:
                case.asked.append((item, where, measure, ("g", key)))
        else:
            case.log.append(text)
            case.asked.append((item, where, measure, None))
    return case


def cell(x: int) -> int:
    return sum((x > c) + (x >= c) for c in CUTS)


CELLS = range(2 * len(CUTS) + 1)
SAMPLES = {c: next(v for v in (-100, 3, 4, 5, 100) if cell(v) == c) for c in CELLS}


def brute_force(case: Case, private: bool) -> tuple[set[str], dict[str, set[str]]]:
    """Names whose value lies in the row space of the record-level system."""
    cells = list(CELLS) if private else [0]
    people = [r for r in case.records if r["x"] is not None]
    index = {}
    for r in people:
        for c in cells:
            index["u", r["name"], c] = len(index)
            index["v", r["name"], c] = len(index)
    width = len(index)
    rows: list[list[Fraction]] = []
    for r in people:  # everybody is in exactly one cell
        row = [Fraction(0)] * width
        for c in cells:
            row[index["v", r["name"], c]] = Fraction(1)
        rows.append(row)

    def coefficient_rows(item: str, where: Condition, weight: Any, group: Any) -> list[list[Fraction]]:
        top, count = [Fraction(0)] * width, [Fraction(0)] * width
        true_sum, true_count, anyone = Fraction(0), 0, 0
        for r in case.records:
            if group is not None and r[group[0]] != group[1]:
                continue
            for c in cells if r["x"] is not None else [None]:
                imagined = dict(r, x=None if c is None else SAMPLES[c] if private else r["x"])
                if where.truth(imagined) is not True:
                    continue
                if c is not None:
                    top[index["u", r["name"], c]] += weight(r)
                    count[index["v", r["name"], c]] += 1
            if where.truth(r) is True:
                anyone += 1
                if r["x"] is not None:
                    true_sum += weight(r) * r["x"]
                    true_count += 1
        if group is not None and anyone == 0 and not where.private:
            return []
        if item.startswith("COUNT"):
            return [count]  # the NULL records of COUNT(*) are public
        if true_count == 0:
            return [count]  # NULL: nobody with a value matched
        if item.startswith("AVG"):
            average = true_sum / true_count
            return [[t - average * v for t, v in zip(top, count, strict=True)]]
        return [top]

    for item, where, weight, group in case.asked:
        rows += coefficient_rows(item, where, weight, group)
    exposed = set()
    basis = rank(rows)
    for r in people:
        target = [Fraction(0)] * width
        for c in cells:
            target[index["u", r["name"], c]] = Fraction(1)
        if rank([*rows, target]) == basis:
            exposed.add(r["name"])
    return exposed, {}


def rank(rows: list[list[Fraction]]) -> int:
    work = [list(r) for r in rows]
    found = 0
    for column in range(len(work[0]) if work else 0):
        pivot = next((i for i in range(found, len(work)) if work[i][column]), None)
        if pivot is None:
            continue
        work[found], work[pivot] = work[pivot], work[found]
        lead = work[found][column]
        for i in range(found + 1, len(work)):
            if work[i][column]:
                factor = work[i][column] / lead
                work[i] = [a - factor * b for a, b in zip(work[i], work[found], strict=True)]
        found += 1
    return found


def source_of(records: list[Record], folder: Path) -> Source:
    path = folder / "t.csv"
    lines = ["name,a,g,w,x"]
    lines += [",".join("" if v is None else str(v) for v in r.values()) for r in records]
    path.write_text("\n".join([*lines, ""]))
    return load(path, Columns(id=("name",), private={"x": PrivateColumn()}))


def audit(source: Source, log: list[str]) -> Exposure:
    lines = [Line(i, text, at=i) for i, text in enumerate(log, 1)]
    transcript = transcribe(lines, source.roster, source=source)
    assert not transcript.refused, transcript.refused[0].error
    evidence = gather(transcript, source.roster, Knowledge(), source=source)
    return Judge().examine(evidence, source.roster)


@pytest.mark.parametrize("private", [False, True], ids=["public conditions", "private conditions"])
@pytest.mark.parametrize("seed", range(effort(10)))
def test_exposure_equals_brute_force(seed: int, private: bool, tmp_path: Path) -> None:
    rng = random.Random(1000 * seed + private)
    seen = 0
    for _ in range(3 if private else 5):
        records = make_table(rng)
        source = source_of(records, tmp_path)
        truth = {r["name"]: r["x"] for r in records}
        for _ in range(12):
            case = make_log(rng, records, private)
            verdict = audit(source, case.log)
            expected, _ = brute_force(case, private)
            linear = {
                f.who
                for f in verdict.exposed
                if f.proof is not None and not f.proof.rule and len(f.proof.target) >= 1 and _whole(f, verdict)
            }
            assert linear == expected, (case.log, records)
            for f in verdict:
                assert f.proof is not None
                assert f.proof.verify(verdict.evidence) is not bool(f.proof.rule), case.log
                if f.status is Status.EXPOSED:
                    assert f.value == truth[f.who], (case.log, records)
                else:
                    value = Decimal(truth[f.who])
                    assert f.lo is None or f.lo <= value
                    assert f.hi is None or value <= f.hi
                    assert truth[f.who] not in f.excluded
            ruled = next((f for f in verdict if f.proof is not None and f.proof.rule), None)
            if ruled is not None and ruled.proof is not None:  # the queries it names suffice
                again = Judge().examine(only(verdict.evidence, ruled.proof), verdict.roster)
                claims = [(f.row, f.status, f.value, f.lo, f.hi) for f in again]
                assert (ruled.row, ruled.status, ruled.value, ruled.lo, ruled.hi) in claims, case.log
            assert not verdict.contradictions
            seen += len(expected)
    assert seen > 0


def _whole(finding: Any, verdict: Exposure) -> bool:
    """Is the proof about the value itself (all its cells), not about one cell of it?"""
    system = verdict.evidence.systems[finding.proof.system]
    k = next(iter(finding.proof.target)) % system.atoms.K
    return dict(finding.proof.target) == system.value_of("x", k)
