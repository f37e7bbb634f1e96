"""What is not sold or told without being asked to, what is said when nothing is left, and what a pilot answers."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from tests.defence.test_planner import TOLD, answer, people
from tests.support.commands import call_command

import keyhole
from keyhole.book import Book, Mark
from keyhole.config import Config
from keyhole.defence.answering import PrivateAnswer
from keyhole.errors import ConfigError, PrivacyParameterError
from keyhole.sessions.reply import Reply

WORTHLESS = 10**9  # questions expected: the share of one buys nothing


def with_epsilon(epsilon: str, statements: list[str], folder: Path, **options: object) -> list[PrivateAnswer]:
    told = TOLD.replace("epsilon = 1\n", f"epsilon = {epsilon}\n").format(budget="")
    return list(
        keyhole.ask(
            statements, data=people(), config=Config.parse(told), book=folder / "book.keyhole", table="people",
            **options,
        ).answers
    )  # fmt: skip


NEW = [
    "SELECT AVG(pay) FROM people WHERE sex = 'M'",
    "SELECT MEDIAN(age) FROM people",
    "SELECT COUNT(DISTINCT town) FROM people",
]


@pytest.mark.parametrize("options", [{"horizon": 1}, {"accuracy": 0.1}])
def test_with_nothing_left_what_is_known_is_told_and_the_rest_is_refused_alone(
    options: dict[str, object], tmp_path: Path
) -> None:
    """The cap was lowered below what was spent: no statement stops the others, in a file or by itself."""
    known = "SELECT COUNT(*) FROM people WHERE sex = 'F'"
    with_epsilon("1", [known], tmp_path, horizon=2)
    follows = "SELECT sex, COUNT(*) FROM people GROUP BY sex"  # never asked before
    told = with_epsilon("0.5", [known, follows, *NEW], tmp_path, **options)
    assert [one.refused is None for one in told] == [True, True, False, False, False]
    assert all("raise the budget" in one.refused.reason for one in told if one.refused is not None)
    (alone,) = with_epsilon("0.5", NEW[:1], tmp_path, **options)
    assert alone.refused is not None
    assert alone.cost == 0


def test_quantiles_and_numbers_of_values_that_say_nothing_are_neither_sold_nor_told_again(tmp_path: Path) -> None:
    for sql in (["SELECT MEDIAN(age) FROM people"], ["SELECT COUNT(DISTINCT age) FROM people"]):
        (refused,) = answer(sql, tmp_path, horizon=WORTHLESS)
        assert refused.refused is not None
        assert "--anyway" in refused.refused.reason
        (vague,) = answer(sql, tmp_path, horizon=WORTHLESS, anyway=True)
        assert vague.refused is None
        assert answer(sql, tmp_path, horizon=WORTHLESS)[0].refused is not None
        (better,) = answer(sql, tmp_path, horizon=6)
        assert better.cost > 0
        (again,) = answer(sql, tmp_path, horizon=6)
        assert (again.cost, again.groups) == (0, better.groups)  # the better one, whichever was bought last


def test_a_tree_that_says_nothing_is_not_sold(tmp_path: Path) -> None:
    sql = [f"SELECT QUANTILE_CONT(age, {q}) FROM people" for q in (0.25, 0.5, 0.75)]
    made = answer(sql, tmp_path, spend="0.0000001")
    assert all(one.refused is not None and one.cost == 0 for one in made)
    assert all(one.refused is None for one in answer(sql, tmp_path, spend=1))


def test_no_answer_is_made_from_a_pilot(tmp_path: Path) -> None:
    """What the plan leaves to the pilot was chosen by the pilot's own errors; later purchases keep away from it too."""
    sql = ["SELECT town, COUNT(*) FROM people GROUP BY town", "SELECT AVG(pay) FROM people WHERE sex = 'M'"]
    answer(sql, tmp_path, spend="0.1")
    answer(["SELECT COUNT(*) FROM people WHERE age >= 40"], tmp_path, horizon=5)
    with Book.open(tmp_path / "book.keyhole") as book:
        entries = list(book.entries())
    released = {e.seq: e.body for e in entries if e.kind == Mark.RELEASE}
    pilots = {b["answer"]["generation"] for b in released.values() if b["sql"] == "pilot"}
    assert pilots == {1}
    assert not pilots & {b["answer"]["generation"] for b in released.values() if b["sql"] != "pilot"}
    lines = keyhole.ask(sql, data=people(), config=Config.parse(TOLD.format(budget="")), table="people",
                           book=tmp_path / "book.keyhole").releases  # fmt: skip
    said = sum(1 for _ in lines)
    tables = [b["answer"] for b in released.values() if b["sql"] == "a plan for a whole file"]
    assert 0 < said <= sum(len(t["values"]) * max(1, _cells(t["shape"])) for t in tables)


