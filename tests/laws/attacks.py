"""Laws of every attack, each with its liar of `attacks_liars`.

from tests.laws.attacks import LAWS, Recipe
for law in LAWS:
    law.check(Recipe(MyAttack))
"""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.laws import attacks_liars as liars
from tests.laws.law import Law, Specimen

from keyhole.attacks.base import Attack, Measure, Target, guess_from_prior, resume_attack, save_attack
from keyhole.attacks.methods.bounded import Bounded
from keyhole.attacks.methods.convex import Convex
from keyhole.attacks.methods.extended_kaczmarz import ExtendedKaczmarz
from keyhole.attacks.methods.integer import Integer
from keyhole.attacks.methods.jacobi import Jacobi
from keyhole.attacks.methods.kaczmarz import Kaczmarz, RandomizedKaczmarz
from keyhole.attacks.methods.l1 import L1
from keyhole.attacks.methods.lbfgs import LBFGS
from keyhole.attacks.methods.least_squares import ConjugateGradient, LeastSquares
from keyhole.attacks.methods.sgd import SigmoidSGD
from keyhole.attacks.methods.sparse import BasisPursuit
from keyhole.attacks.problem.arrays import from_arrays, row_condition, split_into_blocks
from keyhole.attacks.replay import Tape, replay_tape
from keyhole.attacks.streaming import Streaming
from keyhole.errors import CannotHonour
from keyhole.gather.evidence import Bound, Evidence
from keyhole.model.prior import Prior
from keyhole.model.transcript import Noise

FREE = Prior()
GRID = Prior(Decimal(0), Decimal(5), Decimal(1))
HALF_OPEN = Prior(lo=Decimal(1))


@dataclass(frozen=True, slots=True)
class Recipe:
    """An attack to be checked: how it is made, the prior it needs, and how near "exact" is after convergence."""

    make: Callable[[Target], Attack]
    prior: Prior = FREE
    near: float = 1e-5
    passes: int = 5000
    common: float | None = None  # the value it takes for usual, where that is not the middle of the prior

    def fresh(self, evidence: Evidence) -> Attack:
        """A new attack on what the evidence is about."""
        return self.make(Target.of(evidence))

    def converged(self, evidence: Evidence) -> Attack:
        """An attack that has seen the evidence, a streaming one as often as it takes."""
        attack = self.fresh(evidence)
        if isinstance(attack, Streaming):
            with tempfile.TemporaryDirectory() as folder:
                tape = Tape.record(attack.target, [evidence], folder)
                replay_tape(attack, tape, passes=self.passes, tolerance=1e-9)
                del tape
        else:
            attack.observe(evidence)
        return attack


SPECIMENS: tuple[Specimen[Recipe], ...] = (
    Specimen("LeastSquares", Recipe(LeastSquares)),
    Specimen("Bounded", Recipe(Bounded, GRID)),
    Specimen("L1", Recipe(L1, GRID)),
    Specimen("Integer", Recipe(Integer, GRID)),
    Specimen("BasisPursuit", Recipe(BasisPursuit, GRID, common=0.0)),
    Specimen("Convex", Recipe(Convex, GRID)),
    Specimen("ConjugateGradient", Recipe(ConjugateGradient)),
    Specimen("LBFGS", Recipe(LBFGS, GRID)),
    Specimen("Jacobi", Recipe(Jacobi, GRID)),
    Specimen("ExtendedKaczmarz", Recipe(ExtendedKaczmarz)),
    Specimen("Kaczmarz", Recipe(lambda t: Kaczmarz(t, rng=np.random.default_rng(3)))),
    Specimen("RandomizedKaczmarz", Recipe(lambda t: RandomizedKaczmarz(t, rng=np.random.default_rng(3)))),
    Specimen("SigmoidSGD", Recipe(lambda t: SigmoidSGD(t, rate=0.05, rng=np.random.default_rng(3)), GRID, near=1e-4)),
)


