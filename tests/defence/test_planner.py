"""The planner from end to end: what people ask, recall, inference, prices, refusals, generations, analysts, loading."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.support.third_party import folder

import keyhole
from keyhole.book import Book, Mark
from keyhole.cli import app
from keyhole.config import Config
from keyhole.defence.answering import PrivateAnswer
from keyhole.defence.planner.quantiles import get_sensitivity, score_candidates
from keyhole.defence.simulate.release import SeededNoise, Setup, timed
from keyhole.defence.simulate.workloads import make_workload
from keyhole.errors import PrivacyParameterError

N = 3000
TOLD = """
[budget]
epsilon = 1
delta = 1e-6
{budget}
[columns]
id = ["id"]
[columns.public.sex]
values = ["F", "M"]
missing = "F"
[columns.public.town]
values = ["a", "b", "c"]
[columns.private.age]
min = 0
max = 99
cuts = [20, 40, 60]
missing = 40
[columns.private.pay]
min = 0
max = 50
step = 0.5
"""


def people(n: int = N, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(n),
            "sex": rng.choice(["F", "M"], n, p=[0.3, 0.7]),
            "town": rng.choice(["a", "b", "c"], n),
            "age": rng.integers(0, 100, n),
            "pay": np.round(rng.gamma(4, 4, n).clip(0, 50) * 2) / 2,
        }
    )


def answer(statements: list[str], folder: Path, budget: str = "", **options: object) -> list[PrivateAnswer]:
    found = keyhole.ask(
        statements, data=options.pop("data", people()), config=Config.parse(TOLD.format(budget=budget)),
        book=folder / "book.keyhole", table="people", **options,
    )  # fmt: skip
    assert found.spent <= found.budget.amount
    return list(found.answers)


def value(made: PrivateAnswer) -> float:
    assert made.refused is None, made.refused
    estimate = made.groups[0][1][0]
    assert estimate.value is not None
    return float(estimate.value)


def test_what_people_ask_is_answered_with_bars_that_hold(tmp_path: Path) -> None:
    data = people()
    age, pay, sex = (data[name].to_numpy(zero_copy_only=False) for name in ("age", "pay", "sex"))
    asked = {
        "SELECT COUNT(*) FROM people": N,
        "SELECT COUNT(*) FROM people WHERE sex = 'F' AND age >= 40": float(((sex == "F") & (age >= 40)).sum()),
        "SELECT COUNT(*) FROM people WHERE sex = 'F' OR age < 20": float(((sex == "F") | (age < 20)).sum()),
        "SELECT SUM(pay) FROM people WHERE age < 40": float(pay[age < 40].sum()),
        "SELECT AVG(pay) FROM people WHERE sex = 'M'": float(pay[sex == "M"].mean()),
        "SELECT AVG(age) FROM people": float(age.mean()),
        "SELECT VAR_POP(age) FROM people": float(age.var()),
        "SELECT STDDEV(age) FROM people WHERE sex = 'M'": float(age[sex == "M"].std(ddof=1)),
    }
    made = answer(list(asked), tmp_path, spend=1, beta=1e-6)
    for one, (sql, true) in zip(made, asked.items(), strict=True):
        bar = one.groups[0][1][0].bar
        assert bar is not None, sql
        assert abs(value(one) - true) <= float(bar) + 1e-9, sql
    other = tmp_path / "other"  # a budget of its own: the first is spent
    other.mkdir()
    (median, high) = answer(["SELECT MEDIAN(age) FROM people", "SELECT MAX(age) FROM people"], other, spend=1)
    assert abs(value(median) - np.median(age)) < 40
    assert median.groups[0][1][0].ranks is not None
    assert "0.995 quantile" in high.notes[0]


def test_groups_come_with_every_declared_key_and_grouping_sets(tmp_path: Path) -> None:
    sql = "SELECT sex, town, COUNT(*), AVG(pay) FROM people GROUP BY GROUPING SETS ((sex, town), (town), ())"
    (made,) = answer([sql], tmp_path, horizon=1)
    assert made.refused is None, made.refused
    keys = [dict(key) for key, _ in made.groups]
    assert keys[0] == {"sex": "F", "town": "a"}
    assert len(keys) == 6 + 3 + 1
    assert float(made.groups[-1][1][0].value or 0) == N  # public


def test_asking_again_and_what_follows_is_free(tmp_path: Path) -> None:
    first, again = answer(["SELECT town, sex, COUNT(*) FROM people GROUP BY town, sex"], tmp_path, horizon=5), None
    assert first[0].cost > 0
    again = answer(["SELECT town, sex, COUNT(*) FROM people GROUP BY town, sex"], tmp_path, horizon=5)
    assert again[0].cost == 0
    assert again[0].groups == first[0].groups
    (part,) = answer(["SELECT COUNT(*) FROM people WHERE sex = 'M' AND town = 'a'"], tmp_path, horizon=10**6)
    assert part.cost == 0
    assert part.how.startswith("follows from 1 table")
    cell = next(e[0] for key, e in first[0].groups if dict(key) == {"town": "a", "sex": "M"})
    assert abs(value(part) - float(cell.value or 0)) <= 1


def test_what_is_known_as_well_is_not_paid_for_again(tmp_path: Path) -> None:
    """Every free answer leaves more for those that follow: no reason to buy the same table once more."""

    def one(sql: str, horizon: int = 20) -> PrivateAnswer:
        (made,) = answer([sql], tmp_path, horizon=horizon, anyway=True)
        assert made.refused is None
        return made

    town = one("SELECT COUNT(*) FROM people WHERE town = 'a'")
    sex = one("SELECT COUNT(*) FROM people WHERE sex = 'M'")
    assert one("SELECT VARIANCE(pay) FROM people").cost > 0
    assert one("SELECT COUNT(*) FROM people").cost == 0
    assert one("SELECT STDDEV(pay) FROM people").cost == 0
    assert one("SELECT town, COUNT(*) FROM people GROUP BY town").cost == 0
    cube = one("SELECT town, sex, COUNT(*) FROM people GROUP BY CUBE (town, sex)")
    assert cube.how.startswith("buys a table of count over sex 2 x town 5 (gaussian); all")  # and nothing known again
    bars = {key: made[0].bar or 0 for key, made in cube.groups}
    assert 0 < bars[("sex", "M"),] <= (sex.groups[0][1][0].bar or 0)
    assert 0 < bars[("town", "a"),] <= (town.groups[0][1][0].bar or 0)
    better = one("SELECT COUNT(*) FROM people WHERE sex = 'F'", horizon=8)
    assert better.cost > 0
    assert any(note.startswith("bought anew") for note in better.notes)


def test_a_narrower_bar_for_what_was_seen_is_bought_afresh(tmp_path: Path) -> None:
    """A second look at a value is a generation of its own: nothing seen before is combined into it."""
    sql = "SELECT COUNT(*) FROM people WHERE town = 'b'"
    answer([sql], tmp_path, horizon=50)
    answer([sql], tmp_path, accuracy=0.02)
    with Book.open(tmp_path / "book.keyhole") as book:
        tables = [e.body["answer"] for e in book.entries() if e.kind == Mark.RELEASE]
    assert len(tables) == 2
    assert tables[0]["generation"] == 0
    assert tables[1].get("generation") == 1 or tables[1]["kind"] == "number"


def test_a_dry_run_spends_nothing_and_names_the_alternatives(tmp_path: Path) -> None:
    sql = ["SELECT COUNT(*) FROM people WHERE age >= 40"]
    for options in ({"accuracy": 0.05}, {}):
        told = keyhole.ask(
            sql, data=people(), config=Config.parse(TOLD.format(budget="")), book=tmp_path / "book.keyhole",
            table="people", dry_run=True, **options,
        )  # fmt: skip
        assert told.spent == 0
        assert told.prices[0].cost > 0
        assert told.prices[0].how.startswith("buys ")
    assert not (tmp_path / "book.keyhole").exists()


def test_what_cannot_be_afforded_says_what_can(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) FROM people WHERE town = 'b'"
    (dear,) = answer([sql], tmp_path, accuracy=0.00001)
    found = re.search(r"It cannot be afforded; accuracy = (\S+) under \[budget\] could$", str(dear.refused))
    assert found is not None
    (paid,) = answer([sql], tmp_path, accuracy=float(found[1]))
    assert (paid.refused, paid.cost > 0) == (None, True)


def test_the_price_of_a_file_says_that_it_is_for_all_of_it(tmp_path: Path) -> None:
    sql = ["SELECT COUNT(*) FROM people WHERE town = 'b'", "SELECT sex, COUNT(*) FROM people GROUP BY sex"]
    config = Config.parse(TOLD.format(budget=""))
    first, second = keyhole.ask(
        sql, data=people(), config=config, book=tmp_path / "b.keyhole", table="people", dry_run=True
    ).prices
    assert first.how.startswith("the price of a plan for all 2 statements together, not of this one")
    assert (second.cost, "stands at its first statement" in second.how) == (0, True)


def test_the_price_of_a_file_stands_once_although_its_first_statement_comes_again(tmp_path: Path) -> None:
    sql = ["SELECT COUNT(*) FROM people WHERE town = 'b'", "SELECT sex, COUNT(*) FROM people GROUP BY sex"]
    config, book = Config.parse(TOLD.format(budget="")), tmp_path / "b.keyhole"
    quoted = keyhole.ask([*sql, *sql], data=people(), config=config, book=book, table="people", dry_run=True).prices
    paid = keyhole.ask([*sql, *sql], data=people(), config=config, book=book, table="people")
    assert [q.cost > 0 for q in quoted] == [True, False, False, False]
    assert paid.spent <= sum(q.cost for q in quoted) <= paid.spent * Fraction(11, 10)


def test_an_answer_that_says_nothing_is_not_sold_unless_told(tmp_path: Path) -> None:
    sql = ["SELECT COUNT(*) FROM people WHERE age >= 40"]
    (refused,) = answer(sql, tmp_path, horizon=10**9)
    assert refused.refused is not None
    assert "--anyway" in refused.refused.reason
    assert answer(sql, tmp_path, horizon=10**9, anyway=True)[0].refused is None


def test_a_vague_answer_is_not_recalled_unless_told(tmp_path: Path) -> None:
    sql = ["SELECT town, COUNT(*) FROM people GROUP BY town"]
    (vague,) = answer(sql, tmp_path, horizon=10**9, anyway=True)
    assert float(vague.groups[0][1][0].bar or 0) > N / 2
    (again,) = answer(sql, tmp_path, horizon=10**9, anyway=True)
    assert (again.cost, again.groups) == (0, vague.groups)
    (refused,) = answer(sql, tmp_path, horizon=10**9)
    assert refused.refused is not None
    assert "--anyway" in refused.refused.reason
    follows = answer(["SELECT COUNT(*) FROM people WHERE town = 'a'"], tmp_path, horizon=10**9)[0].refused
    assert follows is not None
    assert "--anyway" in follows.reason
    (better,) = answer(sql, tmp_path, horizon=10)
    assert better.cost > 0
    assert float(better.groups[0][1][0].bar or N) < N / 2
    assert answer(sql, tmp_path, horizon=10)[0].cost == 0


def test_accuracy_is_a_share_of_all_people(tmp_path: Path) -> None:
    sql = ["SELECT COUNT(*) FROM people WHERE sex = 'F'"]
    for told in (10, "10", "1", "100%"):
        with pytest.raises(PrivacyParameterError, match=r"accuracy is a share of all people: 0\.01 is one percent"):
            answer(sql, tmp_path, accuracy=told)
    with pytest.raises(PrivacyParameterError, match="share of all people"):
        answer(sql, tmp_path, budget="accuracy = 10")
    for told in ("x", "%", "1 %%"):
        with pytest.raises(PrivacyParameterError, match="is no number"):
            answer(sql, tmp_path, accuracy=told)
    with pytest.raises(PrivacyParameterError, match="in people"):
        answer(sql, tmp_path, budget="neighbours = 'add-remove'", accuracy="1%")
    (made,) = answer(sql, tmp_path, budget="accuracy = '5%'")
    assert 0 < float(made.groups[0][1][0].bar or 0) <= 0.05 * N + 1
    assert answer(sql, tmp_path, accuracy=" 5% ")[0].cost == 0
    assert answer(sql, tmp_path, accuracy=0.05)[0].cost == 0


def test_a_file_spends_a_tenth_unless_told_and_never_more_than_the_cap(tmp_path: Path) -> None:
    sql = [f"SELECT COUNT(*) FROM people WHERE town = '{town}' AND age < 40" for town in "abc"]
    sql += ["SELECT sex, AVG(pay) FROM people GROUP BY sex"]
    first = answer(sql, tmp_path)
    cap = float(first[0].left) + float(first[0].cost)
    assert 0.099 < float(sum(a.cost for a in first)) / cap <= 0.1
    assert all(a.refused is None for a in first)
    more = answer(["SELECT COUNT(*) FROM people WHERE sex = 'M'", "SELECT SUM(age) FROM people WHERE sex = 'F'"],
                  tmp_path, spend=1)  # fmt: skip
    assert float(more[-1].left) < 0.001 * cap


def test_a_column_too_wide_for_a_pilot_does_not_stop_the_file(tmp_path: Path) -> None:
    """Its sums need more noise than the pilot can draw: the others are planned for all the same, and nothing fails."""
    wide = TOLD.replace("max = 50\nstep = 0.5", "max = 2000000000\nstep = 1")
    sql = ["SELECT COUNT(*) FROM people WHERE age < 40", "SELECT SUM(pay) FROM people WHERE sex = 'F'",
           "SELECT COUNT(DISTINCT town) FROM people"]  # fmt: skip
    found = keyhole.ask(sql, data=people(), config=Config.parse(wide.format(budget="")), table="people",
                           book=tmp_path / "b.keyhole", spend=Fraction(1, 1000))  # fmt: skip
    assert found.answers[0].refused is None
    assert "gave this answer up" in str(found.answers[2].refused)  # of three values nothing could be said
    assert found.spent <= found.budget.amount / 1000


def test_the_pilot_is_not_combined_with_what_it_chose(tmp_path: Path) -> None:
    answer([f"SELECT COUNT(*) FROM people WHERE town = '{town}' AND sex = 'F'" for town in "ab"], tmp_path)
    with Book.open(tmp_path / "book.keyhole") as book:
        bought = [e.body for e in book.entries() if e.kind == Mark.RELEASE]
    generations = {body["answer"]["generation"] for body in bought if body["sql"] == "pilot"}
    assert generations == {1}
    assert {body["answer"]["generation"] for body in bought if body["sql"] != "pilot"} == {2}


def test_analysts_are_charged_once_for_each_table_they_are_told_of(tmp_path: Path) -> None:
    budget = "analysts = { ann = 0.5, bob = 0.5 }"
    sql = ["SELECT COUNT(*) FROM people WHERE sex = 'F'"]
    (first,) = answer(sql, tmp_path, budget, analyst="ann", horizon=20)
    (told,) = answer(sql, tmp_path, budget, analyst="bob", horizon=20)
    assert first.cost > 0
    assert told.cost == 0
    assert told.groups == first.groups
    with Book.open(tmp_path / "book.keyhole") as book:
        state = book.state
        assert state.spent("ann") == state.spent("bob") == state.spent("*")
    answer(sql, tmp_path, budget, analyst="bob", horizon=20)
    with Book.open(tmp_path / "book.keyhole") as book:
        assert book.state.spent("bob") == book.state.spent("ann")  # once


def test_loading_is_total(tmp_path: Path) -> None:
    """Whatever the table holds: NULL, undeclared values, numbers off the step, beyond the range, not numbers."""
    rows = people(2_000).to_pydict()  # so many that noise makes no group look too small
    rows["sex"][0], rows["town"][1], rows["age"][2] = None, "zz", None
    rows["pay"][:4] = [float("nan"), float("inf"), -3.0, 7.23]
    rows["age"][3] = 1000
    odd = pa.table(rows)
    sql = [
        "SELECT town, COUNT(*) FROM people GROUP BY town",
        "SELECT SUM(pay) FROM people",
        "SELECT AVG(age) FROM people",
    ]
    assert all(a.refused is None for a in answer(sql, tmp_path, data=odd, spend=1, anyway=True))


def test_nobody_at_all_loads_like_anybody_under_add_remove(tmp_path: Path) -> None:
    empty = people(5).slice(0, 0)
    made = answer(["SELECT COUNT(*) FROM people", "SELECT sex, AVG(age) FROM people GROUP BY sex"], tmp_path,
                  'neighbours = "add-remove"', data=empty, spend=1)  # fmt: skip
    assert made[0].refused is None
    assert abs(value(made[0])) < 200


def test_what_is_refused_depends_on_the_declaration_alone(tmp_path: Path) -> None:
    cases = {
        "SELECT COUNT(*) FROM people WHERE town = 'nowhere'": "not a declared value",
        "SELECT COUNT(*) FROM people WHERE id = 3": "nobody is asked about by id privately",
        "SELECT town, MEDIAN(age), COUNT(*) FROM people GROUP BY town": "a statement of their own",
        "SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 5": "HAVING",
        "SELECT SUM(town) FROM people": "",
    }
    for one, words in zip(answer(list(cases), tmp_path), cases.values(), strict=True):
        assert one.refused is not None
        assert words in one.refused.reason


def test_the_book_reads_as_a_transcript_of_what_was_released(tmp_path: Path) -> None:
    found = keyhole.ask(
        ["SELECT town, COUNT(*) FROM people GROUP BY town"], data=people(), table="people", horizon=3,
        config=Config.parse(TOLD.format(budget="")), book=tmp_path / "book.keyhole",
    )  # fmt: skip
    lines = [json.loads(line) for line in found.releases]
    assert len(lines) == 5  # a, b, c, any other, NULL
    assert lines[0]["sql"] == 'SELECT COUNT(*) FROM "people" WHERE "town" = \'a\''
    assert lines[0]["noise"]["kind"] == "discrete-gaussian"


def test_quantile_scores_move_by_their_sensitivity_at_most() -> None:
    """Brute force over neighbouring columns: people inside or outside the condition, replace-one and add-remove."""
    grid = np.arange(4)
    worlds = [tuple(p) for p in np.ndindex(5, 5, 5)]  # 4: outside the condition

    def scored(world: tuple[int, ...], level: Fraction) -> np.ndarray:  # type: ignore[type-arg]
        inside = np.array(sorted(p for p in world if p < 4), dtype=np.int64)
        points, counts = np.unique(inside, return_counts=True)
        return np.array(score_candidates(points, counts, grid, level))

    for level in (Fraction(1, 2), Fraction(1, 4), Fraction(199, 200)):
        made = {world: scored(world, level) for world in worlds}
        moved = max(
            int(np.abs(made[w] - made[(*w[:at], p, *w[at + 1 :])]).max())
            for w in worlds
            for at in range(3)
            for p in range(5)
        )
        assert moved <= get_sensitivity(level, "replace-one")
        added = max(int(np.abs(made[w] - made[(4, *w[1:])]).max()) for w in worlds)
        assert added <= get_sensitivity(level, "add-remove")


def test_streams_cost_what_the_planner_promises() -> None:
    work = make_workload("covid", 250, 0.0, 1)
    setup = Setup(0.05, 0.001, 1e-7, 0)
    planner, declared, cache = (timed(name, work, setup) for name in ("planner", "planner-declared", "cache"))
    assert planner.epsilon <= 0.0021
    assert declared.epsilon <= 0.0011
    assert cache.epsilon > 10 * planner.epsilon
    assert min(planner.within_alpha or 0, declared.within_alpha or 0) >= 0.99


def test_simulate_release_prints_the_contract(tmp_path: Path) -> None:
    out = CliRunner().invoke(app, ["simulate", "release", "--workload", "binary:6", "--queries", "40", "--mechanism",
                                   "planner", "--mechanism", "cache", "--format", "json"])  # fmt: skip
    said = json.loads(out.output)
    assert said["workload"]["queries"] == 40
    assert {"mechanism", "epsilon", "answered", "within_alpha", "seconds"} <= set(said["mechanisms"][0])
    assert CliRunner().invoke(app, ["simulate", "release", "--workload", "nothing"]).exit_code == 2


def test_adult_with_all_columns_declared_answers_one_count(tmp_path: Path) -> None:
    folder("adult")
    from benchmarks.release import adult

    config = Config.load(Path(__file__).parents[2] / "benchmarks" / "adult.toml")
    assert len(config.columns.private) + len(config.columns.public) == 15
    found = keyhole.ask(["SELECT COUNT(*) FROM adult WHERE sex = 'Male' AND age >= 40"], data=adult(), table="adult",
                           config=config, book=tmp_path / "book.keyhole", horizon=10)  # fmt: skip
    estimate = found.answers[0].groups[0][1][0]
    assert estimate.value is not None
    assert abs(float(estimate.value) - 9969) < 1500
    assert isinstance(SeededNoise(np.random.default_rng(0)).laplace(Fraction(2)), int)
