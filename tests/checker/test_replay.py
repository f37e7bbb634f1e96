"""The checker accepts every proof of every rule on random worlds, and rejects each planted false one."""

from __future__ import annotations

import json
import random
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from checker_world import Data, alone, judged, load, tampered, worlds

import keyhole
from keyhole.checker import Outcome, Replay, replay
from keyhole.report.documents.json_text import dumps

FAST = 16  # bits: chances are larger in short tests, so that they are short
KINDS = {"identity", "counts", "equal", "square"}


def outcomes(found: Replay) -> list[str]:
    return [f"{c.claim.who} {c.claim.column}: {c.outcome} {c.why}" for c in found.checked]


def accepts_true_and_rejects_false(
    seeds: range, folder: Path, bits: int, share: float
) -> tuple[Counter[str], Counter[str]]:
    kinds: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    for seed, data, log, verdict in worlds(seeds, folder):
        found = replay(dumps(verdict), data, bits=bits)
        for each in found.checked:
            kind = each.claim.certificate["kind"]  # none: it holds by every table, or is not replayed
            assert each.outcome in (Outcome.HOLDS, Outcome.CANNOT), (seed, log, outcomes(found))
            many = each.claim.status == "open" and "tables" in each.why  # an outer range over all tables: too many
            kinds[kind if each.outcome is Outcome.HOLDS else "cannot"] += kind != "none" and not many
        replayed = all(c.outcome is Outcome.HOLDS for c in found.checked)
        rng = random.Random(seed)
        for name, text in tampered(rng, verdict):
            if rng.random() < share:
                done = replay(text, data, bits=bits)
                said = {c.outcome for c in done.checked}
                # a proof of one kind may lack what another kind needs, and then it cannot be tried
                tried = replayed and name != "no_certificate"
                rejected = said == {Outcome.FAILS} if tried else said <= {Outcome.FAILS, Outcome.CANNOT}
                assert len(done.checked) == 1, (seed, name, log)
                assert rejected, (seed, name, log, outcomes(done))
                planted[name] += 1
    return kinds, planted


def test_true_proofs_are_accepted_and_planted_false_ones_rejected(tmp_path: Path) -> None:
    kinds, planted = accepts_true_and_rejects_false(range(4), tmp_path, FAST, 0.1)
    assert sum(kinds.values()) > 10
    assert sum(planted.values()) > 5
    assert kinds["cannot"] == 0


@pytest.mark.soak
def test_many_worlds(tmp_path: Path) -> None:
    start = secrets.randbelow(10**9)
    print(f"seeds from {start}")  # noqa: T201 - so that a failure can be repeated
    kinds, planted = accepts_true_and_rejects_false(range(start, start + 60), tmp_path, 50, 1.0)
    print(kinds, planted)  # noqa: T201
    assert set(kinds) >= KINDS
    assert kinds["cannot"] <= sum(kinds.values()) / 50  # made-up values that answer alike are not always found


# --- every rule by name -----------------------------------------------------------------------------------------------

PEOPLE = "name,g,zip,x\na,p,1,3\nb,p,2,3\nc,p,3,3\nd,q,4,4\ne,q,5,8\nf,r,6,0\nh,r,7,0\n"


