"""The subspace: closed forms against enumeration, the slack of a neighbourhood, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort

from keyhole.errors import ModelError
from keyhole.oracles import EllipsoidBisection, ThresholdOracle
from keyhole.oracles.subspace import Subspace


def random_space(seed: int, D: int, d: int, neighbourhood: float = 0.0) -> Subspace:
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((D, d)))[0].T
    low = rng.uniform(-2, 0, D)
    return Subspace(basis, low, low + rng.uniform(0.1, 2, D), neighbourhood)


@given(seed=st.integers(0, 10_000), D=st.integers(1, 6), data=st.data())
@settings(max_examples=effort(40), deadline=None)
def test_initial_box_is_the_range_over_the_corners(seed: int, D: int, data: st.DataObject) -> None:
    d = data.draw(st.integers(1, D))
    space = random_space(seed, D, d)
    corners = np.array(list(itertools.product(*zip(space.lower, space.upper, strict=True))))
    c = corners @ space.basis.T
    x, y = space.initial_box()
    assert np.allclose(x, c.min(axis=0))
    assert np.allclose(y, c.max(axis=0))


@given(seed=st.integers(0, 10_000), off=st.floats(0.0, 0.3))
@settings(max_examples=effort(40), deadline=None)
def test_slack_covers_what_lies_off_the_subspace(seed: int, off: float) -> None:
    space = random_space(seed, 6, 2, 0.35)
    rng = np.random.default_rng(seed)
    q = rng.standard_normal(2) @ space.basis
    away = rng.standard_normal(6)
    away -= (away @ space.basis.T) @ space.basis
    q = q + off * np.linalg.norm(q) * away / np.linalg.norm(away)
    z, known, slack = space.project(q[None, :])
    w = rng.uniform(space.lower, space.upper)
    assert abs(q @ w - z[0] @ space.coordinates(w) - known[0]) <= slack[0] + 1e-6


@pytest.mark.parametrize("width", [4, 100])
@pytest.mark.parametrize("row", [0, 70, 149])
def test_bad_rows_are_named(width: int, row: int) -> None:
    space = Subspace.blocks(width, 2)
    good = np.random.default_rng(0).random((150, 2)) @ space.basis
    for value, words in ((0.0, "zero"), (np.nan, "finite"), (np.inf, "finite")):
        block = good.copy()
        block[row] = value
        with pytest.raises(ModelError, match=f"query {row} .*{words}"):
            space.project(block)
    block = good.copy()
    block[row, 0] += 0.5
    with pytest.raises(ModelError, match=f"query {row} .* away from the 2-dimensional subspace"):
        space.project(block)
    assert np.allclose(space.project(good)[0], good @ space.basis.T)


def test_short_queries_beside_long_ones_are_not_refused() -> None:
    space = Subspace.blocks(4, 2)
    rng = np.random.default_rng(1)
    block = (rng.random((500, 2)) * 10.0 ** rng.uniform(-6, 6, (500, 1))) @ space.basis
    assert space.project(block)[0].shape == (500, 2)


def test_what_is_not_a_subspace_is_refused() -> None:
    with pytest.raises(ModelError, match="not orthonormal"):
        Subspace(np.ones((2, 4)), np.zeros(4), np.ones(4))
    with pytest.raises(ModelError, match="as rows"):
        Subspace(np.eye(4)[:, :2], np.zeros(2), np.ones(2))
    with pytest.raises(ModelError, match="lower < upper"):
        Subspace(np.eye(2), np.ones(2), np.zeros(2))
    with pytest.raises(ModelError, match="neighbourhood"):
        Subspace(np.eye(2), np.zeros(2), np.ones(2), 1.0)
    with pytest.raises(ModelError, match="4 entries"):
        Subspace.blocks(4, 2).project(np.ones((3, 5)))
    with pytest.raises(ModelError, match="1 <= d <= D"):
        Subspace.blocks(2, 3)


def test_what_cannot_be_squared_is_one_sentence() -> None:
    space, rng = Subspace.blocks(4, 2), np.random.default_rng(0)
    with pytest.raises(ModelError, match=r"query 1 of the block is too long or too short"):
        space.project(np.array([[1.0, 1, 1, 1], [1e308] * 4]))
    with pytest.raises(ModelError, match=r"query 0 of the block is too long or too short"):
        space.project(np.full((1, 4), 1e-200))
    for box in (
        lambda: Subspace(np.eye(2), 0.0, 1e308),
        lambda: EllipsoidBisection(-np.ones(2), np.full(2, 1e308), resolution=1),
    ):
        with pytest.raises(ModelError, match=r"reaches beyond 1e\+100"):
            box()
    with pytest.raises(ModelError, match=r"entry beyond 1e\+100"):
        EllipsoidBisection(np.zeros(2), np.ones(2), resolution=0.1).threshold(np.array([1e308, 1]))
    with pytest.raises(ModelError, match="whole numbers"):
        Subspace.blocks(4, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="the noise is a law"):
        ThresholdOracle(np.zeros(2), 1.0, rng=rng)  # type: ignore[arg-type]
