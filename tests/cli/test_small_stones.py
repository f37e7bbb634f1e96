"""Small stones that a newcomer stumbled over, each taken out of the way once."""

from __future__ import annotations

import inspect
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from tests.support.commands import call_command
from tests.support.files import write_files

import keyhole
from keyhole.cli.demo import LOG, PEOPLE
from keyhole.config import Config
from keyhole.errors import ConfigError, DataError, LogError

SUM = 'SELECT SUM("Blood sugar") FROM people'
BUT_ONE = f"{SUM} WHERE Name <> 'Jeremy Doe'"
SETTINGS = """
[source]
data = "people.csv"
[columns]
id = ["Name"]
[columns.private."Blood sugar"]
min = 3.0
max = 10.0
step = 0.1
[online]
exact_above = 2
[columns.public.Gender]
values = ["Male", "Female"]
"""
BUDGET = "[budget]\nepsilon = 8\naccuracy = 0.5\nanalysts = { ann = 4, bob = 4 }\n"


def test_numbers_among_values_are_sent_to_min_max_and_step() -> None:
    pay = Config.parse("[columns.private.pay]\nvalues = [0, 10, 5]").columns.private["pay"]
    assert (pay.min, pay.max, pay.step, pay.values) == (0, 10, 5, None)
    assert Config.parse('[columns.private.pay]\nvalues = ["0", "5"]').columns.private["pay"].values == ("0", "5")
    with pytest.raises(
        ConfigError, match=r"pay\.values: these numbers are not a list with even steps, so write min = 0"
    ):
        Config.parse("[columns.private.pay]\nvalues = [0, 5, 1]")
    with pytest.raises(ConfigError, match=r"pay\.values\.1: write text, not True"):
        Config.parse('[columns.private.pay]\nvalues = ["a", true]')
    assert Config.parse("[columns.public.ward]\nvalues = [0, 1]").columns.public["ward"].values == (0, 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path, {"people.csv": PEOPLE, "log.sql": LOG, "keyhole.toml": SETTINGS})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_ask_without_a_budget_names_no_option_that_it_lacks(folder: Path) -> None:
    (folder / "p.toml").write_text('[book]\npolicy = "private"\n' + SETTINGS)
    done = call_command("ask", "-c", "p.toml", "SELECT COUNT(*) FROM people")
    assert done.exit_code == 2
    assert "write epsilon = ... under [budget]" in done.output


def test_settings_in_the_folder_are_pointed_at(folder: Path) -> None:
    assert call_command("audit", "log.sql").exit_code == 1  # they are taken where no data is named
    assert "add -c keyhole.toml" in call_command("audit", "log.sql", "--data", "people.csv").output
    assert "add -c" not in call_command("audit", "log.sql", "-c", "nowhere.toml").output
    (folder / "keyhole.toml").unlink()
    assert "add -c" not in call_command("audit", "log.sql").output


def test_a_mistyped_book_is_not_mourned(folder: Path) -> None:
    assert call_command("ask", "-c", "keyhole.toml", SUM).exit_code == 0
    for verb in ("show", "verify", "export"):
        done = call_command("book", verb, "bok.keyhole")
        assert done.exit_code == 2
        assert "there is no book bok.keyhole: is the path right? In that folder: book.keyhole." in done.output
    assert not (folder / "bok.keyhole").exists()


def test_help_says_what_is_so() -> None:
    assert "budget.keyhole" not in call_command("ask", "--help").output
    told = " ".join(call_command("ask", "--help").output.split())
    assert "a private question costs a hundredth of the budget, without a delta a tenth" in told


def test_ask_explains_with_the_proof(folder: Path) -> None:
    done = call_command("ask", "-c", "keyhole.toml", "--explain", SUM, BUT_ONE)
    assert "exposed: Jeremy Doe's Blood sugar" in done.output
    assert "proof: Q1 - Q2 = Jeremy Doe's Blood sugar" in done.output
    plain = call_command("ask", "-c", "keyhole.toml", BUT_ONE)
    assert "exposed: " not in plain.output
    assert "proof" not in plain.output


