"""`keyhole answer` from end to end: budget, refusals, prepaid runs, versions, formats."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from tests.support.settings import write_into

from keyhole.book import Book
from keyhole.cli import app
from keyhole.defence.budget.budget import Cap
from keyhole.defence.budget.ledger import Ledger
from keyhole.defence.budget.loss import Loss
from keyhole.defence.linear import LinearQuery
from keyhole.defence.mechanisms.base import Release
from keyhole.defence.mechanisms.online_ic import OnlineIC
from keyhole.errors import NotAvailable
from keyhole.sessions.private import Private
from keyhole.sessions.reply import Reply
from keyhole.sessions.session import Session

N = 20_000
TOML = """
[source]
data = "people.csv"
version = "{version}"
[columns]
id = ["id"]
[columns.public.sex]
values = ["F", "M"]
[columns.public.age]
min = 0
max = 99
width = 10
[columns.private.sugar]
min = 3.0
max = 10.0
step = 0.1
width = 0.5
[budget]
{budget}
"""
SQL = """
SELECT COUNT(*) FROM people;
SELECT COUNT(*) FROM people WHERE sex = 'F' AND age < 50;
SELECT sex, COUNT(*), AVG(sugar) FROM people GROUP BY sex;
SELECT COUNT(*) FROM people WHERE age < 45;
SELECT SUM(sugar) FROM people WHERE sex = 'M';
"""


class Box:
    """A folder with data, settings and questions, and a command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data(0)
        self.settings("epsilon = 1\n[book]\npath = 'b.keyhole'")
        (folder / "q.sql").write_text(SQL)

    def data(self, seed: int, n: int = N) -> None:
        rng = np.random.default_rng(seed)
        sugar = np.clip(rng.normal(6, 1.2, n), 3, 10).round(1)
        frame = pd.DataFrame(
            {
                "id": range(n),
                "sex": rng.choice(["F", "M"], n, p=[0.3, 0.7]),
                "age": rng.integers(0, 105, n),
                "sugar": sugar,
            }
        )
        self.frame = frame
        frame.to_csv(self.folder / "people.csv", index=False)

    def settings(self, budget: str, version: str = "1") -> None:
        (self.folder / "keyhole.toml").write_text(TOML.format(budget=budget, version=version))

    def call(self, *options: str, sql: str = "q.sql") -> Any:
        settings, left = write_into(self.folder / "keyhole.toml", options)
        return CliRunner().invoke(app, ["ask", "-f", str(self.folder / sql), "-c", str(settings), *left])

    def json(self, *options: str, sql: str = "q.sql") -> dict[str, Any]:
        result = self.call(*options, "--format", "json", sql=sql)
        shown = dict(json.loads(result.stdout))
        assert result.exit_code == (3 if any("refused" in a for a in shown["answers"]) else 0), result.output
        return shown


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_answers_carry_value_bar_cost_left_neighbours_and_story(box: Box) -> None:
    shown = box.json("--accuracy", "0.02")
    women = int(((box.frame.sex == "F") & (box.frame.age < 50)).sum())
    total, count, groups, refused, summed = shown["answers"]
    assert (total["value"], total["cost"], total["alpha"]) == (N, 0, 0)
    assert abs(count["value"] - women) < 3000
    assert count["alpha"] <= 0.02
    assert count["error"] <= 0.02 * N
    assert count["beta"] == 0.05
    assert count["neighbours"] == "replace-one"
    assert count["how"].startswith("discrete Laplace, scale")
    assert [g["key"] for g in groups["groups"]] == [{"sex": "F"}, {"sex": "M"}]
    assert all(3 <= g["values"][1] <= 10 for g in groups["groups"])
    assert groups["alpha"][0] == max(g["error"][0] for g in groups["groups"]) / N  # a count: a share of n
    assert groups["alpha"][1] == max(g["error"][1] for g in groups["groups"])  # an average has no share
    assert refused == {
        "sql": "SELECT COUNT(*) FROM people WHERE age < 45",
        "refused": '"age" < 45 cuts through the cell age [40, 50): use the edges of the bins',
    }
    men = box.frame[box.frame.sex == "M"].sugar.sum()
    assert abs(summed["value"] - men) < 5 * summed["error"]
    costs = [a.get("cost", 0) for a in shown["answers"]]
    assert shown["spent"] == pytest.approx(sum(costs))
    assert shown["budget"] == 1
    assert [a["left"] for a in shown["answers"] if "left" in a] == pytest.approx(
        [1 - sum(costs[: i + 1]) for i in range(5) if i != 3]
    )


