"""Private columns whose values nobody declared: they are assumed from the data, against us.

The twin reads the rules of the domains for itself, lists every table of it, and keeps those that give the same answers.
Whoever has one value in all of them must be found; an all-clear needs two values for everybody.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.support.effort import effort

import keyhole
from keyhole.auditing import Status
from keyhole.auditing.assumed_domains import assume_domain
from keyhole.checker.engine import Engine
from keyhole.checker.replay import Outcome, replay
from keyhole.cli import app
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets import Use, open_table
from keyhole.report.verdict import Verdict


def table(**columns: Sequence[Any]) -> pa.Table:
    n = len(next(iter(columns.values())))
    return pa.table({"name": [f"p{i}" for i in range(n)], **{name: list(held) for name, held in columns.items()}})


def audit(log: str, data: pa.Table, private: str | list[str], **more: Any) -> Verdict:
    return keyhole.audit(log, data=data, private=private, id="name", **more)


def who(verdict: Verdict, *, assumed: bool) -> set[str]:
    return {f.who for f in verdict.findings if f.assumed is assumed}


# -- what was an all-clear --------------------------------------------------------------------------------------------


def test_a_sum_of_flags_that_is_as_large_as_it_can_be() -> None:
    data = table(team=["a", "a", "b", "b"], hiv=[1, 1, 0, 1])
    found = audit("SELECT SUM(hiv) FROM t WHERE team = 'a'", data, "hiv")
    assert found.exit_code == 1
    assert who(found, assumed=True) == {"p0", "p1"}
    text = found.text()
    assert "the answer of Q1 equals its greatest possible value: the value of all 2 people in it is determined" in text
    assert "--private hiv:MIN..MAX:STEP, or --private hiv:real" in " ".join(text.split())
    assert "p0" not in text
    assert [(e["record"]["name"], e["value"], e["assumed"]) for e in found.to_json()["exposed"]] == [
        ("p0", 1, True),
        ("p1", 1, True),
    ]


def test_a_sum_on_a_scale_that_is_as_large_as_it_can_be() -> None:
    data = table(team=["a", "a", "b", "b", "b"], pain=[5, 5, 1, 2, 4])
    found = audit("SELECT SUM(pain) FROM t WHERE team = 'a'", data, "pain")
    assert (found.exit_code, who(found, assumed=True)) == (1, {"p0", "p1"})


def test_a_sum_as_small_as_it_can_be_and_an_average() -> None:
    data = table(team=["a", "a", "b", "b", "b"], pain=[1, 1, 5, 2, 4])
    for sql in ("SELECT SUM(pain) FROM t WHERE team = 'a'", "SELECT AVG(pain) FROM t WHERE team = 'a'"):
        found = audit(sql, data, "pain")
        assert (found.exit_code, who(found, assumed=True)) == (1, {"p0", "p1"})
        assert "equals its least possible value" in found.text()


def test_of_two_categories_the_other_one() -> None:
    data = table(team=["a", "a", "b", "b"], ill=["flu", "flu", "flu", "cold"])
    found = audit("SELECT COUNT(*) FROM t WHERE team = 'a' AND ill = 'cold'", data, "ill")
    assert found.exit_code == 1
    assert {(f.who, f.value) for f in found.exposed} == {("p0", "flu"), ("p1", "flu")}
    assert who(found, assumed=False) == {"p0", "p1"}  # that it is not a cold needs no assumption


def test_totals_of_many_different_numbers_at_the_ends() -> None:
    pay = [100.5, 100.5, 2.25, 2.25, 17, 23, 42]
    data = table(team=["a", "a", "b", "b", "c", "c", "c"], pay=pay)
    log = "SELECT team, SUM(pay) FROM t GROUP BY team"
    found = audit(log, data, "pay")
    assert (found.exit_code, who(found, assumed=True)) == (1, {"p0", "p1", "p2", "p3"})
    other = audit("SELECT SUM(pay) FROM t WHERE team = 'c'", data, "pay")
    assert other.exit_code == 0
    assert "Proved for every range of possible values that contains the data" in other.promise
    assert audit(log, data, "pay:real").exit_code == 0


def test_what_is_declared_or_called_real_is_not_assumed() -> None:
    data = table(team=["a", "a", "b", "b"], hiv=[1, 1, 0, 1])
    log = "SELECT SUM(hiv) FROM t WHERE team = 'a'"
    assert audit(log, data, "hiv:real").exit_code == 0
    assert audit(log, data, "hiv:0..5:1").exit_code == 0
    declared = audit(log, data, "hiv:0..1:1")
    assert (declared.exit_code, who(declared, assumed=True)) == (1, set())


def test_without_data_and_declaration_it_is_no_all_clear() -> None:
    people = pa.table({"name": ["Ann", "Bob", "Cyd"], "team": ["a", "a", "b"]})
    log = [("SELECT SUM(pay) FROM t WHERE team = 'a'", 30)]
    found = keyhole.audit(log, data=people, private="pay", id="name")
    assert found.exit_code == 3
    assert "--private pay:real" in found.promise
    assert keyhole.audit(log, data=people, private="pay:real", id="name").exit_code == 0


def test_a_column_of_one_value() -> None:
    data = table(team=["a", "a", "b", "b"], hiv=[0, 0, 0, 0])
    assert audit("SELECT SUM(hiv) FROM t WHERE team = 'a'", data, "hiv").exit_code == 1
    found = audit("SELECT MAX(hiv) FROM t", data, "hiv")
    assert found.exit_code == 3
    assert "everybody has the same hiv in the data" in found.promise


def test_answers_that_the_data_do_not_give_assume_nothing() -> None:
    """A log of another day: its sum is more than the values of these data allow."""
    data = table(team=["a", "a", "b", "b"], pain=[5, 4, 1, 2])
    log = [("SELECT SUM(pain) FROM t WHERE team = 'a'", 14)]
    found = keyhole.audit(log, data=data, private="pain", id="name")
    assert (found.exit_code, found.findings) == (3, ())


def test_facts_that_no_value_of_the_data_fits_assume_nothing() -> None:
    data = table(team=["a", "a", "b", "b"], pain=[5, 4, 1, 2])
    knows = Config.parse("[[facts]]\nwhere = \"name = 'p2'\"\nmin = 7\n[columns.private.pain]\n")
    found = keyhole.audit("SELECT SUM(pain) FROM t WHERE team = 'a'", data=data, id="name", config=knows)
    assert (found.exit_code, found.findings) == (3, ())


# -- the all-clear ----------------------------------------------------------------------------------------------------


def test_everybody_may_be_exchanged() -> None:
    data = table(team=["a"] * 3 + ["b"] * 3, hiv=[1, 0, 1, 0, 0, 1])
    found = audit("SELECT team, SUM(hiv) FROM t GROUP BY team", data, "hiv")
    assert found.exit_code == 0
    assert "Proved for every range of possible values that contains the data" in found.promise


def test_a_second_table_inside_the_domain() -> None:
    """Ann alone in her group and equal pains in another: nobody to be exchanged with, and open all the same."""
    data = table(team=["a", "a", "b", "b", "b"], pain=[2, 2, 3, 1, 5])
    found = audit("SELECT SUM(pain) FROM t WHERE team = 'a'", data, "pain")
    assert found.exit_code == 0


def test_groups_of_an_undeclared_category() -> None:
    """Which values there are is not declared: what only an assumption makes harmless is no all-clear."""
    data = table(team=["a", "a", "b", "b"], ill=["flu", "cold", "flu", "cold"])
    assert audit("SELECT ill, COUNT(*) FROM t GROUP BY ill", data, "ill").exit_code == 3
    data = table(team=["a", "a", "b", "b"], ill=["flu", "cold", "flu", "gout"])
    found = audit("SELECT team, ill, COUNT(*) FROM t GROUP BY team, ill", data, "ill")
    assert found.exit_code == 1


def test_many_texts_are_no_domain() -> None:
    data = table(ill=[f"ill {i}" for i in range(25)])
    found = audit("SELECT ill, COUNT(*) FROM t GROUP BY ill", data, "ill")
    assert found.exit_code == 3
    assert "the answers show which values ill has" in found.promise


def test_a_large_log_over_exchangeable_people_is_fast_and_clear() -> None:
    rng = random.Random(5)
    n = 20_000
    data = pa.table(
        {
            "name": [f"p{i}" for i in range(n)],
            "zip": [rng.randrange(200) for _ in range(n)],
            "kids": [rng.randrange(6) for _ in range(n)],
        }
    )
    found = audit("SELECT zip, SUM(kids), COUNT(*) FROM t GROUP BY zip", data, "kids")
    assert found.exit_code == 0


def test_values_on_no_grid_with_many_records_each() -> None:
    held = [1, 2, 9] * 12
    data = table(team=["a"] * 2 + ["b"] * 34, level=held)
    found = audit("SELECT SUM(level) FROM t WHERE team = 'a'", data, "level")
    assert found.exit_code == 0  # 1 + 2 or 2 + 1
    data = table(team=["a"] * 2 + ["b"] * 35, level=[9, 9, *held[:-1]])
    found = audit("SELECT SUM(level) FROM t WHERE team = 'a'", data, "level")
    assert (found.exit_code, who(found, assumed=True)) == (1, {"p0", "p1"})
    data = table(team=["a"] * 2 + ["b"] * 36, level=[2, 2, *held])
    found = audit("SELECT SUM(level) FROM t WHERE team = 'a'", data, "level")
    assert (found.exit_code, who(found, assumed=True)) == (1, {"p0", "p1"})  # 4 is 2 + 2 alone; on a grid 1 + 3 too


# -- what is never printed --------------------------------------------------------------------------------------------


def test_ranges_that_follow_from_assumed_ends_are_not_told(tmp_path: Path) -> None:
    data = table(team=["a", "a", "b", "b", "b"], pain=[2, 1, 3, 1, 5])
    found = audit("SELECT SUM(pain) FROM t WHERE team = 'a'", data, "pain")
    assert not found.to_json()["exposed"]
    assert {(i["lo"], i["hi"]) for i in found.to_json()["intervals"]} == {(None, None)}
    near = audit("SELECT SUM(pain) FROM t WHERE team = 'a'", data, "pain", within="1")
    assert near.exit_code == 1
    assert {(i["lo"], i["hi"], i["status"]) for i in near.to_json()["intervals"] if i.get("assumed")} == {
        (None, None, "inferred")
    }
    assert "[1, 2]" not in near.text()


def test_pages_tell_them_by_statement_and_group() -> None:
    data = table(team=["a", "a", "b", "b"], hiv=[1, 1, 0, 1])
    found = audit("SELECT SUM(hiv) FROM t WHERE team = 'a'", data, "hiv")
    for page in (found.to_html(), found._repr_html_()):
        assert "the value of all 2 people in it is determined" in page
        assert "p0" not in page


# -- verify -----------------------------------------------------------------------------------------------------------


def verified(verdict: dict[str, Any], data: Path) -> Counter[Outcome]:
    return Counter(c.outcome for c in replay(json.dumps(verdict, default=float), data).checked)


def test_verify_reads_the_rule_off_the_data(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,team,hiv\nAnn,a,1\nBob,a,1\nCyd,b,0\n")
    (tmp_path / "log.sql").write_text("SELECT SUM(hiv) FROM t WHERE team = 'a'")
    log, data = str(tmp_path / "log.sql"), str(tmp_path / "t.csv")
    ran = CliRunner().invoke(
        app, ["audit", log, "--data", data, "--id", "name", "--private", "hiv", "--format", "json"]
    )
    assert ran.exit_code == 1
    verdict = json.loads(ran.stdout)
    assert verified(verdict, tmp_path / "t.csv") == {Outcome.HOLDS: 2}
    plain = json.loads(ran.stdout)
    for item in (*plain["exposed"], *plain["intervals"]):
        item.pop("assumed", None)
    assert verified(plain, tmp_path / "t.csv") == {Outcome.FAILS: 2}  # it is not said that it needs an assumption
    (tmp_path / "more.csv").write_text("name,team,hiv\nAnn,a,1\nBob,a,1\nCyd,b,3\n")
    assert verified(verdict, tmp_path / "more.csv") == {Outcome.FAILS: 2}  # 1 is not the greatest there
    (tmp_path / "less.csv").write_text("name,team\nAnn,a\nBob,a\nCyd,b\n")
    assert verified(verdict, tmp_path / "less.csv") == {Outcome.CANNOT: 2}


@pytest.mark.parametrize(
    "held",
    [
        [0, 1, 1, 0],
        [1, 2, 4, 9, 21],
        [1, 2, 4, 9, 22],
        [1.5, 2.5],
        [1.5, 2.5, 7],
        [1, 2, 9] * 10,
        [1, 2, 9] * 9,
        ["a", "b", None],
        [f"t{i}" for i in range(21)],
        [True, False],
        [7, 7],
        [None, None],
    ],
)
def test_auditor_and_checker_assume_the_same(held: list[Any], tmp_path: Path) -> None:
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(table(x=held), tmp_path / "t.parquet")
    opened = open_table(settings(data=tmp_path / "t.parquet", private="x", id="name"), Use.AUDIT)
    column = opened.roster.schema.find("x")
    assert column is not None
    mine, theirs = assume_domain(column, opened.whole), Engine(tmp_path / "t.parquet", {"private": ["x"]})
    said, prior = theirs.assumed_domain("x"), mine.prior
    assert (said.get("values") or None) == (None if prior.values is None else list(prior.values)) or mine.rule in (
        "constant",
        "any",
    )
    if mine.ends is not None:
        assert (said["min"], said["max"]) == mine.ends
    if mine.closed and column.kind.numeric:
        assert said["step"] == Fraction(str(prior.step))
        full = [said["min"] + k * said["step"] for k in range(int((said["max"] - said["min"]) / said["step"]) + 1)]
        assert said.get("numbers", full) == [Fraction(str(v)) for v in prior.numbers or full]


# -- against all tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A statement about some people: SQL text, and its answer in a table."""

    sql: str
    answer: Callable[[Sequence[Any]], Any]


