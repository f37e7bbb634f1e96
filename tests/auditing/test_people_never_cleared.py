"""What the rules for several records a person can miss is never called complete, and no part is called a total."""

from __future__ import annotations

from pathlib import Path

import pytest

import keyhole
from keyhole.report.verdict import Verdict
from keyhole.report.waivers import list_matters

VISITS = "p,ill,cost\nAnn,HIV,4711\nAnn,flu,30\nBob,flu,52\nBob,flu,27\nCyd,flu,38\n"
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


def visits(folder: Path, *log: str) -> Verdict:
    (folder / "v.csv").write_text(VISITS)
    return keyhole.audit(list(log), data=folder / "v.csv", table="v", id="p", private=["ill", "cost"])


def admissions(folder: Path, *log: str) -> Verdict:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "adm.csv").write_text(ADMISSIONS)
    (folder / "data" / "dx.csv").write_text(DIAGNOSES)
    (folder / "keyhole.toml").write_text(SETTINGS)
    return keyhole.audit(list(log), config=folder / "keyhole.toml")


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT COUNT(*) FROM v WHERE p = 'Ann' AND ill = 'HIV'",
        "SELECT ill, COUNT(*) FROM v WHERE p = 'Ann' GROUP BY ill",
        "SELECT COUNT(*) FROM v WHERE ill = 'flu'",
        "SELECT MAX(cost) FROM v WHERE p = 'Ann'",
        "SELECT QUANTILE_DISC(cost, 0.5) FROM v WHERE p = 'Ann'",
        "SELECT SUM(cost) FROM v WHERE cost > 4000 AND p = 'Ann'",
    ],
)
def test_one_persons_records_are_not_cleared_by_rules_that_miss_them(tmp_path: Path, asked: str) -> None:
    found = visits(tmp_path, asked)
    assert not found.complete
    assert found.exit_code in (1, 3)


def test_a_part_of_the_records_is_not_called_the_total(tmp_path: Path) -> None:
    parts = {"cost > 4000": '"cost" > 4000', "ill = 'HIV'": "\"ill\" = 'HIV'"}
    for condition, quoted in parts.items():
        found = visits(tmp_path, f"SELECT SUM(cost) FROM v WHERE {condition} AND p = 'Ann'")
        assert [f.form for f in found.exposed if f.column == "cost"] == [f"total cost of 2 records with {quoted}"]


def test_a_rounded_total_is_a_range(tmp_path: Path) -> None:
    found = visits(tmp_path, "SELECT ROUND(SUM(cost), -1) FROM v WHERE p = 'Ann'")
    assert not found.exposed
    assert [(f.lo <= 4741 <= f.hi) for f in found.inferred if f.lo is not None and f.hi is not None] == [True]  # type: ignore[operator]


def test_exact_sums_under_public_conditions_stay_complete(tmp_path: Path) -> None:
    assert visits(tmp_path, "SELECT SUM(cost) FROM v").exit_code == 0
    total = visits(tmp_path, "SELECT SUM(cost) FROM v WHERE p = 'Ann'")
    assert [f.value for f in total.exposed] == [4741]
    assert admissions(tmp_path, "SELECT SUM(cost) FROM adm").exit_code == 0


@pytest.mark.parametrize(
    "log",
    [
        (f"SELECT SUM(cost) FROM adm WHERE {FLU}", f"SELECT SUM(cost) FROM adm WHERE p <> 'Bob' AND {FLU}"),
        (f"SELECT COUNT(*) FROM adm WHERE p = 'Ann' AND {FLU}",),
        (f"SELECT AVG(cost) FROM adm WHERE p = 'Ann' AND {FLU}",),
        (f"SELECT SUM(cost) FROM adm WHERE p = 'Bob' AND {FLU}",),
    ],
)
def test_sums_under_conditions_on_rows_are_not_cleared(tmp_path: Path, log: tuple[str, ...]) -> None:
    found = admissions(tmp_path, *log)
    assert not found.complete
    assert found.exit_code in (1, 3)


def test_what_counts_show_of_people_must_be_signed_too(tmp_path: Path) -> None:
    found = visits(tmp_path, "SELECT COUNT(DISTINCT p) FROM v WHERE ill = 'HIV' AND p = 'Ann'")
    assert found.exit_code == 1
    assert [m.kind for m in list_matters(found.document()) if m.kind == "inferred"] == ["inferred"]