def _cells(shape: list[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


ALL_MECHANISMS = ["laplace", "gaussian", "online-ic", "iterative", "planner"]
FEW = """
[columns]
id = ["name"]
[columns.private.pay]
min = 6
max = 20
step = 1
[columns.public.dept]
values = ["a", "b"]
[budget]
epsilon = {epsilon}
delta = {delta}
mechanism = "{mechanism}"
"""
TOTAL = "SELECT SUM(pay) FROM staff"


def few(pay: list[int]) -> pa.Table:
    n = len(pay)
    return pa.table({"name": [f"p{i}" for i in range(n)], "dept": ["ab"[i % 2] for i in range(n)], "pay": pay})


def asked_of_few(
    sql: str, folder: Path, mechanism: str, pay: list[int], epsilon: str = "1", *, anyway: bool = False
) -> Reply:
    delta = "0.000001" if mechanism in ("gaussian", "planner") else "0"
    config = Config.parse(FEW.format(mechanism=mechanism, epsilon=epsilon, delta=delta))
    book = folder / "book.keyhole"
    with keyhole.session(config, data=few(pay), table="staff", book=book, anyway=anyway) as session:
        before = session.book.state.spent("*")
        reply = session.ask(sql)
        if not reply.answered:
            assert session.book.state.spent("*") == before
        return reply


def test_a_sum_of_three_people_is_not_sold_with_a_bar_wider_than_its_range(tmp_path: Path) -> None:
    """It lies between 18 and 60, or 0 if some pay is NULL; a tenth of the budget bought 30 +- 600."""
    reply = asked_of_few(TOTAL, tmp_path, "laplace", [10, 10, 10])
    assert str(reply.outcome) == "refused"
    assert "SUM(pay): the error bar would be \u00b1 " in reply.reason
    assert (
        "lies between 0 and 60 whatever the data are: that says next to nothing, and nothing was spent" in reply.reason
    )
    sold = asked_of_few(TOTAL, tmp_path, "laplace", [10, 10, 10], anyway=True)
    assert sold.noisy is not None
    assert sold.noisy.cost == Fraction(1, 10)


def test_an_average_that_could_be_any_is_not_sold(tmp_path: Path) -> None:
    """The bars of its sum and its count were each below half of everybody, that of 3.1 +- 2.1 over all averages."""
    asked = "SELECT AVG(pay) FROM staff WHERE dept = 'a' OR pay < 30"
    reply = asked_of_few(asked, tmp_path, "laplace", [10] * 120)
    assert str(reply.outcome) == "refused"
    assert "it could be any number between 6 and 20, where all averages lie" in reply.reason
    (tmp_path / "more").mkdir()
    assert asked_of_few(asked, tmp_path / "more", "laplace", [10] * 120, "20").answered


@pytest.mark.parametrize("mechanism", ALL_MECHANISMS)
@pytest.mark.parametrize(
    "sql",
    [
        TOTAL,
        "SELECT AVG(pay) FROM staff",
        "SELECT COUNT(*) FROM staff WHERE dept = 'a'",
        "SELECT dept, SUM(pay) FROM staff GROUP BY dept",
        "SELECT AVG(pay) FROM staff WHERE dept = 'b'",
    ],
)
def test_no_mechanism_sells_what_says_nothing_whatever_the_data_are(mechanism: str, sql: str, tmp_path: Path) -> None:
    reasons = set()
    for number, pay in enumerate(([6] * 12, [20] * 12, [6, 20] * 6)):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            reply = asked_of_few(sql, folder, mechanism, pay, "0.5")
        except PrivacyParameterError as error:  # no plan of such a mechanism exists for so little
            reasons.add(str(error))
            continue
        assert str(reply.outcome) == "refused", reply.reason
        reasons.add(reply.reason)
    assert len(reasons) == 1


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "planner"])
def test_what_says_something_is_sold(mechanism: str, tmp_path: Path) -> None:
    reply = asked_of_few(TOTAL, tmp_path, mechanism, [10] * 2000, "5")
    assert reply.noisy is not None
    ((_, (made,)),) = reply.noisy.groups
    assert made.bar is not None
    assert made.bar <= 2000 * 14 / 2