def _question(rng: random.Random, n: int, constants: Sequence[Any], *, numbers: bool) -> Question:
    people = rng.sample(range(n), rng.randint(1, n))
    where = f"name IN ({', '.join(repr(f'p{i}') for i in people)})"
    cut = rng.choice(constants)
    kinds = ["count", "equal", "groups", *(("sum", "sum", "sum", "avg", "min", "max", "above") if numbers else ())]
    kind = rng.choice(kinds)
    literal = repr(cut) if isinstance(cut, str) else str(cut)
    texts: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
        "sum": ("SUM(x)", lambda held: sum(held)),
        "avg": ("AVG(x)", lambda held: Fraction(sum(held)) / len(held)),
        "min": ("MIN(x)", min),
        "max": ("MAX(x)", max),
    }
    if kind in texts:
        item, of = texts[kind]
        return Question(f"SELECT {item} FROM t WHERE {where}", lambda x: of([x[i] for i in people]))
    if kind == "above":
        sql = f"SELECT COUNT(*), SUM(x) FROM t WHERE {where} AND x > {literal}"
        return Question(
            sql, lambda x: (lambda h: (len(h), sum(h) if h else None))([x[i] for i in people if x[i] > cut])
        )
    if kind == "groups":
        sql = f"SELECT x, COUNT(*) FROM t WHERE {where} GROUP BY x"
        return Question(sql, lambda x: Counter(x[i] for i in people))
    sql = f"SELECT COUNT(*) FROM t WHERE {where}" + ("" if kind == "count" else f" AND x = {literal}")
    return Question(sql, lambda x: len(people) if kind == "count" else sum(x[i] == cut for i in people))


