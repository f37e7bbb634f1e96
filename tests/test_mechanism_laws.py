"""Every law on every mechanism and budget, and every law on the liars it must catch."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from keyhole.checks.chernoff import COMPARISONS, LEVEL, SUITE_FALSE_ALARM
from keyhole.checks.mechanisms import (
    BUDGET_LAWS,
    LAWS,
    SPECIMENS,
    BudgetLaw,
    MechanismLaw,
    Specimen,
    empirical_epsilon,
    outputs_follow_their_exact_law_on_both_neighbours,
    seeded,
)
from keyhole.checks.mechanisms_liars import BUDGET_LIARS, LIARS, Liar
from keyhole.checks.seeded_noise import ScaledNoise, SeededNoise
from keyhole.defend.budget import Budget, Cap
from keyhole.defend.ledger import Ledger
from keyhole.defend.noise import ExactNoise


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: s.name)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: MechanismLaw, specimen: Specimen) -> None:
    law(specimen, seeded(2026))


SHORT = [liar for liar in LIARS if liar.factor <= 1]  # too much noise costs accuracy, not privacy: soak


@pytest.mark.parametrize("liar", SHORT, ids=lambda liar: f"{liar.law.__name__}: {liar.story}")
def test_liar_is_caught(liar: Liar) -> None:
    with pytest.raises(AssertionError):
        liar.law(liar.specimen, liar.noise(7))


def test_every_law_has_a_liar() -> None:
    assert {liar.law for liar in LIARS} == set(LAWS)
    assert {law for law, _ in BUDGET_LIARS} == set(BUDGET_LAWS)


@pytest.mark.parametrize("make", [Budget, "file"], ids=["memory", "ledger"])
@pytest.mark.parametrize("law", BUDGET_LAWS, ids=lambda law: law.__name__)
def test_budget_law(law: BudgetLaw, make: Callable[[Cap], Budget] | str, tmp_path: Path) -> None:
    law((lambda cap: Ledger(tmp_path / "budget.keyhole", cap)) if isinstance(make, str) else make)


@pytest.mark.parametrize(("law", "make"), BUDGET_LIARS, ids=lambda x: x.__name__)
def test_budget_liar_is_caught(law: BudgetLaw, make: Callable[[Cap], Budget]) -> None:
    with pytest.raises(AssertionError):
        law(make)


def test_the_suite_states_one_false_alarm_rate() -> None:
    per_specimen = 2 * (max(len(s.law(s.pair[0], 1.0)) for s in SPECIMENS) + 2) + 2
    assert len(SPECIMENS) * per_specimen < COMPARISONS
    assert pytest.approx(SUITE_FALSE_ALARM) == LEVEL * COMPARISONS


LONG = 60_000


@pytest.mark.soak
@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: s.name)
def test_with_the_real_door_and_five_per_cent(specimen: Specimen) -> None:
    outputs_follow_their_exact_law_on_both_neighbours(specimen, ExactNoise(), trials=LONG, error=0.05)
    assert empirical_epsilon(specimen, ExactNoise(), trials=LONG // 3) <= specimen.epsilon


@pytest.mark.soak
@pytest.mark.parametrize("factor", [Fraction(95, 100), Fraction(105, 100)], ids=float)
@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: s.name)
def test_five_per_cent_is_caught(specimen: Specimen, factor: Fraction) -> None:
    noise = ScaledNoise(SeededNoise(np.random.default_rng(3)), factor)
    with pytest.raises(AssertionError):
        outputs_follow_their_exact_law_on_both_neighbours(specimen, noise, trials=LONG, error=0.05)


@pytest.mark.soak
@pytest.mark.parametrize("liar", [liar for liar in LIARS if liar.factor * 10 in (9, 11)], ids=lambda liar: liar.story)
def test_liars_are_caught_under_other_seeds(liar: Liar) -> None:
    for seed in range(4):
        with pytest.raises(AssertionError):
            liar.law(liar.specimen, liar.noise(seed))
