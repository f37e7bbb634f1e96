"""Values outside a declared range, under noise: said aloud; and never said of values inside it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

from keyhole.attacks.base import Target
from keyhole.attacks.choose import run_attack
from keyhole.attacks.problem.arrays import from_arrays
from keyhole.model.prior import Prior
from keyhole.model.transcript import Noise

UNIT = Prior(Decimal(0), Decimal(1))


def warned(seed: int, beyond: float) -> bool:
    rng = np.random.default_rng(seed)
    A, x = rng.integers(0, 2, (200, 20)), rng.random(20)
    x[0] += beyond
    y = A @ x + rng.normal(0, 0.3, 200)
    e = from_arrays(A, y.tolist(), noise=Noise("gaussian", Fraction("0.3")), prior=UNIT)
    choice, _ = run_attack("bounded", Target.of(e), e)
    return any("THE DECLARED RANGE" in said for said in choice.noise)


def test_a_value_well_outside_is_said() -> None:
    assert all(warned(seed, 1.5) for seed in range(6))


def test_values_inside_are_not() -> None:
    assert not any(warned(seed, 0.0) for seed in range(30))


def test_bits_at_the_ends_are_inside() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A, x = rng.integers(0, 2, (80, 20)), rng.integers(0, 2, 20)
        y = A @ x + rng.laplace(0, 1, 80)
        prior = Prior(Decimal(0), Decimal(1), Decimal(1))
        e = from_arrays(A, y.tolist(), noise=Noise("laplace", Fraction(1)), prior=prior)
        assert not run_attack("bounded", Target.of(e), e)[0].noise