@pytest.mark.parametrize("delta", ["0", "0.000001"])
def test_a_file_is_charged_for_what_says_something_only(delta: str, tmp_path: Path) -> None:
    """With a delta all statements are paid for at once: those that are refused have no part in it."""
    config = Config.parse(FEW.format(mechanism="laplace", epsilon="1", delta=delta) + 'unit = "epsilon"\n')
    file = [f"SELECT COUNT(*) FROM staff WHERE dept = 'a' AND pay > {at}" for at in range(7, 19)]
    made = keyhole.ask(file, data=few([10] * 12), config=config, table="staff", book=tmp_path / "b.keyhole")
    assert (made.refused, made.spent) == (len(file), 0)
    sold = keyhole.ask(file, data=few([10] * 400), config=config, table="staff", book=tmp_path / "c.keyhole")
    assert sold.refused == 0
    assert sold.spent > 0


def test_an_average_of_few_people_is_not_paid_for_when_its_bar_would_cover_their_range(tmp_path: Path) -> None:
    """Whatever the data: the same refusal of neighbouring tables, before anything is spent; a larger group is answered.

    Of 1,000 people in two departments two of fifteen values leave 67 of them, if everybody is spread evenly.
    """
    for kind in ("AVG", "STDDEV"):
        small, seen = f"SELECT {kind}(pay) FROM staff WHERE dept = 'a' AND pay > 18", []
        for k, changed in enumerate(([], [20])):
            pay = [6 + i % 15 for i in range(1_000 - len(changed))] + changed
            place = tmp_path / f"{kind}{k}"
            place.mkdir()
            reply = asked_of_few(small, place, "planner", pay)
            seen.append((str(reply.outcome), reply.reason))
        assert seen[0] == seen[1]
        assert seen[0][0] == "refused"
        assert "the bar would be over half of the possible range in a group of 67 people" in seen[0][1]
        paid = asked_of_few(small, place, "planner", pay, anyway=True)
        assert paid.answered
        many = [6 + i % 15 for i in range(60_000)]
        (place / "many").mkdir()
        better = asked_of_few(small, place / "many", "planner", many)
        assert better.noisy is not None
        ((_, (estimate,)),) = better.noisy.shown()
        assert estimate.bar is not None
        assert estimate.bar < 7


ASKED = {
    "500": ("SELECT COUNT(*) FROM staff WHERE dept = 'a'", 500),
    "5%": ("SELECT SUM(pay) FROM staff WHERE dept = 'a'", 0.05 * 20 * 30_000),
    "1": ("SELECT AVG(pay) FROM staff WHERE dept = 'a'", 1),
}


@pytest.mark.parametrize("error", ASKED)
def test_an_error_bar_is_asked_for_in_the_units_of_the_answer(error: str, tmp_path: Path) -> None:
    """The dry run says it, costs what is charged, and the answer has a bar that is no wider."""
    sql, most = ASKED[error]
    config = Config.parse(FEW.format(mechanism="planner", epsilon="1", delta="0.000001"))
    data, book = few([6 + i % 15 for i in range(30_000)]), tmp_path / "book.keyhole"
    with keyhole.session(config, data=data, table="staff", book=book, error=error, dry_run=True) as session:
        price = session.ask(sql).price
    assert price is not None
    (expected,) = price.bars
    assert expected.bar is not None
    assert expected.bar <= most
    with keyhole.session(config, data=data, table="staff", book=book, error=error) as session:
        reply = session.ask(sql)
    assert reply.noisy is not None
    assert (reply.noisy.cost, reply.noisy.cost > 0) == (price.cost, True)
    ((_, (estimate,)),) = reply.noisy.shown()
    assert estimate.bar is not None
    assert estimate.bar <= 1.01 * most  # rounded to its bar
    assert estimate.bar > most / 10  # and not far more than was asked for is paid


