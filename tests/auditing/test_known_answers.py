"""Answers that are known beforehand."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keyhole
from keyhole.auditing import Status
from keyhole.errors import ConfigError, DataError
from keyhole.report.verdict import Verdict

HOSPITAL = {
    "Name": ["John Smith", "Jeremy Doe", "Susan Atkinson", "Eve Brown", "Joseph Sky", "Alison Moon"],
    "ZIP": [32453, 43813, 43765, 32187, 33745, 22983],
    "Gender": ["Male", "Male", "Female", "Female", "Male", "Female"],
    "Blood sugar": [4.3, 5.2, 6.1, 3.2, 7.1, 6.2],
}
LOG = [
    'SELECT SUM("Blood sugar") FROM people',
    "SELECT SUM(\"Blood sugar\") FROM people WHERE Gender = 'Female'",
    "SELECT SUM(\"Blood sugar\") FROM people WHERE ZIP > 32000 AND ZIP < 35000 AND Gender = 'Male'",
]


def hospital(log: object, **more: object) -> Verdict:
    return keyhole.audit(log, data=pa.table(HOSPITAL), private=["Blood sugar"], id="Name", **more)  # type: ignore[arg-type]


def test_hospital_exposes_exactly_jeremy_doe() -> None:
    verdict = hospital(LOG)
    assert [(f.who, f.value, f.status) for f in verdict] == [("Jeremy Doe", Decimal("5.2"), Status.EXPOSED)]
    assert (verdict.rank, verdict.atoms, verdict.records, verdict.queries) == (3, 3, 6, 3)
    proof = verdict.to_json()["exposed"][0]["proof"]
    assert [(p["query"], p["weight"]) for p in proof] == [("1", "1"), ("2", "-1"), ("3", "-1")]
    answers = [e.answer.value for e in verdict.evidence.transcript.entries if e.answer is not None]
    assert answers == [Decimal("32.1"), Decimal("15.5"), Decimal("11.4")]
    assert verdict.exit_code == 1


def test_answers_of_a_transcript_give_the_same_without_the_secret() -> None:
    roster = pa.table({k: v for k, v in HOSPITAL.items() if k != "Blood sugar"})
    pairs = list(zip(LOG, [32.1, 15.5, 11.4], strict=True))
    verdict = keyhole.audit(pairs, data=roster, private=["Blood sugar"], id="Name")
    assert [(f.who, f.value) for f in verdict] == [("Jeremy Doe", Decimal("5.2"))]


def test_answers_with_floating_point_dust_still_print_5_2() -> None:
    pairs = list(zip(LOG, [32.099999999999994, 15.5, 11.399999999999999], strict=True))
    assert [f.value for f in hospital(pairs)] == [Decimal("5.2")]


@pytest.mark.parametrize("convert", [pa.table, pd.DataFrame, pl.DataFrame], ids=["arrow", "pandas", "polars"])
def test_frames(convert: object) -> None:
    verdict = keyhole.audit(LOG, data=convert(HOSPITAL), private=["Blood sugar"], id="Name")  # type: ignore[operator]
    assert [f.who for f in verdict] == ["Jeremy Doe"]


def test_files(tmp_path: Path) -> None:
    import duckdb

    frame = pd.DataFrame(HOSPITAL)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as con:
        con.execute("CREATE TABLE wards AS SELECT * FROM frame")
    for name in ("a.csv", "a.parquet", "a.duckdb"):
        verdict = keyhole.audit(LOG, data=tmp_path / name, private=["Blood sugar"], id="Name")
        assert [(f.who, f.value) for f in verdict] == [("Jeremy Doe", Decimal("5.2"))], name


def test_private_cells() -> None:
    people = pa.table({"name": ["one", "two"], "x": [7, 4]})
    log = [
        "SELECT SUM(x) FROM t WHERE x > 5",
        "SELECT SUM(x) FROM t WHERE x <= 5",
        "SELECT SUM(x) FROM t WHERE name = 'two'",
    ]
    verdict = keyhole.audit(log, data=people, private=["x"], id="name")
    assert {f.who: f.value for f in verdict.exposed} == {"one": 7, "two": 4}


@pytest.mark.parametrize(("diagnosis", "status"), [("flu", Status.EXPOSED), ("cold", Status.INFERRED)])
def test_extreme_counts(diagnosis: str, status: Status) -> None:
    people = pa.table(
        {"name": list("abcdefg"), "ward": [1] * 5 + [2] * 2, "diagnosis": [diagnosis] * 5 + ["flu", "cold"]}
    )
    log = ["SELECT COUNT(*) FROM t WHERE diagnosis = 'flu' AND ward = 1"]
    verdict = keyhole.audit(log, data=people, private=["diagnosis"], id="name")
    sure = [f for f in verdict if not f.assumed]
    assert [f.who for f in sure] == list("abcde")
    assert {f.status for f in sure} == {status}
    assert verdict.exit_code == 1
    if status is Status.EXPOSED:
        assert {f.value for f in sure} == {"flu"}
    else:
        assert {f.excluded for f in sure} == {("flu",)}
        assert {f.value for f in verdict if f.assumed} == {"cold"}  # the only other value of the data


def test_group_by_a_private_column_says_who_is_absent() -> None:
    people = pa.table({"name": list("abcd"), "sex": ["F", "F", "M", "M"], "diagnosis": ["flu", "flu", "cold", "flu"]})
    log = ["SELECT sex, diagnosis, COUNT(*) FROM t GROUP BY sex, diagnosis"]
    verdict = keyhole.audit(log, data=people, private=["diagnosis"], id="name")
    assert {f.who: f.value for f in verdict.exposed} == {"a": "flu", "b": "flu"}


@pytest.mark.parametrize("k", [2, 3, 4])
def test_bounded_overlap_attack_of_dobkin_jones_and_lipton(k: int) -> None:
    """2k - 1 queries of size k, any two sharing one person at most: z is exposed."""
    names = ["z"] + [f"g{i}{j}" for i in range(k) for j in range(k - 1)]
    rows = [["z"] + [f"g{i}{j}" for j in range(k - 1)] for i in range(k)]
    columns = [[f"g{i}{j}" for i in range(k)] for j in range(k - 1)]
    log = [f"SELECT SUM(x) FROM t WHERE name IN ({', '.join(repr(n) for n in q)})" for q in rows + columns]
    people = pa.table({"name": names, "x": list(range(10, 10 + len(names)))})
    verdict = keyhole.audit(log, data=people, private=["x"], id="name")
    assert (len(log), len(names)) == (2 * k - 1, k * (k - 1) + 1)
    exposed = {f.who: f.value for f in verdict.exposed}
    assert exposed["z"] == 10
    assert set(exposed) == (set(names) if k == 2 else {"z"})


def test_average_weight_and_count_of_nulls() -> None:
    people = pa.table({"name": list("abc"), "w": [1, 2, 4], "x": [5, None, 9]})
    log = ["SELECT AVG(x) FROM t", "SELECT SUM(x * w) FROM t"]
    verdict = keyhole.audit(log, data=people, private=["x"], id="name")
    assert {f.who: f.value for f in verdict.exposed} == {"a": 5, "c": 9}


def test_groups_of_two() -> None:
    verdict = hospital(LOG, group_size=2)
    assert [(sorted(str(r["Name"]) for r in g.records), g.total) for g in verdict.groups] == [
        (["John Smith", "Joseph Sky"], Decimal("11.4"))
    ]
    assert verdict.groups[0].proof.verify(verdict.evidence)


def test_order_statistics_and_rounding_are_judged() -> None:
    log = [
        'SELECT MAX("Blood sugar") FROM people',
        'SELECT MEDIAN("Blood sugar") FROM people',
        'SELECT ROUND(AVG("Blood sugar"), 1) FROM people',
        'SELECT SUM("Blood sugar") > 30 FROM people',
    ]
    verdict = hospital(log)
    assert not verdict.unjudged
    assert verdict.exit_code == 3
    kinds = {fact.query.aggregate.value for system in verdict.evidence.systems for fact in system.order}
    assert kinds == {"MAX", "MEDIAN"}


def test_contradictory_answers_are_named() -> None:
    log = [(LOG[0], 32.1), (LOG[0], 33.0)]
    roster = pa.table({k: v for k, v in HOSPITAL.items() if k != "Blood sugar"})
    verdict = keyhole.audit(log, data=roster, private=["Blood sugar"], id="Name")
    assert [c.queries for c in verdict.contradictions] == [("1", "2")]
    assert verdict.exit_code == 3


def test_an_answer_that_differs_from_the_data_is_named() -> None:
    verdict = hospital([(LOG[0], 31.0)])
    assert verdict.contradictions[0].queries == ("1",)
    assert "32.1" in verdict.contradictions[0].reason


def test_one_bad_statement_among_many() -> None:
    log = [*LOG, "SELEC nonsense", *LOG]
    verdict = hospital(log)
    assert [r.number for r in verdict.refused] == ["4"]
    assert [f.who for f in verdict] == ["Jeremy Doe"]
    assert hospital(["SELEC nonsense", LOG[0]]).exit_code == 3


def test_names_in_any_script_and_quotes_in_strings() -> None:
    people = pa.table({"имя": ["Ольга", "李雷", "O'Neil; DROP"], "pay": [1, 2, 4]})
    log = (
        "SELECT SUM(pay) FROM t; -- a comment; with a semicolon\n"
        "SELECT SUM(pay) FROM t WHERE \"имя\" <> 'O''Neil; DROP'"
    )
    verdict = keyhole.audit(log, data=people, private=["pay"], id="имя")
    assert [(f.who, f.value) for f in verdict] == [("O'Neil; DROP", Decimal(4))]


def test_empty_log_exposes_nobody() -> None:
    verdict = hospital([])
    assert (len(verdict), verdict.exit_code) == (0, 3)


def test_bad_data_is_found_at_load() -> None:
    def check(data: dict[str, list[object]], error: type[Exception], words: str, **more: object) -> None:
        with pytest.raises(error, match=words):
            keyhole.audit("SELECT SUM(x) FROM t", data=pa.table(data), private=["x"], **more)  # type: ignore[arg-type]

    check({"x": [1.0, float("nan")]}, DataError, "NaN or infinity .first in row 2")
    check({"x": []}, DataError, "no rows")
    check({"n": ["a", None], "x": [1, 2]}, DataError, "has no 'n'", id="n")
    check({"y": [1]}, ConfigError, "no column 'x' to be private; it has y")
    check({"salary": [1], "x": [1]}, ConfigError, "did you mean 'salary'", id="salery")
    with pytest.raises(DataError, match="outside what was declared"):
        keyhole.audit("SELECT SUM(x) FROM t", data=pa.table({"x": [99]}), private=["x:0..10"])
    with pytest.raises(ConfigError, match="no column is private"):
        keyhole.audit("SELECT SUM(x) FROM t", data=pa.table({"x": [99]}))


def test_refusals_say_what_to_write() -> None:
    def error(sql: str) -> str:
        return hospital([sql]).refused[0].error

    assert "single quotes" in error('SELECT SUM("Blood sugar") FROM t WHERE Gender = "Male"')
    assert "Blood sugar" in error('SELECT SUM("Blod sugar") FROM t')
    assert "^" in error("SELECT SUM(Gender) FROM t")
    text = pa.table({"name": ["a"], "diagnosis": ["flu"]})
    refused = keyhole.audit(["SELECT SUM(diagnosis) FROM t"], data=text, private=["diagnosis"], id="name").refused
    assert "number" in refused[0].error or "text" in refused[0].error


def test_views_give_one_row_a_person() -> None:
    """Without one, rows of one name are records of one person."""
    visits = pa.table({"name": ["a", "a", "b"], "ward": [1, 1, 2], "cost": [3, 4, 5]})
    several = keyhole.audit("SELECT SUM(cost) FROM t WHERE ward = 2", data=visits, private=["cost"], id="name")
    assert [(f.who, f.value) for f in several] == [("b", Decimal(5))]
    both = keyhole.audit("SELECT SUM(cost) FROM t WHERE ward = 1", data=visits, private=["cost"], id="name")
    assert [(f.who, f.form, f.value) for f in both] == [("a", "total cost of 2 records", Decimal(7))]
    verdict = keyhole.audit(
        "SELECT SUM(cost) FROM t WHERE ward = 2", data=visits, private=["cost"], id="name",
        view="SELECT name, any_value(ward) AS ward, SUM(cost) AS cost FROM people GROUP BY name",
    )  # fmt: skip
    assert [(f.who, f.value) for f in verdict] == [("b", Decimal(5))]


def test_frame_and_notebook() -> None:
    verdict = hospital(LOG)
    frame = verdict.to_frame()
    assert frame.loc[0, "Name"] == "Jeremy Doe"
    assert frame.loc[0, "proof"] == "Q1 - Q2 - Q3 = Jeremy Doe's Blood sugar = 5.2"
    assert "Jeremy Doe" in verdict._repr_html_()


def test_transcript_faults() -> None:
    roster = pa.table({k: v for k, v in HOSPITAL.items() if k != "Blood sugar"})
    for answer, words in (([1, 2], "group"), ("many", "number"), ({"lo": 3, "hi": 1}, "above")):
        verdict = keyhole.audit([(LOG[0], answer)], data=roster, private=["Blood sugar"], id="Name")
        assert words in verdict.refused[0].error
        assert verdict.exit_code == 3


@pytest.mark.parametrize("said", ["sum_min = 4.3\nsum_max = 4.3", "equals = 4.3"])
def test_facts_are_used_and_named(said: str) -> None:
    from keyhole.config import Config

    config = Config.parse(
        f'[columns]\nid = ["Name"]\n[columns.private."Blood sugar"]\n[[facts]]\nwhere = "Name = \'John Smith\'"\n{said}'
    )
    verdict = keyhole.audit(LOG, data=pa.table(HOSPITAL), config=config)
    found = {f.who: f for f in verdict}
    assert found["Joseph Sky"].value == Decimal("7.1")
    assert "John Smith" not in found  # what the fact says is not news
    proof = verdict.to_json()["exposed"]
    joseph = next(e for e in proof if e["record"]["Name"] == "Joseph Sky")
    fact = {"where": "Name = 'John Smith'", "column": "Blood sugar", "total": 4.3}
    assert {"fact": 1, "weight": "-1", **fact} in joseph["proof"]


def test_superincreasing_weights_give_everybody_away() -> None:
    """One weighted sum of small integers is read digit by digit; by rank, two sums of two people suffice."""
    n = 70
    people = pa.table({"name": [f"r{i}" for i in range(n)], "k": list(range(n)), "x": [i % 7 for i in range(n)]})
    log = ["SELECT SUM(x * POW(2, k)) FROM t WHERE k >= 68", "SELECT SUM(x) FROM t WHERE k >= 68"]
    verdict = keyhole.audit(log, data=people, private=["x"], id="name")
    assert {f.who: f.value for f in verdict.exposed} == {"r68": 68 % 7, "r69": 69 % 7}
    assert all(f.proof is not None and (f.proof.rule or f.proof.verify(verdict.evidence)) for f in verdict)
