"""Rows whose key matches nobody: the custodian is told how many, and a key is quoted only where it is public."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import keyhole
from keyhole.report.formats.redacted import Withheld

PEOPLE = "name,zip,pay\nAnn,1,10\nBob,2,20\nCyd,2,30\nDan,3,40\n"
VISITS = "name,title,cost\nAnn,flu,5\nann,flu,6\nBob ,cold,7\nCyd,cold,8\nZed,flu,9\n,flu,1\n"
ASKED = "SELECT COUNT(DISTINCT p.name) FROM people p JOIN visits v ON v.name = p.name WHERE v.title = 'flu'"
SETTINGS = """
[source]
data = "{data}"
table = "people"
[columns]
id = ["name"]
[columns.private.pay]
[tables.visits]
keys = ["name"]
private = {private}
"""


def audited(tmp_path: Path, visits: str, private: str, sql: str = ASKED) -> keyhole.Verdict:
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    (data / "people.csv").write_text(PEOPLE)
    (data / "visits.csv").write_text(visits)
    (tmp_path / "keyhole.toml").write_text(SETTINGS.format(data=data, private=private))
    return keyhole.audit([sql], config=tmp_path / "keyhole.toml")


def counted_by_the_engine(tmp_path: Path) -> tuple[int, int]:
    """(rows, rows of nobody), by an anti join over the files themselves."""
    visits, people = (f"read_csv('{tmp_path / 'data' / name}.csv')" for name in ("visits", "people"))
    (rows,) = duckdb.sql(f"SELECT count(*) FROM {visits}").fetchall()
    (lost,) = duckdb.sql(f"SELECT count(*) FROM {visits} v ANTI JOIN {people} p ON v.name = p.name").fetchall()
    return rows[0], lost[0]


@pytest.mark.parametrize("private", ['"all"', '["title"]'])
def test_rows_of_nobody_are_counted_and_their_keys_stay_secret(tmp_path: Path, private: str) -> None:
    verdict = audited(tmp_path, VISITS, private)
    rows, lost = counted_by_the_engine(tmp_path)
    assert (rows, lost) == (6, 4)
    said = f"visits: {lost} of {rows} rows belong to nobody in people; the key of 2 differs only by capitals or blanks"
    (warning,) = verdict.to_json()["warnings"]
    assert warning["query"] == "table visits"
    assert warning["reason"].startswith(said)
    assert f"Warning: {said}" in verdict.text()
    assert ("such as 'Bob '" in warning["reason"]) is (private != '"all"')
    assert said in verdict.to_html()
    assert "belong to nobody" not in verdict.without(Withheld.VALUES).text()


def test_nothing_is_said_where_all_rows_are_somebodys_or_the_table_is_not_read(tmp_path: Path) -> None:
    assert not audited(tmp_path, "name,title,cost\nAnn,flu,5\nBob,cold,2\n", '"all"').to_json()["warnings"]
    assert not audited(tmp_path, VISITS, '"all"', "SELECT SUM(pay) FROM people").to_json()["warnings"]
