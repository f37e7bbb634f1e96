"""Columns whose role is a guess of `keyhole init`: judged both ways, as public and as private, and no all-clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.commands import call_command

import keyhole
from keyhole.api.session import open_watch
from keyhole.auditing.examine import roles_both_ways
from keyhole.checker import Outcome, replay
from keyhole.config import Config
from keyhole.config.settings import settings, with_private
from keyhole.errors import ConfigError
from keyhole.logs.open import as_log
from keyhole.sessions.open import AuditTerms

WARD = """patient_id,full name,zip,kx,lz,charges
1,Ann Lee,30301,flu,4,900
2,Bob Ray,30301,hiv,9,1500
3,Cyd Orr,30302,flu,3,700
4,Dan Fox,30302,asthma,11,2100
5,Eve Hall,30303,gout,2,400
"""
ALL = "SELECT SUM(charges) FROM ward"
STAY = "SELECT AVG(lz) FROM ward WHERE zip = 30303"
BY_DIAGNOSIS = "SELECT kx, COUNT(*) FROM ward WHERE zip = 30303 GROUP BY kx"
NOT_DAN = "SELECT SUM(charges) FROM ward WHERE \"full name\" <> 'Dan Fox'"


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ward.csv").write_text(WARD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert call_command("init", "ward.csv", "--yes").exit_code == 0
    return tmp_path / "keyhole.toml"


def judged(*log: str) -> keyhole.Verdict:
    return keyhole.audit(list(log), config="keyhole.toml")


def reviewed(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace("reviewed = false", "reviewed = true"), encoding="utf-8")


class TestInit:
    def test_diagnosis_stay_and_full_name_are_not_reviewed(self, ward: Path) -> None:
        columns = Config.load(ward).columns
        assert set(columns.unreviewed) == {"full name", "kx", "lz"}
        assert columns.private["charges"].reviewed
        text = ward.read_text(encoding="utf-8")
        assert not [word for word in ("Ann Lee", "hiv", "gout") if word in text]  # they may be private
        reviewed(ward)
        assert Config.load(ward).columns.unreviewed == ()

    def test_what_is_printed(self, ward: Path) -> None:
        told = call_command("init", "ward.csv", "--yes", "--force").output
        assert "Not reviewed: full name, kx, lz: their roles are guesses." in told
        data = json.loads(call_command("init", "ward.csv", "--yes", "--force", "--format", "json").output)
        assert [c["column"] for c in data["columns"] if not c["reviewed"]] == ["full name", "kx", "lz"]
        call_command("init", "ward.csv", "--yes", "--force", "--private", "kx", "--hidden", "full name")
        assert Config.load(ward).columns.unreviewed == ("lz",)

    def test_a_column_that_a_question_or_an_answer_names_is_reviewed(self, ward: Path) -> None:
        assert call_command("init", "ward.csv", "--force", stdin="\n\n\n\n").exit_code == 0
        assert set(Config.load(ward).columns.unreviewed) == {"full name", "kx", "lz"}
        call_command("init", "ward.csv", "--force", stdin="\ncharges, lz\n\n\n\n")
        assert set(Config.load(ward).columns.unreviewed) == {"full name", "kx"}

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_a_measured_number_is_a_guess_too(self, suffix: str, ward: Path) -> None:
        import duckdb

        with duckdb.connect() as con:
            con.execute(f"COPY (SELECT *, lz + 0.5 AS x FROM 'ward.csv') TO 'more.{suffix}'")
        call_command("init", f"more.{suffix}", "--yes", "--force")
        columns = Config.load(ward).columns
        assert "x" in columns.private
        assert "x" in columns.unreviewed
        assert judged("SELECT COUNT(*) FROM more").exit_code == 3


@pytest.mark.usefixtures("ward")
class TestAudit:
    def test_a_stay_that_an_answer_tells_is_exposed(self) -> None:
        found = judged(STAY)
        assert (found.exit_code, [(f.record["patient_id"], f.column) for f in found]) == (1, [(5, "lz")])
        assert "patient_id 5  lz" in found.text()
        assert "as public and as private" in found.text()

    def test_a_diagnosis_that_a_count_tells_is_exposed(self) -> None:
        found = judged(BY_DIAGNOSIS)
        assert (found.exit_code, [(f.record["patient_id"], f.column, f.value) for f in found.exposed]) == (
            1,
            [(5, "kx", "gout")],
        )

    def test_a_full_name_in_a_condition_is_known(self) -> None:
        found = judged(ALL, NOT_DAN)
        assert [(f.record["patient_id"], f.column) for f in found.exposed] == [(4, "charges")]

    def test_others_are_known_where_one_is_protected(self) -> None:
        """Who has gout is known, if the stay is what must not be."""
        found = judged("SELECT SUM(lz) FROM ward WHERE kx = 'gout'")
        assert (5, "lz") in [(f.record["patient_id"], f.column) for f in found.exposed]

    def test_no_all_clear_until_somebody_has_looked(self, ward: Path) -> None:
        found = judged(ALL)
        assert (found.exit_code, found.complete, len(found)) == (3, False, 0)
        line = "the roles of full name, kx, lz are guesses, judged both ways, as public and as private"
        assert f"this is not an all-clear, because {line}" in found.text()
        both = judged(ALL, "SELECT nonsense FROM ward")
        assert (both.exit_code, both.text().count(line)) == (3, 1)  # another gap comes first
        reviewed(ward)
        assert judged(ALL).exit_code == 0
        assert judged(STAY).exit_code == 0  # somebody said that the stay is public

    def test_calling_a_column_private_hides_nobody(self, tmp_path: Path) -> None:
        """As private alone, the place would be no way to point at somebody."""
        rows = "".join(f"p{i},{10000 + 7 * i},{100 * i}\n" for i in range(60))
        (tmp_path / "staff.csv").write_text(f"name,plz,pay\n{rows}", encoding="utf-8")
        call_command("init", "staff.csv", "--yes", "--force")
        config = Config.load("keyhole.toml")
        assert "plz" in config.columns.private
        log = ["SELECT SUM(pay) FROM staff", "SELECT SUM(pay) FROM staff WHERE plz <> 10021"]
        found = judged(*log)
        assert (found.exit_code, [(f.who, f.column) for f in found.exposed]) == (1, [("p3", "pay")])
        reviewed(tmp_path / "keyhole.toml")
        assert judged(*log).exit_code == 0  # nobody knows whose place it is: all may be exchanged

    def test_whoever_names_a_role_has_looked(self) -> None:
        given = {"config": "keyhole.toml", "private": ["charges", "lz"], "hidden": ["kx", "full name"]}
        assert keyhole.audit([ALL], **given).exit_code == 0
        found = keyhole.audit([ALL], config="keyhole.toml", private=["lz"])
        assert "the roles of full name, kx are guesses" in found.text()

    def test_nothing_is_private_but_by_a_guess(self, ward: Path) -> None:
        text = ward.read_text(encoding="utf-8").replace("[columns.private.charges]", "[columns.public.charges]")
        text = text.replace('domain = "?"\n', "reviewed = true\n")
        ward.write_text(text, encoding="utf-8")
        found = judged(STAY)
        assert (found.exit_code, [(f.record["patient_id"], f.column) for f in found]) == (1, [(5, "lz")])
        reviewed(ward)
        with pytest.raises(ConfigError, match="no column is private"):
            judged(STAY)

    def test_each_analyst_is_judged_both_ways(self) -> None:
        log = [{"sql": ALL, "analyst": "a"}, {"sql": STAY, "analyst": "b"}]
        found = keyhole.audit(log, config="keyhole.toml", by="analyst")
        assert {who: (view.exit_code, len(view)) for who, view in found.views.items()} == {"a": (3, 0), "b": (1, 1)}

    def test_facts_hold_where_they_can(self, ward: Path) -> None:
        facts = '[[facts]]\nwhere = "kx = \'flu\'"\ncolumn = "charges"\nmin = 0\n'
        ward.write_text(ward.read_text(encoding="utf-8") + facts, encoding="utf-8")
        found = judged(BY_DIAGNOSIS, STAY)
        assert {(f.record["patient_id"], f.column) for f in found.exposed} == {(5, "kx"), (5, "lz")}

    def test_only_columns_that_the_log_names_are_judged_again(self) -> None:
        given = settings("keyhole.toml")
        private = {tuple(roles.columns.private) for roles in roles_both_ways(given, as_log([ALL, STAY]))}
        assert private == {("charges", "lz")}
        assert roles_both_ways(given, as_log([ALL])) == []
        assert len(roles_both_ways(given, as_log(["SELECT * FROM ward"]))) == 3

    def test_a_full_name_that_everybody_has_alone(self, tmp_path: Path) -> None:
        """It was hidden, so that a statement that names it was refused, and what it tells was not found."""
        rows = "".join(f"{i},Ann {chr(97 + i)}.,{i % 3},{100 * i}\n" for i in range(20))
        (tmp_path / "staff.csv").write_text(f"person_id,full name,team,pay\n{rows}", encoding="utf-8")
        call_command("init", "staff.csv", "--yes", "--force")
        assert "full name" in Config.load("keyhole.toml").columns.unreviewed
        found = judged("SELECT SUM(pay) FROM staff", "SELECT SUM(pay) FROM staff WHERE \"full name\" <> 'Ann d.'")
        assert [(f.record["person_id"], f.column) for f in found.exposed] == [(3, "pay")]

    def test_a_diagnosis_that_another_table_is_joined_on(self, tmp_path: Path) -> None:
        """A key was public because nothing can be joined on a secret."""
        folder = tmp_path / "hospital"
        folder.mkdir()
        (folder / "patients.csv").write_text("patient,zip,kx_code,cost\nAnn,1,A,3\nBob,1,B,5\nCyd,2,A,4\nDan,3,C,2\n")
        (folder / "codes.csv").write_text("kx_code,title\nA,flu\nB,hiv\nC,gout\n")
        call_command("init", "hospital", "--yes", "--force")
        assert Config.load("keyhole.toml").columns.unreviewed == ("kx_code",)
        joined = "SELECT SUM(cost) FROM patients p JOIN codes c ON c.kx_code = p.kx_code WHERE c.title = 'flu'"
        counted = "SELECT COUNT(*) FROM patients WHERE kx_code = 'C' AND zip = 3"
        found = judged(joined, counted, "SELECT COUNT(*) FROM hr.codes")
        assert [(f.who, f.column) for f in found.exposed] == [("Dan", "kx_code")]


@pytest.mark.usefixtures("ward")
class TestElsewhere:
    def test_proofs_are_replayed_under_their_roles(self) -> None:
        verdict = judged(ALL, NOT_DAN, STAY, BY_DIAGNOSIS)
        text = verdict.dumps()
        found = replay(text, Path("ward.csv"))
        assert (len(found.checked), len(found.of(Outcome.HOLDS)), found.exit_code) == (3, 3, 0)
        data = json.loads(text)
        assert [(e["column"], e.get("private")) for e in data["exposed"]] == [
            ("charges", None),
            ("kx", ["kx", "charges"]),
            ("lz", ["lz", "charges"]),
        ]
        for entry in (*data["exposed"], *data["intervals"]):
            if "private" in entry:
                entry["private"] = ["charges"]
        assert replay(json.dumps(data), Path("ward.csv")).exit_code == 1

    def test_verify_reads_the_settings(self) -> None:
        Path("log.sql").write_text(";\n".join((ALL, NOT_DAN, STAY)) + ";\n", encoding="utf-8")
        done = call_command("audit", "log.sql", "-c", "keyhole.toml", "--format", "json", "--out", "verdict.json")
        assert done.exit_code == 1
        assert call_command("verify", "verdict.json", "-c", "keyhole.toml", "--log", "log.sql").exit_code == 0

    def test_advice_withholds_what_tells_a_guessed_column(self) -> None:
        Path("log.sql").write_text(f"{ALL};\n{STAY};\n", encoding="utf-8")
        told = call_command("audit", "log.sql", "-c", "keyhole.toml", "--advise").output
        assert "Withhold 1 of 2 statements" in told
        assert f"Q2: {STAY}" in told

    @pytest.mark.parametrize("form", ["sarif", "junit", "html"])
    def test_every_form_of_output_has_it(self, form: str) -> None:
        Path("log.sql").write_text(f"{ALL};\n{STAY};\n", encoding="utf-8")
        done = call_command("audit", "log.sql", "-c", "keyhole.toml", "--format", form, "--out", "out")
        assert done.exit_code == 1
        assert "lz" in Path("out").read_text(encoding="utf-8")

    def test_before_an_answer_a_guessed_column_is_refused(self) -> None:
        given = with_private(settings("keyhole.toml", private="charges:0..9000"))
        session, _ = open_watch(given, None, AuditTerms())
        with session:
            decided = [session.admit(sql) for sql in (STAY, BY_DIAGNOSIS, NOT_DAN, ALL)]
        assert [each.verdict for each in decided[:3]] == ["refused"] * 3
        assert "nobody has reviewed the role of column lz" in decided[0].reason
        assert "reviewed" not in decided[3].reason


def test_a_public_column_may_say_no_more_than_that_it_was_reviewed() -> None:
    columns = Config.parse("[columns.public.kx]\nreviewed = true\n[columns.public.lz]\nreviewed = false\n").columns
    assert columns.unreviewed == ("lz",)
    with pytest.raises(ConfigError, match=r"write either values = \[...\] or min, max and width"):
        Config.parse("[columns.public.kx]\n")
