"""Values on a grid, 0/1, categories, private conditions: the marginal posterior of every record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyhole.attacks.base import Floats, Measure, Reconstruction, Target
from keyhole.attacks.batch import BatchAttack, find_culprits, form_dense_design, name_answer
from keyhole.attacks.estimates.posterior import (
    EVERY_VALUE,
    build_units,
    compute_features,
    find_allowed_values,
    list_declared_values,
    merge_categories,
)
from keyhole.attacks.problem.decoding_problem import Problem
from keyhole.errors import CannotHonour, ContradictionError
from keyhole.solve.decode.posterior import Marginals, compute_marginals
from keyhole.solve.status import SolverStatus


class Integer(BatchAttack):
    """The column has finitely many values, and the attack knows it: P(value | all answers) for every record.

    Exact, interval and noisy answers, sums, counts under private conditions, MIN, MAX and quantiles enter one model
    with the declared base rates. Each component of records that answers tie together is computed by the most exact
    way that fits: every table looked at (or listed by CP-SAT), chains of tables with swaps, expectation propagation;
    `note` says for how many records which. Records that no answer touches keep their prior. The guess is a number's
    posterior median, a category's most probable value, with its probability: no attack has a smaller mean absolute
    error under that prior, and on 0/1 and categories none is right for more records. Needs values, or min, max and
    step. Honours facts.
    References: cohen2018, garfinkel2019, geman1984, minka2001.

    >>> from decimal import Decimal
    >>> from keyhole.attacks.problem.arrays import from_arrays
    >>> from keyhole.model.prior import Prior
    >>> e = from_arrays(np.array([[1, 1, 0], [0, 1, 1]]), [2, 1], prior=Prior(Decimal(0), Decimal(1), Decimal(1)))
    >>> attack = Integer(Target.of(e))
    >>> attack.observe(e)
    >>> found = attack.estimate()
    >>> found.values.tolist(), found.confidence.tolist(), found.status.value
    ([1.0, 1.0, 0.0], [1.0, 1.0, 1.0], 'optimal')
    """

    name: ClassVar[str] = "integer"
    honours: ClassVar[frozenset[str]] = frozenset(
        {"bounds", "facts", "one-sided answers", "clamped answers", "order statistics"}
    )

    def __init__(self, target: Target, *, seconds: float = 8.0) -> None:
        super().__init__(target)
        if target.categories is None and target.levels is None:
            raise CannotHonour(
                f"integer needs the grid of {target.column!r}: give min, max and step (0, 1 and 1 for yes/no), "
                "or take bounded"
            )
        if (target.levels or 0) > EVERY_VALUE:
            raise CannotHonour(
                f"integer tabulates every value; {target.column!r} has {target.levels}: take bounded, or a wider step"
            )
        self.seconds = seconds

    def prior(self, problem: Problem) -> Reconstruction:
        """Before any sum or count: the declared value that the base rates and the facts make the best guess."""
        chances = problem.target.rates[None, :] * find_allowed_values(problem)
        chances = chances / chances.sum(axis=1, keepdims=True)
        guess, best = _guess(problem, chances)
        sure = chances[np.arange(problem.K), best]
        return Reconstruction(
            guess[problem.of], sure[problem.of], 0.0, SolverStatus.PRIOR, Measure.PROBABILITY, unread=problem.unread
        )

    def _solve(self, problem: Problem) -> Reconstruction:
        model = build_units(problem)
        rng = np.random.default_rng(problem.m)
        try:
            found = compute_marginals(model.units, rng=rng, seconds=self.seconds, watch=self.watch)
        except MemoryError:
            raise CannotHonour(
                f"integer cannot hold {model.units.count} groups at once: take bounded, lbfgs or kaczmarz"
            ) from None
        if found.impossible is not None:
            tied = list(dict.fromkeys(name_answer(model.names[j]) for j in found.impossible))
            ranked = any(j >= model.linear for j in found.impossible)  # culprits are looked for among sums alone
            shown = tied[:12] if ranked else find_culprits(problem, form_dense_design(problem, self.name)) or tied[:12]
            raise ContradictionError(
                f"no values of {self.target.column!r} that were declared explain the answers to {', '.join(shown)} "
                "together: one is wrong, noise was added (state it: --noise laplace:2, or --noise auto), or the "
                "declared values are not all"
            )
        chances = model.chances(problem.K, found.chances)
        # an approximation takes no one-sided count in
        loose = tuple(o.number for o in problem.order) if "approximated" in found.ways else ()
        return _reconstruction(problem, found, chances, tuple(dict.fromkeys((*model.unread, *loose))))


def _merge(problem: Problem, chances: Floats, merged: Mapping[str, str]) -> Floats:
    """Categories under one name count together: the first of them has the chance of all."""
    names = [merged.get(str(value), str(value)) for value in list_declared_values(problem)]
    together = np.zeros_like(chances)
    for j, name in enumerate(names):
        together[:, names.index(name)] += chances[:, j]
    return together


def _guess(problem: Problem, chances: Floats) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The median of numbers, the most probable category of every atom, and which value that is."""
    values = list_declared_values(problem)
    if problem.target.categories is None:
        best = (np.cumsum(chances, axis=1) < 0.5 - 1e-9).sum(axis=1)  # the median
        best = np.minimum(best, len(values) - 1)
        guess = problem.target.snap(values.astype(np.float64)[best])
    else:
        best = chances.argmax(axis=1)
        guess = values[best]
    guess[problem.absent] = None if guess.dtype == object else np.nan
    return guess, best


