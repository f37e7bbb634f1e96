"""The one door: what is read, what is guessed, what can be reached, and what a fault may say."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from keyhole.auditing.online.online import OnlineAuditor
from keyhole.config import Config
from keyhole.config.settings import settings
from keyhole.datasets import Table, Use, open_table
from keyhole.errors import ConfigError, DataError
from keyhole.model.predicate import Comparison, IsNull, Opaque, make_not
from keyhole.model.query import Aggregate, Query, Term
from keyhole.model.schema import Kind

CSV = "name,dept,pay\nAnn,F,40\nBob,F,41\nCyd,F,45\n"


def opened(
    folder: Path, text: str, use: Use, private: str = "", public: str = "", name: str = "t.csv", view: str | None = None
) -> Table:
    (folder / name).write_text(text, encoding="utf-8")
    toml = f'[columns]\nid = ["name"]\n[columns.private.pay]\n{private}\n' + (
        f"[columns.public.dept]\n{public}" if public else ""
    )
    return open_table(settings(Config.parse(toml), data=folder / name, view=view), use)


def kinds(table: Table) -> dict[str, Kind]:
    return {c.name: c.kind for c in table.roster.schema.columns}


@pytest.mark.parametrize("use", [Use.AUDIT, Use.WATCH, Use.ANSWER])
def test_a_roster_has_no_secret_to_reach(tmp_path: Path, use: Use) -> None:
    table = opened(tmp_path, CSV, use)
    rosters = [table.roster] + ([table.source, table.source.roster] if table.source is not None else [])
    if table.source is not None:
        assert table.source.connection.execute("SELECT max(pay) FROM everything").fetchall()  # it is there, elsewhere
    file = tmp_path / "t.csv"
    for roster in rosters:
        for text in (
            "(SELECT max(pay) FROM secrets) > 44",
            "(SELECT max(pay) FROM temp.secrets) > 44",
            f"(SELECT max(pay) FROM read_csv('{file}')) > 44",
            f"(SELECT count(*) FROM '{file}') > 0",
            "(SELECT max(pay) FROM frame) > 44",
        ):
            query = Query(Aggregate.SUM, (Term(None, Opaque(text, frozenset())),))
            with pytest.raises(duckdb.Error):
                roster.support(query)
            assert roster.fault(Opaque(text, frozenset()), None) is not None
        for text in (f"ATTACH '{file}.duckdb' AS other", "SET enable_external_access = true", "SET threads = 1"):
            with pytest.raises(duckdb.Error):
                roster._con.execute(text)


def test_rosters_stay_useful_when_closed(tmp_path: Path) -> None:
    roster = opened(tmp_path, CSV, Use.AUDIT).roster
    assert roster.support(Query(Aggregate.SUM, (Term("pay", Comparison("name", ">", "Ann")),))).tolist() == [1, 2]
    assert roster.atoms([Comparison("name", "=", "Bob")], ()).K == 2


def test_rosters_of_one_process_do_not_see_each_other(tmp_path: Path) -> None:
    one, two = (opened(tmp_path, text, Use.AUDIT, name=f"{i}.csv").roster for i, text in enumerate((CSV, CSV[:23])))
    everybody = Query(Aggregate.SUM, (Term("pay", Comparison("name", ">=", "A")),))
    assert (one.support(everybody).tolist(), two.support(everybody).tolist()) == ([0, 1, 2], [0])
    for roster in (one, two):  # what is in the engine for all of them: nothing
        found = roster._con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
        assert found == []
        assert len(roster._con.execute("SELECT table_name FROM duckdb_tables()").fetchall()) == 1


def test_kinds_of_a_text_file_are_assumed_offline_only(tmp_path: Path) -> None:
    whole = opened(tmp_path, CSV, Use.AUDIT)
    assert (kinds(whole)["pay"], dict(whole.assumed)) == (Kind.INTEGER, {"pay": "integer"})
    declared = opened(tmp_path, CSV, Use.AUDIT, private='kind = "decimal"')
    assert (kinds(declared)["pay"], dict(declared.assumed)) == (Kind.DECIMAL, {})
    frame = pa.table({"name": ["Ann"], "pay": [1.5]})
    typed = open_table(settings(data=frame, private="pay"), Use.WATCH)
    assert (kinds(typed)["pay"], dict(typed.assumed)) == (Kind.DOUBLE, {})


@pytest.mark.parametrize(
    ("declaration", "kind"),
    [
        ("", Kind.DECIMAL),
        ("min = 0\nmax = 99", Kind.INTEGER),
        ("min = 0\nmax = 99\nstep = 1", Kind.INTEGER),
        ("min = 0.0\nmax = 99.0", Kind.DECIMAL),
        ("min = 0\nmax = 99\nstep = 0.5", Kind.DECIMAL),
        ('values = ["40", "41", "45"]', Kind.TEXT),
        ('kind = "double"', Kind.DOUBLE),
        ('kind = "text"', Kind.TEXT),
    ],
)
@pytest.mark.parametrize("use", [Use.WATCH, Use.ANSWER])
def test_kinds_are_declared_or_implied_where_others_can_look(
    tmp_path: Path, declaration: str, kind: Kind, use: Use
) -> None:
    assert kinds(opened(tmp_path, CSV, use, declaration))["pay"] is kind
    if use is Use.WATCH:
        without = "name,dept\nAnn,F\nBob,F\nCyd,F\n"
        assert kinds(opened(tmp_path, without, use, declaration))["pay"] is kind


def test_no_decision_depends_on_how_a_private_value_is_written(tmp_path: Path) -> None:
    """40 or 40.5: the file's kinds would differ, and with them what may be asked."""
    said = []
    for pay in ("40", "40.5"):
        roster = opened(tmp_path, CSV.replace("40", pay), Use.WATCH).roster
        auditor = OnlineAuditor(roster)
        asked = [
            "SELECT SUM(CAST(pay AS BIGINT)) FROM t",
            "SELECT SUM(pay) FROM t",
            "SELECT SUM(pay) FROM t WHERE pay > 1",
        ]
        said.append([(v.verdict, v.reason) for v in map(auditor.admit, asked)])
    assert said[0] == said[1]