def test_an_error_bar_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    config = Config.parse(FEW.format(mechanism="planner", epsilon="1", delta="0.000001"))
    data, book = few([6 + i % 15 for i in range(30_000)]), tmp_path / "book.keyhole"
    with keyhole.session(config, data=data, table="staff", book=book, error="2%") as session:
        refused = session.ask("SELECT MEDIAN(pay) FROM staff")
        assert "--error is for COUNT, SUM and AVG" in refused.reason
        assert session.book.state.spent("*")[0] == 0
    for wrong in ("0", "-1", "much", "1e999999999"):
        with pytest.raises(PrivacyParameterError, match="--error"):
            keyhole.session(config, data=data, table="staff", book=book, error=wrong)
    laplace = Config.parse(FEW.format(mechanism="laplace", epsilon="1", delta="0"))
    with pytest.raises(ConfigError, match="--error needs the planner"):
        keyhole.session(laplace, data=data, table="staff", book=book, error="500")


def test_text_json_and_page_of_a_book_say_what_is_left_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caps are those of the keyhole.toml here, which need not name the book that is beside it."""
    monkeypatch.chdir(tmp_path)
    few([10] * 400).to_pandas().to_csv("staff.csv", index=False)
    text = FEW.format(mechanism="laplace", epsilon="2", delta="0")
    Path("keyhole.toml").write_text(f'[source]\ndata = "staff.csv"\n{text}')
    assert call_command("ask", "--anyway", "SELECT COUNT(*) FROM staff WHERE dept = 'a'").exit_code == 0
    assert "epsilon 0.2 of 2; 1.8 left" in call_command("book", "show", "book.keyhole").output
    shown = json.loads(call_command("book", "show", "book.keyhole", "--format", "json").stdout)["spent"]["*"]
    assert (shown["amount"], shown["limit"], shown["left"]) == ("1/5", "2", "9/5")
    assert call_command("report", "book.keyhole", "--out", "book.html").exit_code == 0
    assert "10 % spent" in Path("book.html").read_text(encoding="utf-8")


def test_prices_are_in_the_unit_that_the_budget_is_written_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epsilon that is counted in rho: prices, remainders and shares add up to what is shown as spent, everywhere."""
    monkeypatch.chdir(tmp_path)
    few([6 + i % 15 for i in range(30_000)]).to_pandas().to_csv("staff.csv", index=False)
    settings = FEW.format(mechanism="planner", epsilon="2", delta="0.000001")
    Path("keyhole.toml").write_text(f'[source]\ndata = "staff.csv"\n{settings}')
    asked = [f"SELECT COUNT(*), AVG(pay) FROM staff WHERE dept = '{dept}'" for dept in "ab"]
    asked.append("SELECT SUM(pay) FROM staff WHERE pay > 12")
    priced = [
        json.loads(call_command("ask", sql, "--dry-run", "--format", "json").stdout)["replies"][0] for sql in asked
    ]
    assert all(each["cost"] > 0 and each["share"] == pytest.approx(each["cost"] / 2) for each in priced)
    made = [json.loads(call_command("ask", sql, "--format", "json").stdout) for sql in asked]
    assert {each["unit"] for each in made} == {"epsilon"}
    replies = [each["replies"][0] for each in made]
    spent = sum(reply["cost"] for reply in replies)
    assert replies[0]["cost"] == pytest.approx(priced[0]["cost"])
    assert replies[-1]["left"] == pytest.approx(2 - spent)
    book = json.loads(call_command("book", "show", "book.keyhole", "--format", "json").stdout)
    assert (book["budget"]["unit"], book["spent"]["*"]["limit"]) == ("epsilon", "2")
    assert float(Fraction(book["spent"]["*"]["amount"])) == pytest.approx(spent)
    assert float(Fraction(book["spending"][-1]["spent"]["*"])) == pytest.approx(spent)
    filed = "answers.sql"
    Path(filed).write_text(";\n".join(asked))
    again = json.loads(call_command("ask", "-f", filed, "--format", "json").stdout)
    assert (again["unit"], again["budget"], again["spent"]) == ("epsilon", 2, pytest.approx(spent))
    texts = [call_command("ask", "-f", filed).output, call_command("book", "show", "book.keyhole").output]
    texts.append(call_command("ask", "SELECT COUNT(*) FROM staff WHERE pay > 7", "--dry-run").output)
    assert "(epsilon 0.0202)" in texts[-1]
    assert not [text for text in texts if "rho" in text]


