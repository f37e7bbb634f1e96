"""GROUP BY over keys that nobody declared: the threshold against exact tails, the price, what is shown."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.laws.exact_laws import gaussian_mass, laplace_mass

import keyhole
from keyhole.config import Config
from keyhole.defence.planner.unknown_keys import bound_tail, find_threshold
from keyhole.defence.tables.noisy_tables import NoiseLaw
from keyhole.errors import KeyholeError

TOLD = """
[budget]
epsilon = 1
delta = 1e-6
{budget}
[columns]
id = ["who"]
[columns.public.sex]
values = ["F", "M"]
missing = "F"
"""
KEYS = 'neighbours = "add-remove"\ndelta_for_keys = 5e-7'
BY_TOWN = "SELECT town, COUNT(*) FROM t GROUP BY town"


@pytest.mark.parametrize(("law", "noise"), [("laplace", 5), ("laplace", 40), ("gaussian", 30), ("gaussian", 900)])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_person_alone_with_keys_is_shown_with_probability_delta_at_most(law: NoiseLaw, noise: int, rows: int) -> None:
    """Against the exact law of the noise, for every way to bring rows to new keys; and T is not too large."""
    points, masses = laplace_mass(noise) if law == "laplace" else gaussian_mass(noise)
    delta = Fraction(1, 10**5)
    least = find_threshold(Fraction(noise), law, delta, rows)
    worst = max(
        sum(float(masses[points >= least - c].sum()) for c in split)
        for split in ([(3,), (2, 1), (1, 1, 1)] if rows == 3 else [(1,)])
    )
    assert worst <= float(delta)
    lower = rows * float(masses[points >= least - 1 - rows].sum())
    assert lower > float(delta) * (1 - 1e-6) or law == "gaussian"
    assert lower > float(delta) / 3
    assert bound_tail(1, Fraction(noise), law) >= float(masses[points >= 1].sum())


def data(n: int = 4000) -> pa.Table:
    rng = np.random.default_rng(0)
    towns = np.where(rng.random(n) < 0.9, rng.choice(["Aa", "Bb", "Cc"], n), [f"only{k}" for k in range(n)])
    return pa.table({"who": np.arange(n), "sex": rng.choice(["F", "M"], n), "town": towns})


def asked(statements: list[str], folder: Path, budget: str = KEYS, **options: object) -> keyhole.Answers:
    told = Config.parse(TOLD.format(budget=budget))
    return keyhole.ask(statements, data=data(), config=told, book=folder / "b.keyhole", table="t", **options)


def test_crowds_are_shown_and_nobody_who_is_alone(tmp_path: Path) -> None:
    found = asked([BY_TOWN], tmp_path, horizon=5)
    (made,) = found.answers
    assert [dict(key) for key, _ in made.groups] == [{"town": "Aa"}, {"town": "Bb"}, {"town": "Cc"}]
    assert all(abs(float(e[0].value or 0) - 1200) < 300 for _, e in made.groups)
    assert "leans upward" in made.notes[0]
    assert "at delta 1e-06" in made.how
    again = asked([BY_TOWN], tmp_path, horizon=5)
    assert again.answers[0].groups == made.groups
    assert again.answers[0].cost == 0
    part = asked(["SELECT town, COUNT(*) FROM t WHERE sex = 'F' GROUP BY town"], tmp_path, horizon=5).answers[0]
    assert all(abs(float(e[0].value or 0) - 600) < 300 for _, e in part.groups)
    assert len(found.releases) == 3


def test_delta_for_keys_is_spent_and_runs_out(tmp_path: Path) -> None:
    wheres = [f"SELECT town, COUNT(*) FROM t WHERE sex = '{s}' GROUP BY town" for s in "FM"]
    prices = asked(wheres, tmp_path, dry_run=True).prices
    assert all("delta" in p.how for p in prices)
    asked([BY_TOWN, *wheres], tmp_path)
    from keyhole.book import Book

    with Book.open(tmp_path / "b.keyhole") as book:
        _, delta = book.state.spent("*")
    assert math.isclose(float(delta), 5e-7 * (0.1 + 0.09 + 0.081))


def test_keys_need_add_remove_and_a_delta_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(KeyholeError, match="add-remove"):
        asked([BY_TOWN], tmp_path, "delta_for_keys = 1e-7")
    with pytest.raises(KeyholeError, match="below"):
        asked([BY_TOWN], tmp_path, 'neighbours = "add-remove"\ndelta_for_keys = 1e-6')
    (refused,) = asked([BY_TOWN], tmp_path, 'neighbours = "add-remove"').answers
    assert "no declared domain" in str(refused.refused)
    (other,) = asked(["SELECT town, AVG(who) FROM t GROUP BY town"], tmp_path, KEYS).answers
    assert other.refused is not None
