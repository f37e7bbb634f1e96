"""The hospital, and how many questions sparse and 0/1 secrets need."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import keyhole
from keyhole.attacks.base import Attack, Target
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.convex import Convex
from keyhole.attacks.methods.extended_kaczmarz import ExtendedKaczmarz
from keyhole.attacks.methods.integer import Integer
from keyhole.attacks.methods.jacobi import Jacobi
from keyhole.attacks.methods.kaczmarz import Kaczmarz
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.methods.lbfgs import LBFGS
from keyhole.attacks.methods.least_squares import ConjugateGradient, LeastSquares
from keyhole.attacks.methods.sgd import SigmoidSGD
from keyhole.attacks.methods.sparse import BasisPursuit
from keyhole.attacks.problem.arrays import from_arrays, row_condition
from keyhole.attacks.replay import Order, Tape, replay_tape
from keyhole.attacks.streaming import Streaming
from keyhole.errors import CannotHonour, LogError
from keyhole.gather.evidence import Bound, Evidence
from keyhole.model.prior import Prior

A = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 1, 0]])
Y = [32.1, 15.5, 11.4]
LEAST_NORM = [5.7, 5.2, 5.1666667, 5.1666667, 5.7, 5.1666667]


def hospital(prior: Prior | None = None, first_at_most: int | None = None) -> Evidence:
    """The three questions; a fact about the first record makes it an atom of its own."""
    evidence = from_arrays(np.vstack([A, [1, 0, 0, 0, 0, 0]]), [*Y, 0.0], prior=prior)
    system = evidence.systems[0]
    fact = () if first_at_most is None else (Bound("x", row_condition(3), None, Fraction(first_at_most), 1),)
    return replace(evidence, systems=(replace(system, constraints=system.constraints[:3], bounds=fact),))


def walked(attack: Attack, evidence: Evidence, passes: int = 4000, order: Order = "cyclic") -> np.ndarray:
    if isinstance(attack, Streaming):
        with tempfile.TemporaryDirectory() as folder:
            tape = Tape.record(attack.target, [evidence], folder)
            replay_tape(attack, tape, passes=passes, order=order, rng=np.random.default_rng(1))
            del tape
    else:
        attack.observe(evidence)
    return attack.estimate().values


@pytest.mark.parametrize("make", [LeastSquares, ConjugateGradient, Kaczmarz, LBFGS, ExtendedKaczmarz])
def test_minimum_norm(make: type[LeastSquares]) -> None:
    evidence = hospital()
    assert walked(make(Target.of(evidence)), evidence) == pytest.approx(LEAST_NORM, abs=1e-6)


@pytest.mark.parametrize("order", ["random", "norm"])
def test_minimum_norm_whatever_the_order_of_the_replay(order: Order) -> None:
    evidence = hospital()
    assert walked(Kaczmarz(Target.of(evidence)), evidence, order=order) == pytest.approx(LEAST_NORM, abs=1e-6)


@pytest.mark.parametrize("make", [Bounded, L1, BasisPursuit, Convex, LBFGS, Jacobi, Kaczmarz])
def test_with_knowledge_every_answer_lies_in_the_exact_ranges(make: type[Bounded]) -> None:
    evidence = hospital(Prior(Decimal(3)), 5)
    _in_range(walked(make(Target.of(evidence)), evidence))


def test_with_knowledge_the_grid_and_the_box_too() -> None:
    grid = hospital(Prior(Decimal(3), Decimal(10), Decimal("0.1")), 5)
    _in_range(walked(Integer(Target.of(grid)), grid))
    box = hospital(Prior(Decimal(3), Decimal(10)), 5)
    _in_range(walked(SigmoidSGD(Target.of(box)), box))


def _in_range(x: np.ndarray) -> None:
    ranges = [(3, 5), (5.2, 5.2), (3, 9.5), (3, 9.5), (6.4, 8.4), (3, 9.5)]
    for value, (lo, hi) in zip(x, ranges, strict=True):
        assert lo - 1e-5 <= value <= hi + 1e-5, x


def test_least_norm_under_the_fact() -> None:
    evidence = hospital(None, 5)
    found = walked(Convex(Target.of(evidence)), evidence)
    assert found == pytest.approx([5, 5.2, 5.1666667, 5.1666667, 6.4, 5.1666667], abs=1e-5)


@pytest.mark.parametrize("make", [LeastSquares, ConjugateGradient, ExtendedKaczmarz])
def test_methods_that_cannot_honour_a_fact_say_so(make: type[LeastSquares]) -> None:
    evidence = hospital(None, 5)
    with pytest.raises(CannotHonour, match="facts"):
        make(Target.of(evidence)).observe(evidence)


def test_sigmoid_gradient_tends_to_its_own_limit() -> None:
    evidence = hospital(Prior(Decimal(3), Decimal(10)), 5)
    limit = [4.0702, 5.2, 5.1667, 5.1667, 7.3298, 5.1667]
    thousand = walked(SigmoidSGD(Target.of(evidence)), evidence, passes=334)
    assert thousand == pytest.approx(limit, abs=0.01)
    assert walked(SigmoidSGD(Target.of(evidence), rate=0.001), evidence, passes=12_000) == pytest.approx(
        limit, abs=2e-4
    )


@pytest.mark.parametrize(("m", "share"), [(12, 0.23), (16, 0.70), (20, 1.0)])
def test_four_sparse_values_among_64_records(m: int, share: float) -> None:
    right = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = np.zeros(64)
        x[rng.choice(64, 4, replace=False)] = rng.normal(size=4)
        Q = rng.integers(0, 2, (m, 64))
        evidence = from_arrays(Q, (Q @ x).tolist())
        right += bool(np.abs(walked(BasisPursuit(Target.of(evidence)), evidence) - x).max() < 1e-4)
    assert abs(right / 30 - share) <= 0.25, right / 30  # two standard deviations of a share of 30


@pytest.mark.parametrize(("m", "share"), [(20, 0.0), (32, 0.47), (40, 1.0)])
def test_64_bits_from_a_box_and_rounding(m: int, share: float) -> None:
    right = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, Q = rng.integers(0, 2, 64), rng.integers(0, 2, (m, 64))
        evidence = from_arrays(Q, (Q @ x).tolist(), prior=Prior(Decimal(0), Decimal(1)))
        right += bool((np.round(walked(Bounded(Target.of(evidence)), evidence)) == x).all())
    assert right / 30 >= share - 0.2, right / 30
    assert m >= 28 or right == 0


def test_extremes_and_the_median_move_the_guesses_and_the_sums_are_still_met() -> None:
    log = [
        ("SELECT SUM(pay) FROM t WHERE team = 'a'", 30),
        ("SELECT SUM(pay) FROM t", 150),
        ("SELECT SUM(pay) FROM t WHERE name IN ('Ann', 'Cyd')", 40),
        ("SELECT MAX(pay) FROM t WHERE team = 'b'", 50),
        ("SELECT MIN(pay) FROM t WHERE team = 'b'", 30),
        ("SELECT MEDIAN(pay) FROM t WHERE team = 'b'", 40),
    ]
    people = pa.table({"name": ["Ann", "Bob", "Cyd", "Dan", "Eve"], "team": ["a", "a", "b", "b", "b"]})
    found = keyhole.attack(log, data=people, id="name", private="pay:0..100")
    guess, (lo, hi) = found.estimates(), found.ranges["pay"]
    assert lo == pytest.approx([0, 20, 30, 30, 30])
    assert hi == pytest.approx([10, 30, 40, 50, 50])
    assert ((guess >= lo) & (guess <= hi)).all()
    assert [guess[:2].sum(), guess[[0, 2]].sum(), guess.sum()] == pytest.approx([30, 40, 150], abs=1e-4)
    errors = found.found[0][2].confidence  # no smaller than that of a value even in its range, none larger than it
    assert errors == pytest.approx([10 / 12**0.5] * 3 + [(400 / 12 + 2.5**2) ** 0.5] * 2, abs=1e-2)


def test_an_answer_that_floating_point_cannot_square_is_one_sentence() -> None:
    with pytest.raises(
        LogError, match=r"^query 1: the answer, or its noise, is too large to compute with \(above 1e\+60\)$"
    ):
        keyhole.attack([("SELECT SUM(pay) FROM t", 1e308)], data=pa.table({"name": ["a", "b"]}), private="pay:0..9")
