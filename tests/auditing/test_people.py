"""People, records, several tables: known answers, settings that are wrong, verbs that do not look at rows of people."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from keyhole.auditing.base import Exposure
from keyhole.auditing.examine import examine
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets.open import Use, open_table
from keyhole.errors import ConfigError, DataError, KeyholeError
from keyhole.gather.transcribe import checked, lowered
from keyhole.model.people import Counting
from keyhole.model.predicate import And, Has
from keyhole.model.transcript import Line
from keyhole.reading import Validator
from keyhole.sql import lower_statement

TABLES = """
[tables.diag]
keys = ["pid", "hadm"]
private = "all"
[tables.states]
keys = ["code=st"]
public = "all"
"""
BASE = '[source]\ntable = "adm"\n[columns]\nid = ["pid"]\n[columns.private.cost]\n'
CIRCLE = """
[tables.diag]
keys = ["pid=states.code"]
public = "all"
[tables.states]
keys = ["code=diag.title"]
public = "all"
"""
JOIN = "FROM adm JOIN diag ON adm.hadm = diag.hadm"


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    path = tmp_path / "hospital.duckdb"
    con = duckdb.connect(str(path))
    con.execute(
        "CREATE TABLE adm AS FROM (VALUES (1, 10, 'CA', 3), (1, 11, 'NY', 4), (2, 12, 'CA', 5), (3, 13, NULL, 6)) "
        "AS t(pid, hadm, st, cost)"
    )
    con.execute("CREATE TABLE states AS FROM (VALUES ('CA', 'west'), ('NY', 'east')) AS t(code, region)")
    con.execute(
        "CREATE TABLE diag AS FROM (VALUES (1, 10, 'flu', 1), (1, 10, 'cold', 2), (2, 12, 'flu', 2), "
        "(9, 99, 'flu', 1), (NULL, NULL, 'flu', 1)) AS t(pid, hadm, title, sev)"
    )
    con.close()
    return path


def audited(log: list[str], path: Path, more: str = TABLES) -> Exposure:
    return examine(log, data=str(path), config=Config.parse(BASE + more))


def said(found: Exposure) -> list[tuple[object, str, str]]:
    return [(next(iter(f.record.values())), f.grade, f.form) for f in found.findings if f.grade]


def test_columns_of_a_dimension_are_columns_of_the_record(hospital: Path) -> None:
    found = audited(
        [
            "SELECT SUM(cost) FROM adm JOIN states s ON s.code = adm.st WHERE s.region = 'east'",
            "SELECT SUM(cost) FROM adm LEFT JOIN states ON code = st WHERE region IS NULL",
        ],
        hospital,
    )
    assert [(f.row, f.value) for f in found.findings] == [(1, Decimal(4)), (3, Decimal(6))]


def test_a_total_of_one_person_is_his(hospital: Path) -> None:
    found = audited(["SELECT SUM(cost) FROM adm", "SELECT SUM(cost) FROM adm WHERE pid <> 1"], hospital)
    (finding,) = found.findings
    assert (finding.form, finding.rows, finding.value) == ("total cost of 2 records", (0, 1), Decimal(7))
    assert finding.proof is not None
    assert finding.proof.verify(found.evidence)


def test_a_difference_of_one_persons_records_is_his(hospital: Path) -> None:
    weighted = "SELECT SUM(CASE WHEN st = 'CA' THEN cost ELSE -cost END) FROM adm WHERE pid = 1"
    (finding,) = audited([weighted], hospital).findings
    assert finding.form == "cost: record 1 - record 2"
    assert finding.value == Decimal(-1)


def test_records_that_are_not_told_apart_from_others_are_nobodys_alone(hospital: Path) -> None:
    log = ["SELECT SUM(cost) FROM adm WHERE st = 'CA'", "SELECT SUM(cost) FROM adm"]
    assert audited(log, hospital, f'domain = "real"\n{TABLES}').exit_code == 0


def test_one_count_that_is_full_shows_everybody(hospital: Path) -> None:
    found = audited([f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu' AND st = 'CA'"], hospital)
    assert said(found) == [
        (1, "shown to have", "has a row in diag with \"title\" = 'flu' (record 1)"),
        (2, "shown to have", "has a row in diag with \"title\" = 'flu'"),
    ]


def test_one_of_his_is_neither(hospital: Path) -> None:
    found = audited([f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu' AND adm.pid = 1"], hospital)
    assert [grade for _, grade, _ in said(found)] == ["one of his"]
    assert found.grades["shown to have"] == 0


def test_two_conditions_apart_are_not_the_two_together(hospital: Path) -> None:
    both = f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu' AND sev = 2 AND adm.hadm IN (10, 12)"
    log = [f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE {c} AND adm.hadm = 10" for c in ("title = 'flu'", "sev = 2")]
    found = audited([*log, both], hospital)
    together = [form for _, grade, form in said(found) if "AND" in form]
    assert not together  # one of the two admissions has both in one row, and the counts do not say which


def test_differences_of_counts_are_used(hospital: Path) -> None:
    count = f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu'"
    found = audited([count, f"{count} AND adm.hadm <> 12"], hospital)
    assert (2, "shown to have", "has a row in diag with \"title\" = 'flu'") in said(found)


def test_who_counts_twice_is_not_one(hospital: Path) -> None:
    """Person 1 has two records and would be counted twice: the one that is counted is somebody else's."""
    found = audited(
        ["SELECT COUNT(*) FROM adm WHERE pid IN (SELECT pid FROM diag WHERE sev = 2 AND pid > 1)"], hospital
    )
    assert (1, "shown not to have", 'has no row in diag with "sev" = 2 AND "pid" > 1') in said(found)