@pytest.mark.parametrize(
    ("log", "private", "kind"),
    [
        (["SELECT SUM(x) FROM t", "SELECT AVG(x) FROM t WHERE name <> 'e'"], "x", "identity"),
        (["SELECT g, SUM(x) FROM t GROUP BY ROLLUP (g)", "SELECT SUM(x) FROM t WHERE zip = 4"], "x", "identity"),
        (
            ["SELECT SUM(x) FROM t WHERE x > 3 AND zip >= 4", "SELECT SUM(x) FROM t WHERE x > 3 AND zip > 4"],
            "x",
            "part",
        ),
        (["SELECT SUM(x * x) FROM t WHERE zip >= 4", "SELECT SUM(x * x) FROM t WHERE zip >= 5"], "x:0..10", "square"),
        (["SELECT AVG(x), VAR_POP(x) FROM t WHERE g = 'p'"], "x", "equal"),
        (["SELECT SUM(x), STDDEV_SAMP(x) FROM t WHERE g = 'p'"], "x", "equal"),
        (["SELECT SUM(x), SUM(x * x) FROM t WHERE g = 'p'"], "x", "equal"),
        (["SELECT SUM(x * x) FROM t WHERE g = 'r'"], "x", "zero"),
        (["SELECT SUM(x), SUM(x * x) FROM t WHERE g = 'q'"], "x", "roots"),
        (["SELECT COUNT(*) FROM t WHERE x > 2 AND g = 'p'"], "x", "counts"),
        (["SELECT COUNT(*) FROM t WHERE x = 3 AND g = 'p'"], "x", "counts"),
        (["SELECT SUM(x) FROM t WHERE x > 100"], "x", "counts"),
        (["SELECT COUNT(*) FROM t WHERE x > 3", "SELECT COUNT(*) FROM t WHERE x > 3 AND zip <> 5"], "x", "counts"),
        (
            ["SELECT COUNT(*) FROM t WHERE x > 3 AND zip IN (4, 5)", "SELECT COUNT(*) FROM t WHERE x > 3 AND zip > 3"],
            "x",
            "counts",
        ),
    ],
)
def test_each_rule_carries_its_certificate(log: list[str], private: str, kind: str, tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text(PEOPLE, encoding="utf-8")
    verdict = judged(log, data, private=[private])
    found = replay(dumps(verdict), data)
    assert kind in {c.claim.certificate["kind"] for c in found.checked}
    assert {c.outcome for c in found.checked} == {Outcome.HOLDS}, outcomes(found)


def test_a_fact_is_replayed_by_its_condition(tmp_path: Path) -> None:
    data, settings = tmp_path / "t.csv", tmp_path / "keyhole.toml"
    data.write_text(PEOPLE, encoding="utf-8")
    settings.write_text(
        "[columns]\nid = ['name']\n[columns.private.x]\n[[facts]]\nwhere = \"name = 'd'\"\nequals = 4\n"
    )
    verdict = keyhole.audit(["SELECT SUM(x) FROM t WHERE g = 'q'"], data=data, config=settings)
    found = replay(verdict.dumps(), data)
    assert [c.claim.who for c in found.checked if c.outcome is Outcome.HOLDS] == ["e"], outcomes(found)


# --- claims that were once made, and were false -----------------------------------------------------------------------


def claimed(data: Path, text: str, record: str, proof: list[Data], certificate: Data, **said: Any) -> Replay:
    """A verdict made by hand, with one claim of x of one person; `said` has status, value, lo, hi."""
    data.write_text(text, encoding="utf-8")
    names = [line.split(",")[0] for line in text.splitlines()[1:]]
    entry: Data = {"record": {"name": record}, "column": "x", "proof": proof, "certificate": certificate, **said}
    exposed, intervals = [], []
    if said["status"] == "exposed":
        exposed.append(entry | {"row": names.index(record) + 1})
    else:
        intervals.append({"prior": [None, None], "lo": None, "hi": None} | entry)
    head = text.splitlines()[0].split(",")
    source = {"table": "t", "id": ["name"], "private": [c for c in head if c in "xy"], "dialect": "duckdb"}
    whole = {"records": len(names), "source": source, "exposed": exposed, "groups": [], "intervals": intervals}
    return replay(json.dumps(whole), data)


def by(sql: str, answer: Any, weight: str = "1", query: str = "1", **more: Any) -> Data:
    return {"query": query, "sql": sql, "weight": weight, "answer": answer, "column": 1, **more}


def rejected(found: Replay) -> bool:
    return found.exit_code == 1 and [c.outcome for c in found.checked] == [Outcome.FAILS]


def test_squares_under_a_private_condition_do_not_make_zero(tmp_path: Path) -> None:
    sql = "SELECT SUM(x*x) FROM t WHERE x < 2 AND g = 'a'"
    zero = {"kind": "zero", "where": "g = 'a'", "squares": "1", "factor": "1", "plain": "0"}
    people = "name,g,x\nA,a,7\nB,a,0\nC,b,3\n"
    for who in "AB":
        assert rejected(claimed(tmp_path / "t.csv", people, who, [by(sql, 0)], zero, status="exposed", value=0))


@pytest.mark.parametrize(
    "sql", ["SELECT SUM(CASE WHEN x <> 5 THEN x ELSE 0 END) FROM t", "SELECT COALESCE(SUM(x), 0) FROM t WHERE x <> 5"]
)
def test_a_sum_of_zero_is_no_count_of_zero(sql: str, tmp_path: Path) -> None:
    counts = {"kind": "counts", "rows": [{"1": "1"}]}
    for people in ("name,x\nA,5\nB,5\nC,0\n", "name,x\nA,5\nB,5\nC,3\n"):
        told = claimed(tmp_path / "t.csv", people, "A", [by(sql, 0)], counts, status="exposed", value=5)
        assert rejected(told), outcomes(told)


def test_dust_of_an_average_is_no_equation(tmp_path: Path) -> None:
    people = "name,x\nA,2.0\nB,6.1\nC,6.3\n"
    average = "SELECT AVG(x) FROM t WHERE x >= 5"
    form = "numerator - 6.2 × denominator"
    proof = [by(average, 6.2, "1", form=form), by(average, 6.199999999999999, "-1", "2", form=form)]
    proof.append(by("SELECT COUNT(*) FROM t", 3, "1", "3"))
    for kind in ("counts", "identity", "none"):
        rows = {"kind": kind, "rows": [{"1": "1", "2": "-1"}, {"3": "1"}]}
        told = claimed(tmp_path / "t.csv", people, "A", proof, rows, status="inferred", lo=5, hi=None)
        assert not told.of(Outcome.HOLDS)
        assert told.exit_code in (1, 3)
    true_of_data = [by(average, 6.2)]
    told = claimed(tmp_path / "t.csv", people, "A", true_of_data, {"kind": "none"}, status="inferred", lo=5, hi=None)
    assert rejected(told), "where the answers are those of the data, a claim must be true of them"


@pytest.mark.parametrize("answer", [None, -10])
def test_an_answer_that_is_null_exposes_nobody(answer: int | None, tmp_path: Path) -> None:
    people = "name,g,x,y\nA,a,10,\nB,b,20,5\n"
    sql = "SELECT (SUM(y) - SUM(x)) / COUNT(*) FROM t WHERE g = 'a'"
    told = claimed(
        tmp_path / "t.csv", people, "A", [by(sql, answer, "-1")], {"kind": "identity"}, status="exposed", value=10
    )
    assert rejected(told), outcomes(told)


# --- never right unchecked --------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Data]:
    data = tmp_path / "t.csv"
    data.write_text(PEOPLE, encoding="utf-8")
    return data, judged(["SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE name <> 'e'"], data, private=["x"])


def test_what_cannot_be_replayed_is_not_right(pair: tuple[Path, Data], tmp_path: Path) -> None:
    data, verdict = pair
    assert replay(dumps(verdict), data).exit_code == 0
    for change in ("dialect", "sql", "answers", "certificate", "records"):
        changed, claim = alone(verdict, 0)
        if change == "dialect":
            changed["source"]["dialect"] = "snowflake"
        elif change == "certificate":
            claim["certificate"] = {"kind": "of a later version"}
        elif change == "records":
            changed["records"] = 8
        for item in claim["proof"]:
            if change in ("sql", "answers"):
                del item["sql" if change == "sql" else "answer"]
        found = replay(dumps(changed), data)
        assert (found.exit_code, len(found.of(Outcome.CANNOT))) == (3, 1), change


def test_the_log_gives_what_the_verdict_lacks(pair: tuple[Path, Data], tmp_path: Path) -> None:
    data, verdict = pair
    for claim in verdict["exposed"] + verdict["intervals"]:
        for item in claim["proof"]:
            del item["sql"]
    (tmp_path / "log.sql").write_text(
        "SET work_mem = 1;\nSELECT SUM(x) FROM t; -- all\nSELECT SUM(x) FROM t WHERE name <> 'e';\n"
    )
    (tmp_path / "log.jsonl").write_text(
        '{"sql": "SELECT SUM(x) FROM t", "answer": 21}\n\n{"sql": "SELECT SUM(x) FROM t WHERE name <> \'e\'"}\n'
    )
    for name in ("log.sql", "log.jsonl"):
        assert replay(dumps(verdict), data, log=tmp_path / name).exit_code == 0
    (tmp_path / "log.jsonl").write_text(
        '{"sql": "SELECT SUM(x) FROM t"}\n{"sql": "SELECT SUM(x) FROM t WHERE zip = 1"}\n'
    )
    assert replay(dumps(verdict), data, log=tmp_path / "log.jsonl").exit_code == 1


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '/tmp/keyhole_was_here.csv'",
        "DROP TABLE keyhole_people",
        "SELECT SUM(x) FROM keyhole_people",
        "SELECT SUM(x) FROM read_csv('/etc/passwd')",
        "SELECT 1; SELECT SUM(x) FROM t",
    ],
)
def test_a_verdict_cannot_make_the_checker_do_anything_else(sql: str, pair: tuple[Path, Data]) -> None:
    data, verdict = pair
    changed, claim = alone(verdict, 0)
    claim["proof"][0]["sql"] = sql
    found = replay(dumps(changed), data)
    assert not found.of(Outcome.HOLDS)
    assert not Path("/tmp/keyhole_was_here.csv").exists()


