"""Rounded, suppressed and compared answers: intervals by the engine's own rounding, and who is settled by them."""

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
from click.testing import CliRunner

import keyhole
from keyhole.auditing import Status
from keyhole.checker import Outcome, replay
from keyhole.cli import app
from keyhole.errors import ConfigError
from keyhole.model.meaning import round_number
from keyhole.model.query import CEIL, FLOOR, HALF, ZERO

STAFF = "name,dept,pay\nAnn,x,10\nBob,y,21\nCyd,y,30\nDan,z,41\nEve,z,57\nFay,z,60\nGus,z,77\n"


@pytest.fixture
def staff(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(STAFF, encoding="utf-8")
    return path


def told(log: Any, staff: Path, private: str = "pay", **more: Any) -> keyhole.Verdict:
    return keyhole.audit(log, data=staff, private=private, id="name", **more)


def found(verdict: keyhole.Verdict) -> dict[str, tuple[str, Any, Any]]:
    return {f.who: (str(f.status), f.lo, f.hi) for f in verdict}


def test_the_engine_rounds_as_we_say() -> None:
    con = duckdb.connect()
    for units in range(-35, 36):
        number = Fraction(units, 10)
        for how, sql in ((HALF, "round({})"), (FLOOR, "floor({})"), (CEIL, "ceil({})"), (ZERO, "trunc({})")):
            said = con.execute(f"SELECT {sql.format(f'{units / 10:.1f}::DECIMAL(9,1)')}").fetchall()[0][0]
            assert Fraction(said) == round_number(number, how, Fraction(1)), (units, how)
        cast = con.execute(f"SELECT ({units / 100:.2f}::DECIMAL(9,2))::DECIMAL(9,1)").fetchall()[0][0]
        assert Fraction(cast) == round_number(number / 10, HALF, Fraction(1, 10))


@pytest.mark.parametrize(
    "item",
    [
        "ROUND(AVG(pay), 2)",
        "ROUND(SUM(pay))",
        "CAST(AVG(pay) AS DECIMAL(12, 2))",
        "SUM(pay)::NUMERIC(12, 2)",
        "FLOOR(AVG(pay))",
        "CEIL(SUM(pay))",
        "TRUNC(AVG(pay))",
    ],
)
def test_a_group_of_one_is_settled(staff: Path, item: str) -> None:
    verdict = told(f"SELECT dept, {item} FROM t GROUP BY dept", staff)
    assert found(verdict) == {"Ann": ("exposed", Decimal(10), Decimal(10))}
    assert verdict.complete
    assert not verdict.unjudged


def test_without_a_step_a_rounded_value_is_a_range(staff: Path) -> None:
    halves = staff.with_name("halves") / "t.csv"
    halves.parent.mkdir()
    halves.write_text(STAFF.replace("10\n", "10.25\n"), encoding="utf-8")
    log = "SELECT dept, ROUND(AVG(pay), 1) FROM t GROUP BY dept"
    (ann,) = told(log, halves)
    assert (ann.who, str(ann.status)) == ("Ann", "inferred")
    assert ann.lo is not None
    assert ann.hi is not None
    assert Decimal("10.24") < ann.lo <= Decimal("10.25") <= ann.hi < Decimal("10.36")
    (ann,) = told(log, halves, "pay:0..100:0.25")
    assert (str(ann.status), ann.value) == ("exposed", Decimal("10.25"))


def test_a_type_of_two_decimals_is_a_step(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM (VALUES ('a', 1, 10.25), ('b', 2, 1.01), ('c', 2, 1.04)) AS t(name, dept, pay)")
    con.execute(f"COPY (SELECT name, dept, pay::DECIMAL(12, 2) AS pay FROM t) TO '{path}'")
    verdict = told("SELECT dept, ROUND(AVG(pay), 2) FROM t GROUP BY dept", path)
    assert found(verdict) == {"a": ("exposed", Decimal("10.25"), Decimal("10.25"))}
    assert {c.outcome for c in replay(verdict.dumps(), path, bits=16).checked} == {Outcome.HOLDS}


def test_who_is_left_of_known_people_is_settled(staff: Path) -> None:
    log = (
        "SELECT MAX(pay) FROM t; SELECT MAX(pay) FROM t WHERE name <> 'Gus'; SELECT SUM(pay) FROM t WHERE name > 'Eve'"
    )
    assert found(told(log, staff)) == {n: ("exposed", Decimal(v), Decimal(v)) for n, v in (("Fay", 60), ("Gus", 77))}


def test_a_suppressed_or_compared_answer_about_one_person_is_a_range(staff: Path) -> None:
    log = [
        ("SELECT SUM(pay) FROM t WHERE dept = 'x'", {"suppressed": [0, 20]}),
        ("SELECT SUM(pay) > 40 FROM t WHERE name = 'Dan'", True),
        ("SELECT SUM(pay) FROM t WHERE dept = 'y'", {"suppressed": [0, 90]}),
    ]
    verdict = told(log, staff)
    assert found(verdict) == {"Ann": ("inferred", Decimal(0), Decimal(20)), "Dan": ("inferred", Decimal(41), None)}
    assert verdict.complete  # the others have second tables


def test_answers_that_were_printed_rounded(staff: Path) -> None:
    log = [("SELECT SUM(pay) FROM t WHERE dept = 'x'", 10), ("SELECT AVG(pay) FROM t WHERE name < 'Dan'", 20)]
    assert found(told(log, staff, rounding=1)) == {"Ann": ("exposed", Decimal(10), Decimal(10))}
    assert found(told(log, staff, rounding=10)) == {"Ann": ("inferred", Decimal(5), Decimal(15))}
    with pytest.raises(ConfigError, match="has none"):
        told("SELECT SUM(pay) FROM t", staff, rounding=1)
    with pytest.raises(ConfigError, match="not a number"):
        told(log, staff, rounding="ten")


def test_rounding_on_the_command_line(staff: Path) -> None:
    path = staff.with_name("log.jsonl")
    path.write_text(json.dumps({"sql": "SELECT SUM(pay) FROM t WHERE dept = 'x'", "answer": 10}), encoding="utf-8")
    call = ["audit", str(path), "--data", str(staff), "--id", "name", "--private", "pay", "--rounding", "10"]
    done = CliRunner().invoke(app, [*call, "--format", "json"])
    assert done.exit_code == 1
    assert [i["status"] for i in json.loads(done.output)["intervals"] if i["status"] != "open"] == ["inferred"]


@pytest.mark.parametrize(
    "log",
    [
        "SELECT dept, ROUND(AVG(pay), 2) FROM t GROUP BY dept; SELECT ROUND(AVG(pay), 1) FROM t WHERE name < 'Da'",
        "SELECT MAX(pay) FROM t; SELECT MAX(pay) FROM t WHERE name <> 'Gus'; SELECT SUM(pay) FROM t WHERE name > 'Eve'",
        [("SELECT SUM(pay) FROM t WHERE dept = 'x'", {"suppressed": [0, 20]})],
    ],
)
def test_proofs_replay_and_false_ones_do_not(staff: Path, log: Any) -> None:
    text = told(log, staff).dumps()
    true = replay(text, staff, bits=16)
    assert true.checked
    assert {c.outcome for c in true.checked} == {Outcome.HOLDS}
    false = json.loads(text)
    for claim in (*false["exposed"], *false["intervals"]):
        if claim.get("status") != "open":
            for name in ("value", "lo"):
                claim[name] = claim[name] + 1 if claim.get(name) is not None else None
    replayed = [c for c in replay(json.dumps(false), staff, bits=16).checked if c.claim.status != "open"]
    assert replayed
    assert Outcome.HOLDS not in {c.outcome for c in replayed}


def test_rounded_claims_hold_in_every_table(tmp_path: Path) -> None:
    """All tables of three people with values 0 to 5 whose answers, by the engine itself, are the same."""
    con = duckdb.connect()
    people, span = "abc", range(6)
    tables = list(product(span, repeat=3))
    con.execute("CREATE TABLE every (k INT, name VARCHAR, pay INT)")
    con.executemany(
        "INSERT INTO every VALUES (?, ?, ?)",
        [[k, n, v] for k, t in enumerate(tables) for n, v in zip(people, t, strict=True)],
    )
    items = ("ROUND(AVG(pay), 1)", "FLOOR(AVG(pay))", "ROUND(SUM(pay), -1)", "CEIL(AVG(pay))", "ROUND(SUM(pay) / 2, 0)")
    exposed = 0
    for seed in range(8):
        rng = random.Random(seed)
        truth = rng.randrange(len(tables))
        log, same = [], set(range(len(tables)))
        for _ in range(3):
            names = ", ".join(repr(n) for n in rng.sample(people, rng.randint(1, 3)))
            item, where = rng.choice(items), f"name IN ({names})"
            said = dict(con.execute(f"SELECT k, {item} FROM every WHERE {where} GROUP BY k").fetchall())
            log.append((f"SELECT {item} FROM t WHERE {where}", Decimal(str(said[truth]))))
            same &= {k for k in same if said[k] == said[truth]}
        path = tmp_path / "t.csv"
        path.write_text(
            "name,pay\n" + "".join(f"{n},{v}\n" for n, v in zip(people, tables[truth], strict=True)), encoding="utf-8"
        )
        verdict = told(log, path, "pay:0..5:1")
        assert not verdict.contradictions, (seed, log)
        for f in verdict:
            left = {tables[k][f.row] for k in same}
            assert all((f.lo is None or f.lo <= v) and (f.hi is None or v <= f.hi) for v in left), (seed, log, f)
            assert f.status is not Status.EXPOSED or left == {int(f.value)}, (seed, log, f)  # type: ignore[arg-type]
            exposed += f.status is Status.EXPOSED
    assert exposed > 3


def test_a_proof_names_the_ends_that_the_table_shows(tmp_path: Path) -> None:
    """A number a little below 70.125 may be printed as 70.13: the end is rounded outwards, here and there."""
    people = tmp_path / "t.csv"
    people.write_text("name,pay\nann,70.13\nbob,60\n", encoding="utf-8")
    log = ["SELECT ROUND(AVG(pay), 2) FROM t WHERE name = 'ann'"]
    verdict = keyhole.audit(log, data=people, id="name", private="pay:0..100")
    (found,) = verdict
    assert (found.lo, found.hi) == (Decimal("70.124999999999"), Decimal("70.135000000001"))
    text = " ".join(verdict.text().split())
    assert "ann's pay is at least 70.124999999999." in text
    assert "ann's pay is at most 70.135000000001." in text
    assert text.count("lies in [70.124999999999, 70.135000000001]") == 3