def _reconstruction(
    problem: Problem, found: Marginals, chances: Floats, unread: tuple[str, ...] = ()
) -> Reconstruction:
    merged = merge_categories(problem)
    chances = _merge(problem, chances, merged) if merged else chances
    guess, best = _guess(problem, chances)
    for j, value in enumerate(guess.tolist() if merged else ()):
        guess[j] = merged.get(value, value)
    sure = np.minimum(chances[np.arange(problem.K), best], 1.0)
    settled = bool((chances.max(axis=1) > 1 - 1e-9)[~problem.absent].all())
    note = _note(found, settled=settled)
    residual = problem.residual(_fitted(problem, np.eye(chances.shape[1])[best]), _numbers(problem, guess))
    if residual > 1e-9:
        best_of = "the median" if problem.target.categories is None else "the most probable"
        note += f"; each guess is {best_of} of its own record, together they need not meet the answers"
    status = _status(found)
    made = guess[problem.of], sure[problem.of], residual, status, Measure.PROBABILITY, note, unread
    return Reconstruction(*made, merged)


def _numbers(problem: Problem, guess: NDArray[Any]) -> Floats | None:
    """The guess of every atom, of columns that order statistics are about."""
    return None if problem.target.categories is not None else np.asarray(guess, dtype=np.float64)


def _fitted(problem: Problem, chances: Floats) -> Floats:
    """Expected answers where every record has these chances of its values."""
    phi, _ = compute_features(problem, list_declared_values(problem))
    return np.asarray(problem.design() @ (phi @ chances.T).ravel())


_WORDS = {
    "enumerated": "posterior over every table that is possible",
    "sampled": "posterior from chains of tables",
    "approximated": "posterior by expectation propagation",
}

_SHARED = "the answers give what each group of records has together, not who has which"


def _note(found: Marginals, *, settled: bool) -> str:
    """`settled`: every record has one value left. One state of every group need not be one table: totals are shared."""
    kinds = [way for way in _WORDS if way in found.ways]
    if found.stopped:
        return "stopped: groups not yet computed keep their known range"
    if kinds == ["enumerated"]:
        if found.tables == 1:
            return "the only table that meets every answer" if settled else f"{_WORDS['enumerated']}: {_SHARED}"
        return f"{_WORDS['enumerated']} ({found.tables} of them)"
    return ", ".join(f"{_WORDS[way]} ({found.ways[way]} groups)" for way in kinds)


def _status(found: Marginals) -> SolverStatus:
    if found.stopped:
        return SolverStatus.INTERRUPTED
    if "approximated" in found.ways:
        return SolverStatus.APPROXIMATED
    return SolverStatus.SAMPLED if "sampled" in found.ways else SolverStatus.OPTIMAL
