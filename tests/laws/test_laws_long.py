"""Laws with more trials, other seeds, the real door to noise, and adversaries that hypothesis finds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import mechanisms_liars as liars
from tests.laws import online, updates
from tests.laws.chernoff import COMPARISONS, LEVEL, SUITE_FALSE_ALARM
from tests.laws.law import Law, Specimen
from tests.laws.mechanism_games import GAMES, Game, scaled
from tests.laws.mechanisms import empirical_epsilon, outputs_follow_their_exact_law_on_both_neighbours
from tests.support.effort import effort

from keyhole.defence.linear import LinearQuery
from keyhole.defence.noise import ExactNoise

LONG = 60_000


def test_the_suite_states_one_false_alarm_rate() -> None:
    made = sum(2 * (max(len(game.law(table, 1.0)) for table in game.pair) + 2) + 2 for game in GAMES)
    assert made < COMPARISONS
    assert pytest.approx(SUITE_FALSE_ALARM) == LEVEL * COMPARISONS


@pytest.mark.soak
@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_with_the_real_door_and_five_per_cent(game: Game) -> None:
    real = replace(game, door=ExactNoise)
    outputs_follow_their_exact_law_on_both_neighbours(real, trials=LONG, error=0.05)
    assert empirical_epsilon(real, trials=LONG // 3) <= game.epsilon


@pytest.mark.soak
@pytest.mark.parametrize("factor", [Fraction(95, 100), Fraction(105, 100)], ids=float)
@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_five_per_cent_is_caught(game: Game, factor: Fraction) -> None:
    with pytest.raises(AssertionError):
        outputs_follow_their_exact_law_on_both_neighbours(
            replace(game, door=scaled(factor, 3)), trials=LONG, error=0.05
        )


@pytest.mark.soak
@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)], ids=float)
@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_ten_per_cent_is_caught_under_other_seeds(game: Game, factor: Fraction) -> None:
    for seed in range(4):
        with pytest.raises(AssertionError):
            outputs_follow_their_exact_law_on_both_neighbours(liars.badly_scaled(game, factor, seed).subject)


@pytest.mark.soak
@pytest.mark.parametrize("law", online.LAWS[:4], ids=lambda law: law.name)
def test_many_streams(law: Law[online.Lifecycle], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "SEEDS", range(1000, 1060))
    for specimen in online.SPECIMENS:
        law.check(specimen.subject)


@st.composite
def adversaries(draw: st.DrawFn) -> updates.UpdateWorld:
    cells = draw(st.integers(2, 5))
    counts = draw(st.lists(st.integers(0, 20), min_size=cells, max_size=cells).filter(any))
    unit = draw(st.sampled_from([1, 1, 3, 10]))
    rows = st.lists(st.integers(0, unit), min_size=cells, max_size=cells)
    queries = draw(st.lists(rows, min_size=1, max_size=25))
    alpha = draw(st.floats(0.12, 0.6))
    shares = tuple((np.array(counts) / sum(counts)).tolist())
    asked = tuple(LinearQuery.of(row, unit) for row in queries)
    return updates.UpdateWorld("drawn", shares, asked, alpha, draw(st.integers(0, 1)), draw(st.floats(-0.999, 0.999)))


@pytest.mark.parametrize("specimen", updates.SPECIMENS, ids=lambda specimen: specimen.name)
@settings(max_examples=effort(60), deadline=None)
@given(world=adversaries())
def test_no_adversary_outlasts_the_limit(specimen: Specimen[updates.Factory], world: updates.UpdateWorld) -> None:
    updates.no_update_sequence_outlasts_its_limit(specimen.subject, [world])
