"""The fuzzers with fixed seeds, short; and with fresh seeds for as long as `make soak` takes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from tests.fuzz import comparisons, conditions, dashboards, enumeration, logs, mixed, mutants, nasty, streams
from tests.fuzz.soak import Play, attempt, line
from tests.fuzz.statements import Made
from tests.fuzz.twin import EveryTable
from tests.fuzz.world import make_world

LONG = {
    "logs": 600,
    "conditions": 200,
    "enumeration": 400,
    "streams": 200,
    "nasty": 60,
    "dashboards": 200,
    "comparisons": 200,
    "mutants": 60,
    "mixed": 300,
    "quotients": 300,
    "rounded": 300,
}


def played(play: Play, seeds: range) -> Counter[str]:
    """The score of some seeds; what went wrong is said with its seed."""
    score = Counter[str]()
    for seed in seeds:
        found, wrong = attempt(play, seed)
        assert not wrong, wrong
        score += found
    return score


def test_random_logs_are_judged_as_the_twin_does() -> None:
    score = played(logs.play, range(3))
    assert score["exposures compared"] > 10
    assert score["judged"] > score["statements"] / 2


def test_dashboards_are_judged_as_every_table_with_their_answers_says() -> None:
    score = played(dashboards.play, range(1, 4))
    assert score["exposures compared"] > 5
    assert score["judged"] > score["statements"] / 2


def test_the_order_of_rows_is_part_of_an_answer() -> None:
    world = make_world(random.Random(5), 3, logs.FEW)
    world.public["g"] = ["a", "b", "b"]
    world.private.update(x=[0, 1, 2], y=[None, None, None])
    twin = EveryTable(logs.engine(), world, logs.FEW)
    everything = set(range(len(twin.tables)))
    counted = Made(("g", "COUNT(*)"), "FROM t GROUP BY g")
    assert twin.same(counted, everything) == everything
    in_order = twin.same(Made(counted.items, f"{counted.rest} ORDER BY SUM(x), g"), everything)
    assert {sum(twin.tables[k]["x"][1:]) >= twin.tables[k]["x"][0] for k in in_order} == {True}
    assert len(in_order) < len(everything)


def test_conditions_without_parentheses_match_whom_the_engine_says() -> None:
    score = played(conditions.play, range(2))
    assert score["judged"] > score["statements"] / 3


def test_what_is_said_before_an_answer_does_not_depend_on_private_values() -> None:
    score = played(lambda seed: streams.play(seed, command=False), range(2))
    assert score["denied"] > 0


def test_the_command_prints_the_same_of_neighbouring_tables() -> None:
    assert played(lambda seed: streams.play(seed, command=True), range(100, 101))["commands"] == 1


def test_nasty_statements_are_judged_right_or_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(nasty.NASTY) > 300
    score = played(lambda seed: nasty.play(seed, 100), range(1))
    assert 0 < score["judged"] < score["statements"]
    assert not list(tmp_path.iterdir())  # no statement wrote a file


def test_comparisons_are_judged_as_the_engine_answers_them_in_every_table() -> None:
    score = played(lambda seed: comparisons.play(seed, logs=1), range(8))
    assert score["fixed"] > 0
    assert score["exposed"] > 0


def test_an_argument_whose_change_changes_nothing_is_none() -> None:
    score = played(lambda seed: mutants.play(seed, 8), range(2))
    assert score["judged"] > score["mutants"] / 3
    assert score["alike"] > 5
    assert score["determined"] > 20


def test_an_argument_that_is_not_read_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyhole.sql.rewriting.upper_bound._UpperBound.check_names", lambda *_: None)
    wrong = [attempt(mutants.play, seed)[1] for seed in (4,)]
    assert "another private column, and nothing changes" in wrong[0]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "play"),
    [
        ("comparisons", comparisons.play),
        ("logs", logs.play),
        ("conditions", conditions.play),
        ("enumeration", enumeration.play),
        ("streams", streams.play),
        ("nasty", lambda seed: nasty.play(seed, None)),
        ("dashboards", dashboards.play),
        ("mutants", mutants.play),
        ("mixed", mixed.play),
        ("quotients", mixed.play_quotients),
        ("rounded", mixed.play_rounded),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_fresh_seeds(name: str, play: Play) -> None:
    first = random.SystemRandom().randrange(10**9)
    print(f"\nfirst seed {first}")  # noqa: T201 - so that a failure can be repeated
    print(line(name, played(play, range(first, first + LONG[name]))))  # noqa: T201