def test_a_public_value_that_is_null_is_no_extreme(hospital: Path) -> None:
    con = duckdb.connect(str(hospital))
    con.execute("ALTER TABLE adm ADD COLUMN age INT")
    con.execute("UPDATE adm SET age = hadm * 3 WHERE hadm < 13")
    con.close()
    found = audited([f"SELECT MIN(adm.age) {JOIN} WHERE title = 'flu'"], hospital)
    assert not [who for who, grade, _ in said(found) if who == 3]


def test_an_empty_log_exposes_nobody(hospital: Path) -> None:
    found = audited(["SELECT COUNT(DISTINCT pid) FROM adm"], hospital)
    assert found.exit_code == 0
    assert not found.findings


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ('[tables.nope]\nkeys = ["pid"]\nprivate = "all"', "no table 'nope'"),
        ('[tables.diag]\nkeys = ["nope"]\nprivate = "all"', "no column 'nope'"),
        ('[tables.diag]\nkeys = ["pid=nope"]\nprivate = "all"', "no column 'nope'"),
        ('[tables.diag]\nkeys = ["sev=cost"]\nprivate = "all"', "private column"),
        ('[tables.diag]\nkeys = ["title=pid"]\nprivate = "all"', "holds text, but 'pid' holds integer"),
        ('[tables.diag]\nkeys = ["sev=hadm"]\nprivate = "all"', "belongs to anybody"),
        ('[tables.diag]\nkeys = ["pid"]\npublic = "all"', "one row a key"),
        ('[tables.adm]\nkeys = ["pid"]\nprivate = "all"', "the table of the people itself"),
        ('[tables.diag]\nkeys = ["pid"]', "write private"),
        ('[tables.diag]\nkeys = []\nprivate = "all"', "names the columns"),
        ('[tables.diag]\nkeys = ["pid"]\nprivate = "some"', "not 'some'"),
        (CIRCLE, "circle"),
    ],
)
def test_wrong_settings_say_what_to_mend(told: str, says: str, hospital: Path) -> None:
    with pytest.raises((ConfigError, DataError), match=says):
        audited(["SELECT SUM(cost) FROM adm"], hospital, told)