def possible_values(held: Sequence[Any]) -> list[Any] | None:
    """The rules once more: the values that are assumed; None where any text is possible."""
    different = sorted(set(held))
    if isinstance(held[0], str):
        return different if len(different) <= 20 else None
    if len(different) <= 2 or (len(different) <= 20 and min(Counter(held).values()) >= 10):
        return different
    if all(v == int(v) for v in different) and different[-1] - different[0] <= 20:
        return list(range(int(different[0]), int(different[-1]) + 1))
    decimals = max(max(0, -Decimal(v).as_tuple().exponent) for v in map(Decimal, different))
    lo, hi = (int(v * 10**decimals) for v in (different[0], different[-1]))
    return [Fraction(k, 10**decimals) for k in range(lo, hi + 1)]


POOLS: tuple[tuple[Any, ...], ...] = (
    (0, 1),
    (1, 2, 3),
    (1, 2, 3, 4, 5),
    (0, 2),
    (Decimal("0.5"), Decimal("7.25")),
    ("flu", "cold"),
    ("flu", "cold", "gout"),
    (0, 9, 30),
    (-2, 1, 23),
    (Decimal("0.5"), Decimal("1.5"), Decimal("4.0")),
)
WIDE = 20  # values from which on fewer people are enough to list all tables


def _is_wide(pool: Sequence[Any]) -> bool:
    return not isinstance(pool[0], str) and len(pool) <= 3 and len(possible_values(pool) or ()) > WIDE


