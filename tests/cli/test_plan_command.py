"""`keyhole plan` at the command line: plans that run, proofs that there is none, one sentence for what is wrong."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.support.third_party import folder as third_party

import keyhole
from keyhole.api.plan import Asking, Plans
from keyhole.attacks.plan import How
from keyhole.cli.demo import PEOPLE
from keyhole.cli.plan import plan as command
from keyhole.config.settings import settings
from keyhole.errors import ConfigError
from keyhole.report.plan import render_overview

JEREMY = "Name = 'Jeremy Doe'"
RANGE = "Blood sugar:3.0..10.0"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE, encoding="utf-8")
    return path


def run(people: Path, target: str, *more: str, private: str = "Blood sugar") -> Result:
    who = ["--data", str(people), "--id", "Name", "--private", private, "--target", target]
    return CliRunner().invoke(command, [*who, *more])


def told(people: Path, target: str, *more: str, private: str = "Blood sugar") -> dict[str, Any]:
    done = run(people, target, *more, "--format", "json", private=private)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_at_most_three_queries_expose_jeremy_doe(people: Path) -> None:
    found = told(people, JEREMY, "--min-group", "2")
    assert {"target", "queries", "formula", "exposes"} <= found.keys()
    assert found["target"] == {"Name": "Jeremy Doe"}
    assert len(found["queries"]) == 2
    assert found["formula"] == "Q1 - Q2"
    assert found["fewest"]
    assert {"Name": "Jeremy Doe"} in found["exposes"]
    verdict = keyhole.audit("; ".join(found["queries"]), data=people, id="Name", private="Blood sugar")
    assert [(f.who, str(f.value)) for f in verdict.exposed] == [("Jeremy Doe", "5.2")]


@pytest.mark.parametrize("words", ["<,>", "BETWEEN", "IN", "=,<>,OR", "=,<>,<,>,BETWEEN,IN,OR"])
def test_any_operators_do_it(people: Path, words: str) -> None:
    found = told(people, JEREMY, "--operators", words)
    verdict = keyhole.audit("; ".join(found["queries"]), data=people, id="Name", private="Blood sugar")
    assert "Jeremy Doe" in {f.who for f in verdict.exposed}


def test_it_is_played_through_sessions(people: Path) -> None:
    opened, audited = told(people, JEREMY, "--run", private=RANGE)["run"]
    assert (opened["policy"], opened["value"], opened["denied"]) == ("monitored", 5.2, False)
    assert (audited["policy"], audited["value"], audited["denied"]) == ("audited", None, True)
    assert "would expose somebody" in run(people, JEREMY, "--run", private=RANGE).stdout
    assert "are not declared" in run(people, JEREMY, "--run").stdout  # an auditor that knows no range answers nothing
    assert [path.name for path in people.parent.iterdir()] == ["people.csv"]  # no book is left behind


def test_the_session_of_the_settings_is_asked(people: Path) -> None:
    config = people.with_name("keyhole.toml")
    config.write_text(f'[book]\npath = "{people.with_name("book.keyhole")}"\n', encoding="utf-8")
    [played] = told(people, JEREMY, "--run", "-c", str(config))["run"]
    assert (played["policy"], played["denied"]) == ("audited", True)
    assert people.with_name("book.keyhole").exists()


def test_private_answers_give_noise(people: Path) -> None:
    config = people.with_name("keyhole.toml")
    config.write_text(
        f'[book]\npath = "{people.with_name("book.keyhole")}"\n[budget]\nepsilon = 1\n'
        '[columns.private."Blood sugar"]\nmin = 3\nmax = 10\nstep = 0.1\n'
        "[columns.public.ZIP]\nmin = 0\nmax = 99999\nwidth = 1000\n"
        '[columns.public.Gender]\nvalues = ["Male", "Female"]\n',
        encoding="utf-8",
    )
    [played] = told(people, JEREMY, "--run", "-c", str(config))["run"]
    assert played["policy"] == "private"
    assert played["denied"] or played["noisy"]


def test_who_shares_all_columns_is_named(people: Path) -> None:
    found = told(people, JEREMY, "--columns", "Gender")
    assert (found["queries"], found["formula"], found["exposes"], found["impossible"]) == ([], "", [], True)
    assert found["shared"] == [{"Name": "John Smith"}, {"Name": "Joseph Sky"}]


def test_a_second_table_is_the_proof(people: Path) -> None:
    found = told(people, JEREMY, "--operators", "=")
    assert found["impossible"]
    assert "a second table" in found["reason"]
    assert "cannot be found out by allowed questions" in run(people, JEREMY, "--operators", "=").stdout


def test_everybody_is_counted(people: Path) -> None:
    found = told(people, "all")
    assert found["counts"] == {str(How.DIFFERENCE): 6}
    assert len(found["exposes"]) == len(found["plans"]) == 6
    assert "6 of 6 people (100.0 %)" in run(people, "all").stdout


def test_one_list_for_everybody(people: Path) -> None:
    """Six unknown numbers take six questions; an open session gives them all, an audited one denies."""
    found = told(people, "all", "--run")
    assert len(found["queries"]) == found["list"]["bound"] == found["list"]["people"] == 6
    assert found["list"]["fewest"]
    assert found["list"]["exposed"] == 6
    opened, audited = found["list"]["run"]
    assert sorted(opened["values"].values()) == [3.2, 4.3, 5.2, 6.1, 6.2, 7.1]
    assert audited["answered"] < 6
    assert audited["values"] == {}
    said = run(people, "all", "--run").stdout
    assert "One list of 6 questions gives 6 people away; no fewer can do it." in said
    assert "The auditor confirms it: these questions, once answered, expose 6 people." in said
    assert "questions were answered; 0 of 6 values follow." in said
    page = run(people, "all", "--format", "html").stdout
    assert "One list of 6 questions" in page


def test_one_list_of_counts(tmp_path: Path) -> None:
    found = json.loads(of_ill(tmp_path, "--target", "all", "--run", "--format", "json").stdout)
    opened = found["list"]["run"][0]
    names = [f["record"]["name"] for f in found["list"]["formulas"]]
    assert {names[int(k) - 1]: v for k, v in opened["values"].items()} == {"Cyd": "flu"}


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        ("Name = 'Nobody'", (), "matches nobody"),
        ("Gender = 'Male'", (), "matches 3 people"),
        ("Nmae = 'x'", (), "did you mean Name"),
        ('"Blood sugar" > 5', (), "is not public"),
        ("Jeremy Doe", (), "this is not SQL"),
        ("Jeremy Doe", (), "; write a condition such as Name = 'Jeremy Doe'"),
        ("Jeremy", (), "; write a condition such as Name = 'Jeremy'"),
        ("SUM(ZIP) > 5", (), "--target"),
        (JEREMY, ("--columns", "Zipp"), "did you mean 'ZIP'"),
        (JEREMY, ("--columns", "Blood sugar"), "is private"),
        (JEREMY, ("--min-group", "7"), "larger than the table"),
        (JEREMY, ("--operators", "LIKE"), "no operator 'LIKE'"),
        (JEREMY, ("--operators", "OR"), "OR joins conditions"),
        (JEREMY, ("--private", "ZIP"), "about one private column"),
    ],
)
def test_bad_input_is_one_sentence(people: Path, target: str, more: tuple[str, ...], said: str) -> None:
    done = run(people, target, *more)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)


ILL = "name,team,sex,ill\nAnn,a,f,flu\nBob,b,m,cold\nCyd,b,f,flu\nDan,b,m,none\nEve,a,f,cold\n"


def of_ill(folder: Path, *more: str) -> Result:
    (folder / "ill.csv").write_text(ILL)
    return CliRunner().invoke(
        command, ["--data", str(folder / "ill.csv"), "--id", "name", "--private", "ill=flu,cold,none", *more]
    )


def test_a_category_is_found_out_by_counts(tmp_path: Path) -> None:
    """As the engine counts: the formula is 1 for the target's category and 0 for the others."""
    said = of_ill(tmp_path, "--target", "name = 'Cyd'", "--run").stdout
    assert "ill of Cyd = the category for which Q1 - Q2 is 1" in said
    assert "  ill of Cyd = flu\n" in said
    assert "Q1 is refused: it has a condition on the private column 'ill'" in said
    found = json.loads(of_ill(tmp_path, "--target", "name = 'Cyd'", "--format", "json").stdout)
    con = duckdb.connect()
    con.execute(f"CREATE TABLE ill AS FROM read_csv('{tmp_path / 'ill.csv'}')")
    answers = [con.execute(sql).fetchall()[0] for sql in found["queries"]]
    sums = [
        sum(Fraction(w) * n for w, n in zip(found["weights"], each, strict=True)) for each in zip(*answers, strict=True)
    ]
    assert dict(zip(found["categories"], sums, strict=True)) == {"flu": 1, "cold": 0, "none": 0}


