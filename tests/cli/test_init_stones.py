"""What `keyhole init` stumbles over: names that stand twice, mixed line ends, repeated ids, no rows, no secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import keyhole
from keyhole.cli import app
from keyhole.config import Config


def init(folder: Path, name: str, *options: str) -> Result:
    """`keyhole init` on a file of that folder."""
    return CliRunner().invoke(app, ["init", str(folder / name), "--yes", "--out", str(folder / "k.toml"), *options])


@pytest.mark.parametrize(
    "text",
    [
        "name;city;city;pay\nAnn;K;34;1.234,50\nBob;K;51;2.000,00\nCyd;M;29;999,90\n",
        "name,city,City,pay\nAnn,x,p,1\nBob,x,q,2\n",
        "name,city,city,pay\nAnn,x,p,NA\nBob,NA,q,2\n",
    ],
)
def test_a_name_that_stands_twice_is_refused_however_the_file_is_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.csv").write_text(text, encoding="utf-8")
    done = init(tmp_path, "d.csv")
    assert done.exit_code == 2
    assert "has two columns named" in done.output
    assert not (tmp_path / "k.toml").exists()


@pytest.mark.parametrize("command", ["init", "audit"])
def test_mixed_line_ends_are_said_with_their_line(tmp_path: Path, command: str) -> None:
    rows = [f"n{k},{k % 3},{100 + k}" for k in range(40)]
    text = "name,town,pay\r\n" + "\r\n".join(rows[:20]) + "\r\n" + "\n".join(rows[20:]) + "\n"
    (tmp_path / "m.csv").write_bytes(text.encode())
    (tmp_path / "log.sql").write_text("SELECT SUM(pay) FROM m;\n")
    if command == "init":
        done = init(tmp_path, "m.csv")
    else:
        asked = ["audit", str(tmp_path / "log.sql"), "--data", str(tmp_path / "m.csv"), "--private", "pay"]
        done = CliRunner().invoke(app, asked)
    assert done.exit_code == 2
    assert "line 22 ends with LF and the first line with CRLF: save the file with one kind" in done.output


def test_a_name_with_several_rows_is_the_id_of_a_small_file_too(tmp_path: Path) -> None:
    (tmp_path / "rep.csv").write_text("name,dept,pay\nAnn,a,10\nAnn,b,20\nBob,a,30\nCyd,b,40\nCyd,b,45\n")
    assert init(tmp_path, "rep.csv").exit_code == 0
    assert Config.load(tmp_path / "k.toml").columns.id == ("name",)


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "head.csv").write_text("name,group,pay\n")
    done = init(tmp_path, "head.csv")
    assert done.exit_code == 2
    assert "head.csv has a header and no rows" in done.output
    assert not (tmp_path / "k.toml").exists()


def test_the_table_that_has_the_secrets_is_named(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    people = [f"{k},P{k},{'FM'[k % 2]}" for k in range(12)]
    stays = [f"{100 + k},{k % 12},{'abc'[k % 3]},{731.5 + k}" for k in range(30)]
    (home / "patients.csv").write_text("\n".join(["patient_id,name,sex", *people]) + "\n")
    (home / "admissions.csv").write_text("\n".join(["admission_id,patient_id,ward,total_cost", *stays]) + "\n")
    done = init(tmp_path, "h")
    assert done.exit_code == 0
    assert "--table admissions" in done.output
    written = (tmp_path / "k.toml").read_text()
    assert "--table admissions" in written
    assert "731.5" not in written + done.output
    assert "--table admissions" in json.loads(init(tmp_path, "h", "--force", "--format", "json").output)["instead"]
    again = init(tmp_path, "h", "--force", "--table", "admissions")
    assert "--table" not in again.output
    assert list(Config.load(tmp_path / "k.toml").columns.private) == ["total_cost"]


@pytest.mark.parametrize(("column", "role"), [("region", "public"), ("diagnosis", "private"), ("note", "private")])
def test_a_table_of_people_beside_their_rows_has_facts_if_all_its_columns_sound_public(
    tmp_path: Path, column: str, role: str
) -> None:
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "patients.csv").write_text(f"patient_id,{column},age\n1,n,30\n2,n,40\n3,s,50\n4,s,60\n")
    (tmp_path / "h" / "visits.csv").write_text("visit_id,patient_id,cost\n1,1,10\n2,1,20\n3,2,30\n4,3,40\n5,9,50\n")
    init(tmp_path, "h", "--table", "visits")
    assert f'[tables.patients]    # 4 rows\nkeys = ["patient_id"]\n{role} = "all"' in (tmp_path / "k.toml").read_text()


def test_records_that_a_dimension_has_no_row_for_are_counted(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "patients.csv").write_text("patient_id,region\n1,n\n2,n\n3,s\n4,s\n")
    (tmp_path / "h" / "visits.csv").write_text(
        "visit_id,patient_id,cost\n1,1,10\n2,1,20\n3,2,30\n4,3,40\n5,9,50\n6,,1\n"
    )
    init(tmp_path, "h", "--table", "visits")
    asked = ["SELECT region, SUM(cost) FROM visits JOIN patients USING (patient_id) GROUP BY region"]
    found = keyhole.audit(asked, config=tmp_path / "k.toml")
    assert [f.value for f in found.exposed] == [40]
    said = "visits: 2 of 6 rows have no row of patients with their patient_id; a join leaves them out"
    assert [w["reason"] for w in found.to_json()["warnings"]] == [said]
    whole = keyhole.audit(["SELECT SUM(cost) FROM visits"], config=tmp_path / "k.toml")
    assert whole.to_json()["warnings"] == []
