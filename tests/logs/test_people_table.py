"""Names in FROM: which statements of a log are about the people's table, and which are not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import keyhole
from keyhole.api.session import open_watch
from keyhole.cli import app
from keyhole.config import Config
from keyhole.config.settings import settings, with_private
from keyhole.logs.open import as_log
from keyhole.logs.people_table import keep_people_table
from keyhole.model.schema import Related, Schema
from keyhole.sessions.open import AuditTerms
from keyhole.sql.statements.table_names import list_tables_read

ROWS = [("Ann", "a", 10), ("Bob", "a", 20), ("Cyd", "b", 30), ("Dan", "b", 41)]
ALL, NOT_ANN = "SELECT SUM(pay) FROM {}", "SELECT SUM(pay) FROM {} WHERE name <> 'Ann'"
SETTINGS = '[source]\ndata = "staff.csv"\n{}[columns]\nid = ["name"]\n[columns.private.pay]\ndomain = "real"\n'
ONLINE = SETTINGS.replace('domain = "real"', "min = 0") + '[online]\nexact_above = 1\n[book]\npath = "b.keyhole"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"{name},{team},{pay}\n" for name, team, pay in ROWS)
    (tmp_path / "staff.csv").write_text("name,team,pay\n" + rows, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(*statements: str, source: str = "", table: str | None = None) -> keyhole.Verdict:
    config = Config.parse(SETTINGS.format(source))
    return keyhole.audit(list(statements), config=config, table=table)


@pytest.mark.usefixtures("folder")
class TestAudit:
    def test_a_second_table_exposes_nobody(self) -> None:
        """The sums of two years, read as one table, told Ann's pay."""
        found = judged(ALL.format("staff"), NOT_ANN.format("staff_2024"))
        assert (found.exit_code, [f.who for f in found]) == (3, [])
        assert found.unjudged[0].number == "2"
        assert 'names = ["staff_2024"] under [source]' in found.unjudged[0].reason
        assert 'ignore = ["staff_2024"]' in found.unjudged[0].reason

    def test_the_only_other_name_is_judged_and_leaves_a_doubt(self) -> None:
        found = judged(ALL.format("employees"))
        assert (found.exit_code, found.complete) == (3, False)
        assert 'names = ["employees"]' in found.text()
        found = judged(ALL.format("employees"), NOT_ANN.format("hr.Employees"))
        assert (found.exit_code, [f.who for f in found]) == (1, ["Ann"])
        assert 'the log reads "employees"' in found.text()

    @pytest.mark.parametrize("name", ["staff", "STAFF", "hr.staff", "db.hr.Staff", '"staff"'])
    def test_case_and_schema_do_not_count(self, name: str) -> None:
        assert judged(ALL.format(name)).exit_code == 0
        assert [f.who for f in judged(ALL.format("staff"), NOT_ANN.format(name))] == ["Ann"]

    @pytest.mark.parametrize(
        ("source", "table"),
        [
            ('names = ["employees"]\n', None),
            ('names = ["hr.EMPLOYEES"]\n', None),
            ('table = "employees"\n', None),
            ("", "employees"),
        ],
    )
    def test_a_name_that_was_said(self, source: str, table: str | None) -> None:
        found = judged(ALL.format("hr.employees"), source=source, table=table)
        assert (found.exit_code, found.unjudged) == (0, ())
        if table is None and "names" in source:
            both = judged(ALL.format("staff"), NOT_ANN.format("hr.employees"), source=source)
            assert [f.who for f in both] == ["Ann"]

    def test_with_a_table_that_was_said_no_other_name_is_taken_for_it(self) -> None:
        assert judged(ALL.format("employees"), table="staff").exit_code == 3
        assert not judged(ALL.format("employees"), NOT_ANN.format("employees"), table="staff").findings

    def test_one_name_in_two_schemas_is_not_one_table(self) -> None:
        found = judged(ALL.format("hr.staff"), NOT_ANN.format("archive.staff"))
        assert (found.exit_code, len(found.unjudged)) == (3, 2)
        found = judged(ALL.format("hr.staff"), NOT_ANN.format("archive.staff"), source='names = ["hr.staff"]\n')
        assert (found.exit_code, [u.number for u in found.unjudged]) == (3, ["2"])
        assert judged(ALL.format("hr.staff"), ALL.format("db.hr.staff"), ALL.format("staff")).exit_code == 0

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT SUM(pay) FROM staff WHERE team IN (SELECT team FROM teams)",
            "SELECT SUM(pay) FROM (SELECT * FROM staff_2024) s WHERE name <> 'Ann'",
            "WITH s AS (SELECT * FROM staff_2024) SELECT SUM(pay) FROM s WHERE name <> 'Ann'",
            "SELECT SUM(pay) FROM staff UNION ALL SELECT SUM(pay) FROM staff_2024",
            "SELECT SUM(pay) - (SELECT SUM(pay) FROM staff_2024) FROM staff",
            "SELECT SUM(s.pay) FROM staff s JOIN bonus b ON b.name = s.name",
        ],
    )
    def test_other_names_inside_a_statement(self, sql: str) -> None:
        found = judged(ALL.format("staff"), sql)
        assert (found.exit_code, [f.who for f in found]) == (3, [])
        assert [u.number for u in found.unjudged] == ["2"]

    def test_ignored_tables(self) -> None:
        ignore = 'ignore = ["orders", "sales.*"]\n'
        log = [
            ALL.format("staff"),
            "SELECT COUNT(*) FROM orders",
            "SELECT SUM(x) FROM sales.items JOIN orders USING (k)",
        ]
        found = judged(*log, source=ignore)
        assert (found.exit_code, found.unjudged, found.refused) == (0, (), ())
        assert judged(*log).exit_code == 3
        joined = "SELECT SUM(pay) FROM staff JOIN orders USING (name)"
        found = judged(*log, joined, source=ignore)
        assert (found.exit_code, [u.number for u in found.unjudged]) == (3, ["4"])
        assert "which is ignored" in found.unjudged[0].reason
        found = judged(ALL.format("employees"), *log[1:], source=ignore)  # it is the only name that counts
        assert (found.exit_code, len(found.unjudged)) == (3, 0)
        assert (
            judged(ALL.format("staff"), "SELECT f(x) FROM orders", source=ignore).exit_code == 3
        )  # f may look anywhere

    def test_the_table_itself_cannot_be_ignored(self) -> None:
        found = judged(ALL.format("staff"), NOT_ANN.format("staff"), source='ignore = ["staff"]\n')
        assert [f.who for f in found] == ["Ann"]

    def test_the_name_of_the_table_in_an_ignored_schema_is_ignored(self) -> None:
        """It was read as the people's table, though somebody had said that nothing about them is in that schema."""
        ann = "SELECT SUM(pay) FROM sales.staff WHERE name = 'Ann'"
        for ignore in ('ignore = ["sales.*"]\n', 'ignore = ["Sales.STAFF"]\n'):
            found = judged(ALL.format("staff"), ann, source=ignore)
            assert (found.exit_code, [f.who for f in found]) == (0, [])
            found = judged(ALL.format("hr.staff"), ann, source=ignore)
            assert (found.exit_code, [f.who for f in found]) == (0, [])
            assert judged(ann, source=ignore).exit_code == 3  # nothing is judged
            found = judged(ALL.format("staff"), ann, source=ignore + 'names = ["sales.staff"]\n')
            assert [f.who for f in found] == ["Ann"]
        both = "SELECT SUM(a.pay) FROM staff a JOIN sales.staff b ON a.name = b.name"
        assert [u.number for u in judged(ALL.format("staff"), both, source=ignore).unjudged] == ["2"]

    def test_a_frame_has_the_name_that_the_log_gives_it(self) -> None:
        frame = pa.table({"name": [r[0] for r in ROWS], "pay": [r[2] for r in ROWS]})
        given = {"data": frame, "private": "pay:real", "id": "name"}
        assert keyhole.audit([ALL.format("anything")], **given).exit_code == 0
        found = keyhole.audit([ALL.format("a"), NOT_ANN.format("b")], **given)
        assert (found.exit_code, len(found.unjudged)) == (3, 2)

    def test_each_analyst_is_judged_by_the_names_of_the_whole_log(self) -> None:
        lines = [{"sql": ALL.format("staff"), "analyst": "a"}, {"sql": ALL.format("old"), "analyst": "b"}]
        found = keyhole.audit(lines, config=Config.parse(SETTINGS.format("")), by="analyst")
        assert {who: view.exit_code for who, view in found.views.items()} == {"a": 0, "b": 3}