def test_declared_types_are_cast_to(tmp_path: Path) -> None:
    table = opened(tmp_path, CSV, Use.AUDIT, public='values = ["F", "M"]')
    assert kinds(table)["dept"] is Kind.TEXT
    assert table.roster.support(Query(Aggregate.SUM, (Term(None, Comparison("dept", "=", "F")),))).tolist() == [0, 1, 2]
    text = CSV.replace("F", "001")
    table = opened(tmp_path, text, Use.AUDIT, public='kind = "text"')
    assert table.roster.support(Query(Aggregate.SUM, (Term(None, Comparison("dept", "=", "001")),))).tolist() == [
        0,
        1,
        2,
    ]
    table = opened(tmp_path, text, Use.AUDIT, public='kind = "integer"')
    assert table.roster.support(Query(Aggregate.SUM, (Term(None, Comparison("dept", "=", 1)),))).tolist() == [0, 1, 2]


def test_decimals_are_read_as_they_are_written(tmp_path: Path) -> None:
    text = CSV.replace("40", "40.123456789012345678").replace("41", "-0.1")
    table = opened(tmp_path, text, Use.AUDIT, private='kind = "decimal"')
    total = table.whole.evaluate(Query(Aggregate.SUM, (Term("pay"),)))
    assert str(total) == "85.023456789012345678"
    rough = opened(tmp_path, CSV.replace("40", "4e1"), Use.AUDIT, private='kind = "decimal"')
    assert rough.whole.evaluate(Query(Aggregate.SUM, (Term("pay"),))) == 126


@pytest.mark.parametrize(
    ("private", "bad", "word"),
    [
        ('kind = "integer"', "40.5", "an integer"),
        ('kind = "integer"', "9999999999999999999999999999999999999999", "an integer"),
        ('kind = "decimal"', "lots", "a decimal number"),
        ("", "lots", "a decimal number"),
        ('kind = "date"', "40", "a date"),
        ('kind = "boolean"', "maybe", "true or false"),
    ],
)
def test_what_does_not_fit_is_a_fault_at_load(tmp_path: Path, private: str, bad: str, word: str) -> None:
    same = {"date": "2020-01-01", "boolean": "true"}
    good = next((v for k, v in same.items() if k in private), "41")
    text = f"name,pay\nAnn,{good}\nBob,{bad}\n"
    with pytest.raises(DataError, match=rf"column 'pay', row 2: its value is not {word}"):
        opened(tmp_path, text, Use.WATCH, private)
    # where answers are private, a fault would be an answer: another number is rounded, and what is none is NULL
    table = opened(tmp_path, text, Use.ANSWER, private)
    held = 2 if word == "an integer" else 1
    assert table.whole.evaluate(Query(Aggregate.SUM, (Term(None, make_not(IsNull("pay"))),))) == held


def test_json_is_read_like_csv(tmp_path: Path) -> None:
    text = '[{"name": "Ann", "dept": "001", "pay": 40}, {"name": "Bob", "dept": "2", "pay": 40.25}]'
    table = opened(tmp_path, text, Use.ANSWER, private='kind = "decimal"', public='kind = "text"', name="t.json")
    assert table.whole.evaluate(Query(Aggregate.SUM, (Term("pay"),))) == Decimal("80.25")


def test_the_attacker_does_not_read_private_columns(tmp_path: Path) -> None:
    table = opened(tmp_path, f"{CSV}Dan,F,\n", Use.ATTACK)
    assert (table.left_out, table.source, table.seal) == (("pay",), None, None)
    assert table.roster.has_value("pay").all()  # not even who has none


def test_paths_and_missing_data() -> None:
    with pytest.raises(ConfigError, match="no data"):
        open_table(settings(private="pay"), Use.WATCH)
    with pytest.raises(DataError, match="there is no file") as error:
        open_table(settings(data="nowhere.csv", private="pay"), Use.ANSWER)
    assert error.value.told == str(error.value)
