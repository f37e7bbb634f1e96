"""What answers say of one person's records together, its certificates, and people shown open by exchanging them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.checker.replay import replay
from keyhole.report.verdict import Verdict

VISITS = "p,sex,ill,cost\nAnn,f,HIV,4711\nAnn,f,flu,30\nBob,m,flu,52\nBob,m,flu,27\nCyd,f,flu,38\n"
ADMISSIONS = "p,a,s,cost\nAnn,1,CA,30\nAnn,2,NY,4711\nBob,3,CA,52\nCyd,4,CA,7\n"
DIAGNOSES = "p,a,title\nAnn,1,flu\n,,flu\nBob,3,flu\nBob,3,flu\nZed,9,flu\n"
SETTINGS = """\
[source]
data = "data"
table = "adm"
[columns]
id = ["p"]
[columns.private.cost]
[tables.dx]
keys = ["p", "a"]
private = "all"
"""
FLU = "EXISTS (SELECT 1 FROM dx WHERE dx.a = adm.a AND title = 'flu')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("alone")
    (made / "v.csv").write_text(VISITS)
    (made / "data").mkdir()
    (made / "data" / "adm.csv").write_text(ADMISSIONS)
    (made / "data" / "dx.csv").write_text(DIAGNOSES)
    (made / "keyhole.toml").write_text(SETTINGS)
    return made


def visits(folder: Path, *log: str, **more: Any) -> Verdict:
    return keyhole.audit(list(log), data=folder / "v.csv", table="v", id="p", private=["ill", "cost"], **more)


def told(found: Verdict) -> list[tuple[str, str, str]]:
    return [(f.who, f.form, str(f.value)) for f in found.exposed if f.form]


@pytest.mark.parametrize(
    ("asked", "form", "value"),
    [
        ("COUNT(*) FROM v WHERE p = 'Ann' AND ill = 'HIV'", "number of 2 records with \"ill\" = 'HIV'", "1"),
        ("SUM(cost) FROM v WHERE p = 'Ann' AND cost > 4000", 'total cost of 2 records with "cost" > 4000', "4711"),
        ("MAX(cost) FROM v WHERE p = 'Ann'", "MAX(cost) of 2 records", "4711"),
        ("MEDIAN(cost) FROM v WHERE p = 'Ann'", "MEDIAN(cost) of 2 records", "2370.5"),
        ("AVG(cost) FROM v WHERE p = 'Ann' AND ill = 'flu'", "average cost of 2 records with \"ill\" = 'flu'", "30"),
    ],
)
def test_a_statement_that_can_look_at_one_person_only_is_about_him(
    folder: Path, asked: str, form: str, value: str
) -> None:
    found = visits(folder, f"SELECT {asked}")
    assert told(found) == [("Ann", form, value)]
    assert found.exit_code == 1


def test_differences_of_sums_under_conditions_on_rows_are_found(folder: Path) -> None:
    log = [f"SELECT SUM(cost) FROM adm WHERE {FLU}", f"SELECT SUM(cost) FROM adm WHERE p <> 'Bob' AND {FLU}"]
    found = keyhole.audit(log, config=folder / "keyhole.toml")
    assert told(found) == [("Bob", "total cost of 1 record with a row in dx with \"title\" = 'flu'", "52")]
    assert "Q1 - Q2 is about nobody else" in found.text()


@pytest.mark.parametrize(
    "asked",
    [
        "COUNT(*) FROM v WHERE p = 'Ann' AND (ill = 'HIV' OR ill <> 'HIV')",
        "COUNT(*) FROM v WHERE p = 'Ann' AND (cost > 5 OR cost < 7)",
        "SUM(cost) FROM v WHERE p = 'Ann' AND cost = 0 AND cost > 1",
    ],
)
def test_what_is_so_whatever_he_has_is_no_finding(folder: Path, asked: str) -> None:
    assert told(visits(folder, f"SELECT {asked}")) == []


def test_a_total_beyond_the_range_of_one_record_is_no_contradiction(folder: Path) -> None:
    (folder / "range.toml").write_text('[columns]\nid = ["p"]\n[columns.private.cost]\nmin = 0\nmax = 4720\n')
    log = ["SELECT SUM(cost) FROM v WHERE p = 'Ann'"]
    found = keyhole.audit(log, data=folder / "v.csv", config=folder / "range.toml")
    assert [str(f.value) for f in found.exposed] == ["4741"]
    assert not found.contradictions


# certificates

LIES: list[Callable[[dict[str, Any]], None]] = [
    lambda case: case["certificate"]["parts"][0].update(weight="2"),
    lambda case: case["certificate"]["parts"][0].update(rows=[case["certificate"]["parts"][0]["rows"][0]]),
    lambda case: case.update(value=case["value"] + 1),
    lambda case: case["proof"][0].update(weight="3"),
    lambda case: case["certificate"].update(constant="5"),
]


def certified(folder: Path) -> dict[str, Any]:
    found = visits(
        folder, "SELECT SUM(cost) FROM v WHERE ill = 'flu'", "SELECT SUM(cost) FROM v WHERE p <> 'Bob' AND ill = 'flu'"
    )
    said: dict[str, Any] = json.loads(found.dumps())
    assert [case["form"] for case in said["exposed"]] == ["total cost of 2 records with \"ill\" = 'flu'"]
    return said


def outcomes(said: dict[str, Any], folder: Path) -> list[str]:
    return [str(c.outcome) for c in replay(json.dumps(said), folder / "v.csv").checked]


def test_the_checker_accepts_what_is_so_and_rejects_what_is_not(folder: Path) -> None:
    said = certified(folder)
    assert outcomes(said, folder) == ["holds"]
    for lie in LIES:
        planted = copy.deepcopy(said)
        lie(planted["exposed"][0])
        assert outcomes(planted, folder) == ["fails"]


def test_the_checker_reads_a_folder_of_tables(folder: Path) -> None:
    found = keyhole.audit([f"SELECT AVG(cost) FROM adm WHERE p = 'Ann' AND {FLU}"], config=folder / "keyhole.toml")
    assert replay(found.dumps(), folder / "data", table="adm").exit_code == 0


# exchange


def clinic(folder: Path, *, alike: bool) -> Path:
    """Sixteen people with two visits each, of two sexes; `alike`: every woman has the flu in some visit."""
    path = folder / str(alike) / "clinic.csv"
    path.parent.mkdir(exist_ok=True)
    rows = ["p,sex,ill,cost"]
    for p in range(16):
        sex = "fm"[p % 2]
        bits = (p // 2) % 4
        if alike and sex == "f" and bits == 3:
            bits = 1
        for visit in range(2):
            rows.append(
                f"{p},{sex},{'cold' if bits >> visit & 1 else 'flu'},{(7 * p * p + 31 * visit * p + visit) % 101}"
            )
    path.write_text("\n".join(rows) + "\n")
    return path


LOG = [
    "SELECT sex, COUNT(DISTINCT p) FROM clinic WHERE ill = 'flu' GROUP BY sex",
    "SELECT sex, MAX(cost) FROM clinic GROUP BY sex",
]


def test_people_whom_the_log_does_not_tell_apart_are_shown_open(tmp_path: Path) -> None:
    found = keyhole.audit(LOG, data=clinic(tmp_path, alike=False), id="p", private=["ill", "cost"])
    assert found.exit_code == 0
    assert "has a second possible value, in a table that gives the same answers" in found.promise
    narrow = keyhole.audit(LOG, data=clinic(tmp_path, alike=False), id="p", private=["ill", "cost"], within="5")
    assert narrow.exit_code == 3


def test_what_all_of_them_have_is_never_cleared(tmp_path: Path) -> None:
    found = keyhole.audit(LOG, data=clinic(tmp_path, alike=True), id="p", private=["ill", "cost"])
    assert found.exit_code == 1  # each woman has the flu in some visit
    assert not found.complete


def test_answers_of_other_data_are_no_reason_to_clear(tmp_path: Path) -> None:
    log = [{"sql": "SELECT COUNT(*) FROM clinic WHERE ill = 'flu'", "answer": 15}]
    found = keyhole.audit(log, data=clinic(tmp_path, alike=False), id="p", private=["ill", "cost"])
    assert not found.complete


def test_what_counts_say_of_a_column_of_the_record_is_replayed(folder: Path) -> None:
    log = [
        "SELECT COUNT(*) FROM v WHERE ill = 'HIV' AND p = 'Bob'",
        "SELECT COUNT(*) FROM v WHERE cost > 20 AND p = 'Bob'",
    ]
    said = json.loads(visits(folder, *log).dumps())
    claimed = [i for i in said["intervals"] if i["status"] == "inferred"]
    assert len(claimed) == 4  # two records of Bob: not HIV, and above 20
    assert set(outcomes(said, folder)) == {"holds"}  # those by assumption, too
    for i in claimed:
        if i["column"] == "ill":
            i["excluded"] = ["cold"]
        else:
            i["lo"] += 1
    assert outcomes(said, folder).count("fails") == 4


def test_one_of_his_records_is_replayed(folder: Path) -> None:
    said = json.loads(visits(folder, "SELECT COUNT(DISTINCT p) FROM v WHERE ill = 'flu'").dumps())
    assert [(f["grade"], f["rows"]) for f in said["features"]] == [("one of his", [1, 2]), ("one of his", [3, 4])]
    assert outcomes(said, folder) == ["holds"] * 3  # and Cyd, who has one record
    said["features"][0]["rows"] = [1]
    assert "fails" in outcomes(said, folder)


def test_a_comparison_that_cannot_come_out_otherwise_is_no_finding(folder: Path) -> None:
    log = "SELECT p, COUNT(*) FROM v WHERE ill = 'flu' GROUP BY p HAVING COUNT(*) >= 2"
    found = visits(folder, log)
    assert [(f.who, f.form) for f in found.findings if f.form] == [
        ("Ann", "count >= 2 of 2 records with \"ill\" = 'flu' is false")
    ]
    assert [f.form for f in visits(folder, "SELECT SUM(cost) > 100 FROM v WHERE p = 'Ann'").inferred] == [
        "total cost > 100 of 2 records is true"
    ]