def test_who_cannot_be_found_out_by_counts_may_be_by_luck(tmp_path: Path) -> None:
    said = of_ill(tmp_path, "--target", "name = 'Ann'").stdout
    assert "1 other person has the same values in every column" in said
    assert "Ann's ill does not follow from sums of answers to any questions" in said
    assert "That is proved for numbers of any size; counts may tell more, as where nobody of a group has" in said
    assert "counts may tell more" in of_ill(tmp_path, "--target", "all").stdout
    found = json.loads(of_ill(tmp_path, "--target", "name = 'Ann'", "--format", "json").stdout)
    assert not found["impossible"]


def test_pages_of_plans(tmp_path: Path) -> None:
    page = of_ill(tmp_path, "--target", "all", "--format", "html").stdout
    assert "1 of 5 people can be given away by allowed questions." in page
    page = of_ill(tmp_path, "--target", "name = 'Ann'", "--format", "html").stdout
    assert "Ann&#x27;s ill does not follow from sums of answers." in page
    assert "fewest" not in page


def test_a_plan_depends_on_the_roster_alone(people: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "people.csv"
    other.parent.mkdir()
    other.write_text(PEOPLE.replace("5.2", "9.9").replace("7.1", "0"), encoding="utf-8")
    for target in (JEREMY, "Name = 'Nobody'", '"Blood sugar" > 5', "all"):
        one, two = (run(path, target, "--format", "json") for path in (people, other))
        assert str(one.exception) == str(two.exception)
        cut = [line for line in one.stdout.splitlines() if "seconds" not in line]
        assert cut == [line for line in two.stdout.splitlines() if "seconds" not in line]


def test_who_has_no_value_is_not_found_out(tmp_path: Path) -> None:
    table = pa.table({"who": ["a", "b", "c", "d"], "team": [1, 2, 2, 2], "pay": pa.array([None, 1, 2, 3], pa.int64())})
    made = Plans(settings(data=table, id="who", private="pay"), Asking())
    assert made.of(0).found.how is How.NO_VALUE
    assert made.everybody().how == (How.NO_VALUE, How.SHARED, How.SHARED, How.SHARED)


def test_a_stopped_search_keeps_what_was_found() -> None:
    """Ctrl-C or a time limit: chains that were found stay, the rest is undecided with its reason."""
    rows = [(a, b, c, d) for a in range(3) for b in range(3) for c in range(3) for d in range(4)]
    table = pa.table({name: [r[i] for r in rows] for i, name in enumerate("abcd")} | {"pay": list(range(len(rows)))})
    given = settings(data=table, private="pay")
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls > 5

    asking = Asking(most=2, operators=frozenset({"=", "<>", "<", ">", "BETWEEN", "IN"}))
    made = Plans(given, asking, stop)
    found = made.of(0).found
    assert found.how is How.UNDECIDED
    assert "stopped" in found.reason
    assert "may still be given away" in "\n".join(render_overview(made.everybody()))
    assert set(Plans(given, asking).everybody().how) == {How.OUTSIDE}


def test_min_group_and_weights_from_python() -> None:
    table = pa.table({"who": list("abcdef"), "team": [1, 1, 1, 2, 2, 3], "site": list("xyxyxy"), "pay": range(6)})
    found = keyhole.plan("who = 'f'", data=table, id="who", private="pay", min_group=2)
    assert sum(found.weights) == sum((1, -1))
    assert found.exposes[0] == {"who": "f"}
    with pytest.raises(ConfigError, match="larger than the table"):
        keyhole.plan("who = 'f'", data=table, id="who", private="pay", min_group=70)


@pytest.mark.soak
def test_adult_as_measured() -> None:
    """The figures of the benchmark: 23.7 % by two queries, 40.1 % after peeling, nobody undecided."""
    from benchmarks.plan import adult

    found = adult(third_party("adult"), 20)
    assert (found["by two queries"], found["after peeling"], found["undecided"]) == ("23.7 %", "40.1 %", 0)
    assert found["sample"]["planned"] == found["sample"]["right when run as SQL"] > 3


def category_plans_work(seed: int) -> int:
    """Everybody of a random roster: each plan, run by the engine, gives 1 for the true category, 0 for the others."""
    rng = random.Random(seed)
    n, values = rng.randint(5, 9), ("p", "q", "r")
    held = {
        "who": [f"w{i}" for i in range(n)],
        "team": [rng.choice("ab") for _ in range(n)],
        "age": [rng.randint(1, 4) for _ in range(n)],
        "ill": [rng.choice((*values, None)) for _ in range(n)],
    }
    table = pa.table(held)
    con = duckdb.connect()
    con.register("people", table)
    given = settings(data=table, id="who", private="ill=p,q,r")
    plans = Plans(given, Asking(least=rng.choice((1, 2, 3))))
    found = 0
    for row in range(n):
        plan = plans.of(row)
        if plan.queries:
            answers = [con.execute(sql).fetchall()[0] for sql in plan.queries]
            sums = [sum(w * v for w, v in zip(plan.weights, each, strict=True)) for each in zip(*answers, strict=True)]
            assert dict(zip(values, sums, strict=True)) == {v: v == held["ill"][row] for v in values}, (seed, row)
            found += 1
    return found


def test_category_plans_work_when_they_are_run() -> None:
    assert sum(map(category_plans_work, range(2))) > 2


@pytest.mark.soak
def test_category_plans_work_when_they_are_run_for_fresh_seeds() -> None:
    start = random.SystemRandom().randrange(10**9)
    assert sum(map(category_plans_work, range(start, start + 100))) > 100