def test_a_second_run_is_free_and_says_the_same(box: Box) -> None:
    first = box.json("--accuracy", "0.02")
    second = box.json("--accuracy", "0.02")
    assert second["spent"] == first["spent"]
    assert [a.get("value") for a in second["answers"]] == [a.get("value") for a in first["answers"]]
    assert "released before" in second["answers"][1]["how"]
    finer = box.json("--accuracy", "0.01")
    assert finer["spent"] > second["spent"]


def test_dry_run_spends_nothing_and_makes_no_ledger(box: Box) -> None:
    planned = box.json("--accuracy", "0.02", "--dry-run")
    assert not (box.folder / "b.keyhole").exists()
    real = box.json("--accuracy", "0.02")
    assert [a.get("cost") for a in planned["answers"]] == [a.get("cost") for a in real["answers"]]
    again = box.json("--accuracy", "0.02", "--dry-run")
    assert [a.get("cost") for a in again["answers"] if "cost" in a] == [0, 0, 0, 0]
    assert box.json("--dry-run")["spent"] == real["spent"]


def test_without_accuracy_what_is_left_is_shared_out(box: Box) -> None:
    shown = box.json()
    costs = [a["cost"] for a in shown["answers"] if a.get("cost")]
    assert costs == [0.3333] * 3
    assert shown["spent"] == pytest.approx(0.9999)


def test_a_refused_statement_leaves_cheaper_ones_possible(box: Box) -> None:
    (box.folder / "q.sql").write_text(
        "SELECT COUNT(*) FROM people WHERE sex = 'F'; SELECT sex, AVG(sugar) FROM people GROUP BY sex; "
        "SELECT COUNT(*) FROM people WHERE age < 20"
    )
    shown = box.json("--accuracy", "0.0005")
    first, second, third = shown["answers"]
    assert "value" in first
    assert "nothing was spent" in second["refused"]
    assert re.search(r"this costs epsilon [\d.]+ and [\d.]+ is left of 1", second["refused"])
    assert "value" in third
    assert shown["spent"] == pytest.approx(first["cost"] + third["cost"])


def test_epsilon_caps_the_ledger_not_the_run(box: Box) -> None:
    box.json("--epsilon", "0.5")
    assert box.json("--epsilon", "0.5", "--accuracy", "0.001", "--dry-run")["left"] == pytest.approx(0.0002, abs=1e-3)
    result = box.call("--epsilon", "0.4", "--accuracy", "0.001")
    assert "nothing was spent" in result.output
    raised = box.json("--epsilon", "2", "--accuracy", "0.01")
    assert raised["budget"] == 2
    assert all("refused" not in a for a in raised["answers"] if "45" not in a["sql"])


def test_the_prepaid_run_goes_on_in_a_second_process(box: Box) -> None:
    box.data(0, 200_000)
    options = ("--mechanism", "online-ic", "--epsilon", "300", "--horizon", "20")
    first = box.json(*options)
    assert first["spent"] == 300
    charged = [a["cost"] for a in first["answers"] if "cost" in a]
    assert charged == [0, 300, 0, 0]
    second = box.json(*options)
    assert second["spent"] == 300
    assert all(a["cost"] == 0 for a in second["answers"] if "cost" in a)

    def fired(shown: dict[str, Any]) -> int:
        return int(re.findall(r"(\d+) of \d+ firings", shown["answers"][-1]["how"])[0])

    assert fired(second) >= fired(first)
    truth = int(((box.frame.sex == "F") & (box.frame.age < 50)).sum())
    for shown in (first, second):
        count = shown["answers"][1]
        assert abs(count["value"] - truth) <= count["error"] < 200_000
    # planned for 20 questions: some ages on, new ones would pass it, and a new run is not affordable
    for op in ("<", ">="):
        for age in range(10, 100, 10):
            (box.folder / "more.sql").write_text(
                f"SELECT sex, AVG(sugar) FROM people WHERE age {op} {age} GROUP BY sex"
            )
            (last,) = box.json(*options, sql="more.sql")["answers"]
            (planned,) = box.json(*options, "--dry-run", sql="more.sql")["answers"]
            if "refused" in last:
                break
            assert "released before" in planned["how"]
    assert "planned for 20 questions" in last["refused"]
    assert "nothing is left" in last["refused"]
    assert planned["refused"] == last["refused"]
    third = box.json(*options)
    assert third["spent"] == 300
    assert [a.get("value") for a in third["answers"]] == [a.get("value") for a in first["answers"]]
    assert "released before (online-ic" in third["answers"][1]["how"]