@pytest.mark.parametrize(
    ("sql", "accuracy", "error"),
    [
        ("SELECT STDDEV_SAMP(pay) FROM staff WHERE dept = 'a'", "0.4", None),
        ("SELECT AVG(pay) FROM staff WHERE dept = 'a' AND pay < 8", "", "60%"),
        ("SELECT AVG(pay) FROM staff WHERE dept = 'a' AND pay < 8", "", "12"),
    ],
)
def test_an_average_that_could_be_any_is_not_sold_for_an_accuracy_either(
    sql: str, accuracy: str, error: str | None, tmp_path: Path
) -> None:
    """The bars of its sum and count are as wide as was asked for; that of their ratio covers the range. Two tables."""
    text = FEW.format(mechanism="planner", epsilon="1", delta="0.000001")
    config = Config.parse(text + (f"accuracy = {accuracy}\n" if accuracy else ""))
    refusals = set()
    for number, pay in enumerate(([6] * 1000, [6 + i % 15 for i in range(1000)])):
        data, book = few(pay), tmp_path / f"{number}.keyhole"
        for dry in (True, False):
            with keyhole.session(config, data=data, table="staff", book=book, dry_run=dry, error=error) as session:
                reply = session.ask(sql)
                assert session.book.state.spent("*")[0] == 0
            assert str(reply.outcome) == "refused"
            refusals.add(reply.reason)
        with keyhole.session(config, data=data, table="staff", book=book, anyway=True, error=error) as session:
            assert session.ask(sql).answered
    assert len(refusals) == 1
    assert "over half of the possible range in a group of" in refusals.pop()


GROUPS = {
    "SELECT dept, COUNT(*) FROM staff WHERE dept = 'a' GROUP BY dept": 1,
    "SELECT dept, SUM(pay) FROM staff WHERE dept <> 'a' OR dept IS NULL GROUP BY dept": 1,
    "SELECT dept, COUNT(*) FROM staff WHERE dept = 'a' OR pay > 9 GROUP BY dept": 2,  # of the others some may meet it
    "SELECT dept, pay, COUNT(*) FROM staff WHERE NOT (dept = 'a' OR pay > 9) GROUP BY dept, pay": 4,
    "SELECT dept, MIN(pay) FROM staff WHERE dept = 'a' GROUP BY dept": 1,  # the planner alone
    "SELECT dept, COUNT(*) FROM staff WHERE dept = 'a' AND dept = 'b' GROUP BY dept": 0,
}


@pytest.mark.parametrize("sql", GROUPS)
@pytest.mark.parametrize("mechanism", ["planner", "laplace"])
def test_groups_that_the_statement_excludes_are_not_answered(mechanism: str, sql: str, tmp_path: Path) -> None:
    """Decided from declarations and statement: the same keys whatever the data are."""
    if mechanism == "laplace" and "MIN" in sql:
        return
    keys = set()
    for number, pay in enumerate(([10] * 20_000, [6 + i % 15 for i in range(20_000)])):
        folder = tmp_path / str(number)
        folder.mkdir()
        reply = asked_of_few(sql, folder, mechanism, pay, "20")
        if not GROUPS[sql]:
            assert "no declared group meets the WHERE" in reply.reason
            continue
        assert reply.noisy is not None, reply.reason
        keys.add(tuple(key for key, _ in reply.noisy.groups))
    assert [len(found) for found in keys] == ([GROUPS[sql]] if GROUPS[sql] else [])
    if GROUPS[sql] == 1:
        ((key, *_), *_) = keys
        assert key == (("dept", "b" if "<>" in sql else "a"),)


def test_the_page_of_a_book_counts_statements_and_not_what_is_released_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quantile of each group is a release of each group, and one answer."""
    monkeypatch.chdir(tmp_path)
    few([6 + i % 15 for i in range(20_000)]).to_pandas().to_csv("staff.csv", index=False)
    settings = FEW.format(mechanism="planner", epsilon="5", delta="0.000001")
    Path("keyhole.toml").write_text(f'[source]\ndata = "staff.csv"\n{settings}')
    asked = ["SELECT dept, MEDIAN(pay) FROM staff GROUP BY dept", "SELECT COUNT(*) FROM staff WHERE dept = 'a'"]
    assert call_command("ask", *asked).exit_code == 0
    shown = json.loads(call_command("book", "show", "book.keyhole", "--format", "json").stdout)
    assert [entry["kind"] for entry in shown["entries"]].count("release") == 3
    assert call_command("report", "book.keyhole", "--out", "book.html").exit_code == 0
    page = Path("book.html").read_text(encoding="utf-8")
    assert "2 statements were answered or published" in page
    assert "and 1 more release" in page
