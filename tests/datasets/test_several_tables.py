"""A database with several tables that is not as it should be: what is said, and what is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from keyhole.auditing.examine import examine
from keyhole.config import Config
from keyhole.errors import KeyholeError

TOLD = Config.parse(
    '[source]\ntable = "adm"\n[columns]\nid = ["pid"]\n[columns.private.cost]\n'
    '[tables.diag]\nkeys = ["pid", "hadm"]\nprivate = "all"\n'
)
HOLD = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    path = tmp_path / "h.duckdb"
    con = duckdb.connect(str(path))
    con.execute("CREATE TABLE adm AS FROM (VALUES (1, 11, 5), (2, 12, 7), (3, 13, 9)) t(pid, hadm, cost)")
    con.execute(
        "CREATE TABLE diag AS FROM (VALUES (1, 11, 'flu'), (1, 11, 'cold'), (99, 990, 'flu')) t(pid, hadm, title)"
    )
    con.close()
    return path


def test_a_fan_out_is_called_so(hospital: Path) -> None:
    found = examine(["SELECT SUM(cost) FROM adm JOIN diag USING (hadm)"], data=str(hospital), config=TOLD)
    assert "fan-out" in found.refused[0].error
    assert found.exit_code == 3


@pytest.mark.parametrize("tables", ["diag d JOIN adm a USING (pid)", "adm a JOIN diag d USING (pid)"])
def test_using_ties_the_people_wherever_they_stand(hospital: Path, tables: str) -> None:
    asked = f"SELECT COUNT(DISTINCT a.pid) FROM {tables} WHERE d.title = 'flu' AND a.pid > 1"
    found = examine([asked], data=str(hospital), config=TOLD)
    assert not found.refused
    assert {(f.record["pid"], f.grade) for f in found.findings} == {(2, "shown not to have"), (3, "shown not to have")}


def test_using_of_two_other_tables_ties_them_to_each_other(hospital: Path) -> None:
    log = [
        "SELECT COUNT(DISTINCT a.pid) FROM diag d JOIN diag e USING (pid) JOIN adm a USING (pid)",
        "SELECT COUNT(DISTINCT a.pid) FROM diag d JOIN diag e USING (title) JOIN adm a ON d.pid = a.pid",
    ]
    (refused,) = examine(log, data=str(hospital), config=TOLD).refused
    assert refused.number == "2"
    assert "ties diag to no column of adm" in refused.error


def test_rows_of_a_person_whom_the_table_of_the_people_has_not_are_nobodys(hospital: Path) -> None:
    asked = (
        "SELECT COUNT(DISTINCT adm.pid) FROM adm JOIN diag ON diag.pid = adm.pid WHERE title = 'flu' AND adm.pid > 1"
    )
    found = examine([asked], data=str(hospital), config=TOLD)
    assert {(f.record["pid"], f.grade) for f in found.findings} == {(2, "shown not to have"), (3, "shown not to have")}


def test_a_file_that_another_process_holds_says_so(hospital: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(hospital)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(KeyholeError, match="another process"):
            examine(["SELECT SUM(cost) FROM adm"], data=str(hospital), config=TOLD)
        other.communicate("")