def test_it_runs_without_the_rest_of_keyhole(pair: tuple[Path, Data], tmp_path: Path) -> None:
    data, verdict = pair
    shutil.copytree(Path(keyhole.__file__).parent / "checker", tmp_path / "alone" / "checker")
    (tmp_path / "v.json").write_text(dumps(verdict), encoding="utf-8")
    code = "import sys, runpy; sys.modules['keyhole'] = None; runpy.run_module('checker', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "v.json"), "--data", str(data)],
        cwd=tmp_path / "alone",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "1 of 1 proof replayed: 1 holds, 0 fails."


# --- many exposures ---------------------------------------------------------------------------------------------------


def many(folder: Path, people: int) -> tuple[Path, Data]:
    """A log that exposes everybody: totals of the first k, in mixed forms."""
    rng = random.Random(people)
    data = folder / "staff.csv"
    rows = [f"p{i},{i},{rng.choice('abc')},{rng.randrange(20_000, 90_000)}" for i in range(people)]
    data.write_text("\n".join(["name,no,team,pay", *rows, ""]), encoding="utf-8")
    forms = ("SELECT SUM(pay) FROM staff WHERE no <= {}", "SELECT AVG(pay) FROM staff WHERE no <= {}")
    log = [forms[k % 2].format(k) for k in range(people)]
    verdict = keyhole.audit(log, data=data, private="pay", id="name")
    assert len(verdict.exposed) == people
    return data, load(verdict.dumps())


