"""The door to randomness: OpenDP's draws follow the exact discrete laws, and a wrong scale is caught."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.laws.chernoff import surprising
from tests.laws.exact_laws import gaussian_mass, laplace_mass

from keyhole.defence.noise import ExactNoise, NoiseSource, exact_noise, float_above, root_above
from keyhole.defence.simulate.release import SeededNoise
from keyhole.errors import PrivacyParameterError

TRIALS = 12_000


def law_is_broken(draw: Callable[[], int], points: np.ndarray, masses: np.ndarray, scale: float) -> bool:
    drawn = np.array([draw() for _ in range(TRIALS)])
    edges = [0, scale / 2, scale, 2 * scale, 3 * scale]
    events = [(np.abs(drawn) >= e, float(masses[np.abs(points) >= e].sum())) for e in edges[1:]]
    events.append((drawn > 0, float(masses[points > 0].sum())))
    events.append((drawn % 2 == 0, float(masses[points % 2 == 0].sum())))
    return any(surprising(int(hit.sum()), TRIALS, chance) for hit, chance in events)


@pytest.mark.parametrize("make", [ExactNoise, lambda: SeededNoise(np.random.default_rng(5))], ids=["exact", "seeded"])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(9, 2), Fraction(1003, 10)], ids=str)
def test_laplace(make: Callable[[], NoiseSource], scale: Fraction) -> None:
    noise = make()
    assert not law_is_broken(lambda: noise.laplace(scale), *laplace_mass(float(scale)), float(scale))


@pytest.mark.parametrize("make", [ExactNoise, lambda: SeededNoise(np.random.default_rng(6))], ids=["exact", "seeded"])
@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(4), Fraction(5000)], ids=str)
def test_gaussian(make: Callable[[], NoiseSource], variance: Fraction) -> None:
    noise = make()
    deviation = float(variance) ** 0.5
    assert not law_is_broken(lambda: noise.gaussian(variance), *gaussian_mass(float(variance)), deviation)


def test_a_wrong_scale_is_caught() -> None:
    noise = ExactNoise()
    for factor in (Fraction(8, 10), Fraction(12, 10)):
        assert law_is_broken(lambda f=factor: noise.laplace(10 * f), *laplace_mass(10.0), 10.0)
        assert law_is_broken(lambda f=factor: noise.gaussian(100 * f * f), *gaussian_mass(100.0), 10.0)


@pytest.mark.parametrize("make", [ExactNoise, lambda: SeededNoise(np.random.default_rng(7))], ids=["exact", "seeded"])
def test_choose_is_the_exponential_mechanism(make: Callable[[], NoiseSource]) -> None:
    noise, scores, scale = make(), [3, 0, 5, 4], Fraction(2)
    odds = np.exp(np.array(scores) / 2)
    chances = odds / odds.sum()
    trials = 2500
    hits = np.bincount([noise.choose(scores, scale) for _ in range(trials)], minlength=4)
    for hit, chance in zip(hits, chances, strict=True):
        assert not surprising(int(hit), trials, float(chance))


def test_scales_are_rounded_up_never_down() -> None:
    for number in (Fraction(1, 3), Fraction(2, 3), Fraction(10**20 + 1, 7)):
        assert Fraction(float_above(number)) >= number
        assert Fraction(root_above(number)) ** 2 >= number


def test_impossible_scales_are_refused() -> None:
    for scale in (Fraction(0), Fraction(-1), Fraction(2**60)):
        with pytest.raises(PrivacyParameterError, match="outside"):
            ExactNoise().laplace(scale)


def test_a_forked_child_shares_no_noise() -> None:
    noise = ExactNoise()
    for _ in range(600):
        noise.laplace(Fraction(10**6))  # a block of draws now waits in memory
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, ",".join(str(noise.laplace(Fraction(10**6))) for _ in range(20)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 10_000).decode().split(",")
    ours = [str(noise.laplace(Fraction(10**6))) for _ in range(20)]
    assert len(theirs) == 20
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) <= 1


def test_there_is_one_door() -> None:
    assert exact_noise() is exact_noise()