@pytest.mark.usefixtures("folder")
def test_an_attack_leaves_out_what_is_about_another_table() -> None:
    asked = [(ALL.format("staff"), 101), (NOT_ANN.format("staff_2024"), 11)]
    found = keyhole.attack(asked, config=Config.parse(SETTINGS.format("")))
    assert any("statement 2 is not used" in said for said in found.warnings)
    assert abs(found.estimates().sum() - 101) < 1e-6


def test_online_every_other_name_is_refused(folder: Path) -> None:
    """A question about employees was answered about staff, and counted as one of its answers."""
    (folder / "keyhole.toml").write_text(ONLINE.format('names = ["hr.people"]\n'))
    session, _ = open_watch(with_private(settings("keyhole.toml")), "keyhole.toml", AuditTerms())
    with session:
        said = [session.admit(ALL.format(name)) for name in ("employees", "people", "hr.people", "staff", "hr.staff")]
    assert [each.verdict for each in said] == ["refused", "refused", "allow", "allow", "allow"]
    assert "the table here is staff" in said[0].reason


def test_what_is_loaded_or_watched_may_be_ignored(folder: Path) -> None:
    (folder / "keyhole.toml").write_text(ONLINE.format('ignore = ["orders"]\n'))
    (folder / "log.sql").write_text(f"{ALL.format('staff')};\nSELECT COUNT(*) FROM orders;\nSELECT 1 FROM items;\n")
    run = CliRunner()
    done = run.invoke(app, ["ask", "--decide-only", "-c", "keyhole.toml", "--load", "log.sql"], input="")
    assert done.exit_code == 2
    assert "Q3" in done.stderr
    assert "Q2" not in done.stderr
    (folder / "keyhole.toml").write_text(ONLINE.format('ignore = ["orders", "items"]\n'))
    done = run.invoke(app, ["ask", "--decide-only", "-c", "keyhole.toml", "--load", "log.sql"], input="")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("sql", "dialect", "names"),
    [
        ("SELECT 1", "duckdb", []),
        ("SELECT SUM(x) FROM T", "duckdb", ["t"]),
        ("SELECT SUM(x) FROM `p.d.T` WHERE a = 'b'", "bigquery", ["p.d.t"]),
        ("SELECT SUM(x) FROM [hr].[T] WITH (NOLOCK)", "tsql", ["hr.t"]),
        ("SELECT SUM(x) FROM a, b WHERE d > DATE '2020-01-01' AND 1 IN (SELECT 1 FROM c)", "", ["a", "b", "c"]),
        ("WITH t AS (SELECT * FROM t) SELECT SUM(x) FROM t", "duckdb", ["t"]),
        ("SELECT SUM(x) FROM read_csv('a.csv')", "duckdb", []),
        ("this is not SQL (", "duckdb", []),
        ('SELECT SUM(x) FROM "t 2024" WHERE a = 3', "duckdb", ["t 2024"]),
        ("SELECT SUM(x) FROM `t 2025` WHERE a = 'it''s'", "mysql", ["t 2025"]),
        ("SELECT 1 -- it's\n FROM a -- it's", "duckdb", ["a"]),
        ("SELECT $$it's$$ FROM a WHERE b = $$it's$$", "postgres", ["a"]),
        ("SELECT SUM(x) FROM my-project-1.d.t", "bigquery", ["my-project-1.d.t"]),
    ],
)  # fmt: skip
def test_the_tables_that_a_statement_reads(sql: str, dialect: str, names: list[str]) -> None:
    assert sorted(".".join(name) for name in list_tables_read(sql, dialect)) == names


def test_declared_tables_are_known_and_the_engines_own_do_not_count() -> None:
    schema = Schema("staff", (), related=(Related("dept", (), (("dept", "dept"),), dimension=True),))
    log = as_log([ALL.format("employees"), "SELECT * FROM pg_catalog.pg_class", "SELECT COUNT(*) FROM dept"])
    kept = keep_people_table(log, schema)
    assert [line.number for line in kept.log.lines] == [1, 2, 3]
    assert '"employees"' in kept.doubt