def test_a_crash_before_anything_is_shown_costs_nothing(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.data(0, 200_000)
    options = ("--mechanism", "online-ic", "--epsilon", "300", "--horizon", "50")

    def crash(run: OnlineIC[Any], query: LinearQuery) -> Release:
        raise RuntimeError("power failure")

    with monkeypatch.context() as broken:
        broken.setattr(OnlineIC, "answer", crash)
        assert "this is not available (RuntimeError)" in box.call(*options).stderr
    again = box.json(*options)
    assert again["spent"] == 300
    assert sorted(a["cost"] for a in again["answers"] if "cost" in a) == [0, 0, 0, 300]


def _breaks_at_the_third(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Private.release

    def release(policy: Private, planned: Any, admission: Any, analyst: str | None) -> Any:
        made = asked(policy, planned, admission, analyst)
        if "GROUP BY" in planned.sql:
            raise RuntimeError("power failure")
        return made

    monkeypatch.setattr(Private, "release", release)


@pytest.mark.parametrize("way", ["file", "statements"])
def test_a_fault_later_on_shows_what_was_paid_and_says_what_is_true(
    box: Box, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    statements = [part.strip() for part in SQL.split(";") if part.strip()]
    asked = ["-f", str(box.folder / "q.sql")] if way == "file" else statements
    call = ["ask", *asked, "-c", str(box.folder / "keyhole.toml"), "--format", "json"]
    with monkeypatch.context() as broken:
        _breaks_at_the_third(broken)
        stopped = CliRunner().invoke(app, call)
        broken.setenv("KEYHOLE_DEBUG", "1")
        assert isinstance(CliRunner().invoke(app, call).exception, NotAvailable)  # with its trace
    assert stopped.exit_code == 2
    assert "this question was not answered and nothing was spent for it" in stopped.stderr
    assert "power" not in stopped.stderr
    key = "answers" if way == "file" else "replies"
    everybody, count = json.loads(stopped.stdout)[key]
    assert (everybody["cost"], count["cost"] > 0) == (0, True)
    again = json.loads(CliRunner().invoke(app, call).stdout)[key]
    assert len(again) == len(statements)
    assert (again[1]["value"], again[1]["cost"]) == (count["value"], 0)
    assert again[1]["left"] == count["left"]  # what failed cost nothing


@pytest.mark.parametrize("mechanism", ["online-ic", "iterative"])
def test_delta_buys_a_cheaper_run(box: Box, mechanism: str) -> None:
    options = ("--mechanism", mechanism, "--accuracy", "0.2", "--epsilon", "100000", "--dry-run")
    pure = sum(a.get("cost", 0) for a in box.json(*options)["answers"])
    approximate = sum(a.get("cost", 0) for a in box.json(*options, "--delta", "1e-6")["answers"])
    assert approximate < pure


@pytest.mark.parametrize("mechanism", ["online-ic-perceptron", "iterative", "iterative-perceptron"])
def test_other_mechanisms_answer_within_their_bars(box: Box, mechanism: str) -> None:
    box.data(0, 200_000)
    shown = box.json("--mechanism", mechanism, "--epsilon", "2000", "--beta", "0.001")
    count = shown["answers"][1]
    truth = int(((box.frame.sex == "F") & (box.frame.age < 50)).sum())
    assert abs(count["value"] - truth) <= count["error"] < 200_000
    assert shown["spent"] == 2000


@pytest.mark.parametrize("mechanism", ["online-ic-median", "iterative-median"])
def test_the_median_says_when_its_net_is_too_large(box: Box, mechanism: str) -> None:
    result = box.call("--mechanism", mechanism, "--epsilon", "5000")
    assert result.exit_code == 2
    assert "use multiplicative weights" in result.output
    assert box.json("--dry-run", "--epsilon", "5000")["spent"] == 0


def test_gaussian_needs_rho(box: Box) -> None:
    result = box.call("--mechanism", "gaussian")
    assert result.exit_code == 2
    assert 'set unit = "rho"' in result.output
    box.settings("epsilon = 0.1\nunit = 'rho'\n[book]\npath = 'rho.keyhole'")
    shown = box.json("--mechanism", "gaussian")
    assert shown["unit"] == "rho"
    assert shown["answers"][1]["how"].startswith("discrete Gaussian")
    mixed = box.json("--mechanism", "laplace", "--epsilon", "1", "--accuracy", "0.05")
    assert mixed["answers"][1]["cost"] == 0  # the Gaussian release was good enough
    assert box.call("--mechanism", "online-ic").exit_code == 2


def test_add_remove_is_absolute_and_keeps_n_secret(box: Box) -> None:
    box.settings("epsilon = 5\nneighbours = 'add-remove'\n[book]\npath = 'ar.keyhole'")
    shown = box.json("--accuracy", "100")
    total = shown["answers"][0]
    assert total["cost"] > 0  # n is a secret here
    assert total["neighbours"] == "add-remove"
    assert total["alpha"] == total["error"] <= 100
    assert "public number of people" in box.call("--mechanism", "online-ic", "--epsilon", "50").output


def test_analysts_and_collusion(box: Box) -> None:
    box.settings("epsilon = 0.5\nanalysts = { alice = 0.3, bob = 0.3 }\n[book]\npath = 'b.keyhole'")
    assert "say who asks" in box.call().output
    assert "'eve' has no budget" in box.call("--analyst", "eve").output
    (box.folder / "q.sql").write_text("SELECT COUNT(*) FROM people WHERE sex = 'F'")
    assert box.json("--analyst", "alice")["answers"][0]["cost"] == pytest.approx(0.3)
    (box.folder / "q.sql").write_text("SELECT COUNT(*) FROM people WHERE sex = 'M'")
    shown = box.json("--analyst", "bob")
    assert shown["answers"][0]["cost"] == pytest.approx(0.2)  # not 0.3: together they have 0.5
    assert shown["spent"] == pytest.approx(0.5)


def test_changed_data_needs_a_new_version_and_the_budget_carries_on(box: Box) -> None:
    spent = box.json("--accuracy", "0.02")["spent"]
    box.data(1)
    result = box.call("--accuracy", "0.02")
    assert result.exit_code == 2
    assert "a change of data is a new version" in result.output
    box.settings("epsilon = 1\n[book]\npath = 'b.keyhole'", version="2")
    again = box.json("--accuracy", "0.02")
    assert again["spent"] == pytest.approx(2 * spent)
    assert "released before" not in again["answers"][1]["how"]


def test_changed_data_is_noticed_under_another_domain_and_by_a_dry_run(box: Box) -> None:
    box.json("--accuracy", "0.02")
    toml = (box.folder / "keyhole.toml").read_text()
    (box.folder / "keyhole.toml").write_text(toml.replace("width = 10", "width = 20"))
    (box.folder / "q.sql").write_text("SELECT COUNT(*) FROM people WHERE sex = 'F'")
    box.json("--accuracy", "0.05", "--dry-run")  # another domain alone is no change
    box.frame.loc[7, "sugar"] = 9.9
    box.frame.to_csv(box.folder / "people.csv", index=False)
    before = (box.folder / "b.keyhole").read_bytes()
    for options in (("--dry-run",), ()):
        result = box.call("--accuracy", "0.05", *options)
        assert (result.exit_code, "a change of data is a new version" in result.output) == (2, True)
    assert (box.folder / "b.keyhole").read_bytes() == before
    (box.folder / "b.keyhole.key").unlink()
    assert "key" in box.call("--accuracy", "0.05").output
    box.settings("epsilon = 1\n[book]\npath = 'b.keyhole'", version="2")
    assert box.json("--accuracy", "0.05")["spent"] > 0


def test_settings_in_a_folder_always_mean_one_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path in keyhole.toml is resolved once, from where keyhole.toml stands: a budget is not there twice."""
    (tmp_path / "sub").mkdir()
    box = Box(tmp_path / "sub")
    (box.folder / "q.sql").write_text("SELECT COUNT(*) FROM people WHERE sex = 'F'")
    (box.folder.parent / "link").symlink_to(box.folder)
    sub = box.folder.name
    ways = [
        (box.folder.parent, f"{sub}/keyhole.toml"),
        (box.folder, "keyhole.toml"),
        (box.folder, "./keyhole.toml"),
        (box.folder.parent, str(box.folder / "keyhole.toml")),
        (box.folder.parent, "link/keyhole.toml"),
        (box.folder, f"../{sub}/keyhole.toml"),
    ]
    for budget, path in (("epsilon = 1\n[book]\npath = 'b.keyhole'", "b.keyhole"), ("epsilon = 1", "book.keyhole")):
        box.settings(budget)
        for number, (folder, config) in enumerate(ways, 1):
            monkeypatch.chdir(folder)
            box.settings(f"accuracy = {0.02 - number / 1000}\n{budget}")
            result = CliRunner().invoke(app, ["ask", "-f", str(box.folder / "q.sql"), "-c", config])
            assert result.exit_code == 0, result.output
            with Book.open(box.folder / path) as book:
                assert len(book.state.losses) == number, config
    found = sorted(p.name for p in box.folder.parent.rglob("*.keyhole"))
    assert found == ["b.keyhole", "book.keyhole"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epsilon", "0"), "epsilon must be above 0"),
        (("--epsilon", "-1"), "epsilon must be above 0"),
        (("--epsilon", "lots"), "write a number, not 'lots'"),
        (("--delta", "1"), "delta must be at least 0 and below 1"),
        (("--beta", "0"), "beta must be between 0 and 1"),
        (("--accuracy", "0"), "accuracy must be above 0"),
        (("--accuracy", "inf"), "accuracy must be finite"),
        (("--accuracy", "nan"), "accuracy must be above 0"),
        (("--accuracy", "1e300"), "accuracy must be finite, from 1e-12 to 1e12"),
        (("--epsilon", "1e399"), "epsilon must be from 1e-30 to 1e12"),
        (("--epsilon", "1e-400"), "epsilon must be from 1e-30 to 1e12"),
        (("--epsilon", "1e999999999"), "the number 1e999999999 is too large or too long"),
        (("--epsilon", "1/0"), "write a number"),
        (("--delta", "1e-399"), "delta must be at least 1e-300 or 0"),
        (("--horizon", "0"), "at least one question"),
        (("--data", "nowhere.csv"), "there is no file"),
        (("--mechanism", "online-ic"), "needs epsilon"),
        (("--mechanism", "online-ic", "--accuracy", "0.00001"), "finer than this mechanism's grid"),
        (("--mechanism", "iterative"), "needs epsilon"),
    ],
)
def test_bad_options_are_said_and_nothing_is_spent(box: Box, options: tuple[str, ...], message: str) -> None:
    result = box.call(*options)
    assert result.exit_code == 2
    assert message in result.output
    if (box.folder / "b.keyhole").exists():
        assert box.json("--dry-run")["spent"] == 0


def test_text_output_is_for_people(box: Box) -> None:
    result = box.call("--accuracy", "0.02")
    assert result.exit_code == 3  # one of them is refused
    assert re.search(r"sex = F  \d+ ± 400, \d\.\d+ ± ", result.output)
    assert "refused: " in result.output
    assert re.search(r"spent 0\.\d+ of epsilon 1 \(book .*b\.keyhole\)", result.output)
    assert "  costs " in box.call("--dry-run", "--accuracy", "0.001").output


def test_errors_and_costs_are_the_same_on_neighbouring_tables(tmp_path: Path) -> None:
    """One person replaced: the same refusals and the same prices, whatever is asked."""
    shown = []
    for who in range(2):
        folder = tmp_path / str(who)
        folder.mkdir()
        box = Box(folder)
        if who == 1:
            box.frame.loc[0, ["sex", "age", "sugar"]] = ["X", 300, None]
            box.frame.to_csv(folder / "people.csv", index=False)
        (folder / "q.sql").write_text(
            SQL + "SELECT AVG(sugar) FROM people WHERE age >= 90; SELECT COUNT(sugar) FROM people;"
            "SELECT MIN(age) FROM people;"
            "SELECT COUNT(*) FROM people WHERE sugar > 5.05; SELECT sex, age, COUNT(*) FROM people GROUP BY sex, age"
        )
        made = box.json("--accuracy", "0.01")
        shown.append(
            [(a.get("cost"), a.get("refused"), "value" in a, len(a.get("groups", []))) for a in made["answers"]]
        )
    assert shown[0] == shown[1]


def test_left_is_what_the_ledger_has_left_when_others_charge_it_too(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process spends between two statements: what is left says so."""
    (box.folder / "q.sql").write_text(
        "SELECT COUNT(*) FROM people WHERE sex = 'F'; SELECT COUNT(*) FROM people WHERE sex = 'M'"
    )
    path, real = box.folder / "b.keyhole", Session.ask

    def ask(session: Session[Any], text: str, analyst: str | None = None) -> Reply:
        with Book.open(path) as other:
            Ledger(other, Cap(Loss.of_epsilon(1))).spend(Loss.of_epsilon("0.25"))
        return real(session, text, analyst)

    monkeypatch.setattr(Session, "ask", ask)
    first, second = box.json("--accuracy", "0.02")["answers"]
    assert first["left"] == pytest.approx(0.75 - first["cost"])
    assert second["left"] == pytest.approx(0.5 - first["cost"] - second["cost"])


def test_data_faults_show_no_value(box: Box) -> None:
    """A private number outside its range is clamped; other faults name the column only."""
    box.frame.loc[7, "sugar"] = 77.7
    box.frame.to_csv(box.folder / "people.csv", index=False)
    clamped = box.json("--accuracy", "0.02")
    assert all(3 <= g["values"][1] <= 10 for g in clamped["answers"][2]["groups"])
    for at, bad in enumerate((7.7777, float("inf"))):  # loading is total: rounded to the step, or NULL
        frame = box.frame.copy()
        frame.loc[41, "sugar"] = bad
        frame.to_csv(box.folder / "people.csv", index=False)
        box.settings(f"epsilon = 1\n[book]\npath = 'other{at}.keyhole'")
        assert [("refused" in a) for a in box.json("--accuracy", "0.02")["answers"]] == [False] * 3 + [True, False]
    box.settings("epsilon = 1\n[book]\npath = 'b.keyhole'")
    frame = box.frame.copy()
    frame.loc[41, "id"] = 15_551
    frame.to_csv(box.folder / "people.csv", index=False)
    result = box.call("--book", str(box.folder / "other.keyhole"))
    assert result.exit_code == 2
    assert "Every row needs an id of its own" in result.output
    assert not re.search(r"15551|\b4[123]\b|\brow \d", result.output)
    frame = box.frame.assign(sugar=box.frame.sugar.astype(object))
    frame.loc[41, "sugar"] = "hepatitis"
    frame.to_csv(box.folder / "people.csv", index=False)
    view = "SELECT id, sex, age, CAST(sugar AS DOUBLE) AS sugar FROM people"
    plain = (box.folder / "keyhole.toml").read_text()
    (box.folder / "keyhole.toml").write_text(plain.replace("[source]", f'[source]\nview = "{view}"'))
    result = box.call("--book", str(box.folder / "other.keyhole"))
    assert result.exit_code == 2
    assert "[source] view does not run" in result.output
    assert "hepatitis" not in result.output
    lost = 'view = "SELECT * FROM nowhere"'
    (box.folder / "keyhole.toml").write_text(plain.replace("[source]", f"[source]\n{lost}"))
    assert "nowhere" in box.call().output  # a fault of the statement is said


def test_dry_and_real_runs_refuse_the_same(box: Box) -> None:
    (box.folder / "q.sql").write_text(
        "SELECT COUNT(*) FROM people WHERE sex = 'F'; SELECT sex, AVG(sugar) FROM people GROUP BY sex; "
        "SELECT COUNT(*) FROM people WHERE age < 20; SELECT MIN(age) FROM people"
    )
    for options in (("--accuracy", "0.0005"), ("--epsilon", "0.2"), ("--epsilon", "1e-25")):
        planned = box.json(*options, "--dry-run")["answers"]
        real = box.json(*options)["answers"]
        assert ["refused" in a for a in planned] == ["refused" in a for a in real], options
    spent = box.json("--dry-run")["spent"]
    assert spent > 0.3
    for dry in ((), ("--dry-run",)):  # lowered below what was spent: nothing is left, not less than nothing
        text = box.call("--epsilon", "0.2", *dry).output
        assert "-0." not in text
        assert "the cap was lowered" in text
    (box.folder / "q.sql").write_text("SELECT COUNT(*) FROM people WHERE sex = 'M'")
    lowered = box.json("--epsilon", "0.2", "--accuracy", "0.01")["answers"][0]["refused"]
    assert re.search(r"0 is left of 0.2 \(0\.\d+ was spent before the cap was lowered\)", lowered)


def test_a_sum_over_bins_says_what_accuracy_it_can_reach(box: Box) -> None:
    (box.folder / "q.sql").write_text("SELECT SUM(sugar) FROM people; SELECT COUNT(*) FROM people WHERE sex = 'F'")
    for options in (("--dry-run",), ()):
        summed, count = box.json("--accuracy", "0.01", *options)["answers"]
        assert "notes" not in count
        assert "at best 0.02 is reached" in summed["notes"][0]  # half a bin, 0.2, of a range of 10 (NULL adds 0)
    assert summed["alpha"] * N >= 0.2 * N
    assert "note: SUM(sugar): accuracy 0.01 is that of the noise" in box.call("--accuracy", "0.01").output
    assert "notes" not in box.json("--epsilon", "2")["answers"][0]  # no accuracy was asked for


def test_groups_say_whom_they_leave_out(box: Box) -> None:
    grouped = box.json("--accuracy", "0.02")["answers"][2]
    assert "records with NULL or any other value there are in no group" in grouped["notes"][0]


def test_noise_is_told_in_the_units_of_the_answer(box: Box) -> None:
    (box.folder / "q.sql").write_text("SELECT SUM(sugar) FROM people; SELECT COUNT(*) FROM people WHERE sex = 'F'")
    summed, count = box.json("--epsilon", "1")["answers"]
    assert count["how"] == "discrete Laplace, scale 2"  # 1 / 0.5
    assert summed["how"] == "discrete Laplace, scale 20"  # a person moves the sum by up to 10


def test_free_answers_say_why(box: Box) -> None:
    (box.folder / "q.sql").write_text("SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people WHERE age < 0")
    everybody, nobody = box.json()["answers"]
    assert (everybody["value"], nobody["value"]) == (N, 0)
    assert "n is no secret" in everybody["how"]
    assert "no declared cell meets the condition" in nobody["how"]
    box.settings("epsilon = 5\nneighbours = 'add-remove'\n[book]\npath = 'ar.keyhole'")
    _, nobody = box.json()["answers"]
    assert "no declared cell meets the condition" in nobody["how"]


def test_refusals_call_no_public_column_private(box: Box) -> None:
    (box.folder / "q.sql").write_text(
        "SELECT COUNT(*) FROM people WHERE age = sugar; SELECT COUNT(DISTINCT age) FROM people; "
        "SELECT COUNT(*) FROM people WHERE sex LIKE 'F%'"
    )
    answers = box.json()["answers"]
    assert all("refused" in a for a in answers)
    assert not any("private" in a["refused"] for a in answers)
    assert "bins" not in answers[2]["refused"]
    assert "name declared values" in answers[2]["refused"]


def test_help_names_the_budget_table(box: Box) -> None:
    shown = CliRunner().invoke(app, ["ask", "--help"]).output
    assert shown.count("[budget]") == 1
    assert "\\[" not in shown