def test_a_second_analyst_sees_what_counts_for_him(folder: Path) -> None:
    (folder / "b.toml").write_text(SETTINGS + BUDGET)
    women = "SELECT COUNT(*) FROM people WHERE Gender = 'Female'"
    first = call_command("ask", "-c", "b.toml", "--analyst", "ann", women).output
    assert "  free; " not in first
    price = first.partition("budget (")[2].partition(")")[0]
    quoted = call_command("ask", "-c", "b.toml", "--analyst", "bob", "--dry-run", women).output
    assert f"counts {price} for bob" in quoted
    second = call_command("ask", "-c", "b.toml", "--analyst", "bob", women).output
    assert f" (and {price} of the analyst's own share" in second
    third = call_command("ask", "-c", "b.toml", "--analyst", "bob", women).output
    assert "  free; " in third
    shown = call_command("book", "show", "book.keyhole").output
    assert f"spent, everybody together: {price}\n" in shown
    assert f"spent, bob: {price}\n" in shown
    assert ", which entry " in shown


def test_verify_says_a_reason_once(folder: Path) -> None:
    assert call_command("audit", "log.sql", "-c", "keyhole.toml", "--format", "json", "--out", "v.json").exit_code == 1
    (folder / "other.csv").write_text(PEOPLE + "Ann New,1,Male,4.0\n")
    done = call_command("verify", "v.json", "--data", "other.csv")
    assert done.exit_code == 3
    assert done.output.count("the verdict is about 6 records, the data has 7") == 1
    assert "(and 5 more, for the same reason)" in done.output


# --- Python ----------------------------------------------------------------------------------------------------------

STAFF = pd.DataFrame({"team": ["a", "a", "b"], "pay": [10.0, 20.0, 30.0]})
ASKED = [("SELECT SUM(pay) FROM t", 60), ("SELECT SUM(pay) FROM t WHERE team = 'b'", 30)]


def test_attack_has_a_signature_and_takes_the_truth_as_a_frame() -> None:
    assert "truth" in inspect.signature(keyhole.attack).parameters
    found = keyhole.attack(ASKED, data=STAFF[["team"]], private="pay", truth=STAFF)
    assert found.scores["pay"].exact == pytest.approx(1 / 3)
    assert repr(found).startswith("<Attacked: pay by ")
    assert "33 % of pay exact" in repr(found)


@pytest.mark.parametrize("data", [{}, {"pay": [1]}, [1, 2], 3, pd.DataFrame()])
def test_what_is_no_table_is_said(data: object) -> None:
    with pytest.raises(DataError, match="pandas, polars or Arrow"):
        keyhole.audit(["SELECT SUM(pay) FROM t"], data=data, private="pay")


@pytest.mark.parametrize(
    "log", [None, 3, {"sql": "SELECT 1"}, [None], [3], [("SELECT 1",)], [{"text": "x"}], b"SELECT"]
)
def test_what_is_no_log_is_said(log: object) -> None:
    with pytest.raises(LogError):
        keyhole.audit(log, data=STAFF, private="pay")  # type: ignore[arg-type]


def test_replies_and_answers_print_themselves(tmp_path: Path) -> None:
    with keyhole.session(data=STAFF, private="pay:0..", book=tmp_path / "staff.keyhole", exact_above=1) as session:
        assert repr(session.ask("SELECT SUM(pay) FROM t")) == "<Reply: answered: 60>"
        denied = repr(session.ask("SELECT SUM(pay) FROM t WHERE team = 'b'"))
        assert denied == "<Reply: deny: together with what was answered before, it would expose somebody>"
        assert repr(session.ask("SELECT team, COUNT(*) FROM t GROUP BY team")) == "<Reply: answered: 2 rows>"
    sex = Config.parse('[columns.public.sex]\nvalues = ["F", "M"]')
    people = pa.table({"name": ["Ann", "Bob"], "sex": ["F", "M"]})
    asked = ["SELECT COUNT(*) FROM people WHERE sex = 'F'", "SELECT MAX(name) FROM people"]
    made = keyhole.ask(asked, data=people, id="name", config=sex, epsilon=1, book=tmp_path / "b.keyhole", anyway=True)
    assert repr(made) == "<Answers: 1 answered, 1 refused, epsilon 0 left>"
