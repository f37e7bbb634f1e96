"""The confidence region from single bits: around the exact one, lost at most delta of the time, near the true error."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from keyhole.oracles import (
    GaussianNoise,
    OneBitNewton,
    OracleNoise,
    Spread,
    Subspace,
    ThresholdOracle,
    UniformNoise,
)
from keyhole.oracles.certify.likelihood_region import LikelihoodRegion

R = np.random.default_rng
SPACE = Subspace.blocks(4, 2)
LAWS = [GaussianNoise(0.5), UniformNoise(0.8)]
Watch = Callable[[LikelihoodRegion, OneBitNewton, np.ndarray, float, int, np.ndarray], None]


def played(
    space: Subspace, stated: OracleNoise, true: OracleNoise, seed: object, bits: int, delta: float, watch: Watch
) -> tuple[LikelihoodRegion, OneBitNewton, np.ndarray]:
    rng = R(seed)  # type: ignore[arg-type]
    w = rng.random(space.D)
    attack, region = OneBitNewton(space, stated), LikelihoodRegion(space, stated, delta=delta)
    oracle = ThresholdOracle(w, true, rng=rng)
    for q in Spread(space).block(bits, rng):
        threshold, guess = attack.threshold(q), attack.estimate()
        assert threshold is not None
        said = oracle.above(q, threshold)
        region.learn(q, threshold, said, guess)
        attack.learn(q, threshold, said)
        watch(region, attack, q, threshold, said, w)
    return region, attack, w


def lost(stated: OracleNoise, true: OracleNoise, runs: int, bits: int, delta: float, first: int = 0) -> int:
    """In how many runs the truth left the region at any time."""
    gone = set[int]()
    for seed in range(first, first + runs):
        space = Subspace.blocks(2, 1) if seed % 2 else SPACE

        def look(region: LikelihoodRegion, *rest: object, seed: int = seed) -> None:
            w = rest[-1]
            assert isinstance(w, np.ndarray)
            if not region.holds(w) or region.radius(w * 0) + 1e-9 < np.linalg.norm(region.subspace.coordinates(w)):
                gone.add(seed)

        played(space, stated, true, [seed, 5], bits, delta, look)
    return len(gone)


@pytest.mark.parametrize("noise", LAWS, ids=["gaussian", "uniform"])
def test_the_truth_leaves_the_region_at_most_delta_of_the_time(noise: OracleNoise) -> None:
    runs, delta = 24, 0.3
    assert binom.sf(lost(noise, noise, runs, 70, delta) - 1, runs, delta) > 1e-3


def test_a_liar_about_its_noise_is_caught() -> None:
    """The same check must fail for noise that is six times what is stated."""
    runs, delta = 16, 0.3
    assert binom.sf(lost(GaussianNoise(0.1), GaussianNoise(0.6), runs, 120, delta) - 1, runs, delta) < 1e-3


@pytest.mark.soak
@pytest.mark.parametrize("noise", LAWS, ids=["gaussian", "uniform"])
def test_the_truth_leaves_the_region_at_most_delta_of_the_time_with_fresh_seeds(noise: OracleNoise) -> None:
    runs, delta = 300, 0.2
    gone = lost(noise, noise, runs, 400, delta, first=int(np.random.SeedSequence().entropy) % 10**9)  # type: ignore[operator]
    assert binom.sf(gone - 1, runs, delta) > 1e-4


@pytest.mark.parametrize("noise", LAWS, ids=["gaussian", "uniform"])
def test_the_quadratic_lies_below_the_exact_loss_wherever_w_may_be(
    noise: OracleNoise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: what each bit adds, against -log p(bit | c) + log of the guess's chance, from the cdf, on a grid of c."""
    side = np.linspace(0, math.sqrt(2), 41)
    grid = np.array([[a, b] for a in side for b in side])
    allowed, chances = np.ones(len(grid), dtype=bool), list[float]()
    before, theirs = np.zeros(len(grid)), LikelihoodRegion._chance

    def noted(region: LikelihoodRegion, x: float, z: np.ndarray, width: float) -> float:
        chances.append(theirs(region, x, z, width))
        return chances[-1]

    def look(region: LikelihoodRegion, _a: object, q: np.ndarray, threshold: float, said: int, _w: object) -> None:
        nonlocal before, allowed
        margins = grid @ SPACE.coordinates(q)
        yes = np.array([1 - noise.cdf(threshold - float(m)) for m in margins])
        loss = -np.log(np.maximum(yes if said else 1 - yes, 1e-300)) + math.log(chances[-1])
        off, mine = grid - region._base, region._sum
        value = mine.constant + off @ mine.slope + 0.5 * np.einsum("ni,ij,nj->n", off, mine.H, off)
        assert np.all((value - before)[allowed] <= loss[allowed] + 1e-6)
        before = value  # what the region has excluded need not be bounded from then on
        allowed &= np.all((grid >= region.x) & (grid <= region.y), axis=1)
        for step, inverse, squared in region._shapes():
            away = off - step
            allowed &= np.einsum("ni,ij,nj->n", away, np.linalg.inv(inverse), away) <= squared

    monkeypatch.setattr(LikelihoodRegion, "_chance", noted)
    played(SPACE, noise, noise, 3, 120, 0.3, look)
    assert 0 < allowed.sum() < len(grid)


@pytest.mark.parametrize(("d", "bits", "std"), [(1, 400, 0.5), (8, 1200, 0.2)])
def test_it_is_within_about_five_times_the_deviation_of_the_estimate(d: int, bits: int, std: float) -> None:
    space = Subspace.blocks(2 * d, d)
    region, attack, w = played(space, GaussianNoise(std), GaussianNoise(std), d, bits, 0.01, lambda *_: None)
    deviation = math.sqrt(float(np.trace(attack.covariance())))
    assert np.linalg.norm(attack.estimate() - w @ space.basis.T @ space.basis) <= region.radius(attack.estimate())
    assert region.radius(attack.estimate()) <= 5.5 * deviation


def test_memory_does_not_grow() -> None:
    region, *_ = played(SPACE, LAWS[0], LAWS[0], 0, 300, 0.01, lambda *_: None)
    assert len(region._anew) == 2


def test_a_target_that_changes_refutes_the_region() -> None:
    """Guesses that follow a moving w do better than any fixed one: nothing is left, and that is said."""
    space, noise, rng = Subspace.blocks(2, 1), GaussianNoise(0.1), R(1)
    region, oracle = LikelihoodRegion(space, noise), ThresholdOracle(np.zeros(2), noise, rng=rng)
    for t in range(60):
        w = np.full(2, 0.2 if t < 30 else 0.8)
        oracle.hidden = w
        q = space.basis[0]
        region.learn(q, float(q @ w), oracle.above(q, float(q @ w)), w)
    assert region.refuted
    honest, *_ = played(SPACE, LAWS[0], LAWS[0], 0, 200, 0.01, lambda *_: None)
    assert not honest.refuted