def _log(seed: int, n: int, m: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A random log of full column rank about whole numbers from 1 to 4."""
    rng = np.random.default_rng(seed)
    while True:
        A = rng.integers(0, 2, (m, n))
        if m < n or np.linalg.matrix_rank(A) == n:
            return A, rng.integers(1, 5, n)


def _evidence(A: NDArray[Any], x: NDArray[Any], prior: Prior) -> Evidence:
    return from_arrays(A, (A @ x).tolist(), prior=prior)


def chunking_changes_nothing(recipe: Recipe) -> None:
    """Blocks of one, of three and the whole log give one estimate."""
    A, x = _log(1, 6, 10)
    whole = recipe.fresh(evidence := _evidence(A, x, recipe.prior))
    whole.observe(evidence)
    expected = whole.estimate().values
    for size in (1, 3):
        attack = recipe.fresh(evidence)
        for block in split_into_blocks(evidence, size):
            attack.observe(block)
        found = attack.estimate().values
        assert np.allclose(found, expected, atol=10 * recipe.near), f"blocks of {size}: {found} != {expected}"


def an_estimate_is_pure(recipe: Recipe) -> None:
    """Asking twice gives the same, and asking changes nothing that comes later."""
    A, x = _log(2, 6, 9)
    first, second = split_into_blocks(_evidence(A, x, recipe.prior), 5)
    asked, silent = recipe.fresh(first), recipe.fresh(first)
    asked.observe(first)
    silent.observe(first)
    a, b = asked.estimate(), asked.estimate()
    assert np.array_equal(a.values, b.values), f"two estimates differ: {a.values} != {b.values}"
    assert np.array_equal(a.confidence, b.confidence), "two estimates differ in their confidence"
    asked.observe(second)
    silent.observe(second)
    assert np.array_equal(asked.estimate().values, silent.estimate().values), "an estimate changed what came later"


def before_any_evidence_the_prior_is_the_estimate(recipe: Recipe) -> None:
    """Nothing observed, and an empty log observed, both give the prior."""
    empty = from_arrays(np.zeros((0, 4)), [], prior=recipe.prior)
    expected = guess_from_prior(Target.of(empty))
    attack = recipe.fresh(empty)
    assert np.array_equal(attack.estimate().values, expected.values), "a fresh attack does not say the prior"
    attack.observe(empty)
    found = attack.estimate()
    assert np.allclose(found.values, expected.values), f"an empty log gives {found.values}, not {expected.values}"


def a_record_that_no_row_touches_keeps_its_prior_guess(recipe: Recipe) -> None:
    """Exact or noisy answers about others say nothing of it: the prior's middle, or the value of the grid there."""
    A, x = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 1, 0, 0]]), np.array([1, 4, 2, 3, 1])
    tried = 0
    for prior in (recipe.prior, FREE, GRID, HALF_OPEN):
        for noise in (None, Noise("gaussian", Fraction(1, 10)), Noise("laplace", Fraction(1, 10))):
            evidence = from_arrays(A, (A @ x).tolist(), noise=noise, prior=prior)
            try:
                found = recipe.converged(evidence).estimate().values[3:]
            except CannotHonour:  # it needs a range, or cannot keep to one
                continue
            target = Target.of(evidence)
            guess = guess_from_prior(target).values[3:]
            if recipe.common is not None:
                guess = np.clip(np.full(2, recipe.common), target.lower, target.upper)
            kept = np.allclose(found, guess, atol=1e-6) or np.array_equal(found, target.snap(guess))
            assert kept, f"{prior}, {noise}: {found} where nothing was asked, not {guess}"
            tried += 1
    assert tried, "every prior was refused: the law was not tried"


def relabelled_records_get_relabelled_estimates(recipe: Recipe) -> None:
    """Renumbering the records renumbers the guesses and changes nothing else."""
    A, x = _log(3, 6, 4)  # underdetermined: what is not known must not depend on the numbering either
    turned = np.random.default_rng(0).permutation(6)
    plain = recipe.converged(_evidence(A, x, recipe.prior)).estimate().values
    other = recipe.converged(_evidence(A[:, turned], x[turned], recipe.prior)).estimate().values
    assert np.allclose(other, plain[turned], atol=0.01), f"{other} != {plain[turned]}"


def an_exact_log_of_full_rank_gives_exact_recovery(recipe: Recipe) -> None:
    """After convergence every value is right."""
    for seed in (4, 5):
        A, x = _log(seed, 7, 16)
        found = recipe.converged(_evidence(A, x, recipe.prior)).estimate()
        assert np.allclose(found.values, x, atol=recipe.near), f"{found.values} != {x} ({found.status.value})"


def saved_and_resumed_equals_uninterrupted(recipe: Recipe) -> None:
    """Half a log, a save, a new attack, the other half: as if nothing had happened."""
    A, x = _log(6, 6, 12)
    first, second = split_into_blocks(_evidence(A, x, recipe.prior), 6)
    through, before, after = (recipe.fresh(first) for _ in range(3))
    through.observe(first)
    through.observe(second)
    before.observe(first)
    with tempfile.TemporaryDirectory() as folder:
        save_attack(before, f"{folder}/half.npz")
        resume_attack(after, f"{folder}/half.npz")
    after.observe(second)
    a, b = through.estimate(), after.estimate()
    assert np.array_equal(a.values, b.values), f"{b.values} != {a.values}"
    assert np.array_equal(a.confidence, b.confidence), "the confidence was not restored"


def memory_of_a_stream_stays_flat(recipe: Recipe) -> None:
    """After a warm-up, five hundred more answers take no more room. (Streaming attacks only.)"""
    A, x = _log(7, 6, 20)
    parts = split_into_blocks(_evidence(A, x, recipe.prior), 4)
    attack = recipe.fresh(parts[0])
    if not isinstance(attack, Streaming):
        return
    for part in parts * 4:
        attack.observe(part)
    tracemalloc.start()
    try:
        for part in parts:
            attack.observe(part)
        gc.collect()  # what nobody holds any more is no memory
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(25):
            for part in parts:
                attack.observe(part)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000, f"500 answers added {after - before} bytes"