@pytest.mark.parametrize("seed", range(effort(300)))
def test_one_possible_value_is_a_finding_and_an_all_clear_leaves_everybody_two(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    pool = rng.choice(POOLS)
    n = rng.randint(2, 5 if len(pool) <= 3 else 4)
    n = min(n, 3) if _is_wide(pool) else n
    held = [rng.choice(pool) for _ in range(n)]
    domain = possible_values(held)
    if domain is None or len(domain) < 2:
        return  # a column of one value has a test of its own
    numbers = not isinstance(pool[0], str)
    questions = [_question(rng, n, pool, numbers=numbers) for _ in range(rng.randint(1, 4))]
    truth = [q.answer(held) for q in questions]
    tables = [
        x for x in product(domain, repeat=n) if all(q.answer(x) == a for q, a in zip(questions, truth, strict=True))
    ]
    left = [{x[i] for x in tables} for i in range(n)]
    data = table(x=held)
    log = ";\n".join(q.sql for q in questions)
    found = audit(log, data, "x")
    sole = {f"p{i}" for i in range(n) if len(left[i]) == 1}
    listed = {f.who for f in found.findings}
    about = f"{held} {log} {found.text()}"
    if found.exit_code != 3:
        assert sole <= listed, about
    assert found.exit_code != 0 or not sole, about
    for f in found.exposed:
        assert left[f.row] == {type(pool[0])(f.value)}, about  # type: ignore[call-overload]
    assert not any(f.assumed for f in found.findings if f.status is Status.OPEN)
    if found.exit_code == 1 and found.findings:
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(data, tmp_path / "t.parquet")
        assert Outcome.FAILS not in verified(found.to_json(), tmp_path / "t.parquet"), about


# -- fresh seeds, and a liar -------------------------------------------------------------------------------------------


def check_against_all_tables(seed: int, *, judge: Callable[[str, pa.Table], Verdict]) -> bool:
    """Whether an all-clear of this judge leaves everybody two values in the tables of the assumed domain."""
    rng = random.Random(seed)
    pool = rng.choice(POOLS)
    n = rng.randint(2, 3 if _is_wide(pool) else 4)
    held = [rng.choice(pool) for _ in range(n)]
    domain = possible_values(held)
    if domain is None or len(domain) < 2:
        return True
    numbers = not isinstance(pool[0], str)
    questions = [_question(rng, n, pool, numbers=numbers) for _ in range(rng.randint(1, 3))]
    truth = [q.answer(held) for q in questions]
    tables = [
        x for x in product(domain, repeat=n) if all(q.answer(x) == a for q, a in zip(questions, truth, strict=True))
    ]
    verdict = judge(";\n".join(q.sql for q in questions), table(x=held))
    sole = {f"p{i}" for i in range(n) if len({x[i] for x in tables}) == 1}
    return verdict.exit_code == 3 or sole <= {f.who for f in verdict.findings}


@pytest.mark.soak
def test_fresh_seeds_find_no_wrong_all_clear() -> None:
    first = random.SystemRandom().randrange(10**9)
    wrong = [
        s for s in range(first, first + 300) if not check_against_all_tables(s, judge=lambda q, d: audit(q, d, "x"))
    ]
    assert not wrong


def test_a_judge_without_assumptions_is_caught() -> None:
    """The audit that takes every undeclared column for any number: what an all-clear was before."""

    def liar(log: str, data: pa.Table) -> Verdict:
        return audit(log, data, "x:real" if pa.types.is_integer(data["x"].type) else "x")

    assert any(not check_against_all_tables(seed, judge=liar) for seed in range(40))


@pytest.mark.parametrize("forged", [None, [], "hiv", ["team"], ["nothing"]])
def test_a_forged_list_of_assumed_columns_does_not_hold(forged: Any, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("name,team,hiv\nAnn,a,1\nBob,a,1\nCyd,b,0\n", encoding="utf-8")
    verdict = json.loads(
        keyhole.audit("SELECT SUM(hiv) FROM t WHERE team = 'a'", data=file, private="hiv", id="name").dumps()
    )
    for item in (*verdict["exposed"], *verdict["intervals"]):
        if item.get("assumed"):
            item["certificate"]["assumed"] = forged
    assert Outcome.HOLDS not in verified(verdict, file)


def test_a_finding_that_is_said_to_need_values_but_does_not_fails(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("name,team,hiv\nAnn,a,1\nBob,b,1\nCyd,b,0\n", encoding="utf-8")
    verdict = json.loads(
        keyhole.audit("SELECT SUM(hiv) FROM t WHERE team = 'a'", data=file, private="hiv", id="name").dumps()
    )
    assert set(verified(verdict, file)) == {Outcome.HOLDS}
    for item in (*verdict["exposed"], *verdict["intervals"]):
        item["assumed"] = True
    assert Outcome.FAILS in verified(verdict, file)


def test_advice_does_not_call_a_log_clean_that_needs_the_assumption() -> None:
    from keyhole.auditing.advice.advise import LogAdvice

    data = table(team=["a", "a", "b", "b", "b"], pay=[900.5, 900.5, 1.5, 30, 77])
    found = audit("SELECT SUM(pay) FROM t WHERE team = 'a'", data, "pay")
    assert LogAdvice(found.exposure).proofs(frozenset()) != []
    assert LogAdvice(found.exposure).proofs(frozenset({"1"})) == []


def test_a_total_that_a_limit_may_have_cut_off_is_found_as_if_shown() -> None:
    data = table(team=["a", "a", "b", "b", "c", "c"], pay=[900.5, 900.5, 1.5, 30, 77, 12])
    found = audit("SELECT team, SUM(pay) FROM t GROUP BY team LIMIT 2", data, "pay")
    assert not found.exposed
    assert {(f.who, f.if_shown, f.assumed) for f in found.findings} == {("p0", True, True), ("p1", True, True)}
    assert found.exit_code == 1