def test_verbs_that_take_a_row_as_a_person_say_so(hospital: Path) -> None:
    given = settings(Config.parse(BASE + TABLES), data=str(hospital))
    for use in (Use.PLAN, Use.ANSWER):
        with pytest.raises(DataError, match="here one row is one person"):
            open_table(given, use)


def test_conditions_on_rows_of_people_are_not_read_where_one_row_is_one_person(hospital: Path) -> None:
    given = settings(Config.parse(BASE.replace('"pid"', '"hadm"') + TABLES), data=str(hospital))
    opened = open_table(given, Use.PLAN)
    assert [r.name for r in opened.roster.schema.related] == ["states"]
    for sql in (
        f"SELECT COUNT(DISTINCT adm.pid) {JOIN}",
        "SELECT COUNT(*) FROM adm WHERE pid IN (SELECT pid FROM diag)",
    ):
        with pytest.raises(KeyholeError, match="keyhole audit"):
            lower_statement(sql, opened.roster.schema)


def test_a_misread_condition_on_rows_is_noticed(hospital: Path) -> None:
    opened = open_table(settings(Config.parse(BASE + TABLES), data=str(hospital)), Use.AUDIT)
    right = lower_statement(
        f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu' AND sev = 2", opened.roster.schema
    )
    assert Validator(opened.roster).reasons([right]) == [""]
    (leaf,) = (part for part in (right.where,) if isinstance(part, Has))
    assert isinstance(leaf.where, And)
    for liar in (Has(leaf.table, leaf.on, leaf.where.parts[0]), Has(leaf.table, (("pid", "pid"),), leaf.where)):
        wrong = _with(right, liar)
        assert Validator(opened.roster).reasons([wrong]) != [""]


def _with(statement, where):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    term = replace(statement.queries[0].terms[0], where=where)
    return replace(statement, where=where, queries=(replace(statement.queries[0], terms=(term,)),))


def test_a_folder_of_csv_files_is_a_database(hospital: Path, tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    con = duckdb.connect(str(hospital), read_only=True)
    for name in ("adm", "states", "diag"):
        con.execute(f"COPY {name} TO '{folder / name}.csv' (HEADER)")
    con.close()
    log = [f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu' AND st = 'CA'", "SELECT SUM(cost) FROM adm"]
    one, other = audited(log, hospital), audited(log, folder)
    assert said(one) == said(other)
    assert one.exit_code == other.exit_code == 1


def test_every_count_recomputed_from_atoms_is_the_engines(hospital: Path) -> None:
    log = [
        f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu'",
        f"SELECT COUNT(DISTINCT adm.pid) {JOIN} WHERE title = 'flu' AND cost > 3",
        "SELECT COUNT(*) FROM adm WHERE cost > 4 OR NOT EXISTS (SELECT 1 FROM diag WHERE diag.hadm = adm.hadm)",
        "SELECT COUNT(DISTINCT st) FROM adm WHERE pid IN (SELECT pid FROM diag WHERE sev = 2)",
    ]
    opened = open_table(settings(Config.parse(BASE + TABLES), data=str(hospital)), Use.AUDIT)
    found = audited(log, hospital)
    counting = found.evidence.counting
    assert counting is not None
    truths = [opened.whole.truths([atom.leaf])[atom.leaf] for atom in counting.atoms]
    for count in counting.counts:
        assert count.lo == count.hi == recomputed(counting, truths, count)
    read = checked(lowered([Line(i, sql) for i, sql in enumerate(log, 1)], opened.roster.schema), opened.roster)
    assert len(read) == len(log)


def recomputed(counting: Counting, truths: list[np.ndarray], count) -> Fraction:  # type: ignore[no-untyped-def,type-arg]
    total = Fraction(0)
    for formula, coefficients in count.formulas:
        true = set()
        for clause in formula.clauses:
            for r in clause.rows.tolist():
                if formula.owner[r] >= 0 and all((truths[a][r] == 1) == holds for a, holds in clause.literals):
                    true.add(int(formula.owner[r]))
        total += sum((Fraction(1) if coefficients is None else coefficients[o] for o in true), Fraction(0))
    return total
