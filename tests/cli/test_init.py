"""`keyhole init`: what is proposed, what is written, and that nothing private is."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from tests.support.commands import call_command

from keyhole.api.column_roles import propose
from keyhole.cli import app
from keyhole.cli.demo import LOG, PEOPLE
from keyhole.config import Config, parse_private
from keyhole.config.settings import settings
from keyhole.datasets import Use, open_table
from keyhole.datasets.survey import Surveyed, SurveyedTable
from keyhole.errors import ConfigError
from keyhole.model.schema import Kind, Role


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "log.sql").write_text(LOG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(folder: Path, *arguments: str, given: str = "") -> Config:
    done = call_command("init", *arguments, stdin=given)
    assert done.exit_code == 0, done.output
    return Config.load(folder / "keyhole.toml")


def test_from_a_file_to_a_verdict(folder: Path) -> None:
    found = made(folder, "people.csv", "--yes")
    assert found.columns.id == ("Name",)
    assert list(found.columns.private) == ["Blood sugar"]
    assert found.columns.private["Blood sugar"].kind == "decimal"
    assert found.columns.public["Gender"].values == ("Female", "Male")
    assert found.budget.neighbours == "replace-one"
    assert "COUNT(*) over everybody is exact" in (folder / "keyhole.toml").read_text()
    audited = call_command("audit", "log.sql", "-c", "keyhole.toml")
    assert audited.exit_code == 1
    assert "Jeremy Doe  Blood sugar  = 5.2" in audited.output


def test_settings_are_not_written_over(folder: Path) -> None:
    (folder / "keyhole.toml").write_text("# mine\n")
    done = call_command("init", "people.csv", "--yes")
    assert done.exit_code == 2
    assert "keyhole.toml is there already" in done.output
    assert (folder / "keyhole.toml").read_text() == "# mine\n"
    assert call_command("init", "people.csv", "--yes", "--force").exit_code == 0
    assert call_command("init", "people.csv", "--yes", "--out", "other.toml").exit_code == 0


def test_questions(folder: Path) -> None:
    """Enter takes what is proposed; names and bounds are taken as they are typed."""
    assert made(folder, "people.csv", given="\n\n\n\n").columns.id == ("Name",)
    (folder / "keyhole.toml").unlink()
    found = made(folder, "people.csv", given="none\nBlood sugar, ZIP\nName\nnothing\n3..10:0.1\n").columns
    assert (found.id, found.hidden) == ((), ("Name",))
    assert {n: (c.min, c.max, c.step) for n, c in found.private.items()} == {
        "Blood sugar": (Decimal(3), Decimal(10), Decimal("0.1")),
        "ZIP": (None, None, None),
    }
    done = call_command("init", "people.csv", "--force", stdin="Nobody\n")
    assert done.exit_code == 2
    assert "has no column 'Nobody'" in done.output
    assert call_command("init", "people.csv", "--force", stdin="").exit_code == 2  # nobody answers


def test_bounds_are_given_not_read(folder: Path) -> None:
    (folder / "bounds.toml").write_text('[columns.private."Blood sugar"]\nmin = 2.5\nmax = 30\nstep = 0.1\n')
    found = made(folder, "people.csv", "--yes", "--bounds", "bounds.toml").columns.private["Blood sugar"]
    assert (found.min, found.max, found.step) == (Decimal("2.5"), Decimal(30), Decimal("0.1"))
    (folder / "keyhole.toml").unlink()
    short = made(folder, "people.csv", "--yes", "--private", "Blood sugar:1..99", "--id", "Name", "--hidden", "ZIP")
    assert (short.columns.private["Blood sugar"].max, short.columns.hidden) == (Decimal(99), ("ZIP",))
    (folder / "bounds.toml").write_text("[columns.private.nobody]\nmin = 0\n")
    assert call_command("init", "people.csv", "--yes", "--force", "--bounds", "bounds.toml").exit_code == 2


def random_table(rng: random.Random) -> tuple[list[str], list[list[str]]]:
    """A table whose private and hidden cells hold numbers and words that occur nowhere else."""
    names = ["Name", "age", "sex", "salary", "diagnosis", "score", "email", "dept"]
    rows = []
    for i in range(rng.randrange(5, 60)):
        marked = 700000 + rng.randrange(99999)
        rows.append(
            [f"p{i}", str(rng.randrange(18, 90)), rng.choice("FM"), str(marked), f"secret{rng.randrange(9)}",
             f"{700000 + rng.randrange(99999)}.{rng.randrange(10, 99)}", f"x{i}@secret", rng.choice("abc")]
        )  # fmt: skip
    return names, rows


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["csv", "duckdb"])
def test_nothing_private_is_written_or_printed(folder: Path, seed: int, kind: str) -> None:
    rng = random.Random(seed)
    names, rows = random_table(rng)
    (folder / "t.csv").write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    if kind == "duckdb":
        with duckdb.connect(folder / "t.duckdb") as con:
            con.execute("CREATE TABLE t AS FROM read_csv('t.csv')")
    for arguments, given in (("--yes",), ""), ((), "\n" * 9), (("--yes", "--private", "age"), ""):
        done = call_command("init", f"t.{kind}", "--force", *arguments, stdin=given)
        assert done.exit_code == 0, done.output
        written = (folder / "keyhole.toml").read_text()
        secrets = {row[k] for row in rows for k in (3, 4, 5, 6)}
        assert not [s for s in secrets if s in done.output or s in written]
        assert "secret" not in written + done.output
        assert not any(f"{n}" in written for n in range(700000, 700000 + 99999, 1000))
        if "age" in arguments:
            assert "[columns.public.age]" not in written
        found = Config.parse(written)
        assert {"salary", "diagnosis", "score"} <= set(found.columns.private)
        assert all((c.min, c.max, c.step, c.values) == (None,) * 4 for c in found.columns.private.values())


@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_opens_the_same_table(folder: Path, seed: int) -> None:
    names, rows = random_table(random.Random(seed))
    (folder / "t.csv").write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    found = made(folder, "t.csv", "--yes")
    table = open_table(settings(folder / "keyhole.toml"), Use.AUDIT)
    assert table.roster.n == len(rows)
    roles = {c.name: c.role for c in table.roster.schema.columns}
    assert [roles[n] for n in ("Name", "age", "salary", "email")] == [Role.ID, Role.PUBLIC, Role.PRIVATE, Role.HIDDEN]
    assert not table.assumed  # every kind was declared
    assert Path(str(found.source.data)).samefile(folder / "t.csv")


def test_odd_files_are_described(folder: Path) -> None:
    text = "Name;Gehalt in €;Größe;Ort\n" + "".join(
        f"p{i}; 1.{i}00,50 ;{'NA' if i % 3 else i},5; Köln\n" for i in range(1, 9)
    )
    text = text.replace("NA,5", "NA")
    (folder / "t.txt").write_bytes(text.encode("cp1252"))
    found = made(folder, "t.txt", "--yes", "--private", "Gehalt in €")
    told = found.source
    assert (told.encoding, told.decimal, told.thousands, told.null, told.trim) == ("cp1252", ",", ".", ("NA",), True)
    table = open_table(settings(folder / "keyhole.toml"), Use.AUDIT)
    first = table.whole.connection.execute('SELECT "Gehalt in €", "Ort" FROM everything LIMIT 1').fetchall()[0]
    assert first == (Decimal("1100.50"), "Köln")


def test_english_thousands(folder: Path) -> None:
    (folder / "t.csv").write_text('Name,pay\nAnn,"1,200"\nBob,"13,400.5"\nCyd,900\n')
    found = made(folder, "t.csv", "--yes")
    assert (found.source.decimal, found.source.thousands) == (None, ",")
    (folder / "t.csv").write_text('Name,pay\nAnn,"1,200"\nBob,"13,400"\n')  # 1.2 or 1200: not guessed
    assert call_command("init", "t.csv", "--yes", "--force").exit_code == 0
    assert Config.load(folder / "keyhole.toml").source.decimal is None


@pytest.mark.parametrize(
    ("numbers", "decimal", "thousands"),
    [
        (["1,5", "2,25"], ",", None),
        (["1.234,5", "7"], ",", "."),
        (["1 234,5", "7"], ",", " "),
        (["1\u00a0234,5", "7,1"], ",", "\u00a0"),
        (["1'234.5", "7"], None, "'"),
        (["1,234.5", "7"], None, ","),
        (["1,234", "7"], None, None),
        (["1.234", "7"], None, None),
        (["1 234", "7"], ",", " "),
        (["12", "7"], None, None),
        (["1.2", "a"], None, None),
    ],
)
def test_signs_inside_numbers(folder: Path, numbers: list[str], decimal: str | None, thousands: str | None) -> None:
    (folder / "t.csv").write_text(
        "Name;pay\n" + "".join(f"p{i};{n}\n" for i, n in enumerate(numbers)), encoding="utf-8"
    )
    told = made(folder, "t.csv", "--yes", "--private", "pay").source
    assert (told.decimal, told.thousands) == (decimal, thousands)


def test_columns_may_be_named_by_numbers(folder: Path) -> None:
    (folder / "t.csv").write_text("id,1,2,3\n7,0,1,1\n8,1,1,0\n")
    assert made(folder, "t.csv", "--yes", "--private", "1").columns.id == ("id",)


def test_a_file_without_a_header_is_said(folder: Path) -> None:
    (folder / "t.data").write_text("39, State-gov, 77516\n50, Private, 83311\n")
    done = call_command("init", "t.data", "--yes")
    assert done.exit_code == 2
    assert "looks like data, not names: name its 3 columns with columns = [...]" in done.output
    assert "State-gov" not in done.output
    (folder / "layout.toml").write_text('[source]\ncolumns = ["age", "workclass", "fnlwgt"]\n')
    found = made(folder, "t.data", "--bounds", "layout.toml", "--yes")
    assert found.source.columns == ("age", "workclass", "fnlwgt")


@pytest.mark.parametrize(
    ("column", "rows", "role"),
    [
        (Surveyed("PAT_AGE", Kind.INTEGER, 0, 22), 99, Role.PUBLIC),
        (Surveyed("TOTAL_CHARGES", Kind.DOUBLE, 0, 98), 99, Role.PRIVATE),
        (Surveyed("hoursPerWeek", Kind.INTEGER, 0, 94), 99, Role.PRIVATE),
        (Surveyed("notes", Kind.TEXT, 0, 90), 99, Role.PUBLIC),
        (Surveyed("E-Mail", Kind.TEXT, 0, 99), 99, Role.HIDDEN),
        (Surveyed("mrn", Kind.TEXT, 0, 97), 99, Role.PUBLIC),
        (Surveyed("smoker_flag", Kind.INTEGER, 0, 2), 99, Role.PRIVATE),
        (Surveyed("hba1c", Kind.DOUBLE, 0, 60), 99, Role.PRIVATE),
        (Surveyed("ICD10", Kind.TEXT, 0, 12), 99, Role.PRIVATE),
        (Surveyed("x17", Kind.DOUBLE, 0, 3), 99, Role.PRIVATE),
        (Surveyed("A10", Kind.TEXT, 0, 10), 99, Role.PUBLIC),
        (Surveyed("patient_id", Kind.INTEGER, 0, 99), 99, Role.ID),
        (Surveyed("column00", Kind.INTEGER, 0, 99), 99, Role.ID),
    ],
)
def test_roles_by_name_kind_and_number(column: Surveyed, rows: int, role: Role) -> None:
    other = Surveyed("sex", Kind.TEXT, 0, 2)
    columns = (column, other) if role is Role.ID else (other, column)
    assert propose(SurveyedTable("t", rows, columns, False))[column.name].role is role


def test_several_tables(folder: Path) -> None:
    with duckdb.connect(folder / "hospital.duckdb") as con:
        con.execute("CREATE TABLE visits AS SELECT i % 7 AS patient_id, i AS day, i * 1.5 AS cost FROM range(20) t(i)")
        con.execute("CREATE TABLE patients AS SELECT i AS patient_id, i % 3 AS state, 20 + i AS age FROM range(9) t(i)")
        con.execute("CREATE TABLE states AS SELECT i AS state, 'state ' || i AS label FROM range(3) t(i)")
        con.execute("CREATE TABLE weather AS SELECT i AS hour FROM range(3) t(i)")
    done = call_command("init", "hospital.duckdb", "--yes")
    assert done.exit_code == 0, done.output
    written = (folder / "keyhole.toml").read_text()
    plain = "\n".join(line.removeprefix("# ") for line in written.splitlines())
    assert 'table = "patients"' in written
    assert '[tables.visits]    # 20 rows\nkeys = ["patient_id"]\nprivate = "all"' in plain
    assert '[tables.states]    # 3 rows\nkeys = ["state"]\npublic = "all"' in plain
    assert "# [tables.weather]: it has no key of patients" in written
    assert "\n[tables.visits]" in written
    (folder / "csvs").mkdir()
    (folder / "csvs" / "patients.csv").write_text("patient_id,age\n1,20\n2,30\n")
    (folder / "csvs" / "visits.csv").write_text("patient_id,day\n1,20\n1,30\n")
    assert call_command("init", "csvs", "--yes", "--force").exit_code == 0
    assert 'table = "patients"' in (folder / "keyhole.toml").read_text()
    assert call_command("init", "hospital.duckdb", "--table", "nope", "--yes", "--force").exit_code == 2


def test_a_dimension_is_not_the_table_of_the_people(folder: Path) -> None:
    (folder / "hospital").mkdir()
    (folder / "hospital" / "admissions.csv").write_text(
        "patient,admission,state,cost\nAnn,1,CA,30\nAnn,2,NY,41\nBob,3,CA,52\nCyd,4,NY,38\nDan,5,,27\n"
    )
    (folder / "hospital" / "diagnoses.csv").write_text(
        "patient,admission,title\nAnn,1,flu\nAnn,2,asthma\nBob,3,flu\nDan,5,flu\n"
    )
    (folder / "hospital" / "states.csv").write_text("code,region\nCA,west\nNY,east\n")
    found = made(folder, "hospital", "--yes")
    assert (found.source.table, found.columns.id, list(found.columns.private)) == ("admissions", ("patient",), ["cost"])
    (folder / "hospital" / "admissions.csv").unlink()
    again = made(folder, "hospital", "--yes", "--force")
    assert (again.source.table, again.columns.id) == ("diagnoses", ("patient",))


def test_the_people_are_those_whom_the_other_tables_refer_to(folder: Path) -> None:
    (folder / "clinic").mkdir()
    (folder / "clinic" / "drugs.csv").write_text("pid,visit,drug\nP1,1,tamiflu\nP3,4,art\n")  # pid is unique here too
    (folder / "clinic" / "patients.csv").write_text("pid,sex\nP1,F\nP2,M\nP3,F\n")
    (folder / "clinic" / "visits.csv").write_text("pid,visit,cost\nP1,1,10\nP1,2,25\nP2,3,80\nP3,4,30\n")
    found = made(folder, "clinic", "--yes")
    assert (found.source.table, found.columns.id) == ("patients", ("pid",))


def test_a_guess_among_equals_is_said(folder: Path) -> None:
    (folder / "two").mkdir()
    for name in ("east", "west"):
        (folder / "two" / f"{name}.csv").write_text("id,cost\n1,20\n2,30\n")
    assert "which table has the people is a guess" in call_command("init", "two", "--yes").stderr
    assert "guess:" not in call_command("init", "people.csv", "--yes", "--force").stderr


def test_names_that_are_hard_to_write(folder: Path) -> None:
    odd = ['a "b"', "c.d", "é ü", "tab\there", "[x]", "#y", "order"]
    (folder / "t.csv").write_text(",".join(f'"{n.replace(chr(34), chr(34) * 2)}"' for n in ["Name", *odd]) + "\n"
                                  + "\n".join(f"p{i},{','.join([str(i % 2)] * 7)}" for i in range(5)))  # fmt: skip
    found = made(folder, "t.csv", "--yes", "--private", "order", "--private", "c.d", "--hidden", "[x]")
    assert set(found.columns.private) == {"order", "c.d"}
    assert set(found.columns.public) == {'a "b"', "é ü", "tab\there", "#y"}
    assert open_table(settings(folder / "keyhole.toml"), Use.AUDIT).roster.n == 5


def test_json(folder: Path) -> None:
    done = call_command("init", "people.csv", "--yes", "--format", "json")
    told = json.loads(done.output)
    assert (told["rows"], told["written"], [c["role"] for c in told["columns"]]) == (
        6, "keyhole.toml", ["id", "public", "public", "private"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("nowhere.csv", "there is no file"),
        ("empty.csv", "is empty"),
        ("bare", "holds no .csv"),
        ("cut.csv", "line 3 has 2"),
    ],
)
def test_what_cannot_be_looked_at(folder: Path, data: str, told: str) -> None:
    (folder / "empty.csv").write_text("")
    (folder / "cut.csv").write_text("a,b,c\n1,2,3\n4,5\n")
    (folder / "bare").mkdir()
    done = call_command("init", data, "--yes")
    assert done.exit_code == 2
    assert told in done.output
    assert not (folder / "keyhole.toml").exists()


def test_a_database_in_use_is_said(folder: Path) -> None:
    with duckdb.connect(folder / "t.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS id, 2 AS pay")
    held = subprocess.Popen(
        [sys.executable, "-c", "import duckdb; c = duckdb.connect('t.duckdb'); print('held', flush=True); input()"],
        cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert held.stdout is not None
        assert held.stdout.readline() == "held\n"
        for command in (("init", "t.duckdb", "--yes"), ("audit", "log.sql", "--data", "t.duckdb", "--private", "pay")):
            done = call_command(*command)
            assert done.exit_code == 2
            assert "t.duckdb is in use by another process" in done.output
    finally:
        held.communicate("\n")


def test_settings_of_several_tables_can_be_audited(folder: Path) -> None:
    """A folder of files in other encodings and layouts: proposed, read and judged."""
    (folder / "csvs").mkdir()
    (folder / "csvs" / "patients.csv").write_bytes(
        "patient_id;sex;stay\n1;f;20\n2;m;30\n3;m;35\n4;f;50\nß;m;7\n".encode("latin-1")
    )
    (folder / "csvs" / "visits.csv").write_text("patient_id,day,cost\n1,20,5\n1,30,6\nß,4,7\n3,5,1\n")
    done = call_command("init", "csvs", "--yes", "--private", "stay")
    assert done.exit_code == 0, done.output
    (folder / "q.sql").write_text(
        "SELECT SUM(stay) FROM patients; SELECT SUM(stay) FROM patients WHERE patient_id <> 'ß'"
    )
    audited = call_command("audit", "q.sql", "-c", "keyhole.toml")
    assert audited.exit_code == 1, audited.output
    assert "ß" in audited.output


def test_numbers_with_signs_are_no_names_and_nothing_private_is_said(folder: Path) -> None:
    (folder / "pay.csv").write_text("id,Gehalt\n" + "".join(f'{i},"{i}.{i}34,50 €"\n' for i in range(1, 10)))
    done = call_command("init", "pay.csv", "--yes", "--out", "pay.toml")
    assert "private  numbers written as text" in done.output
    (folder / "bare.csv").write_text("name,dept\nAnn,a\nBob,b\n")
    bare = call_command("init", "bare.csv", "--yes", "--out", "bare.toml")
    assert "No column looks private" in bare.output
    assert "No column looks private" not in done.output


def test_a_private_column_is_written_as_not_declared(folder: Path) -> None:
    found = made(folder, "people.csv", "--yes").columns.private["Blood sugar"]
    assert (found.domain, found.state) == ("?", "undeclared")
    assert 'domain = "?"' in (folder / "keyhole.toml").read_text()
    called_real = made(folder, "people.csv", "--yes", "--force", "--private", "Blood sugar:real").columns
    assert called_real.private["Blood sugar"].state == "real"
    (folder / "keyhole.toml").unlink()
    answered = made(folder, "people.csv", given="\n\n\nreal\n").columns
    assert answered.private["Blood sugar"].state == "real"
    with_bounds = (folder / "keyhole.toml").read_text().replace('\ndomain = "real"', '\ndomain = "?"\nmin = 3')
    assert Config.parse(with_bounds).columns.private["Blood sugar"].state == "declared"


@pytest.mark.parametrize("bound", ["min = 0", "max = 9", "step = 1", 'values = ["a"]', 'kind = "text"'])
def test_real_stands_alone(bound: str) -> None:
    with pytest.raises(ConfigError, match=r'columns\.private\.pay: domain = "real"'):
        Config.parse(f'[columns.private.pay]\ndomain = "real"\n{bound}\n')


def test_the_short_form_of_real() -> None:
    name, column = parse_private("Blood sugar:real")
    assert (name, column.state, column.known().state) == ("Blood sugar", "real", "real")
    with pytest.raises(ConfigError, match="a range has ends, and real has none"):
        parse_private("pay:0..9:real")


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        ("values 0,1", ["min = 0", "max = 1", "step = 1"]),
        ("0,1", ["min = 0", "max = 1", "step = 1"]),
        ("0-1", ["min = 0", "max = 1"]),
        ("0..1", ["min = 0", "max = 1"]),
        ("values 0\nmaybe\n0,1,5\n0..1:1", ["min = 0", "max = 1", "step = 1"]),
        ("nothing", ['domain = "?"', "# min = ...", "# max = ...", "# step = ..."]),
    ],
)
def test_what_is_known_of_numbers_is_read_as_numbers(tmp_path: Path, answer: str, written: list[str]) -> None:
    (tmp_path / "h.csv").write_text("name,hiv\nAnn,0\nBob,1\nCyd,1\nDan,0\n", encoding="utf-8")
    out = tmp_path / "k.toml"
    done = CliRunner().invoke(
        app, ["init", str(tmp_path / "h.csv"), "--out", str(out)], input=f"name\nhiv\nnone\n{answer}\n"
    )
    assert done.exit_code == 0, done.output
    lines = out.read_text(encoding="utf-8").splitlines()
    at = lines.index('kind = "integer"')
    assert lines[at + 1 : at + 1 + len(written)] == written
    assert done.output.count("is not understood: hiv holds numbers, so write min..max") == (
        2 if "maybe" in answer else 0
    )


def test_input_that_ends_before_the_questions_is_said(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("name,hiv\nAnn,0\nBob,1\n", encoding="utf-8")
    out = tmp_path / "k.toml"
    done = CliRunner().invoke(app, ["init", str(tmp_path / "h.csv"), "--out", str(out)], input="name\n")
    assert done.exit_code == 2
    assert "the input ended before the questions did, so nothing was written" in " ".join(done.output.split())
    assert not out.exists()


def test_a_log_says_what_its_tables_are_called(folder: Path) -> None:
    """Names are proposed as comments: until a person takes the # away, nothing is judged or passed over by them."""
    (folder / "names.sql").write_text(
        'SELECT SUM("Blood sugar") FROM hr.patients_v;\nSELECT COUNT(*) FROM orders;\n'
        'SELECT AVG("Blood sugar") FROM people;\n'
    )
    done = call_command("init", "people.csv", "--yes", "--log", "names.sql")
    assert done.exit_code == 0, done.output
    assert "The log names other tables: hr.patients_v, orders." in done.output
    text = (folder / "keyhole.toml").read_text()
    assert '# names = ["hr.patients_v"]' in text
    assert '# ignore = ["orders"]' in text
    assert Config.load(folder / "keyhole.toml").source.names == ()
    audited = call_command("audit", "names.sql")
    assert "2 of 3 statements were not judged" in audited.output
    (folder / "keyhole.toml").write_text(text.replace("# names", "names").replace("# ignore", "ignore"))
    audited = call_command("audit", "names.sql")
    assert "not judged" not in audited.output
    assert "Nobody of 6 people is exposed by 2 statements" in audited.output


def test_a_log_of_this_table_alone_says_nothing(folder: Path) -> None:
    assert "other tables" not in call_command("init", "people.csv", "--yes", "--log", "log.sql").output
    assert "# names" not in (folder / "keyhole.toml").read_text()
