"""Medians, quantiles and squares: who is in one atom with somebody of another value is shown to be open."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

import keyhole
from keyhole.report.verdict import Verdict


def judged(folder: Path, pay: list[float], log: list[str], **options: Any) -> Verdict:
    file = folder / "t.csv"
    file.write_text("id,g,pay\n" + "".join(f"{i},{'ab'[i % 2]},{x}\n" for i, x in enumerate(pay)), encoding="utf-8")
    return keyhole.audit([{"sql": sql} for sql in log], data=file, id="id", private="pay", **options)


@pytest.mark.parametrize(
    "asked",
    ["MEDIAN(pay)", "QUANTILE_CONT(pay, 0.25)", "SUM(pay), MEDIAN(pay)", "SUM(pay), SUM(pay * pay)"],
)
def test_different_values_in_an_atom_may_be_exchanged(tmp_path: Path, asked: str) -> None:
    log = [f"SELECT g, {asked} FROM t GROUP BY g"]
    found = judged(tmp_path, [3, 4, 8, 5, 9, 7, 4, 4], log)
    assert (found.exit_code, found.complete) == (0, True)


def test_somebody_alone_or_near_is_open_by_all_tables(tmp_path: Path) -> None:
    log = ["SELECT MEDIAN(pay) FROM t", "SELECT MEDIAN(pay) FROM t WHERE id < 4"]
    assert judged(tmp_path, [1, 2, 5, 9, 6, 7], log).exit_code == 0
    alone = judged(tmp_path, [1, 2, 5, 9, 6, 7], [*log, "SELECT MEDIAN(pay) FROM t WHERE id <> 5"])
    assert alone.complete  # 5 is in an atom of his own, and open by tables in which others change too
    assert judged(tmp_path, [1, 2, 5, 9, 6, 7], log, within="3").complete  # nothing bounds anybody alone


def test_answers_that_are_not_those_of_the_data_exchange_nobody(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("id,pay\n1,3\n2,4\n3,9\n", encoding="utf-8")
    told = [{"sql": "SELECT SUM(pay) FROM t", "answer": 16}, {"sql": "SELECT MEDIAN(pay) FROM t", "answer": 4}]
    assert keyhole.audit(told, data=file, id="id", private="pay").complete
    told[1]["answer"] = 5
    assert not keyhole.audit(told, data=file, id="id", private="pay").complete


def test_what_makes_people_different_is_left_to_all_tables(tmp_path: Path) -> None:
    log, pay = ["SELECT g, MEDIAN(pay) FROM t GROUP BY g"], [3, 4, 8, 5, 9, 7, 4, 4]
    known = tmp_path / "keyhole.toml"
    known.write_text('[columns.private.pay]\n[[facts]]\nwhere = "id = 1"\nmin = 3\n', encoding="utf-8")
    assert judged(tmp_path, pay, log).complete
    assert judged(tmp_path, pay, log, config=known).complete  # by all tables, facts and comparisons included
    assert judged(tmp_path, pay, [*log, "SELECT MEDIAN(pay) > 3 FROM t"]).complete


def test_sums_of_doubles_depend_on_the_order_of_the_records() -> None:
    log = ["SELECT g, MEDIAN(pay) FROM t GROUP BY g", "SELECT SUM(pay) FROM t"]
    for one, in_any_order in ((3.5, True), (3.1, False)):
        people = pa.table({"id": range(8), "g": [*"abababab"], "pay": [one, 4, 8, 5, 9, 7, 4, 4]})
        found = keyhole.audit(log, data=people, id="id", private="pay")
        assert found.complete is in_any_order
        assert in_any_order or "last digits" in found.promise


def test_complete_verdicts_leave_two_values_in_whole_tables(tmp_path: Path) -> None:
    rng, complete = random.Random(3), 0
    for _ in range(12):
        n = rng.randint(2, 5)
        pay = [rng.randint(0, 3) for _ in range(n)]
        groups = [range(n), range(0, n, 2), range(min(3, n))]
        names = ["TRUE", "g = 'a'", "id < 3"]
        asked = [k for k in range(3) if rng.random() < 0.7] or [0]
        verdict = judged(tmp_path, list(pay), [f"SELECT MEDIAN(pay) FROM t WHERE {names[k]}" for k in asked])
        if not verdict.complete:
            continue
        complete += 1
        true = [median(pay[i] for i in groups[k]) for k in asked]
        tables = [
            x for x in product(range(-1, 5), repeat=n) if [median(x[i] for i in groups[k]) for k in asked] == true
        ]
        listed = {f.row for f in verdict.findings}
        for i in set(range(n)) - listed:
            assert len({x[i] for x in tables}) > 1, (pay, asked, i)
    assert complete > 3


@pytest.mark.parametrize("where", ["g = 'nobody'", "id IN (0, 1)"])
def test_statistics_of_nobody_with_a_value(where: str) -> None:
    people = pa.table({"id": range(4), "g": [*"abab"], "pay": [None, None, 1, 2]})
    log = [f"SELECT SUM(pay * pay) FROM t WHERE {where}", f"SELECT MEDIAN(pay) FROM t WHERE {where}"]
    found = keyhole.audit(log, data=people, id="id", private="pay")
    assert (found.exit_code, len(found.findings)) == (0, 0)