def replays_all_and_rejects_mutated(folder: Path, people: int, mutated: int) -> str:
    data, verdict = many(folder, people)
    start = time.perf_counter()
    found = replay(dumps(verdict), data)
    took = time.perf_counter() - start
    assert (found.exit_code, len(found.of(Outcome.HOLDS))) == (0, people), outcomes(found)[:3]
    rng = random.Random(1)
    false: Data = {**verdict, "exposed": [], "intervals": []}
    for number, k in enumerate(rng.sample(range(people), mutated)):
        _, claim = alone(verdict, k)
        if number % 4 == 0:
            item = rng.choice(claim["proof"])
            item["weight"] = str(int(item["weight"]) + 1)
        elif number % 4 == 1:
            claim["record"], claim["row"] = {"name": f"p{(k + 1) % people}"}, (k + 1) % people + 1
        elif number % 4 == 2:
            claim["value"] += 1
        else:
            claim["proof"].append(by("SELECT SUM(pay) FROM staff WHERE no = 0", 5, query="9999"))
            claim["value"] += 5
        false["exposed"].append(claim)
    wrong = replay(dumps(false), data)
    assert len(wrong.of(Outcome.FAILS)) == mutated, outcomes(wrong)[:3]
    assert wrong.exit_code == 1
    return f"{people} proofs replayed in {took:.1f} s, {mutated} mutated ones rejected"


def test_fifty_exposures_are_replayed_and_twelve_mutated_ones_rejected(tmp_path: Path) -> None:
    replays_all_and_rejects_mutated(tmp_path, 50, 12)


@pytest.mark.soak
def test_a_thousand_exposures_are_replayed_and_a_hundred_mutated_ones_rejected(tmp_path: Path) -> None:
    print(replays_all_and_rejects_mutated(tmp_path, 1000, 100))  # noqa: T201 - the measured time


def test_a_total_less_a_value_known_in_its_cell_is_not_called_false(tmp_path: Path) -> None:
    """Q1 - Q2 is the total of the others only since Q2 is not 0: that could not be replayed, and was called a lie."""
    data = tmp_path / "t.csv"
    data.write_text("name,g,x,d\na,p,7,cold\nb,p,5,cold\nc,q,2,cold\n", encoding="utf-8")
    log = ["SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE g <> 'p' AND x < 100"]
    verdict = judged(log, data, private=["x", "d"])
    assert [g["total"] for g in verdict["groups"]] == [12]
    assert {c.outcome for c in replay(dumps(verdict), data).checked} == {Outcome.HOLDS, Outcome.CANNOT}
