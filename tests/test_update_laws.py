"""Every law on every database update and world, adversaries found by hypothesis, and every law on its liar."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.checks.updates import (
    LAWS,
    SPECIMENS,
    WORLDS,
    Factory,
    UpdateLaw,
    UpdateWorld,
    no_update_sequence_outlasts_its_limit,
)
from keyhole.checks.updates_liars import LIARS
from keyhole.defend.linear import LinearQuery


@pytest.mark.parametrize("factory", SPECIMENS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: UpdateLaw, factory: Factory) -> None:
    for world in WORLDS:
        law(factory, world)


@pytest.mark.parametrize(("law", "factory"), LIARS, ids=lambda x: x.__name__)
def test_liar_is_caught(law: UpdateLaw, factory: Factory) -> None:
    def caught(world: UpdateWorld) -> bool:
        try:
            law(factory, world)
        except AssertionError:
            return True
        return False

    assert any(caught(world) for world in WORLDS)


def test_every_law_has_a_liar() -> None:
    assert {law for law, _ in LIARS} == set(LAWS)


@st.composite
def adversaries(draw: st.DrawFn) -> UpdateWorld:
    cells = draw(st.integers(2, 5))
    counts = draw(st.lists(st.integers(0, 20), min_size=cells, max_size=cells).filter(any))
    unit = draw(st.sampled_from([1, 1, 3, 10]))
    rows = st.lists(st.integers(0, unit), min_size=cells, max_size=cells)
    queries = draw(st.lists(rows, min_size=1, max_size=25))
    alpha = draw(st.floats(0.12, 0.6))
    shares = tuple((np.array(counts) / sum(counts)).tolist())
    asked = tuple(LinearQuery.of(row, unit) for row in queries)
    return UpdateWorld("drawn", shares, asked, alpha, draw(st.integers(0, 1)), draw(st.floats(-0.999, 0.999)))


@pytest.mark.parametrize("factory", SPECIMENS, ids=lambda f: f.__name__)
@settings(max_examples=60, deadline=None)
@given(world=adversaries())
def test_no_adversary_outlasts_the_limit(factory: Factory, world: UpdateWorld) -> None:
    no_update_sequence_outlasts_its_limit(factory, world)
