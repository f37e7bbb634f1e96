"""An answer with bounded noise and the same range given as two ends are one statement, and judged as one."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

import keyhole
from keyhole.auditing import Status
from keyhole.checker import Outcome, replay

CENTS = "name,dept,pay,ill\na,x,10.25,flu\nb,y,20.5,cold\nc,y,30,flu\nd,z,40,cold\ne,z,50,flu\nf,z,60,cold\n"
FORMS = [
    ("SELECT SUM(pay) FROM t WHERE dept = 'x'", 11, 2, 1),
    ("SELECT AVG(pay) FROM t WHERE dept = 'x'", 11, 2, 1),
    ("SELECT MAX(pay) FROM t WHERE dept = 'x'", 11, 2, 1),
    ("SELECT MEDIAN(pay) FROM t WHERE dept = 'x'", 11, 2, 1),
    ("SELECT ROUND(SUM(pay)) FROM t WHERE dept = 'x'", 11, 2, 1),
    ("SELECT FLOOR(MIN(pay)) FROM t WHERE dept = 'x'", 11, 2, 1),
    ("SELECT COUNT(*) FROM t WHERE dept = 'x' AND ill = 'flu'", 1, 0.4, 1),
    ("SELECT SUM(pay) FROM t WHERE dept = 'x' AND ill = 'flu'", 11, 2, 1),
    ("SELECT SUM(pay) FROM t WHERE dept = 'y'", 51, 2, 0),
    ("SELECT COUNT(*) FROM t WHERE ill = 'flu'", 3, 0.4, 0),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("noise") / "t.csv"
    path.write_text(CENTS, encoding="utf-8")
    return path


def judged(lines: list[dict[str, Any]], data: Path, **more: Any) -> keyhole.Verdict:
    log = data.with_name("log.jsonl")
    log.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return keyhole.audit(log, data=data, private=["pay", "ill=flu,cold"], id="name", **more)


def said(verdict: keyhole.Verdict) -> list[tuple[Any, ...]]:
    """What is found, but for dust."""
    near = [
        (f.who, f.column, str(f.status), f.value, *(None if e is None else round(e, 9) for e in (f.lo, f.hi)))
        for f in verdict
    ]
    return sorted(near)


@pytest.mark.parametrize(("sql", "shown", "off", "code"), FORMS, ids=[f[0][7:40] for f in FORMS])
def test_bounded_noise_is_the_range_it_leaves(data: Path, sql: str, shown: float, off: float, code: int) -> None:
    noisy = {"sql": sql, "answer": shown, "noise": {"kind": "uniform", "scale": off}}
    ends = {"sql": sql, "answer": {"lo": shown - off, "hi": shown + off}}
    one, other = judged([noisy], data), judged([ends], data)
    assert one.exit_code == other.exit_code == code
    assert said(one) == said(other)
    for verdict in (one, other):
        assert Outcome.FAILS not in {c.outcome for c in replay(verdict.dumps(), data, bits=16).checked}


def test_answers_with_two_ends_are_subtracted_as_numbers_are(data: Path) -> None:
    sql = ("SELECT SUM(pay) FROM t WHERE dept <> 'z'", "SELECT SUM(pay) FROM t WHERE dept = 'y'")
    noisy = [
        {"sql": s, "answer": a, "noise": {"kind": "uniform", "scale": 1}} for s, a in zip(sql, (60, 50), strict=True)
    ]
    ends = [{"sql": s, "answer": {"lo": a - 1, "hi": a + 1}} for s, a in zip(sql, (60, 50), strict=True)]
    one, other = judged(noisy, data), judged(ends, data)
    assert said(one) == said(other) == [("a", "pay", "inferred", None, Decimal(8), Decimal(12))]
    assert {c.outcome for v in (one, other) for c in replay(v.dumps(), data, bits=16).checked} == {Outcome.HOLDS}


def test_a_noisy_number_sold_as_the_value_is_not_believed(data: Path) -> None:
    sql = FORMS[0][0]
    for line in ({"answer": 11, "noise": {"kind": "uniform", "scale": 2}}, {"answer": {"lo": 9, "hi": 13}}):
        raw = json.loads(judged([{"sql": sql, **line}], data).dumps())
        (claim,) = [i for i in raw["intervals"] if i["status"] == "inferred"]
        claim |= {"status": "exposed", "value": 11, "lo": 11, "hi": 11}
        assert Outcome.HOLDS not in {c.outcome for c in replay(json.dumps(raw), data, bits=16).checked}


def test_unbounded_noise_proves_nothing(data: Path) -> None:
    verdict = judged([{"sql": FORMS[0][0], "answer": 11, "noise": {"kind": "laplace", "scale": 2}}], data)
    assert (said(verdict), verdict.exit_code) == ([], 3)


def test_claims_hold_in_every_table(tmp_path: Path) -> None:
    assert play(5, 6, tmp_path) > 1


@pytest.mark.soak
def test_claims_hold_in_every_table_with_fresh_seeds(tmp_path: Path) -> None:
    assert play(random.randrange(10**9), 100, tmp_path) > 20


def play(seed: int, logs: int, tmp_path: Path) -> int:
    """All tables of three people with values in halves, each answer by the engine itself within its noise."""
    random_, con, people = random.Random(seed), duckdb.connect(), "abc"
    pool = ["SUM(pay)", "ROUND(SUM(pay))", "MAX(pay)", "FLOOR(MIN(pay))", "MEDIAN(pay)", "ROUND(AVG(pay))"]
    groups = ["TRUE", "name <> 'a'", "name = 'b'", "name <> 'c'"]
    tables = [tuple(Fraction(v, 2) for v in t) for t in product(range(4), repeat=3)]
    answers: dict[tuple[str, ...], list[Fraction]] = {}
    asked = [(a, w) for a in pool for w in groups]
    for table in tables:
        values = ", ".join(f"('{p}', {float(v)})" for p, v in zip(people, table, strict=True))
        con.execute(
            f"CREATE OR REPLACE TABLE v AS SELECT n AS name, p::DECIMAL(6, 1) AS pay FROM (VALUES {values}) w(n, p)"
        )
        row = con.execute(f"SELECT {', '.join(f'(SELECT {a} FROM v WHERE {w})' for a, w in asked)}").fetchall()[0]
        for query, value in zip(asked, row, strict=True):
            answers.setdefault(query, []).append(Fraction(str(value)))
    data, found = tmp_path / "t.csv", 0
    for _ in range(logs):
        true = random_.randrange(len(tables))
        data.write_text("name,pay\n" + "".join(f"{p},{float(v)}\n" for p, v in zip(people, tables[true], strict=True)))
        lines, left = [], set(range(len(tables)))
        for query in random_.sample(asked, 3):
            off = Fraction(random_.choice([0, 1, 2, 3]), 2)
            at = answers[query][true] + off * random_.choice([-1, 0, Fraction(1, 2), 1])
            ends = {"answer": {"lo": float(at - off), "hi": float(at + off)}}
            noisy = {"answer": float(at), "noise": {"kind": "uniform", "scale": float(off)}}
            lines.append({"sql": f"SELECT {query[0]} FROM t WHERE {query[1]}"} | random_.choice([ends, noisy]))
            left &= {k for k in left if abs(answers[query][k] - at) <= off}
        data.with_name("log.jsonl").write_text("\n".join(map(json.dumps, lines)))
        verdict = keyhole.audit(data.with_name("log.jsonl"), data=data, private="pay:0..1.5:0.5", id="name")
        for f in verdict:
            here = {tables[k][people.index(f.who)] for k in left}
            assert all((f.lo is None or f.lo <= v) and (f.hi is None or v <= f.hi) for v in here), (seed, lines, f)
            assert f.status is not Status.EXPOSED or here == {Fraction(f.value)}, (seed, lines, f)
            found += 1
        if verdict.exit_code == 0:
            assert all(len({tables[k][i] for k in left}) > 1 for i in range(3)), (seed, lines)
    return found