def what_it_is_sure_of_is_right(recipe: Recipe) -> None:
    """On exact answers, a stated certainty is true, and what nothing determines is not called certain."""
    A = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1], [1, 0, 0, 0, 1, 0]])
    x = np.array([4, 3, 1, 2, 3, 4])
    found = recipe.converged(_evidence(A, x, recipe.prior)).estimate()
    assert found.confidence.shape == (6,), "a confidence per record"
    sure = found.confidence > 0.99 if found.measure is Measure.PROBABILITY else found.confidence < 5e-3
    assert sure[1], f"record 1 is determined, and it is not sure of it: {found.confidence[1]}"
    assert np.allclose(found.values[sure], x[sure], atol=10 * recipe.near), "sure of a wrong value"
    assert not sure[[0, 2, 3, 4, 5]].any(), f"sure of records that nothing determines: {found.confidence}"


def known_noise_is_outvoted(recipe: Recipe) -> None:
    """With the noise stated, a long log brings the guesses nearer to the truth than the noise is wide."""
    rng = np.random.default_rng(8)
    A, x = _log(8, 6, 240)
    y = A @ x + rng.normal(0.0, 1.0, len(A))
    evidence = from_arrays(A, y.round(6).tolist(), noise=Noise("gaussian", Fraction(1)), prior=recipe.prior)
    found = recipe.converged(evidence).estimate()
    error = float(np.abs(found.values - x).mean())
    assert error < 0.5, f"mean error {error:.3f} after 240 answers with noise 1: {found.values} for {x}"


def a_stated_certainty_is_worth_what_it_says(recipe: Recipe) -> None:
    """Over many noisy logs: a probability is the share that is right, a standard error the size of the error."""
    said, came, measure = [], [], Measure.STANDARD_ERROR
    for seed in range(24):
        rng = np.random.default_rng(seed)
        A, x = _log(100 + seed, 8, 24)[0], rng.integers(0, 6, 8)
        y = A @ x + rng.normal(0.0, 1.5, len(A))
        evidence = from_arrays(A, y.round(6).tolist(), noise=Noise("gaussian", Fraction(3, 2)), prior=recipe.prior)
        found = recipe.converged(evidence).estimate()
        measure = found.measure
        said.append(found.confidence)
        came.append(np.abs(found.values - x))
    stated, missed = np.concatenate(said), np.concatenate(came)
    stated, missed = stated[np.isfinite(stated)], missed[np.isfinite(stated)]  # "unknown" claims nothing
    if not len(stated):
        return
    if measure is Measure.PROBABILITY:
        right = float((missed < 1e-6).mean())
        assert abs(float(stated.mean()) - right) < 0.1, f"says {stated.mean():.3f}, and {right:.3f} are right"
        return
    ratio = float(np.sqrt(np.mean(missed**2) / np.mean(stated**2)))
    assert 0.7 < ratio < 1.25, f"errors are {ratio:.2f} times what is stated"


def knowledge_is_honoured_or_refused(recipe: Recipe) -> None:
    """A fact about one record is obeyed, or the attack says that it cannot."""
    A = np.array([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 1, 1]])
    evidence = _evidence(A, np.array([4, 1, 2, 3, 3]), recipe.prior)
    system = evidence.systems[0]
    fact = Bound("x", row_condition(1), Fraction(3), None, 1)  # the first record is at least 3
    told = replace(
        evidence, systems=(replace(system, constraints=(system.constraints[0], system.constraints[2]), bounds=(fact,)),)
    )
    try:
        found = recipe.converged(told).estimate()
    except CannotHonour:
        return
    assert found.values[0] >= 3 - 1e-6, f"told that the first value is at least 3, it says {found.values[0]}"


def _liar(make: type[LeastSquares | liars.KeepsEveryRow]) -> tuple[Specimen[Recipe], ...]:
    return (Specimen(make.__name__, Recipe(make)),)


LAWS: tuple[Law[Recipe], ...] = (
    Law(chunking_changes_nothing, _liar(liars.LastBlockOnly)),
    Law(an_estimate_is_pure, _liar(liars.Restless)),
    Law(before_any_evidence_the_prior_is_the_estimate, _liar(liars.Opinionated)),
    Law(a_record_that_no_row_touches_keeps_its_prior_guess, _liar(liars.Gossip)),
    Law(relabelled_records_get_relabelled_estimates, _liar(liars.Snob)),
    Law(an_exact_log_of_full_rank_gives_exact_recovery, _liar(liars.Sloppy)),
    Law(saved_and_resumed_equals_uninterrupted, _liar(liars.Amnesiac)),
    Law(memory_of_a_stream_stays_flat, _liar(liars.KeepsEveryRow)),
    Law(what_it_is_sure_of_is_right, _liar(liars.Boaster)),
    Law(known_noise_is_outvoted, _liar(liars.Naive)),
    Law(a_stated_certainty_is_worth_what_it_says, (*_liar(liars.Overconfident), *_liar(liars.Diffident))),
    Law(knowledge_is_honoured_or_refused, _liar(liars.HearsNoFacts)),
)
